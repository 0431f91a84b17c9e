//! The allocator on volumes that newfs made, compared with counts computed bit by bit from the
//! maps.

mod damage;
mod directories;
mod full;
mod growth;
mod layout;
mod random;

use super::{Alloc, AllocParams, ParentDir, PrefQuery, Reserve};
use crate::buf::{BufCache, CacheLimits, CacheParts};
use crate::counters::Counters;
use crate::ordering::{FragRun, SyncOrdered};
use crate::tunables::{AllocPolicy, DirPref, TunableValues, Tunables};
use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_device::{BlockDevice, ManualClock, MemDevice, SplitMix64};
use ffs_ondisk::{Cg, CgNo, Csum, Endian, Format, FragNo, Geometry, Ino, Lbn, Superblock, cg};
use std::sync::Arc;

const ROOT_DIR: ParentDir = ParentDir { ino: Ino::ROOT, depth: 0, nlink: 3 };

/// A volume, and an allocator on it.
struct Bench {
    a: Alloc,
    dev: Arc<MemDevice>,
}

/// How the volume is created and mounted.
#[derive(Clone, Debug)]
struct Setup {
    newfs: NewfsOptions,
    bytes: u64,
    policy: AllocPolicy,
    dirpref: DirPref,
}

impl Setup {
    fn new(format: Format, endian: Endian, bsize: u32, frag: u32) -> Setup {
        let newfs = NewfsOptions {
            endian,
            format: Some(format),
            bsize: Some(bsize),
            fsize: Some(bsize / frag),
            ..NewfsOptions::default()
        };
        let (policy, dirpref) = (AllocPolicy::Y2013, DirPref::New10);
        Setup { newfs, bytes: 16 << 20, policy, dirpref }
    }

    fn ufs2() -> Setup {
        Setup::new(Format::Ufs2, Endian::Little, 4096, 8)
    }

    /// About `n` groups.
    fn groups(mut self, n: u32) -> Setup {
        let fsize = self.newfs.fsize.unwrap();
        self.newfs.max_group = Some((self.bytes / u64::from(fsize) / u64::from(n)) as u32);
        self
    }

    fn make(&self) -> Bench {
        let dev = MemDevice::new(self.bytes);
        let clock = ManualClock::default();
        let made = newfs(&dev, &self.newfs, &clock, &SplitMix64::new(7), &mut |_, _| {}).unwrap();
        Bench::open(Arc::new(dev), &made.superblock, made.geometry, self)
    }
}

impl Bench {
    fn open(dev: Arc<MemDevice>, sb: &Superblock, g: Geometry, setup: &Setup) -> Bench {
        let ordering = Arc::new(SyncOrdered);
        let cache = BufCache::new(CacheParts {
            g,
            dev: dev.clone(),
            clock: Arc::new(ManualClock::default()),
            counters: Arc::new(Counters::default()),
            hooks: ordering.clone(),
            limits: CacheLimits::simple(64 << 20, 64 << 20),
        });
        let values = TunableValues {
            alloc: setup.policy,
            dirpref: setup.dirpref,
            ..TunableValues::default()
        };
        let mut area = vec![0; g.cssize as usize];
        dev.read_at(g.frag_to_byte(g.csaddr), &mut area).unwrap();
        let cs = (0..g.ncg as usize).map(|i| Csum::decode(&area, i * 16, g.endian)).collect();
        let a = Alloc::new(
            Arc::new(cache),
            ordering,
            Arc::new(Tunables::new(&values)),
            SplitMix64::new(3),
            AllocParams::of(sb, &g),
            cs,
        );
        Bench { a, dev }
    }

    fn g(&self) -> &Geometry {
        self.a.g()
    }

    fn groups(&self) -> impl Iterator<Item = CgNo> + use<> {
        (0..self.g().ncg).map(CgNo)
    }

    /// Allocates `frags` fragments without use of the reserve.
    fn alloc(&self, pref: Option<FragNo>, frags: u32) -> crate::Result<FragNo> {
        self.a.alloc_frags(Ino::ROOT, pref, frags, Reserve::Allowed)
    }

    fn free(&self, at: FragNo, frags: u32) -> crate::Result<()> {
        self.a.free_frags(FragRun { at, frags })
    }

    /// Compares every count with the maps, in memory.
    fn audit(&self) {
        let mut totals = Csum::default();
        for c in self.groups() {
            let biggest = self.a.edit(c, |e| Ok(audit_group(self.g(), c, e.cg.view()))).unwrap();
            let cs = self.a.edit(c, |e| Ok(e.cg.view().cs())).unwrap();
            assert_eq!(self.a.sum.lock().group(c), cs, "{c:?}: summary against group");
            assert!(self.a.sum.lock().maxcluster(c) >= biggest, "{c:?}: maxcluster");
            totals.add(&cs);
        }
        assert_eq!(self.a.totals(), totals);
    }

    /// Writes all buffers, then compares every count with the maps on the device.
    fn audit_device(&self) {
        self.a.cache.flush_all().unwrap();
        for c in self.groups() {
            let mut block = vec![0; self.g().cgsize as usize];
            self.dev.read_at(self.g().frag_to_byte(self.g().cgtod(c)), &mut block).unwrap();
            cg::validate(self.g(), c, &block).unwrap();
            audit_group(self.g(), c, Cg::new(self.g(), &block));
        }
    }

    /// The free fragments of the volume, one by one.
    fn free_map(&self) -> Vec<bool> {
        let mut out = Vec::new();
        for c in self.groups() {
            let n = self.g().cg_frags(c);
            let map = |e: &mut super::group::GroupEdit<'_>| {
                Ok((0..n).map(|f| e.cg.view().frag_free(f)).collect::<Vec<_>>())
            };
            out.extend(self.a.edit(c, map).unwrap());
        }
        out
    }
}

/// Checks one group's counts against its maps; returns the largest free cluster, capped.
fn audit_group(g: &Geometry, c: CgNo, cg: Cg<'_>) -> u32 {
    let free: Vec<bool> = (0..g.fpg).map(|f| cg.frag_free(f)).collect();
    let mut frsum = [0u32; 9];
    let (mut nbfree, mut nffree) = (0, 0);
    let mut sums = vec![0i32; g.contigsumsize as usize + 1];
    let (mut run, mut biggest) = (0usize, 0);
    let max = g.contigsumsize as usize;
    for (b, block) in free.chunks(g.frag as usize).chain(std::iter::once(&[][..])).enumerate() {
        let whole = !block.is_empty() && block.iter().all(|f| *f);
        if whole {
            nbfree += 1;
            run += 1;
        } else {
            nffree += block.iter().filter(|f| **f).count() as i64;
            for piece in block.split(|f| !*f).filter(|p| !p.is_empty()) {
                frsum[piece.len()] += 1;
            }
            sums[run.min(max)] += 1;
            biggest = biggest.max(run.min(max));
            run = 0;
        }
        if max > 0 && !block.is_empty() {
            let bit = cg::bit(cg.clustersfree(), b as u32);
            assert_eq!(bit, Some(whole), "{c:?}: cluster bit {b}");
        }
    }
    let used = (0..g.ipg).filter(|i| cg.inode_used(*i)).count() as i64;
    let cs = cg.cs();
    assert_eq!((cs.nbfree, cs.nffree), (nbfree, nffree), "{c:?}: free blocks and fragments");
    assert_eq!(cs.nifree, i64::from(g.ipg) - used, "{c:?}: free inodes");
    for n in 1..g.frag {
        assert_eq!(cg.frsum(n), frsum[n as usize], "{c:?}: runs of {n}");
    }
    for k in 1..=g.contigsumsize {
        assert_eq!(cg.clustersum(k), sums[k as usize], "{c:?}: clusters of {k}");
    }
    biggest as u32
}

/// A query for the next data block of a file.
fn data_block(ino: Ino, lbn: u64, index: usize, prev: Option<FragNo>) -> PrefQuery {
    PrefQuery {
        ino,
        is_dir: false,
        lbn: Lbn(lbn),
        index,
        prev,
        indirect: None,
        after_indirect: None,
        last_direct: None,
    }
}
