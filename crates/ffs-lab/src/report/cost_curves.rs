//! The cost curves of Figures 2 to 6 from the results of a study.

use std::collections::BTreeMap;

use super::study_data::StudyData;
use crate::plot::line_chart::Curve;

/// A curve jumps where its cost is this many times its first cost.
const JUMP: f64 = 1.2;

/// The curves by figure: microseconds for each operation, by the number of entries.
#[must_use]
pub(super) fn all(measured: &StudyData) -> BTreeMap<u8, Vec<Curve>> {
    let mut figures: BTreeMap<u8, Vec<Curve>> = BTreeMap::new();
    let series = measured.benchmarks.iter().filter(|b| b.curves()).flat_map(|b| &b.series);
    for point in series {
        let each = measured.curve_combination().and_then(|at| point.each(at));
        let found = each.zip(place(&point.metric));
        let Some((seconds, (figure, name, n))) = found else { continue };
        let curves = figures.entry(figure).or_default();
        let curve = match curves.iter().position(|curve| curve.name == name) {
            Some(known) => &mut curves[known],
            None => {
                curves.push(Curve { name: name.to_owned(), points: Vec::new() });
                let last = curves.len() - 1;
                &mut curves[last]
            }
        };
        curve.points.push((n, seconds * 1e6));
    }
    for curve in figures.values_mut().flatten() {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    figures
}

/// The parts of `fig2/linear/1000`.
fn place(metric: &str) -> Option<(u8, &str, f64)> {
    let (figure, rest) = metric.strip_prefix("fig")?.split_once('/')?;
    let (name, n) = rest.rsplit_once('/')?;
    Some((figure.parse().ok()?, name, n.parse().ok()?))
}

/// The curve of a figure by its name.
#[must_use]
pub(super) fn find<'a>(
    all: &'a BTreeMap<u8, Vec<Curve>>,
    figure: u8,
    name: &str,
) -> Option<&'a Curve> {
    all.get(&figure)?.iter().find(|curve| curve.name == name)
}

/// The last number of entries before a curve jumps, and the first after it.
#[must_use]
pub(super) fn jump(curve: &Curve) -> Option<(f64, f64)> {
    let (_, first) = *curve.points.first()?;
    let pairs = curve.points.windows(2);
    pairs
        .map(|pair| (pair[0], pair[1]))
        .find(|(_, (_, cost))| *cost > first * JUMP)
        .map(|((before, _), (after, _))| (before, after))
}

/// How much steeper the second half of a curve is than the first: 1 for a straight line.
#[must_use]
pub(super) fn bend(curve: &Curve) -> Option<f64> {
    let first = curve.points.first()?;
    let last = curve.points.last()?;
    let half = (first.0 + last.0) / 2.0;
    let middle =
        curve.points.iter().min_by(|a, b| (a.0 - half).abs().total_cmp(&(b.0 - half).abs()))?;
    let slope = |a: &(f64, f64), b: &(f64, f64)| (b.1 - a.1) / (b.0 - a.0);
    let bend = slope(middle, last) / slope(first, middle);
    bend.is_finite().then_some(bend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_and_bends_are_found() {
        let curve = |points: &[(f64, f64)]| Curve { name: String::new(), points: points.to_vec() };
        let flat = curve(&[(500.0, 5.0), (1000.0, 5.0), (1500.0, 7.0), (2000.0, 7.0)]);
        assert_eq!(jump(&flat), Some((1000.0, 1500.0)));
        assert_eq!(jump(&curve(&[(1.0, 5.0), (2.0, 5.5)])), None);
        assert_eq!(bend(&curve(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)])), Some(1.0));
        assert_eq!(
            place("fig4/name-cache-minvnodes=1000/500"),
            Some((4, "name-cache-minvnodes=1000", 500.0))
        );
        assert_eq!(place("create"), None);
    }
}
