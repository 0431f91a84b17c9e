"""UFS1 and UFS2, the Berkeley Fast File System of BSD systems, from Python.

>>> import ffs
>>> ffs.newfs("disk.img", 16 << 20)
>>> with ffs.open("disk.img", "r+") as volume:
...     volume.mkdir("/etc")
...     _ = volume.write_text("/etc/motd", "Welcome\\n")
...     volume.listdir("/etc")
['motd']

The guide is docs/guide/python.md of the project.
"""

from __future__ import annotations

from ._admin import (
    BuiltImage,
    Finding,
    FsckReport,
    build,
    counters,
    dumpfs,
    fsck,
    newfs,
)
from ._ffs import DirEntry, ScandirIterator, Stat, StatVfs, __version__
from ._volume import CopyError, CopyReport, RawFile, SysctlEntry, Volume, open

__all__ = [
    "BuiltImage",
    "CopyError",
    "CopyReport",
    "DirEntry",
    "Finding",
    "FsckReport",
    "RawFile",
    "ScandirIterator",
    "Stat",
    "StatVfs",
    "SysctlEntry",
    "Volume",
    "__version__",
    "build",
    "counters",
    "dumpfs",
    "fsck",
    "newfs",
    "open",
]
