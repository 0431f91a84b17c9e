"""fsspec: its own tests for file systems, and pandas and dask on images."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
import time

import pytest

import ffs

fsspec = pytest.importorskip("fsspec")
abstract = pytest.importorskip("fsspec.tests.abstract")
UFSFileSystem = pytest.importorskip("ffs.fsspec").UFSFileSystem


class UFSFixtures(abstract.AbstractFixtures):
    """What fsspec's tests need: a file system and a directory in it."""

    @pytest.fixture
    def fs(self, tmp_path):
        image = tmp_path / "disk.img"
        ffs.newfs(image, 32 << 20)
        with UFSFileSystem(image, write=True, auto_mkdir=True) as opened:
            yield opened
        assert ffs.fsck(image).consistent

    @pytest.fixture
    def fs_path(self, fs):
        fs.makedirs("/work", exist_ok=True)
        return "/work"

    @pytest.fixture
    def supports_empty_directories(self):
        return True


class TestCopy(abstract.AbstractCopyTests, UFSFixtures):
    pass


class TestGet(abstract.AbstractGetTests, UFSFixtures):
    pass


class TestPut(abstract.AbstractPutTests, UFSFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, UFSFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, UFSFixtures):
    pass


@pytest.fixture
def data(image):
    """An image with tables."""
    with ffs.open(image, "r+") as volume:
        volume.mkdir("/data")
        volume.write_text("/data/x.csv", "a,b\n1,2\n3,4\n")
        volume.write_text("/data/y.csv", "a,b\n5,6\n")
        volume.symlink("x.csv", "/data/link.csv")
        volume.symlink("none", "/data/nowhere")
    return image


def test_urls(data):
    assert fsspec.get_filesystem_class("ufs") is UFSFileSystem
    for url, options in (
        (f"ufs://data/x.csv::file://{data}", {}),
        (f"ufs://data/x.csv::{data}", {}),
        ("ufs://data/x.csv", {"image": str(data)}),
        ("ufs:///data/x.csv", {"image": data}),
    ):
        with fsspec.open(url, "rt", **options) as file:
            assert file.readline() == "a,b\n"
    with pytest.raises(ValueError, match="no image"):
        fsspec.open("ufs://data/x.csv").open()
    chained = f"ufs://data/new.csv::file://{data}"
    with fsspec.open(chained, "wb", ufs={"write": True}) as file:
        file.write(b"new")
    with ffs.open(data) as volume:
        assert volume.read_bytes("/data/new.csv") == b"new"
    assert UFSFileSystem._strip_protocol("ufs://a/b/") == "/a/b"
    assert UFSFileSystem._strip_protocol(["ufs://", "a"]) == ["/", "/a"]


def test_an_image_of_another_file_system(data):
    memory = fsspec.filesystem("memory")
    memory.pipe("/disk.img", data.read_bytes())
    try:
        with fsspec.open("ufs://data/x.csv::memory://disk.img", "rb") as file:
            assert file.read(4) == b"a,b\n"
        with pytest.raises(ValueError, match="only be read"):
            UFSFileSystem("/disk.img", write=True, target_protocol="memory")
    finally:
        memory.rm("/disk.img")


def test_information(data):
    with UFSFileSystem(data) as fs:
        found = {entry["name"]: entry for entry in fs.ls("/data")}
        assert list(found) == ["/data/link.csv", "/data/nowhere", "/data/x.csv", "/data/y.csv"]
        assert found["/data/x.csv"]["size"] == 12 and found["/data/x.csv"]["type"] == "file"
        assert found["/data/link.csv"]["type"] == "file" and found["/data/link.csv"]["islink"]
        assert found["/data/link.csv"]["destination"] == "x.csv"
        assert found["/data/nowhere"]["type"] == "link"
        assert fs.ls("/data/x.csv", detail=False) == ["/data/x.csv"]
        assert fs.info("/")["type"] == "directory" and fs.info("data")["name"] == "/data"
        assert fs.glob("/data/?.csv") == ["/data/x.csv", "/data/y.csv"]
        assert fs.find("/data")[-1] == "/data/y.csv" and fs.du("/data/y.csv") == 8
        assert [top for top, _, _ in fs.walk("/")][:1] == ["/"]
        assert fs.exists("/data") and not fs.exists("/x") and fs.lexists("/data/nowhere")
        assert fs.isdir("/data") and fs.isfile("/data/x.csv")
        assert fs.modified("/data/x.csv") >= fs.created("/data/x.csv")
        assert fs.cat("/data/x.csv") == b"a,b\n1,2\n3,4\n"
        assert fs.cat_file("/data/x.csv", 4, -4) == b"1,2\n"
        assert fs.cat_file("/data/x.csv", start=-4) == b"3,4\n"
        assert fs.head("/data/x.csv", 3) == b"a,b"
        assert fs.ukey("/data/x.csv") != fs.ukey("/data/y.csv")
        with pytest.raises(FileNotFoundError):
            fs.ls("/none")
        with pytest.raises(OSError):
            fs.touch("/data/z")


def test_changes(data):
    with UFSFileSystem(data, write=True) as fs:
        fs.mkdir("/p/q")
        with pytest.raises(FileExistsError):
            fs.mkdir("/p")
        fs.mv("/data/x.csv", "/p/q")
        assert fs.cat("/p/q/x.csv").startswith(b"a,b")
        fs.mv("/p/q/x.csv", "/p/renamed")
        fs.copy("/p", "/copy", recursive=True)
        assert fs.exists("/copy/renamed")
        with pytest.raises(IsADirectoryError):
            fs.rm("/copy")
        fs.rm("/copy", recursive=True)
        fs.rm("/data/*.csv")
        assert fs.ls("/data", detail=False) == ["/data/nowhere"]
        before = fs.ukey("/p/renamed")
        fs.touch("/p/renamed", truncate=False)
        assert fs.size("/p/renamed") == 12 and fs.ukey("/p/renamed") != before
        fs.rmdir("/p/q")
        fs.sync()
        with pytest.raises(NotImplementedError):
            fs.open("/p/x", "wb", autocommit=False)
    assert ffs.fsck(data).consistent


def test_a_copy_onto_itself_is_refused(data):
    with ffs.open(data, "r+") as volume:
        volume.write_bytes("/one", b"content")
        volume.link("/one", "/two")
    with UFSFileSystem(data, write=True) as fs:
        for target in ["/one", "/two"]:
            with pytest.raises(shutil.SameFileError):
                fs.cp_file("/one", target)
        assert fs.cat_file("/one") == b"content"


def test_pickles_and_volumes(data):
    fs = UFSFileSystem(data)
    other = pickle.loads(pickle.dumps(fs))
    assert other.cat("/data/y.csv") == b"a,b\n5,6\n"
    opened = fsspec.open(f"ufs://data/y.csv::file://{data}", "rb")
    with pickle.loads(pickle.dumps(opened)) as file:
        assert file.read() == b"a,b\n5,6\n"
    fs.close()
    other.close()
    with ffs.open(data) as volume:
        UFSFileSystem(volume=volume).close()
        assert volume.isdir("/data")
        # A file keeps its file system.
        file = UFSFileSystem(data).open("/data/y.csv")
        assert file.read() == b"a,b\n5,6\n"
        file.close()


# FFS_REPEAT=200 shows that no round depends on the threads of pyarrow.
@pytest.mark.parametrize("_round", range(int(os.environ.get("FFS_REPEAT", "3"))))
def test_pandas(data, _round):
    pandas = pytest.importorskip("pandas")
    url = f"ufs://data/x.csv::file://{data}"
    frame = pandas.read_csv(url)
    assert frame.b.sum() == 6
    with ffs.open(data, "r+") as volume:
        with volume.open("/data/frame.parquet", "wb") as file:
            frame.to_parquet(file)
        with volume.open("/data/x.csv") as file:
            assert pandas.read_csv(file).equals(frame)
    parquet = pandas.read_parquet(f"ufs://data/frame.parquet::file://{data}")
    assert parquet.equals(frame)
    frame.to_csv(
        "ufs://data/out.csv", index=False, storage_options={"image": str(data), "write": True}
    )
    again = pandas.read_csv("ufs://data/out.csv", storage_options={"image": str(data)})
    assert again.equals(frame)


def test_a_library_that_releases_late(data):
    """As pyarrow, whose threads drop a file after the function that read it has returned."""

    def hold_for(seconds, opened):
        opened.read(1)
        time.sleep(seconds)
        del opened

    files = [UFSFileSystem(data).open("/data/y.csv")]
    thread = threading.Thread(target=hold_for, args=(0.5, files[0]))
    files.clear()
    thread.start()
    # The thread gives up its reference when it ends.
    del thread
    with ffs.open(data, "r+") as volume:
        volume.write_text("/data/z.csv", "a,b\n7,8\n")
    files = [UFSFileSystem(data).open("/data/y.csv")]
    start = time.monotonic()
    with pytest.raises(OSError, match="in use"):
        UFSFileSystem(data, write=True, lock_timeout=0)
    # Other objects than those of fsspec are not waited for.
    with ffs.open(data), pytest.raises(OSError, match="in use"):
        files.clear()
        UFSFileSystem(data, write=True)
    assert time.monotonic() - start < 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_dask(data):
    dataframe = pytest.importorskip("dask.dataframe")
    # The symbolic link to a table counts, too.
    table = dataframe.read_csv(f"ufs://data/*.csv::file://{data}")
    assert table.a.sum().compute(scheduler="threads") == 13
    assert table.npartitions == 3
