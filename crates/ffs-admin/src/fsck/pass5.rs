//! Phase 5: maps and summaries.
//!
//! **Purpose.** Rebuilds every group from the tables of the earlier phases and compares.
//!
//! **Invariants.**
//! 1. The result depends only on the used fragments, the inode table and the geometry; from the old
//!    block it keeps only the rotors, the times and the fields of other systems.
//! 2. Bits beyond the last inode, fragment and block, and bytes after the maps, are zero.
//!
//! References: spec/fsck-and-crash.md §3.6; spec/on-disk-format.md §5, §6.

use ffs_ondisk::cg::{self, Cg, CgFields, CgLayout, CgMut, full_pattern};
use ffs_ondisk::csum::clamp32;
use ffs_ondisk::geometry::Format;
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::wire::put;
use ffs_ondisk::{CgNo, Csum, Ino};

use super::alloc::Completion;
use super::buffered::Class;
use super::checker::Checker;
use super::groups::{right_header, used_limit};
use super::inoinfo::State;
use super::report::{Id, Phase};
use super::resolve::{Draft, Res};
use crate::counted;

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
        for c in 0..self.g.ncg {
            self.check_interrupt()?;
            let cs = self.check_group(CgNo(c))?;
            area_changed |= self.check_summary_record(CgNo(c), &cs, &mut area)?;
            total.add(&cs);
            self.advance(1);
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
        let (mut new, cs) = self.build_group(c, &old);
        if !self.groups[c.0 as usize].header_ok {
            // The repair of its header was refused, so there is nothing to compare.
            return Ok(cs);
        }
        let place = format!("group {c}");
        let mut fix = self.check_maps(c, &old, &new, &place)? || handed_out;
        let lay = CgLayout::of(&g);
        let header_end = cg::CG_HEADER;
        let sums = lay.clustersumoff as usize..lay.clusteroff as usize;
        let clusters = g.contigsumsize > 0
            && old.get(sums.start + 4..sums.end) != new.get(sums.start + 4..sums.end);
        let masked = |b: &[u8]| {
            let mut head = b[..header_end].to_vec();
            put(&mut head, 132, g.endian, 0u32);
            head
        };
        if masked(&old) != masked(&new) || clusters {
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

    /// The right block of group `c`, and its counts.
    fn build_group(&mut self, c: CgNo, old: &[u8]) -> (Vec<u8>, Csum) {
        let g = self.g;
        let lay = CgLayout::of(&g);
        let mut new = vec![0; old.len()];
        // The tables of old rotational layouts are between header and maps; they are copied
        // unchanged.
        let keep = lay.iusedoff as usize;
        new[..keep].copy_from_slice(&old[..keep]);
        let mut cs = Csum::default();
        self.fill_inodes(c, &mut new, &mut cs);
        let frsum = self.fill_frags(c, &mut new, &mut cs);
        fill_clusters(&g, c, &mut new);
        let stored = CgFields::decode(old, g.endian);
        let inited = self.initialised(c, &new, stored.initediblk);
        let mut header = right_header(&g, c, &stored, inited);
        header.cs = [cs.ndir, cs.nbfree, cs.nifree, cs.nffree].map(clamp32);
        header.frsum = frsum;
        if self.sb.flags().contains(FsFlags::GJOURNAL) {
            header.unrefs = 0;
        }
        header.encode(&mut new, g.endian);
        (new, cs)
    }

    /// `cg_initediblk` of group `c`: unchanged, or with `-r` reduced to the inodes in use.
    fn initialised(&self, c: CgNo, new: &[u8], stored: u32) -> u32 {
        let g = self.g;
        if g.format == Format::Ufs1 {
            return 0;
        }
        // At least the inodes in use, all of which phase 1 has scanned.
        let used = used_limit(&g, Cg::new(&g, new).inosused());
        let rebuilt = !self.groups[c.0 as usize].header_ok;
        let scan = if rebuilt { self.groups[c.0 as usize].scan } else { 0 };
        let stored = stored.min(g.ipg).max(scan).max(used);
        if !self.shrink || self.resolver.is_preen() {
            return stored;
        }
        stored.min(used.max(2 * g.inopb).min(g.ipg))
    }

    fn fill_inodes(&self, c: CgNo, new: &mut [u8], cs: &mut Csum) {
        let g = self.g;
        let mut view = CgMut::new(&g, new);
        let mut used = 0;
        for (i, rec) in self.inodes.in_group(c).iter().enumerate() {
            let ino = Ino(c.0 * g.ipg + i as u32);
            if rec.state == State::Unallocated || ino.0 < 2 {
                continue;
            }
            view.set_inode_used(i as u32, true);
            used += 1;
            cs.ndir += i64::from(rec.is_dir());
        }
        if c.0 == 0 {
            // Inodes 0 and 1 are never allocated.
            view.set_inode_used(0, true);
            view.set_inode_used(1, true);
            used += 2;
        }
        cs.nifree = i64::from(g.ipg) - used;
    }

    fn fill_frags(&self, c: CgNo, new: &mut [u8], cs: &mut Csum) -> [u32; 8] {
        let g = self.g;
        let (base, ndblk) = (g.cgbase(c).0, g.cg_frags(c));
        let map = CgLayout::of(&g).freeoff as usize;
        for i in 0..ndblk.div_ceil(8) {
            let left = ndblk - i * 8;
            let mask = if left >= 8 { 0xff } else { (1u8 << left) - 1 };
            new[map + i as usize] = !self.used.byte(base + u64::from(i) * 8) & mask;
        }
        let view = Cg::new(&g, new);
        let mut frsum = [0u32; 8];
        let full = full_pattern(g.frag);
        for blk in 0..ndblk.div_ceil(g.frag) {
            let pattern = view.block_pattern(blk);
            if pattern == full {
                cs.nbfree += 1;
            } else if pattern != 0 {
                cs.nffree += i64::from(pattern.count_ones());
                for (sum, n) in frsum.iter_mut().zip(cg::runs(pattern, g.frag)) {
                    *sum += u32::from(n);
                }
            }
        }
        frsum
    }
}

/// Builds the cluster map and summary from the map of free fragments.
fn fill_clusters(g: &ffs_ondisk::Geometry, c: CgNo, new: &mut [u8]) {
    if g.contigsumsize == 0 {
        return;
    }
    let blocks = g.cg_frags(c) / g.frag;
    let mut run = 0;
    let mut view = CgMut::new(g, new);
    for blk in 0..=blocks {
        if blk < blocks && view.view().block_free(blk) {
            view.set_cluster_free(blk, true);
            run += 1;
        } else if run > 0 {
            view.add_clustersum(run.min(g.contigsumsize), 1);
            run = 0;
        }
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
