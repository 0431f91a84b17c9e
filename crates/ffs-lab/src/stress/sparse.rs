//! One large sparse file, written and truncated at random offsets, compared with a model of the
//! written sectors.
//!
//! The file of [`super::fsx`] is at most a megabyte long, so that it can be compared completely.
//! This one uses indirect blocks of every level: writes allocate chains of them, and truncations
//! free some.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use ffs_device::{Rng, SplitMix64};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use super::{Done, Failed, Task, Worker, choose, pattern};

/// Unit of everything, bytes.
const SECTOR: u64 = 512;
/// Largest file: triple indirect blocks with blocks of 4 KiB on UFS2 (1 GiB), in sectors.
const MOST: u64 = (2 << 30) / SECTOR;
/// Most of the changes are within so many sectors.
const NEAR: u64 = (256 << 20) / SECTOR;

/// The operations with their weights.
pub(super) const OPERATIONS: &[(&str, u32)] = &[
    ("write", 20),
    ("truncate", 20),
    ("read", 10),
    ("punch", 4),
    ("allocate", 2),
    ("seek-data", 4),
    ("fsync", 1),
];

/// The worker.
pub(super) struct Sparse {
    file: File,
    /// The seed of the pattern of each written sector.
    model: BTreeMap<u64, u64>,
    /// Sectors of the file.
    len: u64,
    operations: Vec<(&'static str, u32)>,
}

impl Sparse {
    pub(super) fn new(task: &Task) -> io::Result<Sparse> {
        let path = task.dir.join(format!("sparse.{}", task.number));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        let wanted = |name: &str| !task.without.iter().any(|without| without == name);
        let operations = OPERATIONS.iter().copied().filter(|(name, _)| wanted(name)).collect();
        Ok(Sparse { file, model: BTreeMap::new(), len: 0, operations })
    }

    fn place(rng: &SplitMix64) -> u64 {
        rng.below(if rng.below(8) == 0 { MOST } else { NEAR })
    }

    fn act(&mut self, name: &str, rng: &SplitMix64) -> Done {
        let at = Sparse::place(rng);
        match name {
            "write" => {
                let tag = rng.next_u64();
                self.file.write_all_at(&pattern(tag, SECTOR as usize), at * SECTOR)?;
                self.model.insert(at, tag);
                self.len = self.len.max(at + 1);
                Ok(())
            }
            "truncate" => {
                self.file.set_len(at * SECTOR)?;
                self.len = at;
                self.model.split_off(&at);
                Ok(())
            }
            "punch" => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let len = 1 + rng.below(NEAR / 4);
                fallocate(&self.file, flags, at * SECTOR, len * SECTOR)?;
                self.model.retain(|sector, _| !(at..at + len).contains(sector));
                Ok(())
            }
            "allocate" => {
                // A few blocks behind a hole.
                let len = 1 + rng.below(128);
                fallocate(&self.file, FallocateFlags::empty(), at * SECTOR, len * SECTOR)?;
                self.len = self.len.max(at + len);
                Ok(())
            }
            "read" => {
                let written = self.model.len() as u64;
                // A sector that was written, and one somewhere.
                if written > 0
                    && let Some(sector) = self.model.keys().nth(rng.below(written) as usize)
                {
                    self.check(*sector)?;
                }
                self.check(at)
            }
            "fsync" => Ok(self.file.sync_all()?),
            _ => self.seek(at),
        }
    }

    fn take_over_size(&mut self) -> Done {
        self.len = self.file.metadata()?.len().div_ceil(SECTOR);
        Ok(())
    }

    fn check(&self, sector: u64) -> Done {
        if sector >= self.len {
            return Ok(());
        }
        let mut found = vec![0; SECTOR as usize];
        self.file.read_exact_at(&mut found, sector * SECTOR)?;
        let wanted = self.model.get(&sector).map(|tag| pattern(*tag, SECTOR as usize));
        if found == wanted.unwrap_or_else(|| vec![0; SECTOR as usize]) {
            return Ok(());
        }
        let what = if self.model.contains_key(&sector) { "what was written" } else { "zeros" };
        Err(Failed::Wrong(format!("byte {}: 512 bytes that are not {what}", sector * SECTOR)))
    }

    /// Checks that no written sector is reported as a hole.
    fn seek(&self, at: u64) -> Done {
        let data = match seek(&self.file, SeekFrom::Data(at * SECTOR)) {
            Ok(data) => data.div_ceil(SECTOR),
            Err(Errno::NXIO) => self.len,
            Err(errno) => return Err(errno.into()),
        };
        match self.model.range(at..data.max(at)).next() {
            None => Ok(()),
            Some((sector, _)) => {
                Err(Failed::Wrong(format!("byte {} is called a hole", sector * SECTOR)))
            }
        }
    }
}

impl Worker for Sparse {
    fn step(&mut self, rng: &SplitMix64) -> (&'static str, Done) {
        let Some(name) = choose(rng, &self.operations) else { return ("nothing", Ok(())) };
        let mut done = self.act(name, rng);
        if let Err(Failed::Call(Errno::NOSPC)) = done {
            // An allocation may have succeeded in part.
            done = self.take_over_size().and(done);
        }
        (name, done)
    }

    fn end(&mut self) -> Done {
        self.file.sync_all()?;
        let len = self.file.metadata()?.len();
        if len != self.len * SECTOR {
            let wanted = self.len * SECTOR;
            return Err(Failed::Wrong(format!("size {len}, expected {wanted}")));
        }
        self.model.keys().try_for_each(|sector| self.check(*sector))
    }

    fn forbids(&self, errno: Errno) -> bool {
        !matches!(errno, Errno::OPNOTSUPP | Errno::NOSPC)
    }
}
