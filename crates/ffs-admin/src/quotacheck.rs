//! quotacheck: counts the usage of users and groups, and compares the quota files with it.
//!
//! **Purpose.** The inodes of an unmounted volume say who uses how much. The result is independent
//! of the mounted file system, which counts while files change.
//!
//! **Invariants.**
//! 1. Nothing is written.
//! 2. Pointers are validated before they are followed. No file is read beyond as many blocks as the
//!    volume has, and no more than [`MAX_RECORDS`] records of a file are kept.
//!
//! References: spec/on-disk-format.md §15.

use std::collections::BTreeMap;

use ffs_ondisk::bmap::{self, Path, pointer};
use ffs_ondisk::dir::{self, DirFormat};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::quota::{
    self, Dqblk, Dqblk32, ENDIAN, QuotaHeader, QuotaType, RecordFormat, counted_ids,
};
use ffs_ondisk::{
    Cg, Corrupt, Dinode, FileType, Format, FragNo, Ino, Lbn, Place, Structure, cg, dinode, snapshot,
};

use crate::{AdminError, Volume};

/// The most records of one file that are kept.
pub const MAX_RECORDS: usize = 1 << 20;

/// What one id uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u64,
}

/// One quota file and the usage that it should have.
#[derive(Debug, Clone)]
pub struct QuotaFile {
    /// Its inode.
    pub ino: Ino,
    /// 64-bit records, or the old ones.
    pub format: RecordFormat,
    /// The records as found, except those of zeros.
    pub records: BTreeMap<u32, Dqblk>,
    /// The usage that was counted.
    pub counted: BTreeMap<u32, Usage>,
}

/// A record whose usage is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// The user or group.
    pub id: u32,
    /// The usage in the file.
    pub found: Usage,
    /// The usage that was counted.
    pub counted: Usage,
}

impl QuotaFile {
    /// The ids whose usage in the file is wrong, sorted.
    #[must_use]
    pub fn differences(&self) -> Vec<Difference> {
        let mut ids: Vec<u32> = self.records.keys().chain(self.counted.keys()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let difference = |id| {
            let found = self.records.get(&id).map_or_else(Usage::default, usage_of);
            let counted = self.counted.get(&id).copied().unwrap_or_default();
            (found != counted).then_some(Difference { id, found, counted })
        };
        ids.into_iter().filter_map(difference).collect()
    }
}

fn usage_of(record: &Dqblk) -> Usage {
    Usage { blocks: record.curblocks, inodes: record.curinodes }
}

/// Reads the quota files of the volume, by [`QuotaType::index`], and counts the usage. `None`: the
/// root directory has no such file, or `wanted` is false for its type. The quota files of both
/// types are not counted themselves.
///
/// # Errors
/// The device's; a damaged group or quota file.
pub fn check(vol: &Volume<'_>, wanted: [bool; 2]) -> Result<[Option<QuotaFile>; 2], AdminError> {
    let mut found = [None, None];
    for kind in QuotaType::ALL {
        found[kind.index()] = find(vol, kind.file_name())?;
    }
    let exempt: Vec<Ino> = found.into_iter().flatten().collect();
    let mut usage = count(vol, &exempt)?.into_iter();
    let mut files = [None, None];
    for ((place, ino), wanted) in files.iter_mut().zip(found).zip(wanted) {
        let counted = usage.next().unwrap_or_default();
        if let Some(ino) = ino.filter(|_| wanted) {
            let (format, records) = read_records(vol, ino)?;
            *place = Some(QuotaFile { ino, format, records, counted });
        }
    }
    Ok(files)
}

/// Counts the usage of users and of groups by all inodes except `exempt` and snapshots.
///
/// # Errors
/// The device's; a damaged group.
pub fn count(vol: &Volume<'_>, exempt: &[Ino]) -> Result<[BTreeMap<u32, Usage>; 2], AdminError> {
    let g = &vol.geo;
    let mut usage = [BTreeMap::new(), BTreeMap::new()];
    let size = g.format.dinode_size();
    let mut block = vec![0; g.bsize as usize];
    for c in (0..g.ncg).map(ffs_ondisk::CgNo) {
        let group = vol.read_cg(c)?;
        cg::validate(g, c, &group)?;
        let inited = match g.format {
            Format::Ufs1 => g.ipg,
            Format::Ufs2 => Cg::new(g, &group).initediblk().min(g.ipg),
        };
        for first in (0..inited).step_by(g.inopb as usize) {
            let ino = Ino(c.0 * g.ipg + first);
            vol.read(g.ino_to_fsba(ino), &mut block)?;
            for (n, raw) in (ino.0..).zip(block.chunks_exact(size)) {
                let d = Dinode::decode(g, raw);
                let is_file = d.mode != 0 && Ino(n) >= Ino::ROOT;
                if is_file && !exempt.contains(&Ino(n)) && !snapshot::is_snapshot(&d) {
                    add(&mut usage, &d);
                }
            }
        }
    }
    Ok(usage)
}

fn add(usage: &mut [BTreeMap<u32, Usage>; 2], d: &Dinode) {
    for (ids, id) in usage.iter_mut().zip(counted_ids(d.uid, d.gid)) {
        if let Some(id) = id {
            let of = ids.entry(id).or_default();
            of.inodes += 1;
            of.blocks = of.blocks.saturating_add(d.blocks);
        }
    }
}

/// The inode that `name` in the root directory names.
fn find(vol: &Volume<'_>, name: &str) -> Result<Option<Ino>, AdminError> {
    let mut found = None;
    let root = read_inode(vol, Ino::ROOT)?;
    each_block(vol, Ino::ROOT, &root, |_, bytes| {
        for chunk in bytes.chunks_exact(DIRBLKSIZ) {
            let records = dir::records(DirFormat::of(&vol.geo), chunk).map_while(Result::ok);
            let hit = records.filter(|r| r.live()).find(|r| r.name == name.as_bytes());
            found = found.or(hit.map(|r| Ino(r.ino)));
        }
        Ok(())
    })?;
    if let Some(ino) = found {
        vol.geo.check_ino(ino.0, Structure::Directory, Place::Inode(Ino::ROOT))?;
    }
    Ok(found)
}

fn read_inode(vol: &Volume<'_>, ino: Ino) -> Result<Dinode, AdminError> {
    let g = &vol.geo;
    let mut block = vec![0; g.bsize as usize];
    vol.read(g.ino_to_fsba(ino), &mut block)?;
    let at = g.ino_to_fsbo(ino);
    Ok(dinode::check(g, ino, &block[at..at + g.format.dinode_size()])?)
}

/// The format and the records of quota file `ino`.
fn read_records(
    vol: &Volume<'_>,
    ino: Ino,
) -> Result<(RecordFormat, BTreeMap<u32, Dqblk>), AdminError> {
    let d = read_inode(vol, ino)?;
    if d.file_type() != Some(FileType::Regular) {
        return Err(bad(ino, "mode", format!("{:#o}", d.mode), "a regular file"));
    }
    let (mut format, mut records) = (None, BTreeMap::new());
    each_block(vol, ino, &d, |at, bytes| {
        let left = usize::try_from(d.size.saturating_sub(at)).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(left)];
        let layout = match format {
            Some(layout) => layout,
            None => {
                // A first block that is a hole has no header.
                let start = if at == 0 { bytes } else { &[] };
                quota::examine(ino, d.size, &start[..start.len().min(QuotaHeader::SIZE)])?
            }
        };
        format = Some(layout);
        add_records(vol.geo.endian, layout, at, bytes, &mut records);
        if records.len() > MAX_RECORDS {
            let found = format!("at least {}", records.len());
            return Err(bad(ino, "number of records", found, "at most 1048576"));
        }
        Ok(())
    })?;
    match format {
        Some(format) => Ok((format, records)),
        None => Ok((quota::examine(ino, d.size, &[])?, records)),
    }
}

/// Adds the records in `bytes`, which are at byte `at` of the file.
fn add_records(
    endian: ffs_ondisk::Endian,
    layout: RecordFormat,
    at: u64,
    bytes: &[u8],
    records: &mut BTreeMap<u32, Dqblk>,
) {
    let size = match layout {
        RecordFormat::Records64 => Dqblk::SIZE,
        RecordFormat::Old => Dqblk32::SIZE,
    };
    for (n, raw) in bytes.chunks_exact(size).enumerate().filter(|(_, r)| r.iter().any(|b| *b != 0))
    {
        let place = at + (n * size) as u64;
        let id = match layout {
            RecordFormat::Records64 => quota::id_at(place),
            RecordFormat::Old => u32::try_from(place / size as u64).ok(),
        };
        let record = match layout {
            RecordFormat::Records64 => Dqblk::decode(raw, ENDIAN),
            RecordFormat::Old => Dqblk32::decode(raw, endian).into(),
        };
        if let Some(id) = id.filter(|&id| id <= quota::MAX_ID) {
            records.insert(id, record);
        }
    }
}

fn bad(ino: Ino, field: &'static str, found: String, expected: &str) -> AdminError {
    let corrupt = Corrupt::new(Structure::QuotaFile, Place::Inode(ino), field, found, expected);
    AdminError::Format(corrupt.into())
}

/// Calls `each` with the offset and the bytes of every allocated block of a file, in order, up to
/// the last record of a quota file.
fn each_block(
    vol: &Volume<'_>,
    ino: Ino,
    d: &Dinode,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), AdminError>,
) -> Result<(), AdminError> {
    let g = &vol.geo;
    let mut left = g.size / u64::from(g.frag) + 1;
    let mut lbn = Lbn(0);
    let mut indirect = Indirect::default();
    // Bytes beyond the last record mean nothing. A directory is smaller.
    let end = d.size.min(quota::offset(quota::MAX_ID).unwrap_or(0) + Dqblk::SIZE as u64);
    while g.lblktosize(lbn) < end {
        let (at, skip) = indirect.map(vol, ino, d, lbn)?;
        if let Some(raw) = at {
            let len = g.blksize(d.size, lbn);
            let run = g.check_run(raw, len / g.fsize, Structure::Inode, Place::Inode(ino))?;
            let mut bytes = vec![0; len as usize];
            vol.read(run.unwrap_or(FragNo::HOLE), &mut bytes)?;
            each(g.lblktosize(lbn), &bytes)?;
            left = left.checked_sub(1).ok_or_else(|| {
                bad(ino, "number of blocks", "more than the volume has".into(), "its own blocks")
            })?;
        }
        lbn = lbn.plus(skip);
    }
    Ok(())
}

/// The indirect blocks on the way to the last block, top first.
#[derive(Default)]
struct Indirect {
    blocks: Vec<(i64, Vec<u8>)>,
}

impl Indirect {
    /// The pointer of block `lbn` unless it is a hole, and the number of blocks to the next one
    /// that may not be a hole.
    fn map(
        &mut self,
        vol: &Volume<'_>,
        ino: Ino,
        d: &Dinode,
        lbn: Lbn,
    ) -> Result<(Option<i64>, u64), AdminError> {
        let g = &vol.geo;
        let (levels, index) = match bmap::path(g, lbn) {
            Some(Path::Direct(i)) => return Ok((d.db.get(i).copied().filter(|p| *p != 0), 1)),
            Some(Path::Indirect { levels, index }) => (levels, index),
            None => return Ok((None, u64::MAX - lbn.0)),
        };
        let mut at = d.ib.get(levels - 1).copied().unwrap_or(0);
        for (depth, i) in index.iter().take(levels).enumerate() {
            // A pointer of level `levels - depth` maps so many blocks.
            let span = bmap::blocks_per_pointer(g, levels - depth).saturating_mul(g.nindir.into());
            if at == 0 {
                let into = (lbn.0 - bmap::first_of_root(g, levels - 1).0) % span;
                return Ok((None, span - into));
            }
            at = pointer(g, self.block(vol, ino, depth, at)?, *i as usize);
        }
        Ok(((at != 0).then_some(at), 1))
    }

    /// The content of the indirect block at `raw`.
    fn block(
        &mut self,
        vol: &Volume<'_>,
        ino: Ino,
        depth: usize,
        raw: i64,
    ) -> Result<&[u8], AdminError> {
        if self.blocks.get(depth).is_none_or(|(at, _)| *at != raw) {
            let g = &vol.geo;
            let run = g.check_run(raw, g.frag, Structure::IndirectBlock, Place::Inode(ino))?;
            let mut bytes = vec![0; g.bsize as usize];
            vol.read(run.unwrap_or(FragNo::HOLE), &mut bytes)?;
            self.blocks.truncate(depth);
            self.blocks.push((raw, bytes));
        }
        Ok(self.blocks.get(depth).map_or(&[], |(_, bytes)| bytes))
    }
}
