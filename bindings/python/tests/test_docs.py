"""The examples of the guide run, and the types hold."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT

import ffs

GUIDE = PROJECT / "docs/guide/python.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_run(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    found = os.environ.get("FFS_BIN") or shutil.which("ffs")
    examples = FENCE.findall(GUIDE.read_text())
    assert len(examples) >= 10
    scope = {"__name__": "guide"}
    parser = doctest.DocTestParser()
    for number, example in enumerate(examples, 1):
        if "from ffs import lab" in example and not found:
            continue
        if ">>>" in example:
            case = parser.get_doctest(example, scope, f"example {number}", str(GUIDE), 0)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            runner.run(case, clear_globs=False)
            assert runner.summarize(verbose=False).failed == 0, example
            scope.update(case.globs)
        else:
            exec(compile(example, f"{GUIDE} example {number}", "exec"), scope)


def test_the_example_of_the_package_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(ffs, optionflags=doctest.ELLIPSIS).failed == 0


def test_types(tmp_path):
    pytest.importorskip("mypy")
    package = Path(ffs.__file__).parent
    assert (package / "py.typed").is_file() and (package / "_ffs.pyi").is_file()
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    config = Path(__file__).parents[1] / "pyproject.toml"
    words += ["--config-file", str(config), "--cache-dir", str(tmp_path / "cache")]
    # The package, and a program that uses it.
    words += ["-p", "ffs", "-m", "typed_example"]
    environment = os.environ | {"MYPYPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_name_what_there_is():
    pytest.importorskip("mypy")
    words = [sys.executable, "-m", "mypy.stubtest", "ffs._ffs", "--ignore-missing-stub"]
    words += ["--ignore-disjoint-bases"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
