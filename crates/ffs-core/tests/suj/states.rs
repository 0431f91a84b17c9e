//! The states that a loss of power may leave, and what is checked in each.

use crate::common::START;
use crate::freebsd::{Journal, uncounted_groups};
use crate::records::{View, superblock};
use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, Id, JournalUse, Mode, quick_check};
use ffs_core::JournalStats;
use ffs_device::record::{Event, Recorder};
use ffs_device::{BlockDevice, MemDevice, Rng, SplitMix64};
use ffs_ondisk::Geometry;
use ffs_ondisk::journal::{self, Record};
use std::sync::Arc;

const SECTOR: usize = 512;

/// Refusals that the contract allows: a directory was being moved, or the write of the superblock
/// was interrupted.
const ALLOWED: [&str; 4] =
    ["`..` of directory", "has two names", "an exchange", "the superblock is damaged"];

/// Numbers of all states.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) recovered: u64,
    pub(crate) refused: u64,
    /// States that a full check with preen does not repair either.
    pub(crate) outside: u64,
    pub(crate) inodes: u64,
    pub(crate) frags: u64,
    pub(crate) links: u64,
    pub(crate) checkpoints: u64,
    pub(crate) segments: u64,
    pub(crate) records: u64,
    pub(crate) overflows: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.recovered += other.recovered;
        self.refused += other.refused;
        self.outside += other.outside;
        self.inodes += other.inodes;
        self.frags += other.frags;
        self.links += other.links;
        self.checkpoints += other.checkpoints;
        self.segments += other.segments;
        self.records += other.records;
        self.overflows += other.overflows;
    }

    pub(crate) fn add_stats(&mut self, stats: &JournalStats) {
        self.checkpoints += stats.checkpoints;
        self.segments += stats.segments;
        self.records += stats.records;
        self.overflows += stats.overflows;
    }
}

/// The states of one history.
pub(crate) struct States {
    /// The device at the last flush.
    base: MemDevice,
    journal: Journal,
    events: Vec<Event>,
    rng: SplitMix64,
    what: String,
}

fn fsck(dev: &Arc<dyn BlockDevice>, now: i64) -> FsckReport {
    let options = FsckOptions { mode: Mode::Preen, ..FsckOptions::default() };
    Fsck::new(Arc::clone(dev), options.at(now)).run()
}

/// Whether a full check with preen repairs the state, as the contract of soft updates promises. A
/// few states of these histories have a pointer beyond the size of a file (F12), with soft updates
/// alone as well; the recovery drops such pointers.
fn is_of_contract(state: &MemDevice) -> bool {
    let options = FsckOptions { mode: Mode::Preen, force: true, ..FsckOptions::default() };
    let dev = Arc::new(state.snapshot()) as Arc<dyn BlockDevice>;
    Fsck::new(dev, options.at(START + 500)).run().exit_code == 0
}

impl States {
    pub(crate) fn new(base: MemDevice, events: Vec<Event>, seed: u64, what: String) -> States {
        let journal = Journal::of(&base);
        States { base, journal, events, rng: SplitMix64::new(!seed), what }
    }

    /// Examines states between all flushes. Returns one of the recovered states of the second half.
    pub(crate) fn examine(&mut self, log: &[String], tally: &mut Tally) -> MemDevice {
        let events = std::mem::take(&mut self.events);
        let (mut unflushed, mut kept) = (Vec::new(), None);
        let mut marks = 0;
        for (n, event) in events.iter().enumerate() {
            match event {
                Event::Mark { .. } => marks += 1,
                Event::Write { .. } => unflushed.push(event.clone()),
                Event::Flush { .. } => {
                    for _ in 0..2 {
                        let what = format!("{}, event {n} after operation {marks}", self.what);
                        let state = self.state(&unflushed);
                        let (recovered, done) = self.check(&state, &what, (marks, log), tally);
                        if done && n > events.len() / 2 && kept.is_none() {
                            kept = Some(recovered);
                        }
                    }
                    for write in unflushed.drain(..) {
                        self.apply(&self.base, &write, |_| true);
                    }
                }
                _ => {}
            }
        }
        kept.unwrap_or_else(|| self.base.snapshot())
    }

    /// Writes the sectors of a write that `keep` selects.
    fn apply(&self, dev: &MemDevice, event: &Event, mut keep: impl FnMut(u64) -> bool) {
        let Event::Write { offset, bytes, .. } = event else { return };
        for (at, sector) in (*offset..).step_by(SECTOR).zip(bytes.chunks(SECTOR)) {
            if keep(at) {
                dev.write_at(at, sector).unwrap();
            }
        }
    }

    /// The device with a random part of the writes.
    fn state(&mut self, unflushed: &[Event]) -> MemDevice {
        let dev = self.base.snapshot();
        let end = self.rng.below(unflushed.len() as u64 + 1) as usize;
        let how = self.rng.below(4);
        let rng = SplitMix64::new(self.rng.next_u64());
        for write in &unflushed[..end] {
            let whole = rng.below(2) == 1;
            self.apply(&dev, write, |_| match how {
                0 => true,
                1 => rng.below(2) == 1,
                2 => whole,
                _ => rng.below(8) > 0,
            });
        }
        dev
    }

    fn check(
        &mut self,
        state: &MemDevice,
        what: &str,
        (operations, log): (usize, &[String]),
        tally: &mut Tally,
    ) -> (MemDevice, bool) {
        let first = Arc::new(Recorder::new(state.snapshot()));
        let dev = Arc::clone(&first) as Arc<dyn BlockDevice>;
        let report = fsck(&dev, START + 500);
        let report_all = || {
            if let Ok(path) = std::env::var("FFS_SUJ_KEEP") {
                std::fs::write(path, state.to_vec()).unwrap();
            }
            let log = log.get(..operations).unwrap_or(log);
            let why = match &report.journal {
                Some(JournalUse::Unusable(why)) => named_in(state, why),
                _ => String::new(),
            };
            format!("{what}: {report:#?}\n{}\n{why}", log.join("\n"))
        };
        let done = match &report.journal {
            Some(JournalUse::Recovered(done)) => {
                tally.recovered += 1;
                tally.inodes += done.inodes;
                tally.frags += done.frags;
                tally.links += done.links;
                let uncounted = uncounted_groups(&self.journal, state);
                assert!(uncounted.is_empty(), "groups {uncounted:?}: {}", report_all());
                true
            }
            Some(JournalUse::Unusable(why)) => {
                // A superblock of which a part is that before the mount: nothing was changed yet.
                let begins = operations == 0 && why.contains("was mounted or checked since");
                let allowed = ALLOWED.iter().any(|allowed| why.contains(allowed));
                assert!(allowed || begins, "{}", report_all());
                tally.refused += 1;
                false
            }
            None if report.ids().contains(&Id::SbTorn) => {
                tally.refused += 1;
                false
            }
            // The volume was clean.
            None => {
                assert!(report.skipped, "{}", report_all());
                false
            }
        };
        if !done && !report.skipped && !is_of_contract(state) {
            tally.outside += 1;
            return (state.snapshot(), false);
        }
        assert!(report.clean && report.exit_code == 0, "{}", report_all());
        let left = quick_check(&dev);
        assert!(
            left.is_empty(),
            "{}\n{left:#?}\n{}",
            report_all(),
            leaks(state, &first.inner().snapshot())
        );
        if done && self.rng.below(4) == 0 && is_of_contract(state) {
            self.crash_again(state, &first.take_events(), what);
        }
        (first.inner().snapshot(), done)
    }

    /// A second loss of power, during the recovery.
    fn crash_again(&mut self, state: &MemDevice, writes: &[Event], what: &str) {
        let dev = state.snapshot();
        let end = self.rng.below(writes.len() as u64 + 1) as usize;
        for write in &writes[..end] {
            self.apply(&dev, write, |_| true);
        }
        let dev: Arc<dyn BlockDevice> = Arc::new(dev);
        let report = fsck(&dev, START + 600);
        assert!(report.clean && report.exit_code == 0, "{what}, in recovery: {report:#?}");
        let left = quick_check(&dev);
        assert!(left.is_empty(), "{what}, in recovery: {left:#?}");
    }
}

/// For a fragment or inode that the recovery left marked in use: the records that name it.
fn leaks(state: &MemDevice, recovered: &MemDevice) -> String {
    let (sb, g) = superblock(state);
    let right = Arc::new(recovered.snapshot());
    let _ =
        Fsck::new(Arc::clone(&right) as Arc<dyn BlockDevice>, FsckOptions::yes().at(START + 700))
            .run();
    let (now, right) = (View::of(recovered), View::of(&right));
    let mut out = String::new();
    let content = journal_content(state, &g);
    for (c, (now, right)) in now.maps.iter().zip(&right.maps).enumerate() {
        let odd = |a: &[u8], b: &[u8]| -> Vec<u32> {
            (0..a.len() as u32 * 8)
                .filter(|&i| ffs_ondisk::cg::bit(a, i) != ffs_ondisk::cg::bit(b, i))
                .collect()
        };
        let inos: Vec<u32> =
            odd(&now.0, &right.0).into_iter().map(|i| c as u32 * g.ipg + i).collect();
        let frags: Vec<i64> = odd(&now.1, &right.1)
            .into_iter()
            .map(|f| (g.cgbase(ffs_ondisk::CgNo(c as u32)).0 + u64::from(f)) as i64)
            .collect();
        out += &format!("group {c}: inodes {inos:?}, fragments {frags:?}\n");
        for segment in journal::scan(g.endian, &content, SECTOR, sb.f.mtime).unwrap() {
            for record in journal::records(&g, &content, &segment, SECTOR) {
                let record = record.unwrap();
                let named = match &record {
                    Record::AddRef(r) | Record::RemRef(r) => inos.contains(&r.ino),
                    Record::NewBlk(b) | Record::FreeBlk(b) => {
                        let run = b.blkno..b.blkno + i64::from(b.frags);
                        frags.iter().any(|f| run.contains(f)) || inos.contains(&b.ino)
                    }
                    _ => false,
                };
                if named {
                    out += &format!("{} {record:?}\n", segment.header.seq);
                }
            }
        }
    }
    out
}

fn journal_content(dev: &MemDevice, g: &Geometry) -> Vec<u8> {
    let view = View::of(dev);
    let (_, (ino, _)) = view.entries.iter().find(|(_, (_, name))| name == journal::NAME).unwrap();
    let runs = view.nodes[ino].runs.iter().filter(|(lbn, _)| **lbn >= 0);
    runs.flat_map(|(_, &(at, n))| {
        let len = (n * g.fsize) as usize;
        crate::records::read(dev, g.frag_to_byte(ffs_ondisk::FragNo(at)), len)
    })
    .collect()
}

/// The records that name the inodes of a refusal.
fn named_in(state: &MemDevice, why: &str) -> String {
    let words = why.split(|c: char| !c.is_ascii_digit());
    let inos: Vec<u32> = words.filter_map(|word| word.parse().ok()).filter(|n| *n > 2).collect();
    let (sb, g) = superblock(state);
    let content = journal_content(state, &g);
    let mut out = String::new();
    for segment in journal::scan(g.endian, &content, SECTOR, sb.f.mtime).unwrap() {
        for record in journal::records(&g, &content, &segment, SECTOR) {
            let record = record.unwrap();
            let named = match &record {
                Record::AddRef(r) | Record::RemRef(r) => {
                    inos.contains(&r.ino) || inos.contains(&r.parent)
                }
                Record::MoveRef(r) => inos.contains(&r.ino) || inos.contains(&r.parent),
                Record::NewBlk(b) | Record::FreeBlk(b) => inos.contains(&b.ino),
                _ => false,
            };
            if named {
                out += &format!("REC {} {record:?}\n", segment.header.seq);
            }
        }
    }
    let view = View::of(state);
    for ((dir, off), (ino, name)) in &view.entries {
        if inos.contains(dir) || inos.contains(ino) {
            out += &format!("ENT {dir}@{off} {} -> {ino}\n", name.escape_ascii());
        }
    }
    for ino in inos {
        out += &format!("INO {ino} {:?}\n", view.nodes.get(&ino));
    }
    out
}
