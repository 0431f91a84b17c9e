"""Making, building, checking and describing file systems."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _ffs
from ._volume import AnyPath, CopyReport, Volume


@dataclass(frozen=True)
class Finding:
    """One inconsistency."""

    #: Its stable name, such as "LINK-HIGH": docs/guide/checking.md lists them.
    id: str
    #: "benign" (a crash may leave it) or "fatal".
    severity: str
    phase: str
    message: str
    repaired: bool
    #: The whole line, as `ffs fsck` prints it.
    text: str
    ino: int | None = None
    path: str | None = None
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class FsckReport:
    """The result of a check."""

    #: The exit code of `ffs fsck`: 0 is consistent, or repaired completely.
    exit_code: int
    #: At most 10,000; `counts` has all.
    findings: list[Finding]
    counts: dict[str, int]
    totals: dict[str, int]
    #: Whether the volume is marked clean now.
    clean: bool
    #: Whether it was marked clean, and therefore not checked.
    skipped: bool
    #: Whether anything was written.
    modified: bool
    #: Why the check ended early.
    stopped: str | None = None
    #: What a recovery by the journal did.
    journal: dict[str, Any] | None = None
    #: The report as `ffs fsck --json` prints it.
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def consistent(self) -> bool:
        """Whether nothing is wrong any more."""
        return self.exit_code == 0 and all(finding.repaired for finding in self.findings)


@dataclass(frozen=True)
class BuiltImage:
    """A built image."""

    #: Bytes of the file system.
    size: int
    #: Bytes that are free without the reserve.
    free: int
    inodes_free: int
    #: 1 or 2.
    format: int
    report: CopyReport


def _how(
    format: int,
    block_size: int | None,
    fragment_size: int | None,
    density: int | None,
    minfree: int,
    label: str | None,
    soft_updates: bool,
    big_endian: bool,
    no_snap: bool,
) -> dict[str, Any]:
    return {
        "format": format,
        "block_size": block_size,
        "fragment_size": fragment_size,
        "density": density,
        "minfree": minfree,
        "label": label,
        "soft_updates": soft_updates,
        "big_endian": big_endian,
        "no_snap": no_snap,
    }


def newfs(
    image: AnyPath,
    size: int,
    *,
    format: Literal[1, 2] = 2,
    block_size: int | None = None,
    fragment_size: int | None = None,
    density: int | None = None,
    minfree: int = 8,
    label: str | None = None,
    soft_updates: bool | None = None,
    journal: bool = False,
    big_endian: bool = False,
    no_snap: bool = False,
    reproducible: bool = False,
) -> None:
    """Makes an empty file system of `size` bytes in the new, sparse file `image`.

    `format` is 1 (UFS1) or 2 (UFS2). Sizes are in bytes, and `density` is bytes of data for each
    inode; without them BSD's formulas apply. `soft_updates` is by default what `ffs newfs` chooses:
    on for UFS2, off for UFS1 without `journal`. With `reproducible` the bytes are the same each time.
    """
    if soft_updates is None:
        soft_updates = format == 2 or journal
    how = _how(
        format,
        block_size,
        fragment_size,
        density,
        minfree,
        label,
        soft_updates,
        big_endian,
        no_snap,
    )
    _ffs.newfs(image, size, how, journal, reproducible)


def build(
    image: AnyPath,
    source: AnyPath | Sequence[AnyPath],
    *,
    size: int | None = None,
    free: int = 0,
    owner: tuple[int, int] | None = None,
    acls: bool = False,
    source_date_epoch: int | None = None,
    force: bool = False,
    format: Literal[1, 2] = 2,
    block_size: int | None = None,
    fragment_size: int | None = None,
    density: int | None = None,
    minfree: int = 8,
    label: str | None = None,
    soft_updates: bool = False,
    big_endian: bool = False,
    no_snap: bool = False,
) -> BuiltImage:
    """Builds an image from a directory or a tar archive, or from several, one over the other.

    The image is made to fit the tree and `free` bytes, or has `size` bytes. The same tree gives the
    same bytes, those of `ffs build`. `source_date_epoch` is the time of the volume and the latest
    time of files, in seconds since 1970; without it that is the latest modification in the tree.
    An image whose name ends in `.qcow2` is made in that format. `force` replaces an existing image.
    """
    sources: list[AnyPath] = (
        [source] if isinstance(source, (str, bytes, os.PathLike)) else list(source)
    )
    if not sources:
        raise ValueError("build needs a directory or an archive")
    how = _how(
        format,
        block_size,
        fragment_size,
        density,
        minfree,
        label,
        soft_updates,
        big_endian,
        no_snap,
    )
    done = _ffs.build(
        image, sources, how, size, free, owner, acls, source_date_epoch, force
    )
    report = CopyReport(**done.pop("report"))
    return BuiltImage(report=report, **done)


def fsck(
    image: AnyPath,
    *,
    partition: int | None = None,
    preen: bool = False,
    repair: bool = False,
    force: bool = False,
    superblock: int | None = None,
    max_memory: int | None = None,
) -> FsckReport:
    """Checks a file system. Without `preen` and `repair` nothing is changed.

    `preen` repairs what a crash leaves, and stops at anything else; it skips a volume that is
    marked clean unless `force` is set. `repair` repairs everything. `superblock` is the sector of a
    backup superblock. The image must not be open for writing.
    """
    if preen and repair:
        raise ValueError("only one of preen and repair may be given")
    mode = "preen" if preen else "repair" if repair else "check"
    text, lines = _ffs.fsck(image, partition, mode, force, superblock, max_memory)
    raw = json.loads(text)
    return FsckReport(
        exit_code=raw["exit_code"],
        findings=[_finding(*pair) for pair in zip(raw["findings"], lines)],
        counts=raw["counts"],
        totals=raw["totals"],
        clean=raw["clean"],
        skipped=raw["skipped"],
        modified=raw["modified"],
        stopped=raw.get("stopped"),
        journal=raw.get("journal"),
        raw=raw,
    )


def _finding(raw: dict[str, Any], text: str) -> Finding:
    return Finding(
        id=raw["id"],
        severity=raw["severity"],
        phase=raw["phase"],
        message=raw["message"],
        repaired=raw["repaired"],
        text=text,
        ino=raw.get("ino"),
        path=raw.get("path"),
        before=raw.get("before"),
        after=raw.get("after"),
    )


def dumpfs(
    image: AnyPath,
    *,
    partition: int | None = None,
    groups: bool = False,
    sector: int | None = None,
) -> dict[str, Any]:
    """The superblock, and with `groups` the cylinder groups, as `ffs dumpfs --json` prints them.

    `sector` is the sector of a backup superblock. Works on damaged file systems as far as anything
    can be decoded.
    """
    found: dict[str, Any] = json.loads(_ffs.dumpfs(image, partition, groups, sector))
    return found


def counters(volume: Volume) -> dict[str, int]:
    """The counts of an open volume since it was opened, by BSD's names."""
    return volume.counters()
