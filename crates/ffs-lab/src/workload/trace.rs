//! Your own workload: the recorded calls of a program.
//!
//! The calls are made one after another, in the order of the trace. What existed before the first
//! call is made first and is not measured.
//!
//! Reference: `docs/lab/traces.md`.

use super::parameters::{Parameter, Parameters};
use super::progress::ProgressMeter;
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::{LabError, Result};
use crate::systems::{Demand, Target};
use crate::trace::replay::Replay;
use crate::trace::resolve::Program;
use crate::trace::{self, Format, ReadOptions, tree};
use crate::watch::Watch;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "trace",
    group: "Trace",
    about: "the recorded file system calls of a program (ffs lab record), replayed",
    params: &[
        Parameter::new("file", "a small example", "the trace: our own, strace's or fio's"),
        Parameter::new("format", "by content", "ffs, strace or fio"),
        Parameter::new("below", "", "strace: only calls below this directory"),
        Parameter::new("cwd", "", "strace: where the program was started"),
        Parameter::new("think", "0", "processor time, percent of the time between calls; on sim"),
    ],
    source: "the calls of a real program",
    computes: false,
    make: |words| Ok(Box::new(TraceWorkload::make(words)?)),
};

/// A trace without a file: the extraction of a small archive.
const EXAMPLE: &[u8] = include_bytes!("../trace/example.trace");
/// The begin of the note on a tree that differs from the recorded one.
pub const TREE_DIFFERS: &str = "the tree differs from the recorded one";

/// A program as a workload.
pub(crate) struct TraceWorkload {
    program: Program,
    /// Processor time for the time between calls.
    think: f64,
}

impl TraceWorkload {
    pub(crate) fn new(program: Program, think: f64) -> TraceWorkload {
        TraceWorkload { program, think }
    }

    fn make(words: &Parameters) -> Result<TraceWorkload> {
        if words.scale() != 1.0 {
            let why = "workload 'trace': a trace has one size; expected no --scale and no --quick";
            return Err(LabError::Plan(why.to_owned()));
        }
        let names = Format::WORDS.map(|(word, _)| word);
        let word = words.word("format", &["by content", names[0], names[1], names[2]])?;
        let found = Format::WORDS.iter().find(|(known, _)| *known == word);
        let options = ReadOptions {
            format: found.map(|(_, format)| *format),
            below: words.text("below"),
            cwd: words.text("cwd"),
            seed: 0,
        };
        let trace = match words.path("file") {
            Some(path) => trace::read(&path, &options)?,
            None => trace::parse(EXAMPLE, &ReadOptions::default()).map_err(LabError::Plan)?,
        };
        let think = words.fixed("think", 0, 0, 10_000)?;
        Ok(TraceWorkload::new(Program::of(&trace)?, f64::from(think) / 100.0))
    }
}

impl Workload for TraceWorkload {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        vec![
            PhaseInfo::time("replay", "replay", "calls"),
            PhaseInfo::rate("rate", "calls made", "calls"),
        ]
    }

    fn demand(&self) -> Demand {
        self.program.demand
    }

    fn operations(&self) -> u64 {
        (self.program.given.len() + self.program.steps.len()) as u64
    }

    fn run(
        &self,
        target: &mut dyn Target,
        _seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let program = &self.program;
        let root = target.begin(self.demand())?;
        let mut meter = ProgressMeter::new(watch);
        let mut replay = Replay::new(root, program, self.think);
        meter.step("prepare");
        replay.prepare(target, program, &mut || meter.tick())?;
        if !program.given.is_empty() {
            target.sync()?;
        }
        for (why, count) in &program.left_out {
            recorder.note(format!("left out: {count} {why}"));
        }
        let calls = program.calls() as f64;
        let phase = meter.phase(recorder, target, "replay", |target, meter| {
            replay.run(target, program, &mut || meter.tick())?;
            Ok(calls)
        })?;
        let elapsed = phase.elapsed;
        recorder.result("rate", elapsed, calls);
        if let Some(recorded) = &program.tree {
            let found = tree::of_target(target, root)?;
            recorder.note_last(if found == *recorded {
                format!("the tree is as recorded: {found}")
            } else {
                format!("{TREE_DIFFERS}: {found}; recorded: {recorded}")
            });
        }
        Ok(())
    }
}
