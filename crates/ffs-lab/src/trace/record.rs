//! From the requests of a FUSE mount, which name nodes, to calls of a trace, which name paths.
//!
//! # Invariants
//! 1. The calls are in the order in which the server had served them. A request that depends on
//!    another begins after its reply, so it also comes after it here.
//! 2. A node has the names that lookups and changes showed. A call on a node without a name is
//!    recorded as one that no replay makes.
//! 3. Requests of the recording process itself are used for names, and are not recorded.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::path::{MOST_DEPTH, TracePath};
use super::{Call, FileNumber, How, MOST_IO, MOST_SIZE, Op};

/// When a request was served, and for which process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moment {
    /// The begin, nanoseconds since the recording began.
    pub at: u64,
    /// The duration, nanoseconds.
    pub took: u64,
    /// The process or thread.
    pub pid: u32,
    /// The name of the error, if the request failed.
    pub error: Option<String>,
}

/// The changes of attributes in one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// The size, bytes.
    pub size: Option<u64>,
    /// Permission bits.
    pub mode: Option<u16>,
    /// Modification time, seconds since 1970.
    pub seconds: Option<u32>,
    /// Owner or group.
    pub owner: bool,
    /// The caller has the file open.
    pub by_handle: bool,
}

/// A name: its directory's node and itself.
type Name = (u64, Box<[u8]>);

/// An open file.
#[derive(Debug, Clone, Copy)]
struct Handle {
    file: FileNumber,
    writes: bool,
}

/// Translates requests into calls.
pub struct Recorder {
    root: u64,
    /// The process whose requests are not recorded.
    ignored: u32,
    names: HashMap<u64, Vec<Name>, FixedState>,
    children: HashMap<Name, u64, FixedState>,
    open: HashMap<u64, Vec<Handle>, FixedState>,
    files: FileNumber,
    out: Box<dyn FnMut(&Call) + Send>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder of the tree below the node `root`. It gives each call to `out`, but none of the
    /// process `ignored`.
    #[must_use]
    pub fn new(root: u64, ignored: u32, out: Box<dyn FnMut(&Call) + Send>) -> Recorder {
        Recorder {
            root,
            ignored,
            names: HashMap::default(),
            children: HashMap::default(),
            open: HashMap::default(),
            files: 0,
            out,
        }
    }

    fn put(&mut self, moment: &Moment, op: Op) {
        if moment.pid == self.ignored {
            return;
        }
        let Moment { at, took, pid, error } = moment.clone();
        (self.out)(&Call { line: 0, at, took, pid, op, error });
    }

    /// Records a request that no replay makes.
    pub fn other(&mut self, moment: &Moment, name: &str) {
        self.put(moment, Op::Other(name.to_owned()));
    }

    /// The path of a node.
    fn path(&self, node: u64) -> Option<TracePath> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = node;
        while at != self.root {
            let (dir, name) = self.names.get(&at)?.last()?;
            names.push(name);
            at = *dir;
            if names.len() > MOST_DEPTH {
                return None;
            }
        }
        names.reverse();
        TracePath::parse(&names.join(&b'/')).ok()
    }

    fn path_in(&self, dir: u64, name: &[u8]) -> Option<TracePath> {
        self.path(dir)?.join(name).ok()
    }

    fn enter(&mut self, dir: u64, name: &[u8], node: u64) {
        let name: Name = (dir, name.into());
        if self.children.get(&name) == Some(&node) {
            return;
        }
        self.leave(&name);
        self.children.insert(name.clone(), node);
        self.names.entry(node).or_default().push(name);
    }

    /// Takes a name from its node. Returns the node.
    fn leave(&mut self, name: &Name) -> Option<u64> {
        let node = self.children.remove(name)?;
        if let Some(names) = self.names.get_mut(&node) {
            names.retain(|other| other != name);
            if names.is_empty() {
                self.names.remove(&node);
            }
        }
        Some(node)
    }

    /// A name that has become that of a new file: an older file may have had the same number.
    fn made(&mut self, dir: u64, name: &[u8], node: Option<u64>) {
        if let Some(node) = node {
            for old in self.names.remove(&node).unwrap_or_default() {
                self.children.remove(&old);
            }
            self.enter(dir, name, node);
        }
    }

    /// Records a call on a name, or that it has no path.
    fn on_name(
        &mut self,
        moment: &Moment,
        dir: u64,
        name: &[u8],
        make: impl FnOnce(TracePath) -> Op,
    ) {
        match self.path_in(dir, name) {
            Some(path) => self.put(moment, make(path)),
            None => self.other(moment, NO_PATH),
        }
    }

    fn on_node(&mut self, moment: &Moment, node: u64, make: impl FnOnce(TracePath) -> Op) {
        match self.path(node) {
            Some(path) => self.put(moment, make(path)),
            None => self.other(moment, NO_PATH),
        }
    }

    /// A lookup; `node` is what it found.
    pub fn lookup(&mut self, moment: &Moment, dir: u64, name: &[u8], node: Option<u64>) {
        if name == b"." || name == b".." {
            return;
        }
        match node.filter(|_| moment.error.is_none()) {
            Some(node) => self.enter(dir, name, node),
            None => drop(self.leave(&(dir, name.into()))),
        }
        self.on_name(moment, dir, name, Op::Stat);
    }

    /// The attributes of a node.
    pub fn getattr(&mut self, moment: &Moment, node: u64) {
        if node != self.root {
            self.on_node(moment, node, Op::Stat);
        }
    }

    /// A change of attributes.
    pub fn setattr(&mut self, moment: &Moment, node: u64, changes: Changes) {
        if let Some(size) = changes.size {
            let size = size.min(MOST_SIZE);
            match self.handle(node, true).filter(|_| changes.by_handle) {
                Some(handle) => self.put(moment, Op::Ftruncate { file: handle.file, size }),
                None => self.on_node(moment, node, |path| Op::Truncate { path, size }),
            }
        }
        if let Some(mode) = changes.mode {
            self.on_node(moment, node, |path| Op::Chmod { path, mode: mode & 0o7777 });
        }
        if let Some(seconds) = changes.seconds {
            self.on_node(moment, node, |path| Op::Times { path, seconds });
        }
        if changes.owner {
            self.other(moment, "chown");
        }
    }

    /// The text of a link.
    pub fn readlink(&mut self, moment: &Moment, node: u64) {
        self.on_node(moment, node, Op::Readlink);
    }

    /// A new symbolic link.
    pub fn symlink(
        &mut self,
        moment: &Moment,
        dir: u64,
        name: &[u8],
        text: &[u8],
        node: Option<u64>,
    ) {
        self.made(dir, name, node);
        self.on_name(moment, dir, name, |path| Op::Symlink { path, text: text.to_vec() });
    }

    /// A new directory.
    pub fn mkdir(&mut self, moment: &Moment, dir: u64, name: &[u8], node: Option<u64>) {
        self.made(dir, name, node);
        self.on_name(moment, dir, name, Op::Mkdir);
    }

    /// A new file that is not open.
    pub fn mknod(&mut self, moment: &Moment, dir: u64, name: &[u8], node: Option<u64>) {
        self.made(dir, name, node);
        self.files += 1;
        let file = self.files;
        self.on_name(moment, dir, name, |path| Op::Open { path, file, how: How::CreateNew });
        if moment.error.is_none() {
            self.put(moment, Op::Close(file));
        }
    }

    /// A name removed: of a file, or of a directory.
    pub fn remove(&mut self, moment: &Moment, dir: u64, name: &[u8], is_dir: bool) {
        self.on_name(moment, dir, name, if is_dir { Op::Rmdir } else { Op::Unlink });
        if moment.error.is_none() {
            self.leave(&(dir, name.into()));
        }
    }

    /// A rename.
    pub fn rename(&mut self, moment: &Moment, from: (u64, &[u8]), to: (u64, &[u8])) {
        match (self.path_in(from.0, from.1), self.path_in(to.0, to.1)) {
            (Some(path), Some(target)) => self.put(moment, Op::Rename { path, to: target }),
            _ => self.other(moment, NO_PATH),
        }
        if moment.error.is_none()
            && let Some(node) = self.leave(&(from.0, from.1.into()))
        {
            self.enter(to.0, to.1, node);
        }
    }

    /// An exchange of two names, which no replay makes.
    pub fn exchange(&mut self, moment: &Moment, one: (u64, &[u8]), two: (u64, &[u8])) {
        self.other(moment, "exchange of two names");
        if moment.error.is_none() {
            let nodes = [one, two].map(|(dir, name)| self.leave(&(dir, name.into())));
            for ((dir, name), node) in [two, one].into_iter().zip(nodes) {
                node.into_iter().for_each(|node| self.enter(dir, name, node));
            }
        }
    }

    /// Another name for the file `node`.
    pub fn link(&mut self, moment: &Moment, node: u64, dir: u64, name: &[u8]) {
        match (self.path(node), self.path_in(dir, name)) {
            (Some(path), Some(to)) => self.put(moment, Op::Link { path, to }),
            _ => self.other(moment, NO_PATH),
        }
        if moment.error.is_none() {
            self.enter(dir, name, node);
        }
    }

    /// An existing file that is opened.
    pub fn open(&mut self, moment: &Moment, node: u64, writes: bool, truncates: bool) {
        let how = match (writes, truncates) {
            (_, true) => How::Truncate,
            (true, false) => How::Write,
            (false, false) => How::Read,
        };
        self.files += 1;
        let file = self.files;
        let Some(path) = self.path(node) else { return self.other(moment, NO_PATH) };
        self.put(moment, Op::Open { path, file, how });
        if moment.error.is_none() && moment.pid != self.ignored {
            self.open.entry(node).or_default().push(Handle { file, writes: how != How::Read });
        }
    }

    /// A file that is created and opened.
    pub fn create(
        &mut self,
        moment: &Moment,
        (dir, name): (u64, &[u8]),
        node: Option<u64>,
        (exclusive, truncates): (bool, bool),
    ) {
        let how = match (exclusive, truncates) {
            (true, _) => How::CreateNew,
            (false, true) => How::Truncate,
            (false, false) => How::Create,
        };
        self.made(dir, name, node);
        self.files += 1;
        let file = self.files;
        self.on_name(moment, dir, name, |path| Op::Open { path, file, how });
        if let (None, Some(node)) = (&moment.error, node) {
            self.open.entry(node).or_default().push(Handle { file, writes: true });
        }
    }

    /// The end of an open file.
    pub fn release(&mut self, moment: &Moment, node: u64, writes: bool) {
        let Some(handles) = self.open.get_mut(&node) else { return };
        let at = handles.iter().position(|handle| handle.writes == writes).unwrap_or(0);
        let handle = (!handles.is_empty()).then(|| handles.remove(at));
        if handles.is_empty() {
            self.open.remove(&node);
        }
        if let Some(handle) = handle {
            // The kernel closes for no process in particular.
            self.put(moment, Op::Close(handle.file));
        }
    }

    /// An open file of the node: one for writing, or any for reading.
    fn handle(&self, node: u64, writes: bool) -> Option<Handle> {
        self.open.get(&node)?.iter().find(|handle| handle.writes || !writes).copied()
    }

    /// A read or write. The pages of a mapping may be written after the file was closed; it is
    /// opened again for that.
    pub fn transfer(
        &mut self,
        moment: &Moment,
        node: u64,
        (offset, len): (u64, u64),
        writes: bool,
    ) {
        let (offset, len) = (offset.min(MOST_SIZE), len.min(MOST_IO));
        let op = |file| match writes {
            true => Op::Write { file, offset, len },
            false => Op::Read { file, offset, len },
        };
        if let Some(handle) = self.handle(node, writes) {
            return self.put(moment, op(handle.file));
        }
        let Some(path) = self.path(node) else { return self.other(moment, NO_PATH) };
        self.files += 1;
        let (file, how) = (self.files, if writes { How::Write } else { How::Read });
        self.put(moment, Op::Open { path, file, how });
        self.put(moment, op(file));
        self.put(moment, Op::Close(file));
    }

    /// A file made durable.
    pub fn fsync(&mut self, moment: &Moment, node: u64) {
        match self.handle(node, false) {
            Some(handle) => self.put(moment, Op::Fsync(handle.file)),
            None => self.other(moment, NO_PATH),
        }
    }

    /// The begin of a listing.
    pub fn list(&mut self, moment: &Moment, node: u64) {
        self.on_node(moment, node, Op::List);
    }

    /// Everything written back.
    pub fn sync(&mut self, moment: &Moment) {
        self.put(moment, Op::Sync);
    }
}

/// The name of a call on a file without a name.
const NO_PATH: &str = "call on a file without a name";

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::trace::resolve::Program;
    use crate::trace::{Trace, text};

    const ROOT: u64 = 2;

    fn recorder() -> (Recorder, Arc<Mutex<Vec<Call>>>) {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let out = Arc::clone(&calls);
        let out = move |call: &Call| out.lock().unwrap().push(call.clone());
        (Recorder::new(ROOT, 99, Box::new(out)), calls)
    }

    fn lines(calls: &Mutex<Vec<Call>>) -> Vec<String> {
        let short = |call: &Call| {
            let line = text::call(call);
            let line = line.replace("\"t\":0,\"pid\":1,", "").replace("{\"call\":", "");
            line.trim_end().trim_end_matches('}').to_owned()
        };
        calls.lock().unwrap().iter().map(short).collect()
    }

    #[test]
    fn nodes_get_the_paths_of_their_names() {
        let (mut r, calls) = recorder();
        let m = Moment { pid: 1, ..Moment::default() };
        let missing = Moment { error: Some("ENOENT".to_owned()), ..m.clone() };
        r.lookup(&missing, ROOT, b"d", None);
        r.mkdir(&m, ROOT, b"d", Some(10));
        r.create(&m, (10, b"f"), Some(11), (true, false));
        r.transfer(&m, 11, (0, 5), true);
        r.rename(&m, (ROOT, b"d"), (ROOT, b"e"));
        r.link(&m, 11, ROOT, b"g");
        r.remove(&m, 10, b"f", false);
        r.setattr(&m, 11, Changes { size: Some(3), by_handle: true, ..Changes::default() });
        r.release(&m, 11, true);
        r.transfer(&m, 11, (0, 3), false);
        r.remove(&m, ROOT, b"g", false);
        r.getattr(&m, 11);
        // The number is used again, in another place.
        r.create(&m, (10, b"h"), Some(11), (false, true));
        r.list(&m, 10);
        let expected = [
            r#""stat","path":"d","error":"ENOENT""#,
            r#""mkdir","path":"d""#,
            r#""open","path":"d/f","file":1,"how":"create-new""#,
            r#""write","file":1,"offset":0,"len":5"#,
            r#""rename","path":"d","to":"e""#,
            r#""link","path":"e/f","to":"g""#,
            r#""unlink","path":"e/f""#,
            r#""ftruncate","file":1,"size":3"#,
            r#""close","file":1"#,
            r#""open","path":"g","file":2,"how":"read""#,
            r#""read","file":2,"offset":0,"len":3"#,
            r#""close","file":2"#,
            r#""unlink","path":"g""#,
            r#""other","name":"call on a file without a name""#,
            r#""open","path":"e/h","file":3,"how":"truncate""#,
            r#""list","path":"e""#,
        ];
        let found: Vec<String> =
            lines(&calls).iter().map(|line| line.replace("\"t\":0,\"pid\":1,", "")).collect();
        assert_eq!(found, expected);
        // What was recorded can be replayed.
        let calls = calls.lock().unwrap().clone();
        let program = Program::of(&Trace { is_complete: true, calls, ..Trace::default() }).unwrap();
        assert_eq!(program.calls(), 15);
    }

    #[test]
    fn requests_of_the_recording_process_are_not_recorded() {
        let (mut r, calls) = recorder();
        let own = Moment { pid: 99, ..Moment::default() };
        r.lookup(&own, ROOT, b"d", Some(10));
        r.list(&own, 10);
        assert!(calls.lock().unwrap().is_empty());
        r.list(&Moment { pid: 1, ..Moment::default() }, 10);
        assert_eq!(calls.lock().unwrap().len(), 1, "but they show names");
    }

    #[test]
    fn an_exchange_is_left_out_but_followed() {
        let (mut r, calls) = recorder();
        let m = Moment { pid: 1, ..Moment::default() };
        r.mkdir(&m, ROOT, b"a", Some(10));
        r.mkdir(&m, ROOT, b"b", Some(11));
        r.exchange(&m, (ROOT, b"a"), (ROOT, b"b"));
        r.list(&m, 10);
        assert!(lines(&calls).last().unwrap().contains("\"path\":\"b\""));
    }
}
