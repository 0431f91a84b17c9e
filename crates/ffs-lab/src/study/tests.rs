//! A study that is killed, truncated, damaged or split has the same results after it is resumed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ffs_device::{Rng, SplitMix64};

use super::results_file::FILE;
use super::*;
use crate::error::{LabError, Result};
use crate::systems::Usage;
use crate::watch::Watch;
use crate::workload::{Metric, MetricKind, Outcome, PhaseResult};

fn plan() -> Plan {
    let item = |workload: &str, combinations: &[u32]| PlanItem {
        workload: workload.to_owned(),
        scale: 0.5,
        combinations: combinations.to_vec(),
    };
    Plan {
        name: "test".to_owned(),
        workloads: vec![item("one", &[]), item("two:size=7", &[]), item("three", &[0, 9])],
        factors: Factor::paper(),
        replicates: 2,
        seed: 42,
        target: "core".to_owned(),
        origin: Origin::default(),
    }
}

/// The number of jobs of [`plan`].
const JOBS: usize = 68;

/// An outcome that depends on the job. Its numbers have as many digits as an `f64` can have.
fn outcome(plan: &Plan, job: &Job) -> Outcome {
    let seed = plan.seed_of(job.replicate) ^ u64::from(job.combination) << 8 ^ job.item as u64;
    let rng = SplitMix64::new(seed);
    let number = || f64::from_bits(0x3ff0_0000_0000_0000 | rng.next_u64() >> 12) - 0.9;
    let usage = Usage { reads: seed >> 40, ..Usage::default() };
    let phase = PhaseResult {
        phase: "create".to_owned(),
        elapsed: number(),
        cpu: number(),
        work: 7.0,
        usage,
        counters: [("vfs.ffs.reads".to_owned(), seed >> 30)].into(),
        notes: vec!["a \"note\"\n".to_owned()],
    };
    let metric = Metric {
        id: "create".to_owned(),
        title: "Creation".to_owned(),
        kind: MetricKind::Rate,
        elapsed: number(),
        work: number(),
    };
    Outcome { phases: vec![phase], metrics: vec![metric] }
}

/// A runner that calls a function before each job, with the number of the job.
struct Fake<F: Fn(u32) -> Result<()> + Sync>(AtomicU32, F);

impl<F: Fn(u32) -> Result<()> + Sync> JobRunner for Fake<F> {
    fn run(&self, plan: &Plan, job: &Job, watch: &mut dyn Watch) -> Result<Outcome> {
        if !watch.done(1) {
            return Err(LabError::Interrupted);
        }
        self.1(self.0.fetch_add(1, Ordering::Relaxed))?;
        Ok(outcome(plan, job))
    }
}

fn fake<F: Fn(u32) -> Result<()> + Sync>(before: F) -> Fake<F> {
    Fake(AtomicU32::new(0), before)
}

/// Stops after `stop_at` finished jobs, and keeps the messages of failed jobs.
struct Look {
    stop_at: usize,
    failures: Vec<String>,
}

impl StudyWatch for Look {
    fn progress(&mut self, progress: &StudyProgress) -> bool {
        progress.finished < self.stop_at
    }
    fn failed(&mut self, job: &str, why: &LabError) {
        self.failures.push(format!("{job}: {why}"));
    }
}

fn look() -> Look {
    Look { stop_at: usize::MAX, failures: Vec::new() }
}

fn request(dir: &Path, shard: Shard, threads: usize) -> RunRequest {
    RunRequest { shard, threads, memory: u64::MAX, elsewhere: dir.to_owned() }
}

/// Runs the missing jobs. Returns the notes from opening the file.
fn go(dir: &Path, shard: Shard, threads: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let mut store = ResultsFile::open(dir, &plan(), &mut |note| notes.push(note)).unwrap();
    let mut look = look();
    let ended = run(&mut store, &request(dir, shard, threads), &fake(|_| Ok(())), &mut look);
    assert!(!ended.interrupted && ended.failed == 0 && ended.unsaved.is_none(), "{ended:?}");
    assert!(look.failures.is_empty(), "{:?}", look.failures);
    notes
}

/// The bytes of a complete study.
fn whole() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    assert!(go(dir.path(), Shard::WHOLE, 1).is_empty());
    let bytes = fs::read(dir.path().join(FILE)).unwrap();
    (dir, bytes)
}

#[test]
fn a_study_gives_every_job_once_and_the_same_bytes_on_any_number_of_threads() {
    let (dir, bytes) = whole();
    let other = tempfile::tempdir().unwrap();
    go(other.path(), Shard::WHOLE, 3);
    assert_eq!(fs::read(other.path().join(FILE)).unwrap(), bytes);
    let results = Results::read(dir.path(), &mut |note| panic!("{note}")).unwrap();
    assert_eq!((results.jobs.len(), results.missing().len()), (JOBS, 0));
    assert_eq!(results.plan, plan());
    for (job, result) in plan().jobs().iter().zip(&results.jobs) {
        assert_eq!(result.outcome, outcome(&plan(), job), "floats come back to the last bit");
        assert_eq!(result.seed, plan().seed_of(job.replicate));
    }
    for line in String::from_utf8(bytes).unwrap().lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).unwrap().is_object());
    }
    assert!(go(dir.path(), Shard::WHOLE, 2).is_empty(), "nothing is left to do");
}

#[test]
fn shards_are_disjoint_and_the_order_follows_from_the_seed() {
    let all = plan().order(Shard::WHOLE);
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!((sorted, all.len()), (plan().jobs(), JOBS));
    assert_ne!(all, plan().order(Shard { index: 0, of: 1 }).into_iter().rev().collect::<Vec<_>>());
    let other = Plan { seed: 43, ..plan() };
    assert_ne!(all, other.order(Shard::WHOLE));
    assert_ne!(plan().seed_of(0), plan().seed_of(1));
    assert_ne!(plan().seed_of(0), other.seed_of(0));
    let mut parts: Vec<Job> =
        (0..5).flat_map(|index| plan().order(Shard { index, of: 5 })).collect();
    parts.sort();
    assert_eq!(parts, plan().jobs());
    assert_eq!("2/8".parse(), Ok(Shard { index: 1, of: 8 }));
    for wrong in ["0/8", "9/8", "2", "a/b", "1/0", ""] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
}

#[test]
fn a_file_truncated_anywhere_is_resumed_to_the_same_bytes() {
    let (_dir, bytes) = whole();
    let rng = SplitMix64::new(7);
    let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at);
    let near = ends.step_by(9).flat_map(|at| [at, at + 1, at + 2]);
    let random = (0..25).map(|_| rng.below(bytes.len() as u64) as usize);
    for length in near.chain(random).chain([0, 1, 12]).filter(|length| *length < bytes.len()) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), &bytes[..length]).unwrap();
        // The study was killed while it rewrote the file.
        fs::write(dir.path().join("results.jsonl.new"), &bytes[..length / 2]).unwrap();
        let notes = go(dir.path(), Shard::WHOLE, 2);
        let half = length > 0 && bytes[length - 1] != b'\n';
        assert_eq!(notes.len(), usize::from(half), "at length {length}: {notes:?}");
        assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), bytes, "at length {length}");
    }
}

#[test]
fn damaged_lines_are_run_again() {
    let (_dir, bytes) = whole();
    let rng = SplitMix64::new(8);
    for _ in 0..30 {
        let at = rng.below(bytes.len() as u64) as usize;
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 + rng.below(255) as u8;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), &damaged).unwrap();
        let notes = go(dir.path(), Shard::WHOLE, 2);
        assert!(!notes.is_empty(), "byte {at}");
        assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), bytes, "byte {at}");
    }
}

#[test]
fn a_file_of_another_study_is_never_written() {
    let (dir, bytes) = whole();
    let open =
        |plan: &Plan| ResultsFile::open(dir.path(), plan, &mut |_| {}).unwrap_err().to_string();
    let other = open(&Plan { seed: 43, replicates: 3, ..plan() });
    assert!(other.contains("seed 42, not 43; replicates 2, not 3"), "{other}");
    assert!(other.contains("--out"), "{other}");
    let factors = open(&Plan { factors: vec![Factor::parse("dh").unwrap()], ..plan() });
    assert!(factors.contains("factors") || factors.contains("workloads"), "{factors}");
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), bytes);
    let foreign = tempfile::tempdir().unwrap();
    fs::write(foreign.path().join(FILE), "my results\n1 2 3\n").unwrap();
    let error = ResultsFile::open(foreign.path(), &plan(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("is not a results file"), "{error}");
    assert_eq!(fs::read(foreign.path().join(FILE)).unwrap(), b"my results\n1 2 3\n");
}

#[test]
fn two_studies_do_not_write_to_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let first = ResultsFile::open(dir.path(), &plan(), &mut |_| {}).unwrap();
    let error = ResultsFile::open(dir.path(), &plan(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("another run is writing here"), "{error}");
    drop(first);
    ResultsFile::open(dir.path(), &plan(), &mut |_| {}).unwrap();
}

#[test]
fn merged_shards_are_one_run_and_missing_jobs_are_listed() {
    let (_dir, bytes) = whole();
    let parts: Vec<tempfile::TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    for (index, part) in parts.iter().enumerate() {
        go(part.path(), Shard { index: index as u32, of: 3 }, 2);
    }
    let paths: Vec<PathBuf> = parts.iter().map(|part| part.path().to_owned()).collect();
    let out = tempfile::tempdir().unwrap();
    let two = merge(&paths[..2], out.path(), &mut |note| panic!("{note}")).unwrap();
    let missing = two.missing();
    assert_eq!(missing, {
        let mut third = plan().order(Shard { index: 2, of: 3 });
        third.sort();
        third
    });
    assert!(plan().job_name(&missing[0]).starts_with("one "), "{}", plan().job_name(&missing[0]));
    drop(two);
    // The third part joins the others. A part may be given twice, and its plan may be damaged.
    let third = paths[2].join(FILE);
    let mut damaged = fs::read(&third).unwrap();
    damaged[30] ^= 1;
    fs::write(&third, damaged).unwrap();
    let mut notes = Vec::new();
    let mut note = |note| notes.push(note);
    let all = merge(&[third, paths[0].clone()], out.path(), &mut note).unwrap();
    assert!(all.missing().is_empty());
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(fs::read(out.path().join(FILE)).unwrap(), bytes);
    assert_eq!(all.results(), Results::read(out.path(), &mut |_| {}).unwrap());
}

#[test]
fn parts_of_different_studies_are_not_merged() {
    let (dir, _) = whole();
    let (other, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plan = Plan { target: "core:noatime".to_owned(), ..plan() };
    drop(ResultsFile::open(other.path(), &plan, &mut |_| {}).unwrap());
    let from = [dir.path().to_owned(), other.path().to_owned()];
    let error = merge(&from, out.path(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("target core:noatime, not core"), "{error}");
    assert!(!out.path().join(FILE).exists());
    let error = merge(&[out.path().to_owned()], out.path(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains(FILE), "{error}");
}

#[test]
fn an_interrupted_study_keeps_what_is_finished_and_resumes() {
    let (_dir, bytes) = whole();
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultsFile::open(dir.path(), &plan(), &mut |_| {}).unwrap();
    let mut look = Look { stop_at: 5, ..look() };
    let ended =
        run(&mut store, &request(dir.path(), Shard::WHOLE, 2), &fake(|_| Ok(())), &mut look);
    assert!(ended.interrupted && ended.unsaved.is_none(), "{ended:?}");
    let kept = store.finished();
    assert!((5..JOBS).contains(&kept), "{kept} jobs");
    drop(store);
    assert_eq!(Results::read(dir.path(), &mut |_| {}).unwrap().jobs.len(), kept);
    assert!(go(dir.path(), Shard::WHOLE, 2).is_empty());
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), bytes);
}

#[test]
fn a_failed_job_is_reported_and_the_others_continue() {
    let (_dir, bytes) = whole();
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultsFile::open(dir.path(), &plan(), &mut |_| {}).unwrap();
    let failing = fake(|n| {
        let (target, what, why) = ("core".to_owned(), "mkdir 'x'".to_owned(), "full".to_owned());
        if n % 10 == 3 { Err(LabError::Failed { target, what, why, full: true }) } else { Ok(()) }
    });
    let mut look = look();
    let ended = run(&mut store, &request(dir.path(), Shard::WHOLE, 2), &failing, &mut look);
    assert_eq!((ended.failed, store.missing().len(), look.failures.len()), (7, 7, 7));
    assert!(look.failures[0].contains("#") && look.failures[0].contains("mkdir 'x': full"));
    drop(store);
    go(dir.path(), Shard::WHOLE, 1);
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), bytes);
    // A target that is not usable ends the study at once.
    let dir = tempfile::tempdir().unwrap();
    let mut store = ResultsFile::open(dir.path(), &plan(), &mut |_| {}).unwrap();
    let unusable = fake(|_| Err(LabError::unusable("core", "was removed")));
    let ended = run(&mut store, &request(dir.path(), Shard::WHOLE, 2), &unusable, &mut look);
    assert!((1..=3).contains(&ended.failed), "{}", ended.failed);
}

#[test]
fn results_that_cannot_be_written_are_kept_elsewhere() {
    let (_dir, bytes) = whole();
    let (parent, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = parent.path().join("out");
    let mut store = ResultsFile::open(&dir, &plan(), &mut |_| {}).unwrap();
    let removed = fake(|n| {
        if n == 20 {
            fs::remove_dir_all(&dir).unwrap();
        }
        Ok(())
    });
    let mut look = look();
    let ended = run(&mut store, &request(elsewhere.path(), Shard::WHOLE, 1), &removed, &mut look);
    let error = ended.unsaved.unwrap().to_string();
    assert!(error.contains("results.jsonl"), "{error}");
    let rescued = ended.rescued.unwrap();
    let finished = store.finished();
    assert!((20..JOBS).contains(&finished), "{finished}");
    drop(store);
    let merged = merge(&[rescued], &dir, &mut |note| panic!("{note}")).unwrap();
    assert_eq!(merged.finished(), finished);
    drop(merged);
    go(&dir, Shard::WHOLE, 2);
    assert_eq!(fs::read(dir.join(FILE)).unwrap(), bytes);
}

#[test]
fn a_full_disk_loses_no_finished_job() {
    let (_dir, bytes) = whole();
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut store = ResultsFile::open(dir.path(), &plan(), &mut |_| {}).unwrap();
    let order = plan().order(Shard::WHOLE);
    let result = |job: &Job| JobResult {
        workload: plan().workloads[job.item].workload.clone(),
        combination: job.combination,
        replicate: job.replicate,
        seed: plan().seed_of(job.replicate),
        outcome: outcome(&plan(), job),
    };
    store.append(result(&order[0])).unwrap();
    if !store.fill_disk() {
        println!("skipped: no /dev/full");
        return;
    }
    let error = store.append(result(&order[1])).unwrap_err().to_string();
    assert!(error.contains("No space left"), "{error}");
    store.append(result(&order[2])).unwrap();
    let rescued = store.rescue(elsewhere.path()).unwrap().unwrap();
    drop(store);
    let merged = merge(&[rescued], dir.path(), &mut |_| {}).unwrap();
    assert_eq!(merged.finished(), 3);
    drop(merged);
    go(dir.path(), Shard::WHOLE, 2);
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), bytes);
}

/// The study of a version of ffs, on the machine that `text` describes.
fn on_machine(file: &Path, text: &str, ffs: &str) -> Plan {
    fs::write(file, text).unwrap();
    let target = format!("sim:machine={}", file.display());
    let mut plan = Plan { target, ..plan() }.signed().unwrap();
    plan.origin.ffs = ffs.to_owned();
    plan
}

#[test]
fn jobs_of_another_machine_or_version_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let first = on_machine(&file, "[cpu]\nstat = 3.5\n", "1.0.0");
    assert_eq!(first, on_machine(&file, "# the same\n[cpu]\nstat = 3.5", "1.0.0"));
    drop(ResultsFile::open(dir.path(), &first, &mut |_| {}).unwrap());
    let refused = |text: &str, ffs: &str| {
        let plan = on_machine(&file, text, ffs);
        assert_ne!(plan.tag().unwrap(), first.tag().unwrap());
        ResultsFile::open(dir.path(), &plan, &mut |_| {}).unwrap_err().to_string()
    };
    let error = refused("[cpu]\nstat = 3.6\n", "1.0.0");
    assert!(error.contains("holds another study (on a machine described otherwise: "), "{error}");
    let error = refused("[cpu]\nstat = 3.5\n", "1.0.1");
    assert!(error.contains("(run by ffs 1.0.0, not 1.0.1)"), "{error}");
    let error = ResultsFile::open(
        dir.path(),
        &Plan { origin: Origin::default(), ..first.clone() },
        &mut |_| {},
    );
    assert!(error.unwrap_err().to_string().contains("run by ffs 1.0.0, not unknown"));
    let real = Plan { target: "core".to_owned(), ..first }.signed().unwrap();
    assert!(real.origin.machine.is_empty() && !real.origin.is_unknown());
}

/// The process that [`a_killed_study_resumes_to_the_same_bytes`] starts. It kills itself.
#[test]
fn killed_child() {
    let Some(dir) = std::env::var_os("FFS_STUDY_KILLED") else { return };
    let at: u32 = std::env::var("FFS_STUDY_KILL_AT").unwrap().parse().unwrap();
    let dir = PathBuf::from(dir);
    let mut store = ResultsFile::open(&dir, &plan(), &mut |_| {}).unwrap();
    let killed = fake(|n| {
        if n >= at {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
        Ok(())
    });
    run(&mut store, &request(&dir, Shard::WHOLE, 2), &killed, &mut look());
    unreachable!("killed before");
}

#[test]
fn a_killed_study_resumes_to_the_same_bytes() {
    use std::os::unix::process::ExitStatusExt;
    let (_dir, bytes) = whole();
    let dir = tempfile::tempdir().unwrap();
    for at in [0, 1, 5, 17, 9] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "study::tests::killed_child", "--nocapture"]);
        child.env("FFS_STUDY_KILLED", dir.path()).env("FFS_STUDY_KILL_AT", at.to_string());
        let output = child.output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
    }
    let before = Results::read(dir.path(), &mut |_| {}).map_or(0, |results| results.jobs.len());
    assert!((20..JOBS).contains(&before), "{before} jobs survived five kills");
    go(dir.path(), Shard::WHOLE, 2);
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), bytes);
}

#[test]
fn factors_are_understood_and_refused_with_a_hint() {
    let paper = Factor::paper();
    assert_eq!(Factor::parse("dh").unwrap(), paper[3]);
    let own = Factor::parse("big=maxvnodes=1000,cache=4m/maxvnodes=90000").unwrap();
    assert_eq!(own.levels, ["maxvnodes=1000,cache=4m", "maxvnodes=90000"]);
    assert_eq!(Factor::parse("vfs.vmiodirenable").unwrap().levels[1], "vmiodirenable=on");
    let refused = |text: &str| Factor::parse(text).unwrap_err().to_string();
    assert!(refused("vmiodirenabel").contains("did you mean 'vmiodirenable'?"));
    assert!(refused("xyz").contains("su, dp, vm, dh"), "{}", refused("xyz"));
    assert!(refused("dh=off").contains("NAME=OFF/ON"));
    let check = |factors: Vec<Factor>| {
        Plan { factors, workloads: plan().workloads[..1].to_vec(), ..plan() }.check()
    };
    check(vec![own.clone()]).unwrap();
    let error = |factors| check(factors).unwrap_err().to_string();
    assert!(error(vec![own.clone(), own]).contains("twice"));
    assert!(error(vec![Factor::parse("x=maxvnods=1/maxvnodes=2").unwrap()]).contains("maxvnodes"));
    assert!(error(vec![Factor::parse("x=noatime/noatime").unwrap()]).contains("the same"));
    assert!(error(vec![Factor::parse("a+b=noatime/atime").unwrap()]).contains("letters"));
    assert_eq!(plan().target_in(0b1001), {
        let words = "softdep,dirpref=old,vmiodirenable=0,dirhash_maxmem=2m";
        format!("core:{words}")
    });
    assert_eq!(
        (plan().combination_name(0), plan().combination_name(9)),
        ("none".into(), "su+dh".into())
    );
}
