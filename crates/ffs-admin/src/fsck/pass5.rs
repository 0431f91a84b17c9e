//! Phase 5: maps and summaries.
//!
//! **Purpose.** Compares every group with the one that follows from the tables of the earlier
//! phases (`groupmaps.rs`), and the totals with their sum.
//!
//! **Invariants.**
//! 1. Threads find the groups that are right. Every other group, and every group with a repair, is
//!    compared here, in order.
//!
//! References: spec/fsck-and-crash.md §3.6; spec/on-disk-format.md §5, §6.

use ffs_ondisk::cg::{self, Cg, CgLayout};
use ffs_ondisk::{CgNo, Csum, Ino};

use super::alloc::Completion;
use super::buffered::Class;
use super::checker::Checker;
use super::groupmaps::header_without_hash;
use super::report::{Id, Phase};
use super::resolve::{Draft, Res};
use crate::counted;

/// Groups that are examined before the first of them is reported, so that progress is shown and an
/// interrupt is noticed.
const GROUPS_AT_ONCE: u32 = 1024;

/// Differences between the maps on disk and the right maps.
#[derive(Debug, Default)]
struct Differences {
    leaked_frags: u64,
    leaked_inodes: u64,
    taken_frags: u64,
    taken_inodes: u64,
    other: bool,
}

impl Checker<'_> {
    /// Checks all groups and the totals.
    pub(super) fn phase5(&mut self) -> Res<()> {
        self.begin_phase(Phase::Summaries, self.g.ncg.into())?;
        self.check_snapshot_list()?;
        self.preserve_snapshots()?;
        let mut total = Csum::default();
        let mut area = self.disk.read(self.g.csaddr, self.g.cssize as usize)?;
        let mut area_changed = false;
        for first in (0..self.g.ncg).step_by(GROUPS_AT_ONCE as usize) {
            // A repair in this phase changes the block of its own group only.
            let right = self.right_groups(first, GROUPS_AT_ONCE.min(self.g.ncg - first))?;
            for (c, right) in (first..).map(CgNo).zip(right) {
                self.check_interrupt()?;
                let cs = match right {
                    Some(cs) => cs,
                    None => self.check_group(c)?,
                };
                area_changed |= self.check_summary_record(c, &cs, &mut area)?;
                total.add(&cs);
                self.advance(1);
            }
        }
        if area_changed {
            self.disk.write(self.g.csaddr, &area, Class::CylGroup)?;
        }
        self.check_total(&total)?;
        self.set_totals(&total);
        self.end_phase()
    }

    fn set_totals(&mut self, total: &Csum) {
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        let t = &mut self.totals;
        t.directories = count(total.ndir);
        t.free_blocks = count(total.nbfree);
        t.loose_frags = count(total.nffree);
        t.free_inodes = count(total.nifree);
        t.free_frags = t.free_blocks * u64::from(self.g.frag) + t.loose_frags;
        let inodes = u64::from(self.g.inodes()).saturating_sub(2);
        t.files = inodes.saturating_sub(t.free_inodes).saturating_sub(t.directories);
        t.data_frags = self.g.dsize;
        t.used_frags = self.g.dsize.saturating_sub(t.free_frags);
    }

    /// Checks the record of group `c` in the summary area; `true` if it changed.
    fn check_summary_record(&mut self, c: CgNo, cs: &Csum, area: &mut [u8]) -> Res<bool> {
        let off = c.0 as usize * Csum::SIZE;
        let old = Csum::decode(area, off, self.g.endian);
        if old == *cs {
            return Ok(false);
        }
        let draft = Draft::benign(Id::CsCg, "wrong counts in the summary area");
        let draft = draft.place(format!("group {c}")).before(show(&old)).after(show(cs));
        let fix = self.should_fix(draft)?;
        if fix {
            cs.encode(area, off, self.g.endian);
        }
        Ok(fix)
    }

    fn check_total(&mut self, total: &Csum) -> Res<()> {
        let old = self.sb.cstotal();
        if old == *total {
            return Ok(());
        }
        let draft = Draft::benign(Id::CsTotal, "wrong totals in the superblock");
        if self.should_fix(draft.before(show(&old)).after(show(total)))? {
            self.sb.set_cstotal(*total);
        }
        Ok(())
    }

    /// Checks group `c`; returns its right counts.
    fn check_group(&mut self, c: CgNo) -> Res<Csum> {
        let g = self.g;
        let mut old = self.read_group(c)?;
        // Allocations of this check are not findings.
        let handed_out = self.mark_new_allocations(c, &mut old, Completion::Complete);
        let mut new = Vec::new();
        let cs = self.group_tables().build(c, &old, &mut new);
        if !self.groups[c.0 as usize].header_ok {
            // The repair of its header was refused, so there is nothing to compare.
            return Ok(cs);
        }
        let place = format!("group {c}");
        let mut fix = self.check_maps(c, &old, &new, &place)? || handed_out;
        let lay = CgLayout::of(&g);
        let sums = lay.clustersumoff as usize..lay.clusteroff as usize;
        let clusters = g.contigsumsize > 0
            && old.get(sums.start + 4..sums.end) != new.get(sums.start + 4..sums.end);
        if header_without_hash(&old) != header_without_hash(&new) || clusters {
            self.check_lost_directories(c, &old, &cs)?;
            let draft = Draft::benign(Id::CgSummary, "wrong counts in the group's header");
            let was = Cg::new(&g, &old).cs();
            fix |= self.should_fix(draft.place(place).before(show(&was)).after(show(&cs)))?;
        }
        if fix && self.in_background() {
            self.correct_group(c, &old, &new);
        } else if fix {
            self.put_group(c, &mut new)?;
        }
        Ok(cs)
    }

    /// Reports directories that the group does not count. With soft updates no directory exists
    /// before its group counts it.
    fn check_lost_directories(&mut self, c: CgNo, old: &[u8], cs: &Csum) -> Res<()> {
        let here = |ino: &&u32| self.g.ino_to_cg(Ino(**ino)) == c;
        let made = self.new_inodes.iter().filter(here).count() as i64;
        let stored = Cg::new(&self.g, old).cs().ndir;
        if stored + made >= cs.ndir || !self.softdep {
            return Ok(());
        }
        let draft = Draft::fatal(Id::CgLostDir, "fewer directories counted than found");
        let draft = draft.place(format!("group {c}")).before(stored).after(cs.ndir);
        self.should_fix(draft).map(drop)
    }

    /// Compares the maps; `true` if they must be written.
    fn check_maps(&mut self, c: CgNo, old: &[u8], new: &[u8], place: &str) -> Res<bool> {
        let d = self.compare_maps(c, old, new);
        let mut fix = false;
        if d.taken_frags + d.taken_inodes > 0 {
            let message = format!(
                "in use but marked free: {}, {}",
                counted(d.taken_frags, "fragment"),
                counted(d.taken_inodes, "inode")
            );
            fix |= self.should_fix(self.in_use_but_free(message).place(place))?;
        }
        if d.leaked_frags + d.leaked_inodes > 0 {
            let message = format!(
                "free but marked in use: {}, {}",
                counted(d.leaked_frags, "fragment"),
                counted(d.leaked_inodes, "inode")
            );
            let draft = Draft::benign(Id::CgLeak, message).place(place);
            fix |= self.should_fix(draft)?;
        }
        if d.other {
            let message = "wrong cluster map or unused bits";
            fix |= self.should_fix(Draft::benign(Id::CgMaps, message).place(place))?;
        }
        Ok(fix)
    }

    /// The finding that something in use is marked free.
    ///
    /// Soft updates write a map before any pointer to the new allocation, and clear it after the
    /// last pointer, so no crash leaves this. Either the device lost a write that it had confirmed,
    /// or another system wrote in the wrong order. In both cases the other assumptions of preen do
    /// not hold, in particular that unreferenced files were never complete. Therefore the finding
    /// is fatal in preen. The repair, marking it used, is right, and a full check makes it.
    pub(super) fn in_use_but_free(&self, message: String) -> Draft {
        if !self.softdep {
            return Draft::benign(Id::CgAllocFree, message);
        }
        let why = "soft updates exclude this after a crash: the disk or what wrote it has failed";
        Draft::fatal(Id::CgAllocFree, format!("{message}; {why}"))
    }

    fn compare_maps(&self, c: CgNo, old: &[u8], new: &[u8]) -> Differences {
        let g = self.g;
        let mut d = Differences::default();
        let (was, is) = (Cg::new(&g, old), Cg::new(&g, new));
        let lay = CgLayout::of(&g);
        let from = lay.iusedoff as usize;
        let clusters =
            if g.contigsumsize > 0 { lay.clustersumoff as usize + 4 } else { usize::MAX };
        let until = lay.clusteroff as usize;
        let skip = |at: usize| at >= clusters && at < until;
        let differs = |(at, (a, b)): (usize, (&u8, &u8))| a != b && !skip(at + from);
        if !old[from..].iter().zip(&new[from..]).enumerate().any(differs) {
            return d;
        }
        let limit = g.cg_frags(c);
        diff_bits(was.blksfree(), is.blksfree(), limit, &mut d.leaked_frags, &mut d.taken_frags);
        diff_bits(is.inosused(), was.inosused(), g.ipg, &mut d.leaked_inodes, &mut d.taken_inodes);
        // The difference is in cluster bits that contradict the map on disk, or in unused bits.
        d.other = d.leaked_frags + d.taken_frags + d.leaked_inodes + d.taken_inodes == 0
            || !self.padding_clear(c, old);
        d
    }

    /// Whether the unused bits and bytes are zero.
    fn padding_clear(&self, c: CgNo, old: &[u8]) -> bool {
        let g = self.g;
        let view = Cg::new(&g, old);
        let lay = CgLayout::of(&g);
        let blocks = g.cg_frags(c) / g.frag;
        let clear = |map: &[u8], from: u32| {
            (from..map.len() as u32 * 8).all(|i| cg::bit(map, i) != Some(true))
        };
        clear(view.inosused(), g.ipg)
            && clear(view.blksfree(), g.cg_frags(c))
            && clear(view.clustersfree(), blocks)
            && old.get(lay.nextfreeoff as usize..).is_none_or(|b| b.iter().all(|&b| b == 0))
    }
}

/// Counts the bits below `limit` that only `right` has, and those that only `stored` has.
fn diff_bits(stored: &[u8], right: &[u8], limit: u32, only_right: &mut u64, only_stored: &mut u64) {
    for (i, (&s, &r)) in stored.iter().zip(right).enumerate() {
        if s == r {
            continue;
        }
        for bit in 0..8 {
            if i as u32 * 8 + bit < limit {
                *only_right += u64::from(r >> bit & 1 == 1 && s >> bit & 1 == 0);
                *only_stored += u64::from(s >> bit & 1 == 1 && r >> bit & 1 == 0);
            }
        }
    }
}

fn show(cs: &Csum) -> String {
    format!("dirs {} blocks {} inodes {} frags {}", cs.ndir, cs.nbfree, cs.nifree, cs.nffree)
}
