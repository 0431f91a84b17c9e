#!/usr/bin/env python3
"""Durable operations on a directory, by several writers, for a given time.

usage: durable.py DIR WORKLOAD WRITERS SECONDS DISK-STAT

Each writer is a process with its own directory below DIR. The program prints one line: the number of
operations (each durable when its call returned), seconds, and the number of flushes that the disk
completed in that time. DISK-STAT is the `stat` file of the disk in /sys/block. The directories are
removed after the measured time.
"""
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import time

CONTENT = b"d" * 4096


def fsync_dir(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_durable(path, data=CONTENT):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


class Files:
    """Small files: create, write, fsync, close."""

    def __init__(self, home):
        self.home, self.n = home, 0

    def step(self):
        write_durable(f"{self.home}/f{self.n}")
        self.n += 1


class FilesAndDirectory(Files):
    """The same, and an fsync of the directory after each."""

    def step(self):
        super().step()
        fsync_dir(self.home)


class Maildir:
    """Deliveries: write and fsync a file in tmp, rename it to new, fsync new."""

    def __init__(self, home):
        self.home, self.n = home, 0
        for name in ("tmp", "new", "cur"):
            os.mkdir(f"{home}/{name}")

    def step(self):
        name = f"{self.n}.host"
        write_durable(f"{self.home}/tmp/{name}")
        os.rename(f"{self.home}/tmp/{name}", f"{self.home}/new/{name}")
        fsync_dir(f"{self.home}/new")
        self.n += 1


class Git:
    """Commits of one changed file; git syncs everything that it writes (core.fsync=all)."""

    def __init__(self, home):
        self.home, self.n = home, 0
        self.env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null",
                        GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a",
                        GIT_COMMITTER_EMAIL="a@b")
        self.git("init", "-q", "-b", "main")
        for name, value in (("core.fsync", "all"), ("gc.auto", "0"), ("maintenance.auto", "false")):
            self.git("config", name, value)
        with open(f"{home}/file", "wb"):
            pass
        self.git("add", "file")

    def git(self, *words):
        subprocess.run(("git",) + words, cwd=self.home, env=self.env, check=True,
                       stdout=subprocess.DEVNULL)

    def step(self):
        with open(f"{self.home}/file", "wb") as file:
            file.write(b"%d\n" % self.n)
        self.git("commit", "-q", "-a", "-m", "c")
        self.n += 1


class Sqlite:
    """Transactions of one row, synchronous=FULL."""

    def __init__(self, home, journal):
        self.n = 0
        self.base = sqlite3.connect(f"{home}/base", isolation_level=None)
        self.base.execute(f"PRAGMA journal_mode={journal}")
        self.base.execute("PRAGMA synchronous=FULL")
        self.base.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, v BLOB)")

    def step(self):
        self.base.execute("INSERT INTO t VALUES (?, ?)", (self.n, CONTENT[:200]))
        self.n += 1


WORKLOADS = {
    "files": Files,
    "files+dir": FilesAndDirectory,
    "git": Git,
    "sqlite-delete": lambda home: Sqlite(home, "DELETE"),
    "sqlite-wal": lambda home: Sqlite(home, "WAL"),
    "maildir": Maildir,
}


def flushes(stat):
    """The number of flush requests that the disk has completed: the 16th field."""
    with open(stat) as file:
        fields = file.read().split()
    return int(fields[15]) if len(fields) > 15 else 0


def write(home, make, seconds, barrier, results):
    os.mkdir(home)
    workload = make(home)
    # The first operation is not measured: it creates files that later ones use.
    workload.step()
    barrier.wait()
    began, done = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        workload.step()
        done += 1
    results.put((done, began, time.monotonic()))


def main():
    directory, name, writers, seconds, stat = sys.argv[1:]
    make, writers, seconds = WORKLOADS[name], int(writers), float(seconds)
    homes = [f"{directory}/{name}.{number}" for number in range(writers)]
    fork = multiprocessing.get_context("fork")
    barrier, results = fork.Barrier(writers + 1), fork.Queue()
    workers = [fork.Process(target=write, args=(home, make, seconds, barrier, results))
               for home in homes]
    for worker in workers:
        worker.start()
    barrier.wait(timeout=120)
    before = flushes(stat)
    ended = [results.get(timeout=seconds * 20 + 120) for _ in workers]
    after = flushes(stat)
    for worker in workers:
        worker.join()
    elapsed = max(end for _, _, end in ended) - min(begin for _, begin, _ in ended)
    print(sum(done for done, _, _ in ended), f"{elapsed:.4f}", after - before)
    for home in homes:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
