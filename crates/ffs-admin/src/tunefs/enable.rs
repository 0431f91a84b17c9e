//! Enabling the soft-updates journal: making its file (`spec/on-disk-format.md` §14).
//!
//! **Invariants.**
//! 1. Everything is decided before the first write.
//! 2. The volume is marked unclean first and clean last, with a flush after each step. In between,
//!    maps are written before the inode, the blocks before the inode, and the inode before its
//!    name, so that `fsck -p` repairs what an interruption leaves.
//! 3. The file has no hole. Its blocks follow each other as far as free blocks do.

use std::collections::BTreeMap;

use ffs_ondisk::bmap::{self, Path, set_pointer};
use ffs_ondisk::cg::{Cg, CgMut, rehash, validate};
use ffs_ondisk::dir::{self, DirFormat, Record};
use ffs_ondisk::geometry::{DIRBLKSIZ, NDADDR};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{
    CgNo, Csum, Dinode, FileFlags, FileType, Format, FragNo, Geometry, Ino, Lbn, Timespec, dinode,
    journal,
};

use super::journal::{find, read_inode};
use crate::newfs::group::recount;
use crate::rules::{Rule, flush_for};
use crate::{AdminError, Volume};

/// The change of a volume that gets a journal.
pub(super) struct Plan {
    groups: BTreeMap<u32, Vec<u8>>,
    /// Blocks with their content, which are written before the inodes.
    blocks: Vec<(FragNo, Vec<u8>)>,
    /// Blocks of the journal, which are zeroed.
    zeros: Vec<FragNo>,
    ino: Ino,
    inode: Dinode,
    root: RootChange,
}

/// The new name in the root directory.
struct RootChange {
    /// The directory's inode, if it changes.
    inode: Option<Dinode>,
    /// The block that gets the name, and its content; `None` if the name is there.
    block: Option<(FragNo, Vec<u8>)>,
}

fn refuse<T>(why: impl Into<String>) -> Result<T, AdminError> {
    Err(AdminError::Refused(why.into()))
}

/// Plans a journal of `size` bytes, or of the default size. Changes `vol.sb`: its flags and totals.
pub(super) fn plan(
    vol: &mut Volume<'_>,
    size: Option<u64>,
    now: i64,
    notes: &mut Vec<String>,
) -> Result<Plan, AdminError> {
    let g = vol.geo;
    if !vol.sb.is_clean() {
        return refuse("soft updates journaling cannot be enabled until fsck is run");
    }
    if vol.sb.old_layout || g.maxsymlinklen == 0 || g.old_ids {
        return refuse("the file system is older than soft updates journaling");
    }
    if vol.sb.f.snapinum.iter().any(|&i| i != 0) {
        return refuse("the file system has snapshots: remove them first");
    }
    let bytes = size.unwrap_or_else(|| journal::default_size(&g));
    let bytes = bytes - bytes % u64::from(g.bsize);
    if bytes < journal::MIN_BYTES {
        let least = journal::MIN_BYTES;
        return Err(AdminError::option("-S", format!("at least {least} bytes of whole blocks")));
    }
    if !vol.sb.flags().contains(FsFlags::DOSOFTDEP) {
        notes.push("soft updates are enabled too: the journal needs them".into());
    }
    vol.sb.set_flags(vol.sb.flags() | FsFlags::SUJ | FsFlags::DOSOFTDEP);
    vol.sb.f.sujfree = 0;
    if let Some(ino) = find(vol)? {
        return reuse(vol, ino, notes);
    }
    let mut maker = Maker { vol, groups: BTreeMap::new(), blocks: BTreeMap::new() };
    maker.make(bytes, now)
}

/// Uses an existing file, such as that of a journal that was disabled.
fn reuse(vol: &Volume<'_>, ino: Ino, notes: &mut Vec<String>) -> Result<Plan, AdminError> {
    let g = &vol.geo;
    let (mut inode, _, _) = read_inode(vol, ino)?;
    let (size, bsize) = (inode.size, u64::from(g.bsize));
    let whole = inode.blocks >= size / ffs_ondisk::geometry::DEV_BSIZE;
    let regular = inode.file_type() == Some(FileType::Regular);
    let usable = size >= journal::MIN_BYTES && size.is_multiple_of(bsize) && whole;
    if !regular || inode.nlink != 1 || !usable {
        return refuse("the root has a file .sujournal that cannot be a journal: remove it");
    }
    journal_attributes(&mut inode);
    notes.push(format!("using inode {ino} for the journal"));
    let root = RootChange { inode: None, block: None };
    let (groups, blocks, zeros) = (BTreeMap::new(), Vec::new(), Vec::new());
    Ok(Plan { groups, blocks, zeros, ino, inode, root })
}

/// Mode and flags of a journal. The next mount that keeps it makes it usable; until then its
/// `di_modrev` differs from every `fs_mtime`.
fn journal_attributes(inode: &mut Dinode) {
    inode.mode = FileType::Regular.mode_bits() | 0o400;
    inode.flags = FileFlags::SF_IMMUTABLE | FileFlags::SF_NOUNLINK | FileFlags::UF_NODUMP;
    inode.modrev = 0;
}

/// Allocation for the new file.
struct Maker<'v, 'd> {
    vol: &'v mut Volume<'d>,
    groups: BTreeMap<u32, Vec<u8>>,
    /// New indirect blocks by their first fragment.
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Maker<'_, '_> {
    fn make(&mut self, bytes: u64, now: i64) -> Result<Plan, AdminError> {
        let g = self.vol.geo;
        let ino = self.take_inode()?;
        let root = self.enter(ino)?;
        let count = bytes / u64::from(g.bsize);
        let mut from = self.emptiest_group()?;
        let time = Timespec { secs: now, nsec: 0 };
        let (old, _, _) = raw_inode(self.vol, ino)?;
        let mut inode = Dinode {
            nlink: 1,
            size: bytes,
            generation: old.generation.wrapping_add(1),
            atime: time,
            mtime: time,
            ctime: time,
            birthtime: if g.format == Format::Ufs2 { time } else { Timespec::default() },
            ..Dinode::default()
        };
        journal_attributes(&mut inode);
        let mut zeros = Vec::new();
        for l in 0..count {
            let at = self.take_block(&mut from)?;
            zeros.push(at);
            self.map(&mut inode, Lbn(l), at, &mut from)?;
        }
        inode.blocks = g.frags_to_sectors((count + self.blocks.len() as u64) * u64::from(g.frag));
        self.count_groups()?;
        let blocks = std::mem::take(&mut self.blocks).into_iter();
        let blocks = blocks.map(|(at, bytes)| (FragNo(at), bytes)).collect();
        let groups = std::mem::take(&mut self.groups);
        Ok(Plan { groups, blocks, zeros, ino, inode, root })
    }

    fn group(&mut self, c: u32) -> Result<&mut Vec<u8>, AdminError> {
        use std::collections::btree_map::Entry;
        match self.groups.entry(c) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let block = self.vol.read_cg(CgNo(c))?;
                validate(&self.vol.geo, CgNo(c), &block)?;
                Ok(entry.insert(block))
            }
        }
    }

    /// The group with the most free blocks.
    fn emptiest_group(&self) -> Result<FragNo, AdminError> {
        let mut best = (0, CgNo(0));
        self.vol.for_each_csum(|c, cs| {
            if cs.nbfree > best.0 {
                best = (cs.nbfree, c);
            }
            Ok(())
        })?;
        Ok(self.vol.geo.cgbase(best.1))
    }

    /// A free block at or after `from`, which becomes the place after it; it wraps once.
    fn take_block(&mut self, from: &mut FragNo) -> Result<FragNo, AdminError> {
        let g = self.vol.geo;
        let first = g.dtog(*from).0;
        let mut start = g.dtogd(*from) / g.frag;
        for i in 0..=g.ncg {
            let c = (first + i) % g.ncg;
            let block = self.group(c)?;
            let view = Cg::new(&g, block);
            if let Some(b) = (start..view.nblocks()).find(|&b| view.block_free(b)) {
                CgMut::new(&g, block).set_block_free(b, false);
                let at = g.cgbase(CgNo(c)).plus(u64::from(b * g.frag));
                *from = if b + 1 < g.cg_frags(CgNo(c)) / g.frag {
                    at.plus(g.frag.into())
                } else {
                    g.cgbase(CgNo((c + 1) % g.ncg))
                };
                return Ok(at);
            }
            start = 0;
        }
        refuse("the file system has too little free space for a journal")
    }

    fn take_inode(&mut self) -> Result<Ino, AdminError> {
        let g = self.vol.geo;
        for c in 0..g.ncg {
            let block = self.group(c)?;
            let view = Cg::new(&g, block);
            let free = (0..view.initediblk()).find(|&i| !view.inode_used(i));
            if let Some(index) = free {
                CgMut::new(&g, block).set_inode_used(index, true);
                return Ok(Ino(c * g.ipg + index));
            }
        }
        refuse("the file system has no free inode for the journal")
    }

    /// Enters block `at` as logical block `l`, with the indirect blocks that it needs.
    fn map(
        &mut self,
        inode: &mut Dinode,
        l: Lbn,
        at: FragNo,
        from: &mut FragNo,
    ) -> Result<(), AdminError> {
        let g = self.vol.geo;
        let raw = at.pointer();
        match bmap::path(&g, l) {
            Some(Path::Direct(i)) => inode.db[i] = raw,
            Some(Path::Indirect { levels, index }) => {
                let mut block = u64::try_from(inode.ib[levels - 1]).unwrap_or(0);
                if block == 0 {
                    block = self.new_indirect(from)?;
                    inode.ib[levels - 1] = i64::try_from(block).unwrap_or(0);
                }
                for (depth, &slot) in index[..levels].iter().enumerate() {
                    if depth + 1 == levels {
                        self.set_slot(&g, block, slot, raw);
                        break;
                    }
                    let old = self.slot(&g, block, slot);
                    let next = if old == 0 { self.new_indirect(from)? } else { old };
                    self.set_slot(&g, block, slot, i64::try_from(next).unwrap_or(0));
                    block = next;
                }
            }
            None => return refuse("the journal is larger than any file can be"),
        }
        Ok(())
    }

    fn new_indirect(&mut self, from: &mut FragNo) -> Result<u64, AdminError> {
        let at = self.take_block(from)?.0;
        self.blocks.insert(at, vec![0; self.vol.geo.bsize as usize]);
        Ok(at)
    }

    fn slot(&self, g: &Geometry, block: u64, slot: u32) -> u64 {
        let bytes = self.blocks.get(&block).map_or(&[][..], Vec::as_slice);
        u64::try_from(bmap::pointer(g, bytes, slot as usize)).unwrap_or(0)
    }

    fn set_slot(&mut self, g: &Geometry, block: u64, slot: u32, to: i64) {
        if let Some(bytes) = self.blocks.get_mut(&block) {
            set_pointer(g, bytes, slot as usize, to);
        }
    }

    /// Enters the name in the root: in a free record, else in a new directory block at its end.
    fn enter(&mut self, ino: Ino) -> Result<RootChange, AdminError> {
        let g = self.vol.geo;
        let (mut root, _, _) = read_inode(self.vol, Ino::ROOT)?;
        let blocks = root.size.div_ceil(g.bsize.into());
        for l in (0..blocks.min(NDADDR as u64)).map(Lbn) {
            let (at, mut bytes) = self.root_block(&root, l)?;
            let len = (root.size - g.lblktosize(l)).min(g.bsize.into()) as usize;
            for dirblk in bytes[..len].chunks_exact_mut(DIRBLKSIZ) {
                if insert(DirFormat::of(&g), dirblk, ino) {
                    return Ok(RootChange { inode: None, block: Some((at, bytes)) });
                }
            }
        }
        let (at, mut bytes) = self.extend_root(&mut root)?;
        let used = (root.size % u64::from(g.bsize)) as usize;
        let dirblk = &mut bytes[used..used + DIRBLKSIZ];
        dir::clear_chunk(DirFormat::of(&g), dirblk);
        insert(DirFormat::of(&g), dirblk, ino);
        root.size += DIRBLKSIZ as u64;
        Ok(RootChange { inode: Some(root), block: Some((at, bytes)) })
    }

    /// The last block of the root, with space for one more directory block at its end.
    fn extend_root(&mut self, root: &mut Dinode) -> Result<(FragNo, Vec<u8>), AdminError> {
        let g = self.vol.geo;
        let full = || refuse("the root directory is full: move some of its names elsewhere");
        let l = g.lblkno(root.size);
        let used = g.blkoff(root.size);
        if l.0 >= NDADDR as u64 {
            return full();
        }
        let (at, mut bytes) = match used {
            0 => {
                let mut from = g.cgbase(CgNo(0));
                let at = self.take_block(&mut from)?;
                // A directory of one more directory block needs the first fragment only.
                let (c, first) = (g.dtog(at), g.dtogd(at));
                let block = self.group(c.0)?;
                CgMut::new(&g, block).set_run_free(first + 1, g.frag - 1, true);
                root.db[l.0 as usize] = at.pointer();
                (at, Vec::new())
            }
            _ => self.root_block(root, l)?,
        };
        let frags = bytes.len() as u32 / g.fsize;
        if used as usize + DIRBLKSIZ <= bytes.len() {
            return Ok((at, bytes));
        }
        if used > 0 {
            let next = g.dtogd(at.plus(frags.into()));
            let block = self.group(g.dtog(at).0)?;
            if frags == g.frag || !Cg::new(&g, block).frag_free(next) {
                return full();
            }
            CgMut::new(&g, block).set_frag_free(next, false);
        }
        root.blocks += g.frags_to_sectors(1);
        bytes.resize(bytes.len() + g.fsize as usize, 0);
        Ok((at, bytes))
    }

    /// Block `l` of the root directory: all of its fragments.
    fn root_block(&self, root: &Dinode, l: Lbn) -> Result<(FragNo, Vec<u8>), AdminError> {
        let g = &self.vol.geo;
        let len = g.blksize(root.size, l);
        let raw = root.db.get(l.0 as usize).copied().unwrap_or(0);
        let at = FragNo(u64::try_from(raw).unwrap_or(0));
        if at.is_hole() || g.run_problem(at, len / g.fsize).is_some() {
            return refuse("the root directory is damaged: run fsck first");
        }
        let mut bytes = vec![0; len as usize];
        self.vol.read(at, &mut bytes)?;
        Ok((at, bytes))
    }

    /// Recomputes the counts of the groups and the totals; drops groups that did not change.
    fn count_groups(&mut self) -> Result<(), AdminError> {
        let g = self.vol.geo;
        let mut changed = BTreeMap::new();
        for (c, mut block) in std::mem::take(&mut self.groups) {
            let before = Cg::new(&g, &block).cs();
            recount(&g, &mut block, before.ndir);
            rehash(&g, &mut block);
            if block != self.vol.read_cg(CgNo(c))? {
                changed.insert(c, block);
            }
        }
        let mut total = Csum::default();
        self.vol.for_each_csum(|c, cs| {
            let new = changed.get(&c.0).map(|block| Cg::new(&g, block).cs());
            total.add(&new.unwrap_or(cs));
            Ok(())
        })?;
        self.vol.sb.set_cstotal(total);
        self.groups = changed;
        Ok(())
    }
}

/// Inode `ino` as stored, also a free one.
fn raw_inode(vol: &Volume<'_>, ino: Ino) -> Result<(Dinode, Vec<u8>, usize), AdminError> {
    let g = &vol.geo;
    let mut block = vec![0; g.bsize as usize];
    vol.read(g.ino_to_fsba(ino), &mut block)?;
    let at = g.ino_to_fsbo(ino);
    let inode = Dinode::decode(g, &block[at..at + g.format.dinode_size()]);
    Ok((inode, block, at))
}

/// Enters the name of the journal in a directory block; `false` if it has no space.
fn insert(fmt: DirFormat, dirblk: &mut [u8], ino: Ino) -> bool {
    let need = dir::dirsiz(journal::NAME.len());
    let spot = dir::records(fmt, dirblk).map_while(Result::ok).find_map(|r| {
        let used = if r.live() { dir::dirsiz(r.name.len()) } else { 0 };
        (r.slack() >= need).then_some((r.off, used, r.reclen))
    });
    let Some((off, used, reclen)) = spot else { return false };
    if used > 0 {
        dir::set_reclen(fmt, dirblk, off, used);
    }
    let dtype = FileType::Regular.dirent();
    let (off, reclen) = (off + used, reclen - used);
    dir::write(fmt, dirblk, &Record { off, ino: ino.0, reclen, dtype, name: journal::NAME });
    true
}

impl Plan {
    /// Makes everything durable but the superblock. The caller writes that, marked clean.
    pub(super) fn write(self, vol: &Volume<'_>, flags_before: FsFlags) -> Result<(), AdminError> {
        let g = &vol.geo;
        let dev = vol.device();
        let mut unclean = vol.sb.clone();
        // With soft updates `fsck -p` frees a file without a name: an unfinished journal.
        unclean.set_flags(flags_before | FsFlags::DOSOFTDEP);
        unclean.f.clean = 0;
        dev.write_at(unclean.location, &unclean.encode())?;
        flush_for(Rule::UncleanBeforeJournal, dev)?;
        for (&c, block) in &self.groups {
            vol.write(g.cgtod(CgNo(c)), block)?;
        }
        flush_for(Rule::MapsBeforeJournal, dev)?;
        let zeros = vec![0; g.bsize as usize];
        for &at in &self.zeros {
            vol.write(at, &zeros)?;
        }
        for (at, bytes) in &self.blocks {
            vol.write(*at, bytes)?;
        }
        dev.flush()?;
        put_inode(vol, self.ino, &self.inode)?;
        flush_for(Rule::JournalBeforeName, dev)?;
        if let Some((at, bytes)) = &self.root.block {
            vol.write(*at, bytes)?;
            dev.flush()?;
        }
        if let Some(root) = &self.root.inode {
            put_inode(vol, Ino::ROOT, root)?;
        }
        for (&c, block) in &self.groups {
            vol.write_csums(CgNo(c), &[Cg::new(g, block).cs()])?;
        }
        Ok(flush_for(Rule::JournalBeforeFlag, dev)?)
    }
}

fn put_inode(vol: &Volume<'_>, ino: Ino, inode: &Dinode) -> Result<(), AdminError> {
    let g = &vol.geo;
    let (_, mut block, at) = raw_inode(vol, ino)?;
    let raw = &mut block[at..at + g.format.dinode_size()];
    inode.encode(g, raw);
    dinode::rehash(g, raw);
    vol.write(g.ino_to_fsba(ino), &block)
}
