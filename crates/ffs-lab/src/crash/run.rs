//! All workloads on all cores.
//!
//! A worker takes a workload, runs it, and cuts its windows into chunks that any worker may examine.
//! What comes back is added up in the order of the plan, and the run ends with the window in which the
//! limit is reached, whoever was faster.
//!
//! **Locking.** One queue under a lock; results come through a channel.

mod plan;
mod queue;
mod ran;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::examine::{Desk, Examiner, Rates};
use super::explain::Scene;
use super::generate::Source;
use super::geometry::Shape;
use super::record::Window;
use super::states::{Choice, Effort, Stage};
pub use super::tally::UNRUN;
use super::tally::{Adder, Tally, WindowTally};
use super::text;
use crate::error::{LabError, Result};
use crate::watch::Watch;
pub use plan::{Plan, StateId, WorkId};
use queue::{Chunk, Message, Queue};
pub use ran::{Bases, Link, Ran};

/// Windows that one worker examines in one go.
const CHUNK: usize = 32;
/// How often the onlooker is asked whether to go on.
const PULSE: Duration = Duration::from_millis(200);

/// Examines windows `from..to` of what ran; `each` gets the tally of each, and says whether to go on.
fn examine(
    plan: &Plan,
    work: WorkId,
    ran: &Ran,
    desk: &mut Desk,
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
            Examiner::new(&link.base, &link.recording, plan.setting(), plan.rates, desk);
        let mut under = link.base.print;
        for ((at, number), window) in (0..).zip(numbers).zip(windows) {
            if number >= range.end {
                break;
            }
            let stage = Stage::new(window, examiner.canvas(), plan.seed);
            let wanted = chosen.get(number) == Some(&true) || link.crash == Some(at);
            if number >= range.start && wanted {
                let tally = examine_window(&mut examiner, window, &stage, plan.effort(work), under);
                if !each(WindowTally { window: number as u32, ..tally }) {
                    return;
                }
            }
            under ^= stage.hash(&stage.lay_out(Choice::Prefix(window.writes.len() as u32)));
            examiner.pass(window);
        }
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
    let missing = || LabError::Plan(format!("there is no state {id}"));
    let mut at = id.window as usize;
    let link = ran.links.iter().find(|link| {
        let windows = link.recording.windows.len();
        let here = at < windows;
        at -= if here { 0 } else { windows };
        here
    });
    let Link { base, workload, recording, .. } = link.ok_or_else(missing)?;
    let mut examiner = Examiner::new(base, recording, plan.setting(), rates, &mut desk);
    let window = recording.windows.get(at).ok_or_else(missing)?;
    for before in recording.windows.iter().take(at) {
        examiner.pass(before);
    }
    let stage = Stage::new(window, examiner.canvas(), plan.seed);
    if !stage.has(id.choice) {
        return Err(missing());
    }
    let laid = stage.lay_out(id.choice);
    let verdict = examiner.examine(window, &stage, &laid);
    let preen = examiner.preen(&stage, &laid);
    let scene =
        Scene { base, workload, recording, window, stage: &stage, laid: &laid, preen: &preen };
    let mut explained = scene.lines();
    explained.extend(verdict.violations.iter().map(ToString::to_string));
    let mut tally = WindowTally { window: id.window, ..WindowTally::default() };
    tally.add(id.choice, stage.hash(&laid), verdict);
    let mut adder = Adder::new(std::iter::once(id.work.shape.name), 1);
    adder.workload(id.work, ran.failed());
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
    examine(plan, work, &ran, &mut desk, 0..ran.windows(), &mut |tally| {
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
                        let (windows, failed) = (ran.windows(), ran.failed());
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
