//! Tar archives as a source and as a sink. An archive is read once and forward.
//!
//! [`TarSink`] writes the pax format.
//! [`TarSource`] reads ustar, GNU and pax headers: long names, large numbers, nanosecond times,
//! hard links, devices, sparse files in their four formats, and the extended attributes, ACLs and
//! file flags that bsdtar and GNU tar write.
//!
//! # Invariants
//! 1. Memory holds one header with its extensions and one read of data. Sizes in headers allocate
//!    nothing.
//! 2. A member is never outside the tree: leading slashes and `.` are removed, `..` is refused.
//! 3. A damaged archive ends the source with an error that names the member; the members before it
//!    are sent.
//!
//! # References
//! POSIX pax, "ustar Interchange Format"; the GNU tar manual, "Sparse Formats".

mod header;
mod input;
mod pax;
mod sparse;
mod write;

use std::io::{self, Read};

use ffs_core::{DeviceNumber, Timespec};

use crate::copy::{
    CopyEnded, Emitter, Entry, EntryKind, EntryMeta, Event, PosixAcl, READ_SIZE, SMALL_FILE,
    Source, Xattr,
};
use crate::namei::components;
use crate::text::escape;

use header::{BLOCK, Header};
pub use input::Input;
use pax::Pax;
use sparse::Extent;
pub use write::{BirthTimes, TarSink};

/// Most bytes of one extended header or long name.
const MAX_EXTENSION: u64 = 16 << 20;

/// An archive as a source.
pub struct TarSource {
    input: Input,
    name: String,
    with_data: bool,
    complete: bool,
    alone: bool,
}

impl TarSource {
    /// The archive `input`, which has `name` in messages.
    pub fn new(input: Input, name: impl Into<String>) -> TarSource {
        TarSource { input, name: name.into(), with_data: true, complete: false, alone: false }
    }

    /// Sends where files contain data, but not the data.
    #[must_use]
    pub fn without_data(self) -> TarSource {
        TarSource { with_data: false, ..self }
    }

    /// Requires that no other archive follows within a megabyte of the end. One may be left there
    /// if an archive was written over a longer one.
    #[must_use]
    pub fn require_alone(self) -> TarSource {
        TarSource { alone: true, ..self }
    }

    /// Requires the blocks of zeros at the end. Some writers omit them; without them an archive may
    /// be truncated between two members.
    #[must_use]
    pub fn require_end(self) -> TarSource {
        TarSource { complete: true, ..self }
    }
}

impl Source for TarSource {
    fn send(self, emitter: &mut Emitter) -> Result<(), CopyEnded> {
        let TarSource { input, with_data, complete, alone, .. } = self;
        let (global, place) = (Pax::default(), Place::Start);
        let mut reader = TarReader { input, with_data, complete, alone, emitter, global, place };
        match reader.members() {
            Ok(()) => Ok(()),
            Err(ReadError::CopyEnded(ended)) => Err(ended),
            Err(ReadError::Archive(why)) => {
                let why = reader.place.add_to(why);
                reader.emitter.send(Event::Failed { name: self.name, why })
            }
        }
    }
}

/// Why reading ends early.
enum ReadError {
    CopyEnded(CopyEnded),
    /// The archive cannot be read further.
    Archive(String),
}

impl From<CopyEnded> for ReadError {
    fn from(ended: CopyEnded) -> ReadError {
        ReadError::CopyEnded(ended)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Archive(match error.kind() {
            io::ErrorKind::UnexpectedEof => TRUNCATED.to_owned(),
            _ => error.to_string(),
        })
    }
}

impl From<String> for ReadError {
    fn from(why: String) -> ReadError {
        ReadError::Archive(why)
    }
}

impl From<&str> for ReadError {
    fn from(why: &str) -> ReadError {
        ReadError::Archive(why.to_owned())
    }
}

/// What follows the end of an archive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Archive,
    Other,
}

const NO_ARCHIVE: &str = "this is not a tar archive";
const NO_BLOCK: &str = "this is not a tar archive, or it is truncated in its first block";
const TRUNCATED: &str = "the archive is truncated";
const CONCATENATED: &str = "another archive follows this one, and only the first was read: give \
                            each archive in a file of its own";
const NO_END: &str =
    "the archive ends without the blocks of zeros that mark its end: it is truncated";

/// Reads an archive and sends its members.
struct TarReader<'a> {
    input: Input,
    with_data: bool,
    complete: bool,
    alone: bool,
    emitter: &'a mut Emitter,
    /// The global header, which applies to all members after it.
    global: Pax,
    place: Place,
}

/// The place of the reader, for messages.
enum Place {
    Start,
    /// In the data of the member with this name.
    In(Vec<u8>),
    /// Behind it.
    After(Vec<u8>),
}

impl Place {
    /// Adds the member to the text of an error.
    fn add_to(&self, why: String) -> String {
        match self {
            Place::Start => why,
            Place::In(name) => format!("{why} (in the member {})", escape(name)),
            Place::After(name) => format!("{why} (after the member {})", escape(name)),
        }
    }
}

/// A member with all of its headers.
struct Member {
    header: Header,
    pax: Pax,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl TarReader<'_> {
    fn members(&mut self) -> Result<(), ReadError> {
        let mut first = true;
        while let Some(member) = self.next_member(&mut first)? {
            let name = member.name();
            self.place = Place::In(name.clone());
            self.member(member)?;
            self.place = Place::After(name);
        }
        Ok(())
    }

    /// Reads headers up to that of the next file.
    fn next_member(&mut self, first: &mut bool) -> Result<Option<Member>, ReadError> {
        let mut pax = self.global.clone();
        let (mut long_name, mut long_link) = (None, None);
        loop {
            let Some(header) = self.next_header(*first)? else { return Ok(None) };
            *first = false;
            match header.kind {
                b'x' | b'X' => {
                    let text = self.extension(&header)?;
                    pax.read(&text)?;
                }
                b'g' => {
                    let text = self.extension(&header)?;
                    self.global.read(&text)?;
                    pax.read(&text)?;
                }
                b'L' => long_name = Some(until_nul(self.extension(&header)?)),
                b'K' => long_link = Some(until_nul(self.extension(&header)?)),
                _ => return Ok(Some(Member { header, pax, long_name, long_link })),
            }
        }
    }

    fn next_header(&mut self, first: bool) -> Result<Option<Header>, ReadError> {
        let mut zeros = 0;
        loop {
            let mut block = [0; BLOCK];
            match self.input.read_or_end(&mut block)? {
                0 if first && zeros == 0 => return Err("the archive is empty".into()),
                0 if self.complete && zeros == 0 => return Err(NO_END.into()),
                0 => return Ok(None),
                BLOCK => {}
                _ if first && zeros == 0 => return Err(NO_BLOCK.into()),
                _ => return Err(TRUNCATED.into()),
            }
            if block.iter().all(|&byte| byte == 0) {
                zeros += 1;
                if zeros == 2 {
                    let next = self.next_content()?;
                    if first && next == Some(Next::Other) {
                        return Err(NO_ARCHIVE.into());
                    }
                    // A writer on a pipe must not get SIGPIPE, and checksums are at the end.
                    self.input.drain()?;
                    let follows = self.alone && next == Some(Next::Archive);
                    return if follows { Err(CONCATENATED.into()) } else { Ok(None) };
                }
                continue;
            }
            return match Header::parse(&block) {
                Ok(header) => Ok(Some(header)),
                Err(_) if first && !Header::is_header(&block) => Err(NO_ARCHIVE.into()),
                Err(why) => Err(ReadError::Archive(why)),
            };
        }
    }

    /// What follows the end of this archive, within the zeros of a large tape block.
    fn next_content(&mut self) -> io::Result<Option<Next>> {
        const TAPE_BLOCK: usize = 1 << 20;
        for _ in 0..TAPE_BLOCK / BLOCK {
            let mut block = [0; BLOCK];
            let count = self.input.read_or_end(&mut block)?;
            if block.iter().any(|&byte| byte != 0) {
                let is_archive = ffs_image::is_compressed(&block) || Header::parse(&block).is_ok();
                return Ok(Some(if is_archive { Next::Archive } else { Next::Other }));
            }
            if count < BLOCK {
                break;
            }
        }
        Ok(None)
    }

    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, ReadError> {
        if header.size > MAX_EXTENSION {
            return Err(format!("an extended header of {} bytes", header.size).into());
        }
        let mut text = vec![0; header.size as usize];
        self.input.read_exact(&mut text)?;
        self.input.skip(padding(header.size))?;
        Ok(text)
    }

    fn member(&mut self, member: Member) -> Result<(), ReadError> {
        let stored = member.pax.size.unwrap_or(member.header.size);
        let raw = member.name();
        let Some(path) = normal(&raw) else {
            self.emitter.failed(&raw, "the path contains '..'; left out")?;
            return Ok(self.input.skip(stored.saturating_add(padding(stored)))?);
        };
        let nameless = path.is_empty() && !matches!(member.header.kind, b'5' | b'D' | b'V');
        if nameless && !is_old_directory(&member.header, &raw) {
            self.emitter.failed(&raw, "the name is that of a directory; left out")?;
            return Ok(self.input.skip(stored.saturating_add(padding(stored)))?);
        }
        let meta = member.meta();
        for loss in &member.pax.lost {
            self.emitter.send(Event::Lost(*loss, path.clone()))?;
        }
        let link = || normal(&member.link_name());
        let header = &member.header;
        let device = || {
            let major = member.pax.devmajor.unwrap_or(header.devmajor);
            let minor = member.pax.devminor.unwrap_or(header.devminor);
            DeviceNumber { major, minor }
        };
        let kind = match header.kind {
            b'0' | 0 | b'7' | b'S' if !is_old_directory(header, &raw) => {
                return self.file(member, path, meta, stored);
            }
            b'0' | 0 | b'7' | b'5' | b'D' => Some(EntryKind::Directory),
            b'1' => link().map(EntryKind::Link),
            b'2' => Some(EntryKind::Symlink(member.link_name())),
            b'3' => Some(EntryKind::Char(device())),
            b'4' => Some(EntryKind::Block(device())),
            b'6' => Some(EntryKind::Fifo),
            // The label of a volume.
            b'V' => return Ok(self.input.skip(stored.saturating_add(padding(stored)))?),
            _ => None,
        };
        let Some(kind) = kind else {
            let why = match header.kind {
                b'1' => "a hard link to a path that contains '..'; left out".to_owned(),
                b'M' => "continues on another volume; left out".to_owned(),
                other => format!("type '{}' is unknown; left out", other.escape_ascii()),
            };
            self.emitter.failed(&raw, why)?;
            return Ok(self.input.skip(stored.saturating_add(padding(stored)))?);
        };
        // A hard link may repeat the size of the file without its data. POSIX allows data there;
        // no known writer stores any.
        let has_data = matches!(header.kind, b'5' | b'D' | b'0' | 0 | b'7');
        self.emitter.entry(Entry { path, kind, meta, identity: None })?;
        if has_data {
            self.input.skip(stored.saturating_add(padding(stored)))?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        member: Member,
        path: Vec<u8>,
        meta: EntryMeta,
        stored: u64,
    ) -> Result<(), ReadError> {
        let Member { header, pax, .. } = member;
        let map = sparse::map(&mut self.input, &header, &pax, stored)?;
        let (size, extents, rest) = match map {
            Some(map) => (map.size, map.extents, map.stored),
            None => (stored, vec![Extent { offset: 0, len: stored }], stored),
        };
        let sum: u64 = extents.iter().map(|extent| extent.len).sum();
        if sum > rest {
            let why =
                format!("{}: its map has {sum} bytes, but the archive has {rest}", escape(&path));
            return Err(ReadError::Archive(why));
        }
        let whole = extents.len() == 1 && extents[0].len == size;
        let entry = Entry { path, kind: EntryKind::File(size), meta, identity: None };
        let Some(entry) = self.emitter.offer(entry)? else {
            return Ok(self.input.skip(rest.saturating_add(padding(stored)))?);
        };
        if self.with_data && whole && size <= SMALL_FILE {
            self.input.read_exact(self.emitter.buffer(size as usize))?;
            self.emitter.small_file(entry, size as usize)?;
            return Ok(self.input.skip(padding(stored))?);
        }
        self.emitter.open(entry)?;
        for Extent { offset, len } in extents {
            self.extent(offset, len)?;
        }
        self.emitter.send(Event::End)?;
        Ok(self.input.skip((rest - sum).saturating_add(padding(stored)))?)
    }

    fn extent(&mut self, offset: u64, len: u64) -> Result<(), ReadError> {
        if len == 0 {
            return Ok(());
        }
        if !self.with_data {
            self.emitter.send(Event::Extent(offset, offset.saturating_add(len)))?;
            return Ok(self.input.skip(len)?);
        }
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let piece = (len - done).min(READ_SIZE as u64 - at % READ_SIZE as u64);
            if let Err(error) = self.input.read_exact(self.emitter.buffer(piece as usize)) {
                self.emitter.send(Event::Abort)?;
                return Err(error.into());
            }
            self.emitter.data(at, piece as usize)?;
            done += piece;
        }
        Ok(())
    }
}

impl Member {
    fn name(&self) -> Vec<u8> {
        let extended = self.pax.sparse.name.as_ref().or(self.pax.path.as_ref());
        extended.or(self.long_name.as_ref()).cloned().unwrap_or_else(|| self.header.path())
    }

    fn link_name(&self) -> Vec<u8> {
        let extended = self.pax.linkpath.as_ref().or(self.long_link.as_ref());
        extended.cloned().unwrap_or_else(|| self.header.link.clone())
    }

    /// Attributes of the file.
    fn meta(&self) -> EntryMeta {
        let (header, pax) = (&self.header, &self.pax);
        let mtime = pax.mtime.unwrap_or(Timespec { secs: header.mtime, nsec: 0 });
        let mut meta = EntryMeta {
            perm: header.mode & 0o7777,
            uid: pax.uid.unwrap_or(header.uid),
            gid: pax.gid.unwrap_or(header.gid),
            atime: pax.atime.unwrap_or(mtime),
            mtime,
            birthtime: pax.birthtime.unwrap_or(mtime),
            flags: pax.flags,
            acls: pax.acls.clone(),
            ..EntryMeta::default()
        };
        for ((namespace, name), value) in &pax.xattrs {
            let attr = Xattr { namespace: *namespace, name: name.clone(), value: value.clone() };
            meta.add_xattr(attr);
        }
        meta.sort_xattrs();
        meta.acls.access = meta.acls.access.filter(PosixAcl::exceeds_mode);
        meta
    }
}

/// Whether this is a directory in an archive older than ustar, which marks it only by a slash.
fn is_old_directory(header: &Header, name: &[u8]) -> bool {
    matches!(header.kind, b'0' | 0) && name.ends_with(b"/")
}

/// Zeros after `size` bytes of data.
fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

fn until_nul(mut text: Vec<u8>) -> Vec<u8> {
    if let Some(end) = text.iter().position(|&byte| byte == 0) {
        text.truncate(end);
    }
    text
}

/// A member's path as a relative one; `None` if it has `..` or NUL in it.
#[must_use]
pub fn member_path(path: &[u8]) -> Option<Vec<u8>> {
    normal(path)
}

fn normal(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    for name in components(path) {
        if name == b".." || name.contains(&0) {
            return None;
        }
        if !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(name);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_members_stay_inside_the_tree() {
        assert_eq!(normal(b"./a//b/").as_deref(), Some(&b"a/b"[..]));
        assert_eq!(normal(b"/etc/rc").as_deref(), Some(&b"etc/rc"[..]));
        assert_eq!(normal(b"./").as_deref(), Some(&b""[..]));
        assert_eq!(normal(b"a/../../b"), None);
        assert_eq!(normal(b"a\0b"), None);
    }

    #[test]
    fn data_is_padded_to_blocks() {
        assert_eq!([padding(0), padding(1), padding(511), padding(512)], [0, 511, 1, 0]);
        assert_eq!(padding(u64::MAX), 1);
    }
}
