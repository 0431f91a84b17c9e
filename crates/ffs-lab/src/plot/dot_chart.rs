//! Ratios of several targets to the first, a line of dots for each result, on one logarithmic axis.

use super::scale::{self, Scale};
use super::style::SERIES;
use super::svg::{Anchor, Figure, SvgWriter, csv, width};
use super::times;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 240.0;
const RIGHT: f64 = 846.0;
const ROW: f64 = 22.0;
const LEGEND: f64 = 18.0;
/// Ratios beyond this are drawn at the edge.
const FARTHEST: f64 = 1000.0;

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DotRow {
    /// Its name.
    pub(crate) label: String,
    /// The ratio of each target; `None` if the target does not have the result.
    pub(crate) ratios: Vec<Option<f64>>,
}

/// Draws the figure; `None` without a ratio.
#[must_use]
pub(crate) fn draw(id: &str, title: &str, targets: &[String], rows: &[DotRow]) -> Option<Figure> {
    let usable = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
    let all = || rows.iter().flat_map(|row| row.ratios.iter().flatten()).filter(|r| usable(r));
    all().next()?;
    let bounded = |ratio: f64| ratio.clamp(1.0 / FARTHEST, FARTHEST);
    let low = all().map(|r| bounded(*r)).fold(0.8, f64::min) / 1.1;
    let high = all().map(|r| bounded(*r)).fold(1.25, f64::max) * 1.1;
    let x = Scale::log((low, high), (LEFT, RIGHT));
    let mut svg = SvgWriter::default();
    let top = legend(&mut svg, targets) + 20.0;
    let height = top + ROW * rows.len() as f64 + 6.0;
    let marks = x.marks(44.0);
    for mark in &marks {
        let class = if (*mark - 1.0).abs() < 1e-9 { "one" } else { "grid" };
        svg.line((x.at(*mark), top), (x.at(*mark), height - 4.0), class, "");
        let label = format!("×{}", scale::label(&marks, *mark));
        svg.text((x.at(*mark), top - 5.0), Anchor::Middle, "soft small", &label);
    }
    for (n, row) in rows.iter().enumerate() {
        let y = top + (n as f64 + 0.5) * ROW;
        svg.text((LEFT - 10.0, y + 4.0), Anchor::End, "small", &row.label);
        for (at, ratio) in row.ratios.iter().enumerate() {
            let Some(ratio) = ratio.filter(usable) else { continue };
            let target = targets.get(at).map_or("", String::as_str);
            let tip = format!("{}, {target}: {}", row.label, times(ratio));
            svg.circle((x.at(bounded(ratio)), y), 4.2, &format!("f{} dot", at % SERIES), &tip);
        }
    }
    let desc = format!(
        "{} results of {} targets: the ratio to {}.",
        rows.len(),
        targets.len(),
        targets.first().map_or("the first", String::as_str)
    );
    let lines = rows.iter().flat_map(|row| {
        row.ratios.iter().zip(targets).filter_map(|(ratio, target)| {
            Some(vec![row.label.clone(), target.clone(), format!("{:.5}", (*ratio)?)])
        })
    });
    let data = csv("result,target,ratio", lines);
    Some(svg.finish(id, (title, &desc), (WIDTH, height), data))
}

/// Draws the names of the targets in as many lines as they need. Returns the place below.
fn legend(svg: &mut SvgWriter, targets: &[String]) -> f64 {
    let (mut x, mut y) = (6.0, 14.0);
    for (at, target) in targets.iter().enumerate() {
        let wide = 24.0 + width(target, 12.0);
        if x + wide > RIGHT {
            (x, y) = (6.0, y + LEGEND);
        }
        svg.circle((x + 5.0, y - 4.0), 4.2, &format!("f{} dot", at % SERIES), "");
        svg.text((x + 14.0, y), Anchor::Start, "", target);
        x += wide + 8.0;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usable_ratio_is_a_dot() {
        let targets = ["ext4".to_owned(), "ffs".to_owned()];
        let row = |ratios| DotRow { label: "rm".to_owned(), ratios };
        let rows = [
            row(vec![Some(1.0), Some(2.0)]),
            row(vec![Some(1.0), None]),
            row(vec![Some(0.0), Some(f64::INFINITY)]),
            row(vec![Some(1e-9), Some(1e9)]),
        ];
        let figure = draw("d", "t", &targets, &rows).unwrap();
        roxmltree::Document::parse(&figure.file()).unwrap();
        assert_eq!(figure.file().matches("<circle").count(), 2 + 5);
        assert_eq!(draw("d", "t", &targets, &[]), None);
    }
}
