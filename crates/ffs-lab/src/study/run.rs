//! Runs the jobs of a study on several threads.
//!
//! The workers take jobs from one queue ([`super::job_queue`]), in its order and within a limit of
//! memory. One thread receives the results and appends each to the results file before it takes the
//! next.
//!
//! # Invariants
//! 1. The result of a finished job is kept when another job fails or the study is interrupted.
//! 2. The result of a job depends on the plan alone: not on the order, the threads or other jobs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::job_queue::JobQueue;
use super::plan::{Job, Plan, Shard};
use super::results::JobResult;
use super::results_file::ResultsFile;
use crate::error::{LabError, Result};
use crate::watch::Watch;
use crate::workload::Outcome;

/// Time between two progress reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Runs jobs.
pub trait JobRunner: Sync {
    /// Runs one job of a plan.
    ///
    /// # Errors
    /// The workload's and the target's; [`LabError::Interrupted`] when `watch` returns `false`.
    fn run(&self, plan: &Plan, job: &Job, watch: &mut dyn Watch) -> Result<Outcome>;

    /// The bytes of memory that a job of a plan needs at most.
    fn memory(&self, plan: &Plan, job: &Job) -> u64 {
        let _ = (plan, job);
        0
    }
}

/// The progress of a study.
#[derive(Debug, Clone, Copy)]
pub struct StudyProgress {
    /// Finished jobs, those of earlier runs included.
    pub finished: usize,
    /// All jobs of the shard, those of earlier runs included.
    pub of: usize,
    /// An estimate of the remaining time, once a job is finished.
    pub left: Option<Duration>,
}

/// Receives progress and failures of a study.
pub trait StudyWatch {
    /// Reports progress, a few times a second. `false` stops the study.
    fn progress(&mut self, progress: &StudyProgress) -> bool;

    /// Reports a job that failed. The others continue.
    fn failed(&mut self, job: &str, why: &LabError);
}

/// How a run of a study ended.
#[derive(Debug, Default)]
pub struct RunEnd {
    /// The number of jobs that failed.
    pub failed: usize,
    /// Whether the run was interrupted.
    pub interrupted: bool,
    /// Why the results file could not be written.
    pub unsaved: Option<LabError>,
    /// The file that holds the results which the results file lacks.
    pub rescued: Option<PathBuf>,
}

/// A job that ended: its run time and its outcome.
struct EndedJob {
    job: Job,
    took: Duration,
    outcome: Result<Outcome>,
}

/// Which jobs to run, and how.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The part of the study.
    pub shard: Shard,
    /// The number of threads.
    pub threads: usize,
    /// The bytes of memory for the jobs. Fewer jobs run at a time where they would need more.
    pub memory: u64,
    /// The directory for results that the results file cannot take.
    pub elsewhere: PathBuf,
}

/// Runs the jobs of the shard that are not finished.
pub fn run(
    store: &mut ResultsFile,
    request: &RunRequest,
    bench: &dyn JobRunner,
    watch: &mut dyn StudyWatch,
) -> RunEnd {
    let plan = store.plan().clone();
    let all = plan.order(request.shard);
    let todo: Vec<Job> = all.iter().filter(|job| !store.has(job)).copied().collect();
    let threads = request.threads.clamp(1, todo.len().max(1));
    let stop = AtomicBool::new(false);
    let needs = todo.iter().map(|job| (*job, bench.memory(&plan, job))).collect();
    let queue = JobQueue::new(needs, request.memory);
    // A worker waits until its result is in the results file.
    let (sender, results) = sync_channel(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (plan, queue, stop) = (&plan, &queue, &stop);
            scope.spawn(move || work(plan, bench, queue, stop, &sender));
        }
        drop(sender);
        let estimate = TimeEstimate { costs: BTreeMap::new(), todo, threads, last: Instant::now() };
        let mut collector = Collector {
            store,
            plan: &plan,
            of: all.len(),
            estimate,
            stop: &stop,
            end: RunEnd::default(),
        };
        collector.listen(&results, watch, &request.elsewhere);
        collector.end
    })
}

fn work(
    plan: &Plan,
    bench: &dyn JobRunner,
    queue: &JobQueue,
    stop: &AtomicBool,
    sender: &SyncSender<EndedJob>,
) {
    loop {
        let Some(running) = queue.begin().filter(|_| !stop.load(Ordering::Relaxed)) else { return };
        let job = running.job;
        let started = Instant::now();
        let outcome = bench.run(plan, &job, &mut Stop(stop));
        // The collector may be slow; the memory is free before.
        drop(running);
        let ended = EndedJob { job, took: started.elapsed(), outcome };
        if sender.send(ended).is_err() {
            return;
        }
    }
}

/// Stops a workload when the flag is set.
struct Stop<'a>(&'a AtomicBool);

impl Watch for Stop<'_> {
    fn done(&mut self, _: u64) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Receives the results of the workers.
struct Collector<'a> {
    store: &'a mut ResultsFile,
    plan: &'a Plan,
    of: usize,
    estimate: TimeEstimate,
    stop: &'a AtomicBool,
    end: RunEnd,
}

impl Collector<'_> {
    fn listen(
        &mut self,
        results: &Receiver<EndedJob>,
        watch: &mut dyn StudyWatch,
        elsewhere: &Path,
    ) {
        loop {
            match results.recv_timeout(REPORT_INTERVAL) {
                Ok(ended) => self.receive(ended, watch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let finished = self.of - self.estimate.todo.len();
            let progress = StudyProgress { finished, of: self.of, left: self.estimate.left() };
            if !watch.progress(&progress) && !self.stop.swap(true, Ordering::Relaxed) {
                self.end.interrupted = true;
            }
        }
        let ended = if self.end.unsaved.is_none() { self.store.seal() } else { Ok(()) };
        self.end.unsaved = self.end.unsaved.take().or(ended.err());
        match self.store.rescue(elsewhere) {
            Ok(rescued) => self.end.rescued = rescued,
            Err(error) => watch.failed("results that the results file could not take", &error),
        }
    }

    fn receive(&mut self, ended: EndedJob, watch: &mut dyn StudyWatch) {
        let EndedJob { job, took, outcome } = ended;
        self.estimate.finished(&job, took);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(LabError::Interrupted) => return,
            Err(error) => {
                watch.failed(&self.plan.job_name(&job), &error);
                self.end.failed += 1;
                // A target or workload that is unusable in one job is unusable in all.
                if !matches!(error, LabError::Failed { .. }) {
                    self.stop.store(true, Ordering::Relaxed);
                }
                return;
            }
        };
        let workload = self.plan.workloads.get(job.item).map(|item| item.workload.clone());
        let result = JobResult {
            workload: workload.unwrap_or_default(),
            combination: job.combination,
            replicate: job.replicate,
            seed: self.plan.seed_of(job.replicate),
            outcome,
        };
        if let Err(error) = self.store.append(result) {
            self.stop.store(true, Ordering::Relaxed);
            self.end.unsaved.get_or_insert(error);
        }
    }
}

/// Estimates the remaining time from the finished jobs of each workload.
struct TimeEstimate {
    /// By workload: the time of all finished jobs, and their number.
    costs: BTreeMap<usize, (Duration, u32)>,
    /// The jobs that are not finished.
    todo: Vec<Job>,
    threads: usize,
    /// When the last job ended.
    last: Instant,
}

impl TimeEstimate {
    fn finished(&mut self, job: &Job, took: Duration) {
        let cost = self.costs.entry(job.item).or_default();
        *cost = (cost.0 + took, cost.1 + 1);
        self.todo.retain(|waiting| waiting != job);
        self.last = Instant::now();
    }

    fn left(&self) -> Option<Duration> {
        let (sum, count) =
            self.costs.values().fold((Duration::ZERO, 0), |(t, n), cost| (t + cost.0, n + cost.1));
        let mean = sum.checked_div(count)?;
        let each = |job: &Job| self.costs.get(&job.item).map_or(mean, |(t, n)| *t / (*n).max(1));
        let all: Duration = self.todo.iter().map(each).sum();
        Some((all / self.threads.max(1) as u32).saturating_sub(self.last.elapsed()))
    }
}
