//! A sink that takes the files of a specification, with the attributes that it has.
//!
//! # Invariants
//! 1. A file without a node is left out and counted, except the root and directories that lead to
//!    nodes. These belong to root.
//! 2. Of a node the attributes that it has replace those of the file. An owner or group that it
//!    lacks is root's.

use std::collections::BTreeSet;

use super::error::BuildError;
use super::mtree::{MtreeSpec, Node, NodeKind};
use crate::copy::{
    CopyReport, Entry, EntryKind, EntryMeta, PartialFile, Sink, SinkError, SinkResult,
};
use crate::text::escape;
use ffs_core::Timespec;

/// Files of the tree that a specification lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Their number; what is in a directory is not counted with it.
    pub count: u64,
    /// The path of the first, for messages.
    pub first: String,
}

/// Passes on the files of a specification.
pub(super) struct ListedSink<'a> {
    sink: &'a mut dyn Sink,
    spec: Option<&'a MtreeSpec>,
    /// No file is newer.
    latest: Option<Timespec>,
    found: BTreeSet<Vec<u8>>,
    left_out: LeftOut,
}

impl<'a> ListedSink<'a> {
    /// Passes all files to `sink` if there is no specification.
    pub(super) fn new(
        sink: &'a mut dyn Sink,
        spec: Option<&'a MtreeSpec>,
        latest: Option<i64>,
    ) -> ListedSink<'a> {
        let latest = latest.map(|secs| Timespec { secs, nsec: 0 });
        ListedSink { sink, spec, latest, found: BTreeSet::new(), left_out: LeftOut::default() }
    }

    /// What was left out.
    ///
    /// # Errors
    /// [`BuildError::Missing`]: the tree lacks a file of the specification.
    pub(super) fn into_left_out(self) -> Result<LeftOut, BuildError> {
        match self.spec.and_then(|spec| spec.first_missing(&self.found)) {
            Some((path, line)) => Err(BuildError::Missing { path: escape(path), line }),
            None => Ok(self.left_out),
        }
    }

    fn leave_out(&mut self, entry: &Entry) -> SinkError {
        if self.left_out.count == 0 {
            self.left_out.first = escape(&entry.path);
        }
        self.left_out.count += 1;
        SinkError::Ignore
    }
}

impl Sink for ListedSink<'_> {
    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        let Some(spec) = self.spec else { return self.sink.entry(entry, report) };
        let Some(node) = spec.get(&entry.path) else {
            if !entry.path.is_empty() && !spec.leads_on(&entry.path) {
                return Err(self.leave_out(entry));
            }
            return self.sink.entry(&with(entry, &Node::default(), self.latest), report);
        };
        if node.kind.is_some_and(|kind| !is_of(&entry.kind, kind)) {
            let line = node.line;
            return Err(SinkError::skip(format!("the tree has another type than line {line}")));
        }
        self.found.insert(entry.path.clone());
        self.sink.entry(&with(entry, node, self.latest), report)
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        self.sink.data(offset, bytes)
    }

    fn extent(&mut self, start: u64, end: u64) {
        self.sink.extent(start, end);
    }

    fn late_attributes(&mut self, meta: EntryMeta) {
        self.sink.late_attributes(meta);
    }

    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        self.sink.end(report)
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.sink.abort()
    }

    fn finish(
        &mut self,
        report: &mut CopyReport,
    ) -> Result<Vec<crate::copy::SkippedPath>, SinkError> {
        self.sink.finish(report)
    }
}

/// `entry` with the attributes of `node`.
fn with(entry: &Entry, node: &Node, latest: Option<Timespec>) -> Entry {
    let mut entry = entry.clone();
    let meta = &mut entry.meta;
    (meta.uid, meta.gid) = (node.uid.unwrap_or(0), node.gid.unwrap_or(0));
    meta.perm = node.perm.unwrap_or(meta.perm);
    meta.flags = node.flags.unwrap_or(meta.flags);
    if let Some(mtime) = node.mtime {
        let mtime = latest.map_or(mtime, |latest| mtime.min(latest));
        (meta.mtime, meta.atime, meta.birthtime) = (mtime, mtime, mtime);
    }
    entry
}

/// Whether a file of the tree has the type of a node. A hard link was compared with its first name.
fn is_of(kind: &EntryKind, wanted: NodeKind) -> bool {
    match kind {
        EntryKind::Directory => wanted == NodeKind::Directory,
        EntryKind::File(_) => wanted == NodeKind::File,
        EntryKind::Symlink(_) => wanted == NodeKind::Symlink,
        EntryKind::Fifo => wanted == NodeKind::Fifo,
        EntryKind::Socket => wanted == NodeKind::Socket,
        EntryKind::Char(_) => wanted == NodeKind::Char,
        EntryKind::Block(_) => wanted == NodeKind::Block,
        EntryKind::Link(_) => wanted != NodeKind::Directory,
    }
}
