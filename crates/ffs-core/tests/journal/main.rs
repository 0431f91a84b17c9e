//! Recovery by a soft-updates journal, of every state that a loss of power leaves of a mount with
//! soft updates. The test writes the records that a kernel with a journal would have written.
//!
//! The judge is the full check: recovery and full check must have the same result, and a full check
//! after the recovery must find nothing.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod records;

use common::{START, Shape, World, at, in_parallel, mount_on, soft_updates, soft_volume};
use ffs_admin::fsck::{
    Fsck, FsckOptions, FsckReport, JournalReport, JournalUse, Mode, quick_check,
};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{Cred, RenameMode, SetAttr, WriteMode};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, Durability, MemDevice, Rng, SplitMix64};
use ffs_ondisk::journal::{Record, Trunc};
use ffs_ondisk::{Endian, Format, FragNo};
use records::{View, between, keep_journal, superblock};
use std::sync::Arc;

const SHAPES: [Shape; 3] = [
    (Endian::Little, Format::Ufs2, 4096, 512),
    (Endian::Big, Format::Ufs1, 8192, 1024),
    (Endian::Little, Format::Ufs2, 16384, 2048),
];

/// A volume with a journal, mounted on a device whose writes are durable after a flush.
fn mounted(shape: Shape) -> World {
    let dev = soft_volume(shape, 12 << 20);
    let on = TunefsOptions { journal: Some(true), now: START - 9, ..TunefsOptions::default() };
    tunefs(&dev, &on).unwrap();
    mount_on(dev.with_durability(Durability::OnFlush), &soft_updates())
}

fn check(dev: &Arc<MemDevice>, force: bool) -> FsckReport {
    let options = FsckOptions { mode: Mode::Preen, force, ..FsckOptions::default() };
    Fsck::new(Arc::clone(dev) as Arc<dyn BlockDevice>, options.at(START + 500)).run()
}

/// The result of one state.
#[derive(Default, Debug)]
struct Tally {
    states: u64,
    refused: u64,
    excluded: u64,
    done: JournalReport,
}

impl Tally {
    /// Recovers `state`, whose journal holds `windows`, and compares with the full check.
    fn examine(&mut self, state: &MemDevice, before: &View, windows: &[Vec<Record>], what: &str) {
        if is_excluded(state, before, windows) {
            self.excluded += 1;
            return;
        }
        let full = Arc::new(state.snapshot());
        let report = check(&full, true);
        assert!(report.clean, "{what}: {report:#?}");
        let kept = Arc::new(state.snapshot());
        keep_journal(&kept, windows, 8180);
        let report = check(&kept, false);
        self.states += 1;
        match &report.journal {
            Some(JournalUse::Recovered(done)) => {
                self.done.inodes += done.inodes;
                self.done.directories += done.directories;
                self.done.frags += done.frags;
                self.done.links += done.links;
                self.done.truncated += done.truncated;
            }
            Some(JournalUse::Unusable(why)) => {
                let expected = ["`..` of directory", "has two names", "an exchange"];
                assert!(expected.iter().any(|e| why.contains(e)), "{what}: {why}");
                self.refused += 1;
            }
            None => panic!("{what}: the journal was not considered: {report:#?}"),
        }
        assert!(report.clean && report.exit_code == 0, "{what}: {report:#?}");
        let left = quick_check(&(Arc::clone(&kept) as Arc<dyn BlockDevice>));
        assert!(left.is_empty(), "{what}: {left:#?}\n{windows:#?}");
        let (by_journal, mut by_check) = (View::of(&kept), View::of(&full));
        // A full check has no record of a truncation that it could complete.
        for truncated in windows.last().into_iter().flatten() {
            let Record::Trunc(t) = truncated else { continue };
            let Some(node) = by_journal.nodes.get(&t.ino) else { continue };
            assert!(node.size <= t.size as u64, "{what}: {node:?}");
            by_check.nodes.insert(t.ino, node.clone());
            by_check.maps.clone_from(&by_journal.maps);
            by_check.total = by_journal.total;
        }
        assert!(by_journal == by_check, "{what}: {:#?}", difference(&by_journal, &by_check));
        // The journal is used once.
        let again = check(&kept, false);
        assert!(again.skipped && again.journal.is_none());
    }
}

/// Whether a kernel with a journal excludes the state: it writes the map in which an indirect block
/// is free after those in which the blocks below it are free (FreeBSD's `freedep`).
fn is_excluded(state: &MemDevice, before: &View, windows: &[Vec<Record>]) -> bool {
    let now = View::of(state);
    let g = superblock(state).1;
    let in_use = |at: u64| {
        let (c, f) = (g.dtog(FragNo(at)).0, g.dtogd(FragNo(at)));
        ffs_ondisk::cg::bit(&now.maps[c as usize].1, f) == Some(false)
    };
    let freed = windows.last().into_iter().flatten().filter_map(|record| match record {
        Record::FreeBlk(r) if r.lbn <= -12 => Some(r.ino),
        _ => None,
    });
    freed.into_iter().any(|ino| {
        let below = before.nodes[&ino].runs.iter().filter(|(lbn, _)| !(-2..12).contains(*lbn));
        let (indirect, data): (Vec<_>, Vec<_>) = below.partition(|(lbn, _)| **lbn < 0);
        let used =
            |list: &[(&i64, &(u64, u32))]| list.iter().filter(|(_, run)| in_use(run.0)).count();
        let all = used(&indirect) < indirect.len();
        all && used(&data) + used(&indirect) > 0
    })
}

fn difference(a: &View, b: &View) -> String {
    let nodes = |v: &View, w: &View| {
        let odd = v.nodes.iter().filter(|(ino, node)| w.nodes.get(ino) != Some(node));
        odd.map(|(ino, node)| format!("{ino} {node:?}\n")).collect::<String>()
    };
    format!("{}\nbut\n{}", nodes(a, b), nodes(b, a))
}

type Op<'a> = (&'a str, Box<dyn Fn(&World)>);

fn op<'a>(name: &'a str, run: impl Fn(&World) + 'static) -> Op<'a> {
    (name, Box::new(run))
}

fn write(w: &World, path: &str, offset: u64, len: usize) {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let v = at(&w.fs, path).unwrap_or_else(|_| w.file(&at(&w.fs, dir).unwrap(), name));
    w.fs.write(&Cred::root(), &v, offset, &vec![7; len], WriteMode::default()).unwrap();
}

fn truncate(w: &World, path: &str, size: u64) {
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    w.fs.setattr(&Cred::root(), &at(&w.fs, path).unwrap(), &set).unwrap();
}

fn rename(w: &World, from: (&str, &str), to: (&str, &str)) {
    let (a, b) = (at(&w.fs, from.0).unwrap(), at(&w.fs, to.0).unwrap());
    let r = common::rename(w, (&a, from.1), (&b, to.1), RenameMode::Replace);
    assert_eq!(r, 0);
}

fn remove(w: &World, dir: &str, name: &str) {
    w.fs.unlink(&Cred::root(), &at(&w.fs, dir).unwrap(), name.as_bytes()).unwrap();
}

/// Operations in their order; each list is one window.
fn windows() -> Vec<Vec<Op<'static>>> {
    let one = |name, run: fn(&World)| vec![op(name, run)];
    vec![
        one("create", |w| drop(w.file(&w.root, "small"))),
        one("write less than a fragment", |w| write(w, "small", 0, 100)),
        one("grow inside a block", |w| write(w, "small", 100, 3000)),
        one("mkdir", |w| drop(w.dir(&w.root, "d"))),
        one("create in a directory", |w| write(w, "d/file", 0, 5000)),
        one("write with indirect blocks", |w| write(w, "big", 0, 300_000)),
        one("grow with indirect blocks", |w| write(w, "big", 300_000, 100_000)),
        one("double indirect", |w| write(w, "sparse", 40 << 20, 9000)),
        one("truncate inside indirect blocks", |w| truncate(w, "big", 200_100)),
        one("truncate to direct blocks", |w| truncate(w, "big", 10_500)),
        one("grow again", |w| write(w, "big", 10_500, 150_000)),
        one("truncate to nothing", |w| truncate(w, "big", 0)),
        one("write it again", |w| write(w, "big", 0, 260_000)),
        one("link", |w| {
            let (f, d) = (at(&w.fs, "small").unwrap(), at(&w.fs, "d").unwrap());
            w.fs.link(&Cred::root(), &f, &d, b"other").unwrap();
        }),
        one("unlink one of two names", |w| remove(w, "", "small")),
        one("rename in one directory", |w| rename(w, ("d", "other"), ("d", "a-longer-name"))),
        one("rename to another directory", |w| rename(w, ("d", "file"), ("", "file"))),
        one("rename over a file", |w| rename(w, ("", "file"), ("d", "a-longer-name"))),
        one("mkdir twice", |w| {
            let d = w.dir(&w.root, "e");
            w.dir(&d, "f");
        }),
        one("move a directory", |w| rename(w, ("e", "f"), ("d", "f"))),
        one("rename a directory in place", |w| rename(w, ("d", "f"), ("d", "g"))),
        one("rmdir", |w| w.fs.rmdir(&Cred::root(), &w.root, b"e").unwrap()),
        one("a long symbolic link", |w| {
            w.fs.symlink(&Cred::root(), &w.root, b"link", &[b'x'; 400]).unwrap();
        }),
        one("unlink with indirect blocks", |w| remove(w, "", "big")),
        one("unlink with double indirect blocks", |w| remove(w, "", "sparse")),
        vec![
            op("several", |w| write(w, "d/one", 0, 70_000)),
            op("", |w| drop(w.dir(&w.root, "h"))),
            op("", |w| remove(w, "d", "a-longer-name")),
            op("", |w| remove(w, "", "link")),
            op("", |w| write(w, "two", 0, 9000)),
        ],
        vec![
            op("more", |w| {
                let d = w.dir(&at(&w.fs, "h").unwrap(), "i");
                w.file(&d, "in-a-new-directory");
            }),
            op("", |w| truncate(w, "d/one", 100)),
            op("", |w| remove(w, "", "two")),
            op("", |w| w.fs.rmdir(&Cred::root(), &at(&w.fs, "d").unwrap(), b"g").unwrap()),
        ],
    ]
}

/// Every state that a loss of power during `window` can leave: prefixes, single writes, and random
/// subsets of the writes between two flushes.
fn states(
    events: &[Event],
    start: &MemDevice,
    seed: u64,
    mut each: impl FnMut(&MemDevice, String),
) {
    let rng = SplitMix64::new(seed);
    let durable = start.snapshot();
    let mut pending: Vec<(u64, Vec<u8>)> = Vec::new();
    let apply = |dev: &MemDevice, writes: &[(u64, Vec<u8>)]| {
        writes.iter().for_each(|(at, bytes)| dev.write_at(*at, bytes).unwrap());
    };
    for (n, event) in events.iter().enumerate() {
        match event {
            Event::Write { offset, bytes, .. } => {
                pending.push((*offset, bytes.to_vec()));
                let state = durable.snapshot();
                apply(&state, &pending);
                each(&state, format!("up to event {n}"));
                let alone = durable.snapshot();
                apply(&alone, &pending[pending.len() - 1..]);
                each(&alone, format!("event {n} alone"));
                for _ in 0..2 {
                    let mut some = pending.clone();
                    some.retain(|_| rng.next_u64() & 1 == 1);
                    let state = durable.snapshot();
                    apply(&state, &some);
                    each(&state, format!("a subset up to event {n}"));
                }
            }
            Event::Flush { .. } => {
                apply(&durable, &pending);
                pending.clear();
            }
            _ => {}
        }
    }
}

/// A completed truncation is followed by the record that the file was written.
fn settle(window: &mut Vec<Record>) {
    let written = window.iter().filter_map(|record| match record {
        Record::Trunc(t) => Some(Record::Sync(Trunc { op: 7, ..t.clone() })),
        _ => None,
    });
    let written: Vec<_> = written.collect();
    window.extend(written);
}

/// Recovers states of all windows on one volume.
fn recover(seed: u64, shape: Shape) {
    let w = mounted(shape);
    let mut journal: Vec<Vec<Record>> = Vec::new();
    let mut tally = Tally::default();
    for window in windows() {
        w.fs.sync().unwrap();
        let start = w.record();
        let (g, before) = (superblock(&start).1, View::of(&start));
        for (_, run) in &window {
            run(&w);
        }
        w.fs.sync().unwrap();
        w.fs.sync().unwrap();
        let events = w.dev.take_events();
        let after = View::of(&w.dev.inner().snapshot());
        journal.push(between(&g, &before, &after));
        let from = journal.len().saturating_sub(4);
        let what = window[0].0;
        states(&events, &start, seed, |state, which| {
            tally.examine(state, &before, &journal[from..], &format!("{shape:?} {what}: {which}"));
        });
        settle(journal.last_mut().unwrap());
    }
    println!("{shape:?}: {tally:?}");
    assert!(tally.states > 300 && tally.refused * 10 < tally.states, "{tally:?}");
    assert!(tally.excluded * 10 < tally.states, "{tally:?}");
    let JournalReport { inodes, directories, frags, links, truncated, .. } = tally.done;
    assert!(inodes > 0 && directories > 0 && frags > 0 && links > 0 && truncated > 0);
}

#[test]
fn recovery_equals_the_full_check_after_any_loss_of_power() {
    let volumes: Vec<(u64, Shape)> = (0..).zip(SHAPES).collect();
    in_parallel(&volumes, |(seed, shape)| recover(*seed, *shape));
}
