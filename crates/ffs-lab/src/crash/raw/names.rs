//! Directories: every name from the root down.
//!
//! Only directories with a path from the root are checked: one without a name may be half created
//! or half removed.
//!
//! References: `spec/on-disk-format.md` §8; `spec/soft-updates.md` §1.3 F1, F2, F8, F11, F14.

use super::super::image::ImageBytes;
use super::Checker;
use super::tree::DIRECTORY;
use super::tree::{Inode, NO_SLOT, Name};
use super::volume::{CHUNK, ROOT};

/// `d_type` of a whiteout, which names inode 1.
const WHITEOUT: u8 = 14;
/// Longest name, bytes.
const MAXNAMLEN: usize = 255;

/// A record of a directory.
struct Record<'a> {
    /// Byte of the directory.
    at: u64,
    ino: u32,
    dtype: u8,
    name: &'a [u8],
}

impl Checker {
    /// Reads all directories that the root leads to.
    pub(super) fn read_names(&mut self, image: &dyn ImageBytes) {
        self.queue.clear();
        if !self.is_directory(ROOT) {
            self.wrong("F8", || "the root is no directory".to_owned());
            return;
        }
        self.reach(ROOT, ROOT);
        let mut next = 0;
        while let Some(&dir) = self.queue.get(next) {
            next += 1;
            self.directory(image, dir);
        }
    }

    fn is_directory(&self, ino: u32) -> bool {
        self.found.tree.find(ino).is_some_and(|inode| inode.mode >> 12 == DIRECTORY)
    }

    /// Queues a directory when its first name is found.
    fn reach(&mut self, ino: u32, parent: u32) {
        if let Some(inode) = self.found.tree.find_mut(ino) {
            inode.reached = true;
            inode.parent = parent;
        }
        self.queue.push(ino);
    }

    fn directory(&mut self, image: &dyn ImageBytes, dir: u32) {
        let Some(inode) = self.found.tree.find(dir).copied() else { return };
        let start = self.found.tree.entries.len() as u32;
        if inode.size == 0 || !inode.size.is_multiple_of(CHUNK as u64) {
            self.wrong("F8", || format!("directory {dir} has the size {}", inode.size));
        }
        let v = self.volume;
        let blocks = inode.size.div_ceil(v.bsize);
        let mut expected = 0;
        for i in inode.runs.0..inode.runs.1 {
            let Some(&run) = self.found.tree.runs.get(i as usize) else { break };
            if run.lbn != expected {
                break;
            }
            expected += 1;
            let from = run.lbn * v.bsize;
            let len = (inode.size - from).min(v.bsize) as usize;
            if let Some(bytes) = image.read(run.at * v.fsize, len) {
                for (chunk, at) in bytes.chunks_exact(CHUNK).zip((from..).step_by(CHUNK)) {
                    self.chunk(&inode, chunk, at);
                }
            }
        }
        if expected != blocks {
            self.wrong("F8", || format!("directory {dir} has a hole at block {expected}"));
        }
        let end = self.found.tree.entries.len() as u32;
        if let Some(inode) = self.found.tree.find_mut(dir) {
            inode.entries = (start, end);
        }
        self.unique(dir, start as usize);
    }

    fn chunk(&mut self, dir: &Inode, chunk: &[u8], base: u64) {
        let order = self.volume.order;
        let old = self.volume.maxsymlinklen == 0;
        let mut off = 0;
        let mut count = 0;
        while off < CHUNK {
            let reclen = usize::from(order.u16(chunk, off + 4));
            let (ino, at) = (order.u32(chunk, off), base + off as u64);
            let (mut dtype, mut len) = chunk.get(off + 6..off + 8).map_or((0, 0), |b| {
                (b.first().copied().unwrap_or(0), b.last().copied().map_or(0, usize::from))
            });
            if old {
                (dtype, len) = (0, usize::from(order.u16(chunk, off + 6)));
            }
            let least = if ino == 0 { 8 } else { (8 + len + 1 + 3) & !3 };
            let fits = reclen >= least && reclen.is_multiple_of(4) && reclen <= CHUNK - off;
            if !fits {
                let dir = dir.ino;
                self.wrong("F8", || format!("directory {dir}: bad record length at byte {at}"));
                return;
            }
            if ino != 0 && chunk.get(off + 8 + len) != Some(&0) {
                let dir = dir.ino;
                self.wrong("F8", || format!("directory {dir}: no NUL after the name at byte {at}"));
            }
            if ino != 0 {
                let name = chunk.get(off + 8..off + 8 + len).unwrap_or(&[]);
                self.record(dir, &Record { at, ino, dtype, name }, base == 0, count);
            } else {
                if off != 0 {
                    self.found.seen.saw(14);
                }
                if base == 0 && count < 2 {
                    self.no_dots(dir.ino);
                }
            }
            off += reclen;
            count += 1;
        }
        if base == 0 && count < 2 {
            self.no_dots(dir.ino);
        }
    }

    fn no_dots(&mut self, dir: u32) {
        self.wrong("F8", || format!("directory {dir} does not begin with . and .."));
    }

    fn record(&mut self, dir: &Inode, r: &Record<'_>, first_chunk: bool, count: usize) {
        if first_chunk && count == 0 {
            if r.name != b"." || r.ino != dir.ino || !self.has_directory_type(r) {
                self.no_dots(dir.ino);
            }
            return;
        }
        if first_chunk && count == 1 {
            self.dotdot(dir.ino, r);
            return;
        }
        let len = r.name.len();
        if len == 0 || len > MAXNAMLEN || r.name.iter().any(|&byte| byte == 0 || byte == b'/') {
            let (dir, at) = (dir.ino, r.at);
            self.wrong("F8", || format!("directory {dir}: impossible name at byte {at}"));
            return;
        }
        if r.name == b"." || r.name == b".." {
            let dir = dir.ino;
            self.wrong("F14", || format!("directory {dir} has . or .. twice"));
            return;
        }
        if r.ino == 1 && r.dtype == WHITEOUT {
            return;
        }
        self.name(dir.ino, r);
    }

    fn has_directory_type(&self, r: &Record<'_>) -> bool {
        self.volume.maxsymlinklen == 0 || u16::from(r.dtype) == DIRECTORY
    }

    fn dotdot(&mut self, dir: u32, r: &Record<'_>) {
        let live = self.is_directory(r.ino) && (dir != ROOT || r.ino == ROOT);
        if r.name != b".." || !live || !self.has_directory_type(r) {
            self.no_dots(dir);
        } else if let Some(inode) = self.found.tree.find_mut(dir) {
            inode.dotdot = r.ino;
        }
    }

    /// A name other than `.` and `..`.
    fn name(&mut self, dir: u32, r: &Record<'_>) {
        let v = self.volume;
        let ino = r.ino;
        let show = String::from_utf8_lossy;
        let start = self.found.tree.text.len() as u32;
        let slot = self.found.tree.slot(ino);
        self.found.tree.text.extend_from_slice(r.name);
        self.found.tree.entries.push(Name { start, len: r.name.len() as u8, ino });
        let Some(inode) = self.found.tree.inodes.get_mut(slot as usize) else {
            if slot != NO_SLOT {
                self.wrong("F2", || {
                    format!("{} in directory {dir} names inode {ino}: bit clear", show(r.name))
                });
            } else {
                let why = if (2..v.inodes()).contains(&ino) { "mode 0" } else { "out of range" };
                self.wrong("F1", || {
                    format!("{} in directory {dir} names inode {ino}: {why}", show(r.name))
                });
            }
            return;
        };
        inode.names += 1;
        let kind = inode.mode >> 12;
        if v.maxsymlinklen != 0 && u16::from(r.dtype) != kind {
            self.wrong("F11", || {
                let dtype = r.dtype;
                format!("{} in directory {dir} has type {dtype}, inode {ino} {kind}", show(r.name))
            });
        }
        if kind != DIRECTORY {
            self.found.tree.reach(slot, dir);
        } else if !self.found.tree.is_reached(slot) {
            self.reach(ino, dir);
        } else {
            // Of two names of a directory, the one in the directory that `..` names stays.
            self.found.seen.saw(5);
            self.second_names.push((ino, dir));
        }
    }

    /// Checks that no two entries of a directory have the same name.
    fn unique(&mut self, dir: u32, start: usize) {
        let tree = &self.found.tree;
        let entries = tree.entries.get(start..).unwrap_or(&[]);
        self.hashes.clear();
        self.hashes.extend(entries.iter().zip(0u32..).map(|(name, i)| (hash(tree.name(name)), i)));
        self.hashes.sort_unstable();
        let mut twice = None;
        for pair in self.hashes.windows(2) {
            let &[(h1, a), (h2, b)] = pair else { continue };
            let names = (entries.get(a as usize), entries.get(b as usize));
            if let (true, (Some(a), Some(b))) = (h1 == h2, names)
                && tree.name(a) == tree.name(b)
            {
                twice = Some(String::from_utf8_lossy(tree.name(a)).into_owned());
            }
        }
        if let Some(name) = twice {
            self.wrong("F14", || format!("directory {dir} has {name} twice"));
        }
    }
}

/// FNV-1a.
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |h, &byte| (h ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
