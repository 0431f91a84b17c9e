//! Read access to the bytes of an image.

use std::borrow::Cow;

/// An image that can be read at any offset without side effects.
pub(crate) trait ImageBytes {
    /// The length of the image in bytes.
    fn len(&self) -> u64;

    /// `len` bytes from byte `offset`; `None` if the range passes the end.
    ///
    /// Contiguous bytes are borrowed, so that reading a block copies nothing.
    fn read(&self, offset: u64, len: usize) -> Option<Cow<'_, [u8]>>;
}

impl ImageBytes for &[u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read(&self, offset: u64, len: usize) -> Option<Cow<'_, [u8]>> {
        let from = usize::try_from(offset).ok()?;
        self.get(from..from.checked_add(len)?).map(Cow::Borrowed)
    }
}

impl ImageBytes for Vec<u8> {
    fn len(&self) -> u64 {
        Vec::len(self) as u64
    }

    fn read(&self, offset: u64, len: usize) -> Option<Cow<'_, [u8]>> {
        let from = usize::try_from(offset).ok()?;
        self.get(from..from.checked_add(len)?).map(Cow::Borrowed)
    }
}
