//! Whether the tables of a qcow2 image are marked as used.
//!
//! A driver that writes takes clusters whose reference count is 0. In an image that is truncated or
//! damaged these may be its header and tables, and a write would destroy them. So an image is
//! opened for writing only if all its tables have reference counts.
//!
//! **Reference.** QEMU, "Qcow2 Image File Format".

use ffs_device::BlockDevice;

use crate::bytes::be64;
use crate::image::Refused;

use super::tables::{OFFSET, PIECE, Tables};

struct Image<'a> {
    file: &'a dyn BlockDevice,
    tables: Tables,
}

/// Checks the image whose header begins with `head`.
pub(super) fn check(file: &dyn BlockDevice, head: &[u8]) -> Result<(), Refused> {
    let Some(tables) = Tables::of(head) else { return damaged() };
    let Tables { counts, counts_len, l1, l1_len, .. } = tables;
    if counts.checked_add(counts_len).is_none_or(|end| end > file.len_bytes()) {
        return damaged();
    }
    let image = Image { file, tables };
    image.marked(0, 1)?;
    image.marked(counts, counts_len)?;
    image.each_entry(counts, counts_len)?;
    image.marked(l1, l1_len)?;
    image.each_entry(l1, l1_len)
}

fn damaged<T>() -> Result<T, Refused> {
    let why = "its tables are not marked as used, so a write could destroy them; repair it with \
               `qemu-img check -r all`";
    Err(Refused::Damaged(why.to_owned()))
}

impl Image<'_> {
    /// Checks that the clusters of the range are in the file and have reference counts.
    fn marked(&self, at: u64, len: u64) -> Result<(), Refused> {
        let size = 1u64 << self.tables.bits;
        let end = at.checked_add(len);
        if !at.is_multiple_of(size) || end.is_none_or(|end| end > self.file.len_bytes()) {
            return damaged();
        }
        for cluster in at / size..(at + len).div_ceil(size) {
            if !self.is_counted(cluster)? {
                return damaged();
            }
        }
        Ok(())
    }

    /// Whether the reference count of a cluster is not 0.
    fn is_counted(&self, cluster: u64) -> Result<bool, Refused> {
        let per_block = self.tables.bits + 3 - self.tables.order;
        let entry = (cluster >> per_block) * 8;
        if entry >= self.tables.counts_len {
            return Ok(false);
        }
        let mut bytes = [0; 8];
        self.file.read_at(self.tables.counts + entry, &mut bytes)?;
        let block = be64(&bytes, 0) & OFFSET;
        let bit = (cluster & ((1 << per_block) - 1)) << self.tables.order;
        let len = (1usize << self.tables.order).div_ceil(8);
        if block == 0 || block + bit / 8 + len as u64 > self.file.len_bytes() {
            return Ok(false);
        }
        self.file.read_at(block + bit / 8, &mut bytes[..len])?;
        if self.tables.order < 3 {
            // Counts of less than a byte begin at its lowest bits.
            let mask = (1u8 << (1 << self.tables.order)) - 1;
            return Ok(bytes[0] >> (bit % 8) & mask != 0);
        }
        Ok(bytes[..len].iter().any(|&byte| byte != 0))
    }

    /// Checks the cluster of each entry of a table.
    fn each_entry(&self, at: u64, len: u64) -> Result<(), Refused> {
        let mut piece = vec![0; PIECE.min(len) as usize];
        let mut done = 0;
        while done < len {
            let take = (len - done).min(PIECE) as usize;
            self.file.read_at(at + done, &mut piece[..take])?;
            for entry in piece[..take].chunks_exact(8) {
                let target = be64(entry, 0) & OFFSET;
                if target != 0 {
                    self.marked(target, 1)?;
                }
            }
            done += take as u64;
        }
        Ok(())
    }
}
