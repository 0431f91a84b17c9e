//! Archives: extract, find, remove. The tree is the paper's X11 tree, a ports tree, or a real one.
//!
//! Extraction reads the archive in parallel. Each file is opened, written in pieces of the size
//! that tar uses, closed, and gets its times. A directory gets its times after its content.
//!
//! Reference: `docs/spec/benchmarks.md` §4.1, §4.10.

use std::borrow::Cow;
use std::time::Duration;

use super::file_calls::{WriteMode, remove_tree, walk, write_file};
use super::imported_tree::{self, ImportedTree};
use super::open_path::OpenPath;
use super::parameters::{Parameter, Parameters};
use super::progress::ProgressMeter;
use super::random::MEDIAN_SIZE;
use super::tree::{Entry, Tree, TreeSize};
use super::tree_shape::TreeShape;
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::{LabError, Result};
use crate::systems::{Demand, DirId, FileId, Kind, Open, Target};
use crate::watch::Watch;

/// The workload `x11`.
pub(super) const X11: WorkloadInfo = WorkloadInfo {
    name: "x11",
    group: "X11 tar",
    about: "extract, list and remove a source tree the size of XFree86 4.1's first archive",
    params: &GIVEN,
    source: "paper §4; shape of X410src-1.tgz: 907 directories, 11,305 files, 130 MB",
    computes: true,
    make: |words| {
        let shape = |words: &Parameters| Ok(Model::Recorded(x11_shape(words)?));
        Tar::make(words, &X11, shape)
    },
};

/// The workload `ports`.
pub(super) const PORTS: WorkloadInfo = WorkloadInfo {
    name: "ports",
    group: "Tree",
    about: "extract, list and remove many directories with few small files, as in FreeBSD's ports",
    params: &[GIVEN[0], GIVEN[1], DIRS, FILES],
    source: "FreeBSD's commit message of the new dirpref: 6596 directories, 13,868 files",
    computes: true,
    make: |words| Tar::make(words, &PORTS, ports_size),
};

/// The size of the ports tree. The sizes are scaled to a median of 600 bytes.
const PORTS_SIZE: TreeSize =
    TreeSize { dirs: 6596, files: 13_868, bytes: 13_868 * 13_500 * 600 / MEDIAN_SIZE };

/// Parameters that replace the model.
const GIVEN: [Parameter; 2] = [
    Parameter::new(
        "archive",
        "",
        "a tar archive, also with gzip: its table of contents replaces the model",
    ),
    Parameter::new("tree", "", "a directory: its names and sizes replace the model"),
];
const DIRS: Parameter = Parameter::new("dirs", "6596", "directories of the model");
const FILES: Parameter = Parameter::new("files", "13868", "files of the model");

/// Bytes of a write: a record of tar.
const RECORD: u64 = 10_240;
/// Bytes of a read of the archive.
const READ: u64 = 32 << 10;
/// The output rate of gunzip and tar, bytes for each second.
const OUTPUT: u64 = 20_000_000;
/// Bytes of a tar header.
const HEADER: u64 = 512;
/// The ratio of the archive's size to that of the tree, an estimate.
const PACKED: (u64, u64) = (16, 90);
/// The name of the archive.
const ARCHIVE: &[u8] = b"archive.tgz";
/// The name of the top directory.
const TOP: &[u8] = b"tree";
/// The modification time of all files: the release of XFree86 4.1.
const TIME: u32 = 991_353_600;

/// The tree of a workload.
enum Model {
    /// A real tree.
    Imported(ImportedTree),
    /// The shape of a real tree, with drawn names.
    Recorded(TreeShape),
    /// A drawn tree of this size.
    Drawn(TreeSize),
}

struct Tar {
    info: &'static WorkloadInfo,
    model: Model,
    size: TreeSize,
}

fn x11_shape(words: &Parameters) -> Result<TreeShape> {
    Ok(TreeShape::xfree86()?.scaled(words.scale()))
}

fn ports_size(words: &Parameters) -> Result<Model> {
    let dirs = words.count("dirs", PORTS_SIZE.dirs as u32, 10_000_000)?.into();
    let files = words.count("files", PORTS_SIZE.files as u32, 100_000_000)?.into();
    Ok(Model::Drawn(TreeSize { dirs, files, bytes: words.share(PORTS_SIZE.bytes) }))
}

impl Tar {
    fn make(
        words: &Parameters,
        info: &'static WorkloadInfo,
        model: impl Fn(&Parameters) -> Result<Model>,
    ) -> Result<Box<dyn Workload>> {
        let model = match (words.path("archive"), words.path("tree")) {
            (Some(_), Some(_)) => {
                let name = info.name;
                let why = format!("workload '{name}': archive= and tree= exclude each other");
                return Err(LabError::Plan(why));
            }
            (Some(path), None) => Model::Imported(imported_tree::archive(&path)?),
            (None, Some(path)) => Model::Imported(imported_tree::directory(&path)?),
            (None, None) => model(words)?,
        };
        let size = match &model {
            Model::Imported(given) => given.tree.size(),
            Model::Recorded(shape) => shape.size(),
            Model::Drawn(size) => *size,
        };
        Ok(Box::new(Tar { info, model, size }))
    }

    fn given(&self) -> Option<&ImportedTree> {
        match &self.model {
            Model::Imported(given) => Some(given),
            _ => None,
        }
    }

    fn packed(&self) -> u64 {
        match self.given() {
            Some(ImportedTree { packed, .. }) if *packed > 0 => *packed,
            _ => (self.size.bytes / PACKED.1 * PACKED.0).max(1),
        }
    }

    fn tree(&self, seed: u64) -> Result<Cow<'_, Tree>> {
        Ok(match &self.model {
            Model::Imported(given) => Cow::Borrowed(&given.tree),
            Model::Recorded(shape) => Cow::Owned(shape.tree(seed)?),
            Model::Drawn(size) => Cow::Owned(Tree::generate(seed, *size)),
        })
    }
}

impl Workload for Tar {
    fn info(&self) -> &'static WorkloadInfo {
        self.info
    }

    fn group(&self) -> String {
        if self.info.name == X11.name && self.given().is_none() { "X11 tar" } else { "Tree" }
            .to_owned()
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        vec![
            PhaseInfo::time("untar", "untar", "files").row("untar"),
            PhaseInfo::time("find", "find", "entries").row("find"),
            PhaseInfo::time("rm", "rm -rf", "entries").row("rm"),
        ]
    }

    fn demand(&self) -> Demand {
        let TreeSize { dirs, files, bytes } = self.size;
        Demand { files: dirs + files + 2, bytes: bytes + self.packed() }
    }

    fn operations(&self) -> u64 {
        3 * (self.size.dirs + self.size.files)
    }

    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let tree = self.tree(seed)?;
        let top = target.begin(self.demand())?;
        let mut meter = ProgressMeter::new(watch);
        meter.step("archive");
        let write = WriteMode { open: Open::CreateNew, piece: 64 << 10 };
        write_file(target, top, ARCHIVE, self.packed(), write)?;
        target.sync()?;
        if let Some(given) = self.given().filter(|given| given.left_out > 0) {
            recorder.note(format!(
                "{} links, devices and other special files are omitted",
                given.left_out
            ));
        }
        meter.phase(recorder, target, "untar", |t, meter| {
            extract(t, top, &tree, self.packed(), meter)?;
            Ok(self.size.files as f64)
        })?;
        meter.phase(recorder, target, "find", |t, meter| {
            find(t, top, meter).map(|found| found as f64)
        })?;
        meter.phase(recorder, target, "rm", |t, meter| {
            remove_tree(t, top, TOP, meter).map(|removed| removed as f64)
        })?;
        target.unlink(top, ARCHIVE)
    }
}

/// The archive, which is read as its content is written.
struct Source {
    file: FileId,
    packed: u64,
    unpacked: u64,
    read: u64,
    out: u64,
}

impl Source {
    /// Reads the part of the archive for `len` bytes of output.
    fn put_out(&mut self, t: &mut dyn Target, len: u64) -> Result<()> {
        self.out += len;
        t.compute(Duration::from_nanos(len * (1_000_000_000 / OUTPUT)));
        let due = u128::from(self.packed) * u128::from(self.out) / u128::from(self.unpacked.max(1));
        self.read_to(t, u64::try_from(due).unwrap_or(self.packed))
    }

    fn read_to(&mut self, t: &mut dyn Target, due: u64) -> Result<()> {
        while self.read < due.min(self.packed) {
            t.read(self.file, self.read, READ.min(self.packed - self.read) as usize)?;
            self.read += READ;
        }
        Ok(())
    }
}

fn extract(
    t: &mut dyn Target,
    top: DirId,
    tree: &Tree,
    packed: u64,
    meter: &mut ProgressMeter<'_>,
) -> Result<()> {
    let size = tree.size();
    let unpacked = size.bytes + HEADER * (size.dirs + size.files);
    let file = t.open(top, ARCHIVE, Open::Read)?;
    let mut source = Source { file, packed, unpacked, read: 0, out: 0 };
    let mut chain = OpenPath::new(top);
    chain.make(t, TOP)?;
    // The directories that still need their times: depth and name.
    let mut dirs: Vec<&[u8]> = Vec::new();
    for Entry { depth, name, size } in &tree.entries {
        leave(t, &mut chain, &mut dirs, *depth)?;
        source.put_out(t, HEADER)?;
        match size {
            None => {
                chain.make(t, name)?;
                dirs.push(name);
            }
            Some(size) => {
                let here = chain.current();
                let file = t.open(here, name, Open::Truncate)?;
                let mut done = 0;
                while done < *size {
                    let len = RECORD.min(size - done);
                    source.put_out(t, len)?;
                    t.write(file, done, len as usize)?;
                    done += len;
                }
                t.close(file)?;
                t.set_times(here, name, TIME)?;
            }
        }
        meter.tick()?;
    }
    leave(t, &mut chain, &mut dirs, 0)?;
    chain.close(t)?;
    // The rest of the archive is padding.
    source.read_to(t, packed)?;
    t.close(file)
}

/// Goes up to `depth` below the top. Sets the times of the directories that it leaves.
fn leave(
    t: &mut dyn Target,
    chain: &mut OpenPath,
    dirs: &mut Vec<&[u8]>,
    depth: usize,
) -> Result<()> {
    while dirs.len() > depth {
        let above = chain.up_to(t, dirs.len())?;
        if let Some(name) = dirs.pop() {
            t.set_times(above, name, TIME)?;
        }
    }
    Ok(())
}

/// `find -print` calls stat for directories only.
fn find(t: &mut dyn Target, top: DirId, meter: &mut ProgressMeter<'_>) -> Result<u64> {
    let mut found = 1;
    walk(t, top, TOP, &mut |t, dir, name, kind| {
        if kind == Kind::Directory {
            t.stat(dir, name)?;
        }
        found += 1;
        meter.tick()
    })?;
    Ok(found)
}
