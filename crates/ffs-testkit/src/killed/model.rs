//! What one writer's names and files have been, and what may be found of them.
//!
//! Time is the number of operations begun. A directory is known by its name up to the first `.`, which no
//! rename changes; a place is a directory and a name in it.

use super::content::Content;
use super::script::Op;
use super::{COMMON, Promises};
use std::collections::{BTreeMap, BTreeSet};

/// A directory, and a name in it.
pub type At = (String, String);

/// What was found: of each place of the common directories and below.
pub type Found = BTreeMap<At, Thing>;

/// What was found at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A directory, known by its name.
    Directory,
    /// A file, with its bytes.
    File(Vec<u8>),
}

/// What a name names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Object {
    File(usize),
    Directory(String),
}

/// What a name named from `since` on.
#[derive(Clone, Debug)]
struct Held {
    since: usize,
    what: Option<Object>,
    /// It came with the content of that time: a rename put it in another file's place.
    content: usize,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    history: Vec<Held>,
    /// As it was then, or later.
    durable: usize,
}

impl Slot {
    fn now(&self) -> Option<&Object> {
        self.history.last().and_then(|h| h.what.as_ref())
    }

    /// What it may show if nothing before `from` counts.
    fn since(&self, from: usize) -> &[Held] {
        let before = self.history.iter().take_while(|h| h.since <= from).count();
        self.history.get(before.saturating_sub(1)..).unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    content: Content,
    /// Somebody was told that it is durable; 0: nobody.
    durable: usize,
    names: BTreeSet<At>,
}

/// What a writer knows.
#[derive(Clone, Debug, Default)]
pub struct Model {
    time: usize,
    slots: BTreeMap<At, Slot>,
    files: Vec<File>,
    /// Where each directory is.
    directories: BTreeMap<String, At>,
    /// Those that are somewhere on the device.
    known: BTreeSet<String>,
}

/// The directory a name stands for.
#[must_use]
pub fn directory_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl Model {
    /// Places that hold files, with the file.
    pub(super) fn named_files(&self) -> Vec<(At, usize)> {
        let file = |(at, slot): (&At, &Slot)| match slot.now() {
            Some(Object::File(file)) => Some((at.clone(), *file)),
            _ => None,
        };
        self.slots.iter().filter_map(file).collect()
    }

    pub(super) fn file_at(&self, at: &At) -> Option<usize> {
        match self.slots.get(at)?.now()? {
            Object::File(file) => Some(*file),
            Object::Directory(_) => None,
        }
    }

    pub(super) fn size(&self, file: usize) -> usize {
        self.files.get(file).map_or(0, |f| f.content.now().len())
    }

    pub(super) fn links(&self, file: usize) -> usize {
        self.files.get(file).map_or(0, |f| f.names.len())
    }

    /// The writer's own directories.
    pub(super) fn own_directories(&self) -> Vec<String> {
        self.directories.keys().cloned().collect()
    }

    pub(super) fn place_of(&self, directory: &str) -> Option<&At> {
        self.directories.get(directory)
    }

    pub(super) fn is_empty(&self, directory: &str) -> bool {
        !self.slots.iter().any(|((dir, _), slot)| dir == directory && slot.now().is_some())
    }

    /// Whether `directory` is `above` or below it.
    pub(super) fn within(&self, directory: &str, above: &str) -> bool {
        let mut at = directory;
        loop {
            if at == above {
                return true;
            }
            match self.directories.get(at) {
                Some((parent, _)) => at = parent,
                None => return false,
            }
        }
    }

    /// The path of a directory.
    #[must_use]
    pub fn path_of(&self, directory: &str) -> String {
        match self.directories.get(directory) {
            Some((parent, name)) => format!("{}/{name}", self.path_of(parent)),
            None => COMMON
                .iter()
                .find(|c| c.rsplit('/').next() == Some(directory))
                .map_or_else(|| directory.to_owned(), |c| (*c).to_owned()),
        }
    }

    /// The path of a place.
    #[must_use]
    pub fn path(&self, at: &At) -> String {
        format!("{}/{}", self.path_of(&at.0), at.1)
    }

    fn put(&mut self, at: &At, what: Option<Object>, content: usize) {
        let since = self.time;
        let slot = self.slots.entry(at.clone()).or_default();
        if slot.history.is_empty() {
            slot.history.push(Held { since: 0, what: None, content: 0 });
        }
        if let Some(Object::File(old)) = slot.now().cloned()
            && let Some(old) = self.files.get_mut(old)
        {
            old.names.remove(at);
        }
        match &what {
            Some(Object::File(new)) => {
                self.files.get_mut(*new).map(|f| f.names.insert(at.clone()));
            }
            Some(Object::Directory(name)) => {
                self.directories.insert(name.clone(), at.clone());
            }
            None => {}
        }
        slot.history.push(Held { since, what, content });
    }

    /// `op` begins; `done`: and returned.
    pub fn apply(&mut self, op: &Op, done: bool) {
        self.time += 1;
        let now = self.time;
        match op {
            Op::Create { at, .. } => {
                self.files.push(File { content: Content::new(now), ..File::default() });
                self.put(at, Some(Object::File(self.files.len() - 1)), 0);
            }
            Op::Write { at, offset, len, tag, sync } => {
                let Some(file) = self.file_at(at) else { return };
                if let Some(f) = self.files.get_mut(file) {
                    f.content.write(now, *offset, *len, *tag);
                }
                if *sync && done {
                    self.durable_file(file);
                }
            }
            Op::Truncate { at, size } => {
                let file = self.file_at(at);
                if let Some(f) = file.and_then(|f| self.files.get_mut(f)) {
                    f.content.resize(now, *size);
                }
            }
            Op::Link { from, to } => {
                let what = self.file_at(from).map(Object::File);
                self.put(to, what, 0);
            }
            Op::Unlink { at } => self.put(at, None, 0),
            Op::Rename { from, to } => self.rename(from, to),
            Op::Mkdir { at } => {
                let what = Object::Directory(directory_of(&at.1).to_owned());
                self.put(at, Some(what), 0);
            }
            Op::Rmdir { at } => {
                self.directories.remove(directory_of(&at.1));
                self.known.remove(directory_of(&at.1));
                self.put(at, None, 0);
            }
            Op::Fsync { at } if done => {
                self.file_at(at).into_iter().for_each(|f| self.durable_file(f));
            }
            Op::FsyncDir { directory } if done => self.durable_directory(directory),
            Op::Sync if done => {
                self.slots.values_mut().for_each(|s| s.durable = now);
                for f in &mut self.files {
                    f.content.settle();
                    f.durable = now;
                }
                self.know();
            }
            Op::Fsync { .. } | Op::FsyncDir { .. } | Op::Sync => {}
        }
    }

    fn rename(&mut self, from: &At, to: &At) {
        let now = self.time;
        let Some(what) = self.slots.get(from).and_then(|s| s.now().cloned()) else { return };
        let replaces = self.slots.get(to).is_some_and(|s| s.now().is_some());
        self.put(from, None, 0);
        self.put(to, Some(what), if replaces { now } else { 0 });
    }

    /// `directory` is somewhere, and under its name if it never had another: an already durable directory
    /// may still have its old name, and the place of that.
    fn durable_path(&mut self, directory: &str) {
        let mut at = directory.to_owned();
        while let Some(place) = self.directories.get(&at).cloned() {
            self.known.insert(at);
            if place.1.contains('.') {
                break;
            }
            if let Some(slot) = self.slots.get_mut(&place) {
                slot.durable = self.time;
            }
            at = place.0;
        }
    }

    fn durable_file(&mut self, file: usize) {
        let now = self.time;
        let Some(f) = self.files.get_mut(file) else { return };
        f.durable = now;
        f.content.settle();
        let names: Vec<At> = f.names.iter().cloned().collect();
        for at in names {
            if let Some(slot) = self.slots.get_mut(&at) {
                slot.durable = now;
            }
            self.durable_path(&at.0);
        }
    }

    fn durable_directory(&mut self, directory: &str) {
        for ((dir, _), slot) in &mut self.slots {
            if dir == directory {
                slot.durable = self.time;
            }
        }
        if let Some(place) = self.directories.get(directory).cloned() {
            if let Some(slot) = self.slots.get_mut(&place) {
                slot.durable = self.time;
            }
            self.durable_path(&place.0);
        }
        self.know();
    }

    /// Directories whose names are durable.
    fn know(&mut self) {
        for (name, at) in &self.directories {
            if self.slots.get(at).is_some_and(|s| s.durable == self.time) {
                self.known.insert(name.clone());
            }
        }
    }

    /// Whether `found` may be left.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge(&self, found: &Found) -> Result<Promises, String> {
        let mut promises = Promises::default();
        for (at, slot) in &self.slots {
            let allowed = slot.since(slot.durable);
            if !allowed.iter().any(|held| self.shows(found.get(at), held)) {
                let there = describe(found.get(at));
                return Err(format!("{at:?}: found {there}; since {}: {allowed:?}", slot.durable));
            }
            promises.names += u64::from(slot.durable > 0);
        }
        for (number, file) in self.files.iter().enumerate().filter(|(_, f)| f.durable > 0) {
            promises.files += 1;
            if !file.names.is_empty() && !self.is_somewhere(number, file, found) {
                return Err(format!("file {number}, durable at {}, has no name", file.durable));
            }
        }
        self.lost_directories(found)?;
        Ok(promises)
    }

    /// Whether `thing` is what the name held.
    fn shows(&self, thing: Option<&Thing>, held: &Held) -> bool {
        match (thing, &held.what) {
            (None, None) | (Some(Thing::Directory), Some(Object::Directory(_))) => true,
            (Some(Thing::File(bytes)), Some(Object::File(file))) => self
                .files
                .get(*file)
                .is_some_and(|f| f.content.allows(bytes, held.content.max(f.durable))),
            _ => false,
        }
    }

    /// Whether a durable file has one of the names it had since.
    fn is_somewhere(&self, number: usize, file: &File, found: &Found) -> bool {
        self.slots.iter().any(|(at, slot)| {
            let mine = |h: &&Held| h.what == Some(Object::File(number));
            let held = slot.since(file.durable.max(slot.durable));
            held.iter().filter(mine).any(|h| self.shows(found.get(at), h))
        })
    }

    /// A directory that was durable and was not removed is somewhere.
    fn lost_directories(&self, found: &Found) -> Result<(), String> {
        for name in &self.known {
            let there = |((_, leaf), thing): (&At, &Thing)| {
                *thing == Thing::Directory && directory_of(leaf) == name
            };
            if !found.iter().any(there) {
                return Err(format!("directory {name} is nowhere"));
            }
        }
        Ok(())
    }
}

fn describe(thing: Option<&Thing>) -> String {
    match thing {
        None => "nothing".to_owned(),
        Some(Thing::Directory) => "a directory".to_owned(),
        Some(Thing::File(bytes)) => format!("a file of {} bytes", bytes.len()),
    }
}
