"""Damaged and truncated images: an exception, and never more."""

from __future__ import annotations

import gc
import random

import pytest

import ffs


def everything(path):
    """Reads all of an image, as far as it can be read."""
    with ffs.open(path) as volume:
        errors = []
        for top, directories, files in volume.walk(b"/", onerror=errors.append):
            for name in directories + files:
                full = top.rstrip(b"/") + b"/" + name
                for read in (volume.lstat, volume.listxattr, volume.readlink):
                    try:
                        repr(read(full))
                    except OSError as error:
                        errors.append(error)
            for name in files:
                try:
                    with volume.open(top.rstrip(b"/") + b"/" + name, "rb") as file:
                        file.read(1 << 20)
                except (OSError, MemoryError) as error:
                    errors.append(error)
        volume.statvfs()
        return errors


@pytest.fixture
def filled(image):
    with ffs.open(image, "r+") as volume:
        volume.makedirs("/a/b")
        for number in range(40):
            volume.write_bytes(f"/a/b/{number}", random.Random(number).randbytes(number * 3000))
            volume.setxattr(f"/a/b/{number}", "user.x", b"v" * number)
        volume.symlink("b/3", "/a/link")
    return image.read_bytes()


def test_truncated_images(filled, tmp_path):
    path = tmp_path / "truncated.img"
    for size in (0, 1, 511, 8192, 65535, 65536, 66000, 131072, 1 << 20, len(filled) - 1):
        path.write_bytes(filled[:size])
        try:
            everything(path)
        except (OSError, ValueError) as error:
            assert str(error)
        for work in (ffs.fsck, ffs.dumpfs):
            try:
                work(path)
            except OSError as error:
                assert error.errno


def test_noise(tmp_path):
    path = tmp_path / "noise.img"
    for size in (100, 1 << 16, 1 << 20):
        path.write_bytes(random.Random(size).randbytes(size))
        with pytest.raises(OSError):
            ffs.open(path)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_metadata(filled, tmp_path, seed):
    generator = random.Random(seed)
    raw = bytearray(filled)
    used = [at for at in range(0, len(raw), 512) if any(raw[at : at + 512])]
    for _ in range(200):
        at = generator.choice(used) + generator.randrange(512)
        raw[at] = generator.randrange(256)
    path = tmp_path / "damaged.img"
    path.write_bytes(raw)
    try:
        everything(path)
    except OSError as error:
        assert error.errno
    report = ffs.fsck(path, repair=True)
    if report.exit_code == 0:
        assert not everything(path) or ffs.fsck(path).consistent


def test_objects_without_their_volume(image):
    with ffs.open(image, "r+") as volume:
        volume.write_bytes("/f", b"x")
    volume = ffs.open(image)
    file = volume.open("/f", "rb", 0)
    entry = next(entry for entry in volume.scandir("/") if entry.name == "f")
    volume.close()
    for use in (
        file.read,
        file.stat,
        entry.stat,
        volume.sync,
        volume.statvfs,
        volume.sysctl,
        volume.counters,
        lambda: volume.open("/f"),
        lambda: list(volume.walk("/")),
        lambda: volume.copy_out("/", "/tmp"),
    ):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert entry.is_file()
    # A file keeps a volume that nothing else refers to.
    volume = ffs.open(image)
    file = volume.open("/f", "rb", 0)
    del volume
    gc.collect()
    assert file.read() == b"x"
    file.close()
    with ffs.open(image, "r+"):
        pass
