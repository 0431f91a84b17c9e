//! Whether a qcow2 image ends before its content does.
//!
//! A driver reads zeros beyond the end of the file, so it would read zeros in place of the part
//! that a broken copy lacks. The reference counts show with few reads how far the clusters in use
//! reach. A killed program may leave counts of clusters that it did not write, which does no harm.
//! So only an entry of the image's tables proves that content is missing. A cluster is missing if
//! it begins beyond the end: the last one of a sound image may be shorter.
//!
//! **Invariants.**
//! 1. A sound image costs few reads, also a large one.
//! 2. The reads are bounded by the length of the file and [`MOST_BLOCKS`] blocks of counts. Tables
//!    that are larger than drivers accept are not read.
//!
//! **Reference.** QEMU, "Qcow2 Image File Format".

use std::collections::BTreeSet;

use ffs_device::BlockDevice;

use crate::bytes::be64;
use crate::image::Refused;

use super::tables::{OFFSET, PIECE, Tables};

/// The bit of an entry for a compressed cluster.
const COMPRESSED: u64 = 1 << 62;
/// The bit of an entry for a cluster of zeros.
const ZERO: u64 = 1;
/// The largest tables that drivers accept, bytes.
const MOST_L1: u64 = 32 << 20;
const MOST_COUNTS: u64 = 8 << 20;
/// Most blocks of counts that are searched for the last count.
const MOST_BLOCKS: usize = 16;

/// Checks the image whose header begins with `head`.
pub(super) fn check(file: &dyn BlockDevice, head: &[u8]) -> Result<(), Refused> {
    // If the sizes are wrong, the driver has a message for them.
    let Some(tables) = Tables::of(head) else { return Ok(()) };
    let Tables { bits, order, counts, counts_len, l1, l1_len, is_dirty } = tables;
    if l1_len > MOST_L1 || counts_len > MOST_COUNTS {
        return Ok(());
    }
    let image = Image { file, bits, order, end: file.len_bytes() };
    if !is_dirty && image.has_last_count(counts, counts_len)? {
        return Ok(());
    }
    let Some(at) = image.missing(l1, l1_len)? else { return Ok(()) };
    let salvage = match at == l1 {
        true => "",
        false => ", or let `qemu-img convert --salvage -O raw` put zeros for what is missing",
    };
    let end = image.end;
    Err(Refused::Damaged(format!(
        "it is truncated: it has content at byte {at}, and the file ends at byte {end}; copy it \
         again{salvage}"
    )))
}

struct Image<'a> {
    file: &'a dyn BlockDevice,
    /// A cluster has `1 << bits` bytes.
    bits: u32,
    /// A count has `1 << order` bits.
    order: u32,
    /// Bytes of the file.
    end: u64,
}

impl Image<'_> {
    fn is_within(&self, at: u64, len: u64) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.end)
    }

    /// Whether the last cluster with a count begins in the file.
    fn has_last_count(&self, table: u64, len: u64) -> Result<bool, Refused> {
        if !self.is_within(table, len) {
            return Ok(false);
        }
        let per_block = 1u64 << (self.bits + 3 - self.order);
        let (mut left, mut blocks) = (len, 0);
        while left > 0 {
            let take = left.min(PIECE);
            left -= take;
            let piece = self.read(table + left, take)?;
            for (n, entry) in piece.chunks_exact(8).enumerate().rev() {
                let block = be64(entry, 0) & OFFSET;
                if block == 0 {
                    continue;
                }
                blocks += 1;
                if blocks > MOST_BLOCKS || !self.is_within(block, 1 << self.bits) {
                    return Ok(false);
                }
                let counts = self.read(block, 1 << self.bits)?;
                if let Some(byte) = counts.iter().rposition(|&byte| byte != 0) {
                    // Counts of less than a byte begin at its lowest bits.
                    let bit = byte as u64 * 8 + u64::from(counts[byte].ilog2());
                    let in_block = bit >> self.order;
                    let first = (left / 8 + n as u64).checked_mul(per_block);
                    let cluster = first.and_then(|first| first.checked_add(in_block));
                    let at = cluster.and_then(|cluster| cluster.checked_mul(1 << self.bits));
                    return Ok(at.is_some_and(|at| at < self.end));
                }
            }
        }
        Ok(true)
    }

    /// A byte at which the tables have content, and at which the file has ended.
    fn missing(&self, l1: u64, len: u64) -> Result<Option<u64>, Refused> {
        if !self.is_within(l1, len) {
            return Ok(Some(l1));
        }
        let mut seen = BTreeSet::new();
        for done in (0..len).step_by(PIECE as usize) {
            let piece = self.read(l1 + done, PIECE.min(len - done))?;
            for entry in piece.chunks_exact(8) {
                let table = be64(entry, 0) & OFFSET;
                let is_aligned = table.is_multiple_of(1 << self.bits);
                if table == 0 || !is_aligned || !seen.insert(table) {
                    continue;
                }
                if !self.is_within(table, 1 << self.bits) {
                    return Ok(Some(table));
                }
                let entries = self.read(table, 1 << self.bits)?;
                let content = entries.chunks_exact(8).map(|entry| self.content(be64(entry, 0)));
                if let Some(at) = content.max().filter(|&at| at >= self.end) {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }

    /// The place of the content of an entry; 0 if it has none.
    fn content(&self, entry: u64) -> u64 {
        match (entry & COMPRESSED, entry & ZERO) {
            (0, 0) => entry & OFFSET,
            (0, _) => 0,
            _ => entry & ((1 << (70 - self.bits)) - 1),
        }
    }

    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, Refused> {
        let mut bytes = vec![0; len as usize];
        self.file.read_at(at, &mut bytes)?;
        Ok(bytes)
    }
}
