//! Processor time of this computer, with the volume in memory.
//!
//! The same operations on the same volume as in [`super::layer`], without the simulated machine.
//! Times are those of the thread, so other load affects them little; they are not the same on every
//! computer.

use std::sync::Arc;

use ffs_core::{Cred, Env, Ffs, NodeKind, Vnode};
use ffs_device::{BlockDevice, ManualClock, Timestamp};
use serde::Serialize;

use super::error::Result as IndexResult;
use super::layer::{IndexedDirectory, failed, spec};
use super::{IndexKind, IndexRequest};
use crate::error::{LabError, Result};
use crate::machine::{AgedVolumes, CLOCK_START, ForeignVolume, SimDisk, mark_foreign};
use crate::shuffle::{Purpose, shuffled};
use crate::timer::{RealTimer, Timer};
use crate::watch::Watch;

/// The sizes of the directories.
const SIZES: [u32; 3] = [1000, 10_000, 100_000];
/// The largest directory of a kind whose cost grows with the square of the size.
const SLOW: u32 = 10_000;

/// A result. Serialised, it is a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RealRow {
    /// The index.
    pub index: &'static str,
    /// Files in the directory.
    pub files: u32,
    /// The phase.
    pub phase: &'static str,
    /// Microseconds of the processor for each operation, on this computer.
    pub real_cpu_us: f64,
}

/// A directory on a volume in memory.
struct InMemory {
    fs: Ffs,
    cred: Cred,
    dir: Vnode,
    indexed: Option<IndexedDirectory>,
}

impl InMemory {
    fn new(kind: IndexKind, files: u32, seed: u64) -> Result<InMemory> {
        let spec = spec(kind, files.into())?;
        let unusable = |why: String| LabError::unusable(kind.name(), why);
        let mut store = AgedVolumes::get(&spec.preset.volume, seed).map_err(unusable)?;
        let device: Arc<dyn BlockDevice> = if kind.is_own() {
            Arc::new(SimDisk::timeless(store))
        } else {
            let mark = mark_foreign(&mut store).map_err(unusable)?;
            Arc::new(ForeignVolume::new(SimDisk::timeless(store), mark))
        };
        let clock = Arc::new(ManualClock::new(Timestamp::new(CLOCK_START, 0)));
        let fs = Ffs::mount(device, &spec.core.options, Env::seeded(clock, seed));
        let fs = fs.map_err(|error| unusable(error.to_string()))?;
        let cred = Cred::root();
        let root = fs.root().map_err(failed)?;
        let dir = fs.mkdir(&cred, &root, b"index", 0o755).map_err(failed)?;
        let open = || IndexedDirectory::open(&fs, &dir, kind);
        let indexed = if kind.is_own() { None } else { Some(open()?) };
        Ok(InMemory { fs, cred, dir, indexed })
    }

    fn create(&mut self, name: &[u8]) -> IndexResult<()> {
        match &mut self.indexed {
            Some(indexed) => indexed.create(name),
            None => {
                let made = self.fs.create(&self.cred, &self.dir, name, NodeKind::Regular, 0o644);
                made.map(drop).map_err(failed)
            }
        }
    }

    fn stat(&mut self, name: &[u8]) -> IndexResult<()> {
        match &mut self.indexed {
            Some(indexed) => indexed.stat(name).map(drop),
            None => match self.fs.lookup_attr(&self.cred, &self.dir, name) {
                Ok(_) | Err(ffs_core::Error::NotFound) => Ok(()),
                Err(error) => Err(failed(error)),
            },
        }
    }

    fn unlink(&mut self, name: &[u8]) -> IndexResult<()> {
        match &mut self.indexed {
            Some(indexed) => indexed.unlink(name),
            None => self.fs.unlink(&self.cred, &self.dir, name).map_err(failed),
        }
    }
}

fn names(files: u32, seed: u64, purpose: Purpose, end: &str) -> Vec<Vec<u8>> {
    let numbers = shuffled(files, seed, purpose).into_iter();
    numbers.map(|n| format!("{n}{end}").into_bytes()).collect()
}

impl IndexRequest {
    /// Measures the processor time of this computer, one directory after the other.
    ///
    /// # Errors
    /// [`LabError::Interrupted`]; those of the library.
    pub fn run_real(&self, watch: &mut dyn Watch) -> Result<Vec<RealRow>> {
        let sizes = if self.sizes.is_empty() { SIZES.to_vec() } else { self.sizes.clone() };
        let mut rows = Vec::new();
        for kind in &self.kinds {
            let slow = matches!(kind, IndexKind::Linear | IndexKind::Control | IndexKind::Chunk);
            for files in sizes.iter().filter(|files| !slow || **files <= SLOW) {
                watch.step(&format!("{} {files} files, real time", kind.name()));
                real(*kind, *files, self.seed, &mut rows)?;
                if !watch.done(0) {
                    return Err(LabError::Interrupted);
                }
            }
        }
        Ok(rows)
    }
}

fn real(kind: IndexKind, files: u32, seed: u64, rows: &mut Vec<RealRow>) -> Result<()> {
    type Work = fn(&mut InMemory, &[u8]) -> IndexResult<()>;
    let phases: [(&str, Purpose, &str, Work); 4] = [
        ("create", Purpose::Create, "", InMemory::create),
        ("stat", Purpose::Stat, "", InMemory::stat),
        ("miss", Purpose::Miss, "x", InMemory::stat),
        ("delete", Purpose::Unlink, "", InMemory::unlink),
    ];
    let mut directory = InMemory::new(kind, files, seed)?;
    let timer = RealTimer::start();
    for (phase, purpose, end, work) in phases {
        let names = names(files, seed, purpose, end);
        directory.fs.purge_names();
        let began = timer.cpu();
        for name in &names {
            work(&mut directory, name)?;
        }
        let took = timer.cpu().saturating_sub(began);
        let real_cpu_us = took.as_secs_f64() * 1e6 / f64::from(files.max(1));
        rows.push(RealRow { index: kind.name(), files, phase, real_cpu_us });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Extent;
    use super::*;
    use crate::watch::Unwatched;

    #[test]
    fn every_index_runs_in_memory() {
        let (kinds, extent) = (IndexKind::ALL.to_vec(), Extent::Quick);
        let request = IndexRequest { kinds, extent, sizes: vec![300], seed: 1, jobs: 1 };
        let rows = request.run_real(&mut Unwatched).unwrap();
        assert_eq!(rows.len(), 6 * 4);
    }
}
