"""Images, the command `ffs`, and images of BSD systems."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import ffs

SIZE = 16 << 20
PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def image(tmp_path):
    """The path of a new volume."""
    path = tmp_path / "disk.img"
    ffs.newfs(path, SIZE)
    return path


@pytest.fixture
def volume(image):
    """A new volume, open for writing. After the test it must be consistent."""
    with ffs.open(image, "r+") as opened:
        yield opened
    report = ffs.fsck(image)
    assert report.consistent, [finding.text for finding in report.findings]


@pytest.fixture(scope="session")
def command():
    """Runs `ffs` and returns its output. Skips the test if there is no command."""
    path = os.environ.get("FFS_BIN") or shutil.which("ffs")
    if not path:
        pytest.skip("no command ffs: set FFS_BIN")

    def run(*arguments, code=0):
        words = [path, *map(os.fspath, arguments)]
        done = subprocess.run(words, capture_output=True, check=False)
        assert done.returncode == code, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape")

    return run


def fixtures():
    """The directory with images of BSD systems, or None."""
    for place in (os.environ.get("FFS_FIXTURES"), PROJECT.parent / "shared" / "fixtures"):
        if place and Path(place).is_dir():
            return Path(place)
    return None


def fixture(name):
    """A file of that directory. Skips the test if it is not there."""
    directory = fixtures()
    if directory is None or not (directory / name).is_file():
        pytest.skip(f"no {name}: set FFS_FIXTURES")
    return directory / name


def tree(volume, top="/"):
    """Everything below a directory, by path: attributes and content."""
    found = {}
    for path, directories, files in volume.walk(top):
        for name in directories + files:
            full = os.path.join(path, name)
            own = volume.lstat(full)
            content = None
            if volume.islink(full):
                content = volume.readlink(full)
            elif volume.isfile(full):
                content = volume.read_bytes(full)
            found[full] = (own.st_mode, own.st_uid, own.st_gid, own.st_mtime_ns, content)
    return found
