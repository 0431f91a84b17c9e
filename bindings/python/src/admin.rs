//! The offline commands: newfs, build, fsck, dumpfs.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bsdffs::build::{ImageBuilder, ImageFormat, Tree};
use ffs_admin::dumpfs::{Dump, Scope};
use ffs_admin::fsck::{Answers, Fsck, FsckOptions, FsckReport, Mode};
use ffs_admin::newfs::NewfsOptions;
use ffs_device::BlockDevice;
use ffs_ondisk::{Endian, Format};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::os_error;
use crate::path::FsPath;
use crate::signals::{Interrupt, Watch};
use crate::trees;
use crate::volume::with_partition;

/// The options of a new file system that newfs and build share, from a dict of the Python side.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct How {
    format: u8,
    block_size: Option<u32>,
    fragment_size: Option<u32>,
    density: Option<u32>,
    minfree: u32,
    label: Option<String>,
    soft_updates: bool,
    big_endian: bool,
    no_snap: bool,
}

impl How {
    fn options(self) -> PyResult<NewfsOptions> {
        let format = match self.format {
            1 => Format::Ufs1,
            2 => Format::Ufs2,
            other => {
                let why = format!("format={other}: expected 1 (UFS1) or 2 (UFS2)");
                return Err(PyValueError::new_err(why));
            }
        };
        Ok(NewfsOptions {
            format: Some(format),
            bsize: self.block_size,
            fsize: self.fragment_size,
            density: self.density,
            minfree: self.minfree,
            label: self.label,
            soft_updates: self.soft_updates,
            endian: if self.big_endian { Endian::Big } else { Endian::Little },
            no_snap: self.no_snap,
            ..NewfsOptions::default()
        })
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error)
}

/// Makes an empty file system in a new file.
#[pyfunction]
pub(crate) fn newfs(
    py: Python<'_>,
    image: FsPath,
    size: u64,
    how: How,
    journal: bool,
    reproducible: bool,
) -> PyResult<()> {
    let how = how.options()?;
    let soft_updates = how.soft_updates || journal;
    let options = NewfsOptions {
        size: Some(size),
        soft_updates,
        journal,
        reproducible,
        keep_holes: true,
        ..how
    };
    let made = py.detach(|| bsdffs::format_with(image.path(), &options));
    made.map(|_| ()).map_err(|error| os_error(py, &error, &[&image]))
}

/// Opens a tree: a directory or an archive.
fn tree(path: &Path) -> io::Result<Tree> {
    if std::fs::metadata(path)?.is_dir() {
        return Ok(Tree::Directory { path: path.to_owned(), skip: Vec::new() });
    }
    let name = path.display().to_string();
    Ok(Tree::Archive { file: std::fs::File::open(path)?, name })
}

/// Builds an image from directories and archives.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "only the Python side of the package calls it")]
pub(crate) fn build<'py>(
    py: Python<'py>,
    image: FsPath,
    sources: Vec<FsPath>,
    how: How,
    size: Option<u64>,
    free: u64,
    owner: Option<(u32, u32)>,
    acls: bool,
    source_date_epoch: Option<i64>,
    force: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let how = how.options()?;
    let format = ImageFormat::of_name(image.path());
    let format = format.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let builder = ImageBuilder::new()
        .newfs_options(how)
        .size(size)
        .free(free)
        .owner(owner)
        .acls(acls)
        .source_date_epoch(source_date_epoch)
        .format(format);
    let mut trees = Vec::new();
    for source in &sources {
        let opened = py.detach(|| tree(source.path()));
        trees.push(opened.map_err(|error| os_error(py, &error, &[source]))?);
    }
    let all = if trees.len() == 1 { trees.remove(0) } else { Tree::Layers(trees) };
    let mut watch = Watch::new();
    let built = py.detach(|| {
        replaceable(image.path(), force)?;
        Ok(builder.build_file(all, image.path(), &mut watch)?)
    });
    let (raised, skipped) = watch.finish();
    if let Some(error) = raised {
        return Err(error);
    }
    let built = built.map_err(|error: io::Error| {
        // The names of the files that stopped the build explain it.
        let error = match skipped.first() {
            Some(first) => io::Error::new(error.kind(), format!("{error}: {first}")),
            None => error,
        };
        os_error(py, &error, &[&image])
    })?;
    let dict = PyDict::new(py);
    dict.set_item("size", built.size)?;
    dict.set_item("free", built.free)?;
    dict.set_item("inodes_free", built.inodes_free)?;
    dict.set_item("format", if built.format == Format::Ufs1 { 1 } else { 2 })?;
    dict.set_item("report", trees::report(py, &built.report, skipped)?)?;
    Ok(dict)
}

/// Fails if the image exists and must not be replaced, or is in use.
fn replaceable(image: &Path, force: bool) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(image) else { return Ok(()) };
    if !found.is_file() {
        return Err(invalid("exists and is not a regular file"));
    }
    if !force {
        let why = "the image exists; force=True replaces it";
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    let options = ffs_image::OpenOptions {
        write: true,
        whole_disk: true,
        ..ffs_image::OpenOptions::default()
    };
    Ok(ffs_image::open(image, &options).map(drop)?)
}

fn device(image: &Path, write: bool) -> io::Result<Arc<dyn BlockDevice>> {
    let options = ffs_image::OpenOptions {
        write,
        probe: Some(bsdffs::holds_ufs),
        ..ffs_image::OpenOptions::default()
    };
    Ok(ffs_image::open(image, &options)?.device)
}

/// Checks a file system and returns the report as JSON, with the texts of the findings.
#[pyfunction]
pub(crate) fn fsck(
    py: Python<'_>,
    image: FsPath,
    partition: Option<u32>,
    mode: &str,
    force: bool,
    superblock: Option<u64>,
    max_memory: Option<u64>,
) -> PyResult<(String, Vec<String>)> {
    let interrupt = Interrupt::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let spec = with_partition(&image, partition);
    let (flag, mut look) = (Arc::clone(&interrupt.flag), interrupt.watch());
    let checked = py.detach(|| -> io::Result<FsckReport> {
        let (mode, write) = match mode {
            "preen" => (Mode::Preen, true),
            "repair" => (Mode::Full(Answers::Yes), true),
            _ => (Mode::Full(Answers::No), false),
        };
        let options = FsckOptions {
            mode,
            force,
            superblock,
            max_memory,
            now: now.cast_signed(),
            interrupt: Some(flag),
            ..FsckOptions::default()
        };
        let check = Fsck::new(device(&spec, write)?, options);
        Ok(check.with_progress(move |_| look()).run())
    });
    if let Some(error) = interrupt.finish() {
        return Err(error);
    }
    let report = checked.map_err(|error| os_error(py, &error, &[&image]))?;
    let json = serde_json::to_string(&report).map_err(io::Error::from)?;
    Ok((json, report.findings.iter().map(ToString::to_string).collect()))
}

/// The superblock, and with `groups` the cylinder groups, as JSON.
#[pyfunction]
pub(crate) fn dumpfs(
    py: Python<'_>,
    image: FsPath,
    partition: Option<u32>,
    groups: bool,
    sector: Option<u64>,
) -> PyResult<String> {
    let spec = with_partition(&image, partition);
    let dumped = py.detach(|| -> io::Result<String> {
        let device = device(&spec, false)?;
        let dump = match sector {
            Some(sector) => Dump::open_at(&*device, sector.saturating_mul(512)),
            None => Dump::open(&*device),
        };
        let damaged = |error| io::Error::new(ErrorKind::InvalidData, error);
        let scope = if groups { Scope::All } else { Scope::Superblock };
        let mut json = Vec::new();
        dump.map_err(damaged)?.write_json(&mut json, scope).map_err(damaged)?;
        String::from_utf8(json).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    });
    dumped.map_err(|error| os_error(py, &error, &[&image]))
}
