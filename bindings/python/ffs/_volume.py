"""Volumes and their open files."""

from __future__ import annotations

import errno
import io
import os
import stat as _stat
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple, Union, cast, overload

from . import _ffs

StrPath = Union[str, "os.PathLike[str]"]
AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

# Each call of the native part costs some microseconds, so a buffer is larger than Python's.
_BUFFER = 128 << 10


@dataclass(frozen=True)
class CopyReport:
    """What a copy of a tree did."""

    files: int = 0
    directories: int = 0
    hard_links: int = 0
    symlinks: int = 0
    special: int = 0
    #: Bytes of data, without holes.
    bytes: int = 0
    #: Files that could not be copied.
    failed: int = 0
    #: A message for each of the first 1000 of them.
    skipped: list[str] = field(default_factory=list)
    #: A sentence for each kind of attribute that the target could not keep.
    losses: list[str] = field(default_factory=list)


class CopyError(OSError):
    """Some files of a tree were not copied; `report` lists them. All others were copied."""

    def __init__(self, report: CopyReport) -> None:
        first = report.skipped[0] if report.skipped else "no message"
        super().__init__(errno.EIO, f"{report.failed} files were not copied; the first: {first}")
        self.report = report


class SysctlEntry(NamedTuple):
    """A switch, counter or gauge of a volume, under BSD's name."""

    name: str
    value: int | str
    #: "switch", "counter" or "gauge".
    kind: str
    meaning: str


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


class RawFile(io.RawIOBase):
    """An open file without a buffer: what `open(..., buffering=0)` returns."""

    def __init__(self, file: _ffs.File, name: AnyPath, mode: str) -> None:
        super().__init__()
        self._file = file
        #: An object that must exist while the file is open.
        self.owner: object = None
        self.name = name
        self.mode = mode

    def readable(self) -> bool:
        self._check()
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        self._check()
        return "r" not in self.mode or "+" in self.mode

    def seekable(self) -> bool:
        self._check()
        return True

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check_readable(self) -> None:
        if not self.readable():
            raise io.UnsupportedOperation("not readable")

    def _check_writable(self) -> None:
        if not self.writable():
            raise io.UnsupportedOperation("not writable")

    def readinto(self, buffer: Any, /) -> int:
        self._check_readable()
        with memoryview(buffer) as view, view.cast("B") as data:
            return self._file.readinto(data)

    def readall(self) -> bytes:
        self._check_readable()
        return self._file.readall()

    def pread(self, length: int, offset: int) -> bytes:
        """Reads at `offset`. The position of the file stays, so threads can share the file."""
        self._check_readable()
        return self._file.pread(length, offset)

    def write(self, data: Any, /) -> int:
        self._check_writable()
        if isinstance(data, bytes):
            return self._file.write(data)
        with memoryview(data) as view, view.cast("B") as content:
            return self._file.write(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._check()
        return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        self._check_writable()
        if size is None:
            size = self.seek(0, os.SEEK_CUR)
        self._file.truncate(size)
        return size

    def stat(self) -> _ffs.Stat:
        """Attributes of the open file, as `os.fstat`."""
        self._check()
        return self._file.stat()

    def sync(self, *, data_only: bool = False) -> None:
        """Makes the file durable, as `os.fsync`. Flush the buffer above this object first."""
        self._check()
        self._file.sync(data_only)

    def allocate(self, offset: int, length: int) -> None:
        """Allocates space, as `os.posix_fallocate`."""
        self._check_writable()
        self._file.allocate(offset, length)

    def punch_hole(self, offset: int, length: int) -> None:
        """Makes a hole: the range reads as zeros and occupies no whole block."""
        self._check_writable()
        self._file.punch_hole(offset, length)

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
            finally:
                self._file.close()
                self.owner = None


def _parse_mode(mode: str) -> tuple[str, bool, bool]:
    """The letter of a mode, whether it has `+`, and whether it is binary."""
    letters = set(mode)
    kinds = letters & set("rwax")
    if letters - set("rwax+bt") or len(letters) != len(mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if len(kinds) != 1:
        raise ValueError("a mode has exactly one of r, w, a and x")
    if "b" in letters and "t" in letters:
        raise ValueError("a mode has only one of b and t")
    return kinds.pop(), "+" in letters, "b" in letters


# The volumes that file systems of fsspec have opened. A library with threads of its own, such as
# pyarrow, may drop its last reference to such a file system a moment after its function returned.
_of_fsspec: weakref.WeakSet[Volume] = weakref.WeakSet()
_of_fsspec_lock = threading.Lock()
# How long an open waits for that, in seconds.
_RELEASE_TIME = 5.0


def _default_timeout(image: AnyPath) -> float:
    """How long to wait for the lock of `image` if the caller gives no time."""
    path = os.path.realpath(os.fsencode(image))
    with _of_fsspec_lock:
        volumes = list(_of_fsspec)
    for volume in volumes:
        if not volume.closed and os.path.realpath(os.fsencode(volume.image)) == path:
            return _RELEASE_TIME
    return 0.0


class Volume(_ffs.Volume):
    """An open file system. Paths begin at its root, with or without a slash.

    A volume may be used from several threads. `ffs.open` describes the arguments.
    """

    def __init__(self, *_args: Any, **_options: Any) -> None:
        self._streams: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()

    def __enter__(self) -> Volume:
        if self.closed:
            raise ValueError("the volume is closed")
        return self

    def __exit__(self, kind: object = None, *_exception: object) -> None:
        # A child of fork that ends by an exception, such as SystemExit, has nothing to close.
        if kind is None or not self._inherited:
            self.close()

    def __del__(self) -> None:
        try:
            unclosed = not self.closed and self.mode == "r+" and not self._inherited
        except AttributeError:
            return
        if unclosed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            self.close()

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<ffs.Volume image={self.image!r} mode={self.mode!r}{state}>"

    def close(self) -> None:
        """Flushes and closes the open files, writes everything, and marks the volume clean.

        The volume is closed also if a stream cannot be flushed; the error is raised then.
        """
        if self.closed:
            return
        if self._inherited:
            # Raises. A thread of the parent may have held the lock below.
            super().close()
        with self._lock:
            streams = list(self._streams)
        failure: OSError | None = None
        for stream in streams:
            # A stream that is just being closed may have released the last user of this volume.
            try:
                if not stream.closed:
                    stream.close()
            except OSError as error:
                failure = failure or error
            except ValueError:
                # A text stream whose buffer was detached; the buffer has to be closed by its user.
                continue
        super().close()
        if failure is not None:
            raise failure

    # Open files.

    def open(
        self,
        path: AnyPath,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        perm: int = 0o644,
    ) -> IO[Any]:
        """Opens a file, as the function `open` of Python.

        Text is UTF-8 unless `encoding` names another one. `perm` is the mode of a new file.
        """
        kind, plus, binary = _parse_mode(mode)
        if binary and (encoding or errors or newline is not None):
            raise ValueError("a binary mode takes no encoding, errors or newline")
        if buffering == 0 and not binary:
            raise ValueError("text needs a buffer")
        file = self._open(
            path,
            read=kind == "r" or plus,
            write=kind in "wx" or plus,
            append=kind == "a",
            truncate=kind == "w",
            create=kind in "wa",
            exclusive=kind == "x",
            perm=perm,
        )
        # As the mode of a file of Python, which is `rb+` for `w+b`.
        raw = RawFile(file, path, ("r" if plus and kind == "w" else kind) + ("b+" if plus else "b"))
        if kind == "a":
            raw.seek(0, os.SEEK_END)
        if buffering == 0:
            return self._keep(raw)
        size = buffering if buffering > 1 else _BUFFER
        stream: Any
        if plus:
            stream = io.BufferedRandom(cast("io.RawIOBase", raw), size)
        elif kind == "r":
            stream = io.BufferedReader(raw, size)
        else:
            stream = io.BufferedWriter(raw, size)
        if not binary:
            line = buffering == 1
            stream = io.TextIOWrapper(stream, encoding or "utf-8", errors, newline, line)
            stream.mode = mode
        return self._keep(stream)

    def _keep(self, stream: Any) -> IO[Any]:
        """Notes a stream, so that `close` flushes it."""
        with self._lock:
            self._streams.add(stream)
        return cast("IO[Any]", stream)

    def read_text(
        self, path: AnyPath, encoding: str = "utf-8", errors: str | None = None
    ) -> str:
        """The content of a file as text; line ends become `\\n`."""
        with self.open(path, "r", encoding=encoding, errors=errors) as file:
            return cast("str", file.read())

    def write_text(
        self,
        path: AnyPath,
        data: str,
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> int:
        """Replaces the content of a file by text. Returns the number of characters."""
        self.write_bytes(path, data.encode(encoding, errors))
        return len(data)

    # Lookups.

    def exists(self, path: AnyPath) -> bool:
        """Whether the path leads to a file. A symbolic link is followed."""
        return self._mode_of(path, follow=True) is not None

    def lexists(self, path: AnyPath) -> bool:
        """Whether the path names a file, which may be a symbolic link that leads nowhere."""
        return self._mode_of(path, follow=False) is not None

    def isdir(self, path: AnyPath) -> bool:
        """Whether the path leads to a directory."""
        return _stat.S_ISDIR(self._mode_of(path, follow=True) or 0)

    def isfile(self, path: AnyPath) -> bool:
        """Whether the path leads to a regular file."""
        return _stat.S_ISREG(self._mode_of(path, follow=True) or 0)

    def islink(self, path: AnyPath) -> bool:
        """Whether the path names a symbolic link."""
        return _stat.S_ISLNK(self._mode_of(path, follow=False) or 0)

    def _mode_of(self, path: AnyPath, follow: bool) -> int | None:
        try:
            return self.stat(path, follow_symlinks=follow).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
                return None
            raise

    @overload
    def walk(
        self,
        top: StrPath = "/",
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[str, list[str], list[str]]]: ...
    @overload
    def walk(
        self,
        top: bytes | os.PathLike[bytes],
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]: ...
    def walk(
        self,
        top: Any = "/",
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """All directories below `top`, as `os.walk`.

        A directory that contains itself, which only damage or `followlinks` can cause, is passed
        to `onerror` and not entered.
        """
        # A path and the inodes above it, or a result that waits for its children.
        todo: list[Any] = [(os.fspath(top), None)]
        while todo:
            item = todo.pop()
            if len(item) == 3:
                yield item
                continue
            path, above = item
            try:
                own = self.stat(path).st_ino
                _refuse_circle(path, own, above)
                dirs, files, links = self._scan(path)
            except OSError as error:
                if onerror is not None:
                    onerror(error)
                continue
            result = (path, dirs, files)
            if topdown:
                yield result
            else:
                todo.append(result)
            # The caller may have changed the list of directories.
            for name in reversed(dirs):
                if followlinks or name not in links:
                    todo.append((os.path.join(path, name), (own, above)))

    def _scan(self, path: Any) -> tuple[list[Any], list[Any], set[Any]]:
        """The directories and the other files of a directory, and which of them are links."""
        dirs: list[Any] = []
        files: list[Any] = []
        links: set[Any] = set()
        with self.scandir(path) as entries:
            for entry in entries:
                try:
                    is_dir = entry.is_dir()
                except OSError:
                    is_dir = False
                (dirs if is_dir else files).append(entry.name)
                if is_dir and entry.is_symlink():
                    links.add(entry.name)
        return dirs, files, links

    # Changes.

    def makedirs(self, path: AnyPath, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Makes a directory and those above it, as `os.makedirs`."""
        text = os.fspath(path)
        slash: Any = b"/" if isinstance(text, bytes) else "/"
        parent = os.path.dirname(text.rstrip(slash))
        if parent.strip(slash) and not self.exists(parent):
            self.makedirs(parent, exist_ok=True)
        try:
            self.mkdir(path, mode)
        except OSError:
            if not exist_ok or not self.isdir(path):
                raise

    def utime(
        self,
        path: AnyPath,
        times: tuple[float, float] | None = None,
        *,
        ns: tuple[int, int] | None = None,
        birthtime_ns: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Sets access and modification time, as `os.utime`; without times, to the present.

        `birthtime_ns` sets the creation time, which UFS2 stores.
        """
        if times is not None and ns is not None:
            raise ValueError("utime: only one of times and ns may be given")
        if times is not None:
            ns = (_nanoseconds(times[0]), _nanoseconds(times[1]))
        self._utime(path, ns=ns, birthtime_ns=birthtime_ns, follow_symlinks=follow_symlinks)

    # Trees.

    def copy_in(
        self,
        src: AnyPath,
        dst: AnyPath = "/",
        *,
        preserve: bool = True,
        existing: str = "replace",
        check: bool = True,
    ) -> CopyReport:
        """Copies the file or tree `src` of the host into the directory `dst` of the volume.

        Of a directory it copies the entries. With `preserve` owners, modes, times, links, extended
        attributes and flags are kept. `existing` is what happens to a file of the same name:
        "replace", "overwrite" or "keep". With `check` files that could not be copied raise
        `CopyError` after all others were copied.
        """
        done = self._copy_in(src, dst, preserve=preserve, existing=existing)
        return _checked(CopyReport(**done), check)

    def copy_out(
        self,
        src: AnyPath,
        dst: AnyPath,
        *,
        preserve: bool = True,
        existing: str = "replace",
        check: bool = True,
    ) -> CopyReport:
        """Copies the file or tree `src` of the volume into the directory `dst` of the host.

        The arguments are those of `copy_in`. A user who is not root cannot keep owners: the report
        counts that in `losses`.
        """
        done = self._copy_out(src, dst, preserve=preserve, existing=existing)
        return _checked(CopyReport(**done), check)

    # Counters.

    def sysctl(self, prefix: str = "") -> dict[str, int | str]:
        """Switches, counters and gauges by BSD's names, as `ffs sysctl` shows them for a mount.

        `prefix` is a name, or the names that begin with it and a dot.
        """
        return {entry.name: entry.value for entry in self.sysctl_info(prefix)}

    def sysctl_info(self, prefix: str = "") -> list[SysctlEntry]:
        """The same with the kind and the meaning of each name."""
        return [
            SysctlEntry(name, _number(value), kind, meaning)
            for name, value, kind, meaning in self._sysctl()
            if not prefix or name == prefix or name.startswith(prefix + ".")
        ]

    def set_sysctl(self, name: str, value: int | str) -> None:
        """Sets a switch until the volume is closed."""
        self._set_sysctl(name, str(value))

    def counters(self) -> dict[str, int]:
        """The counts since the volume was opened, by BSD's names."""
        return {
            entry.name: entry.value
            for entry in self.sysctl_info()
            if entry.kind == "counter" and isinstance(entry.value, int)
        }


def keep_for_fsspec(volume: Volume) -> Volume:
    """Notes a volume that a file system of fsspec has opened."""
    with _of_fsspec_lock:
        _of_fsspec.add(volume)
    return volume


def _checked(report: CopyReport, check: bool) -> CopyReport:
    if check and report.failed:
        raise CopyError(report)
    return report


def _nanoseconds(seconds: float) -> int:
    if isinstance(seconds, int):
        return seconds * 1_000_000_000
    whole = int(seconds // 1)
    return whole * 1_000_000_000 + int((seconds % 1) * 1e9)


def _refuse_circle(path: Any, own: int, above: Any) -> None:
    """Raises if the directory is one of those above it."""
    while above is not None:
        if above[0] == own:
            raise OSError(errno.ELOOP, "the directory contains itself", path)
        above = above[1]


def open(
    image: AnyPath,
    mode: str = "r",
    *,
    partition: int | None = None,
    snapshot: AnyPath | None = None,
    user: tuple[int, int] | None = None,
    lock_timeout: float | None = None,
) -> Volume:
    """Opens the file system in `image`: a file, a block device, a container or an NBD URI.

    `mode` is "r" or "r+". An image that is open for writing cannot be opened again meanwhile;
    `lock_timeout` is how many seconds to wait for another user of it. The default is 0, and 5 for
    an image that a file system of fsspec in this process has open, which a library may be about to
    release.

    `partition` is its number on a disk image; without it the one BSD partition is found.
    `snapshot` is the path of a snapshot in the volume, which is opened in place of the volume.
    `user` is the user and group whose permissions count; without it the caller acts as root.
    """
    return Volume(
        image,
        mode,
        partition=partition,
        snapshot=snapshot,
        user=user,
        lock_timeout=_default_timeout(image) if lock_timeout is None else lock_timeout,
    )
