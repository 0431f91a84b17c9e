//! The triangle plot: the effect of each option, for each combination of the options before it.
//!
//! Each column is an option, the most important first. A column has a triangle for each combination
//! of the options to its left; those to its right are off. A triangle goes from the level without
//! the option to the level with it. One that points up is a gain, one that points down a loss. The
//! dots below a triangle show which of the options to the left are on.

use super::scale::Scale;
use super::svg::{Anchor, Figure, SvgWriter, csv};
use super::{OptionNames, times};
use crate::portable_math;
use crate::statistics::importance;
use crate::statistics::{Cells, Combination};

const WIDTH: f64 = 384.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 380.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 236.0;
/// The most options: 63 triangles.
const MOST: usize = 6;
/// The distance between rows of dots.
const ROW: f64 = 11.0;

/// A triangle: column, combination of the options before, level without and with the option.
struct TriangleStep {
    column: usize,
    before: Combination,
    from: f64,
    to: f64,
}

/// Draws the figure; `None` without the combination of no options, without two combinations that
/// differ in one option, or if options exclude each other: then not every set of options has a
/// triangle.
#[must_use]
pub(crate) fn draw(id: &str, title: &str, cells: &Cells, names: OptionNames<'_>) -> Option<Figure> {
    let order: Vec<usize> = importance(cells).into_iter().take(MOST).collect();
    let steps = steps(cells, &order);
    if steps.is_empty() || !cells.design().is_two_level() {
        return None;
    }
    let levels = || steps.iter().flat_map(|step| [step.from, step.to]);
    let low = levels().fold(1.0, f64::min);
    let high = levels().fold(1.0, f64::max);
    let slack = portable_math::pow(high / low, 0.04).max(1.01);
    let y = Scale::log((low / slack, high * slack), (BOTTOM, TOP));
    let mut svg = SvgWriter::default();
    grid(&mut svg, &y);
    let unit = unit(&order);
    for step in &steps {
        triangle(&mut svg, step, &order, names, (&y, unit));
    }
    heads(&mut svg, &order, names, unit);
    let desc = desc(&steps, &order, names);
    let rows = steps.iter().map(|step| {
        let (option, state) = (&names[order[step.column]], step.before.name(names, "+"));
        vec![option.clone(), state, format!("{:.6}", step.from), format!("{:.6}", step.to)]
    });
    let csv = csv("option,with,gain_without,gain_with", rows);
    let height = BOTTOM + 24.0 + order.len().saturating_sub(1) as f64 * ROW + 4.0;
    Some(svg.finish(id, (title, &desc), (WIDTH, height), csv))
}

fn steps(cells: &Cells, order: &[usize]) -> Vec<TriangleStep> {
    let mut steps = Vec::new();
    for (column, factor) in order.iter().enumerate() {
        for state in 0..1_u32 << column {
            let before = before(order, column, state);
            let pair = cells.gain(before).zip(cells.gain(before.with(*factor)));
            steps.extend(pair.map(|(from, to)| TriangleStep { column, before, from, to }));
        }
    }
    steps
}

/// The combination of a state, in which the first option is the highest bit.
fn before(order: &[usize], column: usize, state: u32) -> Combination {
    let on = |at: &usize| state >> (column - 1 - at) & 1 == 1;
    (0..column).filter(on).fold(Combination::NONE, |set, at| set.with(order[at]))
}

/// The width of a triangle.
fn unit(order: &[usize]) -> f64 {
    let triangles = (1_u32 << order.len()) - 1;
    (RIGHT - LEFT) / (f64::from(triangles) + order.len() as f64 * 0.6)
}

/// The left edge of a column.
fn column_at(column: usize, unit: f64) -> f64 {
    LEFT + unit * (f64::from((1_u32 << column) - 1) + column as f64 * 0.6 + 0.3)
}

/// The index of a state's triangle in its column.
fn place(step: &TriangleStep, order: &[usize]) -> u32 {
    let on = |at: usize| u32::from(step.before.has(order[at])) << (step.column - 1 - at);
    (0..step.column).map(on).sum()
}

fn grid(svg: &mut SvgWriter, y: &Scale) {
    let marks = y.marks(20.0);
    for mark in &marks {
        let class = if (*mark - 1.0).abs() < 1e-9 { "one" } else { "grid" };
        svg.line((LEFT, y.at(*mark)), (RIGHT, y.at(*mark)), class, "");
        let label = format!("×{}", super::scale::label(&marks, *mark));
        svg.text((LEFT - 6.0, y.at(*mark) + 3.6), Anchor::End, "soft small", &label);
    }
}

fn triangle(
    svg: &mut SvgWriter,
    step: &TriangleStep,
    order: &[usize],
    names: OptionNames<'_>,
    (y, unit): (&Scale, f64),
) {
    let factor = order[step.column];
    let left = column_at(step.column, unit) + f64::from(place(step, order)) * unit;
    let pad = unit * 0.1;
    let (base, tip, middle) = (y.at(step.from), y.at(step.to), left + unit / 2.0);
    let state = step.before.name(names, "+");
    let words = format!(
        "{} after {state}: {} to {}, {}",
        names[factor],
        times(step.from),
        times(step.to),
        times(step.to / step.from)
    );
    let points = [(left + pad, base), (left + unit - pad, base), (middle, tip)];
    let loss = if step.to < step.from { " dull" } else { "" };
    svg.polygon(&points, &format!("f{}{loss}", factor % super::style::SERIES), &words);
    svg.line((left + pad, base), (left + unit - pad, base), &stroke(factor), "");
    for (row, option) in order.iter().take(step.column).enumerate() {
        let on = step.before.has(*option);
        let class = if on { format!("f{}", option % super::style::SERIES) } else { "off".into() };
        let radius = if on { 2.8_f64.min(unit * 0.3) } else { 1.3 };
        let dot = BOTTOM + 26.0 + row as f64 * ROW;
        svg.circle((middle, dot), radius, &class, "");
    }
}

fn stroke(factor: usize) -> String {
    format!("s{}", factor % super::style::SERIES)
}

fn heads(svg: &mut SvgWriter, order: &[usize], names: OptionNames<'_>, unit: f64) {
    for (column, factor) in order.iter().enumerate() {
        let middle = column_at(column, unit) + unit * f64::from(1_u32 << column) / 2.0;
        let class = format!("bold f{}", factor % super::style::SERIES);
        svg.text((middle, BOTTOM + 15.0), Anchor::Middle, &class, &names[*factor]);
        if column + 1 < order.len() {
            let dot = BOTTOM + 26.0 + column as f64 * ROW + 3.2;
            let class = format!("tiny f{}", factor % super::style::SERIES);
            svg.text((LEFT - 6.0, dot), Anchor::End, &class, &names[*factor]);
        }
    }
}

fn desc(steps: &[TriangleStep], order: &[usize], names: OptionNames<'_>) -> String {
    let alone = steps.iter().filter(|step| step.before == Combination::NONE);
    let words: Vec<String> =
        alone.map(|s| format!("{} alone {}", names[order[s.column]], times(s.to))).collect();
    format!("Improvement over no option, logarithmic. {}.", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::table1;

    #[test]
    fn every_state_of_the_options_before_has_a_triangle() {
        let figure = draw("t", "title", &table1::cells(), &table1::names()).unwrap();
        let text = figure.file();
        roxmltree::Document::parse(&text).unwrap();
        assert_eq!(text.matches("<polygon").count(), 1 + 2 + 4 + 8);
        let rows: Vec<&str> = figure.csv.lines().collect();
        assert_eq!(rows[0], "option,with,gain_without,gain_with");
        assert_eq!(rows[1], "SU,none,1.000000,1.745441");
        assert!(rows[2].starts_with("DP,none,") && rows[3].starts_with("DP,SU,1.745441,"));
        assert!(rows[15].starts_with("DH,SU+DP+VM,"));
    }

    #[test]
    fn what_was_not_run_is_left_out() {
        let mut cells = Cells::new(2);
        cells.add(Combination(0), 2.0);
        cells.add(Combination(2), 1.0);
        let figure = draw("t", "t", &cells, &table1::names()[..2]).unwrap();
        assert_eq!(figure.csv.lines().count(), 2);
        assert_eq!(draw("t", "t", &Cells::new(2), &table1::names()[..2]), None);
    }
}
