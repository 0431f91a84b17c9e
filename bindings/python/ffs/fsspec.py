"""A file system of fsspec, so that pandas, dask and others read from images.

>>> import pandas
>>> frame = pandas.read_csv("ufs://data/x.csv::file://disk.img")    # doctest: +SKIP

The protocol is `ufs`. The part after `::` is the image; without that, `image=` names it.
"""

from __future__ import annotations

import os
import shutil
import stat as _stat
import tempfile
from datetime import datetime, timezone
from typing import IO, Any, ClassVar

import fsspec
from fsspec.spec import AbstractFileSystem

from . import _ffs
from ._volume import Volume, keep_for_fsspec
from ._volume import open as _open_volume

_LOCAL = ("file", "local")


class UFSFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of a UFS volume in an image.

    `image` (or `fo`, which the chain of a URL sets) is the path of the image; with another
    `target_protocol` than `file` the image is copied to a temporary file first, and can only be
    read. `volume` is an open volume to use in place of an image; it is not closed. `write` opens
    the image for writing (`mode` would be that of a file in a call of fsspec). With `auto_mkdir` a
    file that is made gets the directories above it. The other arguments are those of `ffs.open`.
    """

    protocol: ClassVar[str] = "ufs"
    root_marker = "/"
    # An object in fsspec's cache would keep the image open and locked.
    cachable = False

    def __init__(
        self,
        image: str | os.PathLike[str] | None = None,
        *,
        write: bool = False,
        fo: str | None = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        volume: Volume | None = None,
        auto_mkdir: bool = False,
        partition: int | None = None,
        snapshot: str | None = None,
        user: tuple[int, int] | None = None,
        lock_timeout: float | None = None,
        **storage_options: Any,
    ) -> None:
        super().__init__(**storage_options)
        self._owned = volume is None
        self.auto_mkdir = auto_mkdir
        if volume is not None:
            self.volume = volume
            return
        image = image if image is not None else fo
        if image is None:
            raise ValueError(
                "no image: add one to the URL (ufs://path::file://disk.img), or give image="
            )
        options: dict[str, Any] = {
            "partition": partition,
            "snapshot": snapshot,
            "user": user,
            "lock_timeout": lock_timeout,
        }
        if target_protocol in (None, *_LOCAL):
            opened = _open_volume(image, "r+" if write else "r", **options)
            self.volume = keep_for_fsspec(opened)
            return
        if write:
            raise ValueError(f"an image of protocol {target_protocol} can only be read")
        target = fsspec.filesystem(target_protocol, **(target_options or {}))
        # The volume holds the file open, so it needs no name after this.
        with tempfile.TemporaryDirectory(prefix="ffs-") as directory:
            copy = os.path.join(directory, "image")
            target.get_file(os.fspath(image), copy)
            self.volume = _open_volume(copy, **options)

    def close(self) -> None:
        """Closes the volume, if this object has opened it."""
        if self._owned:
            self.volume.close()

    def __enter__(self) -> UFSFileSystem:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A volume that is open for writing would otherwise warn that it was not closed.
        if getattr(self, "_owned", False) and hasattr(self, "volume"):
            self.volume.close()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        for protocol in ("ufs://", "ufs::"):
            text = text.removeprefix(protocol)
        return "/" + text.strip("/")

    # Lookups.

    def _info(self, path: str, own: _ffs.Stat) -> dict[str, Any]:
        found: dict[str, Any] = {"name": path, "islink": False}
        if _stat.S_ISLNK(own.st_mode):
            found["islink"] = True
            found["destination"] = self.volume.readlink(path)
            try:
                own = self.volume.stat(path)
            except OSError:
                # A link that leads nowhere is described itself.
                pass
        if _stat.S_ISDIR(own.st_mode):
            kind = "directory"
        elif _stat.S_ISREG(own.st_mode):
            kind = "file"
        elif _stat.S_ISLNK(own.st_mode):
            kind = "link"
        else:
            kind = "other"
        found |= {
            "type": kind,
            "size": 0 if kind == "directory" else own.st_size,
            "created": own.st_birthtime,
            "mtime": own.st_mtime,
            "mode": own.st_mode,
            "uid": own.st_uid,
            "gid": own.st_gid,
            "ino": own.st_ino,
            "nlink": own.st_nlink,
            "flags": own.st_flags,
        }
        return found

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return self._info(path, self.volume.lstat(path))

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        path = self._strip_protocol(path)
        own = self.info(path)
        if own["type"] != "directory":
            return [own] if detail else [path]
        with self.volume.scandir(path) as entries:
            names = sorted((entry.path, entry) for entry in entries)
        if not detail:
            return [name for name, _ in names]
        return [self._info(name, entry.stat(follow_symlinks=False)) for name, entry in names]

    def exists(self, path: str, **_options: Any) -> bool:
        return self.volume.exists(self._strip_protocol(path))

    def isfile(self, path: str) -> bool:
        return self.volume.isfile(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        return self.volume.isdir(self._strip_protocol(path))

    def lexists(self, path: str, **_options: Any) -> bool:
        return self.volume.lexists(self._strip_protocol(path))

    def created(self, path: str) -> datetime:
        return _time(self.volume.stat(self._strip_protocol(path)).st_birthtime)

    def modified(self, path: str) -> datetime:
        return _time(self.volume.stat(self._strip_protocol(path)).st_mtime)

    def ukey(self, path: str) -> str:
        """Changes whenever the content of the file may have changed."""
        own = self.volume.stat(self._strip_protocol(path))
        return f"{own.st_ino}-{own.st_gen}-{own.st_size}-{own.st_mtime_ns}-{own.st_ctime_ns}"

    # Files.

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **_options: Any,
    ) -> IO[bytes]:
        if not autocommit:
            raise NotImplementedError("a UFS volume has no transactions of fsspec")
        path = self._strip_protocol(path)
        if "r" not in mode:
            self._make_parent(path)
        buffering = block_size if block_size and block_size > 1 else -1
        stream: Any = self.volume.open(path, mode, buffering)
        # As long as the file is open, the volume must be; afterwards it may be closed.
        getattr(stream, "raw", stream).owner = self
        return stream  # type: ignore[no-any-return]

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_options: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        if start is None and end is None:
            return self.volume.read_bytes(path)
        with self.volume.open(path, "rb", 0) as file:
            size = file.stat().st_size  # type: ignore[attr-defined]
            first = _position(start, size, 0)
            length = max(_position(end, size, size) - first, 0)
            content: bytes = file.pread(length, first)  # type: ignore[attr-defined]
            return content

    def _ino(self, path: str) -> int:
        """The number of the file at `path`, through symbolic links."""
        return self.volume.stat(self._strip_protocol(path)).st_ino

    def cp_file(self, path1: str, path2: str, **_options: Any) -> None:
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        if self.exists(path2) and self._ino(path1) == self._ino(path2):
            raise shutil.SameFileError(f"{path1!r} and {path2!r} are the same file")
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)

    def mv(
        self,
        path1: str,
        path2: str,
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        source = self._strip_protocol(path1)
        if not self.volume.lexists(source):
            # A pattern, or a file that does not exist.
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        target = self._strip_protocol(path2)
        if path2.endswith("/") or self.isdir(target):
            target = target.rstrip("/") + "/" + source.rsplit("/", 1)[-1]
        self.volume.rename(source, target)

    def touch(self, path: str, truncate: bool = True, **_options: Any) -> None:
        path = self._strip_protocol(path)
        self._make_parent(path)
        with self.volume.open(path, "wb" if truncate else "ab"):
            pass
        self.volume.utime(path)

    def _make_parent(self, path: str) -> None:
        if self.auto_mkdir:
            self.volume.makedirs(self._parent(path), exist_ok=True)

    # Names.

    def mkdir(self, path: str, create_parents: bool = True, **_options: Any) -> None:
        path = self._strip_protocol(path)
        if self.volume.lexists(path):
            raise FileExistsError(path)
        if create_parents:
            self.volume.makedirs(path)
        else:
            self.volume.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.volume.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.volume.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.volume.remove(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for one in self.expand_path(path):
            if not self.isdir(one) or self.volume.islink(one):
                self.rm_file(one)
            elif recursive:
                self.volume.rmtree(one)
            else:
                raise IsADirectoryError(f"{one} is a directory; recursive=True removes it")

    def sync(self) -> None:
        """Makes all changes durable."""
        self.volume.sync()


def _position(given: int | None, size: int, default: int) -> int:
    """A bound of a slice of a file."""
    if given is None:
        return default
    return min(max(given + size if given < 0 else given, 0), size)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
