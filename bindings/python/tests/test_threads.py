"""One volume in several threads, and Ctrl-C during long operations."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import ffs


def test_threads_share_a_volume(volume):
    def work(number):
        volume.mkdir(f"/{number}")
        for i in range(40):
            path = f"/{number}/{i}"
            volume.write_bytes(path, os.fsencode(path) * i)
            with volume.open(path, "ab") as file:
                file.write(b"end")
            volume.rename(path, path + "x")
            assert volume.read_bytes(path + "x") == os.fsencode(path) * i + b"end"
        return sorted(volume.listdir(f"/{number}"))

    with ThreadPoolExecutor(8) as pool:
        for names in pool.map(work, range(8)):
            assert names == sorted(f"{i}x" for i in range(40))


def test_threads_share_a_file(volume):
    content = os.urandom(1 << 20)
    volume.write_bytes("/f", content)
    with volume.open("/f", "rb", 0) as raw, ThreadPoolExecutor(4) as pool:
        step = 4096
        parts = pool.map(lambda at: raw.pread(step, at), range(0, len(content), step))
        assert b"".join(parts) == content


def test_a_volume_that_is_closed_meanwhile(image):
    volume = ffs.open(image, "r+")
    volume.write_bytes("/f", b"x" * 100_000)
    failures = []

    def work():
        try:
            while True:
                volume.read_bytes("/f")
                volume.write_bytes("/g", b"y" * 50_000)
                with volume.scandir("/") as entries:
                    list(entries)
        except (ValueError, OSError):
            pass
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    volume.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert not failures
    assert ffs.fsck(image).consistent


def test_other_threads_run_during_an_operation(image, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(300):
        (source / str(number)).write_bytes(b"x" * 10_000)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    with ffs.open(image, "r+") as volume:
        begin = time.monotonic()
        volume.copy_in(source)
        end = time.monotonic()
    done.set()
    thread.join()
    # One call of the native part ran all the time.
    assert len([at for at in ticks if begin < at < end]) >= min(3, (end - begin) / 0.005 - 1)


def test_control_c_ends_a_build(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3000):
        (source / f"{number:04}").write_bytes(b"x" * 30_000)
    main = threading.get_ident()
    # A process in the background ignores the signal, and then Python installs no handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.15, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ffs.build(tmp_path / "disk.img", source)
            # The build was faster than the signal.
            time.sleep(5)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".disk")]
    assert left == []
