//! Cost curves: lines on linear or logarithmic axes, with reference levels.

use super::scale::{self, Scale};
use super::style;
use super::svg::{Anchor, Figure, SvgWriter, csv, number, width};

const WIDTH: f64 = 384.0;
const HEIGHT: f64 = 268.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 368.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 226.0;
/// The size of the letters of the legend, with space for fonts that are wider than most.
const LEGEND: f64 = 11.5;

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// Its name.
    pub(crate) name: String,
    /// Its points in ascending order.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A reference level, drawn as a dotted line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReferenceLine {
    /// Its name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: f64,
}

/// The axes of a figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axes {
    /// The title of the horizontal axis.
    pub(crate) x: String,
    /// The title of the vertical axis.
    pub(crate) y: String,
    /// Whether the vertical axis is logarithmic.
    pub(crate) log: bool,
    /// The reference levels.
    pub(crate) levels: Vec<ReferenceLine>,
    /// The names of the places 0, 1, 2, ... of the horizontal axis; empty for numbers.
    pub(crate) names: Vec<String>,
}

/// Draws the figure; `None` without a point.
#[must_use]
pub(crate) fn draw(id: &str, title: &str, curves: &[Curve], axes: &Axes) -> Option<Figure> {
    let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    points().next()?;
    let levels = || axes.levels.iter().map(|level| level.value);
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let right = largest(&mut points().map(|p| p.0));
    let top = largest(&mut points().map(|p| p.1).chain(levels())) * 1.05;
    let low = points().map(|p| p.1).chain(levels()).filter(|v| *v > 0.0).fold(top, f64::min) / 1.15;
    let x = Scale::linear((0.0, right), (LEFT, RIGHT));
    let y = if axes.log {
        Scale::log((low, top), (BOTTOM, TOP))
    } else {
        Scale::linear((0.0, top), (BOTTOM, TOP))
    };
    let mut svg = SvgWriter::default();
    grid(&mut svg, (&x, &y), axes);
    levels_of(&mut svg, &y, axes);
    for (n, curve) in curves.iter().enumerate() {
        let places: Vec<(f64, f64)> =
            curve.points.iter().map(|(n, cost)| (x.at(*n), y.at(*cost))).collect();
        let class = format!("curve s{} d{}", n % style::SERIES, n % 4);
        svg.polyline(&places, &class, &curve.name);
    }
    let lines = legend(&mut svg, curves, axes);
    let last = |curve: &Curve| {
        let (n, cost) = curve.points.last()?;
        Some(format!("{} {cost:.1} at {n:.0}", curve.name))
    };
    let words: Vec<String> = curves.iter().filter_map(last).collect();
    let desc = format!("{} against {}: {}.", axes.y, axes.x, words.join(", "));
    let rows = curves.iter().flat_map(|curve| {
        let row =
            |(n, cost): &(f64, f64)| vec![curve.name.clone(), n.to_string(), format!("{cost:.4}")];
        curve.points.iter().map(row)
    });
    let size = (WIDTH, HEIGHT + f64::from(lines) * 15.0);
    Some(svg.finish(id, (title, &desc), size, csv("curve,n,cost", rows)))
}

/// Draws the reference levels. Their names are in the legend, so that they cover no curve.
fn levels_of(svg: &mut SvgWriter, y: &Scale, axes: &Axes) {
    for (n, level) in axes.levels.iter().enumerate() {
        let (at, tip) = (y.at(level.value), format!("{}: {}", level.name, level.value));
        svg.line((LEFT, at), (RIGHT, at), "ref", &tip);
        svg.text((RIGHT + 3.0, at + mark_shift(y, axes, n)), Anchor::Start, "soft tiny", &mark(n));
    }
}

/// The mark of a level, beside its line and in the legend: a, b, c.
fn mark(n: usize) -> String {
    char::from(b'a' + (n % 26) as u8).to_string()
}

/// How far the mark of level `n` is below its line: marks of near levels are apart.
fn mark_shift(y: &Scale, axes: &Axes, n: usize) -> f64 {
    let at = |n: usize| axes.levels.get(n).map_or(0.0, |level| y.at(level.value));
    // The levels from the lowest to the highest: each mark is at least 9 above the one before.
    let mut order: Vec<usize> = (0..axes.levels.len()).collect();
    order.sort_by(|a, b| at(*b).total_cmp(&at(*a)).then(a.cmp(b)));
    let mut last = f64::INFINITY;
    for level in order {
        last = at(level).min(last - 9.0);
        if level == n {
            return last - at(n) + 3.2;
        }
    }
    3.2
}

fn grid(svg: &mut SvgWriter, (x, y): (&Scale, &Scale), axes: &Axes) {
    let marks = y.marks(24.0);
    for mark in &marks {
        let at = y.at(*mark);
        svg.line((LEFT, at), (RIGHT, at), "grid", "");
        let label = scale::label(&marks, *mark);
        svg.text((LEFT - 6.0, at + 3.6), Anchor::End, "soft small", &label);
    }
    let marks = x.marks(56.0);
    let numbers = || marks.iter().map(|mark| (*mark, scale::label(&marks, *mark)));
    let names = || (0..).map(f64::from).zip(axes.names.iter().cloned());
    let labels: Vec<(f64, String)> =
        if axes.names.is_empty() { numbers().collect() } else { names().collect() };
    for (mark, label) in labels {
        let at = x.at(mark);
        svg.line((at, BOTTOM), (at, BOTTOM + 4.0), "axis", "");
        svg.text((at, BOTTOM + 16.0), Anchor::Middle, "soft small", &label);
    }
    svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis", "");
    svg.text((6.0, 12.0), Anchor::Start, "soft small", &axes.y);
    svg.text((RIGHT, BOTTOM + 30.0), Anchor::End, "soft small", &axes.x);
}

/// Draws the names of the curves and levels under the figure. Returns the number of additional
/// lines.
fn legend(svg: &mut SvgWriter, curves: &[Curve], axes: &Axes) -> u32 {
    let (mut x, mut line) = (LEFT, 0);
    let mut place = |name: &str| {
        let wide = 26.0 + width(name, LEGEND) + 14.0;
        if x + wide > RIGHT + 8.0 && x > LEFT {
            (x, line) = (LEFT, line + 1);
        }
        let at = (x, HEIGHT - 4.0 + f64::from(line) * 15.0);
        x += wide;
        at
    };
    for (n, curve) in curves.iter().enumerate() {
        let (x, y) = place(&curve.name);
        let class = format!("curve s{} d{}", n % style::SERIES, n % 4);
        svg.line((x, y - 3.5), (x + 21.0, y - 3.5), &class, "");
        svg.text((x + 26.0, y), Anchor::Start, "small", &curve.name);
    }
    for (n, level) in axes.levels.iter().enumerate() {
        let name = format!("{}: {} {}", mark(n), level.name, number(level.value));
        let (x, y) = place(&name);
        svg.line((x, y - 3.5), (x + 21.0, y - 3.5), "ref", "");
        svg.text((x + 26.0, y), Anchor::Start, "soft small", &name);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_and_levels_are_there() {
        let curve = |name: &str, slope: f64| Curve {
            name: name.to_owned(),
            points: (1..=10)
                .map(|n| (f64::from(n) * 1000.0, 50.0 + slope * f64::from(n)))
                .collect(),
        };
        let level = ReferenceLine { name: "published".to_owned(), value: 50.0 };
        for log in [false, true] {
            let axes = Axes {
                x: "entries".to_owned(),
                y: "µs".to_owned(),
                log,
                levels: vec![level.clone()],
                names: Vec::new(),
            };
            let curves = [curve("linear", 35.0), curve("dirhash", 0.0)];
            let figure = draw("c", "t", &curves, &axes).unwrap();
            let text = figure.file();
            roxmltree::Document::parse(&text).unwrap();
            assert_eq!(text.matches("<polyline").count(), 2);
            // One in the plot, one in the legend.
            assert_eq!(text.matches("class=\"ref\"").count(), 2);
            assert_eq!(figure.csv.lines().count(), 21);
            assert_eq!(draw("c", "t", &[], &axes), None);
        }
    }
}
