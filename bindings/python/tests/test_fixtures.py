"""Images of real BSD systems, against the lists of their content."""

from __future__ import annotations

import codecs
import csv
import hashlib
import stat

import pytest
from conftest import fixture, fixtures

import ffs

# Files that take too long to read are compared by their attributes alone.
LARGEST = 300 << 20
KINDS = {
    "file": stat.S_IFREG,
    "dir": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "chr": stat.S_IFCHR,
    "blk": stat.S_IFBLK,
    "sock": stat.S_IFSOCK,
}


def listed(name):
    """The rows of a list, with paths as bytes."""
    with open(fixture(name), newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield codecs.escape_decode(row["path"].encode())[0], row


def names():
    directory = fixtures()
    if directory is None:
        return []
    found = directory.glob("*.expected.tsv")
    return sorted(path.name.removesuffix(".expected.tsv") for path in found)


@pytest.mark.parametrize(
    "name", [name for name in names() if ".view-" not in name and "after" not in name]
)
def test_the_tree_is_what_the_list_has(name):
    image = fixture(f"{name}.img.zst")
    paths = set()
    with ffs.open(image) as volume:
        for path, row in listed(f"{name}.expected.tsv"):
            paths.add(path)
            check(volume, path, row)
        if name != "nb-ufs2-crash":
            walked = {b"/"}
            for top, directories, files in volume.walk(b"/"):
                walked |= {top.rstrip(b"/") + b"/" + entry for entry in directories + files}
            assert walked == paths


def check(volume, path, row):
    own = volume.lstat(path)
    assert stat.S_IFMT(own.st_mode) == KINDS[row["type"]], path
    assert stat.S_IMODE(own.st_mode) == int(row["mode"], 8), path
    assert (own.st_uid, own.st_gid) == (int(row["uid"]), int(row["gid"])), path
    assert (own.st_nlink, own.st_ino) == (int(row["nlink"]), int(row["inode"])), path
    assert own.st_mtime_ns == int(row["mtime"]) * 10**9 + int(row["mtime_nsec"]), path
    assert own.st_flags == int(row["flags_hex"], 16), path
    if row["type"] in ("file", "symlink"):
        assert own.st_size == int(row["size"]), path
    if row["sha256"] == "-" or own.st_size > LARGEST:
        return
    if row["type"] == "symlink":
        content = volume.readlink(path)
        assert hashlib.sha256(content).hexdigest() == row["sha256"], path
    elif row["type"] == "file":
        with volume.open(path, "rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == row["sha256"], path


@pytest.mark.parametrize("name", ["freebsd14-ufs2-le-4m", "freebsd14-ufs2-be-4m"])
def test_extended_attributes(name):
    names = {}
    with ffs.open(fixture(f"{name}.img.zst")) as volume:
        for path, row in listed(f"{name}.xattrs.tsv"):
            space = {"1": "user", "2": "system"}[row["namespace"]]
            full = f"{space}.{row['name']}"
            if path not in names:
                names[path] = set(volume.listxattr(path))
            assert full in names[path]
            value = volume.getxattr(path, full)
            assert len(value) == int(row["length"])
            assert hashlib.sha256(value).hexdigest() == row["sha256"]


@pytest.mark.parametrize("view", ["s1", "s2"])
def test_snapshots(view):
    image = fixture("nb-ufs2-snap.img.zst")
    with ffs.open(image, snapshot=f"/.snap/{view}") as volume:
        for path, row in listed(f"nb-ufs2-snap.view-{view}.expected.tsv"):
            check(volume, path, row)


@pytest.mark.parametrize(
    "name", ["freebsd14-ufs2-le-4m", "freebsd14-ufs2-be-4m", "nb-ufs1-8k1k-be"]
)
def test_volumes_of_bsd_are_changed_and_stay_consistent(name, tmp_path, command):
    image = tmp_path / "disk.img"
    # Decompression is the command's: Python has none for zstd.
    packed = fixture(f"{name}.img.zst")
    unpack(packed, image)
    with ffs.open(image, "r+") as volume:
        volume.makedirs("/new/dir")
        volume.write_bytes("/new/dir/f", b"x" * 100_000)
        volume.rmtree("/new/dir")
        volume.write_text("/new/g", "text")
    assert not [f for f in ffs.fsck(image, force=True).findings if f.severity == "fatal"]
    assert command("cat", f"{image}:/new/g") == "text"


def unpack(packed, image):
    import shutil
    import subprocess

    program = shutil.which("zstd")
    if program is None:
        pytest.skip("no program zstd")
    subprocess.run([program, "-q", "-d", packed, "-o", image], check=True)
