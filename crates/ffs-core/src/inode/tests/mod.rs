//! Files on new volumes, compared with vectors of bytes, and checked by fsck.

mod attrs;
mod content;
mod faults;
mod hostile;
mod passes;
mod sparse;
mod table;
mod views;

use super::{Growth, Inode, InodeData, InodeTable, InodeView, LockedInode};
use crate::alloc::{Alloc, AllocParams, ParentDir, Reserve};
use crate::buf::{BufCache, CacheLimits, CacheParts};
use crate::counters::{CounterValues, Counters};
use crate::options::Atime;
use crate::ordering::{FragRun, InodeChange, Ordering, SyncOrdered};
use crate::snapshot::CopyOrder;
use crate::syncer::Syncer;
use crate::tunables::{TunableValues, Tunables};
use crate::ufsmount::UfsMount;
use ffs_admin::fsck::quick_check;
use ffs_admin::newfs;
use ffs_admin::volume::Volume;
use ffs_device::{BlockDevice, ManualClock, SplitMix64, Timestamp};
use ffs_ondisk::dir::{self, DirFormat, Record};
use ffs_ondisk::{CgNo, Csum, Dinode, Endian, Format, Geometry, Ino, Lbn};
use std::sync::Arc;

const REGULAR: u16 = 0o100_644;

/// Format, byte order, block size, fragments per block.
type Shape = (Format, Endian, u32, u32);

/// The shapes of volumes for the tests of content.
const SHAPES: [Shape; 7] = [
    (Format::Ufs2, Endian::Little, 4096, 8),
    (Format::Ufs2, Endian::Big, 8192, 8),
    (Format::Ufs2, Endian::Little, 32768, 8),
    (Format::Ufs2, Endian::Little, 65536, 1),
    (Format::Ufs1, Endian::Little, 4096, 8),
    (Format::Ufs1, Endian::Big, 16384, 4),
    (Format::Ufs1, Endian::Little, 8192, 2),
];

/// A volume, and the modules of the core up to the inodes.
struct Bench {
    t: Arc<InodeTable>,
    syncer: Syncer,
    dev: Arc<dyn BlockDevice>,
    clock: Arc<ManualClock>,
}

fn volume((format, endian, bsize, frag): Shape, bytes: u64) -> Arc<dyn BlockDevice> {
    Arc::new(newfs::quick(endian, format, bsize, bsize / frag, bytes).unwrap())
}

impl Bench {
    fn new(shape: Shape, bytes: u64) -> Bench {
        Bench::open(volume(shape, bytes))
    }

    fn open(dev: Arc<dyn BlockDevice>) -> Bench {
        Bench::with(dev, 64 << 20, 1000, Atime::Always)
    }

    /// `cache` is in bytes.
    fn with(dev: Arc<dyn BlockDevice>, cache: usize, vnodes: u64, atime: Atime) -> Bench {
        Bench::under(Arc::new(SyncOrdered), dev, (cache, vnodes), atime)
    }

    /// With the ordering mode `mode`.
    fn under<T: Ordering + 'static>(
        mode: Arc<T>,
        dev: Arc<dyn BlockDevice>,
        (cache, vnodes): (usize, u64),
        atime: Atime,
    ) -> Bench {
        let v = Volume::open(dev.as_ref()).unwrap();
        let (sb, g) = (v.sb, v.geo);
        let clock = Arc::new(ManualClock::new(Timestamp::new(1_700_000_000, 5)));
        let cache = BufCache::new(CacheParts {
            g,
            dev: dev.clone(),
            clock: clock.clone(),
            counters: Arc::new(Counters::default()),
            hooks: mode.clone(),
            limits: CacheLimits::simple(cache, cache / 4),
        });
        let mut area = vec![0; g.cssize as usize];
        dev.read_at(g.frag_to_byte(g.csaddr), &mut area).unwrap();
        let cs = (0..g.ncg as usize).map(|i| Csum::decode(&area, i * 16, g.endian)).collect();
        let values = TunableValues { maxvnodes: vnodes, ..TunableValues::default() };
        let alloc = Alloc::new(
            Arc::new(cache),
            mode as Arc<dyn Ordering>,
            Arc::new(Tunables::new(&values)),
            SplitMix64::new(3),
            AllocParams::of(&sb, &g),
            cs,
        );
        let ump = Arc::new(UfsMount::new(alloc, atime, CopyOrder::None, 1));
        ump.set_read_only(false);
        let t = Arc::new(InodeTable::new(ump, 1));
        Bench { syncer: Syncer::new(t.clone()), t, dev, clock }
    }

    fn g(&self) -> Geometry {
        *self.t.g()
    }

    fn lock<'a>(&'a self, ip: &'a Inode) -> LockedInode<'a> {
        ip.lock(&self.t.ump)
    }

    fn view<'a>(&'a self, ip: &'a Inode, data: &'a InodeData) -> InodeView<'a> {
        InodeView::new(&self.t.ump, ip, data)
    }

    fn counters(&self) -> CounterValues {
        self.t.ump.cache.counters.values()
    }

    /// A new file without a name; its user is the test.
    fn nameless(&self, mode: u16) -> Arc<Inode> {
        let parent = ParentDir { ino: Ino::ROOT, depth: 0, nlink: 3 };
        let ip = self.t.create(&parent, mode, (10, 20), Reserve::Denied).unwrap();
        self.t.hold(&ip);
        self.lock(&ip).update(InodeChange::Init).unwrap();
        ip
    }

    /// A new file in the root directory; its user is the test.
    fn file(&self, name: &str) -> Arc<Inode> {
        self.node(name, REGULAR)
    }

    fn node(&self, name: &str, mode: u16) -> Arc<Inode> {
        let ip = self.nameless(mode);
        self.enter(name, &ip);
        ip
    }

    /// Enters a name: splits the last record of the root directory's first chunk.
    fn enter(&self, name: &str, ip: &Inode) {
        let root = self.t.get(Ino::ROOT).unwrap();
        let data = root.write();
        let buf = self.view(&root, &data).read_block(Lbn(0)).unwrap().unwrap();
        {
            let fmt = DirFormat::of(&self.g());
            let mut b = buf.write();
            let chunk = &mut b.bytes[..512];
            let (off, reclen, keep) = dir::records(fmt, chunk)
                .map(|r| r.unwrap())
                .map(|r| (r.off, r.reclen, dir::dirsiz(r.name.len())))
                .last()
                .unwrap();
            assert!(reclen - keep >= dir::dirsiz(name.len()), "the chunk is full");
            dir::set_reclen(fmt, chunk, off, keep);
            let rec = Record {
                off: off + keep,
                ino: ip.ino.0,
                reclen: reclen - keep,
                dtype: ip.read().d.file_type().unwrap().dirent(),
                name: name.as_bytes(),
            };
            dir::write(fmt, chunk, &rec);
        }
        self.t.ump.cache.mark_dirty(&buf);
    }

    /// Writes everything to the device, with summaries and totals, as an unmount does.
    fn sync(&self) {
        self.t.flush_times().unwrap();
        self.t.ump.cache.flush_all().unwrap();
        let mut v = Volume::open(self.dev.as_ref()).unwrap();
        v.write_csums(CgNo(0), &self.t.ump.alloc.group_sums()).unwrap();
        v.sb.set_cstotal(self.t.ump.alloc.totals());
        v.write_superblock().unwrap();
    }

    /// Syncs, and asserts that fsck has no findings.
    fn check(&self, what: &str) {
        self.sync();
        let found = quick_check(&self.dev);
        assert!(found.is_empty(), "{what}: {found:#?}");
    }

    /// Syncs, and opens the volume again.
    fn again(&self) -> Bench {
        self.sync();
        Bench::open(self.dev.clone())
    }

    fn write(&self, ip: &Inode, off: u64, bytes: &[u8]) -> crate::Result<usize> {
        self.lock(ip).write_at(off, &mut &bytes[..], Reserve::Allowed)
    }

    fn truncate(&self, ip: &Inode, size: u64) -> crate::Result<()> {
        self.lock(ip).truncate(size, Reserve::Allowed)
    }

    fn read(&self, ip: &Inode, off: u64, len: usize) -> crate::Result<Vec<u8>> {
        let mut out = vec![0xee; len];
        let n = self.view(ip, &ip.read()).read_at(off, &mut out)?;
        out.truncate(n);
        Ok(out)
    }

    fn all(&self, ip: &Inode) -> Vec<u8> {
        self.read(ip, 0, ip.read().d.size as usize + 1).unwrap()
    }

    /// Allocates all free fragments, and whole blocks until only `leave` are free.
    fn fill(&self, leave: i64) -> Vec<FragRun> {
        let g = self.g();
        let mut taken = Vec::new();
        while self.t.ump.alloc.totals().nffree > 0 {
            let at = self.t.ump.alloc.alloc_frags(Ino::ROOT, None, 1, Reserve::Allowed).unwrap();
            taken.push(FragRun { at, frags: 1 });
        }
        while self.t.ump.alloc.totals().nbfree > leave {
            let at = self.t.ump.alloc.alloc_frags(Ino::ROOT, None, g.frag, Reserve::Allowed);
            taken.push(FragRun { at: at.unwrap(), frags: g.frag });
        }
        taken
    }

    fn unfill(&self, taken: &[FragRun]) {
        for &run in taken {
            self.t.ump.alloc.free_frags(run).unwrap();
        }
    }

    /// The inode in its block on the device.
    fn on_device(&self, ino: Ino) -> Dinode {
        let g = self.g();
        let mut b = vec![0; g.format.dinode_size()];
        let at = g.frag_to_byte(g.ino_to_fsba(ino)) + g.ino_to_fsbo(ino) as u64;
        self.dev.read_at(at, &mut b).unwrap();
        Dinode::decode(&g, &b)
    }
}
