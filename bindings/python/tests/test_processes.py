"""Volumes in a child of fork, and Ctrl-C while a process waits for a lock."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings

import pytest
from conftest import SIZE

import ffs

WHY = "opened by another process; open it again here"


def names(volume):
    return set(volume.listdir("/")) - {".snap"}


def in_child(work):
    """Runs `work` in a child of fork. The child ends like a program: objects are collected."""
    with warnings.catch_warnings():
        # Python warns of a fork beside other threads, as this test makes one.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            work()
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def uses(volume, raw, entries):
    """Every kind of use of what the parent has opened."""
    for use in (
        lambda: volume.mkdir("/child"),
        lambda: volume.listdir("/"),
        lambda: list(volume.walk("/")),
        lambda: volume.exists("/f"),
        lambda: volume.open("/f"),
        lambda: volume.write_text("/f", "child"),
        volume.sync,
        volume.close,
        lambda: raw.write(b"child"),
        lambda: raw.pread(1, 0),
        raw.sync,
        lambda: next(entries),
    ):
        with pytest.raises(ValueError, match=WHY):
            use()
    assert not volume.closed


def test_a_child_does_not_use_or_write_the_volume_of_its_parent(image):
    volume = ffs.open(image, "r+")
    volume.mkdir("/d")
    raw = volume.open("/f", "w+b", 0)
    raw.write(b"parent")
    entries = volume.scandir("/")
    held = [volume, raw, entries]
    before = image.read_bytes()

    def work():
        uses(volume, raw, entries)
        # Nothing refers to the volume any more, so it is dropped here.
        raw.close()
        entries.close()
        del held[:]
        forget()
        with pytest.raises(OSError, match="in use"):
            ffs.open(image)

    def forget():
        nonlocal volume, raw, entries
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            volume = raw = entries = None
            gc.collect()

    in_child(work)
    assert image.read_bytes() == before
    raw.write(b" again")
    raw.close()
    entries.close()
    volume.close()
    assert ffs.fsck(image).consistent
    with ffs.open(image) as volume:
        assert names(volume) == {"d", "f"}
        assert volume.read_bytes("/f") == b"parent again"


def test_a_child_that_leaves_a_with_block_changes_nothing(image):
    child = 0
    before = None
    try:
        with ffs.open(image, "r+") as volume:
            volume.mkdir("/d")
            before = image.read_bytes()
            child = os.fork()
            if child == 0:
                raise SystemExit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            assert image.read_bytes() == before
            volume.mkdir("/e")
    except BaseException as error:  # noqa: BLE001
        if child != 0 or before is None:
            raise
        os._exit(error.code if isinstance(error, SystemExit) else 1)
    assert ffs.fsck(image).consistent
    with ffs.open(image) as volume:
        assert names(volume) == {"d", "e"}


def test_a_child_takes_no_lock_of_its_parent(image):
    done = threading.Event()
    with (
        ffs.open(image, "r+") as volume,
        volume.open("/f", "w+b", 0) as raw,
        volume.scandir("/") as entries,
    ):

        def work(path):
            while not done.is_set():
                raw.write(b"x")
                volume.mkdir(path)
                volume.rmdir(path)

        threads = [threading.Thread(target=work, args=(path,)) for path in ("/d", "/e")]
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                in_child(lambda: uses(volume, raw, entries))
        finally:
            done.set()
            for thread in threads:
                thread.join()
    assert ffs.fsck(image).consistent


def report(results, image, inherited):
    try:
        inherited.listdir("/")
    except ValueError as error:
        results.put(str(error))
    with ffs.open(image) as volume:
        results.put(names(volume))


def test_processes_of_multiprocessing_open_the_image_themselves(image):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with ffs.open(image, "r+") as volume:
        volume.mkdir("/d")
    with ffs.open(image) as volume:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = context.Process(target=report, args=(results, image, volume))
            child.start()
        assert WHY in results.get(timeout=60)
        assert results.get(timeout=60) == {"d"}
        child.join(60)
        assert child.exitcode == 0
        assert names(volume) == {"d"}
    results.close()
    results.join_thread()


WAITS = """
import signal, sys, ffs
# A process in the background ignores the signal, and then Python installs no handler.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("waits", flush=True)
ffs.open(sys.argv[1], lock_timeout=60)
"""


def test_control_c_ends_the_wait_for_a_lock(image):
    with ffs.open(image, "r+"):
        words = [sys.executable, "-c", WAITS, os.fspath(image)]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            try:
                assert isinstance(child.stdout, io.TextIOBase)
                assert child.stdout.readline() == "waits\n"
                time.sleep(0.3)
                begin = time.monotonic()
                child.send_signal(signal.SIGINT)
                _, errors = child.communicate(timeout=20)
            finally:
                child.kill()
        assert "KeyboardInterrupt" in errors
        # Python exits as a shell expects it: killed by the signal.
        assert child.returncode == -signal.SIGINT
        assert time.monotonic() - begin < 10


def test_the_wait_for_a_lock_ends_after_its_time(image):
    with ffs.open(image, "r+"):
        begin = time.monotonic()
        with pytest.raises(OSError, match=r"in use by .*\(waited 1 s\)") as raised:
            ffs.open(image, lock_timeout=1.2)
        assert 1.2 <= time.monotonic() - begin < 10
        assert raised.value.filename == image


def test_the_wait_for_a_lock_ends_when_it_is_free(image):
    volume = ffs.open(image, "r+")
    timer = threading.Timer(0.4, volume.close)
    timer.start()
    with ffs.open(image, "r+", lock_timeout=60) as other:
        other.mkdir("/d")
    timer.join()
    with pytest.raises(ValueError, match="lock_timeout"):
        ffs.open(image, lock_timeout=-1)


KILLED = """
import os, signal, sys, ffs
volume = ffs.open(sys.argv[1], "r+")
volume.mkdir("/d")
volume.write_bytes("/d/f", b"durable")
volume.sync()
volume.write_bytes("/d/g", b"lost or kept")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["soft updates", "journal", "neither"])
def test_what_a_killed_process_leaves(tmp_path, kind):
    image = tmp_path / "disk.img"
    ffs.newfs(image, SIZE, soft_updates=kind != "neither", journal=kind == "journal")
    words = [sys.executable, "-c", KILLED, os.fspath(image)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    if kind == "soft updates":
        ffs.open(image, "r+").close()
    else:
        with pytest.raises(OSError, match="fsck"):
            ffs.open(image, "r+")
    mended = ffs.fsck(image, preen=kind != "neither", repair=kind == "neither")
    assert mended.exit_code == 0, [finding.text for finding in mended.findings]
    assert ffs.fsck(image).consistent
    with ffs.open(image, "r+") as volume:
        assert volume.read_bytes("/d/f") == b"durable"
