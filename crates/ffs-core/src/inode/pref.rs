//! Queries for the preferred address of a new block (`ffs_blkpref`).
//!
//! Reference: `spec/allocation.md` §4.1, §4.2.

use super::InodeView;
use crate::alloc::PrefQuery;
use ffs_ondisk::{FragNo, Lbn};

impl<'a> InodeView<'a> {
    /// The preferred address of direct block `i`.
    pub(super) fn pref_direct(self, i: usize) -> Option<FragNo> {
        let prev = i.checked_sub(1).and_then(|k| self.data.d.db.get(k)).copied().unwrap_or(0);
        let prev = self.plausible(prev);
        let q = PrefQuery { index: i, prev, ..self.query(Lbn(i as u64)) };
        self.ump.alloc.blkpref(&q)
    }

    /// A query for block `lbn` with the facts that the inode alone gives.
    pub(super) fn query(self, lbn: Lbn) -> PrefQuery {
        PrefQuery {
            ino: self.ip.ino,
            is_dir: self.data.d.is_dir(),
            lbn,
            index: 0,
            prev: None,
            indirect: None,
            after_indirect: None,
            last_direct: self.data.d.db.last().and_then(|&p| self.plausible(p)),
        }
    }

    /// The address of pointer `p`, if it is valid.
    pub(super) fn plausible(self, p: i64) -> Option<FragNo> {
        let at = FragNo(u64::try_from(p).ok()?);
        self.g().run_problem(at, 1).is_none().then_some(at)
    }
}
