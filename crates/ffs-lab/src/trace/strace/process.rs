//! Processes: the directory in which each is, and its open files.
//!
//! # Invariants
//! 1. Descriptors that were duplicated or inherited share one open file with one offset. The file
//!    is closed with the last of them.
//! 2. Threads share descriptors and directory; other children begin with copies.
//! 3. At most [`MOST_FILES`] descriptors are open in all processes together.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

/// The most descriptors of all processes together.
const MOST_FILES: usize = 4_000_000;
/// The most processes.
const MOST_PROCESSES: usize = 1_000_000;

/// An open file.
#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    /// Its absolute path.
    pub(super) path: Vec<u8>,
    /// Its number in the trace; `None` if it is outside or a directory.
    pub(super) file: Option<u64>,
    /// The index of its call in the trace.
    pub(super) call: usize,
    pub(super) offset: u64,
    pub(super) append: bool,
    /// Whether it was listed.
    pub(super) listed: bool,
    /// The descriptors that refer to it.
    refs: usize,
}

impl OpenFile {
    pub(super) fn new(path: Vec<u8>, file: Option<u64>, call: usize, append: bool) -> OpenFile {
        OpenFile { path, file, call, offset: 0, append, listed: false, refs: 0 }
    }
}

/// A descriptor: the open file, and whether `execve` closes it.
#[derive(Debug, Clone, Copy)]
struct Descriptor {
    open: usize,
    cloexec: bool,
}

/// What threads share.
#[derive(Debug, Clone, Default)]
struct Shared {
    cwd: Vec<u8>,
    descriptors: BTreeMap<i64, Descriptor>,
    threads: usize,
}

/// All processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// The shared part of each process or thread.
    of: HashMap<u32, usize, FixedState>,
    shared: Vec<Shared>,
    open: Vec<OpenFile>,
    free: Vec<usize>,
    count: usize,
}

type Parsed<T> = Result<T, String>;

impl Processes {
    pub(super) fn is_known(&self, pid: u32) -> bool {
        self.of.contains_key(&pid)
    }

    /// Adds a process without a parent in the trace.
    pub(super) fn first(&mut self, pid: u32, cwd: &[u8]) -> Parsed<()> {
        self.check()?;
        let shared = Shared { cwd: cwd.to_vec(), threads: 1, ..Shared::default() };
        self.shared.push(shared);
        self.of.insert(pid, self.shared.len() - 1);
        Ok(())
    }

    fn check(&self) -> Parsed<()> {
        if self.of.len() >= MOST_PROCESSES || self.shared.len() >= MOST_PROCESSES {
            return Err(format!("expected at most {MOST_PROCESSES} processes"));
        }
        if self.count > MOST_FILES {
            return Err(format!("expected at most {MOST_FILES} open descriptors"));
        }
        Ok(())
    }

    /// Adds the child of a process; a thread shares its descriptors.
    pub(super) fn fork(&mut self, parent: u32, child: u32, thread: bool) -> Parsed<()> {
        self.check()?;
        let Some(at) = self.of.get(&parent).copied() else { return Ok(()) };
        if thread {
            self.shared[at].threads += 1;
            self.of.insert(child, at);
            return Ok(());
        }
        let copy = Shared { threads: 1, ..self.shared[at].clone() };
        self.count += copy.descriptors.len();
        for descriptor in copy.descriptors.values() {
            self.open[descriptor.open].refs += 1;
        }
        self.shared.push(copy);
        self.of.insert(child, self.shared.len() - 1);
        self.check()
    }

    fn shared(&mut self, pid: u32) -> Option<&mut Shared> {
        self.of.get(&pid).and_then(|at| self.shared.get_mut(*at))
    }

    pub(super) fn cwd(&self, pid: u32) -> &[u8] {
        let shared = self.of.get(&pid).and_then(|at| self.shared.get(*at));
        shared.map_or(b"/", |shared| &shared.cwd)
    }

    pub(super) fn set_cwd(&mut self, pid: u32, cwd: Vec<u8>) {
        if let Some(shared) = self.shared(pid) {
            shared.cwd = cwd;
        }
    }

    /// The open file of a descriptor.
    pub(super) fn get(&mut self, pid: u32, fd: i64) -> Option<&mut OpenFile> {
        let open = self.shared(pid)?.descriptors.get(&fd)?.open;
        self.open.get_mut(open)
    }

    /// Opens a file under a descriptor. Returns what that descriptor closed.
    pub(super) fn open(
        &mut self,
        pid: u32,
        fd: i64,
        file: OpenFile,
        cloexec: bool,
    ) -> Parsed<Option<OpenFile>> {
        let closed = self.close(pid, fd);
        let open = match self.free.pop() {
            Some(at) => {
                self.open[at] = file;
                at
            }
            None => {
                self.open.push(file);
                self.open.len() - 1
            }
        };
        self.refer(pid, fd, Descriptor { open, cloexec })?;
        Ok(closed)
    }

    fn refer(&mut self, pid: u32, fd: i64, to: Descriptor) -> Parsed<()> {
        self.open[to.open].refs += 1;
        self.count += 1;
        if let Some(shared) = self.shared(pid) {
            shared.descriptors.insert(fd, to);
        }
        self.check()
    }

    /// Makes `fd` refer to the open file of `of`. Returns what `fd` closed.
    pub(super) fn duplicate(
        &mut self,
        pid: u32,
        of: i64,
        fd: i64,
        cloexec: bool,
    ) -> Parsed<Option<OpenFile>> {
        if of == fd {
            return Ok(None);
        }
        let closed = self.close(pid, fd);
        let descriptor = self.shared(pid).and_then(|shared| shared.descriptors.get(&of)).copied();
        if let Some(Descriptor { open, .. }) = descriptor {
            self.refer(pid, fd, Descriptor { open, cloexec })?;
        }
        Ok(closed)
    }

    /// Closes a descriptor. Returns its file if no other descriptor refers to it.
    pub(super) fn close(&mut self, pid: u32, fd: i64) -> Option<OpenFile> {
        let descriptor = self.shared(pid)?.descriptors.remove(&fd)?;
        self.drop_one(descriptor)
    }

    fn drop_one(&mut self, descriptor: Descriptor) -> Option<OpenFile> {
        self.count -= 1;
        let open = &mut self.open[descriptor.open];
        open.refs -= 1;
        if open.refs > 0 {
            return None;
        }
        self.free.push(descriptor.open);
        Some(open.clone())
    }

    /// Closes all descriptors of a process, or those that `execve` closes. Returns the files that
    /// no other process has open.
    pub(super) fn close_many(&mut self, pid: u32, exec: bool) -> Vec<OpenFile> {
        let Some(shared) = self.shared(pid) else { return Vec::new() };
        let all = std::mem::take(&mut shared.descriptors);
        let (closed, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(_, descriptor)| !exec || descriptor.cloexec);
        shared.descriptors = kept;
        closed.into_values().filter_map(|descriptor| self.drop_one(descriptor)).collect()
    }

    /// Ends a process or thread. Returns the files that this closed.
    pub(super) fn exit(&mut self, pid: u32) -> Vec<OpenFile> {
        let Some(shared) = self.shared(pid) else { return Vec::new() };
        shared.threads -= 1;
        let last = shared.threads == 0;
        let closed = if last { self.close_many(pid, false) } else { Vec::new() };
        self.of.remove(&pid);
        closed
    }
}
