//! The results file of a study. Each finished job is durable before its worker takes the next.
//!
//! # Invariants
//! 1. A job that was appended is found again, however the program ends later.
//! 2. Incomplete and damaged lines are detected, reported and skipped; their jobs run again.
//! 3. A file of another study, and a file that is not a results file, is never written to.
//! 4. A complete file has its lines in the order of the plan: the same study gives the same bytes.
//!
//! # Locking
//! A study locks its file while it writes, so that a second study cannot write to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::file_format::{self, FinishedJobs, ParsedFile};
use super::plan::{Job, Plan};
use super::results::{JobResult, Results};
use crate::error::{LabError, Result};

/// The name of the file in the directory of a study.
pub(super) const FILE: &str = "results.jsonl";

/// The results file of one study, open for appending.
#[derive(Debug)]
pub struct ResultsFile {
    path: PathBuf,
    file: File,
    plan: Plan,
    tag: String,
    finished: FinishedJobs,
    /// Lines that could not be written.
    unsaved: Vec<String>,
    /// Whether the lines of the file differ from those of `finished`, or are in another order.
    is_unsorted: bool,
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> LabError {
    LabError::unusable(&path.display().to_string(), why)
}

impl ResultsFile {
    /// Opens or creates the results file of `plan` in `dir`. Damage is reported to `note`.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if the file belongs to another study, is in use, or cannot be read or
    /// written.
    pub fn open(dir: &Path, plan: &Plan, note: &mut dyn FnMut(String)) -> Result<ResultsFile> {
        plan.check()?;
        fs::create_dir_all(dir).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                unusable(dir, "is not a directory; name one with --out")
            }
            _ => unusable(dir, format!("cannot be created: {error}")),
        })?;
        let path = dir.join(FILE);
        let mut options = OpenOptions::new();
        let opened = options.read(true).append(true).create(true).open(&path);
        let mut file = opened.map_err(|error| unusable(&path, error))?;
        lock(&file, &path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| unusable(&path, error))?;
        let found = file_format::parse(&bytes).map_err(|why| {
            unusable(&path, format!("{why}; name another directory with --out, or move it away"))
        })?;
        let tag = plan.tag()?;
        let (finished, unsaved) = (FinishedJobs::default(), Vec::new());
        let mut store = ResultsFile {
            path,
            file,
            plan: plan.clone(),
            tag,
            finished,
            unsaved,
            is_unsorted: false,
        };
        store.take(found, note)?;
        Ok(store)
    }

    /// Takes over the content of the file, and rewrites the file if it is damaged.
    fn take(&mut self, found: ParsedFile, note: &mut dyn FnMut(String)) -> Result<()> {
        if let Some(theirs) = found.plan.as_ref().filter(|theirs| **theirs != self.plan) {
            let why = format!(
                "holds another study ({}); name another directory with --out, or repeat the \
                 command that began it",
                self.plan.differences(theirs)
            );
            return Err(unusable(&self.path, why));
        }
        let is_intact = found.plan.is_some() && found.damaged.is_empty() && !found.is_truncated;
        report_damage(&self.path, &found, note);
        let mut in_order = true;
        for (tag, result, line) in found.jobs {
            if tag != self.tag {
                let why = "holds jobs of another study; name another directory with --out";
                return Err(unusable(&self.path, why));
            }
            let last = self.finished.last();
            if !self.finished.add(&self.plan, result, line)? {
                return Err(unusable(&self.path, "holds a job that is not in its plan"));
            }
            in_order &= last < self.finished.last();
        }
        self.is_unsorted = !in_order;
        if is_intact { Ok(()) } else { self.rewrite() }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The plan of the study.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether a job is finished.
    #[must_use]
    pub fn has(&self, job: &Job) -> bool {
        self.finished.has(job)
    }

    /// The number of finished jobs.
    #[must_use]
    pub fn finished(&self) -> usize {
        self.finished.len()
    }

    /// The jobs of the plan that are not finished.
    #[must_use]
    pub fn missing(&self) -> Vec<Job> {
        self.finished.missing(&self.plan)
    }

    /// The finished jobs, in the order of the plan.
    #[must_use]
    pub fn results(&self) -> Results {
        Results { plan: self.plan.clone(), jobs: self.finished.results().cloned().collect() }
    }

    /// Appends a finished job, which is durable on return. After a failure the job stays in memory,
    /// for [`ResultsFile::rescue`].
    ///
    /// # Errors
    /// [`LabError::Unusable`] if the file cannot be written or was removed.
    pub fn append(&mut self, result: JobResult) -> Result<()> {
        let line = file_format::job(&self.tag, &result)?;
        let before = self.finished.last();
        self.finished.add(&self.plan, result, line.clone())?;
        self.is_unsorted |= before >= self.finished.last();
        if !self.unsaved.is_empty() {
            self.unsaved.push(line);
            return Ok(());
        }
        let written = self.write(&line).and_then(|()| self.check_exists());
        written.map_err(|error| {
            self.unsaved.push(line);
            unusable(&self.path, error)
        })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let end = self.file.seek(SeekFrom::End(0))?;
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.and_then(|()| self.file.sync_data()).inspect_err(|_| {
            // An incomplete line does no harm: a reader skips it.
            let _ = self.file.set_len(end);
        })
    }

    /// Fails if the file or its directory was removed: a write would be lost.
    fn check_exists(&self) -> io::Result<()> {
        let (mine, named) = (self.file.metadata()?, fs::metadata(&self.path)?);
        if (mine.dev(), mine.ino()) == (named.dev(), named.ino()) {
            return Ok(());
        }
        Err(io::Error::other("another file has taken its place"))
    }

    /// Sorts the lines in the order of the plan. Called at the end of a run.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if the file cannot be written; it is unchanged then.
    pub(crate) fn seal(&mut self) -> Result<()> {
        if self.is_unsorted { self.rewrite() } else { Ok(()) }
    }

    /// Writes a new file beside the old one and renames it over the old one.
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
        self.is_unsorted = false;
        sync_dir(&self.path);
        Ok(())
    }

    fn write_all(&self, path: &Path) -> io::Result<File> {
        let header = file_format::header(&self.plan).map_err(io::Error::other)?;
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path)?;
        // A killed study may have left this file. The lock on the results file makes it ours.
        file.set_len(0)?;
        // On a file system without locks a second writer cannot be detected.
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

    /// Makes every later write fail with ENOSPC; `false` if the system has no `/dev/full`.
    #[cfg(test)]
    pub(super) fn fill_disk(&mut self) -> bool {
        let full = OpenOptions::new().append(true).open("/dev/full");
        full.map(|full| self.file = full).is_ok()
    }

    /// Adds a line of another part of the same study; `false` if its job is not in the plan.
    pub(super) fn absorb(&mut self, result: JobResult, line: String) -> Result<bool> {
        let before = self.finished.len();
        let mine = self.finished.add(&self.plan, result, line)?;
        self.is_unsorted |= self.finished.len() > before;
        Ok(mine)
    }

    /// Writes the lines that the results file lacks to a new file in `elsewhere`, which
    /// [`super::merge()`] reads. Returns its name; `None` if no line is lacking.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if that file cannot be written either.
    pub(crate) fn rescue(&mut self, elsewhere: &Path) -> Result<Option<PathBuf>> {
        if self.unsaved.is_empty() {
            return Ok(None);
        }
        let removed = self.check_exists().is_err();
        let header = file_format::header(&self.plan)?;
        let rest: Vec<&str> = if removed {
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

impl Results {
    /// Reads a results file, or the one in a directory, and changes nothing. Damage is reported to
    /// `note`.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if the file does not exist or cannot be read.
    pub fn read(path: &Path, note: &mut dyn FnMut(String)) -> Result<Results> {
        let (path, found) = read(path)?;
        report_damage(&path, &found, note);
        let Some(plan) = found.plan else {
            let why = "the line that holds its plan is damaged; repeat the command that made it";
            return Err(LabError::unusable(&path.display().to_string(), why));
        };
        let mut finished = FinishedJobs::default();
        let tag = plan.tag()?;
        for (of, result, line) in found.jobs {
            if of != tag || !finished.add(&plan, result, line)? {
                let why = "holds a job that is not in its plan";
                return Err(LabError::unusable(&path.display().to_string(), why));
            }
        }
        let jobs = finished.results().cloned().collect();
        Ok(Results { plan, jobs })
    }

    /// The path of the results file in the directory of a study.
    #[must_use]
    pub(crate) fn path_in(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }
}

/// Makes a new name durable, if the system can.
fn sync_dir(path: &Path) {
    let dir = path.parent().and_then(|dir| File::open(dir).ok());
    // The content is durable either way.
    let _ = dir.map(|dir| dir.sync_all());
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let why = "another run is writing here; give each its own directory with --out, and \
                       join them with ffs lab merge";
            Err(unusable(path, why))
        }
        // As in `write_all`.
        _ => Ok(()),
    }
}

/// Reports the lines that were skipped.
pub(super) fn report_damage(path: &Path, found: &ParsedFile, note: &mut dyn FnMut(String)) {
    let path = path.display();
    for line in &found.damaged {
        let content = if *line == 1 { ", which holds the plan," } else { "" };
        let redo = if *line == 1 { "" } else { "; its job is run again" };
        note(format!("{path}: line {line}{content} is damaged and skipped{redo}"));
    }
    if found.is_truncated {
        note(format!("{path}: the last line is incomplete and skipped; its job is run again"));
    }
}

/// Reads the results file of a study: the file itself, or the directory that holds it.
///
/// # Errors
/// [`LabError::Unusable`] if it is not a results file or cannot be read.
pub(super) fn read(path: &Path) -> Result<(PathBuf, ParsedFile)> {
    let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    let bytes = fs::read(&path).map_err(|error| unusable(&path, error))?;
    let found = file_format::parse(&bytes).map_err(|why| unusable(&path, why))?;
    Ok((path, found))
}
