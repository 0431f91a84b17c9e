//! Inodes in memory by number.
//!
//! Numbers are given out in rows, so neighbours share a page of pointers: at millions of inodes finding one
//! touches a cache line or two where a table of single numbers would touch several.

use super::Inode;
use crate::namecache::{Handle, Links, Vnodes};
use crate::prefetch;
use ffs_ondisk::Ino;
use std::collections::HashMap;
use std::sync::Arc;

/// Inodes of a page: few enough that one alone wastes little.
const PAGE: u32 = 16;

type Page = [Option<Arc<Inode>>; PAGE as usize];

/// The inodes of a table.
#[derive(Default)]
pub(super) struct InodeMap {
    pages: HashMap<u32, Box<Page>, foldhash::fast::FixedState>,
    len: usize,
}

fn place(ino: Ino) -> (u32, usize) {
    (ino.0 / PAGE, (ino.0 % PAGE) as usize)
}

impl InodeMap {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, ino: Ino) -> Option<&Arc<Inode>> {
        let (page, at) = place(ino);
        self.pages.get(&page)?.get(at)?.as_ref()
    }

    /// Whether `ip` itself is here, and not another inode that has its number.
    pub(super) fn has(&self, ip: &Inode) -> bool {
        let here = ip.names.is_here();
        let found = || self.get(ip.ino).is_some_and(|there| std::ptr::eq(Arc::as_ptr(there), ip));
        debug_assert_eq!(here, found(), "inode {}", ip.ino.0);
        here
    }

    /// Takes an inode in, in place of one that had its number.
    pub(super) fn insert(&mut self, ip: Arc<Inode>) {
        let (page, at) = place(ip.ino);
        let page = self.pages.entry(page).or_default();
        let Some(slot) = page.get_mut(at) else { return };
        ip.names.set_here(true);
        match slot.replace(ip) {
            Some(before) => before.names.set_here(false),
            None => self.len += 1,
        }
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Option<Arc<Inode>> {
        let (number, at) = place(ino);
        let page = self.pages.get_mut(&number)?;
        let gone = page.get_mut(at)?.take()?;
        gone.names.set_here(false);
        self.len -= 1;
        if page.iter().all(Option::is_none) {
            self.pages.remove(&number);
        }
        Some(gone)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<Inode>> {
        self.pages.values().flat_map(|page| page.iter().flatten())
    }

    /// Memory in use besides the inodes themselves, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<(u32, Box<Page>)>() + self.pages.len() * size_of::<Page>()
    }
}

impl Vnodes for InodeMap {
    type Handle = Arc<Inode>;

    fn get(&self, ino: Ino) -> Option<&Arc<Inode>> {
        InodeMap::get(self, ino)
    }
}

impl Handle for Arc<Inode> {
    fn links(&self) -> &Links {
        &self.names
    }

    fn prefetch(&self) {
        prefetch::read_shared(self, super::OFTEN_USED);
    }
}
