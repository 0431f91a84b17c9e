//! Inodes in memory by number.
//!
//! Numbers are given out in rows, so neighbours share a page of pointers, and pages a shelf: at millions of inodes
//! the shelves stay in the processor's cache, and finding an inode misses one line.

use super::Inode;
use crate::namecache::{NameLinks, VnodeRef, VnodeTable};
use crate::sparse_array::SparseArray;
use ffs_ondisk::Ino;
use std::sync::Arc;

/// Inodes of a page: so few that one alone wastes no more than it takes itself.
const PAGE: u32 = 64;
/// Pages of a shelf.
const SHELF: u32 = 512;

type Page = SparseArray<Arc<Inode>, { PAGE as usize }>;
type Shelf = SparseArray<Box<Page>, { SHELF as usize }>;

/// The inodes of a table.
#[derive(Default)]
pub(super) struct InodeMap {
    /// As many as the highest number needs: 1 MB if all 2^32 are possible.
    shelves: Vec<Option<Box<Shelf>>>,
    pages: usize,
    len: usize,
}

/// Number of the shelf, of the page on it, of the inode on that.
fn place(ino: Ino) -> (usize, usize, usize) {
    let page = ino.0 / PAGE;
    ((page / SHELF) as usize, (page % SHELF) as usize, (ino.0 % PAGE) as usize)
}

impl InodeMap {
    /// The page of an inode, if it is there, and the place on it.
    fn page(&self, ino: Ino) -> Option<(&Page, usize)> {
        let (shelf, page, at) = place(ino);
        Some((self.shelves.get(shelf)?.as_ref()?.get(page)?, at))
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, ino: Ino) -> Option<&Arc<Inode>> {
        let (page, at) = self.page(ino)?;
        page.get(at)
    }

    /// Whether `ip` itself is here, and not another inode that has its number.
    pub(super) fn has(&self, ip: &Inode) -> bool {
        let here = ip.names.is_resident();
        let found = || self.get(ip.ino).is_some_and(|there| std::ptr::eq(Arc::as_ptr(there), ip));
        debug_assert_eq!(here, found(), "inode {}", ip.ino.0);
        here
    }

    /// Takes an inode in, in place of one that had its number.
    pub(super) fn insert(&mut self, ip: Arc<Inode>) {
        let (shelf, page, at) = place(ip.ino);
        if self.shelves.len() <= shelf {
            self.shelves.resize_with(shelf + 1, || None);
        }
        let Some(shelf) = self.shelves.get_mut(shelf) else { return };
        let page = shelf.get_or_insert_default().get_or_insert_with(page, || {
            self.pages += 1;
            Box::default()
        });
        ip.names.set_resident(true);
        match page.insert(at, ip) {
            Some(before) => before.names.set_resident(false),
            None => self.len += 1,
        }
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Option<Arc<Inode>> {
        let (shelf, page, at) = place(ino);
        let place = self.shelves.get_mut(shelf)?;
        let shelf = place.as_mut()?;
        let row = shelf.get_mut(page)?;
        let gone = row.take(at)?;
        gone.names.set_resident(false);
        self.len -= 1;
        if row.is_empty() {
            shelf.take(page);
            self.pages -= 1;
            if shelf.is_empty() {
                *place = None;
            }
        }
        Some(gone)
    }

    /// An inode will be looked for or taken out.
    pub(super) fn prefetch(&self, ino: Ino) {
        if let Some((page, at)) = self.page(ino) {
            page.prefetch(at);
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<Inode>> {
        let pages = self.shelves.iter().flatten().flat_map(|shelf| shelf.iter());
        pages.flat_map(|page| page.iter())
    }

    /// Memory in use besides the inodes themselves, bytes.
    pub(super) fn bytes(&self) -> usize {
        let shelves = self.shelves.iter().flatten().count();
        self.shelves.capacity() * size_of::<Option<Box<Shelf>>>()
            + shelves * size_of::<Shelf>()
            + self.pages * size_of::<Page>()
    }
}

impl VnodeTable for InodeMap {
    type Ref = Arc<Inode>;

    fn get(&self, ino: Ino) -> Option<&Arc<Inode>> {
        InodeMap::get(self, ino)
    }
}

impl VnodeRef for Arc<Inode> {
    fn links(&self) -> &NameLinks {
        &self.names
    }

    fn prefetch(&self) {
        self.as_ref().prefetch();
    }
}
