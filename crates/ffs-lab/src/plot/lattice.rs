//! The lattice: each combination is a node, each added option an edge.
//!
//! Nodes further right have more options on, and higher nodes are better. The height of a node is
//! the spread of its runs. The stepwise path, which always takes the option with the best result,
//! is bold. An edge has the colour and the dashes of its option, and its name where the name covers
//! no node, no other name and no other edge.

use super::scale::{self, Scale};
use super::svg::{Anchor, Figure, Position, SvgWriter, csv, width};
use super::{OptionNames, style, times};
use crate::portable_math;
use crate::statistics::{Cells, Combination, StepwisePath};

const WIDTH: f64 = 384.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 364.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 254.0;
/// The most options of a lattice: 64 nodes.
const MOST: usize = 6;
/// The largest distance between nodes of a column.
const APART: f64 = 9.0;

struct Lattice<'a> {
    cells: &'a Cells,
    names: OptionNames<'a>,
    y: Scale,
    path: Vec<(Combination, usize)>,
}

/// Draws the figure; `None` without the combination of no options, with too many options, or if
/// options exclude each other: then the combinations are no lattice.
#[must_use]
pub(crate) fn draw(id: &str, title: &str, cells: &Cells, names: OptionNames<'_>) -> Option<Figure> {
    let gains: Vec<f64> = cells.combinations().filter_map(|c| cells.gain(c)).collect();
    if gains.len() < 2 || cells.factors() > MOST || !cells.design().is_two_level() {
        return None;
    }
    let (low, high) = (min(&gains), gains.iter().copied().fold(0.0, f64::max));
    let slack = portable_math::pow(high / low, 0.05).max(1.002);
    let y = Scale::log((low / slack, high * slack), (BOTTOM, TOP));
    let path = StepwisePath::of(cells).map_or_else(Vec::new, |path| {
        path.steps.iter().map(|s| (Combination(s.to.0 & !(1 << s.factor)), s.factor)).collect()
    });
    let lattice = Lattice { cells, names, y, path };
    let mut svg = SvgWriter::default();
    lattice.grid(&mut svg);
    lattice.edges(&mut svg);
    lattice.nodes(&mut svg);
    let best = cells.combinations().filter_map(|c| Some((c, cells.gain(c)?)));
    let best = best.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let desc = format!(
        "All combinations by the number of options on and their gain over none, logarithmic. \
         The best is {} with {}.",
        best.0.name(names, "+"),
        times(best.1)
    );
    Some(svg.finish(id, (title, &desc), (WIDTH, HEIGHT), lattice.csv()))
}

fn min(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

impl Lattice<'_> {
    fn column(&self, count: usize) -> f64 {
        let columns = self.cells.factors().max(1);
        LEFT + (RIGHT - LEFT) * count as f64 / columns as f64
    }

    /// Moves the nodes of a column apart a little, so that their edges do not hide each other.
    fn node(&self, at: Combination) -> Option<Position> {
        let gain = self.cells.gain(at)?;
        let same: Vec<Combination> =
            self.cells.combinations().filter(|c| c.count() == at.count()).collect();
        let place = same.iter().position(|c| *c == at)? as f64;
        let middle = (same.len() - 1) as f64 / 2.0;
        let apart = APART.min(36.0 / same.len() as f64);
        Some((self.column(at.count()) + (place - middle) * apart, self.y.at(gain)))
    }

    fn grid(&self, svg: &mut SvgWriter) {
        let marks = self.y.marks(22.0);
        for mark in &marks {
            let y = self.y.at(*mark);
            let class = if (*mark - 1.0).abs() < 1e-9 { "one" } else { "grid" };
            svg.line((LEFT - 14.0, y), (RIGHT + 14.0, y), class, "");
            let label = format!("×{}", scale::label(&marks, *mark));
            svg.text((LEFT - 20.0, y + 3.6), Anchor::End, "soft small", &label);
        }
        for count in 0..=self.cells.factors() {
            let at = (self.column(count), BOTTOM + 16.0);
            svg.text(at, Anchor::Middle, "soft small", &count.to_string());
        }
        self.legend(svg);
    }

    fn legend(&self, svg: &mut SvgWriter) {
        let y = HEIGHT - 8.0;
        svg.text((LEFT - 14.0, y), Anchor::Start, "soft small", "options on; edges:");
        let step = 300.0_f64 / self.cells.factors().max(1) as f64;
        for (factor, name) in self.names.iter().enumerate().take(self.cells.factors()) {
            let x = LEFT + 88.0 + factor as f64 * step.min(62.0);
            svg.line((x, y - 3.5), (x + 22.0, y - 3.5), &edge_class(factor, true), "");
            let class = format!("small bold f{}", factor % style::SERIES);
            svg.text((x + 26.0, y), Anchor::Start, &class, name);
        }
    }

    fn edges(&self, svg: &mut SvgWriter) {
        let mut edges: Vec<(Edge, usize, bool)> = Vec::new();
        for strong in [false, true] {
            for from in self.cells.combinations() {
                for factor in (0..self.cells.factors()).filter(|f| !from.has(*f)) {
                    let to = from.with(factor);
                    let ends = self.node(from).zip(self.node(to));
                    let Some(edge) = ends.filter(|_| self.path.contains(&(from, factor)) == strong)
                    else {
                        continue;
                    };
                    let class = edge_class(factor, strong);
                    svg.line(edge.0, edge.1, &class, &self.edge_words(from, factor));
                    edges.push((edge, factor, strong));
                }
            }
        }
        let nodes: Vec<Position> = self.cells.combinations().filter_map(|c| self.node(c)).collect();
        let mut taken: Vec<LabelBox> =
            nodes.iter().map(|at| LabelBox::new(*at, 3.5, 4.5)).collect();
        // The names of the path are placed first.
        for (n, (edge, factor, _)) in edges.iter().enumerate().rev() {
            let name = &self.names[*factor];
            let others = edges.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, e)| e.0);
            let others: Vec<Edge> = others.collect();
            if let Some((at, label)) = free(&taken, &others, *edge, name) {
                taken.push(label);
                let class = format!("tiny halo f{}", factor % style::SERIES);
                svg.text((at.0, at.1 + 3.0), Anchor::Middle, &class, name);
            }
        }
    }

    fn edge_words(&self, from: Combination, factor: usize) -> String {
        let gain = |c| self.cells.gain(c).unwrap_or(1.0);
        let step = gain(from.with(factor)) / gain(from);
        format!("{} + {}: {}", from.name(self.names, "+"), self.names[factor], times(step))
    }

    fn nodes(&self, svg: &mut SvgWriter) {
        for at in self.cells.combinations() {
            let Some(((x, y), mean)) = self.node(at).zip(self.cells.mean(at)) else { continue };
            let sigma = self.cells.sigma(at).unwrap_or(0.0).min(mean * 0.9);
            let gain = self.cells.gain(at).unwrap_or(1.0);
            let (top, low) = (gain * mean / (mean - sigma), gain * mean / (mean + sigma));
            let height = (self.y.at(low) - self.y.at(top)).max(5.0);
            let words = format!("{}: {}", at.name(self.names, "+"), times(gain));
            svg.rect((x - 2.5, y - height / 2.0), (5.0, height), 2.5, "node", &words);
        }
    }

    fn csv(&self) -> String {
        let row = |c: Combination| {
            let gain = self.cells.gain(c)?;
            let spread =
                self.cells.sigma(c).zip(self.cells.mean(c)).map(|(s, mean)| s / mean * 100.0);
            let spread = spread.map_or_else(String::new, |s| format!("{s:.4}"));
            Some(vec![c.name(self.names, "+"), c.count().to_string(), format!("{gain:.6}"), spread])
        };
        csv("options,on,gain,sigma_percent", self.cells.combinations().filter_map(row))
    }
}

fn edge_class(factor: usize, strong: bool) -> String {
    let strong = if strong { " strong" } else { "" };
    format!("edge{strong} s{} d{}", factor % style::SERIES, factor % 4)
}

/// The ends of an edge.
type Edge = (Position, Position);

/// The rectangle of a label or a node.
#[derive(Debug, Clone, Copy)]
struct LabelBox {
    middle: Position,
    half_width: f64,
    half_height: f64,
}

impl LabelBox {
    fn new(middle: Position, half_width: f64, half_height: f64) -> LabelBox {
        LabelBox { middle, half_width, half_height }
    }

    fn overlaps(&self, other: &LabelBox) -> bool {
        (self.middle.0 - other.middle.0).abs() < self.half_width + other.half_width
            && (self.middle.1 - other.middle.1).abs() < self.half_height + other.half_height
    }

    /// Whether an edge passes through the rectangle.
    fn is_crossed_by(&self, (a, b): Edge) -> bool {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        // The part of the edge within the bounds of both axes (Liang and Barsky).
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        let sides = [
            (-dx, a.0 - (self.middle.0 - self.half_width)),
            (dx, self.middle.0 + self.half_width - a.0),
            (-dy, a.1 - (self.middle.1 - self.half_height)),
            (dy, self.middle.1 + self.half_height - a.1),
        ];
        for (slope, distance) in sides {
            if slope.abs() < 1e-9 {
                if distance < 0.0 {
                    return false;
                }
            } else if slope < 0.0 {
                from = from.max(distance / slope);
            } else {
                to = to.min(distance / slope);
            }
        }
        from < to
    }
}

/// A position on the edge at which its name covers nothing else.
fn free(
    taken: &[LabelBox],
    others: &[Edge],
    (a, b): Edge,
    name: &str,
) -> Option<(Position, LabelBox)> {
    let half = width(name, 9.5) / 2.0 + 1.5;
    [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74].into_iter().find_map(|part| {
        let at = (a.0 + (b.0 - a.0) * part, a.1 + (b.1 - a.1) * part);
        let label = LabelBox::new(at, half, 5.0);
        let hit = taken.iter().any(|other| label.overlaps(other))
            || others.iter().any(|edge| label.is_crossed_by(*edge));
        (!hit).then_some((at, label))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::table1;

    /// No name covers another name or a node.
    fn names_are_apart(parsed: &roxmltree::Document<'_>) {
        let number = |n: &roxmltree::Node<'_, '_>, name: &str| -> f64 {
            n.attribute(name).unwrap().parse().unwrap()
        };
        let mut boxes: Vec<(f64, f64, f64, f64)> = Vec::new();
        for node in parsed.descendants() {
            let class = node.attribute("class").unwrap_or_default();
            let found = if class.contains("halo") {
                let half = width(node.text().unwrap(), 9.5) / 2.0;
                (number(&node, "x"), number(&node, "y") - 3.0, half, 4.0)
            } else if class == "node" {
                (number(&node, "x") + 2.5, number(&node, "y") + 2.5, 2.5, 2.5)
            } else {
                continue;
            };
            let is_name = class.contains("halo");
            for other in boxes.iter().filter(|_| is_name) {
                let apart = (other.0 - found.0).abs() >= other.2 + found.2
                    || (other.1 - found.1).abs() >= other.3 + found.3;
                assert!(apart, "{found:?} covers {other:?}");
            }
            if is_name {
                boxes.push(found);
            } else {
                boxes.insert(0, found);
            }
        }
    }

    #[test]
    fn an_edge_through_a_box_is_found() {
        let label = LabelBox::new((10.0, 10.0), 4.0, 2.0);
        assert!(label.is_crossed_by(((0.0, 10.0), (20.0, 10.0))));
        assert!(label.is_crossed_by(((10.0, 0.0), (10.0, 20.0))));
        assert!(!label.is_crossed_by(((0.0, 13.0), (20.0, 13.0))));
        assert!(!label.is_crossed_by(((0.0, 10.0), (5.0, 10.0))), "it ends before the box");
        assert!(!label.is_crossed_by(((0.0, 0.0), (4.0, 20.0))));
    }

    #[test]
    fn sixteen_nodes_and_thirty_two_edges() {
        let figure = draw("l", "title", &table1::cells(), &table1::names()).unwrap();
        let text = figure.file();
        let parsed = roxmltree::Document::parse(&text).unwrap();
        let class = |wanted: &str| {
            let has = |n: &roxmltree::Node<'_, '_>| {
                n.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == wanted))
            };
            parsed.descendants().filter(has).count()
        };
        assert_eq!(class("node"), 16);
        // Plus four in the legend.
        assert_eq!((class("edge"), class("strong")), (32 + 4, 4 + 4));
        assert!(class("halo") >= 6, "edges with space around them are named: {}", class("halo"));
        names_are_apart(&parsed);
        assert_eq!(figure.csv.lines().count(), 17);
    }

    #[test]
    fn a_partial_lattice_is_drawn_as_far_as_it_goes() {
        let mut cells = Cells::new(3);
        for bits in [0, 1, 3] {
            cells.add(Combination(bits), 4.0 - f64::from(bits));
        }
        let figure = draw("l", "t", &cells, &table1::names()[..3]).unwrap();
        assert_eq!(figure.csv.lines().count(), 4);
        assert_eq!(draw("l", "t", &Cells::new(3), &table1::names()[..3]), None);
    }
}
