"""newfs, build, fsck and dumpfs, beside the command `ffs`; trees; snapshots; partitions."""

from __future__ import annotations

import errno
import json
import os
import tarfile

import pytest
from conftest import SIZE, tree

import ffs


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, ["-U"]),
        ({}, []),
        ({"soft_updates": False}, ["-u"]),
        ({"soft_updates": True}, ["-U"]),
        ({"format": 1}, ["-O1"]),
        ({"format": 1, "soft_updates": True}, ["-O1", "-U"]),
        (
            {"format": 1, "block_size": 16384, "fragment_size": 2048},
            ["-O1", "-b16384", "-f2048"],
        ),
        ({"big_endian": True, "label": "home"}, ["-U", "--endian=big", "-Lhome"]),
        ({"density": 65536, "minfree": 5, "no_snap": True}, ["-U", "-i65536", "-m5", "-n"]),
    ],
)
def test_newfs_makes_the_bytes_of_the_command(tmp_path, command, options, flags):
    ours, theirs = tmp_path / "ours.img", tmp_path / "theirs.img"
    ffs.newfs(ours, SIZE, reproducible=True, **options)
    command("newfs", "-R", *flags, "-s", f"{SIZE // 512}", theirs)
    assert ours.read_bytes() == theirs.read_bytes()
    assert ffs.fsck(ours).consistent


def test_newfs_with_a_journal(tmp_path, command):
    image = tmp_path / "journal.img"
    ffs.newfs(image, 64 << 20, journal=True)
    assert "soft-updates" in ffs.dumpfs(image)["superblock"]["flags"]
    assert json.loads(command("dumpfs", "-s", "--json", image)) == ffs.dumpfs(image)
    with ffs.open(image, "r+") as volume:
        volume.mkdir("/d")
    assert ffs.fsck(image).consistent


def test_newfs_refuses(tmp_path, image):
    before = image.read_bytes()
    with pytest.raises(FileExistsError):
        ffs.newfs(image, SIZE)
    assert image.read_bytes() == before
    for wrong in ({"block_size": 7}, {"label": "a/b"}):
        with pytest.raises(OSError) as caught:
            ffs.newfs(tmp_path / "x.img", SIZE, **wrong)
        assert caught.value.errno == errno.EINVAL
    with pytest.raises(OSError):
        ffs.newfs(tmp_path / "x.img", 4096)
    with pytest.raises(ValueError):
        ffs.newfs(tmp_path / "x.img", SIZE, format=3)
    assert not (tmp_path / "x.img").exists()


@pytest.fixture
def source(tmp_path):
    """A tree of the host."""
    top = tmp_path / "source"
    (top / "dir/sub").mkdir(parents=True)
    (top / "dir/file").write_bytes(b"content" * 5000)
    (top / "dir/link").symlink_to("file")
    os.link(top / "dir/file", top / "second")
    (top / os.fsdecode(b"\xff")).write_bytes(b"name")
    for path in [*top.rglob("*"), top]:
        os.utime(path, ns=(10**18, 10**18 + 7), follow_symlinks=False)
    return top


def test_build_makes_the_bytes_of_the_command(tmp_path, command, source):
    ours, theirs = tmp_path / "ours.img", tmp_path / "theirs.img"
    built = ffs.build(ours, source, free=1 << 20, owner=(0, 0), source_date_epoch=10**9)
    os.environ["SOURCE_DATE_EPOCH"] = str(10**9)
    try:
        printed = json.loads(
            command("build", "--owner", "0:0", "--free", "1m", "--json", theirs, source)
        )
    finally:
        del os.environ["SOURCE_DATE_EPOCH"]
    assert ours.read_bytes() == theirs.read_bytes()
    assert (built.size, built.free) == (printed["size"], printed["free"])
    assert built.report.files == 2 and built.report.hard_links == 1 and built.format == 2
    with ffs.open(ours) as volume:
        assert volume.stat("/second").st_nlink == 2
        assert volume.read_bytes(b"/\xff") == b"name"
    with pytest.raises(FileExistsError):
        ffs.build(ours, source)
    ffs.build(ours, source, force=True, format=1)
    with pytest.raises(FileNotFoundError):
        ffs.build(tmp_path / "x.img", tmp_path / "none")
    with pytest.raises(ValueError):
        ffs.build(tmp_path / "x.img", [])
    with pytest.raises(OSError) as caught:
        ffs.build(tmp_path / "x.img", source, size=65536)
    assert caught.value.errno in (errno.ENOSPC, errno.EINVAL)
    assert not (tmp_path / "x.img").exists()


def test_build_takes_archives_in_layers(tmp_path, source):
    archive, image = tmp_path / "a.tar.gz", tmp_path / "disk.qcow2"
    member = tmp_path / "motd"
    member.write_text("Welcome\n")
    with tarfile.open(archive, "w:gz") as out:
        out.add(member, "dir/motd")
    ffs.build(image, [source, archive])
    assert image.read_bytes()[:4] == b"QFI\xfb"
    with ffs.open(image) as volume:
        assert volume.read_text("/dir/motd") == "Welcome\n" and volume.exists("/dir/file")


def test_build_refuses_formats_that_are_only_read(tmp_path, source):
    with pytest.raises(ValueError, match="raw or qcow2"):
        ffs.build(tmp_path / "disk.vmdk", source)
    assert not (tmp_path / "disk.vmdk").exists()


def test_trees_go_in_and_out(volume, source, tmp_path):
    report = volume.copy_in(source)
    assert (report.files, report.hard_links, report.failed) == (2, 1, 0)
    out = tmp_path / "out"
    out.mkdir()
    report = volume.copy_out("/dir", out)
    assert report.files == 1 and (out / "file").read_bytes() == b"content" * 5000
    assert (out / "file").stat().st_mtime_ns == 10**18 + 7
    volume.copy_in(tmp_path / "source/dir/file", "/dir/sub")
    assert volume.isfile("/dir/sub/file")
    volume.write_text("/dir/file", "mine")
    volume.copy_in(source, existing="keep")
    assert volume.read_text("/dir/file") == "mine"
    with pytest.raises(ValueError, match="existing"):
        volume.copy_in(source, existing="merge")
    with pytest.raises(FileNotFoundError):
        volume.copy_in(tmp_path / "none")
    volume.chflags("/dir/file", "schg")
    with pytest.raises(ffs.CopyError, match="dir/file") as caught:
        volume.copy_in(source)
    assert caught.value.report.failed >= 1 and caught.value.report.skipped
    assert volume.copy_in(source, check=False).failed >= 1
    volume.chflags("/dir/file", 0)


def test_fsck_finds_and_repairs_damage(image, command):
    with ffs.open(image, "r+") as volume:
        volume.mkdir("/d")
        for number in range(20):
            volume.write_bytes(f"/d/{number}", b"x" * 5000)
        ino = volume.stat("/d/7").st_ino
    raw = bytearray(image.read_bytes())
    # The link count of an inode, two bytes behind its mode, and nothing else.
    sb = ffs.dumpfs(image)["superblock"]["fields"]
    group, index = divmod(ino, sb["ipg"])
    place = (group * sb["fpg"] + sb["iblkno"]) * sb["fsize"] + index * 256 + 2
    assert raw[place : place + 2] == b"\x01\x00"
    raw[place : place + 2] = b"\x05\x00"
    image.write_bytes(raw)
    report = ffs.fsck(image, force=True)
    printed = command("fsck", "-n", "-f", "--json", image, code=report.exit_code)
    printed = json.loads(printed)
    assert report.raw["findings"] == printed["findings"] and report.counts == printed["counts"]
    assert not report.consistent and not report.modified
    assert {"LINK-HIGH", "INO-HASH"} & set(report.counts)
    repaired = ffs.fsck(image, repair=True)
    assert repaired.modified and all(finding.repaired for finding in repaired.findings)
    assert ffs.fsck(image).consistent and ffs.fsck(image, preen=True).skipped
    with pytest.raises(ValueError):
        ffs.fsck(image, preen=True, repair=True)


def test_dumpfs_is_that_of_the_command(image, command):
    assert ffs.dumpfs(image) == json.loads(command("dumpfs", "-s", "--json", image))
    assert ffs.dumpfs(image, groups=True) == json.loads(command("dumpfs", "--json", image))


def test_the_command_reads_what_python_wrote(image, command):
    with ffs.open(image, "r+") as volume:
        volume.makedirs("/a/b")
        volume.write_text("/a/b/f", "text\n")
    assert command("cat", f"{image}:/a/b/f") == "text\n"
    command("mkdir", f"{image}:/by-command")
    with ffs.open(image) as volume:
        assert volume.isdir("/by-command")


def test_snapshots(image, command):
    with ffs.open(image, "r+") as volume:
        volume.write_text("/f", "before")
    command("snapshot", "create", f"{image}:/.snap/s1")
    with ffs.open(image, "r+") as volume:
        volume.write_text("/f", "after")
    with ffs.open(image, snapshot="/.snap/s1") as volume:
        assert volume.read_text("/f") == "before"
        with pytest.raises(OSError):
            volume.mkdir("/x")
    for wrong, number in (("/f", errno.EINVAL), ("/none", errno.ENOENT)):
        with pytest.raises(OSError) as caught:
            ffs.open(image, snapshot=wrong)
        assert caught.value.errno == number
    with pytest.raises(OSError) as caught:
        ffs.open(image, "r+", snapshot="/.snap/s1")
    assert caught.value.errno == errno.EROFS


def test_partitions(tmp_path, source, command):
    disk = tmp_path / "whole.img"
    command("newfs", "-s", "32m", tmp_path / "part.img")
    raw = tmp_path / "part.img"
    # A disk with one partition of an MBR, type a5, that begins at sector 2048.
    sectors = raw.stat().st_size // 512
    entry = bytes([0, 0, 0, 0, 0xA5, 0, 0, 0]) + (2048).to_bytes(4, "little")
    table = bytes(446) + entry + sectors.to_bytes(4, "little") + bytes(48) + b"\x55\xaa"
    disk.write_bytes(table + bytes(2047 * 512) + raw.read_bytes())
    with ffs.open(disk, "r+", partition=1) as volume:
        volume.copy_in(source)
        first = tree(volume)
    with ffs.open(disk) as volume:
        assert tree(volume) == first
    assert ffs.fsck(disk, partition=1).consistent
    assert ffs.dumpfs(disk, partition=1)["superblock"]
    with pytest.raises(OSError):
        ffs.open(disk, partition=3)
