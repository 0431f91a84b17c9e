"""Runs study.ipynb without Jupyter and compares its numbers with those of the report.

    run.py EXPORT FIGURES

EXPORT is the directory that `ffs lab export` wrote, FIGURES the directory `figures` that
`ffs lab report` wrote for the same study. Needs pandas and statsmodels; exits with 77 if they are
not installed, and with 1 if a number differs.
"""

import json
import os
import pathlib
import sys


def run(export):
    """Runs the code of the notebook. Returns its variables."""
    os.environ["FFS_EXPORT"] = export
    os.environ.setdefault("MPLBACKEND", "Agg")
    path = pathlib.Path(__file__).with_name("study.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    variables = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "the notebook is kept without outputs"
            exec("".join(cell["source"]), variables)
    return variables


def near(what, ours, theirs, digits):
    """Exits unless two numbers agree in so many digits after the point."""
    if not abs(ours - theirs) <= 0.5000001 * 10**-digits:
        sys.exit(f"{what}: {ours} in the notebook, {theirs} expected")


def main(export, figures):
    import pandas

    found = run(export)
    report = pandas.read_csv(f"{figures}/buildworld-build-model.csv", keep_default_na=False)
    table2 = found["table2"]
    assert len(table2) == len(report), "the model has other terms"
    for row in report.itertuples():
        options = [f"on_{name}" for name in row.term.split(":")]
        term = "Intercept" if row.term == "base" else ":".join(options)
        near(f"{row.term}, percent", table2.percent[term], float(row.percent), 6)
        near(f"{row.term}, error", table2.error[term], float(row.error), 6)
        near(f"{row.term}, p", table2.p[term], float(row.chance), 5)
    report = pandas.read_csv(f"{figures}/buildworld-build-triangle.csv", keep_default_na=False)
    figure8 = found["figure8"]
    assert list(figure8.option) == list(report.option), "the options have another order"
    assert list(figure8["with"]) == list(report["with"]), "the states have another order"
    for side in ["gain_without", "gain_with"]:
        for ours, theirs in zip(figure8[side], report[side]):
            near(side, ours, theirs, 6)
    published = found["of_build"]
    for side, kind in [("percent", "term"), ("error", "term-error")]:
        for on, value in published(kind).items():
            options = [f"on_{name}" for name in on.split("+")]
            term = "Intercept" if on == "none" else ":".join(options)
            near(f"published {on}, {side}", found["published_table2"][side][term], value, 2)
    print(f"{len(table2)} terms and {len(figure8)} triangles agree, and Table 2 as published")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        import pandas, statsmodels
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    main(*sys.argv[1:])
