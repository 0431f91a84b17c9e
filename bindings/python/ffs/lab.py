"""Results of the laboratory as frames of pandas, and running it.

>>> from ffs import lab
>>> study = lab.read("study")                                       # doctest: +SKIP
>>> study.runs.groupby("combination").cost.mean()                   # doctest: +SKIP

docs/lab/data.md of the project describes the tables.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import pandas

_Directory = Union[str, "os.PathLike[str]"]

#: The tables of an export.
TABLES = ("runs", "phases", "counters", "published")


@dataclass(frozen=True)
class Study:
    """The results of a study. An export without one of the tables has an empty frame for it."""

    #: One row for each run and result of its workload.
    runs: pandas.DataFrame
    #: One row for each run and phase, with the use of processor and disk.
    phases: pandas.DataFrame
    #: One row for each run, phase and counter of the file system that grew.
    counters: pandas.DataFrame
    #: One row for each number of the paper, the slides and the mails.
    published: pandas.DataFrame
    #: One row for each column and counter: type, unit, meaning.
    dictionary: pandas.DataFrame

    def meaning(self, table: str, column: str) -> str:
        """The meaning of a column, with its unit."""
        rows = self.dictionary
        rows = rows[(rows["table"] == table) & (rows["column"] == column)]
        if rows.empty:
            raise KeyError(f"the dictionary has no column {column} of the table {table}")
        row = rows.iloc[0]
        unit = str(row["unit"])
        return str(row["meaning"]) + (f" [{unit}]" if unit not in ("", "1") else "")

    def __iter__(self) -> Iterator[pandas.DataFrame]:
        return iter((self.runs, self.phases, self.counters, self.published))


def command() -> str:
    """The path of the command `ffs`: from the variable FFS_BIN, or from PATH."""
    found = os.environ.get("FFS_BIN") or shutil.which("ffs")
    if not found:
        raise FileNotFoundError("the command ffs is not in PATH; set FFS_BIN to its path")
    return found


def read(directory: _Directory) -> Study:
    """Reads the results of a study, finished or not.

    `directory` is a study (`ffs lab run --out`), which the command `ffs` exports to a temporary
    directory, or an export (`ffs lab export --out`), which needs no command. Columns have the types
    of the dictionary: text is `str`, a number `float64`, an integer `int64`, or `Int64` if one is
    missing.
    """
    path = Path(directory)
    if _file(path, "dictionary") is not None:
        return _read_export(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not a directory")
    with tempfile.TemporaryDirectory(prefix="ffs-lab-") as temporary:
        export = Path(temporary) / "export"
        _run(["lab", "export", str(path), "--out", str(export)])
        return _read_export(export)


def run(
    workloads: Sequence[str],
    out: _Directory,
    *,
    factors: Sequence[str] = (),
    target: str = "sim",
    replicates: int | None = None,
    scale: float | None = None,
    seed: int | None = None,
    quick: bool = False,
) -> Study:
    """Runs a study with `ffs lab run` and reads its results.

    `workloads` are `paper`, or workloads such as `postmark:number=100`; `factors` are switches, and
    `none` for no factor. The other arguments are those of the command. The same arguments resume an
    interrupted study.
    """
    arguments = ["lab", "run", *workloads, "--out", os.fspath(out), "--target", target]
    for factor in factors:
        arguments += ["--factor", factor]
    for option, value in (("replicates", replicates), ("scale", scale), ("seed", seed)):
        if value is not None:
            arguments += [f"--{option}", str(value)]
    if quick:
        arguments.append("--quick")
    _run(arguments)
    return read(out)


def _run(arguments: list[str]) -> None:
    done = subprocess.run([command(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # The first line of the command's message names the cause.
        why = done.stderr.strip() or f"exit code {done.returncode}"
        raise RuntimeError(f"ffs {' '.join(arguments[:2])} failed: {why}")


def _file(directory: Path, table: str) -> Path | None:
    """The file of a table."""
    for ending in ("parquet", "csv"):
        path = directory / f"{table}.{ending}"
        if path.is_file():
            return path
    return None


def _text(path: Path) -> pandas.DataFrame:
    """A file with every column as it is written."""
    if path.suffix == ".parquet":
        return pandas.read_parquet(path)
    return pandas.read_csv(path, dtype=str, keep_default_na=False)


def _read_export(directory: Path) -> Study:
    path = _file(directory, "dictionary")
    if path is None:
        raise FileNotFoundError(f"{directory} has no dictionary; export the study again")
    dictionary = _text(path)
    runs, phases, counters, published = (
        _table(directory, name, dictionary) for name in TABLES
    )
    return Study(runs, phases, counters, published, dictionary)


def _table(directory: Path, table: str, dictionary: pandas.DataFrame) -> pandas.DataFrame:
    path = _file(directory, table)
    if path is None:
        return pandas.DataFrame()
    frame = _text(path)
    rows = dictionary[dictionary["table"] == table]
    # A column with several settings has a row for each; all have its type.
    types = dict(zip(rows["column"], rows["type"]))
    for column in frame.columns:
        frame[column] = _typed(frame[column], types.get(column, "text"))
    return frame


def _typed(values: pandas.Series, kind: str) -> pandas.Series:
    """A column with the type that the dictionary gives it."""
    if kind == "text":
        return values
    numbers = pandas.to_numeric(values, errors="coerce")
    if kind == "number":
        return numbers.astype("float64")
    # Integers and `0 or 1`. A missing one needs the type of pandas that has it.
    return numbers.astype("Int64") if numbers.isna().any() else numbers.astype("int64")
