//! Jobs on all cores.
//!
//! Workers take jobs from one list, in its order; results come through a channel to one thread, which
//! writes each to the results file before it looks at the next.
//!
//! **Invariants.**
//! 1. A job that is finished is kept, whatever happens to others or is asked for meanwhile.
//! 2. What a job gives depends on nothing but the plan: not on the order, the threads or other jobs.
//!
//! **Locking.** The list is an iterator under a lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::plan::{Job, Plan, Shard};
use super::results::JobResult;
use super::store::Store;
use crate::error::{LabError, Result};
use crate::watch::Watch;
use crate::work::Outcome;

/// How often the onlooker is asked whether to go on.
const PULSE: Duration = Duration::from_millis(200);

/// Who carries out a job.
pub trait Bench: Sync {
    /// Runs one job of the plan.
    ///
    /// # Errors
    /// The workload's and the target's; [`LabError::Interrupted`] if `watch` says so.
    fn run(&self, plan: &Plan, job: &Job, watch: &mut dyn Watch) -> Result<Outcome>;
}

/// How far a study is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Jobs finished, those of earlier runs included.
    pub finished: usize,
    /// Jobs of this run, those of earlier runs included.
    pub of: usize,
    /// Time left, as far as it can be guessed.
    pub left: Option<Duration>,
}

/// Who looks on.
pub trait Onlooker {
    /// How far it is; called a few times a second. False to stop.
    fn progress(&mut self, progress: &Progress) -> bool;

    /// A job could not be done; others go on.
    fn failed(&mut self, job: &str, why: &LabError);
}

/// How a run ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Jobs that failed.
    pub failed: usize,
    /// Somebody asked to stop.
    pub interrupted: bool,
    /// The results file could not be written.
    pub unsaved: Option<LabError>,
    /// What it lacks is in this other file.
    pub rescued: Option<PathBuf>,
}

enum Message {
    Done(Job, Duration, Box<Result<Outcome>>),
}

/// Which jobs are to be run, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// Of which part.
    pub shard: Shard,
    /// On how many threads.
    pub threads: usize,
    /// Directory for results that the results file cannot take.
    pub elsewhere: PathBuf,
}

/// Runs the jobs that are asked for and not finished yet.
pub fn run(
    store: &mut Store,
    request: &Request,
    bench: &dyn Bench,
    look: &mut dyn Onlooker,
) -> Ended {
    let plan = store.plan().clone();
    let all = plan.order(request.shard);
    let todo: Vec<Job> = all.iter().filter(|job| !store.has(job)).copied().collect();
    let threads = request.threads.clamp(1, todo.len().max(1));
    let stop = AtomicBool::new(false);
    let list = Mutex::new(todo.clone().into_iter());
    // Nobody runs ahead of the results file.
    let (sender, results) = sync_channel(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (plan, list, stop) = (&plan, &list, &stop);
            scope.spawn(move || work(plan, bench, list, stop, &sender));
        }
        drop(sender);
        let guess = Guess { costs: BTreeMap::new(), todo, threads, seen: Instant::now() };
        let mut desk =
            Desk { store, plan: &plan, of: all.len(), guess, stop: &stop, ended: Ended::default() };
        desk.listen(&results, look, &request.elsewhere);
        desk.ended
    })
}

fn work(
    plan: &Plan,
    bench: &dyn Bench,
    list: &Mutex<std::vec::IntoIter<Job>>,
    stop: &AtomicBool,
    sender: &SyncSender<Message>,
) {
    loop {
        let next = list.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(job) = next.filter(|_| !stop.load(Ordering::Relaxed)) else { return };
        let started = Instant::now();
        let outcome = bench.run(plan, &job, &mut Stop(stop));
        let message = Message::Done(job, started.elapsed(), Box::new(outcome));
        if sender.send(message).is_err() {
            return;
        }
    }
}

/// Tells a workload to stop.
struct Stop<'a>(&'a AtomicBool);

impl Watch for Stop<'_> {
    fn done(&mut self, _: u64) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Where results arrive.
struct Desk<'a> {
    store: &'a mut Store,
    plan: &'a Plan,
    of: usize,
    guess: Guess,
    stop: &'a AtomicBool,
    ended: Ended,
}

impl Desk<'_> {
    fn listen(&mut self, results: &Receiver<Message>, look: &mut dyn Onlooker, elsewhere: &Path) {
        loop {
            match results.recv_timeout(PULSE) {
                Ok(Message::Done(job, took, outcome)) => self.arrived(job, took, *outcome, look),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let finished = self.of - self.guess.todo.len();
            let progress = Progress { finished, of: self.of, left: self.guess.left() };
            if !look.progress(&progress) && !self.stop.swap(true, Ordering::Relaxed) {
                self.ended.interrupted = true;
            }
        }
        let ended = if self.ended.unsaved.is_none() { self.store.seal() } else { Ok(()) };
        self.ended.unsaved = self.ended.unsaved.take().or(ended.err());
        match self.store.rescue(elsewhere) {
            Ok(rescued) => self.ended.rescued = rescued,
            Err(error) => look.failed("what the results file could not take", &error),
        }
    }

    fn arrived(
        &mut self,
        job: Job,
        took: Duration,
        outcome: Result<Outcome>,
        look: &mut dyn Onlooker,
    ) {
        self.guess.arrived(&job, took);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(LabError::Interrupted) => return,
            Err(error) => {
                look.failed(&self.plan.job_name(&job), &error);
                self.ended.failed += 1;
                // A target or a workload that cannot be is none in other jobs either.
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
            self.ended.unsaved.get_or_insert(error);
        }
    }
}

/// Guesses the time left from the jobs of each workload that are done.
struct Guess {
    /// By workload: time of all jobs, and how many they were.
    costs: BTreeMap<usize, (Duration, u32)>,
    /// Not done yet.
    todo: Vec<Job>,
    threads: usize,
    /// When the last job arrived.
    seen: Instant,
}

impl Guess {
    fn arrived(&mut self, job: &Job, took: Duration) {
        let cost = self.costs.entry(job.item).or_default();
        *cost = (cost.0 + took, cost.1 + 1);
        self.todo.retain(|waiting| waiting != job);
        self.seen = Instant::now();
    }

    fn left(&self) -> Option<Duration> {
        let (sum, count) =
            self.costs.values().fold((Duration::ZERO, 0), |(t, n), cost| (t + cost.0, n + cost.1));
        let mean = sum.checked_div(count)?;
        let each = |job: &Job| self.costs.get(&job.item).map_or(mean, |(t, n)| *t / (*n).max(1));
        let all: Duration = self.todo.iter().map(each).sum();
        Some((all / self.threads.max(1) as u32).saturating_sub(self.seen.elapsed()))
    }
}
