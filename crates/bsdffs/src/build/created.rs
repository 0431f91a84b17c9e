//! Creates files from a specification alone.
//!
//! **Invariant.** A pass that measures and one that copies create the same files. The content of a
//! file is read at its size when the pass began to read it; a file that changes meanwhile is an
//! error.
//!
//! Reference: FreeBSD makefs(8), its `walk.c` (`-F`) and `mtree.c`.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ffs_core::Timespec;

use super::mtree::{Node, NodeKind};
use crate::copy::{
    CopyError, CopyReport, Entry, EntryKind, EntryMeta, READ_SIZE, Sink, SinkError, SinkResult,
    next_data,
};
use crate::text::escape;

/// The mode of a symbolic link whose line has none, as symlink(2) gives it.
const LINK_MODE: u16 = 0o755;

/// Creates files in a sink.
pub(super) struct Creation<'a> {
    sink: &'a mut dyn Sink,
    with_data: bool,
    /// The time of a file whose node has none.
    time: Timespec,
}

impl<'a> Creation<'a> {
    /// Without `with_data` the content of files is only measured.
    pub(super) fn new(sink: &'a mut dyn Sink, with_data: bool, time: Timespec) -> Creation<'a> {
        Creation { sink, with_data, time }
    }

    /// Creates the file of `node` at `path`. A node without a type is a directory, or a file if it
    /// has contents.
    pub(super) fn create(
        &mut self,
        path: &[u8],
        node: &Node,
        latest: Option<Timespec>,
        report: &mut CopyReport,
    ) -> SinkResult {
        match self.try_create(path, node, latest, report) {
            Err(SinkError::Skip(why)) => {
                let error = CopyError::new(io::ErrorKind::Other, why);
                Err(SinkError::Stop(error.in_file(escape(path))))
            }
            Err(SinkError::Stop(error)) => Err(SinkError::Stop(error.in_file(escape(path)))),
            other => other,
        }
    }

    fn try_create(
        &mut self,
        path: &[u8],
        node: &Node,
        latest: Option<Timespec>,
        report: &mut CopyReport,
    ) -> SinkResult {
        let content = node.contents.as_deref().map(open).transpose()?;
        let kind = match (&content, node.kind) {
            (Some((_, size)), _) => EntryKind::File(*size),
            (None, Some(NodeKind::File)) => EntryKind::File(0),
            (None, None | Some(NodeKind::Directory)) => EntryKind::Directory,
            (None, Some(NodeKind::Symlink)) => {
                EntryKind::Symlink(node.link.clone().unwrap_or_default())
            }
            (None, Some(NodeKind::Fifo)) => EntryKind::Fifo,
            (None, Some(NodeKind::Socket)) => EntryKind::Socket,
            (None, Some(NodeKind::Char)) => EntryKind::Char(node.device.unwrap_or_default()),
            (None, Some(NodeKind::Block)) => EntryKind::Block(node.device.unwrap_or_default()),
        };
        let time = latest.map_or(self.time, |latest| self.time.min(latest));
        let (atime, mtime, birthtime) = (time, time, time);
        let meta = EntryMeta { perm: LINK_MODE, atime, mtime, birthtime, ..EntryMeta::default() };
        let entry = Entry { path: path.to_vec(), kind, meta, identity: None };
        let entry = with(&entry, node, latest);
        self.sink.entry(&entry, report)?;
        report.count(&entry.kind);
        let Some((content, size)) = content else { return Ok(()) };
        let copied = self.content(&content, size, report).and_then(|()| self.sink.end(report));
        if copied.is_err() {
            // The error ends the build.
            let _ = self.sink.abort();
        }
        copied
    }

    /// Passes on the content of the open file, without its holes.
    fn content(&mut self, content: &OwnedFd, size: u64, report: &mut CopyReport) -> SinkResult {
        let mut buffer = vec![0; if self.with_data { READ_SIZE } else { 0 }];
        let mut at = 0;
        while at < size {
            let (start, end) = next_data(content, at, size).map_err(SinkError::skip)?;
            at = start;
            if !self.with_data {
                self.sink.extent(at, end);
                at = end;
            }
            while at < end {
                let len = usize::try_from(end - at).unwrap_or(READ_SIZE).min(READ_SIZE);
                let len = rustix::io::pread(content, &mut buffer[..len], at);
                let len = len.map_err(SinkError::skip)?;
                if len == 0 {
                    return Err(SinkError::skip("became shorter while it was read"));
                }
                self.sink.data(at, &buffer[..len])?;
                report.bytes += len as u64;
                at += len as u64;
            }
        }
        Ok(())
    }
}

/// `entry` with the attributes of `node`.
pub(super) fn with(entry: &Entry, node: &Node, latest: Option<Timespec>) -> Entry {
    let mut entry = entry.clone();
    let meta = &mut entry.meta;
    (meta.uid, meta.gid) = (node.uid.unwrap_or(0), node.gid.unwrap_or(0));
    if let Some(perm) = node.perm {
        meta.perm = perm;
        meta.acls.access = meta.acls.access.take().map(|acl| acl.with_mode(perm));
    }
    meta.flags = node.flags.unwrap_or(meta.flags);
    if let (EntryKind::Char(own) | EntryKind::Block(own), Some(device)) =
        (&mut entry.kind, node.device)
    {
        *own = device;
    }
    if let Some(mtime) = node.mtime {
        let mtime = latest.map_or(mtime, |latest| mtime.min(latest));
        (meta.mtime, meta.atime, meta.birthtime) = (mtime, mtime, mtime);
    }
    entry
}

/// The regular file with the content, and its size. A pipe is not waited for.
fn open(path: &Path) -> Result<(OwnedFd, u64), SinkError> {
    let fail = |error: io::Error| SinkError::skip(format!("contents={}: {error}", path.display()));
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(fail)?;
    let found = file.metadata().map_err(fail)?;
    if !found.is_file() {
        return Err(fail(io::Error::other("is not a regular file")));
    }
    Ok((OwnedFd::from(file), found.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::copy::{Acls, EntryMeta, PosixAcl};

    #[test]
    fn a_listed_mode_changes_the_mask_of_an_access_list() {
        let acl = PosixAcl::from_text(b"user::rwx,user:7:rwx:7,group::rwx,mask::rwx,other::---");
        let acls = Acls { access: Some(acl), ..Acls::default() };
        let meta = EntryMeta { perm: 0o770, acls, ..EntryMeta::default() };
        let entry = Entry { path: Vec::new(), kind: EntryKind::Directory, meta, identity: None };
        let list = |perm| {
            let meta = with(&entry, &Node { perm, ..Node::default() }, None).meta;
            (meta.perm, meta.acls.access.unwrap().to_text().unwrap())
        };
        let (perm, listed) = list(Some(0o751));
        assert_eq!(perm, 0o751);
        assert_eq!(listed, "user::rwx,user:7:rwx,group::rwx,mask::r-x,other::--x");
        let (perm, listed) = list(None);
        assert_eq!(perm, 0o770);
        assert_eq!(listed, "user::rwx,user:7:rwx,group::rwx,mask::rwx,other::---");
    }
}
