"""Open files, beside those of Python on the host."""

from __future__ import annotations

import builtins
import csv
import errno
import io
import json
import random
import sqlite3
import tarfile
import zipfile

import pytest

import ffs

MODES = [
    kind + plus + binary
    for kind in "rwax"
    for plus in ("", "+")
    for binary in ("", "b", "t")
] + ["br", "r+b", "rb+", "U", "", "rw", "rbt", "rr", "+", "b", "z", "r++"]


def attempt(work):
    """The result, or the class and the errno of the exception."""
    try:
        return work()
    except (OSError, ValueError) as error:
        kind = OSError if isinstance(error, OSError) else type(error)
        number = None if isinstance(error, io.UnsupportedOperation) else error
        return kind, getattr(number, "errno", None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("exists", [False, True])
def test_modes_are_those_of_open(volume, tmp_path, mode, exists):
    host = tmp_path / "f"
    if exists:
        host.write_bytes(b"one\ntwo\n")
        volume.write_bytes("/f", b"one\ntwo\n")
    data = "new\n" if "b" not in mode else b"new\n"

    def use(opener, path):
        with opener(path, mode) as file:
            result = [file.readable(), file.writable(), file.seekable(), file.mode]
            result.append(attempt(lambda: file.read(2)))
            file.seek(0)
            result.append(attempt(lambda: file.write(data)))
            result.append(attempt(lambda: file.seek(0, io.SEEK_CUR)))
            file.seek(0)
            result.append(attempt(file.readline))
            return result

    ours = attempt(lambda: use(volume.open, "/f"))
    theirs = attempt(lambda: use(builtins.open, host))
    assert ours == theirs
    content = volume.read_bytes("/f") if volume.exists("/f") else None
    assert content == (host.read_bytes() if host.exists() else None)


def test_random_operations_are_those_of_open(volume, tmp_path):
    generator = random.Random(2002)
    for buffering in (-1, 0, 7, 4096):
        host = tmp_path / f"f{buffering}"
        with (
            builtins.open(host, "w+b", buffering=buffering) as theirs,
            volume.open(f"/f{buffering}", "w+b", buffering) as ours,
        ):
            for _ in range(400):
                where, count = generator.randrange(300_000), generator.randrange(70_000)
                step = generator.randrange(5)
                if step == 0:
                    data = generator.randbytes(count)
                    assert ours.write(data) == theirs.write(data)
                elif step == 1:
                    assert ours.read(count) == theirs.read(count)
                elif step == 2:
                    assert ours.seek(where) == theirs.seek(where)
                elif step == 3:
                    assert ours.truncate(where) == theirs.truncate(where)
                else:
                    one, other = bytearray(count), bytearray(count)
                    assert ours.readinto(one) == theirs.readinto(other) and one == other
        assert volume.read_bytes(f"/f{buffering}") == host.read_bytes()


def test_libraries_of_python_use_the_files(volume):
    with volume.open("/x.json", "w") as file:
        json.dump({"a": [1, "ü"]}, file, ensure_ascii=False)
    with volume.open("/x.json") as file:
        assert json.load(file) == {"a": [1, "ü"]}
    with volume.open("/x.csv", "w", newline="") as file:
        csv.writer(file).writerows([["a", "b"], ["1", "2\n3"]])
    with volume.open("/x.csv", newline="") as file:
        assert list(csv.reader(file)) == [["a", "b"], ["1", "2\n3"]]
    with volume.open("/x.zip", "w+b") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("inside", "text" * 1000, zipfile.ZIP_DEFLATED)
    with volume.open("/x.zip", "rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("inside") == b"text" * 1000
    with volume.open("/x.tar.gz", "wb") as file:
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            member = tarfile.TarInfo("member")
            member.size = 5
            archive.addfile(member, io.BytesIO(b"hello"))
    with volume.open("/x.tar.gz", "rb") as file, tarfile.open(fileobj=file) as archive:
        assert archive.extractfile("member").read() == b"hello"
    database = sqlite3.connect(":memory:")
    database.execute("create table t (a)")
    volume.write_bytes("/x.db", database.serialize())
    database.close()
    copy = sqlite3.connect(":memory:")
    copy.deserialize(volume.read_bytes("/x.db"))
    assert copy.execute("select name from sqlite_master").fetchall() == [("t",)]
    copy.close()


def test_text(volume):
    with volume.open("/t", "w", encoding="latin-1", newline="\r\n") as file:
        file.write("ä\nb\n")
        assert file.mode == "w" and file.name == "/t"
    assert volume.read_bytes("/t") == b"\xe4\r\nb\r\n"
    with volume.open("/t", encoding="latin-1") as file:
        assert list(file) == ["ä\n", "b\n"]
    with pytest.raises(UnicodeDecodeError):
        volume.read_text("/t")
    assert volume.read_text("/t", errors="replace") == "\ufffd\nb\n"
    for wrong in ({"buffering": 0}, {"mode": "rb", "encoding": "utf-8"}):
        with pytest.raises(ValueError):
            volume.open("/t", **wrong)


def test_raw_files(volume):
    with volume.open("/f", "w+b", 0) as raw:
        assert isinstance(raw, ffs.RawFile) and isinstance(raw, io.RawIOBase)
        assert raw.write(memoryview(b"0123456789")) == 10
        assert raw.write(bytearray(b"ab")) == 2
        assert raw.pread(4, 8) == b"89ab" and raw.pread(9, 100) == b""
        assert raw.seek(0, io.SEEK_CUR) == 12
        raw.seek(0)
        numbers = memoryview(bytearray(8)).cast("I")
        assert raw.readinto(numbers) == 8 and bytes(numbers) == b"01234567"
        assert raw.readall() == b"89ab" and raw.readall() == b""
        raw.allocate(0, 1 << 20)
        assert raw.stat().st_size == 1 << 20 and raw.stat().st_blocks >= 2048
        raw.punch_hole(0, 1 << 19)
        assert raw.stat().st_blocks < 2048 and raw.pread(2, 0) == b"\0\0"
        raw.sync()
        raw.sync(data_only=True)
        with pytest.raises(io.UnsupportedOperation):
            raw.fileno()
        with pytest.raises(OSError) as caught:
            raw.seek(-1)
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(ValueError):
            raw.seek(0, 9)
        with pytest.raises((TypeError, ValueError, BufferError)):
            raw.readinto(b"bytes do not change")
        with pytest.raises(TypeError):
            raw.write("text")
    for use in (raw.read, raw.readable, raw.seekable, raw.stat, raw.sync, lambda: raw.write(b"")):
        with pytest.raises(ValueError, match="closed"):
            use()
    raw.close()
    with volume.open("/f", "rb", 0) as raw:
        with pytest.raises(io.UnsupportedOperation):
            raw.write(b"x")
        with pytest.raises(io.UnsupportedOperation):
            raw.truncate(0)


def test_huge_reads_take_no_more_than_the_file(volume):
    volume.write_bytes("/f", b"x" * 100)
    with volume.open("/f", "rb", 0) as raw:
        assert raw.pread(1 << 62, 50) == b"x" * 50
        assert raw.pread(1 << 62, (1 << 64) - 1) == b""
        with pytest.raises(OverflowError):
            raw.pread(1 << 70, 0)
    with volume.open("/sparse", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(MemoryError, match="in parts"):
        volume.read_bytes("/sparse")
    with volume.open("/sparse", "rb", 0) as raw:
        with pytest.raises(MemoryError):
            raw.readall()
        with pytest.raises(MemoryError):
            raw.pread(1 << 62, 0)
        buffer = bytearray(5 << 20)
        assert raw.readinto(buffer) == 5 << 20 and not any(buffer)


def test_closing_a_volume_flushes_its_files(image):
    volume = ffs.open(image, "r+")
    text = volume.open("/text", "w")
    text.write("in the buffer")
    binary = volume.open("/binary", "wb")
    binary.write(b"in the buffer")
    raw = volume.open("/raw", "wb", 0)
    entries = volume.scandir("/")
    volume.close()
    volume.close()
    assert text.closed and binary.closed and raw.closed and volume.closed
    with pytest.raises(ValueError, match="the volume is closed"):
        volume.listdir()
    with pytest.raises(ValueError):
        volume.__enter__()
    with pytest.raises(ValueError):
        text.write("more")
    assert list(entries) == []
    # The image is free although all these objects exist.
    with ffs.open(image, "r+") as again:
        assert again.read_text("/text") == "in the buffer"
        assert again.read_bytes("/binary") == b"in the buffer"


def test_an_error_of_a_flush_is_reported_and_the_volume_closed(image):
    volume = ffs.open(image, "r+")
    with pytest.raises(OSError) as caught:
        file = volume.open("/f", "wb", 64 << 20)
        file.write(b"x" * (20 << 20))
        volume.close()
    assert caught.value.errno == errno.ENOSPC and volume.closed
    assert ffs.fsck(image).consistent


def test_a_removed_file_stays_readable_while_it_is_open(volume):
    volume.write_bytes("/f", b"content")
    with volume.open("/f", "rb") as file:
        volume.remove("/f")
        assert file.read() == b"content"
