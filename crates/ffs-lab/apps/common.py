"""What the programs share: content that follows from a seed, and durable files.

A program is an object with
  name, what    its name and its description, for tables
  promise       "durable": each acknowledged step survives and the data can be used;
                "usable": the data can be used; "none": the program promises nothing
  version()     the version on this machine; raises if it is missing
  setup(home, seed)          prepares the directory for the recorded run
  start(home, seed)          an object with step(n), which does step n
  check(home, seed, acked)   how many of steps 0 to acked-1 are lost; raises if the data cannot be
                             used. One more step may have been under way.
"""
import hashlib
import os
import random


class Broken(Exception):
    """The data cannot be used, or contains data that was never stored."""


def content(seed, step, length=None):
    """The bytes of a step; their length follows from it, too, unless it is given."""
    draw = random.Random(f"{seed}/{step}")
    if length is None:
        length = draw.choice((100, 700, 3000, 9000, 20000))
    block = hashlib.sha256(f"{seed}/{step}".encode()).hexdigest().encode()
    return (block * (length // len(block) + 1))[:length]


def fsync_dir(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_file(path, data, sync=True, exclusive=True):
    flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if exclusive else os.O_TRUNC)
    fd = os.open(path, flags, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view):]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def read_file(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
