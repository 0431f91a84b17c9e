//! The native part of the Python package `ffs`: volumes, open files, listings and the offline
//! commands. The package in `ffs/` adds what is shorter in Python: modes of `open`, `walk`, text.
//!
//! # Invariants
//! 1. The interpreter lock is released during every operation on a volume. A lock of this crate is
//!    taken only while it is released, so that no thread waits for the two in different orders.
//! 2. After [`volume::Volume::close`] no object holds the volume, so its image is unlocked, and
//!    every further use raises `ValueError`.
//! 3. An error of a volume becomes an `OSError` with errno, text and the path that the caller gave.
//! 4. A size from an image never decides alone how much memory is allocated without a check.
//! 5. Another process than the one that opened a volume takes no lock of it, and writes nothing.
//!
//! | module | content |
//! | --- | --- |
//! | `path` | paths from Python, and back |
//! | `error` | errors |
//! | `process` | the process that a volume belongs to |
//! | `state` | a volume that can be closed under its users |
//! | `stat` | attributes of files and volumes |
//! | `volume` | the class `Volume` |
//! | `trees` | copies of trees |
//! | `file` | open files |
//! | `listing` | directories |
//! | `waiting` | waiting for the lock of an image |
//! | `signals` | Ctrl-C during long operations |
//! | `admin` | newfs, build, fsck, dumpfs |

mod admin;
mod error;
mod file;
mod listing;
mod path;
mod process;
mod signals;
mod stat;
mod state;
mod trees;
mod volume;
mod waiting;

use pyo3::prelude::*;

/// The native part of the package `ffs`.
#[pymodule]
mod _ffs {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::admin::{build, dumpfs, fsck, newfs};
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::listing::{DirEntry, ScandirIterator};
    #[pymodule_export]
    use crate::stat::{Stat, StatVfs};
    #[pymodule_export]
    use crate::volume::Volume;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
