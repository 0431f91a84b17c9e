//! Files with a known content, each used by one process, in directories that all processes share.
//!
//! Each worker makes, changes, renames, exchanges, links and removes its own files. It reports a
//! content that differs from the last one it wrote. At the end it writes a manifest, by which
//! [`verify`] checks the files after the volume was unmounted, checked and mounted again.
//!
//! **Invariants.**
//! 1. Names of a worker begin with its number. No other worker uses them.
//! 2. A failed call does not change the model. After a failed write the file is removed.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ffs_device::{Rng, SplitMix64};
use rustix::fs::{CWD, RenameFlags};
use serde::{Deserialize, Serialize};

use super::{Done, Failed, Task, Worker, choose, ensure_dir, pattern};
use crate::error::{LabError, Result};

/// Directories that the workers share.
const SHARED: u64 = 6;
/// Files of a worker.
const FILES: usize = 60;
/// Bytes of a file: beyond the direct blocks of small block sizes.
const MOST: u64 = 200 << 10;

/// The operations with their weights.
pub(super) const OPERATIONS: &[(&str, u32)] = &[
    ("create", 10),
    ("write", 20),
    ("truncate", 8),
    ("rename", 12),
    ("replace", 8),
    ("exchange", 6),
    ("link", 5),
    ("unlink", 8),
    ("move-dir", 4),
    ("fsync", 4),
    ("check", 20),
];

/// The number of a content; several names may lead to one file.
type Id = u64;

/// The files of a worker by name, and their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Model {
    names: BTreeMap<PathBuf, Id>,
    contents: BTreeMap<Id, Vec<u8>>,
}

/// The worker.
pub(super) struct Owned {
    base: PathBuf,
    number: u32,
    model: Model,
    operations: Vec<(&'static str, u32)>,
    /// The worker's own directory, which moves between the shared ones.
    home: PathBuf,
    next: u64,
    last: String,
}

/// The entry of a name in a manifest: length and checksum of the content.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Expected(u64, u64);

fn sum(bytes: &[u8]) -> u64 {
    use std::hash::BuildHasher;
    foldhash::quality::FixedState::with_seed(1).hash_one(bytes)
}

fn manifest(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("owned.{number}.json"))
}

impl Owned {
    pub(super) fn new(task: &Task, seed: u64) -> io::Result<Owned> {
        for number in 0..SHARED {
            ensure_dir(&task.dir.join(format!("owned.d{number}")))?;
        }
        let wanted = |name: &str| !task.without.iter().any(|without| without == name);
        let operations = OPERATIONS.iter().copied().filter(|(name, _)| wanted(name)).collect();
        let mut owned = Owned {
            base: task.dir.clone(),
            number: task.number,
            model: Model::default(),
            operations,
            home: PathBuf::new(),
            next: 0,
            last: String::new(),
        };
        owned.home = owned.shared(seed).join(format!("{}.home", task.number));
        // Files of an earlier run.
        for number in 0..SHARED {
            owned.remove_old(number)?;
        }
        fs::create_dir(owned.base.join(&owned.home))?;
        Ok(owned)
    }

    fn remove_old(&self, number: u64) -> io::Result<()> {
        let prefix = format!("{}.", self.number);
        for entry in fs::read_dir(self.base.join(self.shared(number)))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    fs::remove_dir_all(path)?;
                } else {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }

    fn shared(&self, number: u64) -> PathBuf {
        PathBuf::from(format!("owned.d{}", number % SHARED))
    }

    /// A name that is free, or has been used and is free again.
    fn new_name(&mut self, rng: &SplitMix64) -> PathBuf {
        let dir = if rng.below(3) == 0 { self.home.clone() } else { self.shared(rng.next_u64()) };
        self.next += 1;
        let reused = rng.below(2) == 0;
        let number = if reused { rng.below(2 * FILES as u64) } else { self.next + 1000 };
        let name = dir.join(format!("{}.f{number}", self.number));
        if self.model.names.contains_key(&name) {
            return dir.join(format!("{}.g{}", self.number, self.next));
        }
        name
    }

    /// One of the names.
    fn name(&self, rng: &SplitMix64) -> Option<PathBuf> {
        let count = self.model.names.len() as u64;
        (count > 0).then(|| self.model.names.keys().nth(rng.below(count) as usize).cloned())?
    }

    fn at(&self, name: &Path) -> PathBuf {
        self.base.join(name)
    }

    fn act(&mut self, what: &str, rng: &SplitMix64) -> Done {
        if what == "create" || self.model.names.is_empty() {
            return self.create(rng);
        }
        let Some(name) = self.name(rng) else { return Ok(()) };
        self.last = format!("; at {}", name.display());
        match what {
            "write" => self.write(&name, rng),
            "truncate" => self.truncate(&name, rng.below(MOST)),
            "rename" => {
                let to = self.new_name(rng);
                self.rename(&name, &to)
            }
            "replace" => match self.name(rng) {
                Some(to) => self.rename(&name, &to),
                None => Ok(()),
            },
            "exchange" => match self.name(rng) {
                Some(other) => self.exchange(&name, &other),
                None => Ok(()),
            },
            "link" => self.link(&name, rng),
            "unlink" => self.unlink(&name),
            "move-dir" => self.move_home(rng),
            "fsync" => Ok(fs::File::open(self.at(&name))?.sync_all()?),
            _ => self.check(&name),
        }
    }

    fn create(&mut self, rng: &SplitMix64) -> Done {
        if self.model.names.len() >= FILES {
            return Ok(());
        }
        let name = self.new_name(rng);
        OpenOptions::new().write(true).create_new(true).open(self.at(&name))?;
        self.next += 1;
        self.model.contents.insert(self.next, Vec::new());
        self.model.names.insert(name.clone(), self.next);
        self.write(&name, rng)
    }

    fn content(&mut self, name: &Path) -> Option<&mut Vec<u8>> {
        let id = self.model.names.get(name)?;
        self.model.contents.get_mut(id)
    }

    fn write(&mut self, name: &Path, rng: &SplitMix64) -> Done {
        let len = self.content(name).map_or(0, |content| content.len() as u64);
        let offset = rng.below((len + 20_000).min(MOST));
        let bytes = pattern(rng.next_u64(), 1 + rng.below(30_000).min(MOST - offset) as usize);
        let file = OpenOptions::new().write(true).open(self.at(name))?;
        if let Err(error) = file.write_all_at(&bytes, offset) {
            drop(file);
            // Any part of the write may have taken effect.
            self.forget(name)?;
            return Err(error.into());
        }
        if let Some(content) = self.content(name) {
            let (from, to) = (offset as usize, offset as usize + bytes.len());
            content.resize(content.len().max(to), 0);
            content[from..to].copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Removes every name of a file whose content is unknown.
    fn forget(&mut self, name: &Path) -> Done {
        let Some(id) = self.model.names.get(name).copied() else { return Ok(()) };
        let all = self.model.names.iter().filter(|(_, other)| **other == id);
        let names: Vec<PathBuf> = all.map(|(name, _)| name.clone()).collect();
        names.iter().try_for_each(|name| self.unlink(name))
    }

    fn truncate(&mut self, name: &Path, to: u64) -> Done {
        OpenOptions::new().write(true).open(self.at(name))?.set_len(to)?;
        if let Some(content) = self.content(name) {
            content.resize(to as usize, 0);
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Done {
        fs::rename(self.at(from), self.at(to))?;
        let ids = (self.model.names.get(from).copied(), self.model.names.get(to).copied());
        // Two names of one file: rename(2) does nothing.
        if ids.0 == ids.1 {
            return Ok(());
        }
        if let Some(id) = self.model.names.remove(from) {
            self.model.names.insert(to.to_owned(), id);
        }
        self.drop_unnamed();
        Ok(())
    }

    fn exchange(&mut self, one: &Path, other: &Path) -> Done {
        let (from, to) = (self.at(one), self.at(other));
        rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::EXCHANGE)?;
        let ids = (self.model.names.get(one).copied(), self.model.names.get(other).copied());
        if let (Some(first), Some(second)) = ids {
            self.model.names.insert(one.to_owned(), second);
            self.model.names.insert(other.to_owned(), first);
        }
        Ok(())
    }

    fn link(&mut self, name: &Path, rng: &SplitMix64) -> Done {
        if self.model.names.len() >= FILES {
            return Ok(());
        }
        let to = self.new_name(rng);
        fs::hard_link(self.at(name), self.at(&to))?;
        if let Some(id) = self.model.names.get(name).copied() {
            self.model.names.insert(to, id);
        }
        Ok(())
    }

    fn unlink(&mut self, name: &Path) -> Done {
        fs::remove_file(self.at(name))?;
        self.model.names.remove(name);
        self.drop_unnamed();
        Ok(())
    }

    fn drop_unnamed(&mut self) {
        let Model { names, contents } = &mut self.model;
        contents.retain(|id, _| names.values().any(|named| named == id));
    }

    /// Moves the worker's directory, with the files in it, to another parent.
    fn move_home(&mut self, rng: &SplitMix64) -> Done {
        let to = self.shared(rng.next_u64()).join(format!("{}.home", self.number));
        if to == self.home {
            return Ok(());
        }
        fs::rename(self.at(&self.home), self.at(&to))?;
        let from = std::mem::replace(&mut self.home, to);
        let names = std::mem::take(&mut self.model.names);
        let moved = |name: PathBuf| match name.strip_prefix(&from) {
            Ok(rest) => self.home.join(rest),
            Err(_) => name,
        };
        self.model.names = names.into_iter().map(|(name, id)| (moved(name), id)).collect();
        Ok(())
    }

    fn check(&self, name: &Path) -> Done {
        let id = self.model.names.get(name);
        let Some(wanted) = id.and_then(|id| self.model.contents.get(id)) else { return Ok(()) };
        let found = fs::read(self.at(name))?;
        if let Some(why) = differs(wanted, &found) {
            return Err(Failed::Wrong(format!("{}: {why}", name.display())));
        }
        use std::os::unix::fs::MetadataExt;
        let links = self.model.names.values().filter(|other| Some(*other) == id).count() as u64;
        let found = fs::symlink_metadata(self.at(name))?.nlink();
        if found != links {
            let why = format!("{}: {found} links, expected {links}", name.display());
            return Err(Failed::Wrong(why));
        }
        Ok(())
    }

    /// Checks that the directories have no other names of this worker.
    fn check_names(&self) -> Done {
        let prefix = format!("{}.", self.number);
        let mut dirs: Vec<PathBuf> = (0..SHARED).map(|number| self.shared(number)).collect();
        dirs.push(self.home.clone());
        for dir in dirs {
            for entry in fs::read_dir(self.at(&dir))? {
                let name = dir.join(entry?.file_name());
                let ours =
                    name.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
                if ours && name != self.home && !self.model.names.contains_key(&name) {
                    let why = format!("{} is there, and was removed", name.display());
                    return Err(Failed::Wrong(why));
                }
            }
        }
        Ok(())
    }
}

/// The first difference between two contents, in words.
fn differs(wanted: &[u8], found: &[u8]) -> Option<String> {
    if wanted.len() != found.len() {
        return Some(format!("{} bytes, expected {}", found.len(), wanted.len()));
    }
    let at = wanted.iter().zip(found).position(|(wanted, found)| wanted != found)?;
    let (is, was) = (found[at], wanted[at]);
    Some(format!("byte {at} of {}: {is:#04x}, expected {was:#04x}", wanted.len()))
}

impl Worker for Owned {
    fn step(&mut self, rng: &SplitMix64) -> (&'static str, Done) {
        let Some(name) = choose(rng, &self.operations) else { return ("nothing", Ok(())) };
        (name, self.act(name, rng))
    }

    fn end(&mut self) -> Done {
        let names: Vec<PathBuf> = self.model.names.keys().cloned().collect();
        names.iter().try_for_each(|name| self.check(name))?;
        self.check_names()?;
        let expected = |id: &Id| {
            let content = self.model.contents.get(id);
            content.map_or(Expected(0, 0), |bytes| Expected(bytes.len() as u64, sum(bytes)))
        };
        let all: BTreeMap<&PathBuf, Expected> =
            self.model.names.iter().map(|(name, id)| (name, expected(id))).collect();
        let text = serde_json::to_vec(&all).map_err(io::Error::from)?;
        Ok(fs::write(manifest(&self.base, self.number), text)?)
    }

    /// No other worker uses its names, so these errors are violations.
    fn forbids(&self, errno: rustix::io::Errno) -> bool {
        use rustix::io::Errno as E;
        !matches!(errno, E::NOSPC | E::DQUOT | E::INVAL | E::OPNOTSUPP)
    }

    fn last(&self) -> String {
        self.last.clone()
    }
}

/// Compares the files in `dir` with the manifests of the workers. Returns the number of names.
///
/// # Errors
/// [`LabError::Failed`] for the first name that is missing or holds something else.
pub fn verify(dir: &Path) -> Result<u64> {
    let failed = |what: &Path, why: &dyn std::fmt::Display| LabError::Failed {
        target: dir.display().to_string(),
        what: what.display().to_string(),
        why: why.to_string(),
        full: false,
    };
    let mut names = 0;
    for number in 0.. {
        let path = manifest(dir, number);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(failed(&path, &error)),
        };
        let all: BTreeMap<PathBuf, Expected> =
            serde_json::from_slice(&text).map_err(|error| failed(&path, &error))?;
        for (name, wanted) in all {
            let found = fs::read(dir.join(&name)).map_err(|error| failed(&name, &error))?;
            if Expected(found.len() as u64, sum(&found)) != wanted {
                return Err(failed(&name, &"the content is not what was written"));
            }
            names += 1;
        }
    }
    Ok(names)
}
