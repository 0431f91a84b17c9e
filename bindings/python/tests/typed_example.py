"""A program that mypy --strict checks: the types of the package as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ffs

VERSION: str = ffs.__version__


def sizes(image: Path) -> dict[str, int]:
    """The size of each regular file."""
    found: dict[str, int] = {}
    with ffs.open(image) as volume:
        for top, _directories, files in volume.walk("/"):
            for name in files:
                path = f"{top}/{name}"
                own: ffs.Stat = volume.lstat(path)
                found[path] = own.st_size
    return found


def names(volume: ffs.Volume) -> tuple[list[str], list[bytes]]:
    """Text gives text, and bytes give bytes."""
    with volume.scandir(b"/") as entries:
        raw: list[bytes] = [entry.name for entry in entries if not entry.is_symlink()]
    return volume.listdir("/"), raw


def settings(volume: ffs.Volume) -> Any:
    """A file of JSON."""
    with volume.open("/etc/settings.json") as file:
        return json.load(file)


def repair(image: str) -> bool:
    """Whether the volume is consistent now."""
    report = ffs.fsck(image, preen=True)
    if not report.consistent:
        for finding in report.findings:
            print(finding.id, finding.path or finding.ino, finding.message)
        report = ffs.fsck(image, repair=True)
    return report.consistent
