//! Copies of trees between the host and a volume.

use std::io;

use bsdffs::copy::{CopyOptions, CopyReport, Existing};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::path::FsPath;
use crate::signals::Watch;
use crate::state::State;

/// The direction of a copy.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    In,
    Out,
}

/// The options of a copy from the arguments of the method.
pub(crate) fn options(preserve: bool, existing: &str) -> PyResult<CopyOptions> {
    let existing = match existing {
        "overwrite" => Existing::Overwrite,
        "replace" => Existing::Replace,
        "keep" => Existing::Keep,
        other => {
            let why = format!("existing={other:?}: expected 'overwrite', 'replace' or 'keep'");
            return Err(PyValueError::new_err(why));
        }
    };
    Ok(CopyOptions { preserve, hard_links: preserve, existing, ..CopyOptions::default() })
}

/// Copies a tree and returns the report.
pub(crate) fn copy<'py>(
    py: Python<'py>,
    state: &State,
    (from, to): (&FsPath, &FsPath),
    options: CopyOptions,
    direction: Direction,
) -> PyResult<Bound<'py, PyDict>> {
    let mut watch = Watch::new();
    let done = state.run(py, &[from, to], |volume| -> io::Result<CopyReport> {
        let (from, to) = (from.path(), to.path());
        match direction {
            Direction::In => volume.copy_in_with(from, to, options, &mut watch),
            Direction::Out => volume.copy_out_with(from, to, options, &mut watch),
        }
    });
    let (raised, skipped) = watch.finish();
    if let Some(error) = raised {
        return Err(error);
    }
    report(py, &done?, skipped)
}

/// A report as the arguments of `ffs.CopyReport`.
pub(crate) fn report<'py>(
    py: Python<'py>,
    done: &CopyReport,
    skipped: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in [
        ("files", done.files),
        ("directories", done.directories),
        ("hard_links", done.hard_links),
        ("symlinks", done.symlinks),
        ("special", done.special),
        ("bytes", done.bytes),
        ("failed", done.failed),
    ] {
        dict.set_item(name, count)?;
    }
    dict.set_item("skipped", skipped)?;
    dict.set_item("losses", done.loss_messages())?;
    Ok(dict)
}
