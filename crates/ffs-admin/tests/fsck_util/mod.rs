//! Small volumes with a known tree, functions to damage them, and a reader that shares no code with
//! the check.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "test support")]

pub mod suj;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, Id, exit};
use ffs_admin::newfs;
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::bmap::{self, Path};
use ffs_ondisk::dir::{self, DirFormat, Record};
use ffs_ondisk::wire::{get, put};
use ffs_ondisk::{
    CgMut, CgNo, Dinode, Endian, FileType, Format, FragNo, Geometry, Ino, Lbn, sbsearch,
};
use ffs_testkit::rng::fill;

/// Byte order, format, block size, fragment size, bytes.
pub type Kind = (Endian, Format, u32, u32, u64);

/// A volume in memory.
pub struct Img {
    pub dev: Arc<MemDevice>,
    pub g: Geometry,
    next_ino: u32,
    next_block: u64,
}

/// One object of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub ino: u32,
    pub mode: u16,
    pub nlink: u16,
    pub uid: u32,
    pub size: u64,
    pub content: Vec<u8>,
}

/// Parameters of the test volumes: byte order, format, block and fragment size, megabytes.
pub const KINDS: [Kind; 4] = [
    (Endian::Little, Format::Ufs2, 4096, 512, 4 << 20),
    (Endian::Big, Format::Ufs1, 4096, 512, 4 << 20),
    (Endian::Little, Format::Ufs1, 8192, 1024, 8 << 20),
    (Endian::Big, Format::Ufs2, 32768, 4096, 16 << 20),
];

impl Img {
    /// The volume in `bytes`.
    pub fn of(bytes: &[u8]) -> Img {
        Img::on(Arc::new(MemDevice::from_bytes(bytes)))
    }

    /// The volume on `dev`.
    pub fn on(dev: Arc<MemDevice>) -> Img {
        let read = |at: u64, len: usize| -> Result<Vec<u8>, ffs_device::DeviceError> {
            let mut b = vec![0; len];
            dev.read_at(at, &mut b).map(|()| b)
        };
        let g = sbsearch::find(read, Some(dev.len_bytes())).unwrap().geometry;
        Img { dev, g, next_ino: 10, next_block: 0 }
    }

    /// A new volume.
    pub fn fresh(kind: Kind) -> Img {
        let (endian, format, bsize, fsize, bytes) = kind;
        Img::on(Arc::new(newfs::quick(endian, format, bsize, fsize, bytes).unwrap()))
    }

    /// A volume with one object of every type; the check built its maps.
    pub fn with_tree(kind: Kind) -> Img {
        static MADE: Mutex<Vec<(Kind, Img)>> = Mutex::new(Vec::new());
        let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, img)) = made.iter().find(|(k, _)| *k == kind) {
            return img.copy();
        }
        let img = Img::make_tree(kind);
        made.push((kind, img.copy()));
        img
    }

    fn make_tree(kind: Kind) -> Img {
        let mut img = Img::fresh(kind);
        let b = u64::from(img.g.bsize);
        let f = u64::from(img.g.fsize);
        let a = img.mkdir(2, "a");
        let sub = img.mkdir(a, "b");
        img.file(2, "small", f - 7);
        img.file(a, "two-frags", f + 1);
        img.file(a, "blocks", 5 * b + f);
        img.file(sub, "indirect", 14 * b + 100);
        let n = u64::from(img.g.nindir);
        if n < 1100 {
            img.sparse(sub, "double", (12 + n + 3) * b - 5, &[0, 13, 12 + n + 2]);
        } else {
            img.sparse(sub, "double", 20 * b - 5, &[0, 13, 19]);
        }
        let hard = img.file(a, "hard", 3 * f);
        img.link(sub, "other-name", hard, 8);
        img.symlink(a, "short", b"target");
        img.symlink(a, "long", &[b'x'; 300]);
        img.special(a, "fifo", FileType::Fifo, 0);
        img.special(a, "dev", FileType::Char, 0x1234);
        img.mkdir(sub, "empty");
        let report = img.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
        use Id::{CgAllocFree, CgMaps, CgSummary, CsCg, CsTotal};
        let maps = [CgAllocFree, CgMaps, CgSummary, CsCg, CsTotal];
        let odd: Vec<_> = report.findings.iter().filter(|f| !maps.contains(&f.id)).collect();
        assert!(odd.is_empty(), "the builder is wrong: {odd:#?}");
        img.silent();
        img
    }

    /// An independent copy.
    pub fn copy(&self) -> Img {
        let dev = Arc::new(self.dev.snapshot());
        Img { dev, g: self.g, next_ino: self.next_ino, next_block: self.next_block }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.dev.to_vec()
    }

    pub fn fsck(&self, options: FsckOptions) -> FsckReport {
        let dev: Arc<dyn BlockDevice> = self.dev.clone();
        Fsck::new(dev, FsckOptions { force: true, ..options }.at(1_700_000_000)).run()
    }

    /// Asserts that a check finds nothing.
    pub fn silent(&self) {
        let report = self.fsck(FsckOptions::no());
        assert!(report.is_silent(), "{:#?} {:?}", report.findings, report.stopped);
    }

    pub fn dev_len(&self) -> u64 {
        self.dev.len_bytes()
    }

    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut b = vec![0; len];
        self.dev.read_at(at, &mut b).unwrap();
        b
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.dev.write_at(at, bytes).unwrap();
    }

    /// Byte offset of inode `ino`.
    pub fn inode_at(&self, ino: u32) -> u64 {
        let ino = Ino(ino);
        self.g.frag_to_byte(self.g.ino_to_fsba(ino)) + self.g.ino_to_fsbo(ino) as u64
    }

    pub fn inode(&self, ino: u32) -> Dinode {
        Dinode::decode(&self.g, &self.read(self.inode_at(ino), self.g.format.dinode_size()))
    }

    /// Writes an inode with the correct check hash.
    pub fn set_inode(&self, ino: u32, d: &Dinode) {
        let mut raw = self.read(self.inode_at(ino), self.g.format.dinode_size());
        d.encode(&self.g, &mut raw);
        self.write(self.inode_at(ino), &raw);
    }

    pub fn edit(&self, ino: u32, change: impl FnOnce(&mut Dinode)) {
        let mut d = self.inode(ino);
        change(&mut d);
        self.set_inode(ino, &d);
    }

    /// Byte offset of group `c`'s block.
    pub fn group_at(&self, c: u32) -> u64 {
        self.g.frag_to_byte(self.g.cgtod(CgNo(c)))
    }

    /// Changes the block of group `c` and corrects its check hash.
    pub fn edit_group(&self, c: u32, change: impl FnOnce(&Geometry, &mut [u8])) {
        let mut b = self.read(self.group_at(c), self.g.cgsize as usize);
        change(&self.g, &mut b);
        ffs_ondisk::cg::rehash(&self.g, &mut b);
        self.write(self.group_at(c), &b);
    }

    pub fn fmt(&self) -> DirFormat {
        DirFormat::of(&self.g)
    }

    /// Pointer to logical block `l` of `d`; 0 = hole.
    pub fn pointer(&self, d: &Dinode, l: u64) -> i64 {
        match bmap::path(&self.g, Lbn(l)) {
            Some(Path::Direct(i)) => d.db[i],
            Some(Path::Indirect { levels, index }) => {
                let mut at = d.ib[levels - 1];
                for slot in &index[..levels] {
                    if at <= 0 {
                        return 0;
                    }
                    at = self.slot(at, *slot);
                }
                at
            }
            None => 0,
        }
    }

    fn slot_at(&self, block: i64, slot: u32) -> u64 {
        let size = self.g.format.pointer_size() as u64;
        block as u64 * u64::from(self.g.fsize) + u64::from(slot) * size
    }

    /// Pointer `slot` of the indirect block at `block`.
    pub fn slot(&self, block: i64, slot: u32) -> i64 {
        let raw = self.read(self.slot_at(block, slot), self.g.format.pointer_size());
        match self.g.format {
            Format::Ufs1 => get::<i32>(&raw, 0, self.g.endian).into(),
            Format::Ufs2 => get(&raw, 0, self.g.endian),
        }
    }

    pub fn set_slot(&self, block: i64, slot: u32, value: i64) {
        let mut raw = vec![0; self.g.format.pointer_size()];
        match self.g.format {
            Format::Ufs1 => put(&mut raw, 0, self.g.endian, value as i32),
            Format::Ufs2 => put(&mut raw, 0, self.g.endian, value),
        }
        self.write(self.slot_at(block, slot), &raw);
    }

    /// The bytes of a file; of very large (sparse) files only the pointers in the inode.
    pub fn content(&self, d: &Dinode) -> Vec<u8> {
        let b = u64::from(self.g.bsize);
        if d.size > 16 << 20 {
            return format!("{:?} {:?}", d.db, d.ib).into_bytes();
        }
        let mut out = Vec::new();
        for l in 0..d.size.div_ceil(b) {
            let n = b.min(d.size - l * b) as usize;
            let at = self.pointer(d, l);
            let bytes = if at > 0 { (at as u64).checked_mul(self.g.fsize.into()) } else { None };
            let mut piece = vec![0; n];
            if let Some(at) = bytes {
                let _ = self.dev.read_at(at, &mut piece);
            }
            out.extend(piece);
        }
        out
    }

    /// Live entries of a directory: byte offset on the device, inode, type, name.
    pub fn entries(&self, ino: u32) -> Vec<(u64, u32, u8, Vec<u8>)> {
        let d = self.inode(ino);
        let mut out = Vec::new();
        for l in 0..d.size.div_ceil(self.g.bsize.into()) {
            let at = self.pointer(&d, l) as u64 * u64::from(self.g.fsize);
            let len = (d.size - l * u64::from(self.g.bsize)).min(self.g.bsize.into());
            let block = self.read(at, len as usize);
            for (i, dirblk) in block.chunks(512).enumerate() {
                for r in dir::records(self.fmt(), dirblk).filter_map(Result::ok) {
                    if r.live() {
                        let off = at + (i * 512 + r.off) as u64;
                        out.push((off, r.ino, r.dtype, r.name.to_vec()));
                    }
                }
            }
        }
        out
    }

    /// Byte offset and inode number of entry `name` of directory `dir`.
    pub fn entry(&self, dir: u32, name: &str) -> (u64, u32) {
        let all = self.entries(dir);
        let hit = all.iter().find(|e| e.3 == name.as_bytes());
        hit.map(|e| (e.0, e.1)).unwrap_or_else(|| panic!("no {name} in {dir}: {all:?}"))
    }

    /// Inode number of a path like `a/b/indirect`.
    pub fn ino(&self, path: &str) -> u32 {
        path.split('/').filter(|p| !p.is_empty()).fold(2, |dir, name| self.entry(dir, name).1)
    }

    /// The whole tree by path; each directory is entered once.
    pub fn tree(&self) -> BTreeMap<String, Item> {
        let mut out = BTreeMap::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut work = vec![(2u32, String::new())];
        while let Some((ino, path)) = work.pop() {
            let d = self.inode(ino);
            let content = match d.file_type() {
                Some(FileType::Regular) => self.content(&d),
                Some(FileType::Symlink) if d.is_short_symlink(&self.g) => {
                    d.short.text(d.size).to_vec()
                }
                Some(FileType::Symlink) => self.content(&d),
                _ => Vec::new(),
            };
            if d.is_dir() && seen.insert(ino) {
                for (_, child, _, name) in self.entries(ino) {
                    if name != b"." && name != b".." && child >= 2 && child < self.g.inodes() {
                        let name = String::from_utf8_lossy(&name).into_owned();
                        work.push((child, format!("{path}/{name}")));
                    }
                }
            }
            let (mode, nlink, uid, size) = (d.mode, d.nlink, d.uid, d.size);
            out.insert(path, Item { ino, mode, nlink, uid, size, content });
        }
        out
    }

    // --- the builder ---

    fn block(&mut self, frags: u32) -> i64 {
        loop {
            let at = FragNo(self.next_block);
            assert!(at.0 < self.g.size, "test volume too small");
            self.next_block += u64::from(self.g.frag);
            let used = {
                let c = self.g.dtog(at);
                let b = self.read(self.group_at(c.0), self.g.cgsize as usize);
                !ffs_ondisk::Cg::new(&self.g, &b).block_free(self.g.dtogd(at) / self.g.frag)
            };
            if !used && self.g.run_problem(at, frags).is_none() {
                let c = self.g.dtog(at);
                self.edit_group(c.0, |g, b| {
                    for f in 0..frags {
                        CgMut::new(g, b).set_frag_free(g.dtogd(at) + f, false);
                    }
                });
                return at.0 as i64;
            }
        }
    }

    fn new_inode(&mut self, kind: FileType) -> (u32, Dinode) {
        let ino = self.next_ino;
        self.next_ino += 1;
        self.edit_group(0, |g, b| CgMut::new(g, b).set_inode_used(ino, true));
        let d = Dinode {
            mode: kind.mode_bits() | 0o644,
            nlink: 1,
            uid: 1000 + ino,
            generation: ino,
            ..Dinode::default()
        };
        (ino, d)
    }

    fn put_data(&mut self, d: &mut Dinode, l: u64, bytes: &[u8]) {
        let g = self.g;
        let frags = g.blksize(d.size, Lbn(l)) / g.fsize;
        let at = self.block(frags);
        self.write(at as u64 * u64::from(g.fsize), bytes);
        d.blocks += g.frags_to_sectors(frags.into());
        match bmap::path(&g, Lbn(l)).unwrap() {
            Path::Direct(i) => d.db[i] = at,
            Path::Indirect { levels, index } => {
                if d.ib[levels - 1] == 0 {
                    d.ib[levels - 1] = self.block(g.frag);
                    d.blocks += g.frags_to_sectors(g.frag.into());
                }
                let mut ind = d.ib[levels - 1];
                for slot in &index[..levels - 1] {
                    if self.slot(ind, *slot) == 0 {
                        let new = self.block(g.frag);
                        self.set_slot(ind, *slot, new);
                        d.blocks += g.frags_to_sectors(g.frag.into());
                    }
                    ind = self.slot(ind, *slot);
                }
                self.set_slot(ind, index[levels - 1], at);
            }
        }
    }

    /// Gives the file `ino` this area of extended attributes, of at most two blocks.
    pub fn attributes(&mut self, ino: u32, area: &[u8]) {
        let g = self.g;
        let mut d = self.inode(ino);
        d.extsize = area.len() as u32;
        for (i, piece) in area.chunks(g.bsize as usize).enumerate() {
            let frags = d.ext_frags(&g, i as u64);
            d.extb[i] = self.block(frags);
            d.blocks += g.frags_to_sectors(frags.into());
            self.write(d.extb[i] as u64 * u64::from(g.fsize), piece);
        }
        self.set_inode(ino, &d);
    }

    pub fn link(&mut self, dir: u32, name: &str, ino: u32, dtype: u8) {
        self.add_entry(dir, name.as_bytes(), ino, dtype);
        self.edit(ino, |d| d.nlink += 1);
    }

    /// Adds a name in the first directory block without changing link counts.
    pub fn add_entry(&self, dir: u32, name: &[u8], ino: u32, dtype: u8) {
        let at = self.inode(dir).db[0] as u64 * u64::from(self.g.fsize);
        let mut dirblk = self.read(at, 512);
        let fmt = self.fmt();
        let need = dir::dirsiz(name.len());
        let (off, used, reclen) = dir::records(fmt, &dirblk)
            .map(Result::unwrap)
            .find(|r| r.slack() >= need)
            .map(|r| (r.off, if r.live() { dir::dirsiz(r.name.len()) } else { 0 }, r.reclen))
            .unwrap();
        if used > 0 {
            dir::set_reclen(fmt, &mut dirblk, off, used);
        }
        let rec = Record { off: off + used, ino, reclen: reclen - used, dtype, name };
        dir::write(fmt, &mut dirblk, &rec);
        self.write(at, &dirblk);
    }

    pub fn mkdir(&mut self, parent: u32, name: &str) -> u32 {
        let (ino, mut d) = self.new_inode(FileType::Directory);
        d.nlink = 2;
        d.size = 512;
        let mut dirblk = vec![0; 512];
        let fmt = self.fmt();
        let dot = Record { off: 0, ino, reclen: 12, dtype: 4, name: b"." };
        dir::write(fmt, &mut dirblk, &dot);
        let dotdot = Record { off: 12, ino: parent, reclen: 500, dtype: 4, name: b".." };
        dir::write(fmt, &mut dirblk, &dotdot);
        self.put_data(&mut d, 0, &dirblk);
        self.set_inode(ino, &d);
        self.add_entry(parent, name.as_bytes(), ino, 4);
        self.edit(parent, |d| d.nlink += 1);
        ino
    }

    pub fn file(&mut self, parent: u32, name: &str, size: u64) -> u32 {
        let all: Vec<u64> = (0..size.div_ceil(self.g.bsize.into())).collect();
        self.sparse(parent, name, size, &all)
    }

    pub fn sparse(&mut self, parent: u32, name: &str, size: u64, blocks: &[u64]) -> u32 {
        let (ino, mut d) = self.new_inode(FileType::Regular);
        d.size = size;
        let b = u64::from(self.g.bsize);
        for &l in blocks {
            let n = b.min(size - l * b) as usize;
            self.put_data(&mut d, l, &fill(n, u64::from(ino) * 1000 + l, 0));
        }
        self.set_inode(ino, &d);
        self.add_entry(parent, name.as_bytes(), ino, 8);
        ino
    }

    pub fn symlink(&mut self, parent: u32, name: &str, text: &[u8]) -> u32 {
        let (ino, mut d) = self.new_inode(FileType::Symlink);
        d.size = text.len() as u64;
        if text.len() < self.g.format.short_symlink_capacity() {
            d.short = ffs_ondisk::dinode::ShortLink::new(text);
        } else {
            self.put_data(&mut d, 0, text);
        }
        self.set_inode(ino, &d);
        self.add_entry(parent, name.as_bytes(), ino, 10);
        ino
    }

    pub fn special(&mut self, parent: u32, name: &str, kind: FileType, rdev: i64) -> u32 {
        let (ino, mut d) = self.new_inode(kind);
        d.db[0] = rdev;
        self.set_inode(ino, &d);
        self.add_entry(parent, name.as_bytes(), ino, kind.dirent());
        ino
    }
}
