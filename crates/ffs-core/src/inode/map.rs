//! Inodes in memory by number.
//!
//! Numbers are given out in rows, so neighbours share a page of pointers: at millions of inodes the table of
//! pages stays in the processor's cache, and finding an inode misses one line.

use super::Inode;
use crate::namecache::{Handle, Links, Vnodes};
use crate::prefetch;
use ffs_ondisk::Ino;
use std::collections::HashMap;
use std::sync::Arc;

/// Inodes of a page: so few that one alone wastes no more than it takes itself.
const PAGE: u32 = 64;

/// A row of inodes.
struct Page {
    inodes: [Option<Arc<Inode>>; PAGE as usize],
    len: u32,
}

impl Default for Page {
    fn default() -> Page {
        Page { inodes: [const { None }; PAGE as usize], len: 0 }
    }
}

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
        self.pages.get(&page)?.inodes.get(at)?.as_ref()
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
        let Some(slot) = page.inodes.get_mut(at) else { return };
        ip.names.set_here(true);
        match slot.replace(ip) {
            Some(before) => before.names.set_here(false),
            None => {
                page.len += 1;
                self.len += 1;
            }
        }
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Option<Arc<Inode>> {
        let (number, at) = place(ino);
        let page = self.pages.get_mut(&number)?;
        let gone = page.inodes.get_mut(at)?.take()?;
        gone.names.set_here(false);
        self.len -= 1;
        page.len -= 1;
        if page.len == 0 {
            self.pages.remove(&number);
        }
        Some(gone)
    }

    /// An inode will be looked for or taken out.
    pub(super) fn prefetch(&self, ino: Ino) {
        let (page, at) = place(ino);
        if let Some(slot) = self.pages.get(&page).and_then(|page| page.inodes.get(at)) {
            prefetch::line(slot);
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<Inode>> {
        self.pages.values().flat_map(|page| page.inodes.iter().flatten())
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
        self.as_ref().prefetch();
    }
}
