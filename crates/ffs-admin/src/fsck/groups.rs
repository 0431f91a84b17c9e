//! Phase 0: headers of the cylinder groups.
//!
//! **Purpose.** Decides for each group whether its header is valid, whether phase 1 can trust its
//! inode map, and how many of its inodes phase 1 must scan.
//!
//! **Invariants.**
//! 1. An inode that is marked used is scanned even if `cg_initediblk` excludes it, because one of
//!    the two is wrong.
//! 2. Of a group with an invalid header only a plausible `cg_initediblk` is used.
//!
//! References: spec/fsck-and-crash.md §3.0; spec/on-disk-format.md §5, §18.2.

use ffs_ondisk::cg::{self, CG_MAGIC, Cg, CgFields, CgLayout};
use ffs_ondisk::geometry::Format;
use ffs_ondisk::superblock::CkHash;
use ffs_ondisk::{CgNo, Error, Geometry};

use super::buffered::{Class, Read};
use super::checker::Checker;
use super::corrections::Correction;
use super::inoinfo::CgState;
use super::report::{Id, Phase, exit};
use super::resolve::{Draft, Res, Stop};

/// The header of a group that a thread has read.
#[derive(Default)]
struct HeaderRead {
    bytes: Vec<u8>,
    read: Read,
    /// The state of the group, if the header is right.
    right: Option<CgState>,
}

impl Checker<'_> {
    /// The current block of group `c`.
    pub(super) fn read_group(&mut self, c: CgNo) -> Res<Vec<u8>> {
        self.disk.read(self.g.cgtod(c), self.g.cgsize as usize)
    }

    /// Checks every group.
    pub(super) fn phase0(&mut self) -> Res<()> {
        self.begin_phase(Phase::Groups, self.g.ncg.into())?;
        let (g, reader) = (self.g, self.disk.reader());
        let work = |item: usize, header: &mut HeaderRead| {
            let c = CgNo(item as u32);
            header.bytes.resize(g.cgsize as usize, 0);
            header.read = reader.read(g.cgtod(c), &mut header.bytes);
            header.right = state_if_right(&g, c, &header.bytes);
        };
        self.threads.in_order(g.ncg as usize, work, |item, header| {
            let (c, at) = (CgNo(item as u32), g.cgtod(CgNo(item as u32)));
            let current = self.disk.is_final(at, header.bytes.len(), header.read);
            let mut group = match header.right.filter(|_| current) {
                Some(group) => group,
                None => {
                    self.disk.complete(at, &mut header.bytes, header.read)?;
                    self.check_header(c, std::mem::take(&mut header.bytes))?
                }
            };
            // An untrusted map stays untrusted after a repair of its header or check hash.
            group.map_trusted &= !self.groups[item].map_doubted;
            group.map_doubted = !group.map_trusted;
            self.groups[item] = group;
            self.advance(1);
            self.check_interrupt()
        })?;
        self.end_phase()
    }

    fn check_header(&mut self, c: CgNo, mut bytes: Vec<u8>) -> Res<CgState> {
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
                let header_ok = self.should_fix(draft.before(bad.found).after(bad.expected))?;
                if header_ok {
                    self.rebuild_header(c, bytes, scan)?;
                }
                return Ok(CgState { header_ok, map_trusted: false, map_doubted: true, scan });
            }
            Err(other) => return Err(Stop::Refused(exit::ERROR, other.to_string())),
        };
        let view = Cg::new(&g, &bytes);
        let (stored, used) = (view.initediblk(), used_limit(&g, view.inosused()));
        // Every newfs initialises two inode blocks, so a smaller number is wrong.
        let scan = if stored < least_initialised(&g) { g.ipg } else { stored.max(used) };
        if let Some(bad) = &hash {
            let draft = Draft::benign(Id::CgHash, "wrong check hash").place(place.clone());
            if self.should_fix(draft.before(&bad.found))? {
                self.correct(Correction::WriteGroup { group: c });
                // Inodes marked used beyond the initialised ones may come from a torn write. The
                // inode blocks were initialised before that write, so they can be scanned.
                self.rebuild_header(c, bytes, scan)?;
            }
        } else if scan > stored {
            let message = if used > stored {
                "inodes beyond the initialised ones are marked used"
            } else {
                "fewer inodes initialised than any group has"
            };
            let draft = Draft::fatal(Id::CgMagic, message).place(place);
            if self.should_fix(draft.before(stored).after(scan))? {
                self.rebuild_header(c, bytes, scan)?;
            }
        }
        let map_trusted = hash.is_none();
        Ok(CgState { header_ok: true, map_trusted, map_doubted: !map_trusted, scan })
    }

    /// Repairs the header and check hash of group `c`; phase 5 checks its maps and counts.
    fn rebuild_header(&mut self, c: CgNo, mut bytes: Vec<u8>, inited: u32) -> Res<()> {
        let g = self.g;
        let old = CgFields::decode(&bytes, g.endian);
        right_header(&g, c, &old, inited).encode(&mut bytes, g.endian);
        self.put_group(c, &mut bytes)
    }

    /// Writes the block of group `c` with a correct check hash.
    pub(super) fn put_group(&mut self, c: CgNo, bytes: &mut [u8]) -> Res<()> {
        cg::rehash(&self.g, bytes);
        self.disk.write(self.g.cgtod(c), bytes, Class::CylGroup)
    }
}

/// `old` with every field corrected that the geometry determines.
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

/// The state of group `c` if its header is right: then [`Checker::check_header`] finds nothing.
fn state_if_right(g: &Geometry, c: CgNo, bytes: &[u8]) -> Option<CgState> {
    cg::validate(g, c, bytes).ok()?;
    let view = Cg::new(g, bytes);
    let scan = view.initediblk();
    let right = scan >= least_initialised(g) && scan >= used_limit(g, view.inosused());
    right.then_some(CgState { header_ok: true, map_trusted: true, map_doubted: false, scan })
}

/// Index after the last used inode, rounded up to whole inode blocks.
pub(super) fn used_limit(g: &Geometry, inosused: &[u8]) -> u32 {
    let spare = (inosused.len() * 8).saturating_sub(g.ipg as usize) as u32;
    let inodes = |i: usize, byte: u8| match i + 1 == inosused.len() {
        true => byte & (u8::MAX >> spare),
        false => byte,
    };
    let used = inosused.iter().enumerate().map(|(i, &byte)| (i, inodes(i, byte)));
    let last = used.rev().find(|&(_, byte)| byte != 0);
    last.map_or(0, |(i, byte)| {
        let end = i as u32 * 8 + (8 - byte.leading_zeros());
        end.next_multiple_of(g.inopb).min(g.ipg)
    })
}

/// The least number of inodes that every group has initialised.
fn least_initialised(g: &Geometry) -> u32 {
    if g.format == Format::Ufs1 { 0 } else { g.ipg.min(2 * g.inopb) }
}

/// Inodes to scan in a group with an invalid header.
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
