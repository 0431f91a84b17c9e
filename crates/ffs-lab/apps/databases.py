"""Databases: SQLite, LevelDB, RocksDB, LMDB."""
import ctypes
import ctypes.util
import os

from common import Broken, content

try:
    import sqlite3
except ImportError:
    sqlite3 = None


class Sqlite:
    """One transaction a step: three rows and a counter, which have to agree."""

    def __init__(self, journal, synchronous, promise):
        self.name = f"sqlite-{journal}-{synchronous}"
        self.what = f"SQLite, journal_mode={journal}, synchronous={synchronous}"
        self.journal, self.synchronous, self.promise = journal, synchronous, promise

    def version(self):
        if sqlite3 is None:
            raise RuntimeError("this python has no sqlite3 module")
        return sqlite3.sqlite_version

    def open(self, home):
        base = sqlite3.connect(f"{home}/base.db", isolation_level=None)
        base.execute(f"PRAGMA journal_mode={self.journal}")
        base.execute(f"PRAGMA synchronous={self.synchronous}")
        return base

    def setup(self, home, seed):
        base = self.open(home)
        base.execute("CREATE TABLE item (step INTEGER, part INTEGER, data BLOB, "
                     "PRIMARY KEY (step, part))")
        base.execute("CREATE TABLE total (steps INTEGER)")
        base.execute("INSERT INTO total VALUES (0)")
        base.close()

    def start(self, home, seed):
        return SqliteRun(self.open(home), seed)

    def check(self, home, seed, acked):
        base = self.open(home)
        verdict = base.execute("PRAGMA integrity_check").fetchone()[0]
        if verdict != "ok":
            raise Broken(f"integrity_check: {verdict}")
        total = base.execute("SELECT steps FROM total").fetchone()[0]
        if total > acked + 1:
            raise Broken(f"{total} transactions, of {acked} acknowledged")
        rows = dict(((step, part), data) for step, part, data
                    in base.execute("SELECT step, part, data FROM item"))
        wanted = {(step, part): content(seed, f"{step}.{part}", 900)
                  for step in range(total) for part in range(3)}
        if rows != wanted:
            raise Broken(f"{total} transactions are not {len(rows)} rows of theirs")
        base.close()
        return max(0, acked - total)


class SqliteRun:
    def __init__(self, base, seed):
        self.base, self.seed = base, seed

    def step(self, step):
        self.base.execute("BEGIN")
        for part in range(3):
            data = content(self.seed, f"{step}.{part}", 900)
            self.base.execute("INSERT INTO item VALUES (?, ?, ?)", (step, part, data))
        self.base.execute("UPDATE total SET steps = ?", (step + 1,))
        self.base.execute("COMMIT")


class LogStructured:
    """LevelDB or RocksDB through their C interfaces, which differ by a prefix."""

    def __init__(self, library, sync):
        self.library, self.sync = library, sync
        self.name = library + ("-sync" if sync else "-nosync")
        self.what = f"{library}, writes with sync={str(sync).lower()}"
        self.promise = "durable" if sync else "usable"

    def load(self):
        found = ctypes.util.find_library(self.library)
        if found is None:
            raise RuntimeError(f"no lib{self.library}.so on this machine")
        lib = ctypes.CDLL(found)
        return lib, found

    def version(self):
        return self.load()[1]

    def call(self, lib, name, result, *arguments):
        function = getattr(lib, f"{self.library}_{name}")
        function.restype = result
        return function(*arguments)

    def open(self, home):
        return LogBase(self, f"{home}/base")

    def setup(self, home, seed):
        self.open(home).close()

    def start(self, home, seed):
        return LogRun(self.open(home), seed)

    def check(self, home, seed, acked):
        base = self.open(home)
        there = 0
        for step in range(acked + 1):
            value = base.get(b"key%06d" % step)
            if value is None:
                break
            if value != content(seed, step, 6000):
                raise Broken(f"the value of step {step} differs from the stored value")
            there += 1
        for step in range(there, acked + 1):
            if base.get(b"key%06d" % step) is not None:
                raise Broken(f"step {there} is missing and the later step {step} is there")
        base.close()
        return max(0, acked - there)


class LogBase:
    def __init__(self, kind, path):
        self.lib, _ = kind.load()
        self.kind, self.path = kind, path
        options = self.call("options_create", ctypes.c_void_p)
        self.call("options_set_create_if_missing", None, ctypes.c_void_p(options),
                  ctypes.c_ubyte(1))
        # Small, so that a short run compacts and changes its manifest.
        self.call("options_set_write_buffer_size", None, ctypes.c_void_p(options),
                  ctypes.c_size_t(64 << 10))
        self.options = ctypes.c_void_p(options)
        error = ctypes.c_char_p()
        self.base = ctypes.c_void_p(self.call("open", ctypes.c_void_p, self.options,
                                              path.encode(), ctypes.byref(error)))
        self.raise_for(error)
        self.writing = ctypes.c_void_p(self.call("writeoptions_create", ctypes.c_void_p))
        self.call("writeoptions_set_sync", None, self.writing, ctypes.c_ubyte(kind.sync))
        self.reading = ctypes.c_void_p(self.call("readoptions_create", ctypes.c_void_p))

    def call(self, name, result, *arguments):
        return self.kind.call(self.lib, name, result, *arguments)

    def raise_for(self, error):
        if error.value is not None:
            raise Broken(error.value.decode(errors="replace"))

    def put(self, key, value):
        error = ctypes.c_char_p()
        self.call("put", None, self.base, self.writing, key, ctypes.c_size_t(len(key)),
                  value, ctypes.c_size_t(len(value)), ctypes.byref(error))
        self.raise_for(error)

    def get(self, key):
        error, length = ctypes.c_char_p(), ctypes.c_size_t()
        value = self.call("get", ctypes.c_void_p, self.base, self.reading, key,
                          ctypes.c_size_t(len(key)), ctypes.byref(length), ctypes.byref(error))
        self.raise_for(error)
        return None if value is None else ctypes.string_at(value, length.value)

    def close(self):
        self.call("close", None, self.base)

    def reopen(self):
        self.close()
        return LogBase(self.kind, self.path)


class LogRun:
    """Puts, and from time to time the program ends and starts again: that makes a new manifest and a new log
    and removes the old ones."""
    REOPEN = 7

    def __init__(self, base, seed):
        self.base, self.seed = base, seed

    def step(self, step):
        if step % self.REOPEN == self.REOPEN - 1:
            self.base = self.base.reopen()
        self.base.put(b"key%06d" % step, content(self.seed, step, 6000))


class Lmdb:
    """LMDB through its C interface: one transaction a step."""
    MAP_SIZE = 8 << 20

    def __init__(self, name, flags, promise):
        self.name, self.flags, self.promise = name, flags, promise
        self.what = "LMDB" + (", MDB_NOMETASYNC" if flags else "")

    def load(self):
        found = ctypes.util.find_library("lmdb")
        if found is None:
            raise RuntimeError("no liblmdb.so on this machine")
        lib = ctypes.CDLL(found)
        lib.mdb_strerror.restype = ctypes.c_char_p
        return lib, found

    def version(self):
        lib, _ = self.load()
        lib.mdb_version.restype = ctypes.c_char_p
        return lib.mdb_version(None, None, None).decode()

    def setup(self, home, seed):
        os.mkdir(f"{home}/base")
        LmdbBase(self, home).close()

    def start(self, home, seed):
        return LmdbRun(LmdbBase(self, home), seed)

    def check(self, home, seed, acked):
        base = LmdbBase(self, home)
        values = base.get([b"key%06d" % step for step in range(acked + 1)])
        there = sum(value is not None for value in values)
        for step, value in enumerate(values):
            if value is None and step < there:
                raise Broken(f"step {step} is missing and a later one is there")
            if value is not None and value != content(seed, step, 1500):
                raise Broken(f"the value of step {step} differs from the stored value")
        base.close()
        return max(0, acked - there)


class Value(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class LmdbBase:
    NOT_FOUND = -30798

    def __init__(self, kind, home):
        self.lib, _ = kind.load()
        self.env = ctypes.c_void_p()
        self.do("mdb_env_create", ctypes.byref(self.env))
        self.do("mdb_env_set_mapsize", self.env, ctypes.c_size_t(kind.MAP_SIZE))
        self.do("mdb_env_open", self.env, f"{home}/base".encode(), ctypes.c_uint(kind.flags),
                ctypes.c_uint(0o644))

    def do(self, name, *arguments):
        code = getattr(self.lib, name)(*arguments)
        if code:
            raise Broken(f"{name}: {self.lib.mdb_strerror(code).decode()}")

    def begin(self, read_only):
        transaction, table = ctypes.c_void_p(), ctypes.c_uint()
        flags = 0x20000 if read_only else 0
        self.do("mdb_txn_begin", self.env, None, ctypes.c_uint(flags), ctypes.byref(transaction))
        self.do("mdb_dbi_open", transaction, None, ctypes.c_uint(0), ctypes.byref(table))
        return transaction, table

    @staticmethod
    def value(data):
        buffer = ctypes.create_string_buffer(data, len(data))
        return Value(len(data), ctypes.cast(buffer, ctypes.c_void_p)), buffer

    def put(self, key, data):
        transaction, table = self.begin(False)
        (key, _k), (data, _d) = self.value(key), self.value(data)
        self.do("mdb_put", transaction, table, ctypes.byref(key), ctypes.byref(data),
                ctypes.c_uint(0))
        self.do("mdb_txn_commit", transaction)

    def get(self, keys):
        transaction, table = self.begin(True)
        found = []
        for key in keys:
            (key, _k), data = self.value(key), Value()
            code = self.lib.mdb_get(transaction, table, ctypes.byref(key), ctypes.byref(data))
            if code not in (0, self.NOT_FOUND):
                raise Broken(f"mdb_get: {self.lib.mdb_strerror(code).decode()}")
            found.append(None if code else ctypes.string_at(data.data, data.size))
        self.lib.mdb_txn_abort(transaction)
        return found

    def close(self):
        self.lib.mdb_env_close(self.env)


class LmdbRun:
    def __init__(self, base, seed):
        self.base, self.seed = base, seed

    def step(self, step):
        self.base.put(b"key%06d" % step, content(self.seed, step, 1500))


def sqlite_programs():
    """SQLite's own words: https://sqlite.org/pragma.html#pragma_synchronous.

    EXTRA is FULL, and the directory is synced after the journal is unlinked: with DELETE and FULL a commit
    followed closely by a power cut may be taken back. NORMAL keeps a WAL database consistent, not durable,
    and with a rollback journal has a small chance of corruption on older file systems. A journal in memory
    protects from nothing.
    """
    for journal in ("delete", "truncate", "persist", "memory", "wal"):
        for synchronous in ("normal", "full", "extra"):
            if journal == "memory":
                promise = "none"
            elif synchronous == "extra" or (synchronous == "full" and journal != "delete"):
                promise = "durable"
            else:
                promise = "usable"
            yield Sqlite(journal, synchronous, promise)


PROGRAMS = [
    *sqlite_programs(),
    LogStructured("leveldb", True), LogStructured("leveldb", False),
    LogStructured("rocksdb", True), LogStructured("rocksdb", False),
    Lmdb("lmdb", 0, "durable"), Lmdb("lmdb-nometasync", 0x40000, "usable"),
]
