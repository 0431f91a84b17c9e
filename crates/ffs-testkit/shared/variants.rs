//! For tests: makes a volume of another system out of one of UFS1 that newfs made, field by field.
//! The tests include this file with `#[path]`. It uses no code of ffs: a wrong offset there must
//! not agree with itself here.
//!
//! Sources of the offsets:
//!
//! * illumos, `usr/src/uts/common/sys/fs/`: `ufs_fs.h` (`struct fs`, `cg`, `ocg`, `FSOKAY`,
//!   `fs_clean`, `fs_rolled`, `MTB_UFS_MAGIC`), `ufs_inode.h` (`struct icommon`, `UID_LONG`,
//!   `ISFALLOCBLK`, `i_ordev`), `ufs_fsdir.h` (`struct direct`); `ufs_inode.c` (`expldev`);
//!   `cmd/fs.d/ufs/mkfs/mkfs.c` (`fs_qbmask`).
//! * Linux, `fs/ufs/ufs_fs.h`: where `fs_state` is on SunOS, Solaris and Solaris for x86; the union
//!   of 4.4BSD's and Solaris' fields from byte 1116 on; `struct ufs_old_cylinder_group`.
//! * 4.3BSD, `sys/fs.h`: before 4.3BSD-Tahoe, bytes 860 to 1371 are one table, `fs_postbl[32][8]`,
//!   which newfs fills with −1. This is why 4.4BSD marks old volumes by −1 (`FS_42INODEFMT`,
//!   `FS_42POSTBLFMT`).

/// The system that a volume is to be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// FreeBSD 4: 4.4BSD's inodes, a superblock without 64-bit fields.
    FreeBsd4,
    /// 4.3BSD-Reno: groups as today, old directories and inodes.
    Bsd43,
    /// 4.2BSD: also the old groups.
    Bsd42,
    /// SunOS 4.
    SunOs,
    /// Solaris; its byte order decides between SPARC and x86.
    Solaris,
    /// Solaris' multi-terabyte UFS.
    Mtb,
}

impl System {
    fn is_sun(self) -> bool {
        matches!(self, System::SunOs | System::Solaris | System::Mtb)
    }
}

const SB: usize = 8192;
const NDADDR: usize = 12;
const MODE_TYPE: u16 = 0o170_000;
const DIRECTORY: u16 = 0o040_000;
const SYMLINK: u16 = 0o120_000;
const CHAR: u16 = 0o020_000;
const BLOCK: u16 = 0o060_000;
const REGULAR: u16 = 0o100_000;

/// A volume in memory.
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    pub(crate) big: bool,
}

impl Image {
    /// The volume `bytes`, which newfs of ffs made.
    pub(crate) fn new(bytes: Vec<u8>) -> Image {
        let big = bytes[SB + 1372..SB + 1376] == 0x0001_1954_u32.to_be_bytes();
        Image { bytes, big }
    }

    pub(crate) fn get(&self, at: usize, size: usize) -> u64 {
        let mut bytes: Vec<u8> = self.bytes[at..at + size].to_vec();
        if self.big {
            bytes.reverse();
        }
        bytes.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))
    }

    pub(crate) fn put(&mut self, at: usize, size: usize, value: u64) {
        let mut bytes = value.to_le_bytes()[..size].to_vec();
        if self.big {
            bytes.reverse();
        }
        self.bytes[at..at + size].copy_from_slice(&bytes);
    }

    /// A 32-bit field of the superblock.
    pub(crate) fn sb(&self, off: usize) -> usize {
        self.get(SB + off, 4) as usize
    }

    pub(crate) fn set_sb(&mut self, off: usize, value: u64) {
        self.put(SB + off, 4, value);
    }

    fn fsize(&self) -> usize {
        self.sb(52)
    }

    fn groups(&self) -> usize {
        self.sb(44)
    }

    fn fpg(&self) -> usize {
        self.sb(188)
    }

    /// Fragments by which the metadata of group `c` is moved: `fs_cgoffset`, `fs_cgmask`.
    fn turn(&self, c: usize) -> usize {
        self.sb(24) * (c & !self.sb(28) & 0xffff_ffff)
    }

    /// Byte offset of a part of group `c`, which is `part` fragments after the start of its
    /// metadata.
    pub(crate) fn in_group(&self, c: usize, part: usize) -> usize {
        (self.fpg() * c + self.turn(c) + part) * self.fsize()
    }

    /// Byte offset of the header of group `c`.
    pub(crate) fn group(&self, c: usize) -> usize {
        self.in_group(c, self.sb(12))
    }

    /// Byte offset of inode `ino`.
    pub(crate) fn inode(&self, ino: usize) -> usize {
        let ipg = self.sb(184);
        self.in_group(ino / ipg, self.sb(16)) + ino % ipg * 128
    }

    fn used_inodes(&self) -> Vec<usize> {
        let all = 2..self.groups() * self.sb(184);
        all.filter(|&ino| self.get(self.inode(ino), 2) != 0).collect()
    }

    fn kind(&self, ino: usize) -> u16 {
        self.get(self.inode(ino), 2) as u16 & MODE_TYPE
    }

    fn is_inline(&self, ino: usize) -> bool {
        self.kind(ino) == SYMLINK && self.get(self.inode(ino) + 8, 8) < 60
    }

    /// The byte offsets of all pointers of a file, those in indirect blocks included.
    fn pointers(&self, ino: usize) -> Vec<usize> {
        let at = self.inode(ino);
        if !matches!(self.kind(ino), DIRECTORY | SYMLINK | REGULAR) || self.is_inline(ino) {
            return Vec::new();
        }
        let mut out: Vec<usize> = (0..NDADDR).map(|i| at + 40 + 4 * i).collect();
        for level in 1..=3 {
            self.below(at + 84 + 4 * level, level, &mut out);
        }
        out
    }

    fn below(&self, pointer: usize, levels: usize, out: &mut Vec<usize>) {
        out.push(pointer);
        let frag = self.get(pointer, 4) as usize;
        if levels == 0 || frag == 0 {
            return;
        }
        for i in 0..self.sb(116) {
            self.below(frag * self.fsize() + 4 * i, levels - 1, out);
        }
    }

    /// The chunks of a directory, as byte offsets.
    pub(crate) fn chunks(&self, ino: usize) -> Vec<usize> {
        let (size, bsize) = (self.get(self.inode(ino) + 8, 8) as usize, self.sb(48));
        let direct = (0..NDADDR).map(|i| self.get(self.inode(ino) + 40 + 4 * i, 4) as usize);
        assert!(size <= NDADDR * bsize, "a directory of the builder has direct blocks only");
        let blocks = direct.enumerate().filter(|&(i, frag)| frag != 0 && i * bsize < size);
        let start = |(i, frag): (usize, usize)| {
            (0..bsize.min(size - i * bsize)).step_by(512).map(move |o| frag * self.fsize() + o)
        };
        blocks.flat_map(start).collect()
    }

    /// Moves the metadata of the groups, as systems did before 4.4BSD: `step` fragments for each
    /// bit of the number of the group that `mask` leaves. The data there goes where the metadata
    /// was, and all pointers follow.
    pub(crate) fn rotate(&mut self, step: usize, mask: u32) {
        assert_eq!(self.sb(24), 0, "not rotated yet");
        let (first, last, fsize) = (self.sb(8), self.sb(20), self.fsize());
        let turn = |c: usize| step * (c & (!mask) as usize);
        let fpg = self.fpg();
        let moved = |frag: usize| {
            let (c, r) = (frag / fpg, frag % fpg);
            let data = last..last + turn(c);
            if data.contains(&r) { frag - (last - first) } else { frag }
        };
        let inodes = self.used_inodes();
        let pointers: Vec<usize> = inodes.iter().flat_map(|&ino| self.pointers(ino)).collect();
        for pointer in pointers {
            let frag = self.get(pointer, 4) as usize;
            self.put(pointer, 4, moved(frag) as u64);
        }
        for c in 0..self.groups() {
            let group = self.group(c);
            let map = group + self.get(group + 96, 4) as usize;
            let free: Vec<bool> = (0..fpg).map(|f| self.bit(map, f)).collect();
            for (f, is_free) in free.iter().enumerate() {
                let metadata = (first..last).contains(&f);
                let to = if metadata { f + turn(c) } else { moved(c * fpg + f) % fpg };
                self.set_bit(map, to, *is_free);
            }
            let start = (c * fpg + first) * fsize;
            let end = (c * fpg + last + turn(c)) * fsize;
            self.bytes[start..end].rotate_left((last - first) * fsize);
        }
        self.set_sb(24, step as u64);
        self.set_sb(28, mask.into());
        self.copy_superblock();
    }

    fn bit(&self, map: usize, n: usize) -> bool {
        self.bytes[map + n / 8] >> (n % 8) & 1 == 1
    }

    fn set_bit(&mut self, map: usize, n: usize, on: bool) {
        let byte = &mut self.bytes[map + n / 8];
        *byte = *byte & !(1 << (n % 8)) | u8::from(on) << (n % 8);
    }

    /// Makes this a volume of `system`.
    pub(crate) fn convert(&mut self, system: System) {
        if system != System::FreeBsd4 {
            for ino in self.used_inodes() {
                if self.is_inline(ino) {
                    self.give_link_a_block(ino);
                }
                if self.kind(ino) == DIRECTORY {
                    self.drop_types(ino);
                }
                self.old_inode(ino, system);
            }
            for c in 0..self.groups() {
                self.old_group(c, system == System::Bsd42);
            }
        }
        match system {
            System::FreeBsd4 => self.freebsd4_superblock(),
            System::Bsd42 | System::Bsd43 => self.bsd_superblock(system == System::Bsd42),
            System::SunOs | System::Solaris | System::Mtb => self.sun_superblock(system),
        }
        self.copy_superblock();
    }

    /// Writes the superblock to its backups.
    pub(crate) fn copy_superblock(&mut self) {
        for c in 0..self.groups() {
            let to = self.in_group(c, self.sb(8));
            self.bytes.copy_within(SB..SB + 2048, to);
        }
    }

    /// Only 4.4BSD has the text of short links in the inode.
    fn give_link_a_block(&mut self, ino: usize) {
        let (at, fsize) = (self.inode(ino), self.fsize());
        let text = self.bytes[at + 40..at + 100].to_vec();
        let c = ino / self.sb(184);
        let group = self.group(c);
        let map = group + self.get(group + 96, 4) as usize;
        let frag = (0..self.fpg()).find(|&f| self.bit(map, f)).unwrap();
        self.set_bit(map, frag, false);
        let frag = c * self.fpg() + frag;
        self.bytes[frag * fsize..(frag + 1) * fsize].fill(0);
        self.bytes[frag * fsize..frag * fsize + 60].copy_from_slice(&text);
        self.bytes[at + 40..at + 100].fill(0);
        self.put(at + 40, 4, frag as u64);
        self.put(at + 104, 4, fsize as u64 / 512);
    }

    /// Bytes 6 and 7 of an entry were a 16-bit length before 4.4BSD, and are in Solaris.
    fn drop_types(&mut self, ino: usize) {
        for chunk in self.chunks(ino) {
            let mut off = 0;
            while off < 512 {
                let length = u64::from(self.bytes[chunk + off + 7]);
                self.put(chunk + off + 6, 2, length);
                off += self.get(chunk + off + 4, 2) as usize;
            }
        }
    }

    fn old_inode(&mut self, ino: usize, system: System) {
        let at = self.inode(ino);
        let (uid, gid) = (self.get(at + 112, 4), self.get(at + 116, 4));
        let short = |id: u64| if id < 65535 { id } else { 65535 };
        self.put(at + 4, 2, short(uid));
        self.put(at + 6, 2, short(gid));
        self.put(at + 100, 4, 0);
        self.bytes[at + 112..at + 128].fill(0);
        // 4.3BSD has spares where later systems have the fraction of a second.
        let unit = if system.is_sun() { 1000 } else { 2_000_000_000 };
        for time in [20, 28, 36] {
            let fraction = self.get(at + time, 4) / unit;
            self.put(at + time, 4, fraction);
        }
        if !system.is_sun() {
            return;
        }
        self.put(at + 116, 4, uid);
        self.put(at + 120, 4, gid);
        if matches!(self.kind(ino), CHAR | BLOCK) {
            // `i_ordev`: the second pointer on little-endian machines.
            let number = self.get(at + 40, 4);
            let (major, minor) = (number >> 8 & 0xff, number & 0xffff_00ff);
            let long = major << 18 | minor;
            self.put(at + 40, 4, 0);
            let place = if self.big { 40 } else { 44 };
            self.put(at + place, 4, if minor > 0xff { long } else { number });
        }
    }

    /// Groups without cluster maps; `ancient` ones have the tables of 4.2BSD, `struct ocg`.
    fn old_group(&mut self, c: usize, ancient: bool) {
        let (group, ipg, fpg) = (self.group(c), self.sb(184), self.fpg());
        let (bsize, cgsize) = (self.sb(48), self.sb(160));
        let map = self.get(group + 96, 4) as usize;
        let end = map + fpg.div_ceil(8);
        if !ancient {
            self.bytes[group + end..group + cgsize].fill(0);
            self.bytes[group + 104..group + 168].fill(0);
            self.put(group + 100, 4, end as u64);
            return;
        }
        assert!(ipg <= 2048, "{ipg} inodes in a group");
        let used = group + self.get(group + 92, 4) as usize;
        let used = self.bytes[used..used + ipg / 8].to_vec();
        let free = self.bytes[group + map..group + end].to_vec();
        self.bytes[group + 84..group + bsize].fill(0);
        self.put(group + 4, 4, 0);
        self.bytes[group + 724..group + 724 + used.len()].copy_from_slice(&used);
        self.put(group + 980, 4, 0x0009_0255);
        self.bytes[group + 984..group + 984 + free.len()].copy_from_slice(&free);
    }

    /// `fs_maxbsize` and the 64-bit fields were a table of positions, the flags in byte 211.
    fn freebsd4_superblock(&mut self) {
        let flags = self.bytes[SB + 1312..SB + 1316].to_vec();
        self.bytes[SB + 211] = if self.big { flags[3] } else { flags[0] } & 0x7f;
        self.bytes[SB + 860..SB + 1316].fill(0);
    }

    fn bsd_superblock(&mut self, ancient: bool) {
        let (bmask, fmask) = (self.sb(48) as u64 - 1, self.sb(52) as u64 - 1);
        // Neither a clean flag nor flags, and a longer name of the mount point.
        self.bytes[SB + 209..SB + 728].fill(0);
        self.bytes[SB + 212..SB + 216].copy_from_slice(b"/usr");
        self.bytes[SB + 860..SB + 1372].fill(if ancient { 0xff } else { 0 });
        if ancient {
            self.bytes[SB + 132..SB + 152].fill(0);
            let size = (984 + self.fpg().div_ceil(8)).next_multiple_of(self.fsize());
            self.set_sb(160, size as u64);
            return;
        }
        self.put(SB + 1340, 8, bmask);
        self.put(SB + 1348, 8, fmask);
        self.set_sb(1356, 1);
        self.set_sb(1360, 1);
    }

    fn sun_superblock(&mut self, system: System) {
        let (bmask, fmask) = (self.sb(48) as u64 - 1, self.sb(52) as u64 - 1);
        let state = 0x7c26_9d38_u32.wrapping_sub(self.sb(32) as u32);
        self.bytes[SB + 860..SB + 1116].fill(0xff);
        self.bytes[SB + 1116..SB + 1372].fill(0);
        self.bytes[SB + 209] = 1;
        self.bytes[SB + 211..SB + 728].fill(0);
        self.bytes[SB + 212..SB + 219].copy_from_slice(b"/export");
        self.put(SB + 1340, 8, bmask);
        self.put(SB + 1348, 8, fmask);
        self.set_sb(136, 0);
        self.set_sb(1356, 1);
        self.set_sb(1360, 1);
        let state_at = match (system, self.big) {
            (System::SunOs, _) => 0,
            (_, true) => 1336,
            (_, false) => 132,
        };
        self.set_sb(state_at, state.into());
        if system == System::Mtb {
            self.set_sb(1320, 1);
            self.set_sb(1372, 0x00de_cade);
        }
    }
}
