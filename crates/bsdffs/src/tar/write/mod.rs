//! Tar archives as a sink: the pax format, which GNU tar and bsdtar read.
//!
//! # Invariants
//! 1. The archive is written forward and never read: any pipe can take it.
//! 2. A member has exactly the data that its header announces. What a source cannot deliver is
//!    zeros, and the copy reports the file.
//! 3. Memory holds one header with its extensions, the map of one sparse file, which is bounded,
//!    and the numbers of files with several names.
//! 4. The same files give the same bytes: no time, process number or name of a user is written.
//!
//! # References
//! POSIX pax, "pax Interchange Format"; the GNU tar manual, "PAX Format, Version 1.0" of sparse
//! files; libarchive's tar(5).

mod block;
mod records;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, Write};

use ffs_core::DeviceNumber;

use super::header::BLOCK;
use super::padding;
use super::pax::CREATION_TIME;
use super::sparse::{Extent, MAX_EXTENTS};
use crate::copy::{
    CopyError, CopyReport, Entry, EntryKind, EntryMeta, Loss, PartialFile, PosixAcl, Sink,
    SinkError, SinkResult, SkippedPath, ZEROS, split_last,
};
use crate::text::escape;
use block::Fields;
use records::Records;

/// Bytes of a record: the length of an archive is a multiple of it.
const RECORD: u64 = 20 * BLOCK as u64;

/// Writes an archive to `out`.
pub struct TarSink<W> {
    out: W,
    /// The archive in messages.
    name: String,
    /// What precedes the paths of the copy in the archive.
    prefix: Vec<u8>,
    /// Bytes of the archive.
    written: u64,
    open: Option<OpenMember>,
    /// Files with several names that are in the archive, by [`Entry::identity`].
    identities: BTreeSet<u64>,
    /// A file whose data ended early. The next call completes it, unless the copy ended.
    aborted: Option<OpenMember>,
    birth_times: BirthTimes,
}

/// A regular file that receives data.
struct OpenMember {
    path: Vec<u8>,
    meta: EntryMeta,
    identity: Option<u64>,
    /// Bytes of the file.
    size: u64,
    /// The ranges with data, in order.
    extents: Vec<Extent>,
    /// The source sent a map of the file.
    sparse: bool,
    /// The header is written.
    begun: bool,
    /// Place in the file, bytes, and the extent that contains or follows it.
    at: u64,
    extent: usize,
}

/// Where an archive has birth times, for which POSIX has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BirthTimes {
    /// In comments, which only this crate reads. GNU tar warns of every record that it does not
    /// know.
    Comment,
    /// In the records of bsdtar.
    Libarchive,
}

impl<W: Write> TarSink<W> {
    /// An archive in `out`, which has `name` in messages. Members have `prefix` before their path.
    pub fn new(out: W, name: impl Into<String>, prefix: impl Into<Vec<u8>>) -> TarSink<W> {
        TarSink {
            out,
            name: name.into(),
            prefix: prefix.into(),
            written: 0,
            open: None,
            identities: BTreeSet::new(),
            aborted: None,
            birth_times: BirthTimes::Comment,
        }
    }

    /// Where birth times are.
    #[must_use]
    pub fn birth_times(mut self, place: BirthTimes) -> TarSink<W> {
        self.birth_times = place;
        self
    }

    fn stop(&self, error: io::Error) -> SinkError {
        SinkError::Stop(CopyError::at(&self.name, error))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn zeros(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let piece = len.min(ZEROS.len() as u64);
            self.write(&ZEROS[..piece as usize])?;
            len -= piece;
        }
        Ok(())
    }

    /// The path of a member in the archive.
    fn member_name(&self, path: &[u8]) -> Vec<u8> {
        [&self.prefix[..], path].concat()
    }

    /// Writes the header of a member, after an extended header if it needs one.
    fn header(&mut self, fields: &Fields<'_>, mut records: Records) -> io::Result<()> {
        fields.overflow(&mut records);
        if let Some(bytes) = records.into_bytes() {
            let last = split_last(fields.name.strip_suffix(b"/").unwrap_or(fields.name)).1;
            let name = [&b"PaxHeaders/"[..], &last[..last.len().min(80)]].concat();
            let extended = Fields {
                kind: b'x',
                name: &name,
                mode: 0o644,
                uid: 0,
                gid: 0,
                size: bytes.len() as u64,
                mtime: ffs_core::Timespec { nsec: 0, ..fields.mtime },
                link: b"",
                device: fields.device,
            };
            self.write(&extended.block())?;
            self.write(&bytes)?;
            self.zeros(padding(bytes.len() as u64))?;
        }
        self.write(&fields.block())
    }

    /// Writes a member without data.
    fn plain(&mut self, entry: &Entry) -> io::Result<()> {
        let mut name = self.member_name(&entry.path);
        let (mut link, mut device) = (Vec::new(), DeviceNumber { major: 0, minor: 0 });
        let kind = match &entry.kind {
            EntryKind::Link(first) => {
                link = self.member_name(first);
                b'1'
            }
            EntryKind::Symlink(text) => {
                link.clone_from(text);
                b'2'
            }
            EntryKind::Char(number) => {
                device = *number;
                b'3'
            }
            EntryKind::Block(number) => {
                device = *number;
                b'4'
            }
            EntryKind::Directory => {
                if !name.ends_with(b"/") {
                    name.push(b'/');
                }
                b'5'
            }
            EntryKind::Fifo | EntryKind::Socket | EntryKind::File(_) => b'6',
        };
        let mut records = Records::default();
        if kind != b'1' {
            times_and_attributes(&mut records, &entry.meta, self.birth_times);
        }
        let fields = Fields { kind, name: &name, link: &link, device, ..of(&entry.meta) };
        self.header(&fields, records)
    }

    /// Writes the header of the open file, and its map.
    fn begin(&mut self, open: &mut OpenMember) -> io::Result<()> {
        if open.begun {
            return Ok(());
        }
        open.begun = true;
        self.identities.extend(open.identity);
        let name = self.member_name(&open.path);
        let mut records = Records::default();
        times_and_attributes(&mut records, &open.meta, self.birth_times);
        if !open.sparse {
            open.extents = vec![Extent { offset: 0, len: open.size }];
            let fields = Fields { kind: b'0', name: &name, size: open.size, ..of(&open.meta) };
            return self.header(&fields, records);
        }
        let map = sparse_map(&open.extents);
        let data: u64 = open.extents.iter().map(|extent| extent.len).sum();
        records.number("GNU.sparse.major", 1);
        records.number("GNU.sparse.minor", 0);
        if std::str::from_utf8(&name).is_err() {
            records.add(b"hdrcharset", b"BINARY");
        }
        records.add(b"GNU.sparse.name", &name);
        records.number("GNU.sparse.realsize", open.size);
        let shown = sparse_name(&name);
        let size = map.len() as u64 + data;
        let fields = Fields { kind: b'0', name: &shown, size, ..of(&open.meta) };
        self.header(&fields, records)?;
        self.write(&map)
    }

    /// Moves on to the offset `to` of the open file. Writes zeros where the archive has data.
    fn advance(&mut self, open: &mut OpenMember, to: u64) -> io::Result<()> {
        while open.at < to {
            let Some(extent) = open.extents.get(open.extent) else {
                open.at = to;
                break;
            };
            let end = extent.offset + extent.len;
            if open.at < extent.offset {
                open.at = extent.offset.min(to);
            } else if open.at < end {
                let len = end.min(to) - open.at;
                self.zeros(len)?;
                open.at += len;
            } else {
                open.extent += 1;
            }
        }
        Ok(())
    }

    /// Writes `bytes` at `offset` of the open file, where its map has data.
    fn bytes(&mut self, open: &mut OpenMember, offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        self.begin(open)?;
        self.advance(open, offset)?;
        while let Some(extent) = open.extents.get(open.extent) {
            let end = extent.offset + extent.len;
            let hole = extent.offset.saturating_sub(open.at).min(bytes.len() as u64);
            open.at += hole;
            bytes = &bytes[hole as usize..];
            let len = end.saturating_sub(open.at).min(bytes.len() as u64);
            let (now, rest) = bytes.split_at(len as usize);
            self.write(now)?;
            open.at += len;
            bytes = rest;
            if bytes.is_empty() {
                break;
            }
            open.extent += 1;
        }
        Ok(())
    }

    /// Completes the file whose data ended early.
    fn close_aborted(&mut self) -> SinkResult {
        match self.aborted.take() {
            Some(open) => self.close(open).map_err(|error| self.stop(error)),
            None => Ok(()),
        }
    }

    /// Completes a file. What was not written of it is zeros.
    fn close(&mut self, mut open: OpenMember) -> io::Result<()> {
        self.begin(&mut open)?;
        let size = open.size;
        self.advance(&mut open, size)?;
        self.zeros(padding(self.written))
    }
}

/// The fields that follow from the attributes of a file.
fn of(meta: &EntryMeta) -> Fields<'static> {
    Fields {
        kind: 0,
        name: b"",
        mode: meta.perm,
        uid: meta.uid,
        gid: meta.gid,
        size: 0,
        mtime: meta.mtime,
        link: b"",
        device: DeviceNumber { major: 0, minor: 0 },
    }
}

fn times_and_attributes(records: &mut Records, meta: &EntryMeta, birth: BirthTimes) {
    // A reader takes the modification time for a missing one.
    if meta.atime != meta.mtime {
        records.time("atime", meta.atime);
    }
    if meta.birthtime != meta.mtime {
        match birth {
            BirthTimes::Comment => records.comment_time(CREATION_TIME, meta.birthtime),
            BirthTimes::Libarchive => records.time(CREATION_TIME, meta.birthtime),
        }
    }
    records.attributes(meta);
}

/// The name in the header of a sparse file, which the record `GNU.sparse.name` replaces: readers
/// that do not know the format extract the map and the data under it.
fn sparse_name(name: &[u8]) -> Vec<u8> {
    let (dir, last) = split_last(name);
    let whole = [dir, &b"/GNUSparseFile.0/"[usize::from(dir.is_empty())..], last].concat();
    match block::fits(&whole) {
        true => whole,
        false => [&b"GNUSparseFile.0/"[..], &last[..last.len().min(80)]].concat(),
    }
}

/// The text before the data of a sparse file: the number of extents, then offset and length of
/// each.
fn sparse_map(extents: &[Extent]) -> Vec<u8> {
    let mut text = format!("{}\n", extents.len()).into_bytes();
    for Extent { offset, len } in extents {
        text.extend_from_slice(format!("{offset}\n{len}\n").as_bytes());
    }
    text.resize(text.len() + padding(text.len() as u64) as usize, 0);
    text
}

/// The attributes of a file that an archive can represent.
fn representable(meta: &EntryMeta, report: &mut CopyReport) -> EntryMeta {
    let mut meta = meta.clone();
    let invalid = |acl: &Option<PosixAcl>| matches!(acl, Some(PosixAcl::Invalid));
    let perm = meta.acls.mode_without(meta.perm);
    if meta.acls.nfs4.take().is_some() {
        report.record_loss(Loss::Nfs4Acl);
        meta.perm = perm;
    }
    if invalid(&meta.acls.access) {
        report.record_loss(Loss::AccessAcl);
        meta.perm = perm;
    }
    if invalid(&meta.acls.default) {
        report.record_loss(Loss::DefaultAcl);
    }
    meta
}

impl<W: Write> Sink for TarSink<W> {
    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        self.close_aborted()?;
        match (&entry.kind, entry.identity) {
            (EntryKind::Socket, _) => {
                report.record_loss(Loss::Socket);
                return Err(SinkError::Ignore);
            }
            (EntryKind::Link(first), Some(id)) if !self.identities.contains(&id) => {
                let why = format!("a hard link to {}, which could not be read", escape(first));
                return Err(SinkError::skip(why));
            }
            _ => {}
        }
        let meta = representable(&entry.meta, report);
        if let EntryKind::File(size) = entry.kind {
            self.open = Some(OpenMember {
                path: entry.path.clone(),
                meta,
                identity: entry.identity,
                size,
                extents: Vec::new(),
                sparse: false,
                begun: false,
                at: 0,
                extent: 0,
            });
            return Ok(());
        }
        self.identities.extend(entry.identity);
        let entry = Entry { meta, ..entry.clone() };
        self.plain(&entry).map_err(|error| self.stop(error))
    }

    fn extent(&mut self, start: u64, end: u64) {
        let Some(open) = self.open.as_mut().filter(|open| !open.begun) else { return };
        open.sparse = true;
        let full = open.extents.len() == MAX_EXTENTS;
        match open.extents.last_mut() {
            Some(last) if start == end && last.offset + last.len == end => {}
            // Reading further extents is bounded, so the last one takes in what follows.
            Some(last) if full => last.len = end - last.offset,
            _ => open.extents.push(Extent { offset: start, len: end - start }),
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let done = self.bytes(&mut open, offset, bytes);
        self.open = Some(open);
        done.map_err(|error| self.stop(error))
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.close(open).map_err(|error| self.stop(error))
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.aborted = self.open.take().filter(|open| open.begun);
        None
    }

    fn finish(&mut self, _: &mut CopyReport) -> Result<Vec<SkippedPath>, SinkError> {
        self.close_aborted()?;
        self.zeros(2 * BLOCK as u64)
            .and_then(|()| self.zeros(self.written.next_multiple_of(RECORD) - self.written))
            .and_then(|()| self.out.flush())
            .map_err(|error| self.stop(error))?;
        Ok(Vec::new())
    }
}
