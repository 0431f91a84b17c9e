//! Results of a benchmark with nearly the same gains: one of them represents the others.
//!
//! Postmark reports up to twelve rates of one loop. Most of them have the same gains, so a figure
//! shows them as one row.

use super::study_data::{Benchmark, ResultSeries};
use crate::portable_math;
use crate::workload::MetricKind;

/// The largest difference of the gains under any combination.
const LIMIT: f64 = 0.02;

/// For each result of the benchmark the index of the result that represents it: its own, or that of
/// an earlier result whose gains differ by no more than 2 % under each combination.
#[must_use]
pub(super) fn representatives(benchmark: &Benchmark) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for (n, series) in benchmark.series.iter().enumerate() {
        let same = (0..n).find(|m| {
            found.get(*m) == Some(m)
                && benchmark.series.get(*m).is_some_and(|other| are_alike(other, series))
        });
        found.push(same.unwrap_or(n));
    }
    found
}

fn are_alike(a: &ResultSeries, b: &ResultSeries) -> bool {
    let share = MetricKind::CpuPercent;
    if (a.kind == share) != (b.kind == share) || a.cells.base().is_none() {
        return false;
    }
    a.cells.combinations().all(|at| match (a.cells.gain(at), b.cells.gain(at)) {
        (Some(one), Some(other)) => portable_math::ln(one / other).abs() <= LIMIT,
        (None, None) => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::study_data::StudyData;
    use super::super::tests::synthetic;
    use super::*;

    #[test]
    fn a_result_with_the_same_gains_is_represented() {
        let mut study = synthetic::small(&["a", "b"], 2);
        for job in &mut study.jobs {
            let first = job.outcome.metrics[0].clone();
            let other = |id: &str, factor: f64| crate::workload::Metric {
                id: id.to_owned(),
                elapsed: first.elapsed * factor,
                ..first.clone()
            };
            let on = if job.combination == 3 { 1.05 } else { 1.0 };
            let more = [other("twice", 2.0), other("farther", on), other("near", 1.01)];
            job.outcome.metrics.extend(more);
        }
        let data = StudyData::of(&study).unwrap();
        assert_eq!(representatives(&data.benchmarks[0]), [0, 0, 2, 0]);
    }
}
