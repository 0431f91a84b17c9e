//! Writing one inode (`spec/on-disk-format.md` §24.5; BSD's `dumpino`).
//!
//! # Invariants
//! 1. The data that follows a header has the records that its `c_addr` announces, also if the
//!    image cannot be read there: these bytes are zero, and a problem is reported.
//! 2. Directory entries, extended attributes and ACLs are little-endian in the stream, for every
//!    byte order of the volume.

use ffs_core::{Attr, Cred, Error, Ffs, FileFlags, FileType, Ino, Vnode, XattrNamespace};
use ffs_ondisk::dir::{DirFormat, MAXNAMLEN, Record, clear_chunk, dirsiz, write};
use ffs_ondisk::extattr::{self, Namespace};
use ffs_ondisk::geometry::{DIRBLKSIZ, NDADDR};
use ffs_ondisk::{Endian, acl};

use super::TP_BSIZE;
use super::error::DumpError;
use super::observer::DumpObserver;
use super::output::{Output, WINDOW};
use super::spcl::{Header, RecordKind, TP_NINDIR};

/// The encoding of directory entries in a stream.
pub(super) const DIRECTORIES: DirFormat = DirFormat { endian: Endian::Little, old: false };

/// Writes inodes.
pub(super) struct Dumper<'a> {
    pub(super) ffs: &'a Ffs,
    pub(super) cred: Cred,
    pub(super) output: Output<'a>,
    pub(super) observer: &'a mut dyn DumpObserver,
    /// Expected records of the stream.
    pub(super) estimate: u64,
    /// Inodes that are not complete in the stream.
    pub(super) problems: u64,
    /// Data of one header.
    pub(super) buf: Vec<u8>,
}

/// The data of a file.
enum Content<'v> {
    Bytes(Vec<u8>),
    File(&'v Vnode),
}

/// Reads a regular file, and finds its holes.
struct FileReader<'a, 'v> {
    ffs: &'a Ffs,
    file: &'v Vnode,
    size: u64,
    /// The next range with data, bytes; empty at the end of the file.
    extent: (u64, u64),
    /// The first error.
    error: Option<Error>,
}

impl FileReader<'_, '_> {
    /// Whether `at..end` has data. Positions increase.
    fn has_data(&mut self, at: u64, end: u64) -> bool {
        while self.extent.1 <= at && self.extent.0 < self.size {
            self.extent = match self.next_data(at) {
                Ok(range) => range,
                Err(error) => {
                    self.error.get_or_insert(error);
                    (self.size, self.size)
                }
            };
        }
        self.extent.0 < end && at < self.extent.1
    }

    fn next_data(&self, at: u64) -> Result<(u64, u64), Error> {
        let start = match self.ffs.seek_data(self.file, at) {
            Ok(start) => start,
            Err(Error::NoData) => return Ok((self.size, self.size)),
            Err(error) => return Err(error),
        };
        let end = self.ffs.seek_hole(self.file, start)?;
        Ok((start, end.max(start + 1)))
    }

    /// Fills `buf` from `at` on; bytes that cannot be read are zero.
    fn read(&mut self, at: u64, buf: &mut [u8]) {
        buf.fill(0);
        let len = buf.len().min(usize::try_from(self.size - at).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < len {
            match self.ffs.read(self.file, at + done as u64, &mut buf[done..len]) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(error) => {
                    self.error.get_or_insert(error);
                    // The rest may be readable: continue with the next record.
                    done = (done + 1).next_multiple_of(TP_BSIZE);
                }
            }
        }
    }
}

impl Dumper<'_> {
    /// Reports an inode that is not complete in the stream.
    pub(super) fn problem(&mut self, ino: u32, why: impl std::fmt::Display) {
        self.problems += 1;
        self.observer.problem(&format!("inode {ino}: {why}"));
    }

    /// Writes inode `ino`.
    pub(super) fn dumpino(&mut self, ino: u32) -> Result<(), DumpError> {
        if self.observer.is_cancelled() {
            return Err(DumpError::Cancelled);
        }
        self.observer.progress(self.output.records(), self.estimate);
        let file = match self.ffs.vget(Ino(ino), None) {
            Ok(file) => file,
            Err(error) => {
                self.problem(ino, format!("not dumped: {error}"));
                return Ok(());
            }
        };
        let attr = self.ffs.getattr(&file);
        let mut header = inode_header(self.output.base(RecordKind::Inode, ino), &attr);
        let snapshot = attr.flags.contains(FileFlags::SF_SNAPSHOT);
        let content = match attr.kind {
            FileType::Directory => Content::Bytes(self.directory(&file, ino)),
            FileType::Symlink => match self.ffs.readlink(&file) {
                Ok(text) => Content::Bytes(text),
                Err(error) => {
                    self.problem(ino, format!("not dumped: {error}"));
                    return Ok(());
                }
            },
            FileType::Regular if !snapshot => Content::File(&file),
            _ => Content::Bytes(Vec::new()),
        };
        header.size = match &content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_) => attr.size,
        };
        let area = self.attributes(&file, ino);
        header.extsize = area.len() as u32;
        self.content(header, &content, &area)
    }

    /// Writes the headers and the data of an inode (BSD's `blksout` and `writeextdata`).
    fn content(
        &mut self,
        mut header: Header,
        content: &Content<'_>,
        area: &[u8],
    ) -> Result<(), DumpError> {
        let total = header.size.div_ceil(TP_BSIZE as u64);
        let ext = area.len().div_ceil(TP_BSIZE);
        let (mut done, mut area_written) = (0, ext == 0);
        let mut reader = match content {
            Content::Bytes(_) => None,
            Content::File(file) => {
                let (ffs, size) = (self.ffs, header.size);
                Some(FileReader { ffs, file, size, extent: (0, 0), error: None })
            }
        };
        // BSD writes the direct blocks apart from those of the indirect blocks.
        let direct = NDADDR as u64 * u64::from(self.ffs.geometry().bsize) / TP_BSIZE as u64;
        loop {
            let end = if done < direct { total.min(direct) } else { total };
            let count = (end - done).min(WINDOW) as usize;
            header.addr = [0; TP_NINDIR];
            for (n, present) in header.addr[..count].iter_mut().enumerate() {
                let at = (done + n as u64) * TP_BSIZE as u64;
                let end = at + TP_BSIZE as u64;
                *present = u8::from(reader.as_mut().is_none_or(|file| file.has_data(at, end)));
            }
            // The attributes follow the data if the last header has space for them.
            let last = done + count as u64 == total;
            let appended = last && !area_written && count + ext <= TP_NINDIR;
            header.count = count as i32;
            if appended {
                header.addr[count..count + ext].fill(1);
                header.count += ext as i32;
            }
            self.output.header(&mut header)?;
            self.window(&header.addr[..count], done, content, reader.as_mut())?;
            header.kind = RecordKind::Addr;
            done += count as u64;
            if appended {
                self.output.padded(area)?;
                area_written = true;
            }
            if last {
                break;
            }
            self.observer.progress(self.output.records(), self.estimate);
            if self.observer.is_cancelled() {
                return Err(DumpError::Cancelled);
            }
        }
        if !area_written {
            self.area_alone(&mut header, area)?;
        }
        if let Some(error) = reader.and_then(|reader| reader.error) {
            self.problem(header.inumber, format!("zeros in place of data: {error}"));
        }
        Ok(())
    }

    /// Writes the records that `addr` announces, from record `first` of the file on.
    fn window(
        &mut self,
        addr: &[u8],
        first: u64,
        content: &Content<'_>,
        reader: Option<&mut FileReader<'_, '_>>,
    ) -> Result<(), DumpError> {
        let Some(reader) = reader else {
            let Content::Bytes(bytes) = content else { return Ok(()) };
            let start = (first as usize * TP_BSIZE).min(bytes.len());
            let end = (start + addr.len() * TP_BSIZE).min(bytes.len());
            return self.output.padded(&bytes[start..end]);
        };
        let mut n = 0;
        while n < addr.len() {
            let run = addr[n..].iter().take_while(|present| **present == addr[n]).count();
            if addr[n] != 0 {
                let mut buf = std::mem::take(&mut self.buf);
                buf.resize(run * TP_BSIZE, 0);
                reader.read((first + n as u64) * TP_BSIZE as u64, &mut buf);
                let written = self.output.write(&buf);
                self.buf = buf;
                written?;
            }
            n += run;
        }
        Ok(())
    }

    /// Writes extended attributes for which the last header of the data had no space.
    fn area_alone(&mut self, header: &mut Header, area: &[u8]) -> Result<(), DumpError> {
        for piece in area.chunks(TP_NINDIR * TP_BSIZE) {
            let count = piece.len().div_ceil(TP_BSIZE);
            header.addr = [0; TP_NINDIR];
            header.addr[..count].fill(1);
            header.count = count as i32;
            self.output.header(header)?;
            self.output.padded(piece)?;
        }
        Ok(())
    }

    /// The content of a directory.
    fn directory(&mut self, dir: &Vnode, ino: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut entries = DirectoryWriter { bytes: &mut bytes, last: None };
        let read = self.ffs.readdir(dir, 0, &mut |entry| {
            let dtype = entry.kind.map_or(0, FileType::dirent);
            entries.add(entry.ino.0, dtype, entry.name);
            true
        });
        if let Err(error) = read {
            self.problem(
                ino,
                format!("the dump does not have all names of the directory: {error}"),
            );
        }
        bytes
    }

    /// The extended attributes of a file as an area of UFS2.
    fn attributes(&mut self, file: &Vnode, ino: u32) -> Vec<u8> {
        let names = match self.ffs.listxattr(&self.cred, file) {
            Ok(names) => names,
            Err(Error::NotSupported(_)) => return Vec::new(),
            Err(error) => {
                self.problem(ino, format!("without its extended attributes: {error}"));
                return Vec::new();
            }
        };
        let mut area = Vec::new();
        for (namespace, name) in names {
            let value = match self.ffs.getxattr(&self.cred, file, namespace, &name) {
                Ok(value) => value,
                Err(error) => {
                    self.problem(ino, format!("without an extended attribute: {error}"));
                    continue;
                }
            };
            let value = little_endian(self.ffs, namespace, &name, value);
            let namespace = match namespace {
                XattrNamespace::User => Namespace::User,
                XattrNamespace::System => Namespace::System,
            };
            let limit = usize::MAX;
            match extattr::set(Endian::Little, &area, namespace, &name, &value, limit) {
                Ok(longer) => area = longer,
                Err(error) => self.problem(ino, format!("without an extended attribute: {error}")),
            }
        }
        area
    }
}

/// The value of an attribute with its numbers in little-endian byte order.
fn little_endian(ffs: &Ffs, namespace: XattrNamespace, name: &[u8], value: Vec<u8>) -> Vec<u8> {
    let endian = ffs.geometry().endian;
    if namespace != XattrNamespace::System || endian == Endian::Little {
        return value;
    }
    let swapped = match name {
        acl::ACCESS_NAME | acl::DEFAULT_NAME => acl::decode(endian, &value)
            .ok()
            .and_then(|entries| acl::encode(Endian::Little, &entries)),
        acl::NFS4_NAME => acl::nfs4_swapped(endian, Endian::Little, &value),
        _ => None,
    };
    swapped.unwrap_or(value)
}

/// `base` with the attributes of a file.
fn inode_header(base: Header, attr: &Attr) -> Header {
    Header {
        mode: attr.kind.mode_bits() | attr.perm,
        atime: attr.atime,
        mtime: attr.mtime,
        birthtime: attr.birthtime,
        // The field has 32 bits, as that of UFS1.
        rdev: attr.rdev as u32,
        file_flags: attr.flags.difference(FileFlags::SF_SNAPSHOT).bits(),
        uid: attr.uid,
        gid: attr.gid,
        ..base
    }
}

/// Builds a directory of chunks of `DIRBLKSIZ` bytes.
struct DirectoryWriter<'b> {
    bytes: &'b mut Vec<u8>,
    /// Byte offset in the last chunk, and length, of its last record.
    last: Option<(usize, usize)>,
}

impl DirectoryWriter<'_> {
    fn add(&mut self, ino: u32, dtype: u8, name: &[u8]) {
        if name.is_empty() || name.len() > MAXNAMLEN {
            return;
        }
        let need = dirsiz(name.len());
        let fits = self.last.is_some_and(|(off, used)| off + used + need <= DIRBLKSIZ);
        if !fits {
            let start = self.bytes.len();
            self.bytes.resize(start + DIRBLKSIZ, 0);
            clear_chunk(DIRECTORIES, &mut self.bytes[start..]);
            self.last = None;
        }
        let start = self.bytes.len() - DIRBLKSIZ;
        let chunk = &mut self.bytes[start..];
        let off = self.last.map_or(0, |(off, used)| off + used);
        if let Some((before, used)) = self.last {
            ffs_ondisk::dir::set_reclen(DIRECTORIES, chunk, before, used);
        }
        // The last record takes the rest of the chunk.
        write(DIRECTORIES, chunk, &Record { off, ino, reclen: DIRBLKSIZ - off, dtype, name });
        self.last = Some((off, need));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use ffs_ondisk::dir::records;

    #[test]
    fn directories_have_whole_chunks_with_every_name() {
        let mut bytes = Vec::new();
        let mut writer = DirectoryWriter { bytes: &mut bytes, last: None };
        let names: Vec<Vec<u8>> = (1..=255).map(|len| vec![b'n'; len]).collect();
        for (n, name) in names.iter().enumerate() {
            writer.add(n as u32 + 3, 8, name);
        }
        assert_eq!(bytes.len() % DIRBLKSIZ, 0);
        let mut read = Vec::new();
        for chunk in bytes.chunks(DIRBLKSIZ) {
            for record in records(DIRECTORIES, chunk) {
                let record = record.unwrap();
                assert_eq!(record.ino as usize, read.len() + 3);
                read.push(record.name.to_vec());
            }
        }
        assert_eq!(read, names);
    }
}
