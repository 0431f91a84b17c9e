"""Results of the laboratory as frames."""

from __future__ import annotations

import pytest

# In real time: the simulated machine would take seconds to prepare its volume.
SMALL = {"target": "core", "replicates": 1, "seed": 7}

pandas = pytest.importorskip("pandas")
lab = pytest.importorskip("ffs.lab")


@pytest.fixture(scope="session")
def study(tmp_path_factory, command):
    """A small study."""
    directory = tmp_path_factory.mktemp("lab") / "study"
    study = lab.run(["mh:count=200"], directory, factors=["su", "dh"], **SMALL)
    return directory, study


def test_a_study_has_typed_tables(study):
    runs = study[1].runs
    assert len(runs) >= 4 and runs.cost.dtype == "float64"
    assert runs.replicate.dtype == "int64" and set(runs.on_su) == {0, 1}
    assert pandas.api.types.is_string_dtype(runs.workload)
    assert (study[1].counters.value >= 0).all() if "value" in study[1].counters else True
    assert "combination" in study[1].phases
    elapsed = study[1].meaning("runs", "elapsed")
    assert "time" in elapsed and elapsed.endswith("[s]")
    with pytest.raises(KeyError):
        study[1].meaning("runs", "none")
    assert len(list(study[1])) == 4


def test_an_export_is_read_without_the_command(study, tmp_path, command, monkeypatch):
    export = tmp_path / "export"
    command("lab", "export", study[0], "--out", export)
    monkeypatch.delenv("FFS_BIN", raising=False)
    monkeypatch.setenv("PATH", "")
    again = lab.read(export)
    pandas.testing.assert_frame_equal(again.runs, study[1].runs)
    assert again.dictionary.equals(study[1].dictionary)
    # The same tables as Parquet, which keeps the types by itself.
    parquet = tmp_path / "parquet"
    parquet.mkdir()
    for table in lab.TABLES:
        getattr(again, table).to_parquet(parquet / f"{table}.parquet")
    again.dictionary.to_parquet(parquet / "dictionary.parquet")
    pandas.testing.assert_frame_equal(lab.read(parquet).runs, again.runs)
    (export / "published.csv").unlink()
    assert lab.read(export).published.empty
    with pytest.raises(FileNotFoundError, match="FFS_BIN"):
        lab.read(study[0])


def test_errors_name_the_cause(tmp_path, command):
    with pytest.raises(FileNotFoundError):
        lab.read(tmp_path / "none")
    with pytest.raises(RuntimeError, match="lab export"):
        lab.read(tmp_path)
    with pytest.raises(RuntimeError, match="lab run"):
        lab.run(["nosuchworkload"], tmp_path / "out")


def test_columns_that_lack_numbers(tmp_path):
    (tmp_path / "dictionary.csv").write_text(
        "table,column,value,type,unit,meaning\n"
        "runs,n,,integer,1,a count\nruns,x,,number,s,a time\nruns,t,,text,,a text\n"
        "runs,on,,0 or 1,1,a switch\n"
    )
    (tmp_path / "runs.csv").write_text("n,x,t,on,other\n1,,NA,0,7\n,2.5,,1,8\n")
    runs = lab.read(tmp_path).runs
    assert runs.n.dtype == "Int64" and runs.n.isna().tolist() == [False, True]
    assert runs.x.dtype == "float64" and runs.t.tolist() == ["NA", ""]
    assert runs.on.dtype == "int64" and runs.other.tolist() == ["7", "8"]
