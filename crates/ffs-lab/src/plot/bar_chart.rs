//! The summary: one bar for each result, with a piece for each option, on one logarithmic axis.
//!
//! The pieces are the steps of [`StepwisePath`], the option that helps most first. The solid part
//! ends at the combination of all options. If another combination is better, a dashed part
//! continues to the best one. A piece has the name of its option if the step is significant. A
//! significant step that loses has its name in the dashed part.

use super::scale::{self, Scale};
use super::svg::{Anchor, Figure, SvgWriter, csv, width};
use super::{OptionNames, style, times};
use crate::statistics::StepwisePath;
use crate::statistics::VISIBLE;

/// A bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// The name of the result.
    pub(crate) label: String,
    /// The id of its section in the page; empty for none.
    pub(crate) link: String,
    /// Its path; `None` if combinations are missing.
    pub(crate) path: Option<StepwisePath>,
}

/// The bars of a benchmark.
#[derive(Debug, Clone)]
pub(crate) struct BarGroup {
    /// The benchmark.
    pub(crate) title: String,
    /// Its results.
    pub(crate) rows: Vec<Bar>,
}

/// The layout: the name of a row is to the left of its bar, or above it if the figure is narrow.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Layout {
    width: f64,
    left: f64,
    right: f64,
    row: f64,
    bar: f64,
    above: bool,
}

const WIDE: Layout =
    Layout { width: 860.0, left: 210.0, right: 800.0, row: 23.0, bar: 17.0, above: false };
const NARROW: Layout =
    Layout { width: 380.0, left: 6.0, right: 330.0, row: 35.0, bar: 16.0, above: true };
const HEAD: f64 = 26.0;

/// Short and long names of the options. A piece has the long name if it is wide enough.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionLabels<'a> {
    /// `su`.
    pub(crate) short: OptionNames<'a>,
    /// `softupdates`.
    pub(crate) long: OptionNames<'a>,
}

/// Draws the figure, for a phone if `narrow`.
#[must_use]
pub(crate) fn draw(
    id: &str,
    title: &str,
    groups: &[BarGroup],
    words: OptionLabels<'_>,
    narrow: bool,
) -> Figure {
    let layout = if narrow { NARROW } else { WIDE };
    let paths = || groups.iter().flat_map(|g| &g.rows).filter_map(|row| row.path.as_ref());
    let best = paths().map(|path| path.best.1.max(path.all)).fold(1.5, f64::max);
    let worst = paths().map(|path| path.all).fold(1.0, f64::min);
    let low = if worst < 0.995 { worst / 1.05 } else { 1.0 };
    let x = Scale::log((low, best * 1.02), (layout.left, layout.right));
    let height =
        22.0 + groups.iter().map(|g| HEAD + layout.row * g.rows.len() as f64).sum::<f64>() + 22.0;
    let mut bars = Bars { svg: SvgWriter::default(), x, layout, words };
    bars.axis(height);
    let mut y = 22.0;
    for group in groups {
        bars.svg.text((6.0, y + 18.0), Anchor::Start, "group halo", &group.title);
        y += HEAD;
        for row in &group.rows {
            bars.row(row, y);
            y += layout.row;
        }
    }
    let desc = format!(
        "{} results: the gain of all options over none, and the gain of each option, on a \
         logarithmic axis up to {}.",
        paths().count(),
        times(best)
    );
    bars.svg.finish(id, (title, &desc), (layout.width, height), table(groups, words))
}

struct Bars<'a> {
    svg: SvgWriter,
    x: Scale,
    layout: Layout,
    words: OptionLabels<'a>,
}

impl Bars<'_> {
    fn axis(&mut self, height: f64) {
        let marks = self.x.marks(34.0);
        for mark in &marks {
            let x = self.x.at(*mark);
            let class = if (*mark - 1.0).abs() < 1e-9 { "one" } else { "grid" };
            self.svg.line((x, 20.0), (x, height - 20.0), class, "");
            let label = format!("×{}", scale::label(&marks, *mark));
            for y in [13.0, height - 6.0] {
                self.svg.text((x, y), Anchor::Middle, "soft small", &label);
            }
        }
    }

    fn row(&mut self, row: &Bar, y: f64) {
        let Layout { left, row: pitch, bar, above, .. } = self.layout;
        let top = if above { y + pitch - bar - 3.0 } else { y + (pitch - bar) / 2.0 };
        if above {
            // To the right of the axis.
            self.svg.link(&row.link, (left + 4.0, top - 4.0), Anchor::Start, "halo", &row.label);
        } else {
            let at = (left - 12.0, top + bar - 4.5);
            self.svg.link(&row.link, at, Anchor::End, "", &row.label);
        }
        let Some(path) = &row.path else {
            let at = (self.x.at(1.0) + 6.0, top + bar - 4.5);
            return self.svg.text(at, Anchor::Start, "soft small", "combinations are missing");
        };
        let end = self.pieces(path, top);
        let class = if path.all >= 1.0 { "bold small halo" } else { "small halo soft" };
        let at = (end + 6.0, top + bar - 4.5);
        self.svg.text(at, Anchor::Start, class, &times(path.all));
    }

    /// Draws the pieces. Returns the end of the bar.
    fn pieces(&mut self, path: &StepwisePath, top: f64) -> f64 {
        let bar = self.layout.bar;
        let all = path.all;
        let (mut level, mut end) = (1.0_f64, self.x.at(1.0).max(self.x.at(all)));
        let mut lost = Vec::new();
        for step in &path.steps {
            let (from, to) = (level, level * step.gain);
            level = to;
            let words = format!("{}: {}", self.words.long[step.factor], times(step.gain));
            if to <= from {
                lost.push((step, words));
                continue;
            }
            let (a, b) = (self.x.at(from.min(all)), self.x.at(to.min(all)));
            if b > a + 0.3 {
                let class = format!("f{}", step.factor % style::SERIES);
                let class = if step.is_significant { class } else { format!("{class} dull") };
                self.svg.rect((a, top), (b - a, bar), 1.0, &class, &words);
                if step.is_significant {
                    self.name(step.factor, (a, b), top, "on");
                }
            }
        }
        if all < 1.0 {
            let (a, b) = (self.x.at(all), self.x.at(1.0));
            self.svg.rect((a, top), (b - a, bar), 1.0, "off", "a loss with all options on");
        }
        if path.best.1 > all * (1.0 + VISIBLE) {
            let (a, b) = (self.x.at(all.max(1.0)), self.x.at(path.best.1));
            let best = path.best.0.name(self.words.short, "+");
            let tip = format!("best: {best} with {}", times(path.best.1));
            let named = lost.iter().find(|(step, _)| step.is_significant);
            let factor = named.or(lost.first()).map_or(6, |(step, _)| step.factor % style::SERIES);
            let class = format!("rest s{factor}");
            self.svg.rect((a, top + 0.6), (b - a, bar - 1.2), 1.0, &class, &tip);
            if let Some((step, _)) = named {
                self.name(step.factor, (a, b), top, &format!("f{}", step.factor % style::SERIES));
            }
            end = end.max(b);
        }
        end
    }

    /// The name of an option in its piece, if it fits.
    fn name(&mut self, factor: usize, (a, b): (f64, f64), top: f64, class: &str) {
        let fits = |name: &&String| width(name, 10.5) + 4.0 <= b - a;
        let (long, short) = (&self.words.long[factor], &self.words.short[factor]);
        if let Some(name) = [long, short].into_iter().find(fits) {
            let at = ((a + b) / 2.0, top + self.layout.bar - 4.8);
            self.svg.text(at, Anchor::Middle, &format!("small {class}"), name);
        }
    }
}

fn table(groups: &[BarGroup], words: OptionLabels<'_>) -> String {
    let rows = groups.iter().flat_map(|group| {
        group.rows.iter().map(move |row| {
            let path = row.path.as_ref();
            let step = |s: &crate::statistics::PathStep| {
                let mark = if s.is_significant { "*" } else { "" };
                format!("{}{mark} {:.4}", words.short[s.factor], s.gain)
            };
            let steps = path.map_or_else(Vec::new, |p| p.steps.iter().map(step).collect());
            let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.4}"));
            let best = path.map(|p| p.best.0.name(words.short, "+")).unwrap_or_default();
            vec![
                group.title.clone(),
                row.label.clone(),
                number(path.map(|p| p.all)),
                number(path.map(|p| p.best.1)),
                best,
                steps.join("; "),
            ]
        })
    });
    csv("benchmark,result,gain_all,gain_best,best,steps (* named)", rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{Cells, table1};

    fn groups() -> Vec<BarGroup> {
        let mut loss = Cells::new(4);
        for c in loss.combinations() {
            let mean = if c.has(1) { 3.0 } else { 17.0 } + if c.has(0) { 1.0 } else { 0.0 };
            for run in table1::runs(mean, 0.01, 4) {
                loss.add(c, run);
            }
        }
        let row = |label: &str, path| Bar { label: label.to_owned(), link: "x".to_owned(), path };
        vec![BarGroup {
            title: "Benchmark".to_owned(),
            rows: vec![
                row("buildworld", StepwisePath::of(&table1::cells())),
                row("find", StepwisePath::of(&loss)),
                row("not run", None),
            ],
        }]
    }

    #[test]
    fn bars_name_what_counts_and_go_on_dashed() {
        let names = table1::names();
        let words = OptionLabels { short: &names, long: &names };
        for narrow in [false, true] {
            let text = draw("b", "t", &groups(), words, narrow).file();
            roxmltree::Document::parse(&text).unwrap();
            assert_eq!(text.matches("class=\"rest").count(), 1, "only find goes on");
            assert!(text.contains(">SU</text>") && text.contains(">×2.14</text>"));
            assert!(text.contains("combinations are missing"));
        }
        let csv = draw("b", "t", &groups(), words, false).csv;
        assert!(
            csv.contains("Benchmark,buildworld,2.1376,2.1376,SU+DP+VM+DH,SU* 1.7454; DP* 1.2043;")
        );
    }
}
