//! The targets, benchmark by benchmark.
//!
//! Reference: `docs/spec/benchmarks.md` §7.

use super::super::published::{NumberKind, PAPER, PublishedNumber};
use super::super::reproduction::{self, Agreement, ComparedNumber, factor};
use super::super::score::is_within;
use super::super::study_data::Benchmark;
use super::super::{cost_curves, format};
use super::{Check, Criterion, Evaluation, percent};
use crate::plot::times;
use crate::statistics::{Combination, Model, StepwisePath};
use crate::workload::MetricKind;

/// Of the published times, how many are to be within which factor.
const TIMES_WANTED: [(usize, f64); 2] = [(30, 1.3), (24, 1.15)];

impl Evaluation<'_> {
    /// All published times of the paper's computer, each once.
    pub(super) fn absolute_times(&self) -> Criterion {
        let sections = self.published.sections.iter().zip(self.compared);
        let numbers = sections
            .filter(|(section, _)| section.kind == NumberKind::Seconds && section.count.is_some())
            .flat_map(|(_, compared)| &compared.rows);
        let numbers: Vec<&ComparedNumber> = numbers.collect();
        let all = numbers.len();
        let run = numbers
            .iter()
            .filter(|n| matches!(n.agreement, Agreement::Ratio(_) | Agreement::OtherSign));
        let calibrated = numbers.iter().filter(|number| number.calibrated).count();
        let wanted = format!(
            "of the {all} published times, {calibrated} of them calibrated: 30 within a factor of \
             1.3, 24 within 1.15"
        );
        if run.count() < all {
            let part = Check::missing("all of them at full size");
            return Criterion::new("All times", &wanted, vec![part]);
        }
        let parts = TIMES_WANTED.map(|(least, factor)| {
            let near = |n: &&&ComparedNumber| n.ratio().is_some_and(|r| is_within(r, factor));
            let found = numbers.iter().filter(near).count();
            let misses = numbers.iter().filter(|number| !near(number));
            let miss = |number: &&ComparedNumber| {
                let ratio = number.ratio().map_or_else(|| "none".to_owned(), format::ratio);
                format!("beyond ×{factor}: {} {}, ratio {ratio}", number.what, number.on)
            };
            let apart = numbers.iter().filter(near).filter(|number| number.calibrated).count();
            let text = format!("{found} within {factor}, {apart} of them calibrated");
            Check::plain(text, found >= least).because(misses.map(miss).collect())
        });
        Criterion::new("All times", &wanted, parts.into())
    }

    pub(super) fn mh(&self) -> Vec<Criterion> {
        let seconds = self.within(NumberKind::Seconds, "mh/", (0.7, 1.3));
        let wanted = "each of the nine times within ±30 % (ratio to the published one)";
        let steps = self.within(NumberKind::Factor, "mh/", (1.0 / 1.5, 1.5));
        let without = [("create", 1.05), ("rm", 1.05), ("pack", 1.12)].map(|(metric, most)| {
            self.gain(("mh", metric), ("none", "dh"), |gain| gain < most && gain > 1.0 / most)
        });
        vec![
            Criterion::new("MH folder", wanted, seconds),
            Criterion::new(
                "MH folder",
                "every factor of the text and the slides within 1.5",
                steps,
            ),
            Criterion::new(
                "MH folder",
                "dirhash without soft updates changes create and rm by < 5 %, pack by < 12 %",
                without.into(),
            ),
        ]
    }

    pub(super) fn x11(&self) -> Vec<Criterion> {
        let seconds = self.within(NumberKind::Seconds, "x11/", (0.7, 1.3));
        let steps = self.within(NumberKind::Factor, "x11/", (1.0 / 1.5, 1.5));
        let no = [("none", "su"), ("dp", "su+dp")]
            .map(|steps| self.gain(("x11", "find"), steps, |gain| gain <= 1.05));
        let group = "X11 tar";
        vec![
            Criterion::new(group, "each of the nine times within ±30 %", seconds),
            Criterion::new(group, "every factor of the slides within 1.5", steps),
            Criterion::new(group, "soft updates do not improve find", no.into()),
        ]
    }

    pub(super) fn buildworld(&self) -> Vec<Criterion> {
        let build = self.series("buildworld", "build");
        let term = |options: &str| self.term(build, options);
        let explained = |at: &[&str]| build.map_or_else(Vec::new, |b| self.explained(b, at));
        let ranges = [("su", -50.0, -35.0), ("dp", -20.0, -8.0), ("vm", -5.0, -0.5)];
        let part = |(options, low, high): (&str, f64, f64)| match term(options) {
            None => Check::missing(options),
            Some(term) => Check {
                found: format!("{options} {} %", format::signed(term.value, 2)),
                satisfied: Some((low..=high).contains(&term.value)),
                why: explained(&["none", options]),
            },
        };
        let size = |options: &str| term(options).map(|term| term.value.abs());
        let order = match (size("su"), size("dp"), size("vm")) {
            (Some(su), Some(dp), Some(vm)) => {
                let values = [su, dp, vm].map(|value| format::fixed(value, 1));
                let found = format!("|Δ| {} %", values.join(" ≫ "));
                let satisfied = su > 2.0 * dp && dp > 2.0 * vm;
                vec![Check::plain(found, satisfied).because(explained(&["none", "su", "dp", "vm"]))]
            }
            _ => vec![Check::missing("model")],
        };
        let overlap = self.positive(("buildworld", "su:dp"), "build", "su+dp");
        let seconds = self.within(NumberKind::Seconds, "buildworld/", (0.7, 1.3));
        let quiet = match term("dh") {
            None => Check::missing("dh"),
            Some(term) => Check::plain(format!("dh {}", percent(&term)), !term.is_significant)
                .because(explained(&["none", "dh"])),
        };
        let group = "Buildworld";
        vec![
            Criterion::new(group, "each of the sixteen times within ±30 %", seconds),
            Criterion::new(group, "ranking SU ≫ DP ≫ VM (each at least twice the next)", order),
            Criterion::new(
                group,
                "SU −35…−50 %, DP −8…−20 %, VM −0.5…−5 %",
                ranges.map(part).into(),
            ),
            Criterion::new(group, "SU and DP overlap: SU:DP > 0, significant", vec![overlap]),
            Criterion::new(group, "dirhash is not significant", vec![quiet]),
        ]
    }

    pub(super) fn andrew(&self) -> Vec<Criterion> {
        let rows = self.published.rows().filter(|(_, (words, _), _)| *words == "andrew").count();
        let listed = reproduction::lists(self.measured, self.published);
        let listed: Vec<&reproduction::ComparedOptions> = listed
            .iter()
            .filter(|row| row.group.starts_with("Andrew") && row.measured.is_some())
            .collect();
        let lists = if listed.len() < rows {
            vec![Check::missing("option lists")]
        } else {
            let same = listed.iter().filter(|row| row.same()).count();
            let other = listed.iter().filter(|row| !row.same());
            let lists = other.flat_map(|row| self.other_list(row));
            let why = lists.collect();
            let found = format!("{same} of {rows} rows");
            vec![Check { found, satisfied: Some(same >= 5), why }]
        };
        let overlap =
            ["grep", "rm"].map(|metric| self.positive(("andrew", metric), metric, "dp+vm"));
        vec![
            Criterion::new("Andrew ×100", "options of Figure 10 in at least 5 of 6 rows", lists),
            Criterion::new(
                "Andrew ×100",
                "VM and DP overlap in grep and rm: VM:DP > 0, significant",
                overlap.into(),
            ),
        ]
    }

    /// The two lists of a row that differ, and the counters for the options in one list only.
    fn other_list(&self, row: &reproduction::ComparedOptions) -> Vec<String> {
        let mine = row.measured.as_deref().unwrap_or_default();
        let (theirs, named) = (&row.published, |list: &[String]| match list {
            [] => "none".to_owned(),
            list => list.join(" "),
        });
        let mut lines = vec![format!("{}: {}, published {}", row.what, named(mine), named(theirs))];
        let benchmark = self.measured.benchmark("andrew");
        let series = benchmark.and_then(|b| b.series.iter().find(|s| s.title == row.what));
        let in_one = |name: &&str| {
            mine.iter().any(|option| option == name) != theirs.iter().any(|option| option == name)
        };
        let mut at = vec!["none"];
        at.extend(PAPER.into_iter().filter(in_one));
        lines.extend(series.map_or_else(Vec::new, |series| self.explained(series, &at)));
        lines
    }

    pub(super) fn bonnie(&self) -> Criterion {
        let tests =
            ["seq-create", "seq-read", "seq-delete", "ran-create", "ran-read", "ran-delete"];
        let parts = tests.map(|metric| {
            let found = self.series("bonnie", metric).and_then(|s| Some((s, self.named(s, "dh")?)));
            let Some((series, named)) = found else { return Check::missing(metric) };
            Check {
                found: format!("{} {}", series.title, if named { "yes" } else { "no" }),
                satisfied: Some(named == (metric != "seq-read")),
                why: self.explained(series, &["su", "su+dh"]),
            }
        });
        Criterion::new(
            "Bonnie++",
            "dirhash is significant in all tests but sequential read",
            parts.into(),
        )
    }

    pub(super) fn postmark(&self) -> Vec<Criterion> {
        let run = |run: &&Benchmark| !run.series.is_empty();
        let mut runs: Vec<&Benchmark> = self.measured.named("postmark").filter(run).collect();
        runs.sort_by_key(|run| files(run));
        let (mut first, mut only, mut grown) = (Vec::new(), Vec::new(), Vec::new());
        for run in &runs {
            // The runs have results of the same names.
            let explained = |series, on: &[&str]| -> Vec<String> {
                let lines = self.explained(series, on).into_iter();
                lines.map(|line| format!("{}: {line}", run.title)).collect()
            };
            let real = run.series.iter().filter(|series| series.kind != MetricKind::CpuPercent);
            for series in real {
                let path = StepwisePath::of(&series.cells);
                let Some(path) = path else {
                    first.push(Check::missing(&series.title));
                    continue;
                };
                let best = path.steps.first().and_then(|step| self.measured.short.get(step.factor));
                if best.is_some_and(|name| name != "su") {
                    let name = best.map_or("", String::as_str);
                    let found = format!("{}: {} {name}", run.title, series.title);
                    let why = explained(series, &["none", "su", name]);
                    first.push(Check::plain(found, false).because(why));
                }
                let dh = self.named(series, "dh").unwrap_or(false);
                if dh != (series.metric == "delete-alone") {
                    let verb = if dh { "has" } else { "has no" };
                    let found = format!("{}: {} {verb} a significant dh", run.title, series.title);
                    let why = explained(series, &["su", "su+dh"]);
                    only.push(Check::plain(found, false).because(why));
                }
            }
            let pair = self.at("su").zip(self.at("su+dh"));
            let gain =
                run.get("delete-alone").zip(pair).and_then(|(s, (su, dh))| factor(s, su, dh));
            grown.extend(gain.map(|gain| (files(run), gain, &run.title)));
        }
        if !runs.is_empty() && first.is_empty() {
            let found = "the first step of every path, significant or not".to_owned();
            first.push(Check::plain(found, true));
        }
        if !runs.is_empty() && only.is_empty() {
            only.push(Check::plain("as published".to_owned(), true));
        }
        let found: Vec<String> =
            grown.iter().map(|(_, gain, title)| format!("{title} {}", times(*gain))).collect();
        let growing = grown.windows(2).all(|pair| pair[0].0 == pair[1].0 || pair[1].1 > pair[0].1);
        let several = grown.first().map(|g| g.0) < grown.last().map(|g| g.0);
        let why = runs.iter().filter_map(|run| Some((&run.title, run.get("delete-alone")?)));
        let why = why.flat_map(|(title, series)| {
            let lines = self.explained(series, &["su", "su+dh"]);
            lines.into_iter().map(move |line| format!("{title}: {line}"))
        });
        let growth = if several {
            vec![Check::plain(found.join(", "), growing).because(why.collect())]
        } else {
            Vec::new()
        };
        vec![
            Criterion::new("Postmark", "soft updates first in every result", first),
            Criterion::new("Postmark", "dirhash only in deletion alone", only),
            Criterion::new(
                "Postmark",
                "dirhash's gain there grows with the number of files",
                growth,
            ),
        ]
    }

    pub(super) fn figures(&self) -> Vec<Criterion> {
        let levels = self.within(NumberKind::Each, "micro/", (1.0 / 1.2, 1.2));
        let all = cost_curves::all(self.measured);
        let shape = |figure: u8| {
            let straight = cost_curves::find(&all, figure, "linear").and_then(cost_curves::bend);
            let flat = cost_curves::find(&all, figure, "dirhash").and_then(|curve| {
                let at =
                    |n: f64| curve.points.iter().find(|point| point.0 >= n).map(|point| point.1);
                Some(curve.points.last()?.1 / at(1000.0)?)
            });
            let Some((bend, growth)) = straight.zip(flat) else {
                return Check::missing(&format!("figure {figure}"));
            };
            let found = format!(
                "fig. {figure}: linear is ×{bend:.2} as steep in its second half, dirhash grows \
                 ×{growth:.2}"
            );
            let last = |name: &str| {
                let point =
                    cost_curves::find(&all, figure, name).and_then(|curve| curve.points.last());
                point.map_or_else(Vec::new, |point| self.explained_point(figure, name, point.0))
            };
            Check::plain(found, (0.6..=1.7).contains(&bend) && growth < 1.3)
                .because([last("linear"), last("dirhash")].concat())
        };
        let jump = |(name, limit): (&str, f64)| {
            let Some(curve) = cost_curves::find(&all, 4, name) else { return Check::missing(name) };
            let point = |n: f64| self.explained_point(4, name, n);
            let Some((before, after)) = cost_curves::jump(curve) else {
                let ends = [curve.points.first(), curve.points.last()];
                let why = ends.into_iter().flatten().flat_map(|end| point(end.0)).collect();
                return Check::plain(format!("{name}: none"), false).because(why);
            };
            let slack = (after - before).max(limit * 0.15);
            let satisfied = before <= limit + slack && after >= limit - slack;
            Check::plain(
                format!("minvnodes {limit:.0}: between {before:.0} and {after:.0}"),
                satisfied,
            )
            .because([point(before), point(after)].concat())
        };
        let jumps = [
            ("name-cache-minvnodes=1000", 1000.0),
            ("name-cache-minvnodes=4000", 4000.0),
            ("name-cache", 4458.0),
        ];
        vec![
            Criterion::new(
                "Figures 2–6",
                "levels within 20 % (ratio to the published one)",
                levels,
            ),
            Criterion::new(
                "Figures 2–6",
                "linear grows in a straight line, dirhash does not",
                vec![shape(2)],
            ),
            Criterion::new(
                "Figures 2–6",
                "jump at about minvnodes, and moving with it",
                jumps.map(jump).into(),
            ),
        ]
    }

    /// The statistics code, applied to the published means.
    pub(super) fn statistics(&self) -> Criterion {
        let cells = self.published.table1();
        let model = Model::fit(&cells);
        let mut parts = Vec::new();
        let sections = self.published.sections.iter().filter(|s| s.title.starts_with("Table 2"));
        for section in sections {
            let number = |n: &PublishedNumber| {
                let bits = n.on.split('+').filter_map(|o| PAPER.iter().position(|p| *p == o));
                let at = bits.fold(Combination::NONE, Combination::with);
                let term = model.as_ref().and_then(|model| model.term(at))?;
                let value =
                    if section.kind == NumberKind::Term { Some(term.value) } else { term.error };
                Some(term.is_significant && format!("{:.2}", value?) == format!("{:.2}", n.value))
            };
            let same = section.rows.iter().filter(|n| number(n) == Some(true)).count();
            let found = format!(
                "{}: {same} of {} values to the printed digit",
                section.title,
                section.rows.len()
            );
            parts.push(Check::plain(found, same == section.rows.len()));
        }
        let shown = model.map_or(0, |model| model.significant().count());
        parts.push(Check::plain(format!("{shown} significant terms"), shown == 5));
        Criterion::new(
            "Statistics",
            "Table 2 from the means and errors of Table 1, to the printed digit",
            parts,
        )
    }
}

/// The number of files of a Postmark run.
fn files(run: &Benchmark) -> u64 {
    let parameters = run.words.split_once(':').map_or("", |(_, parameters)| parameters);
    let number = parameters.split(',').find_map(|p| p.strip_prefix("number="));
    number.and_then(|number| number.parse().ok()).unwrap_or(500)
}
