//! The contents that a file may have after a crash.

use crate::rng::SplitMix64;

/// The last durable content of a file and all later ones, each with the time of its write.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    versions: Vec<(usize, Vec<u8>)>,
}

impl Content {
    /// An empty file, created at time `at`.
    #[must_use]
    pub(super) fn new(at: usize) -> Content {
        Content { versions: vec![(at, Vec::new())] }
    }

    /// The newest content.
    #[must_use]
    pub(super) fn now(&self) -> &[u8] {
        self.versions.last().map_or(&[], |(_, bytes)| bytes)
    }

    /// Writes `len` bytes, generated from `tag`, at `offset`.
    pub(super) fn write(&mut self, at: usize, offset: usize, len: usize, tag: u64) {
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
    pub(super) fn resize(&mut self, at: usize, size: usize) {
        let mut bytes = self.now().to_vec();
        bytes.resize(size, 0);
        self.versions.push((at, bytes));
    }

    /// Zeroes `len` bytes at `offset`.
    pub(super) fn punch_hole(&mut self, at: usize, offset: usize, len: usize) {
        let mut bytes = self.now().to_vec();
        if let Some(hole) = bytes.get_mut(offset..offset.saturating_add(len)) {
            hole.fill(0);
        }
        self.versions.push((at, bytes));
    }

    /// Drops all contents before the newest one, which is durable now.
    pub(super) fn make_durable(&mut self) {
        let old = self.versions.len().saturating_sub(1);
        self.versions.drain(..old);
    }

    /// Whether `found` is possible for a file whose contents count from time `from` on: each byte
    /// is one that the file had at that offset, or zero if the file was ever shorter; the size is
    /// between the smallest and the largest.
    #[must_use]
    pub(super) fn allows(&self, found: &[u8], from: usize) -> bool {
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

/// `len` bytes generated from `tag`, none of them zero.
#[must_use]
pub(super) fn written(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SplitMix64::new(tag).fill_bytes(&mut bytes);
    bytes.iter_mut().for_each(|b| *b |= 1);
    bytes
}
