//! Whether the tables of a qcow2 image are marked as used.
//!
//! A driver that writes takes clusters whose reference count is 0. In an image that is truncated or
//! damaged these may be its header and tables, and a write would destroy them. So an image is
//! opened for writing only if all its tables have reference counts.
//!
//! **Reference.** QEMU, "Qcow2 Image File Format".

use ffs_device::BlockDevice;

use crate::bytes::{be32, be64};
use crate::image::Refused;

/// The bits of an entry that are an offset.
pub(super) const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bytes of a table that are read at a time.
pub(super) const PIECE: u64 = 64 << 10;

struct Image<'a> {
    file: &'a dyn BlockDevice,
    cluster_bits: u32,
    /// A count has `1 << order` bits.
    order: u32,
    table: u64,
    table_len: u64,
}

/// Checks the image whose header begins with `head`.
pub(super) fn check(file: &dyn BlockDevice, head: &[u8]) -> Result<(), Refused> {
    let order = if be32(head, 4) >= 3 { be32(head, 96) } else { 4 };
    let cluster_bits = be32(head, 20);
    if !(9..=21).contains(&cluster_bits) || order > 6 {
        return damaged();
    }
    let table_len = u64::from(be32(head, 56)) << cluster_bits;
    let image = Image { file, cluster_bits, order, table: be64(head, 48), table_len };
    if image.table.checked_add(table_len).is_none_or(|end| end > file.len_bytes()) {
        return damaged();
    }
    image.marked(0, 1)?;
    image.marked(image.table, table_len)?;
    image.each_entry(image.table, table_len)?;
    let (l1, len) = (be64(head, 40), u64::from(be32(head, 36)) * 8);
    image.marked(l1, len)?;
    image.each_entry(l1, len)
}

fn damaged<T>() -> Result<T, Refused> {
    let why = "its tables are not marked as used, so a write could destroy them; repair it with \
               `qemu-img check -r all`";
    Err(Refused::Damaged(why.to_owned()))
}

impl Image<'_> {
    /// Checks that the clusters of the range are in the file and have reference counts.
    fn marked(&self, at: u64, len: u64) -> Result<(), Refused> {
        let size = 1u64 << self.cluster_bits;
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
        let per_block = self.cluster_bits + 3 - self.order;
        let entry = (cluster >> per_block) * 8;
        if entry >= self.table_len {
            return Ok(false);
        }
        let mut bytes = [0; 8];
        self.file.read_at(self.table + entry, &mut bytes)?;
        let block = be64(&bytes, 0) & OFFSET;
        let bit = (cluster & ((1 << per_block) - 1)) << self.order;
        let len = (1usize << self.order).div_ceil(8);
        if block == 0 || block + bit / 8 + len as u64 > self.file.len_bytes() {
            return Ok(false);
        }
        self.file.read_at(block + bit / 8, &mut bytes[..len])?;
        if self.order < 3 {
            // Counts of less than a byte begin at its lowest bits.
            let mask = (1u8 << (1 << self.order)) - 1;
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
