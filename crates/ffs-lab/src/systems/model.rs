//! A target in memory for tests. It counts calls, checks them, tracks what is still in use, and
//! hashes the sequence of calls.

use std::collections::BTreeMap;
use std::time::Duration;

use super::slots::Slots;
use super::{Demand, DirId, Facts, FileId, Forgotten, Kind, Open, Stat, Target, Usage, failed};
use crate::error::Result;

#[derive(Default)]
struct Node {
    directory: bool,
    /// The text of a symbolic link.
    text: Option<Vec<u8>>,
    links: u32,
    size: u64,
    /// Each name with its position in listings and its node.
    names: BTreeMap<Vec<u8>, (u64, usize)>,
    listed: BTreeMap<u64, Vec<u8>>,
}

/// The target. An operation takes a microsecond, a sync a thousand.
pub(crate) struct Model {
    nodes: Vec<Node>,
    dirs: Slots<usize>,
    files: Slots<(usize, Open)>,
    in_use: (u64, u64),
    next: u64,
    micros: u64,
    /// The number of times each call was made.
    pub(crate) calls: BTreeMap<&'static str, u64>,
    /// The names of each call, if a test wants them.
    pub(crate) seen: BTreeMap<&'static str, Vec<Vec<u8>>>,
    pub(crate) keep_names: bool,
    /// FNV-1a of all calls with their arguments.
    pub(crate) hash: u64,
    /// Whether names can be dropped.
    pub(crate) cold: bool,
    /// Bytes read and written.
    pub(crate) bytes: (u64, u64),
    /// The most files and bytes at one time.
    pub(crate) most: Demand,
    now: Demand,
    /// The largest demand.
    pub(crate) requested: Demand,
    /// Calls until one fails for want of demand.
    pub(crate) fails_after: u64,
    /// The processor time that was charged.
    pub(crate) computed: Duration,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            nodes: Vec::new(),
            dirs: Slots::default(),
            files: Slots::default(),
            in_use: (0, 0),
            next: 0,
            micros: 0,
            calls: BTreeMap::new(),
            seen: BTreeMap::new(),
            keep_names: false,
            hash: 0xcbf2_9ce4_8422_2325,
            cold: false,
            bytes: (0, 0),
            most: Demand::default(),
            now: Demand::default(),
            requested: Demand::default(),
            fails_after: u64::MAX,
            computed: Duration::ZERO,
        }
    }
}

impl Model {
    /// A target whose names can be dropped.
    pub(crate) fn cold() -> Model {
        Model { cold: true, ..Model::default() }
    }

    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn call(&mut self, op: &'static str, name: &[u8], numbers: &[u64]) -> Result<()> {
        self.micros += 1;
        *self.calls.entry(op).or_default() += 1;
        if self.keep_names {
            self.seen.entry(op).or_default().push(name.to_owned());
        }
        self.mix(op.as_bytes());
        self.mix(name);
        for number in numbers {
            self.mix(&number.to_le_bytes());
        }
        if self.fails_after == 0 {
            return Err(failed("model", op, name, "no space left", true));
        }
        self.fails_after -= 1;
        Ok(())
    }

    /// The number of calls of `op`.
    pub(crate) fn count(&self, op: &str) -> u64 {
        self.calls.get(op).copied().unwrap_or(0)
    }

    /// Directories and files in use, without that of `begin`.
    pub(crate) fn leaks(&self) -> (u64, u64) {
        (self.in_use.0.saturating_sub(1), self.in_use.1)
    }

    /// Files and directories left below the one of `begin`, and their bytes.
    pub(crate) fn left(&self) -> Demand {
        self.now
    }

    fn dir(&self, at: DirId) -> usize {
        *self.dirs.get(at.0).expect("directory in use")
    }

    fn find(&self, at: DirId, name: &[u8]) -> Option<usize> {
        self.nodes[self.dir(at)].names.get(name).map(|(_, node)| *node)
    }

    fn found(&self, at: DirId, name: &[u8]) -> usize {
        self.find(at, name).unwrap_or_else(|| panic!("'{}' is not there", name.escape_ascii()))
    }

    fn enter(&mut self, at: DirId, name: &[u8], node: usize, place: Option<u64>) {
        assert!(!name.is_empty() && name.len() < 256 && !name.contains(&b'/'), "name {name:?}");
        self.next += 1;
        let (dir, place) = (self.dir(at), place.unwrap_or(self.next));
        let before = self.nodes[dir].names.insert(name.to_owned(), (place, node));
        assert!(before.is_none(), "'{}' is there already", name.escape_ascii());
        self.nodes[dir].listed.insert(place, name.to_owned());
        self.nodes[node].links += 1;
        if self.nodes[node].links == 1 {
            self.now.files += 1;
            self.most.files = self.most.files.max(self.now.files);
        }
    }

    fn remove(&mut self, at: DirId, name: &[u8]) -> (u64, usize) {
        let dir = self.dir(at);
        let removed = self.nodes[dir].names.remove(name);
        let removed = removed.unwrap_or_else(|| panic!("'{}' does not exist", name.escape_ascii()));
        self.nodes[dir].listed.remove(&removed.0);
        let node = &mut self.nodes[removed.1];
        node.links -= 1;
        if node.links == 0 {
            self.now.files -= 1;
            self.now.bytes -= node.size;
        }
        removed
    }

    fn resize(&mut self, node: usize, size: u64) {
        let before = std::mem::replace(&mut self.nodes[node].size, size);
        if self.nodes[node].links == 0 {
            // Its space was counted with its last name.
            return;
        }
        self.now.bytes = self.now.bytes - before + size;
        self.most.bytes = self.most.bytes.max(self.now.bytes);
    }

    fn node(&mut self, directory: bool) -> usize {
        self.nodes.push(Node { directory, ..Node::default() });
        self.nodes.len() - 1
    }

    fn use_dir(&mut self, node: usize) -> DirId {
        assert!(self.nodes[node].directory, "no directory");
        self.in_use.0 += 1;
        DirId(self.dirs.insert(node))
    }
}

impl Target for Model {
    fn label(&self) -> &str {
        "model"
    }
    fn facts(&self) -> Facts {
        Facts { fs: "model".into(), durability: "none".into(), computes: true }
    }
    fn now(&self) -> Duration {
        Duration::from_micros(self.micros) + self.computed
    }
    fn cpu(&self) -> Duration {
        Duration::from_micros(self.micros / 2)
    }
    fn begin(&mut self, demand: Demand) -> Result<DirId> {
        self.end()?;
        self.requested.files = self.requested.files.max(demand.files);
        self.requested.bytes = self.requested.bytes.max(demand.bytes);
        let top = self.node(true);
        Ok(self.use_dir(top))
    }
    fn end(&mut self) -> Result<()> {
        (self.nodes, self.dirs, self.files) = (Vec::new(), Slots::default(), Slots::default());
        (self.in_use, self.now) = ((0, 0), Demand::default());
        Ok(())
    }
    fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        self.call("mkdir", name, &[])?;
        let node = self.node(true);
        self.enter(at, name, node, None);
        Ok(self.use_dir(node))
    }
    fn open_dir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        self.call("open_dir", name, &[])?;
        let node = self.found(at, name);
        Ok(self.use_dir(node))
    }
    fn close_dir(&mut self, dir: DirId) -> Result<()> {
        assert_ne!(dir.0, 0, "begin's directory stays in use");
        self.dirs.remove(dir.0).expect("directory in use");
        self.in_use.0 -= 1;
        Ok(())
    }
    fn rmdir(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        self.call("rmdir", name, &[])?;
        let (_, node) = self.remove(at, name);
        assert!(self.nodes[node].directory && self.nodes[node].names.is_empty(), "not empty");
        Ok(())
    }
    fn create(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        self.call("create", name, &[])?;
        let node = self.node(false);
        self.enter(at, name, node, None);
        Ok(())
    }
    fn stat(&mut self, at: DirId, name: &[u8]) -> Result<Option<Stat>> {
        self.call("stat", name, &[])?;
        let found = self.find(at, name);
        Ok(found.map(|node| Stat { ino: node as u64, size: self.nodes[node].size }))
    }
    fn rename(&mut self, at: DirId, from: &[u8], to: &[u8]) -> Result<()> {
        self.rename_to((at, from), (at, to))
    }
    fn rename_to(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
        self.call("rename", from.1, &[])?;
        self.mix(to.1);
        if from != to && self.find(to.0, to.1).is_some() {
            self.remove(to.0, to.1);
        }
        let (place, node) = self.remove(from.0, from.1);
        let stays = from.0 == to.0;
        let size = self.nodes[node].size;
        self.enter(to.0, to.1, node, stays.then_some(place));
        self.now.bytes += size;
        Ok(())
    }
    fn link(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
        self.call("link", from.1, &[])?;
        self.mix(to.1);
        let node = self.found(from.0, from.1);
        assert!(!self.nodes[node].directory);
        self.enter(to.0, to.1, node, None);
        Ok(())
    }
    fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        self.call("unlink", name, &[])?;
        let (_, node) = self.remove(at, name);
        assert!(!self.nodes[node].directory);
        Ok(())
    }
    fn list(&mut self, at: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.list_kinds(at, &mut |name, _| each(name))
    }
    fn list_kinds(&mut self, at: DirId, each: &mut dyn FnMut(&[u8], Kind)) -> Result<()> {
        let dir = self.dir(at);
        self.call("list", b"", &[])?;
        self.micros += (self.nodes[dir].names.len() as u64).saturating_sub(1);
        for name in self.nodes[dir].listed.values() {
            let node = &self.nodes[self.nodes[dir].names[name].1];
            let other = if node.text.is_some() { Kind::Other } else { Kind::File };
            each(name, if node.directory { Kind::Directory } else { other });
        }
        Ok(())
    }
    fn open(&mut self, at: DirId, name: &[u8], how: Open) -> Result<FileId> {
        self.call("open", name, &[how as u64])?;
        let found = self.find(at, name);
        let node = match (found, how) {
            (Some(_), Open::CreateNew) => panic!("'{}' is there", name.escape_ascii()),
            (Some(node), _) => node,
            (None, Open::Create | Open::CreateNew | Open::Truncate) => {
                let node = self.node(false);
                self.enter(at, name, node, None);
                node
            }
            (None, _) => panic!("'{}' is not there", name.escape_ascii()),
        };
        assert!(!self.nodes[node].directory);
        if how == Open::Truncate {
            self.resize(node, 0);
        }
        self.in_use.1 += 1;
        Ok(FileId(self.files.insert((node, how))))
    }
    fn read(&mut self, file: FileId, offset: u64, len: usize) -> Result<usize> {
        self.call("read", b"", &[offset, len as u64])?;
        let (node, how) = *self.files.get(file.0).expect("file in use");
        assert_ne!(how, Open::Append, "not opened to read");
        let read = self.nodes[node].size.saturating_sub(offset).min(len as u64);
        self.bytes.0 += read;
        Ok(read as usize)
    }
    fn write(&mut self, file: FileId, offset: u64, len: usize) -> Result<()> {
        self.call("write", b"", &[offset, len as u64])?;
        let (node, how) = *self.files.get(file.0).expect("file in use");
        assert_ne!(how, Open::Read, "not opened to write");
        let size = self.nodes[node].size;
        let offset = if how == Open::Append { size } else { offset };
        assert!(offset <= size, "leaves a hole");
        self.resize(node, size.max(offset + len as u64));
        self.bytes.1 += len as u64;
        Ok(())
    }
    fn close(&mut self, file: FileId) -> Result<()> {
        self.call("close", b"", &[])?;
        self.files.remove(file.0).expect("file in use");
        self.in_use.1 -= 1;
        Ok(())
    }
    fn fsync(&mut self, file: FileId) -> Result<()> {
        assert!(self.files.get(file.0).is_some());
        self.call("fsync", b"", &[])
    }
    fn chmod(&mut self, at: DirId, name: &[u8], mode: u16) -> Result<()> {
        self.found(at, name);
        self.call("chmod", name, &[mode.into()])
    }
    fn set_times(&mut self, at: DirId, name: &[u8], seconds: u32) -> Result<()> {
        self.found(at, name);
        self.call("set_times", name, &[seconds.into()])
    }
    fn truncate(&mut self, file: FileId, size: u64) -> Result<()> {
        self.call("truncate", b"", &[size])?;
        let (node, how) = *self.files.get(file.0).expect("file in use");
        assert_ne!(how, Open::Read, "not opened to write");
        self.resize(node, size);
        Ok(())
    }
    fn symlink(&mut self, at: DirId, name: &[u8], text: &[u8]) -> Result<()> {
        self.call("symlink", name, &[])?;
        let node = self.node(false);
        self.nodes[node].text = Some(text.to_vec());
        self.enter(at, name, node, None);
        Ok(())
    }
    fn readlink(&mut self, at: DirId, name: &[u8]) -> Result<Vec<u8>> {
        self.call("readlink", name, &[])?;
        let node = self.found(at, name);
        Ok(self.nodes[node].text.clone().expect("a link"))
    }
    fn compute(&mut self, work: Duration) {
        self.computed += work;
    }
    fn usage(&self) -> Usage {
        Usage { cpu_ns: super::nanos(self.cpu()), ..Usage::default() }
    }
    fn set_tunable(&mut self, name: &str, value: &str) -> Result<Option<String>> {
        self.call("set_tunable", name.as_bytes(), &[])?;
        self.mix(value.as_bytes());
        Ok(Some("0".to_owned()))
    }
    fn sync(&mut self) -> Result<()> {
        self.call("sync", b"", &[])?;
        self.micros += 999;
        Ok(())
    }
    fn forget(&mut self) -> Result<Forgotten> {
        self.call("forget", b"", &[])?;
        let why = || "cannot".to_owned();
        Ok(if self.cold { Forgotten::Done("did") } else { Forgotten::Impossible(why()) })
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.calls.iter().map(|(name, count)| (*name, *count)).collect()
    }
}
