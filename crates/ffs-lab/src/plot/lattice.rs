//! The lattice: each combination is a node, each added option an edge.
//!
//! Nodes further right have more options on, and higher nodes are better. The height of a node is
//! the spread of its runs. The stepwise path, which always takes the option with the best result,
//! is bold. An edge has the colour and the dashes of its option, and its name if there is space.

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

/// Draws the figure; `None` without the combination of no options, or with too many options.
#[must_use]
pub(crate) fn draw(id: &str, title: &str, cells: &Cells, names: OptionNames<'_>) -> Option<Figure> {
    let gains: Vec<f64> = cells.combinations().filter_map(|c| cells.gain(c)).collect();
    if gains.len() < 2 || cells.factors() > MOST {
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
        let mut labels: Vec<(Position, f64)> = Vec::new();
        let mut words = Vec::new();
        for strong in [false, true] {
            for from in self.cells.combinations() {
                for factor in (0..self.cells.factors()).filter(|f| !from.has(*f)) {
                    let to = from.with(factor);
                    let ends = self.node(from).zip(self.node(to));
                    let Some((a, b)) =
                        ends.filter(|_| self.path.contains(&(from, factor)) == strong)
                    else {
                        continue;
                    };
                    svg.line(a, b, &edge_class(factor, strong), &self.edge_words(from, factor));
                    words.push((a, b, factor, strong));
                }
            }
        }
        // The names of the path are placed first.
        for (a, b, factor, _) in words.iter().rev() {
            if let Some(at) = free(&labels, (*a, *b), &self.names[*factor]) {
                labels.push((at, width(&self.names[*factor], 9.0)));
                let class = format!("tiny halo f{}", factor % style::SERIES);
                svg.text((at.0, at.1 + 3.0), Anchor::Middle, &class, &self.names[*factor]);
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

/// A position on the edge without another label.
fn free(taken: &[(Position, f64)], (a, b): (Position, Position), name: &str) -> Option<Position> {
    let wide = width(name, 9.0);
    [0.5, 0.4, 0.6, 0.32, 0.68].into_iter().find_map(|part| {
        let at = (a.0 + (b.0 - a.0) * part, a.1 + (b.1 - a.1) * part);
        let hit = |((x, y), w): &(Position, f64)| {
            (x - at.0).abs() < (w + wide) / 2.0 + 1.0 && (y - at.1).abs() < 9.0
        };
        (!taken.iter().any(hit)).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::table1;

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
        assert!(class("halo") >= 16, "most edges are named: {}", class("halo"));
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
