//! Archives: extract, find, remove. The tree is the paper's X11 tree, a ports tree, or a real one.
//!
//! Extraction reads the archive in parallel. Each file is opened, written in pieces of the size
//! that tar uses, closed, and gets its times. A directory gets its times after its content.
//!
//! Reference: `docs/spec/benchmarks.md` §4.1, §4.10.

use std::time::Duration;

use super::file_calls::{WriteMode, remove_tree, walk, write_file};
use super::imported_tree::{self, ImportedTree};
use super::open_path::OpenPath;
use super::parameters::{Parameter, Parameters};
use super::progress::ProgressMeter;
use super::random::MEDIAN_SIZE;
use super::tree::{Entry, Tree, TreeSize};
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::{LabError, Result};
use crate::systems::{Demand, DirId, FileId, Kind, Open, Target};
use crate::watch::Watch;

/// The workload `x11`.
pub(super) const X11: WorkloadInfo = WorkloadInfo {
    name: "x11",
    group: "X11 tar",
    about: "extract, list and remove a source tree the size of XFree86 4.1's first archive",
    params: &PARAMS,
    source: "paper §4; model of X410src-1.tgz: 500 directories, 7500 files, 90 MB",
    computes: true,
    make: |words| Tar::make(words, &X11, TreeSize { dirs: 500, files: 7500, bytes: 90 << 20 }),
};

/// The workload `ports`.
pub(super) const PORTS: WorkloadInfo = WorkloadInfo {
    name: "ports",
    group: "Tree",
    about: "extract, list and remove many directories with few small files, as in FreeBSD's ports",
    params: &PARAMS,
    source: "FreeBSD's commit message of the new dirpref: 6596 directories, 13,868 files",
    computes: true,
    make: |words| Tar::make(words, &PORTS, PORTS_SHAPE),
};

/// The sizes are scaled to a median of 600 bytes.
const PORTS_SHAPE: TreeSize =
    TreeSize { dirs: 6596, files: 13_868, bytes: 13_868 * 13_500 * 600 / MEDIAN_SIZE };

const PARAMS: [Parameter; 4] = [
    Parameter::new(
        "archive",
        "",
        "a tar archive, also with gzip: its table of contents replaces the model",
    ),
    Parameter::new("tree", "", "a directory: its names and sizes replace the model"),
    Parameter::new("dirs", "the model's", "directories of the model"),
    Parameter::new("files", "the model's", "files of the model"),
];

/// Bytes of a write: a record of tar.
const RECORD: u64 = 10_240;
/// Bytes of a read of the archive.
const READ: u64 = 32 << 10;
/// The output rate of gunzip and tar, bytes for each second.
const OUTPUT: u64 = 20_000_000;
/// Bytes of a tar header.
const HEADER: u64 = 512;
/// The ratio of the archive's size to that of the tree: 16 MB to 90.
const PACKED: (u64, u64) = (16, 90);
/// The name of the archive.
const ARCHIVE: &[u8] = b"archive.tgz";
/// The name of the top directory.
const TOP: &[u8] = b"tree";
/// The modification time of all files: the release of XFree86 4.1.
const TIME: u32 = 991_353_600;

struct Tar {
    info: &'static WorkloadInfo,
    shape: TreeSize,
    given: Option<ImportedTree>,
}

impl Tar {
    fn make(
        words: &Parameters,
        info: &'static WorkloadInfo,
        full: TreeSize,
    ) -> Result<Box<dyn Workload>> {
        let given = match (words.path("archive"), words.path("tree")) {
            (Some(_), Some(_)) => {
                let name = info.name;
                let why = format!("workload '{name}': archive= and tree= exclude each other");
                return Err(LabError::Plan(why));
            }
            (Some(path), None) => Some(imported_tree::archive(&path)?),
            (None, Some(path)) => Some(imported_tree::directory(&path)?),
            (None, None) => None,
        };
        let shape = match &given {
            Some(given) => given.tree.shape(),
            None => {
                let dirs = words.count("dirs", full.dirs as u32, 10_000_000)?.into();
                let files = words.count("files", full.files as u32, 100_000_000)?.into();
                TreeSize { dirs, files, bytes: words.share(full.bytes) }
            }
        };
        Ok(Box::new(Tar { info, shape, given }))
    }

    fn packed(&self) -> u64 {
        match &self.given {
            Some(ImportedTree { packed, .. }) if *packed > 0 => *packed,
            _ => (self.shape.bytes / PACKED.1 * PACKED.0).max(1),
        }
    }
}

impl Workload for Tar {
    fn info(&self) -> &'static WorkloadInfo {
        self.info
    }

    fn group(&self) -> String {
        if self.info.name == X11.name && self.given.is_none() { "X11 tar" } else { "Tree" }
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
        let TreeSize { dirs, files, bytes } = self.shape;
        Demand { files: dirs + files + 2, bytes: bytes + self.packed() }
    }

    fn operations(&self) -> u64 {
        3 * (self.shape.dirs + self.shape.files)
    }

    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let made;
        let tree = match &self.given {
            Some(given) => &given.tree,
            None => {
                made = Tree::generate(seed, self.shape);
                &made
            }
        };
        let top = target.begin(self.demand())?;
        let mut meter = ProgressMeter::new(watch);
        meter.step("archive");
        let write = WriteMode { open: Open::CreateNew, piece: 64 << 10 };
        write_file(target, top, ARCHIVE, self.packed(), write)?;
        target.sync()?;
        if let Some(given) = self.given.as_ref().filter(|given| given.left_out > 0) {
            recorder.note(format!(
                "{} links, devices and other special files are omitted",
                given.left_out
            ));
        }
        meter.phase(recorder, target, "untar", |t, meter| {
            extract(t, top, tree, self.packed(), meter)?;
            Ok(self.shape.files as f64)
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
    let shape = tree.shape();
    let unpacked = shape.bytes + HEADER * (shape.dirs + shape.files);
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
