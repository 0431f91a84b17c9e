//! The contents that a file may have after a crash.

use crate::rng::SplitMix64;

/// Bytes that a device writes whole or not at all.
const SECTOR: usize = 512;
/// The smallest block, bytes.
const LEAST_BLOCK: usize = 4096;
/// Most bytes of a file that needs no indirect block if blocks are that small.
const MOST_DIRECT: usize = 12 * LEAST_BLOCK;

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
        let end = offset.saturating_add(len).min(bytes.len());
        if let Some(hole) = bytes.get_mut(offset..end) {
            hole.fill(0);
        }
        self.versions.push((at, bytes));
    }

    /// Drops all contents before the newest one, which is durable now.
    pub(super) fn make_durable(&mut self) {
        let old = self.versions.len().saturating_sub(1);
        self.versions.drain(..old);
    }

    /// Whether `found` is possible for a file whose contents count from time `from` on: each sector
    /// is one that the file had there, with zeros behind its end then; the size is between the
    /// smallest and the largest. A file with indirect blocks may end at a smaller size if zeros
    /// follow.
    #[must_use]
    pub(super) fn allows(&self, found: &[u8], from: usize) -> bool {
        let before = self.versions.iter().take_while(|(at, _)| *at <= from).count();
        let versions = self.versions.get(before.saturating_sub(1)..).unwrap_or_default();
        let lengths = || versions.iter().map(|(_, bytes)| bytes.len());
        let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        let is_had = |(n, sector): (usize, &[u8])| {
            let start = n * SECTOR;
            let had = |(_, bytes): &(usize, Vec<u8>)| {
                let there = bytes.get(start.min(bytes.len())..).unwrap_or_default();
                let (same, behind) = sector.split_at(sector.len().min(there.len()));
                there.starts_with(same) && behind.iter().all(|byte| *byte == 0)
            };
            versions.iter().any(had) || start >= least && sector.iter().all(|byte| *byte == 0)
        };
        // A9 of the crash contract: behind the last durable block such a file may lose zeros.
        let is_shortened = |(_, bytes): &(usize, Vec<u8>)| {
            let lost = bytes.get(found.len()..least).unwrap_or_default();
            bytes.len() > MOST_DIRECT && lost.iter().all(|byte| *byte == 0)
        };
        let ends_in_hole = found.len() < least
            && found.len().is_multiple_of(LEAST_BLOCK)
            && versions.iter().any(is_shortened);
        let fits = (least..=most).contains(&found.len()) || ends_in_hole;
        fits && found.chunks(SECTOR).enumerate().all(is_had)
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
