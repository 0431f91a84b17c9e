//! Tar archives, told file by file, from a stream that is read once and forward.
//!
//! **Purpose.** A source for [`crate::copy`]: ustar, GNU and pax headers, long names, large numbers,
//! nanosecond times, hard links, devices, sparse files in all four spellings, extended attributes
//! and file flags as bsdtar and GNU tar write them.
//!
//! **Invariants.**
//! 1. Nothing is held but one header with its extensions and one piece of data; sizes in headers
//!    allocate nothing.
//! 2. A member is never outside the tree: leading slashes and `.` fall away, `..` is refused.
//! 3. A damaged archive ends the telling with [`Event::Failed`]; what came before has been told.
//!
//! **References.** POSIX pax, "ustar Interchange Format"; the GNU tar manual, "Sparse Formats".

mod header;
mod input;
mod pax;
mod sparse;

use std::io::{self, Read};

use ffs_core::{DeviceNumber, Timespec};

use crate::copy::host_xattrs::sort_xattrs;
use crate::copy::{AccessList, CHUNK, Emit, Entry, Event, Kind, Meta, SMALL, Said, Xattr};
use crate::fail::show;
use crate::namei::components;

use header::{BLOCK, Header};
pub(crate) use input::Input;
use pax::Pax;
use sparse::Extent;

/// Most bytes of one extended header or long name.
const MAX_EXTENSION: u64 = 16 << 20;

/// Tells `archive`; without `data` only where data would lie.
pub(crate) fn walk(archive: Input, name: &str, data: bool, emit: &mut Emit) -> Said {
    let mut tar = Tar { input: archive, data, emit, global: Pax::default() };
    match tar.members() {
        Ok(()) => Ok(()),
        Err(End::Deaf(deaf)) => Err(deaf),
        Err(End::Bad(why)) => tar.emit.send(Event::Failed(format!("{name}: {why}"))),
    }
}

/// What ends the telling early.
enum End {
    Deaf(crate::copy::Deaf),
    /// The archive cannot be read further.
    Bad(String),
}

impl From<crate::copy::Deaf> for End {
    fn from(deaf: crate::copy::Deaf) -> End {
        End::Deaf(deaf)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Bad(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the archive ends in the middle".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl From<String> for End {
    fn from(why: String) -> End {
        End::Bad(why)
    }
}

struct Tar<'a> {
    input: Input,
    data: bool,
    emit: &'a mut Emit,
    /// What a global header said for all that follow.
    global: Pax,
}

/// A member with all that was said about it before its data.
struct Member {
    header: Header,
    pax: Pax,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl Tar<'_> {
    fn members(&mut self) -> Result<(), End> {
        let mut first = true;
        while let Some(member) = self.next_member(&mut first)? {
            self.member(member)?;
        }
        Ok(())
    }

    /// Reads headers up to one that stands for a file.
    fn next_member(&mut self, first: &mut bool) -> Result<Option<Member>, End> {
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

    fn next_header(&mut self, first: bool) -> Result<Option<Header>, End> {
        let mut zeros = 0;
        loop {
            let mut block = [0; BLOCK];
            match self.input.read_or_end(&mut block)? {
                0 if first && zeros == 0 => return Err("it is empty".to_owned().into()),
                0 => return Ok(None),
                BLOCK => {}
                _ => return Err("the archive ends in the middle".to_owned().into()),
            }
            if block.iter().all(|&byte| byte == 0) {
                zeros += 1;
                if zeros == 2 {
                    // Records are padded; a writer on a pipe must not be cut off.
                    self.input.drain();
                    return Ok(None);
                }
                continue;
            }
            return match Header::parse(&block) {
                Ok(header) => Ok(Some(header)),
                Err(_) if first && !Header::is_header(&block) => {
                    Err("it is not a tar archive".to_owned().into())
                }
                Err(why) => Err(End::Bad(why)),
            };
        }
    }

    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, End> {
        if header.size > MAX_EXTENSION {
            return Err(format!("an extended header of {} bytes", header.size).into());
        }
        let mut text = vec![0; header.size as usize];
        self.input.read_exact(&mut text)?;
        self.input.skip(padding(header.size))?;
        Ok(text)
    }

    fn member(&mut self, member: Member) -> Result<(), End> {
        let stored = member.pax.size.unwrap_or(member.header.size);
        let raw = member.name();
        let Some(path) = normal(&raw) else {
            self.emit.failed(&raw, "names a place outside the tree with '..'; left out")?;
            return Ok(self.input.skip(stored.saturating_add(padding(stored)))?);
        };
        let meta = member.meta();
        for loss in &member.pax.lost {
            self.emit.send(Event::Lost(*loss, path.clone()))?;
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
            b'0' | 0 | b'7' | b'5' | b'D' => Some(Kind::Directory),
            b'1' => link().map(Kind::Link),
            b'2' => Some(Kind::Symlink(member.link_name())),
            b'3' => Some(Kind::Char(device())),
            b'4' => Some(Kind::Block(device())),
            b'6' => Some(Kind::Fifo),
            // A volume's label is no file.
            b'V' => return Ok(self.input.skip(stored.saturating_add(padding(stored)))?),
            _ => None,
        };
        let Some(kind) = kind else {
            let why = match header.kind {
                b'1' => "links to a place outside the tree; left out".to_owned(),
                b'M' => "continues on another volume; left out".to_owned(),
                other => format!("type '{}' is unknown; left out", other.escape_ascii()),
            };
            self.emit.failed(&raw, why)?;
            return Ok(self.input.skip(stored.saturating_add(padding(stored)))?);
        };
        // Links may repeat the size of the file, which is not stored again (POSIX allows data for
        // them, and no writer in use stores any).
        let has_data = matches!(header.kind, b'5' | b'D' | b'0' | 0 | b'7');
        self.emit.entry(Entry { path, kind, meta, identity: None })?;
        if has_data {
            self.input.skip(stored.saturating_add(padding(stored)))?;
        }
        Ok(())
    }

    fn file(&mut self, member: Member, path: Vec<u8>, meta: Meta, stored: u64) -> Result<(), End> {
        let Member { header, pax, .. } = member;
        let map = sparse::map(&mut self.input, &header, &pax, stored)?;
        let (size, extents, rest) = match map {
            Some(map) => (map.size, map.extents, map.stored),
            None => (stored, vec![Extent { offset: 0, len: stored }], stored),
        };
        let sum: u64 = extents.iter().map(|extent| extent.len).sum();
        if sum > rest {
            let why = format!("{}: its map has {sum} bytes, the archive {rest}", show(&path));
            return Err(End::Bad(why));
        }
        let whole = extents.len() == 1 && extents[0].len == size;
        if self.data && whole && size <= SMALL {
            self.input.read_exact(self.emit.room(size as usize))?;
            let entry = Entry { path, kind: Kind::File(size), meta, identity: None };
            self.emit.whole(entry, size as usize)?;
            return Ok(self.input.skip(padding(stored))?);
        }
        let kind = Kind::File(size);
        self.emit.entry(Entry { path, kind, meta, identity: None })?;
        for Extent { offset, len } in extents {
            self.extent(offset, len)?;
        }
        self.emit.send(Event::End)?;
        Ok(self.input.skip((rest - sum).saturating_add(padding(stored)))?)
    }

    fn extent(&mut self, offset: u64, len: u64) -> Result<(), End> {
        if len == 0 {
            return Ok(());
        }
        if !self.data {
            self.emit.send(Event::Extent(offset, offset.saturating_add(len)))?;
            return Ok(self.input.skip(len)?);
        }
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let piece = (len - done).min(CHUNK as u64 - at % CHUNK as u64);
            if let Err(error) = self.input.read_exact(self.emit.room(piece as usize)) {
                self.emit.send(Event::Broken)?;
                return Err(error.into());
            }
            self.emit.data(at, piece as usize)?;
            done += piece;
        }
        Ok(())
    }
}

impl Member {
    fn name(&self) -> Vec<u8> {
        let said = self.pax.sparse.name.as_ref().or(self.pax.path.as_ref());
        said.or(self.long_name.as_ref()).cloned().unwrap_or_else(|| self.header.path())
    }

    fn link_name(&self) -> Vec<u8> {
        let said = self.pax.linkpath.as_ref().or(self.long_link.as_ref());
        said.cloned().unwrap_or_else(|| self.header.link.clone())
    }

    /// Everything about the file.
    fn meta(&self) -> Meta {
        let (header, pax) = (&self.header, &self.pax);
        let mtime = pax.mtime.unwrap_or(Timespec { secs: header.mtime, nsec: 0 });
        let mut meta = Meta {
            perm: header.mode & 0o7777,
            uid: pax.uid.unwrap_or(header.uid),
            gid: pax.gid.unwrap_or(header.gid),
            atime: pax.atime.unwrap_or(mtime),
            mtime,
            birthtime: pax.birthtime.unwrap_or(mtime),
            flags: pax.flags,
            lists: pax.lists.clone(),
            ..Meta::default()
        };
        for ((namespace, name), value) in &pax.xattrs {
            let attr = Xattr { namespace: *namespace, name: name.clone(), value: value.clone() };
            crate::copy::host_xattrs::add_xattr(&mut meta, attr);
        }
        sort_xattrs(&mut meta);
        meta.lists.access = meta.lists.access.filter(AccessList::says_more);
        meta
    }
}

/// Archives from before ustar mark a directory by a slash only.
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
    fn member_names_stay_inside() {
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
