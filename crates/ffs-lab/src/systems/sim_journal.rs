//! The process that commits the transactions of a journal, as Linux's `kjournald`.
//!
//! **Invariants.**
//! 1. A commit takes all changes of metadata before it, and with `data=ordered` and `data=journal`
//!    all data as well.
//! 2. A program waits for a commit only if it requests one (`fsync`), or if the journal was full.

use std::sync::Arc;
use std::time::Duration;

use ffs_core::Ffs;

use crate::machine::{DataMode, JournaledDisk, Machine};

/// Seconds between two searches for old blocks (`interval` of Linux's `bdflush`).
const CHECKPOINT_SECONDS: u64 = 5;

/// The process that commits.
pub(super) struct Committer {
    disk: Arc<JournaledDisk>,
    next_commit: Duration,
    next_checkpoint: Duration,
}

impl Committer {
    /// The process for the journal of `disk`, from time `now` on.
    pub(super) fn new(disk: Arc<JournaledDisk>, now: Duration) -> Committer {
        let next_commit = now + Duration::from_secs(disk.settings().commit);
        let next_checkpoint = now + Duration::from_secs(CHECKPOINT_SECONDS);
        Committer { disk, next_commit, next_checkpoint }
    }

    #[cfg(test)]
    pub(super) fn done(&self) -> crate::machine::JournalCounters {
        self.disk.done()
    }

    /// Runs what is due between two operations.
    pub(super) fn run(&mut self, machine: &Machine, fs: &Ffs) {
        let now = machine.now();
        if now >= self.next_checkpoint {
            self.next_checkpoint = now + Duration::from_secs(CHECKPOINT_SECONDS);
            machine.background(|| self.disk.checkpoint());
        }
        if now >= self.next_commit || self.disk.is_due() {
            // The superblock alone, which every sync writes, is no reason for a commit.
            if self.disk.has_changes() || fs.cache_stats().dirtyspace > 0 {
                machine.background(|| self.commit(fs));
            }
            self.restart(machine);
            if self.disk.was_full() {
                machine.wait_for_background(0);
            }
        }
    }

    /// Commits for a program that waits until everything is durable.
    pub(super) fn commit_now(&mut self, machine: &Machine, fs: &Ffs) {
        self.commit(fs);
        self.restart(machine);
        // The program has waited for the space, too.
        self.disk.was_full();
    }

    fn restart(&mut self, machine: &Machine) {
        self.next_commit = machine.now() + Duration::from_secs(self.disk.settings().commit);
    }

    fn commit(&self, fs: &Ffs) {
        // Blocks that cannot be written stay dirty; sync reports the error.
        drop(match self.disk.settings().mode {
            // The delays of metadata are zero, so this writes all of it and no young data.
            DataMode::Writeback => fs.tick(),
            DataMode::Journal | DataMode::Ordered => fs.sync(),
        });
        self.disk.commit();
    }
}

#[cfg(test)]
mod tests {
    use super::super::sim::SimTarget;
    use super::super::sim_spec::SimSpec;
    use super::super::{Demand, DirId, Open, Target};
    use super::*;

    fn begun(words: &str) -> (SimTarget, DirId) {
        let words = format!("size=256,used=0,turnover=0,{words}");
        let mut target = SimTarget::new("sim", SimSpec::parse(&words).unwrap(), 1);
        let dir = target.begin(Demand::files(1000)).unwrap();
        target.sync().unwrap();
        (target, dir)
    }

    fn write_file(target: &mut SimTarget, dir: DirId, name: &str, len: usize) {
        let file = target.open(dir, name.as_bytes(), Open::CreateNew).unwrap();
        target.write(file, 0, len).unwrap();
        target.close(file).unwrap();
    }

    fn commits(target: &SimTarget) -> u64 {
        target.journal().unwrap().commits
    }

    #[test]
    fn a_commit_comes_every_five_seconds_and_with_fsync() {
        let (mut t, dir) = begun("data=ordered");
        let before = commits(&t);
        write_file(&mut t, dir, "a", 5000);
        assert_eq!(commits(&t), before, "a call that returns commits nothing");
        t.compute(Duration::from_secs(4));
        assert_eq!(commits(&t), before);
        t.compute(Duration::from_secs(2));
        assert_eq!(commits(&t), before + 1);
        t.compute(Duration::from_secs(20));
        assert_eq!(commits(&t), before + 1, "nothing changed");
        write_file(&mut t, dir, "b", 5000);
        let file = t.open(dir, b"a", Open::Write).unwrap();
        let start = t.now();
        t.fsync(file).unwrap();
        assert_eq!(commits(&t), before + 2);
        assert!(t.now() - start > Duration::from_millis(5), "fsync did not wait for the disk");
        let (mut t, dir) = begun("data=ordered,commit=60");
        let before = commits(&t);
        write_file(&mut t, dir, "a", 5000);
        t.compute(Duration::from_secs(50));
        assert_eq!(commits(&t), before, "commit=60");
    }

    #[test]
    fn a_stable_mount_commits_each_change_of_names() {
        let (mut t, dir) = begun("data=ordered,stable");
        let before = commits(&t);
        for name in [b"a", b"b", b"c"] {
            t.create(dir, name).unwrap();
        }
        t.unlink(dir, b"b").unwrap();
        t.stat(dir, b"a").unwrap();
        assert_eq!(commits(&t) - before, 4);
    }

    /// The model distinguishes data from metadata by its bytes: 2 MB of data are in the journal
    /// with `data=journal` alone.
    #[test]
    fn data_is_logged_with_journal_alone() {
        let logged = |mode: &str| {
            let (mut t, dir) = begun(mode);
            let before = t.journal().unwrap().journal_blocks;
            let sectors = t.done().sectors_written;
            // The last block of a file has zeros behind its content.
            (0..20).for_each(|i| write_file(&mut t, dir, &format!("f{i}"), 104_000));
            t.compute(Duration::from_secs(12));
            let blocks = t.journal().unwrap().journal_blocks - before;
            (blocks * 4096, (t.done().sectors_written - sectors) * 512)
        };
        let data = 20 * 104_000;
        let (journal, all) = logged("data=ordered");
        assert!(journal < 200_000, "{journal}");
        assert!((data..data + 400_000).contains(&all), "{all}: data is written at the commit");
        let (journal, all) = logged("data=writeback");
        assert!(journal < 200_000 && all < 200_000, "{journal} {all}: data waits for 30 s");
        let (journal, all) = logged("data=journal");
        assert!((data..data + 400_000).contains(&journal), "{journal}");
        assert!(all < data + 400_000, "{all}: nothing is written in place yet");
    }

    #[test]
    fn a_full_journal_makes_programs_wait() {
        let (mut t, dir) = begun("data=journal,journal_size=4m");
        for i in 0..120 {
            write_file(&mut t, dir, &format!("f{i}"), 100_000);
        }
        let done = t.journal().unwrap();
        assert!(done.full > 0 && done.checkpointed > 200, "{done:?}");
        assert!(t.done().waited > 0, "{done:?}");
        let (mut large, dir) = begun("data=journal");
        for i in 0..120 {
            write_file(&mut large, dir, &format!("f{i}"), 100_000);
        }
        assert_eq!(large.journal().unwrap().full, 0);
    }

    #[test]
    fn the_same_seed_is_the_same_run_to_the_nanosecond() {
        let trace = |words: &str| {
            let (mut t, dir) = begun(words);
            for i in 0..300 {
                write_file(&mut t, dir, &format!("f{i}"), 10_000);
                t.compute(Duration::from_millis(50));
            }
            t.sync().unwrap();
            let machine = t.machine().unwrap();
            (machine.trace_hash(), machine.now(), t.journal())
        };
        for words in ["data=ordered", "data=journal", "data=writeback"] {
            assert_eq!(trace(words), trace(words), "{words}");
        }
        assert_ne!(trace("data=ordered").0, trace("data=journal").0);
    }

    #[test]
    fn a_journal_takes_the_place_of_other_orders_and_is_described() {
        let refused = |words: &str| SimSpec::parse(words).unwrap_err();
        assert!(refused("data=all").contains("journal, ordered or writeback"));
        for other in ["softdep", "suj", "sync"] {
            assert!(refused(&format!("data=ordered,{other}")).contains("takes the place"));
            assert!(refused(&format!("{other},data=ordered")).contains("takes the place"));
        }
        assert!(refused("commit=5").contains("without data="));
        assert!(refused("data=ordered,commit=never").contains("seconds"));
        assert!(refused("data=ordered,journal_size=1m").contains("4m to 400m"));
        let spec = SimSpec::parse("journal_size=8m,commit=0,data=journal").unwrap();
        let journal = spec.journal.unwrap();
        assert_eq!((journal.bytes, journal.commit), (8 << 20, 5));
        let of = |words: &str| SimSpec::parse(words).unwrap().durability();
        assert!(of("data=ordered,commit=7").starts_with("all changes up to a commit, every 7 s"));
        assert!(of("data=writeback").contains("foreign content"));
        for words in ["softdep,stable", "data=journal,stable", "sync,stable"] {
            assert!(of(words).starts_with("names and attributes on return"), "{words}");
        }
        let all = ["sync", "softdep", "suj", "async", "data=journal", "data=ordered"].map(of);
        assert!(all.iter().all(|text| text.contains("; a crash leaves ")));
    }
}
