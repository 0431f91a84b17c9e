//! An open stream: its maps, its directories, and the names to restore.
//!
//! # Invariants
//! 1. [`Restore::open`] reads the stream up to the first file that is not a directory; directories
//!    come first in every dump.
//! 2. A name is in the tree if its inode is in the map of dumped inodes.

use std::collections::BTreeMap;

use ffs_core::FileType;
use ffs_ondisk::dinode::MAXDIRSIZE;
use ffs_ondisk::dir::DirFormat;

use super::attributes::{add_area, add_ext2, meta};
use super::contents::{Contents, MAX_ATTRIBUTES, Part, linux_attributes};
use super::error::StreamError;
use super::inomap::InodeMap;
use super::source::StreamSource;
use super::spcl::{Header, RecordKind};
use super::tape::{Tape, is_linux_attributes};
use super::tree::{Entries, Tree, parse_directory};
use crate::copy::EntryMeta;
use crate::tar::Input;
use crate::text::escape;

/// How to read a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// The number of the dump in a file with several, from 1.
    pub number: u32,
    /// Continue after damaged records.
    pub skip_damage: bool,
}

/// A name in a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedName {
    /// Inode.
    pub ino: u32,
    /// Whether it is a directory.
    pub directory: bool,
    /// Path relative to the root of the dump; empty for the root.
    pub path: Vec<u8>,
}

/// An open dump.
pub struct Restore {
    pub(super) tape: Tape,
    pub(super) name: String,
    /// Inodes in use when the dump was made.
    pub(super) used: InodeMap,
    /// Inodes in the dump.
    pub(super) dumped: InodeMap,
    pub(super) dirs: BTreeMap<u32, Entries>,
    pub(super) metas: BTreeMap<u32, EntryMeta>,
    tree: Tree,
    selected: Vec<bool>,
    /// Problems of the stream up to here.
    notes: Vec<String>,
}

impl Restore {
    /// Opens the dump `input`, which has `name` in messages.
    ///
    /// # Errors
    /// It is not a dump, is damaged, or has a format that is not supported.
    pub fn open(
        input: Input,
        name: impl Into<String>,
        options: RestoreOptions,
    ) -> Result<Restore, StreamError> {
        let mut tape = Tape::open(input, options.number, options.skip_damage)?;
        let used = read_map(&mut tape, RecordKind::Clri, "used inodes")?;
        let dumped = read_map(&mut tape, RecordKind::Bits, "dumped inodes")?;
        let mut reader =
            DirectoryReader { tape, dirs: BTreeMap::new(), metas: BTreeMap::new(), notes: vec![] };
        reader.read()?;
        let DirectoryReader { tape, dirs, metas, mut notes } = reader;
        let (tree, problems) = Tree::build(&dirs, |ino| dumped.contains(ino));
        notes.extend(problems.iter().map(|(path, why)| format!("{}: {why}", escape(path))));
        let selected = vec![true; tree.nodes.len()];
        let name = name.into();
        Ok(Restore { tape, name, used, dumped, dirs, metas, tree, selected, notes })
    }

    /// The first header: dates, level, and where the dump is from.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.tape.first
    }

    /// The inodes that were in use when the dump was made.
    #[must_use]
    pub fn used_inodes(&self) -> &InodeMap {
        &self.used
    }

    /// Problems that were found, since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.notes.extend(self.tape.take_notes());
        std::mem::take(&mut self.notes)
    }

    /// Restores only the files with these paths and, if `recursive`, all below them. Returns the
    /// paths that are not in the dump.
    pub fn select(&mut self, paths: &[Vec<u8>], recursive: bool) -> Vec<Vec<u8>> {
        let (selected, missing) = self.tree.select(paths, recursive);
        self.selected = selected;
        missing
    }

    /// The selected names, directories before their entries.
    pub fn names(&self) -> impl Iterator<Item = ListedName> {
        let nodes = self.tree.nodes.iter().zip(0..).zip(&self.selected);
        nodes.filter(|(_, selected)| **selected).map(|((node, n), _)| ListedName {
            ino: node.ino,
            directory: node.directory,
            path: self.tree.path(n),
        })
    }

    /// The directories above selected names that are not selected themselves, from the top down.
    #[must_use]
    pub fn parents(&self) -> Vec<Vec<u8>> {
        let mut needed = vec![false; self.selected.len()];
        for n in (1..self.selected.len()).rev() {
            if self.selected[n] || needed[n] {
                needed[self.tree.nodes[n].parent as usize] = true;
            }
        }
        let parents = (1..self.selected.len()).filter(|&n| needed[n] && !self.selected[n]);
        parents.map(|n| self.tree.path(n as u32)).collect()
    }

    /// The selected files as a source. With `by_inode` each file has its inode number as its only
    /// name, and directories are left out.
    #[must_use]
    pub fn source(self, by_inode: bool) -> StreamSource {
        let Restore { tape, name, metas, tree, selected, notes, .. } = self;
        StreamSource { tape, name, metas, tree, selected, by_inode, notes }
    }

    /// The files of `tree` that are in the dump as a source.
    pub(super) fn source_of(self, tree: Tree) -> StreamSource {
        let Restore { tape, name, metas, dumped, notes, .. } = self;
        let selected = tree.nodes.iter().map(|node| dumped.contains(node.ino)).collect();
        StreamSource { tape, name, metas, tree, selected, by_inode: false, notes }
    }
}

fn read_map(tape: &mut Tape, kind: RecordKind, what: &str) -> Result<InodeMap, StreamError> {
    let header = tape.next_header()?;
    if header.kind != kind {
        let why = format!("the map of {what} is missing");
        return Err(StreamError::fatal(tape.position().saturating_sub(1), why));
    }
    tape.map(&header)
}

/// Reads the directories at the start of a stream.
struct DirectoryReader {
    tape: Tape,
    dirs: BTreeMap<u32, Entries>,
    metas: BTreeMap<u32, EntryMeta>,
    notes: Vec<String>,
}

impl DirectoryReader {
    fn read(&mut self) -> Result<(), StreamError> {
        let mut last = None;
        loop {
            let header = self.tape.next_header()?;
            let kind = FileType::of_mode(header.mode);
            match header.kind {
                RecordKind::Inode if is_linux_attributes(&header) => {
                    self.attributes(&header, last)?;
                }
                RecordKind::Inode if kind == Some(FileType::Directory) => {
                    last = Some(header.inumber);
                    match self.directory(&header) {
                        Err(error) if !error.is_fatal() => self.notes.push(error.to_string()),
                        other => other?,
                    }
                }
                RecordKind::Inode | RecordKind::End => {
                    self.tape.push_back(header);
                    return Ok(());
                }
                RecordKind::Tape => {
                    let why = "the dump continues on another volume, which is not supported";
                    return Err(StreamError::fatal(self.tape.position().saturating_sub(1), why));
                }
                RecordKind::Addr | RecordKind::Bits | RecordKind::Clri => {
                    self.tape.skip_data(&header)?;
                }
            }
        }
    }

    fn directory(&mut self, header: &Header) -> Result<(), StreamError> {
        let ino = header.inumber;
        let mut contents = Contents::new(&self.tape, header, header.size)?;
        let limit = MAXDIRSIZE as usize;
        let bytes = contents.read_part(&mut self.tape, Part::Data, limit)?;
        let area = contents.read_part(&mut self.tape, Part::Attributes, MAX_ATTRIBUTES)?;
        contents.skip(&mut self.tape)?;
        let mut attributes = meta(header, self.tape.linux);
        let endian = self.tape.endian;
        if let Some(mut area) = area {
            area.truncate(header.extsize as usize);
            if let Err(why) = add_area(endian, &area, &mut attributes) {
                self.notes.push(format!("inode {ino}: {why}"));
            }
        }
        self.metas.insert(ino, attributes);
        let mut bytes = bytes.unwrap_or_default();
        bytes.truncate(usize::try_from(header.size).unwrap_or(usize::MAX));
        let format = DirFormat { endian, old: self.tape.first.old_inodes() };
        let (entries, malformed) = parse_directory(format, &bytes);
        if malformed > 0 {
            self.notes.push(format!("inode {ino}: {malformed} malformed directory entries"));
        }
        self.dirs.insert(ino, entries);
        Ok(())
    }

    /// Adds what Linux's dump writes after a directory with extended attributes.
    fn attributes(&mut self, header: &Header, last: Option<u32>) -> Result<(), StreamError> {
        let bytes = linux_attributes(&mut self.tape, header)?;
        let ino = header.inumber;
        let Some(attributes) = self.metas.get_mut(&ino).filter(|_| last == Some(ino)) else {
            return Ok(());
        };
        if let Err(why) = add_ext2(self.tape.endian, &bytes, attributes) {
            self.notes.push(format!("inode {ino}: {why}"));
        }
        Ok(())
    }
}
