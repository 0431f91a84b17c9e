//! The files of a stream as a source.
//!
//! # Invariants
//! 1. Directories are sent first, in the order of their paths, and then the other files in the
//!    order of the stream, each with its first name and then its hard links.
//! 2. Extended attributes follow the data of a file in the stream: they are sent with
//!    [`Event::Attributes`] before the end of the file.
//! 3. Memory holds one path of a file at a time.
//! 4. A file that is damaged in the stream is reported and not restored; the files after it are, if
//!    their headers can be found.

use std::collections::BTreeMap;

use ffs_core::{DeviceNumber, FileType};

use super::TP_BSIZE;
use super::attributes::{add_area, add_ext2, meta};
use super::contents::{Contents, MAX_ATTRIBUTES, Part, linux_attributes};
use super::error::StreamError;
use super::spcl::{DR_METAONLY, Header, RecordKind};
use super::tape::{Tape, is_linux_attributes};
use super::tree::Tree;
use crate::copy::{
    CopyEnded, Emitter, Entry, EntryKind, EntryMeta, Event, READ_SIZE, SMALL_FILE, Source,
};

/// Longest text of a symbolic link, bytes.
const MAX_LINK: usize = 1 << 16;

/// The selected files of a dump.
pub struct StreamSource {
    pub(super) tape: Tape,
    pub(super) name: String,
    pub(super) metas: BTreeMap<u32, EntryMeta>,
    pub(super) tree: Tree,
    /// For each node of the tree, whether to send it.
    pub(super) selected: Vec<bool>,
    pub(super) by_inode: bool,
    pub(super) notes: Vec<String>,
}

/// Why sending ends early.
enum SendError {
    Ended(CopyEnded),
    Stream(StreamError),
}

impl From<CopyEnded> for SendError {
    fn from(ended: CopyEnded) -> SendError {
        SendError::Ended(ended)
    }
}

impl From<StreamError> for SendError {
    fn from(error: StreamError) -> SendError {
        SendError::Stream(error)
    }
}

/// The names of a file, the first one apart. The others are nodes: a stream can give one file very
/// many long paths with few bytes.
struct Names {
    first: Vec<u8>,
    links: Vec<u32>,
}

impl Source for StreamSource {
    fn send(mut self, emitter: &mut Emitter) -> Result<(), CopyEnded> {
        for note in std::mem::take(&mut self.notes) {
            emitter.failed(self.name.as_bytes(), note)?;
        }
        if !self.by_inode {
            self.directories(emitter)?;
        }
        match self.files(emitter) {
            Ok(()) => self.missing(emitter),
            Err(SendError::Ended(ended)) => Err(ended),
            Err(SendError::Stream(error)) => emitter.failed(self.name.as_bytes(), error),
        }
    }
}

impl StreamSource {
    fn directories(&mut self, emitter: &mut Emitter) -> Result<(), CopyEnded> {
        for n in 0..self.tree.nodes.len() {
            if !self.selected[n] || !self.tree.nodes[n].directory {
                continue;
            }
            let Some(meta) = self.metas.remove(&self.tree.nodes[n].ino) else { continue };
            let path = self.tree.path(n as u32);
            emitter.entry(Entry { path, kind: EntryKind::Directory, meta, identity: None })?;
        }
        Ok(())
    }

    /// Sends the files after the directories.
    fn files(&mut self, emitter: &mut Emitter) -> Result<(), SendError> {
        loop {
            let header = self.tape.next_header()?;
            for note in self.tape.take_notes() {
                emitter.failed(self.name.as_bytes(), note)?;
            }
            let directory = FileType::of_mode(header.mode) == Some(FileType::Directory);
            match header.kind {
                RecordKind::End => return Ok(self.tape.drain()?),
                RecordKind::Tape => {
                    let why = "the dump continues on another volume, which is not supported";
                    let record = self.tape.position().saturating_sub(1);
                    return Err(StreamError::fatal(record, why).into());
                }
                RecordKind::Inode if !directory && !is_linux_attributes(&header) => {
                    match self.take_names(header.inumber) {
                        Some(names) => self.inode(&header, names, emitter)?,
                        None => self.tape.skip_data(&header)?,
                    }
                }
                _ => self.tape.skip_data(&header)?,
            }
        }
    }

    /// The selected names of an inode, which are not selected any more; `None` if there are none.
    fn take_names(&mut self, ino: u32) -> Option<Names> {
        let mut names = Vec::new();
        for n in self.tree.nodes_of(ino) {
            if std::mem::take(&mut self.selected[n as usize]) {
                names.push(n);
            }
        }
        let (first, links) = names.split_first()?;
        if self.by_inode {
            return Some(Names { first: ino.to_string().into_bytes(), links: Vec::new() });
        }
        Some(Names { first: self.tree.path(*first), links: links.to_vec() })
    }

    fn inode(
        &mut self,
        header: &Header,
        names: Names,
        emitter: &mut Emitter,
    ) -> Result<(), SendError> {
        let sent = if header.flags & DR_METAONLY != 0 && !header.ufs2 {
            self.tape.skip_data(header)?;
            emitter.failed(&names.first, "the dump has only its attributes")?;
            false
        } else if FileType::of_mode(header.mode) == Some(FileType::Regular) {
            self.regular(header, &names, emitter)?
        } else {
            self.special(header, &names, emitter)?
        };
        if sent {
            let identity = Some(u64::from(header.inumber));
            for node in names.links {
                let path = self.tree.path(node);
                let kind = EntryKind::Link(names.first.clone());
                let meta = meta(header, self.tape.linux);
                emitter.entry(Entry { path, kind, meta, identity })?;
            }
        }
        Ok(())
    }

    /// Sends a file that is neither regular nor a directory; whether it was sent.
    fn special(
        &mut self,
        header: &Header,
        names: &Names,
        emitter: &mut Emitter,
    ) -> Result<bool, SendError> {
        let kind = FileType::of_mode(header.mode);
        let has_data = kind == Some(FileType::Symlink);
        let size = if has_data { header.size } else { 0 };
        let mut meta = meta(header, self.tape.linux);
        let read = self.special_contents(header, size, &mut meta);
        let (text, problem) = match read {
            Ok(read) => read,
            Err(error) if error.is_fatal() => return Err(error.into()),
            Err(error) => {
                emitter.failed(&names.first, error)?;
                return Ok(false);
            }
        };
        if let Some(why) = problem {
            emitter.failed(&names.first, why)?;
        }
        let device = || match self.tape.linux {
            true => DeviceNumber::from_linux(header.rdev.into()),
            false => DeviceNumber::from_disk(header.rdev.into()),
        };
        let kind = match kind {
            Some(FileType::Symlink) if text.is_empty() => {
                emitter.failed(&names.first, "a symbolic link without a target")?;
                return Ok(false);
            }
            Some(FileType::Symlink) => EntryKind::Symlink(text),
            Some(FileType::Fifo) => EntryKind::Fifo,
            Some(FileType::Socket) => EntryKind::Socket,
            Some(FileType::Char) => EntryKind::Char(device()),
            Some(FileType::Block) => EntryKind::Block(device()),
            _ => {
                let why = format!("the file has the unknown mode {:o}", header.mode);
                emitter.failed(&names.first, why)?;
                return Ok(false);
            }
        };
        let identity = (!names.links.is_empty()).then_some(u64::from(header.inumber));
        emitter.entry(Entry { path: names.first.clone(), kind, meta, identity })?;
        Ok(true)
    }

    /// Reads the target of a symbolic link and the extended attributes, which are added to `meta`.
    /// Returns what was wrong with the attributes, too.
    fn special_contents(
        &mut self,
        header: &Header,
        size: u64,
        meta: &mut EntryMeta,
    ) -> Result<(Vec<u8>, Option<String>), StreamError> {
        let mut contents = Contents::new(&self.tape, header, size)?;
        let text = contents.read_part(&mut self.tape, Part::Data, MAX_LINK)?;
        let mut text = text.unwrap_or_default();
        text.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        if let Some(end) = text.iter().position(|&byte| byte == 0) {
            text.truncate(end);
        }
        let problem = self.attributes(header, contents, meta)?;
        Ok((text, problem))
    }

    /// Reads the extended attributes after the data, and adds them to `meta`. Returns what was
    /// wrong with them.
    fn attributes(
        &mut self,
        header: &Header,
        mut contents: Contents,
        meta: &mut EntryMeta,
    ) -> Result<Option<String>, StreamError> {
        let area = contents.read_part(&mut self.tape, Part::Attributes, MAX_ATTRIBUTES)?;
        contents.skip(&mut self.tape)?;
        let mut problem = match area {
            Some(mut area) => {
                area.truncate(header.extsize as usize);
                add_area(self.tape.endian, &area, meta).err()
            }
            None => Some("its extended attributes are too long".to_owned()),
        };
        if header.ufs2 {
            return Ok(problem);
        }
        loop {
            let next = self.tape.next_header()?;
            if !is_linux_attributes(&next) || next.inumber != header.inumber {
                self.tape.push_back(next);
                return Ok(problem);
            }
            let bytes = linux_attributes(&mut self.tape, &next)?;
            problem = problem.or(add_ext2(self.tape.endian, &bytes, meta).err());
        }
    }

    /// Sends a regular file; whether it was sent.
    fn regular(
        &mut self,
        header: &Header,
        names: &Names,
        emitter: &mut Emitter,
    ) -> Result<bool, SendError> {
        let size = header.size;
        let path = names.first.clone();
        let mut meta = meta(header, self.tape.linux);
        let identity = (!names.links.is_empty()).then_some(u64::from(header.inumber));
        let mut entry = Entry { path, kind: EntryKind::File(size), meta: meta.clone(), identity };
        let mut contents = match Contents::new(&self.tape, header, size) {
            Ok(contents) => contents,
            Err(error) => {
                emitter.failed(&names.first, error)?;
                return Ok(false);
            }
        };
        if size <= SMALL_FILE && contents.is_whole() {
            let records = size.div_ceil(TP_BSIZE as u64) as usize;
            self.tape.read(emitter.buffer(records * TP_BSIZE))?;
            contents.data_done();
            let problem = self.attributes(header, contents, &mut entry.meta);
            // The data was complete, so the file is, too.
            emitter.small_file(entry, size as usize)?;
            return self.attribute_problem(problem, names, emitter).map(|()| true);
        }
        emitter.entry(entry)?;
        let sent = match self.data(size, &mut contents, emitter) {
            Ok(()) => self.attributes(header, contents, &mut meta).map_err(SendError::Stream),
            Err(error) => Err(error),
        };
        match sent {
            Ok(problem) => {
                if meta.has_extended() {
                    emitter.send(Event::Attributes(Box::new(meta)))?;
                }
                emitter.send(Event::End)?;
                self.attribute_problem(Ok(problem), names, emitter)?;
                Ok(true)
            }
            Err(SendError::Stream(error)) => {
                emitter.send(Event::Abort)?;
                if error.is_fatal() {
                    emitter.failed(&names.first, "not complete in the dump")?;
                    return Err(error.into());
                }
                emitter.failed(&names.first, error)?;
                Ok(false)
            }
            Err(ended) => Err(ended),
        }
    }

    fn attribute_problem(
        &mut self,
        problem: Result<Option<String>, StreamError>,
        names: &Names,
        emitter: &mut Emitter,
    ) -> Result<(), SendError> {
        match problem {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Ok(emitter.failed(&names.first, why)?),
            Err(error) if error.is_fatal() => Err(error.into()),
            Err(error) => Ok(emitter.failed(&names.first, error)?),
        }
    }

    /// Sends the data of the open file.
    fn data(
        &mut self,
        size: u64,
        contents: &mut Contents,
        emitter: &mut Emitter,
    ) -> Result<(), SendError> {
        let mut at = 0u64;
        while at < size {
            let Some(run) = contents.next(&mut self.tape)? else { break };
            let mut left = run.records;
            while left > 0 {
                let records = left.min((READ_SIZE / TP_BSIZE) as u64);
                let bytes = records * TP_BSIZE as u64;
                if run.present {
                    self.tape.read(emitter.buffer(bytes as usize))?;
                    emitter.data(at, bytes.min(size - at) as usize)?;
                }
                at = at.saturating_add(bytes);
                left -= records;
            }
        }
        Ok(())
    }

    /// Reports the selected names that the stream did not have.
    fn missing(&mut self, emitter: &mut Emitter) -> Result<(), CopyEnded> {
        for n in 0..self.selected.len() {
            if self.selected[n] && !self.tree.nodes[n].directory {
                let why = "its directory has the name, but the dump does not have the file";
                emitter.failed(&self.tree.path(n as u32), why)?;
            }
        }
        Ok(())
    }
}
