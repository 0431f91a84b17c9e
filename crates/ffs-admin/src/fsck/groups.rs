//! Phase 0: cylinder groups, as far as phase 1 depends on them.
//!
//! **Purpose.** Decides for each group whether its header and its inode map can be believed, and how many of its
//! inodes have to be looked at.
//!
//! **Invariants.**
//! 1. An inode whose map bit is set is looked at even if `cg_initediblk` excludes it: either of the two is wrong.
//! 2. A group whose header is wrong gives no information but a plausible `cg_initediblk`.
//!
//! References: spec/fsck-and-crash.md §3.0; spec/on-disk-format.md §5, §18.2.

use ffs_ondisk::cg::{self, CG_MAGIC, Cg, CgFields, CgLayout};
use ffs_ondisk::geometry::Format;
use ffs_ondisk::superblock::CkHash;
use ffs_ondisk::{CgNo, Error, Geometry};

use super::Checker;
use super::judge::{Draft, Res, Stop};
use super::report::{Id, Phase, exit};
use super::store::Class;
use super::tables::Group;

impl Checker<'_> {
    /// The block of group `c` as it is now.
    pub(super) fn read_group(&mut self, c: CgNo) -> Res<Vec<u8>> {
        self.store.read(self.g.cgtod(c), self.g.cgsize as usize)
    }

    /// Looks at every group.
    pub(super) fn phase0(&mut self) -> Res<()> {
        self.enter(Phase::Groups, self.g.ncg.into())?;
        for c in 0..self.g.ncg {
            let c = CgNo(c);
            let bytes = self.read_group(c)?;
            let before = self.groups[c.0 as usize];
            let mut group = self.judge_group(c, bytes)?;
            // A map that was doubtful once stays so, though its header or hash is right by now.
            group.trusted &= !before.doubted;
            group.doubted = !group.trusted;
            self.groups[c.0 as usize] = group;
            self.advance(1);
        }
        self.leave()
    }

    fn judge_group(&mut self, c: CgNo, mut bytes: Vec<u8>) -> Res<Group> {
        let g = self.g;
        let place = format!("group {c}");
        if self.adopting.contains(CkHash::CYLGRP) && !cg::hash_ok(&g, &bytes) {
            self.put_group(c, &mut bytes)?;
        }
        let hash = match cg::validate(&g, c, &bytes) {
            Ok(()) => None,
            Err(Error::Corrupt(bad)) if bad.field == "ckhash" => Some(bad),
            Err(Error::Corrupt(bad)) => {
                let scan = salvage_scan(&g, &bytes);
                let message = format!("bad {} in the group's header: rebuild it", bad.field);
                let draft = Draft::fatal(Id::CgMagic, message).place(place);
                let sound = self.ask(draft.before(bad.found).after(bad.expected))?;
                if sound {
                    self.rebuild_header(c, bytes, scan)?;
                }
                return Ok(Group { sound, trusted: false, doubted: true, scan });
            }
            Err(other) => return Err(Stop::Refused(exit::ERROR, other.to_string())),
        };
        let view = Cg::new(&g, &bytes);
        let (stored, used) = (view.initediblk(), used_limit(&g, view.inosused()));
        // Every newfs initialises two blocks: below that the number says nothing.
        let scan = if stored < least_initialised(&g) { g.ipg } else { stored.max(used) };
        if let Some(bad) = &hash {
            let draft = Draft::benign(Id::CgHash, "wrong check hash").place(place.clone());
            if self.ask(draft.before(&bad.found))? {
                // Marks beyond the initialised inodes may be half of a torn write: the inode blocks were
                // initialised before it, so they can be looked at.
                self.rebuild_header(c, bytes, scan)?;
            }
        } else if scan > stored {
            let message = if used > stored {
                "inodes beyond the initialised ones are marked used"
            } else {
                "fewer inodes initialised than any group has"
            };
            let draft = Draft::fatal(Id::CgMagic, message).place(place);
            if self.ask(draft.before(stored).after(scan))? {
                self.rebuild_header(c, bytes, scan)?;
            }
        }
        let trusted = hash.is_none();
        Ok(Group { sound: true, trusted, doubted: !trusted, scan })
    }

    /// Gives group `c` a right header and check hash; maps and counts stay for phase 5 to judge.
    fn rebuild_header(&mut self, c: CgNo, mut bytes: Vec<u8>, inited: u32) -> Res<()> {
        let g = self.g;
        let old = CgFields::decode(&bytes, g.endian);
        right_header(&g, c, &old, inited).encode(&mut bytes, g.endian);
        self.put_group(c, &mut bytes)
    }

    /// Writes the block of group `c` with the right check hash.
    pub(super) fn put_group(&mut self, c: CgNo, bytes: &mut [u8]) -> Res<()> {
        cg::rehash(&self.g, bytes);
        self.store.write(self.g.cgtod(c), bytes, Class::Group)
    }
}

/// `old` with every field that the geometry determines made right.
pub(super) fn right_header(g: &Geometry, c: CgNo, old: &CgFields, inited: u32) -> CgFields {
    let lay = CgLayout::of(g);
    let ufs1 = g.format == Format::Ufs1;
    let (ndblk, clusters) = (g.cg_frags(c), g.contigsumsize > 0);
    let within = |rotor: u32, limit: u32| if rotor < limit { rotor } else { 0 };
    let mut new = CgFields {
        firstfield: 0,
        magic: CG_MAGIC,
        cgx: c.0,
        ndblk,
        rotor: within(old.rotor, ndblk),
        frotor: within(old.frotor, ndblk),
        irotor: within(old.irotor, g.ipg),
        old_btotoff: lay.btotoff as i32,
        old_boff: lay.boff as i32,
        iusedoff: lay.iusedoff,
        freeoff: lay.freeoff,
        nextfreeoff: lay.nextfreeoff,
        clustersumoff: lay.clustersumoff,
        clusteroff: lay.clusteroff,
        nclusterblks: if clusters { ndblk / g.frag } else { 0 },
        ..old.clone()
    };
    if ufs1 {
        new.old_niblk = g.ipg as i16;
        if old.magic != CG_MAGIC || old.cgx != c.0 {
            new.old_ncyl = i16::try_from(g.old_cpg).unwrap_or(i16::MAX);
        }
    } else {
        new.niblk = g.ipg;
        new.initediblk = inited;
    }
    new
}

/// Index after the last used inode, rounded up to whole inode blocks.
pub(super) fn used_limit(g: &Geometry, inosused: &[u8]) -> u32 {
    let last = (0..g.ipg).rev().find(|&i| cg::bit(inosused, i) == Some(true));
    last.map_or(0, |i| (i + 1).next_multiple_of(g.inopb).min(g.ipg))
}

/// The fewest inodes that a group has initialised.
fn least_initialised(g: &Geometry) -> u32 {
    if g.format == Format::Ufs1 { 0 } else { g.ipg.min(2 * g.inopb) }
}

/// How many inodes of a group with a wrong header to look at.
fn salvage_scan(g: &Geometry, bytes: &[u8]) -> u32 {
    if g.format == Format::Ufs1 {
        return g.ipg;
    }
    let h = CgFields::decode(bytes, g.endian);
    let init = h.initediblk;
    let plausible = h.magic == CG_MAGIC
        && h.niblk == g.ipg
        && init <= g.ipg
        && init >= least_initialised(g)
        && (init.is_multiple_of(g.inopb) || init == g.ipg);
    let used = used_limit(g, Cg::new(g, bytes).inosused());
    if plausible && used <= init { init } else { g.ipg }
}
