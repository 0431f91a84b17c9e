//! Writing file data from a source, past the buffers of its blocks.
//!
//! **Invariants.**
//! 1. The ordering mode gets the same calls as for a write of the buffers.
//! 2. Content that the device does not take as a whole is returned.

use super::put_content::PutContent;
use super::writeback::{Member, WaitFor, WriteImage};
use super::written::WriteOutcome;
use super::{Buf, BufCache};
use crate::error::Error;
use crate::source::{WriteSource, unreadable};

/// Where a content is that the device did not take as a whole.
pub(crate) enum NotPut {
    /// The first bytes are these, the others still in the source.
    Returned(Vec<u8>),
    /// In the buffers.
    InBuffers,
    /// A part of it cannot be read from the source.
    Unreadable(Error),
}

impl BufCache {
    /// Writes the next content of `source`, instead of that of the buffers, to the blocks of
    /// `bufs`, which have file data and follow each other on the device. Returns how many of the
    /// first blocks were written: less than all if a write of one is in flight or held. The caller
    /// keeps readers away until it has dropped the buffers of the blocks that were written.
    ///
    /// # Errors
    /// Where the content is that the device did not take.
    pub(crate) fn write_in_place(
        &self,
        bufs: &[&Buf],
        source: &mut dyn WriteSource,
    ) -> std::result::Result<usize, NotPut> {
        let put = self.dev.host_range(0, 1).is_some();
        if !put {
            for buf in bufs {
                let taken = source.take(&mut buf.write().bytes);
                taken.map_err(|e| NotPut::Unreadable(unreadable(buf.read().bytes.len(), e)))?;
            }
        }
        let mut members: Vec<Member<'_>> = Vec::with_capacity(bufs.len());
        for buf in bufs {
            // As in a cluster, only the first of these locks may be waited for. The content of a
            // buffer is locked for short times, without waiting for another buffer.
            let io = if members.is_empty() { Some(buf.io.lock()) } else { buf.io.try_lock() };
            let Some(io) = io.filter(|_| !self.is_held(buf)) else { break };
            let image = WriteImage::Borrowed(buf.data.read());
            members.push(Member { buf, image, _io: io });
        }
        let n = members.len();
        let mut content = put.then_some(PutContent::new(source));
        let written = match n {
            0 => Ok(WriteOutcome::Clean),
            _ => self.write_members(members, WaitFor::Accepted, content.as_mut()),
        };
        match (written, content) {
            // The buffers that were not written have their content, too.
            (_, None) if n < bufs.len() => Err(NotPut::InBuffers),
            (Ok(_), _) => Ok(n),
            (Err(_), None) => Err(NotPut::InBuffers),
            (Err(_), Some(content)) => {
                Err(content.into_returned().map_or_else(NotPut::Unreadable, NotPut::Returned))
            }
        }
    }
}
