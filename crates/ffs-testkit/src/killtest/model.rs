//! The history of one writer's names and files, and the states that it allows.
//!
//! Time is the number of operations begun. A directory is identified by its name up to the first
//! `.`, which no rename changes.

use super::content::Content;
use super::op::{EntryPath, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Directories that all writers use; the first contains the others.
pub const COMMON: [&str; 3] = ["top", "top/a", "top/b"];

/// Number of durable states that a check has verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Names with a durable state.
    pub names: u64,
    /// Files with durable content.
    pub files: u64,
}

impl std::ops::AddAssign for Verified {
    fn add_assign(&mut self, more: Verified) {
        self.names += more.names;
        self.files += more.files;
    }
}

/// The tree that was found in the common directories.
pub type FoundTree = BTreeMap<EntryPath, FoundNode>;

/// A file or directory that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundNode {
    /// A directory, identified by its name.
    Directory,
    /// A file, with its bytes.
    File(Vec<u8>),
}

/// The object that a name refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Object {
    File(usize),
    Directory(String),
}

/// The state of a name from `since` on.
#[derive(Clone, Debug)]
struct NameState {
    since: usize,
    what: Option<Object>,
    /// The content must be that of this time or later: a rename replaced another file.
    content: usize,
}

/// The states of a name over time.
#[derive(Clone, Debug, Default)]
struct NameHistory {
    history: Vec<NameState>,
    /// Time from which the state is durable: later states are possible, earlier ones are not.
    durable: usize,
}

impl NameHistory {
    fn now(&self) -> Option<&Object> {
        self.history.last().and_then(|h| h.what.as_ref())
    }

    /// The state at `from` and all later ones.
    fn states_since(&self, from: usize) -> &[NameState] {
        let before = self.history.iter().take_while(|h| h.since <= from).count();
        self.history.get(before.saturating_sub(1)..).unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    content: Content,
    /// Time from which the content is durable; 0 = never.
    durable: usize,
    names: BTreeSet<EntryPath>,
}

/// How far an operation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It began; it may have had no effect, or a part of its effect.
    Begun,
    /// It returned.
    Returned,
}

/// The names and files of one writer.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    time: usize,
    names_seen: BTreeMap<EntryPath, NameHistory>,
    files: Vec<File>,
    /// Location of each directory.
    directories: BTreeMap<String, EntryPath>,
    /// Directories with a durable name.
    durable_directories: BTreeSet<String>,
}

/// The directory that a name identifies.
#[must_use]
pub fn directory_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl Model {
    /// Names of files, with the file.
    pub(super) fn named_files(&self) -> Vec<(EntryPath, usize)> {
        let file = |(at, slot): (&EntryPath, &NameHistory)| match slot.now() {
            Some(Object::File(file)) => Some((at.clone(), *file)),
            _ => None,
        };
        self.names_seen.iter().filter_map(file).collect()
    }

    pub(super) fn file_at(&self, at: &EntryPath) -> Option<usize> {
        match self.names_seen.get(at)?.now()? {
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

    pub(super) fn place_of(&self, directory: &str) -> Option<&EntryPath> {
        self.directories.get(directory)
    }

    pub(super) fn is_empty(&self, directory: &str) -> bool {
        !self.names_seen.iter().any(|((dir, _), slot)| dir == directory && slot.now().is_some())
    }

    /// Whether `directory` is `above` or inside it.
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
    pub(super) fn path_of(&self, directory: &str) -> String {
        match self.directories.get(directory) {
            Some((parent, name)) => format!("{}/{name}", self.path_of(parent)),
            None => COMMON
                .iter()
                .find(|c| c.rsplit('/').next() == Some(directory))
                .map_or_else(|| directory.to_owned(), |c| (*c).to_owned()),
        }
    }

    /// The path of a name.
    #[must_use]
    pub(super) fn path(&self, at: &EntryPath) -> String {
        format!("{}/{}", self.path_of(&at.0), at.1)
    }

    fn put(&mut self, at: &EntryPath, what: Option<Object>, content: usize) {
        let since = self.time;
        let slot = self.names_seen.entry(at.clone()).or_default();
        if slot.history.is_empty() {
            slot.history.push(NameState { since: 0, what: None, content: 0 });
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
        slot.history.push(NameState { since, what, content });
    }

    /// Applies `op`.
    pub(super) fn apply(&mut self, op: &Op, progress: Progress) {
        let done = progress == Progress::Returned;
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
            Op::PunchHole { at, offset, len } => {
                let file = self.file_at(at);
                if let Some(f) = file.and_then(|f| self.files.get_mut(f)) {
                    f.content.punch_hole(now, *offset, *len);
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
                self.durable_directories.remove(directory_of(&at.1));
                self.put(at, None, 0);
            }
            Op::Fsync { at } if done => {
                self.file_at(at).into_iter().for_each(|f| self.durable_file(f));
            }
            Op::FsyncDir { directory } if done => self.durable_directory(directory),
            Op::Sync if done => {
                self.names_seen.values_mut().for_each(|s| s.durable = now);
                for f in &mut self.files {
                    f.content.make_durable();
                    f.durable = now;
                }
                self.record_known_directories();
            }
            Op::Fsync { .. } | Op::FsyncDir { .. } | Op::Sync => {}
        }
    }

    fn rename(&mut self, from: &EntryPath, to: &EntryPath) {
        let now = self.time;
        let Some(what) = self.names_seen.get(from).and_then(|s| s.now().cloned()) else { return };
        let replaces = self.names_seen.get(to).is_some_and(|s| s.now().is_some());
        self.put(from, None, 0);
        self.put(to, Some(what), if replaces { now } else { 0 });
    }

    /// Records that `directory` and its parents are durable. The location of a directory that was
    /// never renamed is durable too; one that was renamed may still have its old name.
    fn durable_path(&mut self, directory: &str) {
        let mut at = directory.to_owned();
        while let Some(place) = self.directories.get(&at).cloned() {
            self.durable_directories.insert(at);
            if place.1.contains('.') {
                break;
            }
            if let Some(slot) = self.names_seen.get_mut(&place) {
                slot.durable = self.time;
            }
            at = place.0;
        }
    }

    fn durable_file(&mut self, file: usize) {
        let now = self.time;
        let Some(f) = self.files.get_mut(file) else { return };
        f.durable = now;
        f.content.make_durable();
        let names: Vec<EntryPath> = f.names.iter().cloned().collect();
        for at in names {
            if let Some(slot) = self.names_seen.get_mut(&at) {
                slot.durable = now;
            }
            self.durable_path(&at.0);
        }
    }

    fn durable_directory(&mut self, directory: &str) {
        for ((dir, _), slot) in &mut self.names_seen {
            if dir == directory {
                slot.durable = self.time;
            }
        }
        if let Some(place) = self.directories.get(directory).cloned() {
            if let Some(slot) = self.names_seen.get_mut(&place) {
                slot.durable = self.time;
            }
            self.durable_path(&place.0);
        }
        self.record_known_directories();
    }

    /// Records the directories whose names are durable.
    fn record_known_directories(&mut self) {
        for (name, at) in &self.directories {
            if self.names_seen.get(at).is_some_and(|s| s.durable == self.time) {
                self.durable_directories.insert(name.clone());
            }
        }
    }

    /// Checks that the history allows `found`.
    ///
    /// # Errors
    /// The first name or file that it does not allow.
    pub(super) fn check_found(&self, found: &FoundTree) -> Result<Verified, String> {
        let mut verified = Verified::default();
        for (at, slot) in &self.names_seen {
            let allowed = slot.states_since(slot.durable);
            if !allowed.iter().any(|held| self.shows(found.get(at), held)) {
                let there = describe(found.get(at));
                return Err(format!("{at:?}: found {there}; since {}: {allowed:?}", slot.durable));
            }
            verified.names += u64::from(slot.durable > 0);
        }
        for (number, file) in self.files.iter().enumerate().filter(|(_, f)| f.durable > 0) {
            verified.files += 1;
            if !file.names.is_empty() && !self.has_name(number, file, found) {
                return Err(format!("file {number}, durable at {}, has no name", file.durable));
            }
        }
        self.check_directories(found)?;
        Ok(verified)
    }

    /// Whether `thing` is possible for a name in state `held`.
    fn shows(&self, thing: Option<&FoundNode>, held: &NameState) -> bool {
        match (thing, &held.what) {
            (None, None) | (Some(FoundNode::Directory), Some(Object::Directory(_))) => true,
            (Some(FoundNode::File(bytes)), Some(Object::File(file))) => self
                .files
                .get(*file)
                .is_some_and(|f| f.content.allows(bytes, held.content.max(f.durable))),
            _ => false,
        }
    }

    /// Whether a durable file has one of the names that it had since then.
    fn has_name(&self, number: usize, file: &File, found: &FoundTree) -> bool {
        self.names_seen.iter().any(|(at, slot)| {
            let mine = |h: &&NameState| h.what == Some(Object::File(number));
            let held = slot.states_since(file.durable.max(slot.durable));
            held.iter().filter(mine).any(|h| self.shows(found.get(at), h))
        })
    }

    /// Checks that every durable directory that was not removed was found.
    fn check_directories(&self, found: &FoundTree) -> Result<(), String> {
        for name in &self.durable_directories {
            let there = |((_, leaf), thing): (&EntryPath, &FoundNode)| {
                *thing == FoundNode::Directory && directory_of(leaf) == name
            };
            if !found.iter().any(there) {
                return Err(format!("directory {name} is missing"));
            }
        }
        Ok(())
    }
}

fn describe(thing: Option<&FoundNode>) -> String {
    match thing {
        None => "nothing".to_owned(),
        Some(FoundNode::Directory) => "a directory".to_owned(),
        Some(FoundNode::File(bytes)) => format!("a file of {} bytes", bytes.len()),
    }
}
