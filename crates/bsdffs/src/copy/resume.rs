//! Files that an earlier copy left unfinished.
//!
//! # Invariants
//! 1. A byte of the old content stays only if it was compared with the byte of the source.
//! 2. Before a byte behind the first difference is written, the file ends at that difference.

use super::error::SinkError;

/// Bytes in one read of the old content.
const PIECE: usize = 128 << 10;

/// A file that has content.
pub(super) trait OldContent {
    /// Reads at `at` until `buf` is full or the file ends; returns the bytes read.
    fn read(&self, at: u64, buf: &mut [u8]) -> Result<usize, SinkError>;

    /// The next range with data at or after `at`; nothing if there is none before `end`.
    fn next_data(&self, at: u64, end: u64) -> Result<Option<(u64, u64)>, SinkError>;

    /// Sets the size of the file, bytes.
    fn truncate(&self, size: u64) -> Result<(), SinkError>;
}

/// The comparison of the old content with the source.
pub(super) struct Resume {
    /// Bytes of the old content.
    have: u64,
    /// Bytes that were compared and are equal.
    at: u64,
    /// The rest is written, not compared.
    writing: bool,
}

impl Resume {
    /// A file that has `have` bytes.
    pub(super) fn new(have: u64) -> Resume {
        Resume { have, at: 0, writing: false }
    }

    /// Compares `bytes`, which the source has at `offset` after a hole. Returns how many of them
    /// the file has; the others are to be written.
    pub(super) fn matching(
        &mut self,
        file: &dyn OldContent,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize, SinkError> {
        if self.writing {
            return Ok(0);
        }
        self.zeros(file, offset)?;
        if self.writing {
            return Ok(0);
        }
        let len = (self.have.saturating_sub(offset)).min(bytes.len() as u64) as usize;
        let mut buf = vec![0; len.min(PIECE)];
        let mut done = 0;
        while done < len {
            let piece = &mut buf[..(len - done).min(PIECE)];
            let got = file.read(offset + done as u64, piece)?;
            let same = piece[..got].iter().zip(&bytes[done..]).take_while(|(a, b)| a == b).count();
            done += same;
            if same < piece.len() {
                self.differ(file, offset + done as u64)?;
                return Ok(done);
            }
        }
        self.at = offset + done as u64;
        self.writing = done < bytes.len();
        Ok(done)
    }

    /// Compares the end of the file, which has `size` bytes and ends in a hole. Returns whether the
    /// file had the whole content.
    pub(super) fn end(&mut self, file: &dyn OldContent, size: u64) -> Result<bool, SinkError> {
        if !self.writing {
            self.zeros(file, size)?;
        }
        if self.writing || self.have == size {
            return Ok(!self.writing);
        }
        if self.have > size {
            file.truncate(size)?;
        }
        Ok(false)
    }

    /// Whether the rest is written without a comparison.
    pub(super) fn is_writing(&self) -> bool {
        self.writing
    }

    /// The size of the file, as far as this comparison set it.
    pub(super) fn size(&self) -> u64 {
        if self.writing { self.at } else { self.have }
    }

    /// Compares with zeros up to `end`.
    fn zeros(&mut self, file: &dyn OldContent, end: u64) -> Result<(), SinkError> {
        let end = end.min(self.have);
        let mut buf = Vec::new();
        while self.at < end {
            let Some((start, stop)) = file.next_data(self.at, end)? else { break };
            buf.resize(((stop.min(end) - start) as usize).min(PIECE), 0);
            let got = file.read(start, &mut buf)?;
            if let Some(place) = buf[..got].iter().position(|byte| *byte != 0) {
                return self.differ(file, start + place as u64);
            }
            if got == 0 {
                break;
            }
            self.at = start + got as u64;
        }
        self.at = self.at.max(end);
        Ok(())
    }

    fn differ(&mut self, file: &dyn OldContent, at: u64) -> Result<(), SinkError> {
        file.truncate(at)?;
        (self.at, self.writing) = (at, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use std::cell::RefCell;

    struct Old(RefCell<Vec<u8>>);

    impl OldContent for Old {
        fn read(&self, at: u64, buf: &mut [u8]) -> Result<usize, SinkError> {
            let all = self.0.borrow();
            let rest = &all[(at as usize).min(all.len())..];
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }

        fn next_data(&self, at: u64, end: u64) -> Result<Option<(u64, u64)>, SinkError> {
            Ok((at < end).then_some((at, end)))
        }

        fn truncate(&self, size: u64) -> Result<(), SinkError> {
            self.0.borrow_mut().resize(size as usize, 0);
            Ok(())
        }
    }

    /// Goes on with `old`; the source is `new`, without the ranges `holes`.
    fn resumed(old: &[u8], new: &[u8], pieces: &[(usize, usize)]) -> (Vec<u8>, bool) {
        let file = Old(RefCell::new(old.to_vec()));
        let mut resume = Resume::new(old.len() as u64);
        for &(start, end) in pieces {
            let bytes = &new[start..end];
            let same = resume.matching(&file, start as u64, bytes).unwrap();
            let mut all = file.0.borrow_mut();
            if same < bytes.len() {
                let size = all.len().max(end);
                all.resize(size, 0);
                all[start + same..end].copy_from_slice(&bytes[same..]);
            }
        }
        let whole = resume.end(&file, new.len() as u64).unwrap();
        let mut all = file.0.into_inner();
        all.resize(new.len(), 0);
        (all, whole)
    }

    #[test]
    fn every_old_content_becomes_that_of_the_source() {
        let new: Vec<u8> = (0..12).map(|n| if (4..8).contains(&n) { 0 } else { n + 1 }).collect();
        let pieces: &[&[(usize, usize)]] =
            &[&[(0, 12)], &[(0, 4), (8, 12)], &[(0, 3), (3, 4), (8, 9), (9, 12)]];
        for pieces in pieces {
            for len in 0..20 {
                for wrong in 0..=len {
                    let mut old: Vec<u8> = new.iter().copied().chain(20..28).take(len).collect();
                    if let Some(byte) = old.get_mut(wrong) {
                        *byte ^= 0x40;
                    }
                    let (got, whole) = resumed(&old, &new, pieces);
                    assert_eq!(got, new, "{old:?} {pieces:?}");
                    assert_eq!(whole, old == new, "{old:?} {pieces:?}");
                }
            }
        }
    }
}
