//! The results file of a study: every finished job is on the disk before the next is begun.
//!
//! **Invariants.**
//! 1. A job that was appended is found again, whatever ends the program later.
//! 2. Lines that were cut off or damaged are known, told and left out; their jobs are run again.
//! 3. The file of another study, or what is no results file, is never written to.
//! 4. A complete file holds its lines in the order of the plan: same study, same bytes.
//!
//! **Locking.** The file is locked while a study writes to it, against a second one in the same place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::lines::{self, Finished, Found};
use super::plan::{Job, Plan};
use super::results::{JobResult, Results};
use crate::error::{LabError, Result};

/// The file's name in the directory of a study.
pub const FILE: &str = "results.jsonl";

/// The results file of one study, open for more.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    plan: Plan,
    tag: String,
    finished: Finished,
    /// Lines the file lacks, because it could not be written.
    unsaved: Vec<String>,
    /// The file's lines are not those of `finished`, or not in their order.
    unsorted: bool,
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> LabError {
    LabError::unusable(&path.display().to_string(), why)
}

impl Store {
    /// Opens the results file of `plan` in `dir`, or makes it; tells `note` what is wrong with it.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if it is of another study, in use, or cannot be read or written.
    pub fn open(dir: &Path, plan: &Plan, note: &mut dyn FnMut(String)) -> Result<Store> {
        plan.check()?;
        fs::create_dir_all(dir).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                unusable(dir, "is no directory; name one with --out")
            }
            _ => unusable(dir, format!("cannot be made: {error}")),
        })?;
        let path = dir.join(FILE);
        let mut options = OpenOptions::new();
        let opened = options.read(true).append(true).create(true).open(&path);
        let mut file = opened.map_err(|error| unusable(&path, error))?;
        lock(&file, &path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| unusable(&path, error))?;
        let found = lines::parse(&bytes).map_err(|why| {
            unusable(&path, format!("{why}; name another directory with --out, or move it away"))
        })?;
        let tag = plan.tag()?;
        let (finished, unsaved) = (Finished::default(), Vec::new());
        let mut store =
            Store { path, file, plan: plan.clone(), tag, finished, unsaved, unsorted: false };
        store.take(found, note)?;
        Ok(store)
    }

    /// Takes over what the file holds, and repairs it if there is anything wrong with it.
    fn take(&mut self, found: Found, note: &mut dyn FnMut(String)) -> Result<()> {
        if let Some(theirs) = found.plan.as_ref().filter(|theirs| **theirs != self.plan) {
            let why = format!(
                "holds another study ({}); name another directory with --out, or repeat the command that \
                 began it",
                self.plan.differences(theirs)
            );
            return Err(unusable(&self.path, why));
        }
        let whole = found.plan.is_some() && found.damaged.is_empty() && !found.half;
        tell_damage(&self.path, &found, note);
        let mut in_order = true;
        for (tag, result, line) in found.jobs {
            if tag != self.tag {
                let why = "holds jobs of another study; name another directory with --out";
                return Err(unusable(&self.path, why));
            }
            let last = self.finished.last();
            if !self.finished.add(&self.plan, result, line)? {
                return Err(unusable(&self.path, "holds a job that its plan has not"));
            }
            in_order &= last < self.finished.last();
        }
        self.unsorted = !in_order;
        if whole { Ok(()) } else { self.rewrite() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether the job is finished.
    #[must_use]
    pub fn has(&self, job: &Job) -> bool {
        self.finished.has(job)
    }

    /// How many jobs are finished.
    #[must_use]
    pub fn finished(&self) -> usize {
        self.finished.len()
    }

    /// Jobs of the plan that are not finished.
    #[must_use]
    pub fn missing(&self) -> Vec<Job> {
        self.finished.missing(&self.plan)
    }

    /// All that is finished, in the order of the plan.
    #[must_use]
    pub fn results(&self) -> Results {
        Results { plan: self.plan.clone(), jobs: self.finished.results().cloned().collect() }
    }

    /// Adds a finished job; on return it is on the disk. After a failure the job is kept in memory, for
    /// [`Store::rescue`].
    ///
    /// # Errors
    /// [`LabError::Unusable`] if the file cannot be written or is no longer there.
    pub fn append(&mut self, result: JobResult) -> Result<()> {
        let line = lines::job(&self.tag, &result)?;
        let before = self.finished.last();
        self.finished.add(&self.plan, result, line.clone())?;
        self.unsorted |= before >= self.finished.last();
        if !self.unsaved.is_empty() {
            self.unsaved.push(line);
            return Ok(());
        }
        let written = self.write(&line).and_then(|()| self.still_there());
        written.map_err(|error| {
            self.unsaved.push(line);
            unusable(&self.path, error)
        })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let end = self.file.seek(SeekFrom::End(0))?;
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.and_then(|()| self.file.sync_data()).inspect_err(|_| {
            // Half a line does no harm: it is left out when the file is read.
            let _ = self.file.set_len(end);
        })
    }

    /// Fails if the file was removed, or its directory: what is written then goes nowhere.
    fn still_there(&self) -> io::Result<()> {
        let (mine, named) = (self.file.metadata()?, fs::metadata(&self.path)?);
        if (mine.dev(), mine.ino()) == (named.dev(), named.ino()) {
            return Ok(());
        }
        Err(io::Error::other("another file has taken its place"))
    }

    /// Puts the lines in the order of the plan, once no more will come.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if it cannot be written; then the file is as it was.
    pub fn seal(&mut self) -> Result<()> {
        if self.unsorted { self.rewrite() } else { Ok(()) }
    }

    /// Writes the file anew beside the old one, and then takes its place.
    fn rewrite(&mut self) -> Result<()> {
        let beside = self.path.with_extension("jsonl.new");
        let written = self.write_all(&beside).and_then(|file| {
            fs::rename(&beside, &self.path)?;
            Ok(file)
        });
        self.file = written.map_err(|error| {
            let _ = fs::remove_file(&beside);
            unusable(&self.path, error)
        })?;
        self.unsorted = false;
        sync_dir(&self.path);
        Ok(())
    }

    fn write_all(&self, path: &Path) -> io::Result<File> {
        let header = lines::header(&self.plan).map_err(io::Error::other)?;
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path)?;
        // One of a study that was killed: ours now, for the file itself is locked.
        file.set_len(0)?;
        // A file system without locks has no second study to fear that we could know of.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut text = header;
        text.push('\n');
        for line in self.finished.lines() {
            text.push_str(line);
            text.push('\n');
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        Ok(file)
    }

    /// From now on the disk is full; false if the system has no such device.
    #[cfg(test)]
    pub(super) fn fill_disk(&mut self) -> bool {
        let full = OpenOptions::new().append(true).open("/dev/full");
        full.map(|full| self.file = full).is_ok()
    }

    /// Adds the lines of another part of the same study.
    pub(super) fn absorb(&mut self, result: JobResult, line: String) -> Result<bool> {
        let before = self.finished.len();
        let mine = self.finished.add(&self.plan, result, line)?;
        self.unsorted |= self.finished.len() > before;
        Ok(mine)
    }

    /// Writes what the results file could not take to a file elsewhere, which [`super::merge()`] reads.
    /// Returns its name; `None` if there is nothing to rescue.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if that cannot be written either.
    pub fn rescue(&mut self, elsewhere: &Path) -> Result<Option<PathBuf>> {
        if self.unsaved.is_empty() {
            return Ok(None);
        }
        let gone = self.still_there().is_err();
        let header = lines::header(&self.plan)?;
        let rest: Vec<&str> = if gone {
            self.finished.lines().collect()
        } else {
            self.unsaved.iter().map(String::as_str).collect()
        };
        let text: String =
            std::iter::once(header.as_str()).chain(rest).map(|line| format!("{line}\n")).collect();
        let (name, fail) = ("ffs-lab-rescued", |error| unusable(elsewhere, error));
        for number in 1.. {
            let path = elsewhere.join(format!("{name}-{}-{number}.jsonl", self.tag));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fail(error)),
                Ok(mut file) => {
                    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
                    return written.map(|()| Some(path)).map_err(fail);
                }
            }
        }
        Ok(None)
    }
}

/// Makes a new name durable, where the system can.
fn sync_dir(path: &Path) {
    let dir = path.parent().and_then(|dir| File::open(dir).ok());
    // The content is on the disk either way.
    let _ = dir.map(|dir| dir.sync_all());
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let why = "another run is writing here; give each its own directory with --out, and join them \
                       with ffs lab merge";
            Err(unusable(path, why))
        }
        // As in `write_all`.
        _ => Ok(()),
    }
}

pub(super) fn tell_damage(path: &Path, found: &Found, note: &mut dyn FnMut(String)) {
    let path = path.display();
    for line in &found.damaged {
        let lost =
            if *line == 1 { "the plan is known all the same" } else { "its job is run again" };
        note(format!("{path}: line {line} is damaged and left out; {lost}"));
    }
    if found.half {
        note(format!(
            "{path}: the last line was not finished and is left out; its job is run again"
        ));
    }
}

/// Reads the results file of a study: the file itself, or the directory that holds it.
///
/// # Errors
/// [`LabError::Unusable`] if it is none or cannot be read.
pub(super) fn read(path: &Path) -> Result<(PathBuf, Found)> {
    let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    let bytes = fs::read(&path).map_err(|error| unusable(&path, error))?;
    let found = lines::parse(&bytes).map_err(|why| unusable(&path, why))?;
    Ok((path, found))
}
