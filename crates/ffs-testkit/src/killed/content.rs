//! The contents that a file may have.

use crate::rng::SplitMix64;

/// A file's contents since the last that is durable, with the times from which they were so.
#[derive(Clone, Debug, Default)]
pub struct Content {
    versions: Vec<(usize, Vec<u8>)>,
}

impl Content {
    /// Empty since `at`.
    #[must_use]
    pub fn new(at: usize) -> Content {
        Content { versions: vec![(at, Vec::new())] }
    }

    /// The newest.
    #[must_use]
    pub fn now(&self) -> &[u8] {
        self.versions.last().map_or(&[], |(_, bytes)| bytes)
    }

    /// Writes `len` bytes that follow from `tag` at `offset`.
    pub fn write(&mut self, at: usize, offset: usize, len: usize, tag: u64) {
        let mut bytes = self.now().to_vec();
        let end = offset.saturating_add(len);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Some(part) = bytes.get_mut(offset..end) {
            part.copy_from_slice(&written(tag, len));
        }
        self.versions.push((at, bytes));
    }

    /// Changes the size.
    pub fn resize(&mut self, at: usize, size: usize) {
        let mut bytes = self.now().to_vec();
        bytes.resize(size, 0);
        self.versions.push((at, bytes));
    }

    /// Forgets what was before the newest content.
    pub fn settle(&mut self) {
        let old = self.versions.len().saturating_sub(1);
        self.versions.drain(..old);
    }

    /// Whether `found` may be left of what the file was at `from` and later: each byte one that it
    /// had there, or zero where it was ever shorter; the size between the least and the greatest.
    #[must_use]
    pub fn allows(&self, found: &[u8], from: usize) -> bool {
        let before = self.versions.iter().take_while(|(at, _)| *at <= from).count();
        let versions = self.versions.get(before.saturating_sub(1)..).unwrap_or_default();
        let lengths = || versions.iter().map(|(_, bytes)| bytes.len());
        let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        if found.len() < least || found.len() > most {
            return false;
        }
        if versions.iter().any(|(_, bytes)| bytes == found) {
            return true;
        }
        let fits = |(i, byte): (usize, &u8)| {
            (i >= least && *byte == 0) || versions.iter().any(|(_, v)| v.get(i) == Some(byte))
        };
        found.iter().enumerate().all(fits)
    }
}

/// `len` bytes that follow from `tag`, none of them zero.
#[must_use]
pub(super) fn written(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SplitMix64::new(tag).fill_bytes(&mut bytes);
    bytes.iter_mut().for_each(|b| *b |= 1);
    bytes
}
