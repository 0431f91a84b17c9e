"""The methods of a volume, beside those of `os` on the host."""

from __future__ import annotations

import errno
import gc
import importlib.metadata
import os
import pathlib
import re
import stat

import pytest

import ffs


def test_names_and_attributes(volume):
    volume.mkdir("/etc")
    volume.mkdir("/private", 0o700)
    assert volume.write_text("/etc/motd", "Grüße\n") == 6
    assert volume.read_text("/etc/motd") == "Grüße\n"
    assert volume.read_bytes("/etc/motd") == "Grüße\n".encode()
    assert sorted(volume.listdir()) == [".snap", "etc", "private"]
    assert volume.listdir(b"/etc") == [b"motd"]
    assert volume.listdir(pathlib.PurePosixPath("/etc")) == ["motd"]
    own = volume.stat("/etc/motd")
    assert stat.S_ISREG(own.st_mode) and own.st_mode & 0o7777 == 0o644
    assert own.st_size == 8 and own.st_nlink == 1 and own.st_blksize == 32768
    assert own.st_blocks == 8 and own.st_ino > 2 and own.st_dev == 0 and own.st_flags == 0
    assert stat.S_IMODE(volume.stat("/private").st_mode) == 0o700
    assert "st_size=8" in repr(own)

    volume.link("/etc/motd", "/etc/second")
    assert volume.stat("/etc/second").st_nlink == 2
    volume.symlink("motd", "/etc/link")
    assert volume.readlink("/etc/link") == "motd" and volume.readlink(b"/etc/link") == b"motd"
    assert volume.lstat("/etc/link").st_size == 4 and volume.stat("/etc/link").st_size == 8
    volume.rename("/etc/second", "/etc/third")
    volume.replace("/etc/third", "/etc/motd2")
    volume.remove("/etc/motd2")
    volume.unlink("/etc/link")
    assert volume.listdir("/etc") == ["motd"]
    volume.makedirs("/a/b/c/")
    volume.makedirs("/a/b/c", exist_ok=True)
    with pytest.raises(FileExistsError):
        volume.makedirs("/a/b/c")
    volume.rmdir("/a/b/c")
    volume.rmtree("/a")
    assert not volume.exists("/a")
    for path, expected in (("/etc", "d"), ("/etc/motd", "f"), ("/etc/none", "")):
        kinds = (volume.isdir(path) and "d") or (volume.isfile(path) and "f") or ""
        assert kinds == expected and volume.exists(path) == bool(expected)


def test_changes_of_attributes(volume):
    volume.write_bytes("/f", b"12345")
    volume.chmod("/f", 0o4751)
    volume.chown("/f", 1000, -1)
    volume.chown("/f", -1, 70000)
    volume.utime("/f", ns=(-1, 1_700_000_000_123_456_789), birthtime_ns=5_000_000_001)
    volume.truncate("/f", 3)
    volume.utime("/f", ns=(-1, 1_700_000_000_123_456_789))
    own = volume.stat("/f")
    assert stat.S_IMODE(own.st_mode) == 0o4751 or stat.S_IMODE(own.st_mode) == 0o751
    assert (own.st_uid, own.st_gid, own.st_size) == (1000, 70000, 3)
    assert own.st_atime_ns == -1 and own.st_mtime_ns == 1_700_000_000_123_456_789
    assert own.st_birthtime_ns == 5_000_000_001 and own.st_birthtime == pytest.approx(5)
    volume.utime("/f", (1.5, 2))
    assert volume.stat("/f").st_atime_ns == 1_500_000_000
    assert volume.stat("/f").st_mtime == 2.0
    volume.utime("/f")
    assert volume.stat("/f").st_mtime_ns > 1_700_000_000_123_456_789
    with pytest.raises(ValueError):
        volume.utime("/f", (1, 2), ns=(1, 2))
    volume.chflags("/f", "uchg,nodump")
    assert volume.stat("/f").flag_names == "uchg,nodump"
    with pytest.raises(PermissionError):
        volume.remove("/f")
    volume.chflags("/f", "nouchg")
    assert volume.stat("/f").st_flags == 1
    volume.chflags("/f", 0)
    assert volume.stat("/f").flag_names == "-"
    with pytest.raises(ValueError, match="is not a flag"):
        volume.chflags("/f", "nosuchflag")
    volume.symlink("f", "/link")
    volume.chmod("/link", 0o700, follow_symlinks=False)
    volume.chown("/link", 5, 6, follow_symlinks=False)
    assert volume.lstat("/link").st_uid == 5 and volume.stat("/link").st_uid == 1000


def test_extended_attributes(volume):
    volume.write_bytes("/f", b"")
    volume.setxattr("/f", "user.note", b"\0value")
    volume.setxattr("/f", "system.note", b"other", os.XATTR_CREATE)
    assert volume.getxattr("/f", "user.note") == b"\0value"
    assert sorted(volume.listxattr("/f")) == ["system.note", "user.note"]
    with pytest.raises(FileExistsError):
        volume.setxattr("/f", "user.note", b"", os.XATTR_CREATE)
    volume.removexattr("/f", "user.note")
    with pytest.raises(OSError) as caught:
        volume.getxattr("/f", "user.note")
    assert caught.value.errno == errno.ENODATA
    with pytest.raises(OSError) as caught:
        volume.getxattr("/f", "note")
    assert caught.value.errno == errno.EOPNOTSUPP


def test_errors_have_the_classes_of_python(volume):
    volume.mkdir("/d")
    volume.write_bytes("/d/f", b"")
    for wrong, kind, number in (
        (lambda: volume.stat("/none"), FileNotFoundError, errno.ENOENT),
        (lambda: volume.mkdir("/d"), FileExistsError, errno.EEXIST),
        (lambda: volume.listdir("/d/f"), NotADirectoryError, errno.ENOTDIR),
        (lambda: volume.stat("/d/f/x"), NotADirectoryError, errno.ENOTDIR),
        (lambda: volume.open("/d"), IsADirectoryError, errno.EISDIR),
        (lambda: volume.open("/d", "w"), IsADirectoryError, errno.EISDIR),
        (lambda: volume.rmdir("/d"), OSError, errno.ENOTEMPTY),
        (lambda: volume.readlink("/d"), OSError, errno.EINVAL),
        (lambda: volume.mkdir("/" + "n" * 256), OSError, errno.ENAMETOOLONG),
        (lambda: volume.truncate("/d/f", 1 << 62), OSError, errno.EFBIG),
        (lambda: volume.utime("/d/f", ns=(0, 1 << 100)), OSError, errno.EINVAL),
        (lambda: volume.chown("/d/f", 1 << 40, 0), OSError, errno.EINVAL),
    ):
        with pytest.raises(kind) as caught:
            wrong()
        assert caught.value.errno == number, caught.value
    path = pathlib.PurePosixPath("/none")
    with pytest.raises(FileNotFoundError) as caught:
        volume.open(path)
    assert caught.value.filename is path
    with pytest.raises(FileNotFoundError) as caught:
        volume.rename(b"/none", b"/d/x")
    assert (caught.value.filename, caught.value.filename2) == (b"/none", b"/d/x")
    volume.symlink("loop", "/loop")
    with pytest.raises(OSError) as caught:
        volume.stat("/loop")
    assert caught.value.errno == errno.ELOOP and not volume.exists("/loop")
    for wrong in ("a\0b", b"a\0b"):
        with pytest.raises(ValueError, match="null"):
            volume.stat(wrong)
    with pytest.raises(TypeError):
        volume.stat(7)


def test_names_that_are_not_utf8(volume):
    name = b"/\xff\xfe\x80"
    volume.write_bytes(name, b"x")
    text = [entry for entry in volume.listdir() if entry != ".snap"]
    assert text == ["\udcff\udcfe\udc80"] and os.fsencode(text[0]) == name[1:]
    assert volume.read_bytes("/" + text[0]) == b"x"
    with volume.scandir(b"/") as entries:
        assert name in [entry.path for entry in entries]
    with pytest.raises(FileNotFoundError) as caught:
        volume.stat(b"/\xfe")
    assert caught.value.filename == b"/\xfe"
    volume.remove(name)


def test_scandir_is_like_os(volume, tmp_path):
    volume.makedirs("/d/sub")
    volume.write_bytes("/d/file", b"abc")
    volume.symlink("sub", "/d/to-dir")
    volume.symlink("none", "/d/to-none")
    host = tmp_path / "host"
    (host / "sub").mkdir(parents=True)
    (host / "file").write_bytes(b"abc")
    (host / "to-dir").symlink_to("sub")
    (host / "to-none").symlink_to("none")

    def described(entries):
        return sorted(
            (
                entry.name,
                entry.is_dir(),
                entry.is_dir(follow_symlinks=False),
                entry.is_file(),
                entry.is_symlink(),
                stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode),
            )
            for entry in entries
        )

    with volume.scandir("/d") as ours, os.scandir(host) as theirs:
        assert described(ours) == described(theirs)
    entries = volume.scandir("/d")
    first = next(entries)
    assert os.fspath(first) == first.path == "/d/" + first.name
    assert first.inode() == volume.lstat(first.path).st_ino and first.name in repr(first)
    entries.close()
    assert list(entries) == []
    # A file that was removed meanwhile is nothing.
    removed = next(entry for entry in volume.scandir("/d") if entry.name == "to-dir")
    volume.rmtree("/d")
    assert not removed.is_dir()
    with pytest.raises(FileNotFoundError):
        removed.stat()


def test_walk_is_like_os(volume, tmp_path):
    host = tmp_path / "host"
    for path in ("a/b/c", "a/d", "e"):
        (host / path).mkdir(parents=True)
        volume.makedirs(path)
    for path in ("a/one", "a/b/two", "e/three"):
        (host / path).write_bytes(b"")
        volume.write_bytes(path, b"")
    (host / "e/link").symlink_to("../a")
    volume.symlink("../a", "e/link")
    volume.rmdir("/.snap")
    for options in ({}, {"topdown": False}, {"followlinks": True}):
        ours = [(p, sorted(d), sorted(f)) for p, d, f in volume.walk("/", **options)]
        theirs = [
            ("/" + os.path.relpath(p, host).removeprefix("."), sorted(d), sorted(f))
            for p, d, f in os.walk(host, **options)
        ]
        assert sorted(ours) == sorted(theirs)
    order = [path for path, _, _ in volume.walk("/", topdown=False)]
    assert order[-1] == "/" and order.index("/a/b/c") < order.index("/a/b")
    # The list of directories chooses what is entered.
    visited = []
    for path, directories, _ in volume.walk(b"/"):
        visited.append(path)
        directories[:] = [name for name in directories if name == b"a"]
    assert visited == [b"/", b"/a"]
    errors = []
    assert list(volume.walk("/none", onerror=errors.append)) == []
    assert isinstance(errors[0], FileNotFoundError)


def test_a_circle_of_links_ends(volume):
    volume.mkdir("/d")
    volume.symlink("/d", "/d/self")
    errors = []
    walked = [path for path, _, _ in volume.walk("/d", followlinks=True, onerror=errors.append)]
    assert walked == ["/d"] and errors[0].errno == errno.ELOOP


def test_space(volume):
    space = volume.statvfs()
    assert space.f_frsize == 4096 and space.f_bsize == 32768 and space.f_namemax == 255
    assert 0 < space.f_bfree <= space.f_blocks and space.f_ffree < space.f_files
    assert space.f_flag == 0 and "f_bfree" in repr(space)


def test_a_full_volume(volume):
    with pytest.raises(OSError) as caught:
        volume.write_bytes("/big", b"x" * (20 << 20))
    assert caught.value.errno == errno.ENOSPC
    volume.remove("/big")


def test_user(image):
    with ffs.open(image, "r+") as volume:
        volume.mkdir("/private", 0o700)
    with ffs.open(image, "r", user=(1000, 1000)) as volume:
        with pytest.raises(PermissionError):
            volume.listdir("/private")


def test_the_version_is_that_of_the_package():
    assert ffs.__version__ == importlib.metadata.version("bsdffs")
    assert re.fullmatch(r"\d+\.\d+\.\d+(-\S+)?", ffs.__version__)


def test_opening(image, tmp_path):
    with pytest.raises(ValueError, match="r\\+"):
        ffs.open(image, "w")
    with pytest.raises(FileNotFoundError) as caught:
        ffs.open(tmp_path / "none")
    assert caught.value.filename == tmp_path / "none"
    with pytest.raises(ValueError):
        ffs.open(image, lock_timeout=-1)
    with ffs.open(image) as one, ffs.open(os.fsencode(image)) as two:
        assert one.listdir() == two.listdir()
        assert one.mode == "r" and two.image == os.fsencode(image)
        with pytest.raises(OSError) as caught:
            one.mkdir("/x")
        assert caught.value.errno == errno.EROFS
        with pytest.raises(OSError, match="in use"):
            ffs.open(image, "r+")
        with pytest.raises(OSError, match="in use"):
            ffs.open(image, "r+", lock_timeout=0.05)
    with ffs.open(image, "r+") as volume, pytest.raises(OSError, match="in use"):
        ffs.fsck(image)
    assert "closed" in repr(volume)


def test_a_volume_that_is_not_closed_warns_and_is_closed(image):
    volume = ffs.open(image, "r+")
    volume.write_bytes("/f", b"x")
    with pytest.warns(ResourceWarning, match="unclosed"):
        del volume
        gc.collect()
    with ffs.open(image) as volume:
        assert volume.read_bytes("/f") == b"x"
        assert ffs.dumpfs(image)["superblock"]["clean"] is True


def test_a_detached_stream_does_not_keep_a_volume_open(image):
    volume = ffs.open(image, "r+")
    text = volume.open("/f", "w")
    content = text.detach()
    content.write(b"x")
    content.flush()
    volume.close()
    assert volume.closed
    with ffs.open(image) as again:
        assert again.read_bytes("/f") == b"x"


def test_sysctl_has_the_names_of_the_command(volume):
    volume.write_bytes("/f", b"x")
    volume.sync()
    names = volume.sysctl()
    assert "vfs.ufs.dirhash_maxmem" in names and isinstance(names["vfs.numbufs"], int)
    counters = ffs.counters(volume)
    assert counters["vfs.ffs.bytes_written"] > 0 and set(counters) < set(names)
    assert counters == volume.counters()
    assert set(volume.sysctl("vfs.cache")) == {n for n in names if n.startswith("vfs.cache.")}
    assert volume.sysctl("vfs.numbufs").keys() == {"vfs.numbufs"}
    entry = volume.sysctl_info("vfs.numbufs")[0]
    assert entry.kind == "gauge" and "buffer" in entry.meaning
    volume.set_sysctl("vfs.vmiodirenable", 0)
    assert volume.sysctl("vfs.vmiodirenable") == {"vfs.vmiodirenable": 0}
    with pytest.raises(KeyError):
        volume.set_sysctl("vfs.none", 1)
    with pytest.raises(PermissionError):
        volume.set_sysctl("vfs.numbufs", 1)
    with pytest.raises(ValueError):
        volume.set_sysctl("vfs.vmiodirenable", "much")
