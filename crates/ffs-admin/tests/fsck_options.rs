//! Options, offers, failing devices, interruption, large and crowded volumes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::fsck_util::{Img, KINDS};
use ffs_admin::fsck::{
    Answer, Answers, Erase, Fsck, FsckOptions, FsckReport, Id, Mode, exit, quick_check,
};
use ffs_device::record::{Event, Recorder};
use ffs_device::{BlockDevice, DeviceError, Durability, MemDevice, Operation};
use ffs_ondisk::superblock::CkHash;
use ffs_ondisk::{CgNo, Endian, FileType, Format, Superblock};

/// A device that counts transfers and may refuse them.
struct Wrapped {
    inner: Arc<MemDevice>,
    /// Reads that contain this byte fail.
    bad_byte: Option<u64>,
    /// Later writes are lost, and fail.
    writes_left: AtomicU64,
    /// Bytes changed since the last flush, and the number of flushes.
    log: Mutex<Vec<(u64, u64)>>,
}

impl Wrapped {
    fn new(inner: &Arc<MemDevice>) -> Wrapped {
        Wrapped {
            inner: Arc::clone(inner),
            bad_byte: None,
            writes_left: AtomicU64::new(u64::MAX),
            log: Mutex::new(Vec::new()),
        }
    }

    fn fail(&self, op: Operation, at: u64, len: u64) -> DeviceError {
        let _ = self;
        DeviceError::at(&Arc::from("test"), op, at, len, std::io::Error::from_raw_os_error(5))
    }
}

impl BlockDevice for Wrapped {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }
    fn sector_size(&self) -> u32 {
        512
    }
    fn durability(&self) -> Durability {
        Durability::OnFlush
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let end = offset + buf.len() as u64;
        if self.bad_byte.is_some_and(|b| (offset..end).contains(&b)) {
            return Err(self.fail(Operation::Read, offset, buf.len() as u64));
        }
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let left = self.writes_left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(self.fail(Operation::Write, offset, buf.len() as u64));
        }
        self.writes_left.store(left - 1, Ordering::Relaxed);
        self.log.lock().unwrap().push((offset, buf.len() as u64));
        self.inner.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.log.lock().unwrap().push((u64::MAX, 0));
        self.inner.flush()
    }
}

fn run(dev: Wrapped, options: FsckOptions) -> FsckReport {
    let dev: Arc<dyn BlockDevice> = Arc::new(dev);
    Fsck::new(dev, FsckOptions { force: true, ..options }.at(1_700_000_000)).run()
}

/// A volume as a crash with soft updates may leave it, with findings for every phase.
fn crashed() -> Img {
    let mut img = Img::with_tree(KINDS[0]);
    let home = 65536;
    let mut sb = Superblock::decode(&img.read(home, 8192), home).unwrap();
    sb.f.clean = 0;
    sb.f.flags |= 2;
    img.write(home, &sb.encode());
    let (at, _) = img.entry(img.ino("a"), "b");
    img.write(at, &[0; 4]);
    let lost = img.file(2, "lost", 40_000);
    let (at, _) = img.entry(2, "lost");
    img.write(at, &[0; 4]);
    img.edit(img.ino("a/hard"), |d| d.nlink = 5);
    assert!(lost > 0);
    img
}

#[test]
fn an_interrupted_preen_can_be_repeated() {
    let img = crashed();
    let whole = img.copy();
    assert_eq!(whole.fsck(FsckOptions::preen()).exit_code, exit::OK);
    let want = whole.tree();
    let mut interruptions = 0;
    for n in 0.. {
        let copy = img.copy();
        let dev = Wrapped::new(&copy.dev);
        dev.writes_left.store(n, Ordering::Relaxed);
        let report = run(dev, FsckOptions::preen());
        if report.exit_code == exit::OK {
            break;
        }
        interruptions += 1;
        assert_eq!(report.exit_code, exit::ERROR, "{:?}", report.stopped);
        let report = copy.fsck(FsckOptions::preen());
        assert_eq!(report.exit_code, exit::OK, "after {n} writes: {:#?}", report.findings);
        assert!(!report.counts.contains_key(&Id::CgAllocFree), "{:#?}", report.findings);
        copy.silent();
        assert_eq!(copy.tree(), want, "after {n} writes");
    }
    assert!(interruptions >= 4, "{interruptions}");
}

/// A group that a loss of power has torn has a wrong hash. Preen allocates a block in it, and is
/// interrupted: the block is marked before anything refers to it, and the hash stays wrong.
#[test]
fn a_block_is_marked_in_a_torn_group_before_its_use() {
    let img = crashed();
    for c in 0..img.g.ncg {
        // The time of the last write: only the hash depends on it.
        let at = img.group_at(c) + 8;
        let time = img.read(at, 1);
        img.write(at, &[!time[0]]);
    }
    let preen = || FsckOptions { keep_orphans: true, ..FsckOptions::preen() };
    let mut interruptions = 0;
    for n in 0.. {
        let copy = img.copy();
        let dev = Wrapped::new(&copy.dev);
        dev.writes_left.store(n, Ordering::Relaxed);
        let done = run(dev, preen()).exit_code == exit::OK;
        let report = copy.fsck(preen());
        let unmarked = report.counts.contains_key(&Id::CgAllocFree);
        assert!(!unmarked, "after {n} writes: {:#?}", report.findings);
        if done {
            break;
        }
        interruptions += 1;
    }
    assert!(interruptions >= 4, "{interruptions}");
    let report = img.fsck(preen());
    assert!(report.counts.contains_key(&Id::CgHash) && report.counts.contains_key(&Id::LfCreate));
}

/// The last write of a check marks the volume clean. If it is torn, a volume that counts as clean
/// has the right totals. UFS1 has no check hash of the superblock.
#[test]
fn a_torn_mark_of_a_clean_volume_comes_after_the_totals() {
    let (img, home) = (Img::with_tree(KINDS[1]), 8192);
    let mut sb = Superblock::decode(&img.read(home, 8192), home).unwrap();
    (sb.f.clean, sb.f.flags) = (0, sb.f.flags | 2);
    let wrong = sb.cstotal().ndir + 1;
    sb.set_cstotal(ffs_ondisk::Csum { ndir: wrong, ..sb.cstotal() });
    img.write(home, &sb.encode());
    let recorder = Arc::new(Recorder::new(img.dev.snapshot()));
    let report = Fsck::new(recorder.clone(), FsckOptions::preen().at(1_700_000_000)).run();
    assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
    let mut writes = recorder.take_events().into_iter().filter_map(|event| match event {
        Event::Write { offset, bytes, .. } => Some((offset, bytes)),
        _ => None,
    });
    let (offset, mark) = writes.next_back().unwrap();
    assert_eq!(offset, home);
    writes.for_each(|(offset, bytes)| img.write(offset, &bytes));
    for (at, sector) in (home..).step_by(512).zip(mark.chunks(512)) {
        let torn = img.copy();
        torn.write(at, sector);
        let options = FsckOptions { force: false, ..FsckOptions::preen() };
        assert_eq!(torn.fsck(options).exit_code, exit::OK);
        torn.silent();
    }
}

/// An unreferenced tree is cleared. Of the writes between two flushes any single sector may arrive:
/// no inode may be cleared while a name of it remains.
#[test]
fn of_a_cleared_tree_any_sector_may_arrive_first() {
    let mut img = crashed();
    let top = img.mkdir(2, "top");
    for name in ["x", "y", "z"] {
        img.mkdir(top, name);
    }
    let (at, _) = img.entry(2, "top");
    img.write(at, &[0; 4]);
    let recorder = Arc::new(Recorder::new(img.dev.snapshot()));
    let report = Fsck::new(recorder.clone(), FsckOptions::preen().at(1_700_000_000)).run();
    assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
    let (durable, mut tried) = (img.copy(), 0);
    let mut window: Vec<(u64, Arc<[u8]>)> = Vec::new();
    for event in recorder.take_events() {
        match event {
            Event::Write { offset, bytes, .. } => window.push((offset, bytes)),
            Event::Flush { .. } => {
                for (offset, bytes) in &window {
                    for (sector, piece) in (0..).zip(bytes.chunks(512)) {
                        let copy = durable.copy();
                        copy.write(offset + sector * 512, piece);
                        let report = copy.fsck(FsckOptions::preen());
                        let which = format!("sector {sector} at {offset}");
                        assert_eq!(report.exit_code, exit::OK, "{which}: {:#?}", report.findings);
                        tried += 1;
                    }
                }
                window.drain(..).for_each(|(offset, bytes)| durable.write(offset, &bytes));
            }
            _ => {}
        }
    }
    assert!(tried > 10, "{tried}");
}

#[test]
fn writes_go_names_inodes_maps_superblock_with_flushes_between() {
    let img = crashed();
    let dev = Wrapped::new(&img.dev);
    let g = img.g;
    let options = FsckOptions { keep_orphans: true, ..FsckOptions::preen() };
    let dev = Arc::new(dev);
    let shared: Arc<dyn BlockDevice> = dev.clone();
    let report = Fsck::new(shared, options.at(5)).run();
    assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
    let class = |at: u64| {
        let c = g.dtog(ffs_ondisk::FragNo(at / u64::from(g.fsize)));
        let off = at - g.frag_to_byte(g.cgbase(c));
        let place = |frag: u32| u64::from(frag) * u64::from(g.fsize);
        match at {
            u64::MAX => 'f',
            65536 => 's',
            _ if (place(g.cblkno)..place(g.iblkno)).contains(&off) => 'g',
            _ if (place(g.iblkno)..place(g.dblkno)).contains(&off) => 'i',
            _ if at >= g.frag_to_byte(g.csaddr)
                && at < g.frag_to_byte(g.csaddr) + u64::from(g.cssize) =>
            {
                'g'
            }
            _ => 'd',
        }
    };
    let mut order: Vec<char> = dev.log.lock().unwrap().iter().map(|&(at, _)| class(at)).collect();
    order.dedup();
    let order: String = order.into_iter().collect();
    // lost+found was created, so the maps are first; with them the superblock without the mark of a
    // clean volume, whose totals must not be missing when the mark is there.
    assert_eq!(order, "gsfdfifgfsf");
}

#[test]
fn what_cannot_be_read_is_reported_and_stops_a_strict_check() {
    let img = Img::with_tree(KINDS[0]);
    let at = img.inode(img.ino("a/b")).db[0] as u64 * u64::from(img.g.fsize);
    let broken = || Wrapped { bad_byte: Some(at + 5), ..Wrapped::new(&img.dev) };
    let report = run(broken(), FsckOptions::no());
    assert!(report.counts.contains_key(&Id::IoRead), "{:#?}", report.findings);
    assert_eq!(report.exit_code, exit::RERUN);
    let report = run(broken(), FsckOptions { stop_on_read_error: true, ..FsckOptions::no() });
    assert_eq!(report.exit_code, exit::ERROR);
    assert!(report.stopped.unwrap().contains("cannot read"));
    let before = img.bytes();
    let report = run(broken(), FsckOptions::preen());
    assert_eq!(report.exit_code, exit::ERROR);
    assert!(img.bytes() == before && !report.modified);
}

#[test]
fn hashes_and_recovery_record_are_offered_to_an_operator() {
    let img = Img::with_tree(KINDS[0]);
    let home = 65536;
    let mut sb = Superblock::decode(&img.read(home, 8192), home).unwrap();
    sb.f.metackhash = 0;
    sb.f.flags &= !0x200;
    img.write(home, &sb.encode());
    img.write(65516, &[0; 20]);
    let tree = img.tree();
    img.silent();
    let no = Answers::Ask(Box::new(|_| Answer::No));
    let report = img.fsck(FsckOptions { mode: Mode::Full(no), ..FsckOptions::default() });
    assert_eq!((report.exit_code, report.clean), (exit::OK, true), "{:#?}", report.findings);
    assert_eq!(report.counts[&Id::SbHashes], 3);
    let yes = Answers::Ask(Box::new(|_| Answer::Yes));
    let report = img.fsck(FsckOptions { mode: Mode::Full(yes), ..FsckOptions::default() });
    assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
    let expected = [Id::SbRecovery, Id::SbHashes];
    assert_eq!(report.ids(), expected, "{:#?}", report.findings);
    let img = Img::of(&img.bytes());
    assert_eq!(img.g.ckhash, CkHash::all());
    img.silent();
    assert_eq!(img.tree(), tree);
    assert_ne!(img.read(65516, 4), [0; 4]);
}

#[test]
fn free_space_is_zeroed_and_nothing_else() {
    for kind in KINDS {
        let mut img = Img::with_tree(kind);
        let deleted = img.file(2, "deleted", 3 * u64::from(img.g.bsize));
        let at = img.inode(deleted).db[1] as u64 * u64::from(img.g.fsize);
        let (entry, _) = img.entry(2, "deleted");
        img.write(entry, &[0; 4]);
        img.edit(deleted, |d| d.nlink = 0);
        let tree = img.tree();
        let erase = Erase { zero: true, discard: true };
        let report = img.fsck(FsckOptions { erase, ..FsckOptions::yes() });
        assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
        assert!(img.read(at, 512).iter().all(|&b| b == 0));
        img.silent();
        assert_eq!(img.tree(), tree);
    }
}

#[test]
fn kf2_09_unused_directory_bytes_are_zeroed_on_request() {
    let img = Img::with_tree(KINDS[0]);
    let (at, _) = img.entry(2, "small");
    // "small" is followed by its NUL and two bytes of padding.
    img.write(at + 14, b"!!");
    img.silent();
    let report = img.fsck(FsckOptions { zero_unused: true, ..FsckOptions::no() });
    assert!(!report.modified);
    let report = img.fsck(FsckOptions { zero_unused: true, ..FsckOptions::yes() });
    assert!(report.modified && report.is_silent(), "{:#?}", report.findings);
    assert_eq!(img.read(at + 14, 2), [0, 0]);
    img.silent();
}

#[test]
fn initialised_inodes_shrink_to_what_is_in_use() {
    let kind = (Endian::Little, Format::Ufs2, 4096, 512, 16 << 20);
    let img = Img::with_tree(kind);
    let per_block = img.g.inopb;
    assert!(img.g.ipg > 6 * per_block);
    img.edit_group(0, |g, b| ffs_ondisk::wire::put(b, 120, g.endian, 6 * per_block));
    img.silent();
    let report = img.fsck(FsckOptions { shrink_initialised: true, ..FsckOptions::yes() });
    assert_eq!(report.ids(), [Id::CgSummary], "{:#?}", report.findings);
    let b = img.read(img.group_at(0), img.g.cgsize as usize);
    assert_eq!(ffs_ondisk::Cg::new(&img.g, &b).initediblk(), 2 * per_block);
    img.silent();
}

#[test]
fn a_check_can_be_interrupted_and_reports_progress() {
    let img = crashed();
    let before = img.bytes();
    let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let dev: Arc<dyn BlockDevice> = img.dev.clone();
    let options =
        FsckOptions { interrupt: Some(Arc::clone(&flag)), force: true, ..FsckOptions::yes() };
    let phases = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&phases);
    let report = Fsck::new(dev, options)
        .with_progress(move |p| {
            seen.lock().unwrap().push(p.phase);
            flag.store(p.phase == ffs_admin::fsck::Phase::References, Ordering::Relaxed);
        })
        .run();
    assert_eq!(report.exit_code, exit::INTERRUPTED);
    assert!(!report.clean);
    assert!(phases.lock().unwrap().len() >= 4);
    // Repairs that the operator has granted by then are written; the volume is dirty and can be
    // checked again.
    assert_eq!(img.bytes() != before, report.modified);
    assert_eq!(img.fsck(FsckOptions::yes()).exit_code, exit::OK);
    img.silent();
}

#[test]
fn memory_has_a_limit() {
    let img = crashed();
    let options = FsckOptions { max_memory: Some(1000), ..FsckOptions::yes() };
    let report = img.fsck(options);
    assert_eq!(report.exit_code, exit::ERROR);
    assert!(report.stopped.unwrap().contains("bytes of memory"));
    let options = FsckOptions { max_memory: Some(2 << 20), ..FsckOptions::yes() };
    assert_eq!(img.fsck(options).exit_code, exit::OK);
    img.silent();
}

#[test]
fn kf2_12_indirect_blocks_that_contain_themselves_end() {
    for kind in KINDS {
        let img = Img::with_tree(kind);
        let n = img.ino("a/b/indirect");
        let d = img.inode(n);
        for slot in 0..img.g.nindir {
            img.set_slot(d.ib[0], slot, d.ib[0]);
        }
        let b = u64::from(img.g.bsize);
        let limit = img.g.maxfilesize;
        img.edit(n, |x| {
            x.ib[1] = d.ib[0];
            x.ib[2] = d.ib[0];
            x.size = limit.min(b << 40);
        });
        let start = std::time::Instant::now();
        let look = img.fsck(FsckOptions::no());
        assert!(look.counts.contains_key(&Id::BlkDup), "{:?}", look.counts);
        let report = img.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
        img.silent();
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}

#[test]
fn kf2_10_deep_trees_and_crowds_of_circles_are_linear() {
    let kind = (Endian::Big, Format::Ufs1, 4096, 512, 16 << 20);
    let mut img = Img::fresh(kind);
    let mut at = 2;
    let mut all = Vec::new();
    for _ in 0..1500 {
        at = img.mkdir(at, "d");
        all.push(at);
    }
    assert_eq!(img.fsck(FsckOptions::yes()).exit_code, exit::OK);
    img.silent();
    // Changed into pairs of directories that contain each other.
    for pair in all.chunks_exact(2) {
        let (x, y) = (pair[0], pair[1]);
        let (dot, _) = img.entry(x, "..");
        let mut raw = [0; 4];
        ffs_ondisk::wire::put(&mut raw, 0, img.g.endian, y);
        img.write(dot, &raw);
        let (next, _) = img.entries(y).iter().find(|e| e.3 == b"d").map_or((0, 0), |e| (e.0, e.1));
        if next > 0 {
            ffs_ondisk::wire::put(&mut raw, 0, img.g.endian, x);
            img.write(next, &raw);
        } else {
            img.add_entry(y, b"d", x, 4);
        }
    }
    let (top, _) = img.entry(2, "d");
    img.write(top, &[0; 4]);
    let start = std::time::Instant::now();
    let report = img.fsck(FsckOptions::yes());
    assert_eq!(report.exit_code, exit::OK, "{:?}", report.counts);
    assert!(report.counts[&Id::DirLoop] == 750, "{:?}", report.counts);
    img.silent();
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn a_terabyte_is_checked_in_bounded_memory() {
    let kind = (Endian::Little, Format::Ufs2, 32768, 4096, 1 << 40);
    let img = Img::fresh(kind);
    let dev: Arc<dyn BlockDevice> = img.dev.clone();
    let start = std::time::Instant::now();
    assert!(quick_check(&dev).is_empty());
    let options = FsckOptions { max_memory: Some(64 << 20), ..FsckOptions::no() };
    let report = img.fsck(options);
    assert!(report.is_silent(), "{:?}", report.stopped);
    println!("1 TiB twice in {:?}", start.elapsed());
    assert!(img.g.cgdmin(CgNo(0)).0 > 0 && FileType::Fifo.dirent() == 1);
}
