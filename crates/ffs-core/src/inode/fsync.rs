//! Making a file durable.
//!
//! A buffer whose write fails stays dirty, so a later fsync tries again and fails again until the
//! data is on the device: no error is reported once and then forgotten.

use super::{Inode, InodeTable};
use crate::buf::BufKey;
use crate::error::Result;
use crate::ordering::InodeChange;
use std::sync::atomic::Ordering;

impl InodeTable {
    /// Makes content, indirect blocks, extended attributes and the inode durable; with `data_only`
    /// the inode only if size or pointers changed. The caller holds no inode lock.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn fsync(&self, ip: &Inode, data_only: bool) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        if !data_only {
            let mut data = ip.write();
            if data.alive() && data.times_noted() {
                self.update(ip, &mut data, InodeChange::Attr)?;
            }
        }
        // Held to the end: what is durable then is one state of the file.
        let _data = ip.read();
        self.cache().write_file(ip.ino)?;
        if ip.unsynced.load(Ordering::Relaxed) || !data_only {
            let block = BufKey::Meta(self.g().ino_to_fsba(ip.ino));
            self.cache().write_if_dirty(block)?;
            self.alloc.write_initialised(ip.ino)?;
            // Not before: another fsync that finds it cleared does not wait for the write.
            ip.unsynced.store(false, Ordering::Relaxed);
        }
        self.cache().flush_device()
    }
}
