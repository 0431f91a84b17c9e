//! The use of fragments: which structure or which file has them.

use std::collections::BTreeMap;

use ffs_ondisk::{Cg, CgNo, FragNo, Ino};

use super::{Block, Inspector, RawInode};
use crate::AdminError;

/// The use of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragUse {
    /// The fragment.
    pub frag: FragNo,
    /// Whether the map of its group has it free.
    pub is_free: bool,
    /// What it belongs to. More than one of them is damage.
    pub owners: Vec<Owner>,
}

/// What a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Boot blocks, or the superblock at the start of the volume.
    Start,
    /// The backup superblock of a group.
    Superblock(CgNo),
    /// The block with the maps of a group.
    Group(CgNo),
    /// Inodes: the first one in the fragment.
    Inodes(Ino),
    /// The summary area.
    Summary,
    /// A block of a file.
    File(Ino, Block),
}

impl Inspector<'_> {
    /// The use of each of the fragments `wanted`: reads every inode of the volume. `progress` is
    /// called with the inodes that were examined.
    ///
    /// # Errors
    /// A fragment is beyond the end of the volume; the device's.
    pub fn owners(
        &self,
        wanted: &[FragNo],
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<FragUse>, AdminError> {
        let mut uses = BTreeMap::new();
        for &frag in wanted {
            uses.insert(frag, self.use_by_structure(frag)?);
        }
        let (mut examined, mut left) = (0, self.vol.geo.size.saturating_mul(2));
        self.each_inode(|inode| -> Result<bool, AdminError> {
            examined += 1;
            progress(examined);
            if !inode.is_file() {
                return Ok(true);
            }
            self.blocks_within(&inode.dinode, &mut left, |block| -> Result<bool, AdminError> {
                note_owner(&mut uses, &inode, block);
                Ok(true)
            })?;
            if left == 0 {
                self.note("the inodes have more blocks than the volume: some were not examined");
            }
            Ok(left > 0)
        })?;
        Ok(uses.into_values().collect())
    }

    /// The use of a fragment without a look at the files.
    fn use_by_structure(&self, frag: FragNo) -> Result<FragUse, AdminError> {
        let g = &self.vol.geo;
        if frag.0 >= g.size {
            let why = format!("{} is not one of the volume's {} fragments", frag.0, g.size);
            return Err(AdminError::option("fragment", why));
        }
        let c = g.dtog(frag);
        let group = self.group(c)?;
        let is_free = group.is_some_and(|group| Cg::new(g, &group).frag_free(g.dtogd(frag)));
        let summary_end = g.csaddr.plus(u64::from(g.cssize).div_ceil(g.fsize.into()));
        let owner = if (g.csaddr..summary_end).contains(&frag) {
            Some(Owner::Summary)
        } else if (g.cgimin(c)..g.cgdmin(c)).contains(&frag) {
            let per_frag = g.fsize / g.format.dinode_size() as u32;
            let first = (frag.0 - g.cgimin(c).0) * u64::from(per_frag);
            u32::try_from(first).ok().map(|first| Owner::Inodes(Ino(c.0 * g.ipg + first)))
        } else if (g.cgtod(c)..g.cgimin(c)).contains(&frag) {
            Some(Owner::Group(c))
        } else if (g.cgsblock(c)..g.cgtod(c)).contains(&frag) {
            Some(Owner::Superblock(c))
        } else {
            (c.0 == 0 && frag < g.cgsblock(c)).then_some(Owner::Start)
        };
        Ok(FragUse { frag, is_free, owners: owner.into_iter().collect() })
    }
}

fn note_owner(uses: &mut BTreeMap<FragNo, FragUse>, inode: &RawInode, block: Block) {
    if block.problem.is_some() {
        return;
    }
    let end = FragNo(block.at.0.saturating_add(block.frags.into()));
    for found in uses.range_mut(block.at..end).map(|(_, found)| found) {
        found.owners.push(Owner::File(inode.ino, block));
    }
}
