//! Maps and counts of the cylinder groups, and the totals.
//!
//! **Invariants.**
//! 1. A group that the recovery uses has passed the checks of the format, its check hash included.
//! 2. Counts follow from the maps, by the function that newfs uses.
//! 3. A fragment or inode in use that a map marks free contradicts soft updates (F2, F3), and ends
//!    the recovery.
//!
//! Of the other groups only the header is read, for the totals: one fragment each.

use std::collections::btree_map::Entry;

use ffs_ondisk::cg::{CG_MAGIC, Cg, CgFields, CgMut, validate};
use ffs_ondisk::{CgNo, Csum, Format, FragNo, Ino};

use super::super::buffered::Class;
use super::{Recovery, Step, unusable};
use crate::newfs::group::recount;

/// The block of a group.
pub(super) struct Group {
    pub(super) bytes: Vec<u8>,
    /// Directories that were freed.
    freed_dirs: i64,
    changed: bool,
}

impl Recovery<'_> {
    /// The block of group `c`.
    pub(super) fn group(&mut self, c: CgNo) -> Step<&mut Group> {
        match self.groups.entry(c.0) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let bytes = self.ck.read_group(c)?;
                match validate(&self.ck.g, c, &bytes) {
                    Ok(()) => Ok(entry.insert(Group { bytes, freed_dirs: 0, changed: false })),
                    Err(why) => unusable(why.to_string()),
                }
            }
        }
    }

    /// Whether the block of inode `ino` has been initialised.
    pub(super) fn is_initialised(&mut self, ino: Ino) -> Step<bool> {
        let g = self.ck.g;
        if g.format == Format::Ufs1 {
            return Ok(true);
        }
        let group = self.group(g.ino_to_cg(ino))?;
        Ok(g.ino_to_cgi(ino) < Cg::new(&g, &group.bytes).initediblk())
    }

    /// Changes the maps of all groups concerned.
    pub(super) fn update_groups(&mut self) -> Step<()> {
        self.update_fragments()?;
        self.update_inodes()?;
        let g = self.ck.g;
        for (&c, group) in self.groups.iter_mut().filter(|(_, group)| group.changed) {
            let ndir = Cg::new(&g, &group.bytes).cs().ndir - group.freed_dirs;
            if ndir < 0 {
                return unusable(format!("group {c} counts fewer directories than were freed"));
            }
            recount(&g, &mut group.bytes, ndir);
            self.ck.put_group(CgNo(c), &mut group.bytes)?;
        }
        Ok(())
    }

    fn update_fragments(&mut self) -> Step<()> {
        let g = self.ck.g;
        let masks: Vec<_> = self.released.iter().map(|(&block, &mask)| (block, mask)).collect();
        for (block, mask) in masks {
            let at = FragNo(block * u64::from(g.frag));
            let first = g.dtogd(at);
            let group = self.group(g.dtog(at))?;
            let mut freed = 0;
            for bit in 0..g.frag {
                let marked_free = Cg::new(&g, &group.bytes).frag_free(first + bit);
                if mask.kept() >> bit & 1 == 1 && marked_free {
                    return unusable(format!("a fragment in use at {at} is marked free"));
                }
                if mask.free() >> bit & 1 == 1 && !marked_free {
                    CgMut::new(&g, &mut group.bytes).set_frag_free(first + bit, true);
                    group.changed = true;
                    freed += 1;
                }
            }
            self.report.frags += freed;
        }
        Ok(())
    }

    fn update_inodes(&mut self) -> Step<()> {
        let g = self.ck.g;
        for (ino, is_dir) in self.freed.clone() {
            let index = g.ino_to_cgi(Ino(ino));
            let group = self.group(g.ino_to_cg(Ino(ino)))?;
            if Cg::new(&g, &group.bytes).inode_used(index) {
                CgMut::new(&g, &mut group.bytes).set_inode_used(index, false);
                group.freed_dirs += i64::from(is_dir);
                group.changed = true;
            }
        }
        for ino in self.examined.clone() {
            let group = self.group(g.ino_to_cg(Ino(ino)))?;
            if !Cg::new(&g, &group.bytes).inode_used(g.ino_to_cgi(Ino(ino))) {
                return unusable(format!("inode {ino} is in use but marked free"));
            }
        }
        Ok(())
    }

    /// Sets the summary area and the totals to the counts of the groups.
    pub(super) fn update_totals(&mut self) -> Step<()> {
        let g = self.ck.g;
        let before = self.ck.disk.read(g.csaddr, g.cssize as usize)?;
        let mut area = before.clone();
        let mut total = Csum::default();
        for c in 0..g.ncg {
            let cs = self.counts_of(c)?;
            cs.encode(&mut area, c as usize * Csum::SIZE, g.endian);
            total.add(&cs);
        }
        if area != before {
            self.ck.disk.write(g.csaddr, &area, Class::CylGroup)?;
        }
        self.ck.sb.set_cstotal(total);
        Ok(())
    }

    /// The counts of group `c`.
    fn counts_of(&mut self, c: u32) -> Step<Csum> {
        let g = self.ck.g;
        if let Some(group) = self.groups.get(&c) {
            return Ok(Cg::new(&g, &group.bytes).cs());
        }
        let len = (g.fsize as usize).min(g.cgsize as usize);
        let bytes = self.ck.disk.read(g.cgtod(CgNo(c)), len)?;
        let header = CgFields::decode(&bytes, g.endian);
        if header.magic != CG_MAGIC || header.cgx != c {
            return unusable(format!("group {c} has a damaged header"));
        }
        Ok(Cg::new(&g, &bytes).cs())
    }
}
