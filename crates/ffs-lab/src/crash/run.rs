//! All workloads on all cores.
//!
//! A worker takes a workload, runs it, and cuts its windows into chunks that any worker may examine.
//! What comes back is added up in the order of the plan, and the run ends with the window in which the
//! limit is reached, whoever was faster.
//!
//! **Locking.** One queue under a lock; results come through a channel.

mod queue;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use ffs_core::OrderingPolicy;
use ffs_device::{Rng, SplitMix64};

use super::examine::{Desk, Examiner, Rates};
use super::explain::Scene;
use super::generate::{Generator, Source};
use super::geometry::{self, Base, Shape};
use super::op::Workload;
use super::oracle::Soft;
use super::record::{Recording, Setting, Window, record};
use super::states::{Choice, Effort, Stage};
pub use super::tally::UNRUN;
use super::tally::{Adder, Tally, WindowTally};
use super::text;
use crate::error::{LabError, Result};
use crate::watch::Watch;
use queue::{Chunk, Message, Queue};

/// Windows of a long trace that are looked at.
const TRACE_WINDOWS: usize = 200;
/// Most states of each.
const TRACE_STATES: u32 = 64;
/// Workloads of three operations that are drawn for each shape.
const THREES: u32 = 20_000;
/// Windows that one worker examines in one go.
const CHUNK: usize = 32;
/// How often the onlooker is asked whether to go on.
const PULSE: Duration = Duration::from_millis(200);

/// Which workload on which volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkId {
    /// The volume.
    pub shape: &'static Shape,
    /// The workload.
    pub source: Source,
}

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shape.name, self.source)
    }
}

/// A state by its name: `ufs2-2m/2.1043:3:s1f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateId {
    /// The workload.
    pub work: WorkId,
    /// The window, counted from 0.
    pub window: u32,
    /// The state.
    pub choice: Choice,
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.work, self.window, self.choice)
    }
}

impl FromStr for StateId {
    type Err = LabError;

    fn from_str(text: &str) -> Result<StateId> {
        let wrong = || {
            let like = "a state is named GEOMETRY/WORKLOAD:WINDOW:STATE, like ufs2-2m/2.17:3:p1";
            LabError::Plan(format!("'{text}' names no state; {like}"))
        };
        let (shape, rest) = text.split_once('/').ok_or_else(wrong)?;
        let mut parts = rest.split(':');
        let mut part = || parts.next().ok_or_else(wrong);
        let (source, window, choice) = (part()?, part()?, part()?);
        let shape = geometry::find(shape)?;
        let work = WorkId { shape, source: source.parse().map_err(|()| wrong())? };
        let window = window.parse().map_err(|_| wrong())?;
        Ok(StateId { work, window, choice: choice.parse().map_err(|()| wrong())? })
    }
}

/// What to examine.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Everything drawn follows from it.
    pub seed: u64,
    /// The tenant under test.
    pub ordering: OrderingPolicy,
    /// The mount options that decide what soft updates promise.
    pub soft: Soft,
    /// The volumes.
    pub shapes: Vec<&'static Shape>,
    /// Operations of the longest systematic workloads: 0 to 3.
    pub length: u32,
    /// Long traces.
    pub traces: u32,
    /// Traces in long directories.
    pub directories: u32,
    /// A workload of the user's instead of all others.
    pub workload: Option<Workload>,
    /// The run ends when so many different images were examined.
    pub max_states: u64,
    /// States of each window.
    pub effort: Effort,
    /// Whether the run ends with the first window that breaks a rule, too.
    pub until_broken: bool,
    /// Closer looks.
    pub rates: Rates,
    /// Workers.
    pub threads: usize,
}

impl Plan {
    fn setting(&self) -> Setting {
        Setting { ordering: self.ordering, seed: self.seed, soft: self.soft }
    }

    /// The workloads, in their order: patterns, single operations, the rest mixed.
    fn works(&self) -> Vec<WorkId> {
        if self.workload.is_some() {
            return self
                .shapes
                .iter()
                .map(|&shape| WorkId { shape, source: Source::File })
                .collect();
        }
        let generators: Vec<Generator> =
            self.shapes.iter().map(|shape| Generator::new(shape, self.seed)).collect();
        let each = |kind: fn(u32) -> Source, count: &dyn Fn(&Generator) -> u32| -> Vec<WorkId> {
            let of = self.shapes.iter().zip(&generators);
            of.flat_map(|(&shape, generator)| {
                (0..count(generator)).map(move |n| WorkId { shape, source: kind(n) })
            })
            .collect()
        };
        let mut works = Vec::new();
        if self.length >= 1 {
            let patterns = each(Source::Pattern, &Generator::patterns);
            for mut some in [patterns, each(Source::One, &Generator::ones)] {
                self.shuffle(&mut some, 1);
                works.extend(some);
            }
        }
        let mut rest = each(Source::Trace, &|_| self.traces);
        let long = |generator: &Generator| generator.has_long_directories();
        rest.extend(each(Source::Directory, &|of| if long(of) { self.directories } else { 0 }));
        if self.length >= 2 {
            rest.extend(each(Source::Two, &Generator::twos));
        }
        if self.length >= 3 {
            rest.extend(each(Source::Three, &|_| THREES));
        }
        self.shuffle(&mut rest, 2);
        works.extend(rest);
        works
    }

    /// So that a run that is cut short has seen something of everything.
    fn shuffle(&self, works: &mut [WorkId], salt: u64) {
        let rng = SplitMix64::new(self.seed ^ salt << 32);
        for at in (1..works.len()).rev() {
            works.swap(at, rng.below(at as u64 + 1) as usize);
        }
    }

    /// The workload of that name.
    ///
    /// # Errors
    /// [`LabError::Plan`] if there is none.
    pub fn find(&self, work: WorkId) -> Result<Workload> {
        let found = match work.source {
            Source::File => self.workload.clone(),
            source => Generator::new(work.shape, self.seed).workload(source),
        };
        found.ok_or_else(|| LabError::Plan(format!("there is no workload {work}")))
    }

    /// How many states of a window of `work` are looked at.
    fn effort(&self, work: WorkId) -> Effort {
        let window = match work.source {
            Source::Trace(_) | Source::Directory(_) => self.effort.window.min(TRACE_STATES),
            _ => self.effort.window,
        };
        Effort { window, ..self.effort }
    }

    /// Which windows are looked at: of a long trace some, drawn.
    fn chosen(&self, work: WorkId, windows: usize) -> Vec<bool> {
        let trace = matches!(work.source, Source::Trace(_) | Source::Directory(_));
        if !trace || windows <= TRACE_WINDOWS {
            return vec![true; windows];
        }
        let rng = SplitMix64::new(self.seed ^ 7 << 40);
        let (mut left, mut wanted) = (windows as u64, TRACE_WINDOWS as u64);
        let mut draw = |_| {
            let take = rng.below(left) < wanted;
            left -= 1;
            wanted -= u64::from(take);
            take
        };
        (0..windows).map(&mut draw).collect()
    }
}

/// A workload that was run.
#[derive(Debug)]
pub struct Ran {
    /// The volume it found.
    pub base: Arc<Base>,
    /// What it left.
    pub recording: Recording,
}

/// Volumes with the standard tree and without, made once.
#[derive(Debug)]
pub struct Bases {
    made: BTreeMap<(&'static str, bool), Arc<Base>>,
}

impl Bases {
    /// The volumes that `plan` needs.
    ///
    /// # Errors
    /// Those of [`Shape::base`].
    pub fn new(plan: &Plan, works: &[WorkId]) -> Result<Bases> {
        let mut made = BTreeMap::new();
        let tree = plan.workload.as_ref().is_none_or(|workload| workload.standard_tree);
        for work in works {
            if let std::collections::btree_map::Entry::Vacant(place) =
                made.entry((work.shape.name, tree))
            {
                place.insert(work.shape.base(plan.ordering, tree)?);
            }
        }
        Ok(Bases { made })
    }

    /// Runs `workload`.
    ///
    /// # Errors
    /// Those of [`record`], and operations before the recording that fail.
    pub fn run(&self, plan: &Plan, work: WorkId, workload: &Workload) -> Result<Ran> {
        let made = self.made.get(&(work.shape.name, workload.standard_tree)).cloned();
        let mut base = match made {
            Some(base) => base,
            None => work.shape.base(plan.ordering, workload.standard_tree)?,
        };
        if !workload.setup.is_empty() {
            base = Arc::new(base.with(&workload.setup)?);
        }
        let recording = record(&base, workload, plan.setting())?;
        Ok(Ran { base, recording })
    }
}

/// Examines windows `from..to` of what ran; `each` gets the tally of each, and says whether to go on.
fn examine(
    plan: &Plan,
    work: WorkId,
    ran: &Ran,
    desk: &mut Desk,
    range: std::ops::Range<usize>,
    each: &mut dyn FnMut(WindowTally) -> bool,
) {
    let windows = &ran.recording.windows;
    let chosen = plan.chosen(work, windows.len());
    let mut examiner = Examiner::new(&ran.base, &ran.recording, plan.setting(), plan.rates, desk);
    let mut under = 0;
    for (at, window) in windows.iter().enumerate().take(range.end) {
        let stage = Stage::new(window, examiner.canvas(), plan.seed);
        if at >= range.start && chosen.get(at) == Some(&true) {
            let tally = examine_window(&mut examiner, window, &stage, plan.effort(work), under);
            if !each(WindowTally { window: at as u32, ..tally }) {
                return;
            }
        }
        under ^= stage.hash(&stage.lay_out(Choice::Prefix(window.writes.len() as u32)));
        examiner.pass(window);
    }
}

fn examine_window(
    examiner: &mut Examiner<'_>,
    window: &Window,
    stage: &Stage<'_>,
    effort: Effort,
    under: u64,
) -> WindowTally {
    let mut tally = WindowTally::default();
    for (choice, laid) in stage.distinct(effort) {
        let verdict = examiner.examine(window, stage, &laid);
        tally.add(choice, under ^ stage.hash(&laid), verdict);
    }
    tally
}

/// Examines one state, with every check.
///
/// # Errors
/// [`LabError::Plan`] if there is no such state; [`LabError::Failed`] if its workload, which is told, cannot
/// be run.
pub fn only(plan: &Plan, id: StateId) -> Result<Tally> {
    let workload = plan.find(id.work)?;
    let bases = Bases::new(plan, &[id.work])?;
    let ran = bases.run(plan, id.work, &workload).map_err(|error| match error {
        LabError::Failed { target, what, why, full } => {
            let why = format!("{why}\n{}", text::print(&workload));
            LabError::Failed { target, what, why, full }
        }
        other => other,
    })?;
    let rates = Rates { remount: 1, interrupt: 1 };
    let mut desk = Desk::default();
    let mut examiner = Examiner::new(&ran.base, &ran.recording, plan.setting(), rates, &mut desk);
    let missing = || LabError::Plan(format!("there is no state {id}"));
    let at = id.window as usize;
    let window = ran.recording.windows.get(at).ok_or_else(missing)?;
    for before in ran.recording.windows.iter().take(at) {
        examiner.pass(before);
    }
    let stage = Stage::new(window, examiner.canvas(), plan.seed);
    if !stage.has(id.choice) {
        return Err(missing());
    }
    let laid = stage.lay_out(id.choice);
    let verdict = examiner.examine(window, &stage, &laid);
    let preen = examiner.preen(&stage, &laid);
    let (base, recording) = (&ran.base, &ran.recording);
    let scene = Scene {
        base,
        workload: &workload,
        recording,
        window,
        stage: &stage,
        laid: &laid,
        preen: &preen,
    };
    let mut explained = scene.lines();
    explained.extend(verdict.violations.iter().map(ToString::to_string));
    let mut tally = WindowTally { window: id.window, ..WindowTally::default() };
    tally.add(id.choice, stage.hash(&laid), verdict);
    let mut adder = Adder::new(std::iter::once(id.work.shape.name), 1);
    adder.workload(id.work, ran.recording.failed.clone());
    adder.window(id, tally);
    Ok(Tally { explained, ..adder.tally })
}

/// The first state of `workload` on that volume that breaks `rule`, looking at no more than `most` states.
///
/// # Errors
/// Those of running it.
pub fn first_to_break(
    plan: &Plan,
    shape: &'static Shape,
    rule: &str,
    most: u64,
) -> Result<Option<StateId>> {
    let work = WorkId { shape, source: Source::File };
    let workload = plan.find(work)?;
    let ran = Bases::new(plan, &[work])?.run(plan, work, &workload)?;
    let (mut found, mut looked) = (None, 0);
    let mut desk = Desk::default();
    examine(plan, work, &ran, &mut desk, 0..ran.recording.windows.len(), &mut |tally| {
        looked += tally.states;
        found = tally.rules.get(rule).map(|(_, choice, _)| StateId {
            work,
            window: tally.window,
            choice: *choice,
        });
        found.is_none() && looked < most
    });
    Ok(found)
}

/// Examines what `plan` says.
///
/// # Errors
/// [`LabError::Plan`] for an empty plan, those of making volumes, and of running the workload that was given.
/// Of the laboratory's own one that cannot be run (operations may fail, mounting and unmounting may not) breaks
/// the rule [`UNRUN`]. Who is stopped has what was examined up to then.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Tally> {
    let works = plan.works();
    if works.is_empty() {
        return Err(LabError::Plan("nothing to examine: no workloads were asked for".to_owned()));
    }
    let bases = Bases::new(plan, &works)?;
    let names = plan.shapes.iter().map(|shape| shape.name);
    let mut adder = Adder::new(names, works.len() as u64);
    let queue = Queue::new(works.len());
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            let (sender, queue, works, bases) = (sender.clone(), &queue, &works, &bases);
            scope.spawn(move || worker(plan, works, bases, queue, &sender));
        }
        drop(sender);
        let result = collect(plan, &works, &receiver, &mut adder, watch);
        // Whoever still works on what is not wanted any more ends with its window.
        queue.stop();
        drop(receiver);
        result
    })?;
    Ok(adder.tally)
}

/// Takes workloads and chunks until there are none.
fn worker(
    plan: &Plan,
    works: &[WorkId],
    bases: &Bases,
    queue: &Queue,
    sender: &std::sync::mpsc::Sender<Message>,
) {
    let mut desk = Desk::default();
    while let Some(job) = queue.take() {
        match job {
            queue::Job::Run(number) => {
                let Some(&work) = works.get(number) else { continue };
                let ran = plan.find(work).and_then(|workload| bases.run(plan, work, &workload));
                let message = match ran {
                    Ok(ran) => {
                        let windows = ran.recording.windows.len();
                        let failed = ran.recording.failed.clone();
                        queue.add(number, Arc::new(ran), windows.div_ceil(CHUNK));
                        Message::Ran { number, chunks: windows.div_ceil(CHUNK), failed }
                    }
                    Err(error) => {
                        queue.add_nothing();
                        Message::Failed { number, error }
                    }
                };
                if sender.send(message).is_err() {
                    return;
                }
            }
            queue::Job::Examine(Chunk { number, chunk, ran }) => {
                let Some(&work) = works.get(number) else { continue };
                let mut windows = Vec::new();
                let range = chunk * CHUNK..(chunk + 1) * CHUNK;
                examine(plan, work, &ran, &mut desk, range, &mut |tally| {
                    let _ = sender.send(Message::Progress(tally.states));
                    windows.push(tally);
                    !queue.stopped()
                });
                if sender.send(Message::Examined { number, chunk, windows }).is_err() {
                    return;
                }
            }
        }
    }
}

/// What became of running a workload: chunks of windows, and operations that failed.
type Outcome = Result<(usize, Vec<(usize, String)>)>;

/// Adds up what comes back, in the order of the plan.
fn collect(
    plan: &Plan,
    works: &[WorkId],
    receiver: &std::sync::mpsc::Receiver<Message>,
    adder: &mut Adder,
    watch: &mut dyn Watch,
) -> Result<()> {
    let mut ran: BTreeMap<usize, Outcome> = BTreeMap::new();
    let mut examined: BTreeMap<(usize, usize), Vec<WindowTally>> = BTreeMap::new();
    let mut next = (0, 0);
    let mut done = 0;
    loop {
        match receiver.recv_timeout(PULSE) {
            Ok(Message::Ran { number, chunks, failed }) => {
                ran.insert(number, Ok((chunks, failed)));
            }
            Ok(Message::Failed { error, .. }) if plan.workload.is_some() => return Err(error),
            Ok(Message::Failed { number, error }) => {
                ran.insert(number, Err(error));
            }
            Ok(Message::Examined { number, chunk, windows }) => {
                examined.insert((number, chunk), windows);
            }
            Ok(Message::Progress(states)) => done += states,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if !watch.done(std::mem::take(&mut done)) {
            adder.tally.interrupted = true;
            return Ok(());
        }
        while let (Some(outcome), Some(&work)) = (ran.get(&next.0), works.get(next.0)) {
            let (chunks, failed) = match outcome {
                Ok(ran) => ran,
                Err(error) => {
                    adder.unrun(work, error.to_string());
                    if plan.until_broken {
                        adder.tally.limited = true;
                        return Ok(());
                    }
                    ran.remove(&next.0);
                    next = (next.0 + 1, 0);
                    continue;
                }
            };
            let Some(windows) = examined.remove(&next) else { break };
            if next.1 == 0 {
                adder.workload(work, failed.clone());
            }
            for window in windows {
                let id = StateId { work, window: window.window, choice: Choice::Prefix(0) };
                adder.window(id, window);
                let broken = plan.until_broken && !adder.tally.rules.is_empty();
                if broken || adder.distinct() >= plan.max_states {
                    adder.tally.limited = true;
                    return Ok(());
                }
            }
            next.1 += 1;
            if next.1 == *chunks {
                ran.remove(&next.0);
                next = (next.0 + 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
