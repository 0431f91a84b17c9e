//! The content of a write that is in no buffer.
//!
//! **Invariant.** What a device took before it failed is read back at once: the buffers of the
//! blocks may be dirty with older content, and are locked only during the write.

use crate::error::{Error, Result};
use crate::source::WriteSource;
use ffs_device::{BlockDevice, HostRange};

/// Content that passes from a source to the device.
pub(super) struct PutContent<'s> {
    source: &'s mut dyn WriteSource,
    returned: Result<Vec<u8>>,
}

impl<'s> PutContent<'s> {
    pub(super) fn new(source: &'s mut dyn WriteSource) -> PutContent<'s> {
        PutContent { source, returned: Ok(Vec::new()) }
    }

    /// After an error of the device: the bytes that it took.
    pub(super) fn into_returned(self) -> Result<Vec<u8>> {
        self.returned
    }

    /// Writes the next `length` bytes at byte `start` of the device.
    ///
    /// # Errors
    /// The device's and those of the source.
    pub(super) fn put(&mut self, dev: &dyn BlockDevice, start: u64, length: usize) -> Result<()> {
        let left = self.source.left();
        let mut put = |range: HostRange<'_>| self.source.put(range);
        let done = match dev.write_in_place(start, length as u64, &mut put) {
            Some(done) => done.map_err(Error::from),
            None => Err(Error::Invalid("the device cannot be written in place")),
        };
        if done.is_err() {
            let mut taken = vec![0; left.saturating_sub(self.source.left())];
            let read = dev.read_at(start, &mut taken);
            self.returned = read.map(|()| taken).map_err(Error::from);
        }
        done
    }
}
