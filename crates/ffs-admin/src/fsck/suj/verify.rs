//! Contradictions between the planned repairs and what was read.
//!
//! The records are right for a volume that soft updates kept. These checks find records that do not
//! belong to the volume, as far as inodes and directories that the recovery has read show it.

use std::collections::{BTreeMap, BTreeSet};

use ffs_ondisk::Ino;

use super::super::checker::Checker;
use super::super::resolve::Res;
use super::super::walk::{Action, BlockPointer, Visitor};
use super::blocks::{FragMask, bits};
use super::{Recovery, Step, unusable};

impl Recovery<'_> {
    /// Checks the plan.
    pub(super) fn verify(&mut self) -> Step<()> {
        let scan = std::mem::take(&mut self.to_scan);
        for ino in scan {
            self.ck.check_interrupt()?;
            if self.freed.contains_key(&ino) || !self.inode(Ino(ino))?.is_dir() {
                continue;
            }
            self.examined.insert(ino);
            for ((_, off), child) in self.entries_of(ino)? {
                if self.freed.contains_key(&child) {
                    return unusable(format!(
                        "directory {ino} names inode {child} at offset {off}, which has no link"
                    ));
                }
            }
        }
        for ino in self.examined.clone() {
            let mut node = self.inode(Ino(ino))?;
            self.ck.check_interrupt()?;
            let mut check = InUse { released: &self.released, seen: BTreeSet::new() };
            if !self.ck.walk(&mut node, &mut check)? {
                return unusable(format!("inode {ino} uses a block that the records free"));
            }
        }
        Ok(())
    }
}

/// A walk that ends at a pointer to a fragment that is freed.
struct InUse<'r> {
    released: &'r BTreeMap<u64, FragMask>,
    /// Indirect blocks so far.
    seen: BTreeSet<u64>,
}

impl Visitor for InUse<'_> {
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        let g = ck.g;
        let at = run.frag();
        if g.run_problem(at, run.frags).is_some() || (run.level > 0 && !self.seen.insert(at.0)) {
            return Ok(Action::Stop);
        }
        let mask = self.released.get(&(at.0 / u64::from(g.frag))).copied().unwrap_or_default();
        Ok(match mask.free() & bits(&g, at, run.frags) {
            0 => Action::Keep,
            _ => Action::Stop,
        })
    }
}
