//! All workloads on all cores.
//!
//! A worker takes a workload, runs it, and splits its windows into batches that any worker may
//! examine. The results are added up in the order of the plan. The run ends with the window that
//! reaches the limit, whichever worker was faster.
//!
//! **Locking.** The queue has one lock; results go through a channel.

mod execution;
mod plan;
mod queue;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::events;
use super::examine::{Examiner, ExaminerBuffers, Rates};
use super::explain::StateReport;
use super::generate::Source;
use super::geometry::Shape;
pub use super::id::{StateId, WorkloadId};
use super::record::Window;
use super::states::{Choice, Effort, WindowStates};
use super::tally::{Tally, TallyBuilder, WindowTally};
use super::text;
use crate::error::{LabError, Result};
use crate::watch::Watch;
use execution::{ChainLink, Execution, Volumes};
pub use plan::Plan;
use queue::{Batch, Message, Queue};

/// Windows in a batch.
const BATCH: usize = 32;
/// The interval at which [`Watch`] decides whether to continue.
const PULSE: Duration = Duration::from_millis(200);

/// Examines the windows `range` of an execution. `each` gets the tally of each window and returns
/// whether to continue.
fn examine(
    plan: &Plan,
    work: WorkloadId,
    ran: &Execution,
    buffers: &mut ExaminerBuffers,
    range: std::ops::Range<usize>,
    each: &mut dyn FnMut(WindowTally) -> bool,
) {
    let chosen = plan.chosen(work, ran.windows());
    let mut first = 0;
    for link in &ran.links {
        let windows = &link.recording.windows;
        let numbers = first..first + windows.len();
        first = numbers.end;
        if numbers.end <= range.start || range.end <= numbers.start {
            continue;
        }
        let mut examiner =
            Examiner::new(&link.base, &link.recording, plan.setting(), plan.rates, buffers);
        let mut base_hash = link.base.fingerprint;
        for ((at, number), window) in (0..).zip(numbers).zip(windows) {
            if number >= range.end {
                break;
            }
            let window_states = WindowStates::new(window, examiner.overlay(), plan.seed);
            let wanted = chosen.get(number) == Some(&true) || link.crash == Some(at);
            if number >= range.start && wanted {
                let tally = examine_window(
                    &mut examiner,
                    window,
                    &window_states,
                    plan.effort(work),
                    base_hash,
                );
                if !each(WindowTally { window: number as u32, ..tally }) {
                    return;
                }
            }
            base_hash ^= window_states
                .hash(&window_states.layout(Choice::Prefix(window.writes.len() as u32)));
            examiner.pass(window);
        }
    }
}

fn examine_window(
    examiner: &mut Examiner<'_>,
    window: &Window,
    window_states: &WindowStates<'_>,
    effort: Effort,
    base_hash: u64,
) -> WindowTally {
    let mut tally = WindowTally::default();
    for (choice, layout) in window_states.distinct(effort) {
        let verdict = examiner.examine(window, window_states, &layout);
        tally.add(choice, base_hash ^ window_states.hash(&layout), verdict);
    }
    let all = Choice::Prefix(window.writes.len() as u32);
    tally.add_order(all, &examiner.journal_order(window));
    tally
}

/// Runs the workload of a state, and keeps the log events of soft updates.
fn run_one(plan: &Plan, id: StateId) -> Result<Execution> {
    let plan = &Plan { keeps_events: true, ..plan.clone() };
    let workload = plan.find(id.work)?;
    let volumes = Volumes::new(plan, &[id.work])?;
    volumes.run(plan, id.work, &workload).map_err(|error| match error {
        LabError::Failed { target, what, why, full } => {
            let why = format!("{why}\n{}", text::print(&workload));
            LabError::Failed { target, what, why, full }
        }
        other => other,
    })
}

fn missing(id: StateId) -> LabError {
    LabError::Plan(format!("there is no state {id}"))
}

/// The link of a state, and the window in it.
fn locate(ran: &Execution, id: StateId) -> Result<(&ChainLink, usize)> {
    let mut at = id.window as usize;
    let link = ran.links.iter().find(|link| {
        let windows = link.recording.windows.len();
        let here = at < windows;
        at -= if here { 0 } else { windows };
        here
    });
    Ok((link.ok_or_else(|| missing(id))?, at))
}

/// The lines of a state's report about soft updates: the last `most` log events before the crash.
///
/// # Errors
/// As [`only`].
pub fn ordering_events(plan: &Plan, id: StateId, most: usize) -> Result<Vec<String>> {
    let ran = run_one(plan, id)?;
    let (ChainLink { base, recording, .. }, at) = locate(&ran, id)?;
    let mut buffers = ExaminerBuffers::default();
    let mut examiner = Examiner::new(base, recording, plan.setting(), plan.rates, &mut buffers);
    recording.windows.iter().take(at).for_each(|before| examiner.pass(before));
    let window = recording.windows.get(at).ok_or_else(|| missing(id))?;
    let window_states = WindowStates::new(window, examiner.overlay(), plan.seed);
    if !window_states.has(id.choice) {
        return Err(missing(id));
    }
    let seen = window_states.layout(id.choice).crash.seen;
    Ok(events::lines(&recording.ordering_events, seen, most))
}

/// Examines one state, with every check. Its report has the last `most_events` log events of soft
/// updates before the crash.
///
/// # Errors
/// [`LabError::Plan`] if there is no such state. [`LabError::Failed`] if the workload cannot be
/// run; the error contains the workload.
pub fn only(plan: &Plan, id: StateId, most_events: usize) -> Result<Tally> {
    let ran = run_one(plan, id)?;
    let (ChainLink { base, workload, recording, .. }, at) = locate(&ran, id)?;
    let rates = Rates { remount: 1, interrupt: 1 };
    let mut buffers = ExaminerBuffers::default();
    let mut examiner = Examiner::new(base, recording, plan.setting(), rates, &mut buffers);
    let window = recording.windows.get(at).ok_or_else(|| missing(id))?;
    recording.windows.iter().take(at).for_each(|before| examiner.pass(before));
    let window_states = WindowStates::new(window, examiner.overlay(), plan.seed);
    if !window_states.has(id.choice) {
        return Err(missing(id));
    }
    let layout = window_states.layout(id.choice);
    let mut verdict = examiner.examine(window, &window_states, &layout);
    if id.choice == Choice::Prefix(window.writes.len() as u32) {
        verdict.violations.extend(examiner.journal_order(window));
    }
    let preen = examiner.preen(&window_states, &layout);
    let report = StateReport {
        base,
        workload,
        recording,
        window,
        window_states: &window_states,
        layout: &layout,
        preen: &preen,
        most_events,
    };
    let mut explained = report.lines();
    explained.extend(verdict.violations.iter().map(ToString::to_string));
    let mut tally = WindowTally { window: id.window, ..WindowTally::default() };
    tally.add(id.choice, window_states.hash(&layout), verdict);
    let mut builder = TallyBuilder::new(std::iter::once(id.work.shape.name), 1);
    builder.workload(id.work, ran.failed());
    builder.window(id, tally);
    Ok(Tally { explained, ..builder.tally })
}

/// The first state of the workload of `plan` on that volume that breaks `rule`; at most `most`
/// states are examined.
///
/// # Errors
/// Those of running it.
pub fn first_to_break(
    plan: &Plan,
    shape: &'static Shape,
    rule: &str,
    most: u64,
) -> Result<Option<StateId>> {
    let work = WorkloadId { shape, source: Source::File };
    let workload = plan.find(work)?;
    let ran = Volumes::new(plan, &[work])?.run(plan, work, &workload)?;
    let (mut found, mut looked) = (None, 0);
    let mut buffers = ExaminerBuffers::default();
    examine(plan, work, &ran, &mut buffers, 0..ran.windows(), &mut |tally| {
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

/// Examines the states of `plan`.
///
/// # Errors
/// [`LabError::Plan`] for an empty plan, those of making volumes, and of running the workload that
/// was given. Of the laboratory's own one that cannot be run (operations may fail, mounting and
/// unmounting may not) breaks the rule [`UNRUN`](super::tally::UNRUN). Who is stopped has what was
/// examined up to then.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Tally> {
    let workloads = plan.workloads();
    if workloads.is_empty() {
        return Err(LabError::Plan(
            "nothing to examine: the options select no workload".to_owned(),
        ));
    }
    let volumes = Volumes::new(plan, &workloads)?;
    let names = plan.shapes.iter().map(|shape| shape.name);
    let mut builder = TallyBuilder::new(names, workloads.len() as u64);
    let queue = Queue::new(workloads.len());
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            let (sender, queue, workloads, volumes) =
                (sender.clone(), &queue, &workloads, &volumes);
            scope.spawn(move || worker(plan, workloads, volumes, queue, &sender));
        }
        drop(sender);
        let result = collect(plan, &workloads, &receiver, &mut builder, watch);
        // Workers that are busy end with their window.
        queue.stop();
        drop(receiver);
        result
    })?;
    Ok(builder.tally)
}

/// Takes jobs from the queue until there are none.
fn worker(
    plan: &Plan,
    workloads: &[WorkloadId],
    volumes: &Volumes,
    queue: &Queue,
    sender: &std::sync::mpsc::Sender<Message>,
) {
    let mut buffers = ExaminerBuffers::default();
    while let Some(job) = queue.take() {
        match job {
            queue::Job::Run(number) => {
                let Some(&work) = workloads.get(number) else { continue };
                let ran = plan.find(work).and_then(|workload| volumes.run(plan, work, &workload));
                let message = match ran {
                    Ok(ran) => {
                        let (windows, failed) = (ran.windows(), ran.failed());
                        queue.add(number, Arc::new(ran), windows.div_ceil(BATCH));
                        Message::Ran { number, batches: windows.div_ceil(BATCH), failed }
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
            queue::Job::Examine(Batch { number, batch, ran }) => {
                let Some(&work) = workloads.get(number) else { continue };
                let mut windows = Vec::new();
                let range = batch * BATCH..(batch + 1) * BATCH;
                examine(plan, work, &ran, &mut buffers, range, &mut |tally| {
                    let _ = sender.send(Message::Progress(tally.states));
                    windows.push(tally);
                    !queue.stopped()
                });
                if sender.send(Message::Examined { number, batch, windows }).is_err() {
                    return;
                }
            }
        }
    }
}

/// The result of running a workload: batches of windows, and failed operations.
type Outcome = Result<(usize, Vec<(usize, String)>)>;

/// Adds up the messages of the workers, in the order of the plan.
fn collect(
    plan: &Plan,
    workloads: &[WorkloadId],
    receiver: &std::sync::mpsc::Receiver<Message>,
    builder: &mut TallyBuilder,
    watch: &mut dyn Watch,
) -> Result<()> {
    let mut ran: BTreeMap<usize, Outcome> = BTreeMap::new();
    let mut examined: BTreeMap<(usize, usize), Vec<WindowTally>> = BTreeMap::new();
    let mut next = (0, 0);
    let mut done = 0;
    loop {
        match receiver.recv_timeout(PULSE) {
            Ok(Message::Ran { number, batches, failed }) => {
                ran.insert(number, Ok((batches, failed)));
            }
            Ok(Message::Failed { error, .. }) if plan.workload.is_some() => return Err(error),
            Ok(Message::Failed { number, error }) => {
                ran.insert(number, Err(error));
            }
            Ok(Message::Examined { number, batch, windows }) => {
                examined.insert((number, batch), windows);
            }
            Ok(Message::Progress(states)) => done += states,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if !watch.done(std::mem::take(&mut done)) {
            builder.tally.interrupted = true;
            return Ok(());
        }
        while let (Some(outcome), Some(&work)) = (ran.get(&next.0), workloads.get(next.0)) {
            let (batches, failed) = match outcome {
                Ok(ran) => ran,
                Err(error) => {
                    builder.unrun(work, error.to_string());
                    if plan.until_broken {
                        builder.tally.limited = true;
                        return Ok(());
                    }
                    ran.remove(&next.0);
                    next = (next.0 + 1, 0);
                    continue;
                }
            };
            let Some(windows) = examined.remove(&next) else { break };
            if next.1 == 0 {
                builder.workload(work, failed.clone());
            }
            for window in windows {
                let id = StateId { work, window: window.window, choice: Choice::Prefix(0) };
                builder.window(id, window);
                let broken = plan.until_broken && !builder.tally.rules.is_empty();
                if broken || builder.distinct() >= plan.max_states {
                    builder.tally.limited = true;
                    return Ok(());
                }
            }
            next.1 += 1;
            if next.1 == *batches {
                ran.remove(&next.0);
                next = (next.0 + 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
