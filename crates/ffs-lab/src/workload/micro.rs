//! The cost curves of Figures 2 to 6 as a workload: see [`crate::cost_curves`].
//!
//! Each point is a result: `fig2/linear/1000` with its seconds and its number of operations.

use super::parameters::{Parameter, Parameters};
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::cost_curves::{CurveRequest, FIGURES, PointKey};
use crate::error::Result;
use crate::systems::{CoreSpec, Demand, Target, TargetSpec};
use crate::watch::Watch;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "micro",
    group: "Figures 2-6",
    about: "the cost of one operation as a directory grows: Figures 2 to 6 (targets core and sim)",
    params: &[
        Parameter::new("figure", "all", "one figure, 2 to 6"),
        Parameter::new("max", "10000", "entries of the largest directory"),
        Parameter::new("step", "500", "entries between two points of Figures 3 to 6"),
    ],
    source: "paper, Figures 2-6",
    computes: false,
    make: |words| Ok(Box::new(Micro::make(words)?)),
};

struct Micro(CurveRequest);

impl Micro {
    fn make(words: &Parameters) -> Result<Micro> {
        let figures = match words.fixed("figure", 0, 0, 6)? {
            0 => FIGURES.to_vec(),
            figure => vec![figure as u8],
        };
        let max = words.count("max", 10_000, 1_000_000)?;
        let step = words.count("step", 500, 1_000_000)?.min(max);
        let base = TargetSpec::core("core", CoreSpec::default());
        Ok(Micro(CurveRequest { figures, max, step, seed: 0, rounds: 1, base }))
    }
}

fn id((figure, series, n): &PointKey) -> String {
    format!("fig{figure}/{}/{n}", series.replace(' ', "-"))
}

impl Workload for Micro {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        let info = |key: &PointKey| {
            let (figure, series, n) = key;
            let title = format!("Figure {figure}, {series}, {n} entries");
            PhaseInfo::rate(&id(key), &title, "operations")
        };
        self.0.keys().iter().map(info).collect()
    }

    fn demand(&self) -> Demand {
        Demand::files(self.0.largest().into())
    }

    fn operations(&self) -> u64 {
        self.0.operations()
    }

    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let request = CurveRequest { seed, ..self.0.clone() };
        request.measure(target, watch, &mut |key, timing, _| {
            recorder.result(&id(&key), timing.total.as_secs_f64(), timing.ops as f64);
        })
    }
}
