//! The points of the curves, and the counters of a pass.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::statistics::Summary;
use crate::systems::Target;

/// A point of a curve. Serialised, it is a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Number of the figure in the paper.
    pub figure: u8,
    /// The curve.
    pub series: String,
    /// Entries in the directory; in Figure 2 at the end of the window.
    pub n: u32,
    /// Microseconds per operation: the median of the rounds.
    pub us_per_op: f64,
    /// Microseconds per operation of the fastest round.
    pub(crate) us_min: f64,
    /// Microseconds per operation of the slowest round.
    pub(crate) us_max: f64,
    /// Directory bytes that the linear code searched, per operation. This counter and the next two
    /// are the same on every computer.
    pub(crate) dir_bytes_per_op: f64,
    /// Hash slots probed, per operation.
    pub(crate) hash_probes_per_op: f64,
    /// Directory blocks read because a hash slot pointed to them, per operation.
    pub(crate) hash_blocks_per_op: f64,
}

/// The figure, the curve, and the number of entries of a point.
pub(crate) type PointKey = (u8, String, u32);

/// The counters of a pass, in the order of the last fields of [`Point`].
const COUNTERS: [&str; 3] = ["dir_bytes_scanned", "dirhash_probes", "dirhash_blocks_read"];

/// The values of the counters.
pub(crate) type WorkCounts = [f64; COUNTERS.len()];

impl Point {
    /// The column heads of [`Point::csv`].
    pub const CSV_HEAD: &'static str = "figure,series,n,us_per_op,us_min,us_max,\
        dir_bytes_per_op,hash_probes_per_op,hash_blocks_per_op";

    /// The point as a line of comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let Point { figure, series, n, us_per_op, us_min, us_max, .. } = self;
        let counts = [self.dir_bytes_per_op, self.hash_probes_per_op, self.hash_blocks_per_op];
        let mut line = format!("{figure},{series},{n},{us_per_op:.4},{us_min:.4},{us_max:.4}");
        for count in counts {
            line.push_str(&format!(",{count:.3}"));
        }
        line
    }
}

/// Makes a point of the rounds of each key.
pub(super) fn medians(rounds: BTreeMap<PointKey, Vec<(f64, WorkCounts)>>) -> Vec<Point> {
    let point = |((figure, series, n), rounds): (PointKey, Vec<(f64, WorkCounts)>)| {
        let (us, counts): (Vec<f64>, Vec<WorkCounts>) = rounds.into_iter().unzip();
        let us = Summary::of(&us)?;
        let median = |counter: usize| {
            let of_rounds: Vec<f64> = counts.iter().map(|counts| counts[counter]).collect();
            Summary::of(&of_rounds).map(|summary| summary.median)
        };
        Some(Point {
            figure,
            series,
            n,
            us_per_op: us.median,
            us_min: us.min,
            us_max: us.max,
            dir_bytes_per_op: median(0)?,
            hash_probes_per_op: median(1)?,
            hash_blocks_per_op: median(2)?,
        })
    };
    rounds.into_iter().filter_map(point).collect()
}

/// The counters of a target since it began.
pub(super) fn counts(target: &dyn Target) -> WorkCounts {
    let counters = target.counters();
    COUNTERS.map(|wanted| {
        let found = counters.iter().find(|(name, _)| *name == wanted);
        found.map_or(0.0, |(_, value)| *value as f64)
    })
}

/// The growth of the counters, divided by the number of operations.
pub(super) fn per_op(before: WorkCounts, after: WorkCounts, ops: u64) -> WorkCounts {
    std::array::from_fn(|at| (after[at] - before[at]) / ops.max(1) as f64)
}
