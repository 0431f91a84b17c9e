//! Inodes and their blocks.
//!
//! An inode counts if its mode and its bitmap bit are set. The fragments that it points to,
//! directly or through indirect blocks, must be data of the volume, be marked in use, and have no
//! other owner.
//!
//! References: `spec/on-disk-format.md` §5.2, §7; `spec/soft-updates.md` §1.3 F3, F4, F7, F12.

use super::super::image::ImageBytes;
use super::Checker;
use super::tree::{BLOCK, CHAR, DIRECTORY, FIFO, Inode, REGULAR, Run, SOCKET, SYMLINK};
use super::volume::{NDADDR, NIADDR, Volume};

/// The inode is a snapshot: some of its pointers are words, not addresses.
pub(super) const SF_SNAPSHOT: u32 = 0x20_0000;

/// Zeros: as many bytes as the largest part of a free inode that must be clear.
const ZEROS: [u8; 140] = [0; 140];

/// The address words of an inode, as stored.
struct Pointers {
    words: [u64; NDADDR + NIADDR],
    ext: [u64; 2],
}

/// A walk over the blocks of one inode.
#[derive(Clone, Copy)]
struct Walk {
    ino: u32,
    size: u64,
    snapshot: bool,
    directory: bool,
    /// Blocks that the size covers.
    blocks: u64,
    /// Fragments owned so far.
    fragments: u64,
}

impl Checker {
    /// Reads all inodes.
    pub(super) fn read_inodes(&mut self, image: &dyn ImageBytes) {
        let v = self.volume;
        for cg in 0..v.ncg {
            let initialised = self.groups.initialised(cg);
            let mut index = 0;
            while index < v.ipg {
                if index < initialised {
                    let at = v.first_inode(cg) + u64::from(index) * v.isize();
                    if let Some(bytes) = image.read(at, v.bsize as usize) {
                        self.read_block(image, &bytes, at, cg * v.ipg + index);
                    }
                } else {
                    self.skip_block(cg * v.ipg + index);
                }
                index += v.inopb;
            }
        }
    }

    /// Inodes that were never written: their bits may be set already.
    fn skip_block(&mut self, first: u32) {
        if self.groups.inode_bits(&self.volume, first).iter().any(|&bits| bits != 0) {
            self.found.seen.saw(2);
        }
    }

    fn read_block(&mut self, image: &dyn ImageBytes, block: &[u8], at: u64, first: u32) {
        let size = self.volume.isize();
        let bits = self.groups.inode_bits(&self.volume, first);
        for (ino, (bytes, at)) in
            (first..).zip(block.chunks_exact(size as usize).zip((at..).step_by(size as usize)))
        {
            let index = (ino - first) as usize;
            let used = bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0);
            if self.volume.order.u16(bytes, 0) == 0 {
                self.empty(bytes, ino, used);
            } else if used {
                self.inode(image, bytes, at, ino);
            } else {
                self.found.tree.note_unmarked(ino);
            }
        }
    }

    /// Checks that an inode of mode 0 is clear.
    fn empty(&mut self, bytes: &[u8], ino: u32, used: bool) {
        if ino < 2 {
            return;
        }
        if used {
            self.found.seen.saw(2);
        }
        let held: &[std::ops::Range<usize>] =
            if self.volume.ufs2 { &[16..24, 92..232] } else { &[8..16, 40..100] };
        let clear = |range: &std::ops::Range<usize>| {
            bytes.get(range.clone()).is_some_and(|part| Some(part) == ZEROS.get(..part.len()))
        };
        if !held.iter().all(clear) {
            self.wrong("F12", || format!("inode {ino} is free, but has a size or pointers"));
        }
    }

    fn inode(&mut self, image: &dyn ImageBytes, bytes: &[u8], at: u64, ino: u32) {
        let v = self.volume;
        let (mut inode, pointers) = decode(&v, bytes, at, ino);
        let start = self.found.tree.runs.len() as u32;
        inode.runs = (start, start);
        inode.ext = (start, start);
        let kind = inode.mode >> 12;
        let snapshot = inode.flags & SF_SNAPSHOT != 0;
        if snapshot {
            self.found.seen.saw(15);
        }
        if inode.size > v.maxfilesize.max(v.bsize) {
            self.wrong("F12", || format!("inode {ino} has the impossible size {}", inode.size));
        } else {
            let blocks = inode.size.div_ceil(v.bsize);
            let directory = kind == DIRECTORY;
            let size = inode.size;
            let walk = Walk { ino, size, snapshot, directory, blocks, fragments: 0 };
            self.blocks(image, &mut inode, kind, &pointers, walk);
        }
        self.found.tree.add(inode);
    }

    fn blocks(
        &mut self,
        image: &dyn ImageBytes,
        inode: &mut Inode,
        kind: u16,
        pointers: &Pointers,
        mut walk: Walk,
    ) {
        let v = self.volume;
        if v.ufs2 {
            self.attributes(inode, pointers, &mut walk);
        }
        let start = self.found.tree.runs.len() as u32;
        let words_in_use = match kind {
            REGULAR | DIRECTORY => None,
            SYMLINK if inode.size < v.maxsymlinklen => Some(inode.size.div_ceil(v.pointer())),
            SYMLINK => None,
            CHAR | BLOCK => Some(1),
            FIFO | SOCKET => Some(0),
            _ => {
                self.wrong("F1", || format!("inode {} has the unknown type {kind:#o}", walk.ino));
                None
            }
        };
        match words_in_use {
            Some(words) => {
                if pointers.words.iter().skip(words as usize).any(|&word| word != 0) {
                    self.wrong("F12", || format!("inode {} has pointers it cannot use", walk.ino));
                }
            }
            None => self.content(image, pointers, &mut walk),
        }
        inode.runs = (start, self.found.tree.runs.len() as u32);
        self.judge_size(inode, &walk);
    }

    /// Sizes and counts that a crash may leave: A8, A9, A10.
    fn judge_size(&mut self, inode: &Inode, walk: &Walk) {
        let v = self.volume;
        if walk.fragments * (v.fsize / 512) != inode.blocks {
            self.found.seen.saw(8);
        }
        let runs = self.found.tree.runs_of(inode.runs);
        let end = runs.last().map_or(0, |run| run.lbn + 1);
        let holes = (runs.len() as u64) < end;
        if walk.blocks > NDADDR as u64 && end < walk.blocks {
            self.found.seen.saw(9);
        }
        if holes {
            self.found.seen.saw(10);
        }
    }

    /// The area of extended attributes.
    fn attributes(&mut self, inode: &mut Inode, pointers: &Pointers, walk: &mut Walk) {
        let v = self.volume;
        let start = self.found.tree.runs.len() as u32;
        let size = u64::from(inode.extsize);
        if size > 2 * v.bsize {
            self.wrong("F12", || format!("inode {} has an impossible di_extsize", walk.ino));
            return;
        }
        for (lbn, &at) in (0..).zip(&pointers.ext) {
            if at == 0 {
                if lbn * v.bsize < size {
                    let ino = walk.ino;
                    self.wrong("F12", || {
                        format!("inode {ino} has di_extsize {size}, but no block")
                    });
                }
            } else if lbn * v.bsize >= size {
                self.past_end(walk.ino, at);
            } else if self.own(walk, at, v.fragments_of(lbn, size)) {
                self.found.tree.runs.push(Run { lbn, at });
            }
        }
        inode.ext = (start, self.found.tree.runs.len() as u32);
    }

    fn past_end(&mut self, ino: u32, at: u64) {
        self.wrong("F12", || format!("inode {ino} points at fragment {at} beyond its size"));
    }

    fn content(&mut self, image: &dyn ImageBytes, pointers: &Pointers, walk: &mut Walk) {
        let v = self.volume;
        let (direct, indirect) = pointers.words.split_at(NDADDR);
        for (lbn, &at) in (0..).zip(direct) {
            if at == 0 || walk.is_word(at) {
                continue;
            }
            if lbn >= walk.blocks {
                self.past_end(walk.ino, at);
            } else if self.own(walk, at, v.fragments_of(lbn, walk.size)) {
                self.found.tree.runs.push(Run { lbn, at });
            }
        }
        let mut first = NDADDR as u64;
        let mut span = 1;
        for (level, &at) in (0..).zip(indirect) {
            span *= v.nindir;
            if at != 0 && !walk.is_word(at) {
                if first >= walk.blocks {
                    self.past_end(walk.ino, at);
                } else if self.own(walk, at, v.frag) {
                    self.indirect(image, walk, at, level, first);
                }
            }
            first += span;
        }
    }

    /// Follows an indirect block; at level 0 its pointers lead to data.
    fn indirect(
        &mut self,
        image: &dyn ImageBytes,
        w: &mut Walk,
        block: u64,
        level: u32,
        first: u64,
    ) {
        let v = self.volume;
        let Some(bytes) = image.read(block * v.fsize, v.bsize as usize) else { return };
        let entry = |i: u64| pointer(&v, &bytes, (i * v.pointer()) as usize);
        let valid = |at: u64| at.is_multiple_of(v.frag) && v.holds_data(at, v.frag);
        let garbage = |&i: &u64| entry(i) != 0 && !w.is_word(entry(i)) && !valid(entry(i));
        if let Some(i) = (0..v.nindir).find(garbage) {
            let (ino, found) = (w.ino, entry(i));
            self.wrong("F7", || {
                format!("inode {ino}: entry {i} of indirect block {block} is {found:#x}")
            });
            return;
        }
        let span = v.nindir.pow(level);
        for i in 0..v.nindir {
            let (at, lbn) = (entry(i), first + i * span);
            if at == 0 || w.is_word(at) {
                continue;
            }
            if lbn >= w.blocks && w.directory {
                // A directory's size must not cover a hole: the pointer may precede the size.
                self.found.seen.saw(1);
                self.own(w, at, v.frag);
            } else if lbn >= w.blocks {
                self.past_end(w.ino, at);
            } else if self.own(w, at, v.frag) {
                if level == 0 {
                    self.found.tree.runs.push(Run { lbn, at });
                } else {
                    self.indirect(image, w, at, level - 1, lbn);
                }
            }
        }
    }

    /// Records the owner of a run of fragments. Returns whether to follow the run.
    fn own(&mut self, walk: &mut Walk, at: u64, frags: u64) -> bool {
        let (v, ino) = (self.volume, walk.ino);
        if !v.holds_data(at, frags) {
            self.wrong("F3", || {
                format!("inode {ino} points to {frags} fragments at {at:#x}, which are not data")
            });
            return false;
        }
        if let Some(free) = self.groups.first_free(&v, at, frags) {
            self.wrong("F3", || {
                format!("inode {ino} points to fragment {free}, which is marked free")
            });
        }
        walk.fragments += frags;
        self.owned += frags;
        let owners = self.owners.get_mut(at as usize..(at + frags) as usize).unwrap_or(&mut []);
        let other = owners.iter().copied().find(|&owner| owner != 0);
        owners.fill(ino);
        match other {
            None => true,
            Some(other) => {
                self.wrong("F4", || {
                    format!("inodes {other} and {ino} both point to fragments at {at}")
                });
                false
            }
        }
    }
}

impl Walk {
    /// Pointers 1 and 2 of a snapshot are no addresses.
    fn is_word(&self, at: u64) -> bool {
        self.snapshot && (at == 1 || at == 2)
    }
}

/// A pointer; on UFS1 negative ones stay out of range.
pub(super) fn pointer(v: &Volume, bytes: &[u8], at: usize) -> u64 {
    if v.ufs2 { v.order.u64(bytes, at) } else { u64::from(v.order.u32(bytes, at)) }
}

fn decode(v: &Volume, b: &[u8], at: u64, ino: u32) -> (Inode, Pointers) {
    let word = |at| v.order.u32(b, at);
    let long = |at| v.order.u64(b, at);
    let (db, step) = if v.ufs2 { (112, 8) } else { (40, 4) };
    let mut words = [0; NDADDR + NIADDR];
    for (i, slot) in words.iter_mut().enumerate() {
        *slot = pointer(v, b, db + i * step);
    }
    let mut inode = Inode {
        ino,
        mode: v.order.u16(b, 0),
        nlink: v.order.u16(b, 2),
        text: at + db as u64,
        ..Inode::default()
    };
    if !v.ufs2 {
        inode.size = long(8);
        inode.mtime = i64::from(word(24).cast_signed());
        inode.flags = word(100);
        inode.blocks = u64::from(word(104));
        inode.generation = word(108);
        inode.uid = word(112);
        inode.gid = word(116);
        return (inode, Pointers { words, ext: [0; 2] });
    }
    inode.uid = word(4);
    inode.gid = word(8);
    inode.size = long(16);
    inode.blocks = long(24);
    inode.mtime = long(40).cast_signed();
    inode.generation = word(80);
    inode.flags = word(88);
    inode.extsize = word(92);
    (inode, Pointers { words, ext: [long(96), long(104)] })
}
