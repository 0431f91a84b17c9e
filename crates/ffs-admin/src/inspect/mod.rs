//! Inspection of an unmounted volume below its tree: inodes, the blocks of a file, the use of a
//! fragment, raw directory records, and what removed files have left.
//!
//! **Purpose.** What debugfs(8) and fsdb(8) show, as data. Damage is data too: a bad pointer or
//! record is reported in its place, and the rest is read on.
//!
//! | module | holds |
//! | --- | --- |
//! | `blocks` | the blocks of a file |
//! | `owner` | the use of fragments |
//! | `records` | raw directory records, also those of removed names |
//! | `removed` | removed names, inodes without a name, and their content |
//!
//! **Invariants.**
//! 1. Nothing is written.
//! 2. Work and memory are bounded by the size of the volume, for any content. Work on one file is
//!    bounded by the pointers that the volume has space for.
//! 3. Only errors of the device end an inspection. Of a damaged cylinder group every inode with a
//!    type counts as in use, and it is among the problems.

mod blocks;
mod owner;
mod records;
mod removed;
#[cfg(test)]
mod tests;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use ffs_device::BlockDevice;
use ffs_ondisk::{Cg, CgNo, Dinode, Format, FragNo, Geometry, Ino, Place, Structure, cg, dinode};

pub use blocks::{Block, BlockKind};
pub use owner::{FragUse, Owner};
pub use records::{RawRecord, RecordState};
pub use removed::{InodeState, Recovery, RemovedInode, RemovedName};

use crate::{AdminError, Volume};

/// Most problems that are kept.
const MOST_PROBLEMS: usize = 20;

/// The bytes of a group; nothing if it is damaged.
type GroupBytes = Option<Rc<[u8]>>;

/// A volume under inspection.
pub struct Inspector<'d> {
    vol: Volume<'d>,
    /// The group that was read last; nothing if it is damaged.
    last_group: RefCell<Option<(CgNo, GroupBytes)>>,
    /// The inodes with a name, once they are known.
    named: OnceCell<BTreeSet<Ino>>,
    /// What was wrong, and did not end the inspection.
    problems: RefCell<Vec<String>>,
}

/// An inode as stored.
#[derive(Clone, Debug)]
pub struct RawInode {
    /// Its number.
    pub ino: Ino,
    /// The fragment with it.
    pub frag: FragNo,
    /// Its first byte on the volume.
    pub byte: u64,
    /// Whether the map of its group has it in use.
    pub in_use: bool,
    /// Its fields.
    pub dinode: Dinode,
    /// The first rule that an inode in use would break.
    pub problem: Option<String>,
}

impl RawInode {
    /// Whether it has a type, as every file has. The inode of a removed file is cleared.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.dinode.mode != 0
    }
}

impl<'d> Inspector<'d> {
    /// Opens the volume on `dev`, if necessary by a backup superblock.
    ///
    /// # Errors
    /// The device's, or the problem of the superblock.
    pub fn open(dev: &'d dyn BlockDevice) -> Result<Inspector<'d>, AdminError> {
        let vol = Volume::open(dev)?;
        let (last_group, named, problems) = Default::default();
        Ok(Inspector { vol, last_group, named, problems })
    }

    /// The geometry of the volume.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.vol.geo
    }

    /// What was wrong so far, and did not end the inspection.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.problems.borrow().clone()
    }

    fn note(&self, problem: impl Into<String>) {
        let (problem, mut all) = (problem.into(), self.problems.borrow_mut());
        if all.len() < MOST_PROBLEMS && !all.contains(&problem) {
            all.push(problem);
        }
    }

    /// Reads inode `ino`, in use or not.
    ///
    /// # Errors
    /// The volume has no such inode; the device's.
    pub fn inode(&self, ino: Ino) -> Result<RawInode, AdminError> {
        let g = &self.vol.geo;
        g.check_ino(ino.0, Structure::Inode, Place::Inode(ino))?;
        let group = self.group(g.ino_to_cg(ino))?;
        let mut bytes = vec![0; g.format.dinode_size()];
        if g.ino_to_cgi(ino) < self.inodes_made(group.as_deref()) {
            self.vol.device().read_at(self.byte_of(ino), &mut bytes)?;
        }
        Ok(self.raw_inode(ino, group.as_deref(), &bytes))
    }

    /// The first byte of an inode on the volume.
    fn byte_of(&self, ino: Ino) -> u64 {
        let g = &self.vol.geo;
        g.frag_to_byte(g.ino_to_fsba(ino)) + g.ino_to_fsbo(ino) as u64
    }

    fn raw_inode(&self, ino: Ino, group: Option<&[u8]>, bytes: &[u8]) -> RawInode {
        let g = &self.vol.geo;
        let problem = dinode::check(g, ino, bytes).err().map(|error| error.to_string());
        let dinode = Dinode::decode(g, bytes);
        RawInode {
            ino,
            frag: g.ino_to_fsba(ino).plus(g.ino_to_fsbo(ino) as u64 / u64::from(g.fsize)),
            byte: self.byte_of(ino),
            in_use: match group {
                Some(group) => Cg::new(g, group).inode_used(g.ino_to_cgi(ino)),
                None => dinode.mode != 0,
            },
            problem: problem.filter(|_| dinode.mode != 0),
            dinode,
        }
    }

    /// Calls `each` with every inode that the volume has made, by number; `each` ends the scan by
    /// returning false.
    fn each_inode<E: From<AdminError>>(
        &self,
        mut each: impl FnMut(RawInode) -> Result<bool, E>,
    ) -> Result<(), E> {
        let g = &self.vol.geo;
        let mut block = vec![0; g.bsize as usize];
        for c in (0..g.ncg).map(CgNo) {
            let group = self.group(c)?;
            for first in (0..self.inodes_made(group.as_deref())).step_by(g.inopb as usize) {
                let ino = Ino(c.0 * g.ipg + first);
                self.vol.read(g.ino_to_fsba(ino), &mut block)?;
                for (n, raw) in (ino.0..).zip(block.chunks_exact(g.format.dinode_size())) {
                    if Ino(n) < Ino::ROOT {
                        continue;
                    }
                    if !each(self.raw_inode(Ino(n), group.as_deref(), raw))? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Inodes of a group that have been made: UFS2 makes them as they are needed.
    fn inodes_made(&self, group: Option<&[u8]>) -> u32 {
        let g = &self.vol.geo;
        match group.filter(|_| g.format == Format::Ufs2) {
            Some(group) => Cg::new(g, group).initediblk().min(g.ipg),
            None => g.ipg,
        }
    }

    /// The bytes of group `c`; nothing if it is damaged.
    fn group(&self, c: CgNo) -> Result<GroupBytes, AdminError> {
        if let Some((_, group)) = self.last_group.borrow().as_ref().filter(|(at, _)| *at == c) {
            return Ok(group.clone());
        }
        let bytes = self.vol.read_cg(c)?;
        let group = match cg::validate(&self.vol.geo, c, &bytes) {
            Ok(_) => Some(Rc::from(bytes)),
            Err(problem) => {
                self.note(problem.to_string());
                None
            }
        };
        self.last_group.replace(Some((c, group.clone())));
        Ok(group)
    }
}
