//! The blocks in memory of each file, so that they can be dropped with it.

use super::block::BlockTable;
use super::links::Links;
use super::{BufKey, BufKind};
use crate::openhash::{ItemId, NIL};
use ffs_ondisk::Ino;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// The blocks of one file.
#[derive(Clone, Copy)]
struct FileList {
    first: ItemId,
    len: u32,
    /// How many of them hold directory entries.
    directory_blocks: u32,
}

/// The lists of all files that have a block in memory.
#[derive(Default)]
pub(super) struct FileLists {
    lists: HashMap<Ino, FileList, FixedState>,
    /// Directories with a block in memory.
    directories: usize,
}

impl FileLists {
    /// Directories with a block in memory.
    pub(super) fn directories(&self) -> usize {
        self.directories
    }

    /// Whether a file has blocks in memory.
    pub(super) fn has_file(&self, ino: Ino) -> bool {
        self.lists.contains_key(&ino)
    }

    /// Blocks of a file in memory.
    pub(super) fn len(&self, ino: Ino) -> u32 {
        self.lists.get(&ino).map_or(0, |list| list.len)
    }

    /// Adds a block to the list of its file.
    pub(super) fn push(&mut self, blocks: &mut BlockTable, ino: Ino, id: ItemId) {
        let empty = FileList { first: NIL, len: 0, directory_blocks: 0 };
        let list = self.lists.entry(ino).or_insert(empty);
        let second = std::mem::replace(&mut list.first, id);
        list.len += 1;
        if blocks[id].kind == BufKind::Directory {
            list.directory_blocks += 1;
            self.directories += usize::from(list.directory_blocks == 1);
        }
        blocks[id].file_links.next = second;
        if let Some(block) = blocks.get_mut(second) {
            block.file_links.prev = id;
        }
    }

    /// Takes a block off the list of its file.
    pub(super) fn remove(&mut self, blocks: &mut BlockTable, ino: Ino, id: ItemId) {
        let Links { prev, next } = blocks[id].file_links;
        if let Some(block) = blocks.get_mut(next) {
            block.file_links.prev = prev;
        }
        if let Some(block) = blocks.get_mut(prev) {
            block.file_links.next = next;
        }
        let Some(list) = self.lists.get_mut(&ino) else {
            debug_assert!(false, "a block of a file without a list");
            return;
        };
        if prev == NIL {
            list.first = next;
        }
        list.len -= 1;
        if blocks[id].kind == BufKind::Directory {
            list.directory_blocks -= 1;
            self.directories -= usize::from(list.directory_blocks == 0);
        }
        if list.len == 0 {
            self.lists.remove(&ino);
        }
    }

    /// The blocks of a file whose logical numbers are in `range`.
    pub(super) fn in_range(
        &self,
        blocks: &BlockTable,
        ino: Ino,
        range: &RangeInclusive<i64>,
    ) -> Vec<ItemId> {
        let key = |id: &ItemId| blocks[*id].buf.as_ref().map(|buf| buf.key);
        let in_range =
            |id: &ItemId| matches!(key(id), Some(BufKey::File(_, lbn)) if range.contains(&lbn));
        self.of(blocks, ino).filter(in_range).collect()
    }

    fn of(&self, blocks: &BlockTable, ino: Ino) -> impl Iterator<Item = ItemId> {
        let block = |id: ItemId| (id != NIL).then_some(id);
        let first = self.lists.get(&ino).and_then(|list| block(list.first));
        std::iter::successors(first, move |id| block(blocks[*id].file_links.next))
    }

    /// The blocks on all lists, counted.
    #[cfg(test)]
    pub(super) fn recount(&self, blocks: &BlockTable) -> usize {
        self.lists.keys().map(|ino| self.of(blocks, *ino).count()).sum()
    }
}
