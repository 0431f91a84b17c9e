//! Maps and counts of the cylinder groups, and the totals.
//!
//! **Invariants.**
//! 1. A group that the recovery uses has passed the checks of the format. Its check hash may be
//!    wrong: the write of a group may have been interrupted between two sectors. Soft updates leave
//!    every bit right all the same; the counts are computed anew.
//! 2. Counts follow from the maps, by the function that newfs uses.
//! 3. A fragment or inode in use that a map marks free contradicts soft updates (F2, F3), and ends
//!    the recovery.
//!
//! Of the other groups only the header is read, for the totals: one fragment each.

use std::collections::btree_map::Entry;

use ffs_ondisk::cg::{CG_MAGIC, Cg, CgFields, CgMut, hash_ok, validate_header};
use ffs_ondisk::superblock::CkHash;
use ffs_ondisk::{CgNo, Csum, Format, FragNo, Ino};

use super::super::buffered::Class;
use super::super::groups::{right_header, used_limit};
use super::{Recovery, Step, unusable};
use crate::newfs::group::recount;

/// The block of a group.
pub(super) struct Group {
    pub(super) bytes: Vec<u8>,
    /// Directories that were freed.
    freed_dirs: i64,
    /// The header may be that of another write than the maps.
    torn: bool,
    changed: bool,
}

impl Recovery<'_> {
    /// The block of group `c`.
    pub(super) fn group(&mut self, c: CgNo) -> Step<&mut Group> {
        match self.groups.entry(c.0) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let mut bytes = self.ck.read_group(c)?;
                let g = self.ck.g;
                if let Err(why) = validate_header(&g, c, &bytes) {
                    return unusable(why.to_string());
                }
                let torn = !hash_ok(&g, &bytes);
                if torn {
                    // The inode blocks were initialised before the write that marks their inodes.
                    let (old, cg) = (CgFields::decode(&bytes, g.endian), Cg::new(&g, &bytes));
                    let inited = cg.initediblk().max(used_limit(&g, cg.inosused()));
                    right_header(&g, c, &old, inited).encode(&mut bytes, g.endian);
                }
                let torn = torn || !g.ckhash.contains(CkHash::CYLGRP);
                Ok(entry.insert(Group { bytes, freed_dirs: 0, torn, changed: false }))
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
        for c in self.groups.keys().copied().collect::<Vec<_>>() {
            self.ck.check_interrupt()?;
            let counted = self.count_directories(CgNo(c))?;
            let Some(group) = self.groups.get_mut(&c) else { continue };
            if !group.changed && !group.torn {
                continue;
            }
            let stored = Cg::new(&g, &group.bytes).cs().ndir - group.freed_dirs;
            let ndir = counted.unwrap_or(stored);
            if ndir < 0 {
                return unusable(format!("group {c} counts fewer directories than were freed"));
            }
            let before = group.bytes.clone();
            recount(&g, &mut group.bytes, ndir);
            if group.changed || group.bytes != before || !hash_ok(&g, &before) {
                self.ck.put_group(CgNo(c), &mut group.bytes)?;
            }
        }
        Ok(())
    }

    /// The directories in a group whose header may be wrong; `None` if it is right.
    fn count_directories(&mut self, c: CgNo) -> Step<Option<i64>> {
        let g = self.ck.g;
        let Some(group) = self.groups.get(&c.0).filter(|group| group.torn) else { return Ok(None) };
        let cg = Cg::new(&g, &group.bytes);
        let used: Vec<u32> =
            (0..cg.initediblk().min(g.ipg)).filter(|&i| cg.inode_used(i)).collect();
        let mut dirs = 0;
        for index in used {
            dirs += i64::from(self.inode(Ino(c.0 * g.ipg + index))?.is_dir());
        }
        Ok(Some(dirs))
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
            let mixed = self.tables.links.get(&ino).is_some_and(|recs| recs.mixed);
            let group = self.group(g.ino_to_cg(Ino(ino)))?;
            if Cg::new(&g, &group.bytes).inode_used(index) {
                CgMut::new(&g, &mut group.bytes).set_inode_used(index, false);
                group.freed_dirs += i64::from(is_dir);
                // The header may count the number as a directory or not.
                group.torn |= mixed;
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
