"""`docs/promises.md` names tests of `bindings/` that exist.

The main workspace checks all other rows of that page.
"""

from __future__ import annotations

import re

from conftest import PROJECT

HEAD = "| promise | test of the bindings | not tested |"


def rows(page):
    """The cells of each row below a head of the bindings."""
    inside = False
    for line in page.splitlines():
        inside = line == HEAD or (inside and line.startswith("|"))
        if inside and line != HEAD and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def wrong(reference):
    """What is wrong with a reference, or None."""
    path, _, name = reference.partition("::")
    file = PROJECT / "bindings" / path
    if not file.is_file():
        return f"no {path}"
    # Rust, Python, and C in the style of BSD: the name begins the line, and is called elsewhere.
    head = {".rs": rf"^\s*fn {name}\(", ".py": rf"^def {name}\(", ".c": rf"^{name}\("}
    source = file.read_text()
    if not name or not re.search(head[file.suffix], source, re.MULTILINE):
        return f"{path} has no {name}"
    return None


def test_each_promise_names_tests_that_exist():
    page = (PROJECT / "docs/promises.md").read_text()
    found = list(rows(page))
    assert f"{len(found)} promises have a test there" in page
    bad = []
    for cells in found:
        assert len(cells) == 3, cells
        references = re.findall(r"`([^`]*)`", cells[1])
        if not cells[0] or not references:
            bad.append(f"no promise, or no test: {cells[0]}")
        bad += filter(None, map(wrong, references))
    assert not bad, bad


def test_a_wrong_reference_is_seen():
    assert wrong("python/tests/test_promises.py::test_a_wrong_reference_is_seen") is None
    assert wrong("c/tests/api.c::null_pointers") is None
    assert wrong("python/tests/test_promises.py::test_a_wrong") is not None
    assert wrong("c/tests/api.c::CHECK") is not None
    assert wrong("c/tests/none.c::main") is not None
