//! Hashes of the content that a copy read, to be compared with the content of the target.
//!
//! # Invariants
//! 1. A hash depends on the size and on the bytes of a file alone, not on its holes and not on the
//!    pieces in which it was read.
//! 2. A block of zeros costs no time: only blocks with another byte are hashed, with their number.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use ffs_core::Vnode;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};

use super::content::Content;
use super::emitter::READ_SIZE;
use super::entry::{Entry, EntryKind};
use super::error::{PartialFile, SinkResult};
use super::host::drop_cached;
use super::image::ImageRef;
use super::report::CopyReport;
use super::sink::Sink;
use crate::namei::{Last, namei_from};

/// Bytes that are hashed together.
const BLOCK: usize = 4096;

/// The hash of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Path relative to the top of the copy.
    pub path: Vec<u8>,
    /// Bytes.
    pub size: u64,
    hash: [u8; 32],
}

/// The hashes of the files of a copy.
#[derive(Clone, Debug, Default)]
pub struct Digests(Vec<Digest>);

/// A file whose target differs from what was read from its source.
#[derive(Debug)]
pub enum Mismatch {
    /// The content differs.
    Content,
    /// The target cannot be read.
    Unreadable(String),
}

/// Hashes the content that a source sends, and passes it to another sink.
pub struct DigestSink<'a> {
    sink: &'a mut dyn Sink,
    digests: &'a mut Digests,
    open: Option<(Vec<u8>, u64, BlockHasher)>,
}

/// The hash of one file.
struct BlockHasher {
    hash: Sha256,
    /// The bytes of the block at `at` that came so far.
    block: Vec<u8>,
    /// End of the bytes that came so far.
    at: u64,
}

impl BlockHasher {
    fn new() -> BlockHasher {
        BlockHasher { hash: Sha256::new(), block: vec![0; BLOCK], at: 0 }
    }

    fn update(&mut self, offset: u64, mut bytes: &[u8]) {
        self.zeros_to(offset);
        while !bytes.is_empty() {
            let within = (self.at % BLOCK as u64) as usize;
            let len = bytes.len().min(BLOCK - within);
            let (now, rest) = bytes.split_at(len);
            if len == BLOCK {
                hash_block(&mut self.hash, self.at, now);
            } else {
                self.block[within..within + len].copy_from_slice(now);
                if within + len == BLOCK {
                    hash_block(&mut self.hash, self.at - within as u64, &self.block);
                }
            }
            self.at += len as u64;
            bytes = rest;
        }
    }

    fn zeros_to(&mut self, offset: u64) {
        if offset <= self.at {
            return;
        }
        let (size, within) = (BLOCK as u64, (self.at % BLOCK as u64) as usize);
        if within > 0 {
            let start = self.at - within as u64;
            self.block[within..].fill(0);
            if offset - start < size {
                self.at = offset;
                return;
            }
            hash_block(&mut self.hash, start, &self.block);
        }
        self.block.fill(0);
        self.at = offset;
    }

    fn finish(mut self, size: u64) -> [u8; 32] {
        self.zeros_to(size);
        let within = (self.at % BLOCK as u64) as usize;
        if within > 0 {
            self.block[within..].fill(0);
            hash_block(&mut self.hash, self.at - within as u64, &self.block);
        }
        self.hash.update(size.to_le_bytes());
        self.hash.finalize().into()
    }
}

fn hash_block(hash: &mut Sha256, at: u64, block: &[u8]) {
    if block.iter().any(|byte| *byte != 0) {
        hash.update(at.to_le_bytes());
        hash.update(block);
    }
}

impl<'a> DigestSink<'a> {
    /// A sink in front of `sink`, which adds the hash of each complete file to `digests`.
    pub fn new(sink: &'a mut dyn Sink, digests: &'a mut Digests) -> DigestSink<'a> {
        DigestSink { sink, digests, open: None }
    }
}

impl Sink for DigestSink<'_> {
    fn inner(&mut self) -> Option<&mut dyn Sink> {
        Some(self.sink)
    }

    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        self.open = match entry.kind {
            EntryKind::File(size) => Some((entry.path.clone(), size, BlockHasher::new())),
            _ => None,
        };
        self.sink.entry(entry, report)
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        if let Some((_, _, hasher)) = &mut self.open {
            hasher.update(offset, bytes);
        }
        self.sink.data(offset, bytes)
    }

    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        let open = self.open.take();
        self.sink.end(report)?;
        if let Some((path, size, hasher)) = open {
            // The size of a pipe is not known before its end.
            let size = size.max(hasher.at);
            self.digests.0.push(Digest { path, size, hash: hasher.finish(size) });
        }
        Ok(())
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.open = None;
        self.sink.abort()
    }
}

/// The tree that a copy created.
pub enum TargetTree<'a> {
    /// Below a directory of an image.
    Image(ImageRef<'a>, Vnode),
    /// Below a directory of the host.
    Host(OwnedFd),
}

impl TargetTree<'_> {
    fn open(&self, path: &[u8]) -> Result<Content<'_>, String> {
        match self {
            TargetTree::Image(image, root) => {
                let found = namei_from(image.ffs, image.cred, root.clone(), path, Last::Follow);
                Ok(Content::Image(image.ffs, found.map_err(|error| error.to_string())?))
            }
            TargetTree::Host(root) => {
                let path = CString::new(path).map_err(|error| error.to_string())?;
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(root.as_fd(), path.as_c_str(), flags, Mode::empty());
                let fd = fd.map_err(|error| error.to_string())?;
                drop_cached(&fd);
                Ok(Content::Host(fd))
            }
        }
    }

    /// The hash of the file at `path`; nothing if `progress` cancelled.
    fn hash(
        &self,
        path: &[u8],
        buf: &mut Vec<u8>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<[u8; 32]>, String> {
        let file = self.open(path)?;
        let size = file.size()?;
        let (mut hasher, mut at) = (BlockHasher::new(), 0);
        while at < size {
            at = file.next_data(at, size)?;
            let len = (size - at).min(READ_SIZE as u64 - at % READ_SIZE as u64) as usize;
            buf.resize(len, 0);
            file.read(at, buf)?;
            hasher.update(at, buf);
            at += len as u64;
            if !progress(len as u64) {
                return Ok(None);
            }
        }
        Ok(Some(hasher.finish(size)))
    }
}

impl Digests {
    /// The hashes, in the order of the copy.
    #[must_use]
    pub fn files(&self) -> &[Digest] {
        &self.0
    }

    /// Reads the files of `tree` and compares their hashes. `progress` receives the bytes that were
    /// read, and returns whether to continue. Calls `differs` for each file that differs.
    pub fn verify(
        &self,
        tree: &TargetTree<'_>,
        mut progress: impl FnMut(u64) -> bool,
        mut differs: impl FnMut(&Digest, Mismatch),
    ) {
        let mut buf = Vec::new();
        for digest in &self.0 {
            match tree.hash(&digest.path, &mut buf, &mut progress) {
                Ok(None) => return,
                Ok(Some(hash)) if hash == digest.hash => {}
                Ok(Some(_)) => differs(digest, Mismatch::Content),
                Err(why) => differs(digest, Mismatch::Unreadable(why)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(size: u64, pieces: &[(u64, &[u8])]) -> [u8; 32] {
        let mut hasher = BlockHasher::new();
        for (offset, bytes) in pieces {
            hasher.update(*offset, bytes);
        }
        hasher.finish(size)
    }

    #[test]
    fn pieces_and_holes_do_not_matter_and_every_byte_does() {
        let mut content = vec![0; 20_000];
        for (n, byte) in content.iter_mut().enumerate() {
            *byte = if (5000..14_000).contains(&n) { 0 } else { (n % 251) as u8 };
        }
        let whole = hash(20_000, &[(0, &content)]);
        for size in [1, 7, 100, 4096, 5000, 8192] {
            let pieces: Vec<(u64, &[u8])> =
                content.chunks(size).enumerate().map(|(n, c)| ((n * size) as u64, c)).collect();
            assert_eq!(hash(20_000, &pieces), whole, "{size}");
        }
        let holes = [(0, &content[..5000]), (14_000, &content[14_000..])];
        assert_eq!(hash(20_000, &holes), whole);
        for at in [0, 4095, 4096, 6000, 19_999] {
            let mut other = content.clone();
            other[at] ^= 1;
            assert_ne!(hash(20_000, &[(0, &other)]), whole, "{at}");
        }
        assert_ne!(hash(20_001, &[(0, &content)]), whole);
        assert_eq!(hash(9000, &[]), hash(9000, &[(4000, &[0; 100])]));
    }
}
