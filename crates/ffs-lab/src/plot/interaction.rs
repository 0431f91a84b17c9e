//! The interaction plot: the cost at each level of a factor, a line for each combination of the
//! other factors.
//!
//! Lines that are parallel show effects that add up. A logarithmic axis, on which parallel lines
//! are equal ratios, is used where the costs differ more than tenfold. If the names of the levels
//! do not fit beside each other, the axis has their numbers, and the legend their names.

use super::scale::{self, Scale};
use super::svg::{Anchor, Figure, SvgWriter, csv, width};
use super::{OptionNames, style};
use crate::statistics::{Cells, Combination};

const WIDTH: f64 = 384.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 376.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 226.0;
/// The most lines: each has a colour of its own.
pub(crate) const MOST: usize = style::SERIES;
/// Costs that differ by more than this factor are on a logarithmic axis.
const WIDE: f64 = 10.0;
/// The size of the letters below the axis, with space for fonts that are wider than most.
const LETTERS: f64 = 11.5;

/// A factor with more than two levels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelAxis {
    /// The number of the factor in the design.
    pub(crate) factor: usize,
    /// Its name.
    pub(crate) name: String,
    /// The names of its levels, the base first.
    pub(crate) levels: Vec<String>,
}

/// A line: the other options that are on, and the percentage at each level, if it was run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelLine {
    /// The other options.
    pub(crate) others: Combination,
    /// The mean cost at each level, in percent of the mean without options.
    pub(crate) percent: Vec<Option<f64>>,
}

/// The lines of a factor: the combinations of the other factors that were run, those with the
/// fewest options first.
#[must_use]
pub(crate) fn lines(cells: &Cells, axis: &LevelAxis) -> Vec<LevelLine> {
    let design = cells.design();
    let at_base = |at: &Combination| design.level(*at, axis.factor) == 0;
    let mut others: Vec<Combination> = cells.combinations().filter(at_base).collect();
    others.sort_by_key(|at| (at.count(), at.0));
    let line = |others: Combination| {
        let at = |level| cells.percent(design.with_level(others, axis.factor, level));
        LevelLine { others, percent: (0..axis.levels.len()).map(at).collect() }
    };
    let ran = |line: &LevelLine| line.percent.iter().any(Option::is_some);
    others.into_iter().map(line).filter(ran).collect()
}

/// Draws the figure; `None` without two levels of one combination that were run.
#[must_use]
pub(crate) fn draw(
    id: &str,
    title: &str,
    cells: &Cells,
    names: OptionNames<'_>,
    axis: &LevelAxis,
) -> Option<Figure> {
    let all = lines(cells, axis);
    all.iter().find(|line| line.percent.iter().flatten().count() > 1)?;
    let shown: Vec<&LevelLine> = all.iter().take(MOST).collect();
    let values = || shown.iter().flat_map(|line| line.percent.iter().flatten().copied());
    let high = values().fold(100.0, f64::max) * 1.05;
    let low = values().filter(|value| *value > 0.0).fold(100.0, f64::min);
    let y = if high / low > WIDE && values().all(|value| value > 0.0) {
        Scale::log((low / 1.15, high), (BOTTOM, TOP))
    } else {
        Scale::linear((0.0, high), (BOTTOM, TOP))
    };
    let mut plot = Plot { svg: SvgWriter::default(), y, axis, names };
    let fits = plot.grid();
    for (n, line) in shown.iter().enumerate() {
        plot.line(n, line);
    }
    let height = plot.legend(&shown, fits);
    let desc = format!(
        "Cost in percent of the base at the levels {} of {}, a line for each combination of the \
         other factors.{}",
        axis.levels.join(", "),
        axis.name,
        rest(all.len())
    );
    let rows = all.iter().flat_map(|line| {
        let row = |(level, value): (&String, &Option<f64>)| {
            let value = value.map(|value| format!("{value:.6}"))?;
            Some(vec![line.others.name(names, "+"), level.clone(), value])
        };
        axis.levels.iter().zip(&line.percent).filter_map(row)
    });
    let csv = csv("others,level,percent", rows);
    Some(plot.svg.finish(id, (title, &desc), (WIDTH, height), csv))
}

/// A sentence about the lines that are not drawn.
#[must_use]
pub(crate) fn rest(lines: usize) -> String {
    if lines <= MOST {
        return String::new();
    }
    format!(" Of {lines} lines the {MOST} with the fewest options are drawn; the table has all.")
}

struct Plot<'a> {
    svg: SvgWriter,
    y: Scale,
    axis: &'a LevelAxis,
    names: OptionNames<'a>,
}

impl Plot<'_> {
    /// The middle of a level.
    fn x(&self, level: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * (level as f64 + 0.5) / self.axis.levels.len() as f64
    }

    /// Draws axes and marks. Returns whether the names of the levels fit on the axis.
    fn grid(&mut self) -> bool {
        let marks = self.y.marks(24.0);
        for mark in &marks {
            let at = self.y.at(*mark);
            let class = if (*mark - 100.0).abs() < 1e-9 { "one" } else { "grid" };
            self.svg.line((LEFT, at), (RIGHT, at), class, "");
            let label = scale::label(&marks, *mark);
            self.svg.text((LEFT - 6.0, at + 3.6), Anchor::End, "soft small", &label);
        }
        let space = (RIGHT - LEFT) / self.axis.levels.len() as f64 - 8.0;
        let fits = self.axis.levels.iter().all(|name| width(name, LETTERS) <= space);
        // Numbers of levels that are still too near each other: every second, third, ...
        let step = (width("00", LETTERS) / space.max(1.0)).ceil().max(1.0) as usize;
        for (level, name) in self.axis.levels.iter().enumerate() {
            let x = self.x(level);
            self.svg.line((x, BOTTOM), (x, BOTTOM + 4.0), "axis", "");
            let label = if fits { name.clone() } else { (level + 1).to_string() };
            if fits || level % step == 0 {
                self.svg.text((x, BOTTOM + 16.0), Anchor::Middle, "soft small", &label);
            }
        }
        self.svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis", "");
        self.svg.text((6.0, 12.0), Anchor::Start, "soft small", "% of the base");
        let name = &self.axis.name;
        self.svg.text((RIGHT, BOTTOM + 30.0), Anchor::End, "soft small", name);
        fits
    }

    /// Draws a line and its points. A level that was not run interrupts the line.
    fn line(&mut self, n: usize, line: &LevelLine) {
        let places = line.percent.iter().enumerate();
        let places = places.map(|(level, value)| value.map(|v| (self.x(level), self.y.at(v))));
        let places: Vec<Option<(f64, f64)>> = places.collect();
        let class = format!("curve s{} d{}", n % style::SERIES, n % 4);
        for run in places.split(Option::is_none).filter(|run| run.len() > 1) {
            let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            self.svg.polyline(&run, &class, "");
        }
        let others = line.others.name(self.names, "+");
        let levels = self.axis.levels.iter().zip(&line.percent).zip(places);
        for ((level, value), place) in levels {
            let Some((value, at)) = value.zip(place) else { continue };
            let words = format!("{others}, {} {level}: {value:.1} % of the base", self.axis.name);
            self.svg.circle(at, 3.0, &format!("f{}", n % style::SERIES), &words);
        }
    }

    /// Draws the names below the axis, a line of text for each. Returns the height of the figure.
    fn legend(&mut self, shown: &[&LevelLine], fits: bool) -> f64 {
        let mut y = BOTTOM + 48.0;
        for (n, line) in shown.iter().enumerate() {
            let class = format!("curve s{} d{}", n % style::SERIES, n % 4);
            self.svg.line((LEFT, y - 3.5), (LEFT + 21.0, y - 3.5), &class, "");
            let name = line.others.name(self.names, "+");
            self.svg.text((LEFT + 26.0, y), Anchor::Start, "small", &name);
            y += 15.0;
        }
        for (level, name) in self.axis.levels.iter().enumerate().filter(|_| !fits) {
            let name = format!("{}: {name}", level + 1);
            self.svg.text((LEFT, y), Anchor::Start, "soft small", &name);
            y += 15.0;
        }
        y - 7.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Design;

    fn axis(levels: &[&str]) -> LevelAxis {
        let levels = levels.iter().map(|level| (*level).to_owned()).collect();
        LevelAxis { factor: 1, name: "big".to_owned(), levels }
    }

    fn names() -> Vec<String> {
        ["su", "big=2", "big=3"].map(str::to_owned).to_vec()
    }

    /// su halves the cost, and each level of `big` takes 10 % off.
    fn cells() -> Cells {
        let design = Design::new(&[2, 3]).unwrap();
        let mut cells = Cells::of(&design);
        for at in cells.combinations() {
            let su = if at.has(0) { 0.5 } else { 1.0 };
            cells.add(at, 80.0 * su * (1.0 - 0.1 * design.level(at, 1) as f64));
        }
        cells
    }

    #[test]
    fn each_combination_of_the_others_is_a_line_over_the_levels() {
        let axis = axis(&["1", "2", "3"]);
        let figure = draw("i", "t", &cells(), &names(), &axis).unwrap();
        let text = figure.file();
        roxmltree::Document::parse(&text).unwrap();
        assert_eq!(text.matches("<polyline").count(), 2);
        assert_eq!(text.matches("<circle").count(), 6);
        let rows: Vec<&str> = figure.csv.lines().collect();
        assert_eq!(rows[0], "others,level,percent");
        assert_eq!(rows[3], "none,3,80.000000");
        assert_eq!(rows[5], "su,2,45.000000");
        assert!(text.contains("su, big 2: 45.0 % of the base"));
    }

    #[test]
    fn what_was_not_run_interrupts_the_line() {
        let mut some = Cells::of(cells().design());
        for at in [0, 1, 4] {
            some.add(Combination(at), 1.0 + f64::from(at));
        }
        let axis = axis(&["1", "2", "3"]);
        let figure = draw("i", "t", &some, &names(), &axis).unwrap();
        assert_eq!(figure.file().matches("<polyline").count(), 0, "no neighbours were run");
        assert_eq!(figure.csv.lines().count(), 1 + 3);
        assert_eq!(draw("i", "t", &Cells::of(cells().design()), &names(), &axis), None);
    }

    /// Long names are in the legend, and each text has a line or a place of its own.
    #[test]
    fn names_that_do_not_fit_are_below_the_figure() {
        let long = ["ide2001-5400", "ide2001-7200", "a-drive-with-a-name-of-forty-letters-or-so"];
        for (levels, on_axis) in [(&["64m", "256m", "1g"], true), (&long, false)] {
            let figure = draw("i", "t", &cells(), &names(), &axis(levels)).unwrap();
            let text = figure.file();
            assert_eq!(text.contains(&format!(">{}</text>", levels[2])), on_axis);
            assert_eq!(text.contains(&format!(">3: {}</text>", levels[2])), !on_axis);
        }
    }
}
