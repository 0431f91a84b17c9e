//! One file with every kind of access, compared with a model in memory.
//!
//! **Invariants.**
//! 1. After each successful operation the file equals the model. Each read is compared, and the
//!    whole file at intervals.
//! 2. Only this process uses the file.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use ffs_device::{Rng, SplitMix64};
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};
use rustix::io::Errno;

use super::sys::{PAGE, with_mapping};
use super::{Done, Failed, Task, Worker, choose, pattern};

/// Largest file: beyond the direct blocks of every block size up to 16 KiB.
const MOST: u64 = 768 << 10;
/// Largest transfer.
const LONGEST: u64 = 96 << 10;
/// Operations that a report names.
const REMEMBERED: usize = 40;
/// The whole file is compared every so many operations.
const COMPARE_EVERY: u64 = 64;
/// Direct transfers begin and end at multiples of it.
const DIRECT: u64 = 4096;

/// The operations with their weights.
pub(super) const OPERATIONS: &[(&str, u32)] = &[
    ("read", 20),
    ("write", 20),
    ("append", 6),
    ("map-read", 8),
    ("map-write", 10),
    ("direct-read", 6),
    ("direct-write", 6),
    ("truncate", 10),
    ("allocate", 4),
    ("allocate-keep", 3),
    ("punch", 6),
    ("zero", 5),
    ("zero-keep", 3),
    ("copy-range", 6),
    ("fsync", 2),
    ("fdatasync", 2),
    ("forget", 3),
    ("reopen", 3),
    ("size", 4),
    ("seek-data", 4),
];

/// The worker.
pub(super) struct Fsx {
    path: PathBuf,
    file: File,
    direct: Option<File>,
    model: Vec<u8>,
    operations: Vec<(&'static str, u32)>,
    last: VecDeque<String>,
    done: u64,
}

fn open(path: &PathBuf, flags: OFlags) -> io::Result<File> {
    let flags = flags.bits() as i32;
    OpenOptions::new().read(true).write(true).create(true).custom_flags(flags).open(path)
}

impl Fsx {
    pub(super) fn new(task: &Task) -> io::Result<Fsx> {
        let path = task.dir.join(format!("fsx.{}", task.number));
        let _ = std::fs::remove_file(&path);
        let file = open(&path, OFlags::empty())?;
        // Without support for direct transfers they are left out.
        let direct = open(&path, OFlags::DIRECT).ok();
        let wanted = |name: &str| {
            !task.without.iter().any(|without| without == name)
                && (direct.is_some() || !name.starts_with("direct"))
        };
        let operations = OPERATIONS.iter().copied().filter(|(name, _)| wanted(name)).collect();
        let (model, last) = (Vec::new(), VecDeque::new());
        Ok(Fsx { path, file, direct, model, operations, last, done: 0 })
    }

    fn len(&self) -> u64 {
        self.model.len() as u64
    }

    fn remember(&mut self, what: String) {
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(format!("{} {what}", self.done));
    }

    /// A range that begins in the file, or a little behind it.
    fn range(&self, rng: &SplitMix64, unit: u64) -> (u64, u64) {
        let most = (self.len() + LONGEST).min(MOST - unit);
        let offset = rng.below(most + 1) / unit * unit;
        let longest = LONGEST.min(MOST - offset);
        // Short ranges are more frequent: they end inside blocks.
        let len = if rng.below(3) == 0 { rng.below(2000) } else { rng.below(longest) };
        (offset, (len + 1).next_multiple_of(unit).min(longest / unit * unit).max(unit))
    }

    /// The part of a range that is in the file.
    fn inside(&self, (offset, len): (u64, u64)) -> (u64, u64) {
        (offset, len.min(self.len().saturating_sub(offset)))
    }

    /// Puts `bytes` into the model, which grows if it must.
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if self.model.len() < to {
            self.model.resize(to, 0);
        }
        self.model[from..to].copy_from_slice(bytes);
    }

    /// Zeros a range of the model that ends with the file at the latest.
    fn clear(&mut self, range: (u64, u64)) {
        let (offset, len) = self.inside(range);
        if len > 0 {
            self.put(offset, &vec![0; len as usize]);
        }
    }

    fn resize(&mut self, len: u64) {
        self.model.resize(len as usize, 0);
    }

    /// Compares the bytes read at `offset` with the model.
    fn compare(&self, offset: u64, found: &[u8], how: &str) -> Done {
        let from = (offset as usize).min(self.model.len());
        let wanted = &self.model[from..(from + found.len()).min(self.model.len())];
        if wanted.len() != found.len() {
            let (read, len) = (found.len(), self.model.len());
            return Err(Failed::Wrong(format!("{how}: {read} bytes at {offset} of {len}")));
        }
        let Some(at) = wanted.iter().zip(found).position(|(wanted, found)| wanted != found) else {
            return Ok(());
        };
        let differing = wanted.iter().zip(found).filter(|(wanted, found)| wanted != found).count();
        Err(Failed::Wrong(format!(
            "{how}: byte {} of {}: expected {:#04x}, found {:#04x}; {differing} bytes differ in \
             {} at {offset}",
            offset + at as u64,
            self.model.len(),
            wanted[at],
            found[at],
            found.len()
        )))
    }

    fn compare_all(&self, how: &str) -> Done {
        let len = self.file.metadata()?.len();
        if len != self.len() {
            return Err(Failed::Wrong(format!("{how}: size {len}, expected {}", self.len())));
        }
        let mut found = vec![0; self.model.len()];
        self.file.read_exact_at(&mut found, 0)?;
        self.compare(0, &found, how)
    }

    /// Sets the model to the content of the file.
    fn take_over(&mut self) -> Done {
        self.model = std::fs::read(&self.path)?;
        Ok(())
    }

    fn act(&mut self, name: &'static str, rng: &SplitMix64) -> Done {
        let unit = if name.starts_with("direct") { DIRECT } else { 1 };
        let range @ (offset, len) = self.range(rng, unit);
        self.remember(format!("{name} {offset} {len} of {}", self.len()));
        match name {
            "read" => self.read(range),
            "write" | "append" => {
                let offset = if name == "append" { self.len() } else { offset };
                self.write(offset, len.min(MOST.saturating_sub(offset)), rng)
            }
            "map-read" => self.map(range, None),
            "map-write" => self.map(range, Some(rng.next_u64())),
            "direct-read" => self.read_direct(range),
            "direct-write" => self.write_direct(range, rng),
            "truncate" => {
                let to = rng.below(MOST);
                self.remember(format!("truncate to {to}"));
                self.file.set_len(to)?;
                self.resize(to);
                Ok(())
            }
            "allocate" | "allocate-keep" | "punch" | "zero" | "zero-keep" => {
                self.allocate(name, range)
            }
            "copy-range" => self.copy_range(range, rng),
            "fsync" => Ok(self.file.sync_all()?),
            "fdatasync" => Ok(self.file.sync_data()?),
            "forget" => {
                self.file.sync_data()?;
                Ok(fadvise(&self.file, 0, None, Advice::DontNeed)?)
            }
            "reopen" => {
                self.file = open(&self.path, OFlags::empty())?;
                self.direct =
                    self.direct.take().and_then(|_| open(&self.path, OFlags::DIRECT).ok());
                Ok(())
            }
            "size" => self.compare_all("size"),
            _ => self.seek(offset),
        }
    }

    fn read(&self, range: (u64, u64)) -> Done {
        let (offset, len) = self.inside(range);
        let mut found = vec![0; len as usize];
        self.file.read_exact_at(&mut found, offset)?;
        self.compare(offset, &found, "read")
    }

    fn write(&mut self, offset: u64, len: u64, rng: &SplitMix64) -> Done {
        let bytes = pattern(rng.next_u64(), len as usize);
        self.file.write_all_at(&bytes, offset)?;
        self.put(offset, &bytes);
        Ok(())
    }

    /// Reads through a mapping, or writes if there is a tag; the file is made long enough before.
    fn map(&mut self, range: (u64, u64), tag: Option<u64>) -> Done {
        let (offset, len) = if tag.is_some() { range } else { self.inside(range) };
        if len == 0 {
            return Ok(());
        }
        if offset + len > self.len() {
            self.file.set_len(offset + len)?;
            self.resize(offset + len);
        }
        let begin = offset / PAGE * PAGE;
        let skip = (offset - begin) as usize;
        let found = with_mapping(&self.file, (begin, skip + len as usize), |memory| {
            let part = &mut memory[skip..];
            if let Some(tag) = tag {
                part.copy_from_slice(&pattern(tag, part.len()));
            }
            part.to_vec()
        })?;
        if tag.is_some() {
            self.put(offset, &found);
            return Ok(());
        }
        self.compare(offset, &found, "map-read")
    }

    fn read_direct(&self, (offset, len): (u64, u64)) -> Done {
        let Some(direct) = &self.direct else { return Ok(()) };
        let mut memory = vec![0; (len + DIRECT) as usize];
        let at = memory.as_ptr().align_offset(DIRECT as usize);
        let part = &mut memory[at..at + len as usize];
        let read = direct.read_at(part, offset)?;
        // Up to the end of the file, which need not be aligned.
        let (_, wanted) = self.inside((offset, len));
        if (read as u64) < wanted {
            return Err(Failed::Wrong(format!("direct-read: {read} of {wanted} at {offset}")));
        }
        self.compare(offset, &part[..wanted as usize], "direct-read")
    }

    fn write_direct(&mut self, (offset, len): (u64, u64), rng: &SplitMix64) -> Done {
        let Some(direct) = &self.direct else { return Ok(()) };
        let mut memory = vec![0; (len + DIRECT) as usize];
        let at = memory.as_ptr().align_offset(DIRECT as usize);
        let bytes = pattern(rng.next_u64(), len as usize);
        memory[at..at + bytes.len()].copy_from_slice(&bytes);
        direct.write_all_at(&memory[at..at + bytes.len()], offset)?;
        self.put(offset, &bytes);
        Ok(())
    }

    fn allocate(&mut self, name: &'static str, range @ (offset, len): (u64, u64)) -> Done {
        let keep = FallocateFlags::KEEP_SIZE;
        let mode = match name {
            "allocate" => FallocateFlags::empty(),
            "allocate-keep" => keep,
            "punch" => FallocateFlags::PUNCH_HOLE | keep,
            "zero" => FallocateFlags::ZERO_RANGE,
            _ => FallocateFlags::ZERO_RANGE | keep,
        };
        fallocate(&self.file, mode, offset, len)?;
        if !mode.contains(keep) && offset + len > self.len() {
            self.resize(offset + len);
        }
        if mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            self.clear(range);
        }
        Ok(())
    }

    fn copy_range(&mut self, range: (u64, u64), rng: &SplitMix64) -> Done {
        let (from, len) = self.inside(range);
        if len == 0 {
            return Ok(());
        }
        let to = rng.below(MOST - len);
        if to < from + len && from < to + len {
            return Ok(());
        }
        self.remember(format!("copy-range {from} {len} to {to}"));
        let mut done = 0;
        while done < len {
            let (mut source, mut target) = (from + done, to + done);
            let left = (len - done) as usize;
            let copied = rustix::fs::copy_file_range(
                &self.file,
                Some(&mut source),
                &self.file,
                Some(&mut target),
                left,
            )?;
            if copied == 0 {
                return Err(Failed::Wrong(format!("copy-range: {done} of {len} bytes")));
            }
            done += copied as u64;
        }
        let bytes = self.model[from as usize..(from + len) as usize].to_vec();
        self.put(to, &bytes);
        Ok(())
    }

    /// Checks that holes read as zeros.
    fn seek(&self, offset: u64) -> Done {
        use rustix::fs::{SeekFrom, seek};
        let hole = match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => offset..data.min(self.len()),
            Err(Errno::NXIO) => offset.min(self.len())..self.len(),
            Err(errno) => return Err(errno.into()),
        };
        let model = self.model.get(hole.start as usize..hole.end as usize).unwrap_or_default();
        match model.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(at) => Err(Failed::Wrong(format!(
                "seek-data: {hole:?} is called a hole; byte {} is not zero",
                hole.start + at as u64
            ))),
        }
    }
}

impl Worker for Fsx {
    fn step(&mut self, rng: &SplitMix64) -> (&'static str, Done) {
        self.done += 1;
        let Some(name) = choose(rng, &self.operations) else { return ("nothing", Ok(())) };
        let mut done = self.act(name, rng);
        if let Err(Failed::Call(Errno::OPNOTSUPP)) = done {
            self.operations.retain(|(known, _)| *known != name);
        } else if let Err(Failed::Call(Errno::NOSPC)) = done {
            // Any part of it may have taken effect.
            done = self.take_over().and(done);
        } else if done.is_ok() && self.done.is_multiple_of(COMPARE_EVERY) {
            done = self.compare_all("all");
        }
        (name, done)
    }

    fn end(&mut self) -> Done {
        self.file.sync_all()?;
        fadvise(&self.file, 0, None, Advice::DontNeed)?;
        self.compare_all("end")
    }

    /// The file is valid and small: only lack of support or of space may be reported.
    fn forbids(&self, errno: Errno) -> bool {
        !matches!(errno, Errno::OPNOTSUPP | Errno::NOSPC)
    }

    fn last(&self) -> String {
        let lines: Vec<&str> = self.last.iter().map(String::as_str).collect();
        format!("\nlast operations (offset, length, size of the file):\n  {}", lines.join("\n  "))
    }
}
