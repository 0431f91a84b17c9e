//! What removed files have left: names in the slack of directories, and inodes.
//!
//! BSD clears the inode of a removed file, its pointers with it, so mostly only the name is left.
//! An inode keeps its content if it lost its last name while it was open and the system then
//! stopped, if the system stopped after the name was removed from the directory and before the
//! inode was written, or if a volume without an order of writes was not unmounted.

use std::collections::BTreeSet;
use std::io::{Seek, SeekFrom, Write};

use ffs_ondisk::{Cg, FileType, FragNo, Ino};

use super::{Block, BlockKind, Inspector, RawInode, RawRecord, RecordState};
use crate::AdminError;

/// The state of an inode that a removed name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeState {
    /// The number is unknown, or not one of the volume's.
    Unknown,
    /// A file with a name has it. It may be the same one under another name, or a later one.
    InUse,
    /// It is in use, and no directory has a name for it: the last one was removed while a program
    /// had the file open, or just before the system stopped; the first one was not yet written; or
    /// the directory with it is damaged.
    Unlinked,
    /// It is free, and was not cleared: type, size and pointers are there.
    Left,
    /// It is free and cleared. Nothing leads to the content.
    Cleared,
}

/// A removed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedName {
    /// The directory.
    pub dir: Ino,
    /// The record.
    pub record: RawRecord,
    /// The state of its inode.
    pub state: InodeState,
}

/// An inode with content and without a name.
#[derive(Clone, Debug)]
pub struct RemovedInode {
    /// The inode.
    pub inode: RawInode,
    /// [`InodeState::Unlinked`] or [`InodeState::Left`].
    pub state: InodeState,
}

/// The result of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Blocks that were read.
    pub blocks: u64,
    /// Of these, blocks of which the maps have a part in use although the file is removed: another
    /// file has probably written there.
    pub reused: u64,
    /// Pointers that cannot be those of a file, which were passed over.
    pub bad: u64,
}

impl Inspector<'_> {
    /// The inodes with content and without a name.
    ///
    /// # Errors
    /// The device's; what `each` returns.
    pub fn removed_inodes<E: From<AdminError>>(
        &self,
        mut each: impl FnMut(RemovedInode) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_inode(|inode| {
            let state = self.state_of(&inode)?;
            if matches!(state, InodeState::Unlinked | InodeState::Left) {
                each(RemovedInode { inode, state })?;
            }
            Ok(true)
        })
    }

    /// The removed names in all directories.
    ///
    /// # Errors
    /// The device's; what `each` returns.
    pub fn removed_names<E: From<AdminError>>(
        &self,
        mut each: impl FnMut(RemovedName) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_record(|dir, record| {
            if record.state != RecordState::Stale {
                return Ok(());
            }
            let state = self.state(Ino(record.ino))?;
            each(RemovedName { dir, record, state })
        })
    }

    /// Calls `each` with the records of all directories.
    fn each_record<E: From<AdminError>>(
        &self,
        mut each: impl FnMut(Ino, RawRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = self.vol.geo.size.saturating_mul(2);
        self.each_inode(|dir| {
            let is_dir = dir.in_use && dir.dinode.file_type() == Some(FileType::Directory);
            if !is_dir || dir.problem.is_some() {
                return Ok(true);
            }
            self.records_within(&dir, &mut left, |record| each(dir.ino, record))?;
            if left == 0 {
                self.note("the directories have more blocks than the volume: some were not read");
            }
            Ok(left > 0)
        })
    }

    fn state(&self, ino: Ino) -> Result<InodeState, AdminError> {
        if ino < Ino::ROOT || ino.0 >= self.vol.geo.inodes() {
            return Ok(InodeState::Unknown);
        }
        self.state_of(&self.inode(ino)?)
    }

    /// The state of an inode. The first call for one in use reads all directories.
    ///
    /// # Errors
    /// The device's.
    pub fn state_of(&self, inode: &RawInode) -> Result<InodeState, AdminError> {
        Ok(match (inode.in_use, inode.is_file()) {
            (true, true) if inode.dinode.nlink == 0 => InodeState::Unlinked,
            (true, true) if !self.named()?.contains(&inode.ino) => InodeState::Unlinked,
            (true, _) => InodeState::InUse,
            (false, true) => InodeState::Left,
            (false, false) => InodeState::Cleared,
        })
    }

    /// The inodes with a name. The root has none.
    fn named(&self) -> Result<&BTreeSet<Ino>, AdminError> {
        if let Some(named) = self.named.get() {
            return Ok(named);
        }
        let mut named = BTreeSet::from([Ino::ROOT]);
        self.each_record(|_, record| -> Result<(), AdminError> {
            let is_name = record.name != b"." && record.name != b"..";
            if record.state == RecordState::Live && is_name {
                named.insert(Ino(record.ino));
            }
            Ok(())
        })?;
        Ok(self.named.get_or_init(|| named))
    }

    /// Writes the content of `inode`, in use or removed, to `out`, with holes where it has holes.
    ///
    /// # Errors
    /// The device's; `out`'s.
    pub fn content(
        &self,
        inode: &RawInode,
        out: &mut (impl Write + Seek),
    ) -> Result<Recovery, AdminError> {
        let g = &self.vol.geo;
        let (d, mut done) = (&inode.dinode, Recovery::default());
        if d.is_short_symlink(g) {
            out.write_all(d.short.text(d.size)).map_err(AdminError::output)?;
            return Ok(done);
        }
        let mut end = 0;
        self.blocks(d, |block| -> Result<bool, AdminError> {
            let start = g.lblktosize(block.lbn);
            if block.problem.is_some() {
                done.bad += 1;
                return Ok(true);
            }
            if block.kind != BlockKind::Data || start >= d.size {
                return Ok(true);
            }
            let len = (d.size - start).min(u64::from(block.frags) * u64::from(g.fsize));
            let mut bytes = vec![0; len as usize];
            self.vol.read(block.at, &mut bytes)?;
            done.blocks += 1;
            done.reused += u64::from(!inode.in_use && self.is_reused(&block)?);
            out.seek(SeekFrom::Start(start)).map_err(AdminError::output)?;
            out.write_all(&bytes).map_err(AdminError::output)?;
            end = start + len;
            Ok(true)
        })?;
        if end < d.size {
            // The last byte of a hole at the end gives the file its size.
            out.seek(SeekFrom::Start(d.size - 1)).map_err(AdminError::output)?;
            out.write_all(&[0]).map_err(AdminError::output)?;
        }
        Ok(done)
    }

    /// Whether a fragment of the block is in use.
    fn is_reused(&self, block: &Block) -> Result<bool, AdminError> {
        let g = &self.vol.geo;
        let Some(group) = self.group(g.dtog(block.at))? else { return Ok(false) };
        let map = Cg::new(g, &group);
        let mut frags = (0..u64::from(block.frags)).map(|n| FragNo(block.at.0 + n));
        Ok(frags.any(|frag| !map.frag_free(g.dtogd(frag))))
    }
}
