//! The content of the simulated disk.
//!
//! # Invariants
//! 1. A page or chunk whose bytes are all equal takes no memory except its slot in a table.
//! 2. A clone is cheap and independent: clones share pages until one of them changes a page.

use std::sync::Arc;

const PAGE: usize = 4096;
const PAGE_BYTES: u64 = PAGE as u64;
/// Pages of a chunk.
const CHUNK: usize = 256;

#[derive(Debug, Clone)]
enum Page {
    Fill(u8),
    Bytes(Arc<[u8; PAGE]>),
}

#[derive(Debug, Clone)]
enum Chunk {
    Fill(u8),
    Pages(Arc<[Page; CHUNK]>),
}

/// The bytes of a disk.
#[derive(Debug, Clone)]
pub(crate) struct SparseStore {
    len: u64,
    chunks: Vec<Chunk>,
}

/// The byte that all `bytes` are equal to.
fn fill_of(bytes: &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    // Each byte equals the one after it.
    (bytes[..rest.len()] == *rest).then_some(first)
}

impl SparseStore {
    /// A store of zeros.
    pub(crate) fn new(len: u64) -> SparseStore {
        let chunks = len.div_ceil(PAGE_BYTES * CHUNK as u64);
        SparseStore {
            len,
            chunks: vec![Chunk::Fill(0); usize::try_from(chunks).unwrap_or(usize::MAX)],
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes of memory of the pages that are not uniform.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> u64 {
        let held = |chunk: &Chunk| match chunk {
            Chunk::Fill(_) => 0,
            Chunk::Pages(pages) => {
                pages.iter().filter(|page| matches!(page, Page::Bytes(_))).count() as u64
            }
        };
        self.chunks.iter().map(held).sum::<u64>() * PAGE_BYTES
    }

    /// Fills `out` from byte `offset`; the range is within the store.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let (chunk, page, skip) = place(offset + done as u64);
            let n = (PAGE - skip).min(out.len() - done);
            let to = &mut out[done..done + n];
            match &self.chunks[chunk] {
                Chunk::Fill(byte) => to.fill(*byte),
                Chunk::Pages(pages) => match &pages[page] {
                    Page::Fill(byte) => to.fill(*byte),
                    Page::Bytes(bytes) => to.copy_from_slice(&bytes[skip..skip + n]),
                },
            }
            done += n;
        }
    }

    /// Stores `bytes` at byte `offset`; the range is within the store.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (chunk, page, skip) = place(offset + done as u64);
            let n = (PAGE - skip).min(bytes.len() - done);
            self.write_page(chunk, page, skip, &bytes[done..done + n]);
            done += n;
        }
    }

    fn write_page(&mut self, chunk: usize, page: usize, skip: usize, bytes: &[u8]) {
        let fill = fill_of(bytes);
        let chunk = &mut self.chunks[chunk];
        let pages = match chunk {
            Chunk::Fill(old) if fill == Some(*old) => return,
            Chunk::Fill(old) => {
                let old = *old;
                *chunk = Chunk::Pages(Arc::new(std::array::from_fn(|_| Page::Fill(old))));
                match chunk {
                    Chunk::Pages(pages) => pages,
                    Chunk::Fill(_) => return,
                }
            }
            Chunk::Pages(pages) => pages,
        };
        // An equal write must not copy a shared table.
        if let (Page::Fill(old), Some(new)) = (&pages[page], fill)
            && *old == new
        {
            return;
        }
        let page = &mut Arc::make_mut(pages)[page];
        match (&mut *page, fill) {
            (_, Some(byte)) if bytes.len() == PAGE => *page = Page::Fill(byte),
            (Page::Fill(byte), _) => {
                let mut whole = [*byte; PAGE];
                whole[skip..skip + bytes.len()].copy_from_slice(bytes);
                *page = Page::Bytes(Arc::new(whole));
            }
            (Page::Bytes(whole), _) => {
                Arc::make_mut(whole)[skip..skip + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
}

/// The chunk, the page in it, and the byte in the page.
fn place(offset: u64) -> (usize, usize, usize) {
    let page = (offset / PAGE_BYTES) as usize;
    (page / CHUNK, page % CHUNK, (offset % PAGE_BYTES) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_clones_are_apart() {
        let mut one = SparseStore::new(8 << 20);
        one.write(5000, &[1, 2, 3]);
        one.write(1 << 20, &vec![7; 1 << 20]);
        let mut other = one.clone();
        other.write(5001, &[9]);
        one.write((1 << 20) + 4096, &vec![8; 4096]);
        let mut got = [0; 5];
        one.read(4999, &mut got);
        assert_eq!(got, [0, 1, 2, 3, 0]);
        other.read(4999, &mut got);
        assert_eq!(got, [0, 1, 9, 3, 0]);
        other.read((1 << 20) + 4094, &mut got);
        assert_eq!(got, [7; 5]);
        one.read((1 << 20) + 4094, &mut got);
        assert_eq!(got, [7, 7, 8, 8, 8]);
        assert_eq!(one.held_bytes(), 4096, "uniform pages take no memory");
        assert_eq!(one.len(), 8 << 20);
    }
}
