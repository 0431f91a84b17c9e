//! A sink that takes the files of a specification, with the attributes that it has, and creates
//! those that the tree lacks.
//!
//! # Invariants
//! 1. A file without a node is left out and counted, except the root and directories that lead to
//!    nodes. These belong to root.
//! 2. Of a node the attributes that it has replace those of the file. An owner or group that it
//!    lacks is root's. A directory that only leads to nodes has the mode 755.
//! 3. The names of a file with several count together: an installation logs a hard link without
//!    owner, flags and set-id bits. The first pass over the tree finds these names.
//! 4. After the last file of the tree the sink creates the other files of the specification, by
//!    path: `created`. A file with `contents=` is one of them, also if the tree has it.

use std::collections::{BTreeMap, BTreeSet};

use super::created::{Creation, with};
use super::error::BuildError;
use super::mtree::{MtreeSpec, Node, NodeKind};
use crate::copy::{
    CopyReport, Entry, EntryKind, PartialFile, Sink, SinkError, SinkResult, SkippedPath,
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

/// The further names of files, by the first one.
pub(super) type Links = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Passes on the files of a specification.
pub(super) struct ListedSink<'a> {
    sink: &'a mut dyn Sink,
    spec: Option<&'a MtreeSpec>,
    /// No file is newer.
    latest: Option<Timespec>,
    /// Whether the content of files is copied, not only measured.
    with_data: bool,
    /// The latest modification in the tree.
    newest: Timespec,
    /// The paths that are taken, with the directories that only lead to them.
    found: BTreeSet<Vec<u8>>,
    left_out: LeftOut,
    /// The names that an earlier pass has found.
    links: Links,
    /// Those of this pass.
    seen: Links,
    /// Files whose first name is not listed, by that name: the name that they got.
    renamed: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<'a> ListedSink<'a> {
    /// Passes all files to `sink` if there is no specification.
    pub(super) fn new(
        sink: &'a mut dyn Sink,
        spec: Option<&'a MtreeSpec>,
        latest: Option<i64>,
        links: Links,
    ) -> ListedSink<'a> {
        ListedSink {
            sink,
            spec,
            latest: latest.map(|secs| Timespec { secs, nsec: 0 }),
            with_data: true,
            newest: Timespec::default(),
            found: BTreeSet::new(),
            left_out: LeftOut::default(),
            links,
            seen: Links::new(),
            renamed: BTreeMap::new(),
        }
    }

    /// The same for a sink that only measures.
    pub(super) fn without_data(self) -> ListedSink<'a> {
        ListedSink { with_data: false, ..self }
    }

    /// What was left out, and the names of files with several.
    ///
    /// # Errors
    /// [`BuildError::Missing`]: the tree lacks a file that the specification cannot create.
    pub(super) fn finished(self) -> Result<(LeftOut, Links), BuildError> {
        let missing = self.spec.and_then(|spec| spec.missing(&self.found).next());
        match missing.and_then(|(path, node)| node.lacks().map(|lacks| (path, node.line, lacks))) {
            Some((path, line, lacks)) => {
                Err(BuildError::Missing { path: escape(path), line, lacks })
            }
            None => Ok((self.left_out, self.seen)),
        }
    }

    /// Creates the files of `spec` that the tree lacks, as far as it can.
    fn create_missing(&mut self, spec: &MtreeSpec, report: &mut CopyReport) -> SinkResult {
        let mut creation = Creation::new(self.sink, self.with_data, self.newest);
        for (path, node) in spec.missing(&self.found).collect::<Vec<_>>() {
            if node.lacks().is_some() {
                continue;
            }
            for at in path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at) {
                if self.found.insert(path[..at].to_vec()) {
                    let leading = Node { perm: Some(0o755), ..Node::default() };
                    creation.create(&path[..at], &leading, self.latest, report)?;
                }
            }
            creation.create(path, node, self.latest, report)?;
            self.found.insert(path.to_vec());
        }
        Ok(())
    }

    /// A file, or the first name of one: it gets the first listed one of its names, and the
    /// attributes of all.
    fn first_name(
        &mut self,
        spec: &MtreeSpec,
        entry: &Entry,
        report: &mut CopyReport,
    ) -> SinkResult {
        let further = self.links.get(&entry.path).into_iter().flatten();
        let listed = |path: &Vec<u8>| spec.get(path).map(|node| (path.clone(), node));
        let mut names: Vec<(Vec<u8>, &Node)> =
            std::iter::once(&entry.path).chain(further).filter_map(listed).collect();
        if !matches!(entry.kind, EntryKind::Directory) && !names.is_empty() {
            names.retain(|(_, node)| node.contents.is_none());
            if names.is_empty() {
                return Err(SinkError::Ignore);
            }
        }
        let Some((path, _)) = names.first().cloned() else {
            if entry.path.is_empty() || spec.leads_on(&entry.path) {
                self.found.insert(entry.path.clone());
                let perm = (!entry.path.is_empty()).then_some(0o755);
                let node = Node { perm, ..Node::default() };
                return self.sink.entry(&with(entry, &node, self.latest), report);
            }
            return Err(self.leave_out(entry));
        };
        let node = merged(names.iter().map(|(_, node)| *node))?;
        compare(entry, &node)?;
        if path != entry.path {
            self.renamed.insert(entry.path.clone(), path.clone());
        }
        self.found.insert(path.clone());
        let entry = Entry { path, ..with(entry, &node, self.latest) };
        self.sink.entry(&entry, report)
    }

    /// A further name of the file at `first`.
    fn further_name(
        &mut self,
        spec: &MtreeSpec,
        (entry, first): (&Entry, &[u8]),
        report: &mut CopyReport,
    ) -> SinkResult {
        self.seen.entry(first.to_vec()).or_default().push(entry.path.clone());
        let Some(node) = spec.get(&entry.path) else { return Err(self.leave_out(entry)) };
        if node.kind == Some(NodeKind::Directory) {
            return Err(another_type(node));
        }
        if node.contents.is_some() {
            return Err(SinkError::Ignore);
        }
        let first = self.renamed.get(first).map_or(first, Vec::as_slice).to_vec();
        if first == entry.path {
            return Err(SinkError::Ignore);
        }
        self.found.insert(entry.path.clone());
        let entry = Entry { kind: EntryKind::Link(first), ..with(entry, node, self.latest) };
        self.sink.entry(&entry, report)
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
    fn inner(&mut self) -> Option<&mut dyn Sink> {
        Some(self.sink)
    }

    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        let Some(spec) = self.spec else { return self.sink.entry(entry, report) };
        self.newest = self.newest.max(entry.meta.mtime);
        match &entry.kind {
            EntryKind::Link(first) => self.further_name(spec, (entry, first), report),
            _ => self.first_name(spec, entry, report),
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        self.sink.data(offset, bytes)
    }

    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        self.sink.end(report)
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.sink.abort()
    }

    fn finish(&mut self, report: &mut CopyReport) -> Result<Vec<SkippedPath>, SinkError> {
        if let Some(spec) = self.spec {
            self.create_missing(spec, report)?;
        }
        self.sink.finish(report)
    }
}

/// The node of a file with these names.
fn merged<'a>(names: impl Iterator<Item = &'a Node> + Clone) -> Result<Node, SinkError> {
    let whole = names.clone().filter(|node| node.uid.is_some() || node.gid.is_some());
    let Some(base) = whole.clone().next().or_else(|| names.clone().next()) else {
        return Ok(Node::default());
    };
    let same = |node: &Node| {
        (node.uid, node.gid, node.perm) == (base.uid, base.gid, base.perm)
            && (node.flags.is_none() || base.flags.is_none() || node.flags == base.flags)
    };
    if let Some(other) = whole.clone().find(|node| !same(node)) {
        let (one, two) = (base.line, other.line);
        let why = format!("lines {one} and {two} give names of one file different attributes");
        return Err(SinkError::skip(why));
    }
    let flags = names.clone().find_map(|node| node.flags);
    let mtime = base.mtime.or_else(|| names.clone().find_map(|node| node.mtime));
    Ok(Node { flags, mtime, ..base.clone() })
}

fn another_type(node: &Node) -> SinkError {
    SinkError::skip(format!("the tree has another type than line {}", node.line))
}

/// Compares the type of a file, and the target of a symbolic link, with its node.
fn compare(entry: &Entry, node: &Node) -> SinkResult {
    let kind = match &entry.kind {
        EntryKind::Directory => NodeKind::Directory,
        EntryKind::Symlink(_) => NodeKind::Symlink,
        EntryKind::Fifo => NodeKind::Fifo,
        EntryKind::Socket => NodeKind::Socket,
        EntryKind::Char(_) => NodeKind::Char,
        EntryKind::Block(_) => NodeKind::Block,
        EntryKind::File(_) | EntryKind::Link(_) => NodeKind::File,
    };
    if node.kind.is_some_and(|wanted| wanted != kind) {
        return Err(another_type(node));
    }
    match (&entry.kind, &node.link) {
        (EntryKind::Symlink(target), Some(wanted)) if target != wanted => Err(SinkError::skip(
            format!("the symbolic link has another target than line {}", node.line),
        )),
        _ => Ok(()),
    }
}
