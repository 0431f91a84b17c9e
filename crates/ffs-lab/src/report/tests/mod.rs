//! Reports of synthetic studies.

mod browser;
mod explore;
pub(crate) mod synthetic;

use std::collections::BTreeSet;

use super::criteria::Verdict;
use super::text::{self, Detail};
use super::*;

/// Checks what holds for each page: well-formed, self-contained, all figures in it.
fn sound(report: &Report) -> String {
    let html = report.html().unwrap();
    let options =
        roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    let page = match roxmltree::Document::parse_with_options(&html, options) {
        Ok(page) => page,
        Err(error) => panic!("the page is not well-formed: {error}"),
    };
    let mut ids = BTreeSet::new();
    for id in page.descendants().filter_map(|node| node.attribute("id")) {
        assert!(ids.insert(id), "id {id} is there twice");
    }
    for node in page.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(!matches!(name, "link" | "img" | "iframe" | "object" | "base"), "{name}");
        assert!(name != "script" || node.attribute("src").is_none(), "a script from elsewhere");
        for attribute in node.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            assert!(!key.starts_with("on"), "{name} {key}");
            let address = matches!(key, "href" | "src" | "srcset" | "action" | "data");
            let inside = value.strip_prefix('#').is_some_and(|id| ids.contains(id));
            assert!(!address || inside, "{name} {key}={value} leads nowhere in the page");
            for id in value.split(' ').filter(|_| key == "aria-labelledby") {
                assert!(ids.contains(id), "nothing is named {id}");
            }
        }
    }
    let outside = html.replace("http://www.w3.org/1999/xhtml", "");
    assert!(!outside.contains("://") && !outside.contains("url(") && !outside.contains("@import"));
    for figure in &report.figures {
        assert!(ids.contains(figure.id.as_str()), "{} is not in the page", figure.id);
        roxmltree::Document::parse(&figure.file()).unwrap();
        assert!(figure.csv.lines().count() > 1, "{} has no data", figure.id);
    }
    assert!(!html.contains("NaN") && !html.contains(">inf"), "a number that is none");
    html
}

#[test]
fn a_whole_study_has_a_whole_report() {
    let report = Report::of(&synthetic::study(4)).unwrap();
    let html = sound(&report);
    // To look at it: FFS_REPORT_DIR=DIR cargo test -p bsdffs-lab whole_report
    if let Some(dir) = std::env::var_os("FFS_REPORT_DIR") {
        report.write(Path::new(&dir)).unwrap();
    }
    assert_eq!(
        html,
        Report::of(&synthetic::study(4)).unwrap().html().unwrap(),
        "the same to the byte"
    );
    let names: Vec<&str> = report.figures.iter().map(|figure| figure.id.as_str()).collect();
    for wanted in [
        "summary",
        "summary-narrow",
        "ratios",
        "fig2",
        "fig4-minvnodes",
        "mh-rm-triangle",
        "buildworld-build-lattice",
    ] {
        assert!(names.contains(&wanted), "{wanted} of {names:?}");
    }
    for meaning in
        ["Buffer images written and waited for.", "dirhash, published", "linear, published at most"]
    {
        assert!(html.contains(meaning), "{meaning}");
    }
    let rows: usize = report.compared.iter().map(|section| section.rows.len()).sum();
    assert!(rows > 150, "{rows}");
    let run =
        report.compared.iter().flat_map(|s| &s.rows).filter(|row| row.measured.is_some()).count();
    assert!(run > 120, "{run} of {rows}");
}

#[test]
fn published_times_reproduce_the_published_numbers() {
    let report = Report::of(&synthetic::study(4)).unwrap();
    let times = &report.compared[0];
    assert_eq!(times.rows.len(), 18);
    for row in times.rows.iter().chain(&report.compared[4].rows) {
        let ratio = row.ratio().unwrap();
        assert!((ratio - 1.0).abs() < 0.01, "{row:?}");
    }
    let missed: Vec<&Criterion> =
        report.targets.iter().filter(|target| target.verdict == Verdict::Missed).collect();
    let satisfied =
        report.targets.iter().filter(|target| target.verdict == Verdict::Satisfied).count();
    assert!(satisfied >= 12, "{satisfied} met; missed: {missed:#?}");
    assert!(
        missed.iter().all(|target| target.group == "Andrew ×100"
            || target.group == "Postmark"
            || target.group == "X11 tar"),
        "{missed:#?}"
    );
    let lists = reproduction::lists(&report.measured, &report.published);
    let same = lists.iter().filter(|list| list.same()).count();
    assert!(same > 30, "{same}");
}

/// A miss has sentences of the counters of its runs.
#[test]
fn a_miss_is_explained_by_what_was_counted() {
    let mut study = synthetic::study(2);
    for job in study.jobs.iter_mut().filter(|job| job.workload == "mh") {
        for metric in &mut job.outcome.metrics {
            metric.elapsed *= 3.0;
        }
    }
    let report = Report::of(&study).unwrap();
    let target = report.targets.iter().find(|target| target.wanted.contains("nine times")).unwrap();
    assert_eq!(target.verdict, Verdict::Missed);
    let why = target.why.join("\n");
    assert!(
        why.contains(
            "none: 24.6 ms each; counted in the phase: processor 2.46 ms, disk busy 19.7 ms"
        ),
        "{why}"
    );
    assert!(why.contains("1.99 synchronous writes"), "{why}");
}

/// The target whose text contains `words`.
fn target<'a>(report: &'a Report, words: &str) -> &'a Criterion {
    report.targets.iter().find(|target| target.wanted.contains(words)).unwrap()
}

#[test]
fn a_missed_part_decides_if_others_are_not_run() {
    let mut study = synthetic::study(2);
    study.jobs.retain(|job| job.workload != "mh" || job.combination != 9);
    let report = Report::of(&study).unwrap();
    assert_eq!(target(&report, "nine times").verdict, Verdict::NotRun);
    let text = text::render(&report, Detail::Summary);
    let left = report.targets.iter().filter(|t| t.verdict == Verdict::NotRun).count();
    assert!(left > 1 && text.ends_with(&format!("{left} targets were not run.\n")), "{text}");
    for metric in study.jobs.iter_mut().flat_map(|job| &mut job.outcome.metrics) {
        metric.elapsed *= 3.0;
    }
    let report = Report::of(&study).unwrap();
    assert_eq!(target(&report, "nine times").verdict, Verdict::Missed);
}

/// A positive interaction that is not significant is no overlap.
#[test]
fn an_interaction_has_to_be_significant() {
    let mut study = synthetic::study(4);
    let overlap = |study: &crate::study::Results| {
        target(&Report::of(study).unwrap(), "SU and DP overlap").clone()
    };
    assert_eq!(overlap(&study).verdict, Verdict::Satisfied);
    for job in study.jobs.iter_mut().filter(|job| job.workload == "buildworld") {
        let noise = if job.replicate % 2 == 0 { 1.4 } else { 0.6 };
        job.outcome.metrics.iter_mut().for_each(|metric| metric.elapsed *= noise);
    }
    let missed = overlap(&study);
    assert!(missed.found.contains('+'), "{missed:?}");
    assert_eq!(missed.verdict, Verdict::Missed);
    assert!(missed.why.iter().any(|why| why.contains("su+dp: ")), "{missed:?}");
}

#[test]
fn without_counts_there_is_no_sentence() {
    let mut study = synthetic::study(2);
    for job in &mut study.jobs {
        job.outcome.metrics.iter_mut().for_each(|metric| metric.elapsed *= 3.0);
        job.outcome.phases.iter_mut().for_each(|phase| phase.work = 0.0);
    }
    let report = Report::of(&study).unwrap();
    assert_eq!(target(&report, "nine times").verdict, Verdict::Missed);
    let why: Vec<&String> = report.targets.iter().flat_map(|target| &target.why).collect();
    assert!(why.iter().all(|line| !line.contains(" each; counted in the phase: ")), "{why:#?}");
}

#[test]
fn what_is_100_by_construction_has_no_ratio() {
    let report = Report::of(&synthetic::study(4)).unwrap();
    let rows = || report.compared.iter().flat_map(|section| &section.rows);
    let bases: Vec<&reproduction::ComparedNumber> =
        rows().filter(|pair| pair.on == "none" && pair.published == "100.00").collect();
    assert_eq!(bases.len(), 3, "Table 1, Table 2, Table 3");
    assert!(bases.iter().all(|pair| pair.measured.as_deref() == Some("100.00")), "{bases:?}");
    assert!(bases.iter().all(|pair| pair.ratio().is_none()), "{bases:?}");
}

/// The published times of a study that has just these times, and of others.
#[test]
fn each_measurement_counts_once_and_misses_count() {
    let times = |study: &crate::study::Results| {
        let report = Report::of(study).unwrap();
        report.scores.iter().find(|score| score.group == "absolute times").unwrap().clone()
    };
    let mut study = synthetic::study(2);
    let found = times(&study);
    assert_eq!((found.predicted.all, found.calibrated.all, found.not_run), (30, 4, 0));
    assert_eq!((found.predicted.within, found.calibrated.within), ([30; 4], [4; 4]));
    let all = "of the 34 published times";
    assert_eq!(target(&Report::of(&study).unwrap(), all).verdict, Verdict::Satisfied);
    // X11 takes 1.4 times as long: its nine times are misses of one bar and not of the other.
    for job in study.jobs.iter_mut().filter(|job| job.workload == "x11") {
        job.outcome.metrics.iter_mut().for_each(|metric| metric.elapsed *= 1.4);
    }
    assert_eq!(times(&study).predicted.within, [21, 21, 30, 30]);
    let missed = target(&Report::of(&study).unwrap(), all).clone();
    assert_eq!(missed.verdict, Verdict::Missed);
    assert!(missed.found.contains("25 within 1.3"), "{missed:?}");
    assert!(missed.why.iter().any(|line| line.contains("untar none, ratio 1.4")), "{missed:?}");
    // Times of 0 are misses. A smaller run is no run.
    for job in study.jobs.iter_mut().filter(|job| job.workload == "x11") {
        job.outcome.metrics.iter_mut().for_each(|metric| metric.elapsed = 0.0);
    }
    let zero = times(&study);
    assert_eq!((zero.predicted.all, zero.predicted.other_sign), (30, 9));
    study.plan.workloads.iter_mut().for_each(|item| item.scale = 0.5);
    assert_eq!((times(&study).predicted.all, times(&study).not_run), (0, 34));
    assert_eq!(target(&Report::of(&study).unwrap(), all).verdict, Verdict::NotRun);
}

/// A study whose curves ran with several combinations shows those with soft updates.
#[test]
fn cost_curves_are_those_with_soft_updates() {
    let mut study = synthetic::study(1);
    let fig2 = |study: &crate::study::Results| {
        let report = Report::of(study).unwrap();
        let rows = report.compared.into_iter().flat_map(|section| section.rows);
        rows.filter(|row| row.at == "micro/fig2/dirhash/10000").map(|row| row.measured).next()
    };
    let expected = fig2(&study);
    let mut without: Vec<_> =
        study.jobs.iter().filter(|job| job.workload == "micro").cloned().collect();
    for job in &mut without {
        job.combination = 0;
        job.outcome.metrics.iter_mut().for_each(|metric| metric.elapsed *= 9.0);
    }
    study.jobs.retain(|job| job.workload != "micro" || job.combination == 0);
    let both = [without.clone(), synthetic::study(1).jobs].concat();
    assert_eq!(fig2(&crate::study::Results { jobs: both, ..study.clone() }), expected);
    study.jobs.extend(without);
    assert_eq!(fig2(&study), Some(None), "without soft updates there is nothing to compare");
}

#[test]
fn smaller_workloads_are_named() {
    let mut study = synthetic::study(1);
    let mut items = study.plan.workloads.iter_mut();
    for item in items.by_ref().filter(|i| ["buildworld", "netnews"].contains(&&*i.workload)) {
        item.scale = 0.1;
    }
    let report = Report::of(&study).unwrap();
    let caution = criteria::caution(&report.measured).unwrap();
    let title = |words: &str| report.measured.benchmark(words).unwrap().title.as_str();
    let both = format!("{}, {} at 0.1", title("buildworld"), title("netnews"));
    let other = format!("{}, {} at 0.1", title("netnews"), title("buildworld"));
    assert!(caution.contains(&both) || caution.contains(&other), "{caution}");
    assert!(!caution.contains(title("x11")), "{caution}");
    assert!(caution.contains("1672 s"), "{caution}");
}

#[test]
fn parts_of_a_study_have_a_report_too() {
    let mut study = synthetic::study(2);
    study.jobs.retain(|job| job.combination % 5 != 3);
    let report = Report::of(&study).unwrap();
    let html = sound(&report);
    assert!(html.contains("The study is not complete"));
    assert!(text::render(&report, Detail::Everything).contains("combinations are missing"));

    study.jobs.clear();
    let report = Report::of(&study).unwrap();
    let html = sound(&report);
    assert!(html.contains("no result yet"));
    let ran = report.targets.iter().filter(|target| target.verdict != Verdict::NotRun);
    assert_eq!(ran.map(|target| target.group.as_str()).collect::<Vec<&str>>(), ["Statistics"]);
    assert!(text::render(&report, Detail::Summary).contains("no finished run"));
}

#[test]
fn any_options_and_single_runs_make_a_report() {
    for names in [&[][..], &["a"], &["x", "y", "z"], &["a", "b", "c", "d", "e", "f"]] {
        for replicates in [1, 3] {
            let report = Report::of(&synthetic::small(names, replicates)).unwrap();
            let html = sound(&report);
            assert!(html.contains("Size: 0.5 of the published one"));
            let text = text::render(&report, Detail::Everything);
            assert!(text.contains("thing: run"), "{text}");
        }
    }
    let eleven = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
    let mut study = synthetic::small(&["a"], 1);
    study.plan.factors = synthetic::factors(&eleven);
    assert!(Report::of(&study).unwrap_err().to_string().contains("11 factors"));
}

/// Factors of more than two levels have figures over their levels, and no lattice.
#[test]
fn levels_make_a_report() {
    let report = Report::of(&synthetic::levels(3)).unwrap();
    let html = sound(&report);
    let names: Vec<&str> = report.figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(names, ["summary", "summary-narrow", "thing-run-levels-2-big"]);
    assert!(html.contains("The triangles and the lattice of all combinations are left out"));
    assert!(html.contains("6 combinations of 2 factors, each run 3 times"));
    assert!(html.contains("<code>maxvnodes=5000</code> (base), <code>maxvnodes=20000</code>"));
    assert!(html.contains("The effects of softupdates and big, alone and together"));
    assert!(html.contains("With the best combination of levels for each"));
    let text = text::render(&report, Detail::Everything);
    // su halves the time, and so does each level of big.
    let row = |start: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_default().split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    assert_eq!(row("% of none, by big"), "% of none, by big 5000 20000 90000");
    assert!(row("thing: run").contains("×4"), "{text}");
    let term = row("su:big=90000");
    let value: f64 = term.split(' ').nth(1).unwrap_or_default().parse().unwrap();
    assert!((value - 25.0).abs() < 2.0, "{term}");
    assert!(text.lines().all(|line| line.chars().count() < 160 && !line.ends_with(' ')));
}

/// The page of factors of two levels has no part for more, so that it is the same as before.
#[test]
fn a_study_of_two_levels_has_no_trace_of_more() {
    let html = Report::of(&synthetic::small(&["a", "b"], 2)).unwrap().html().unwrap();
    assert!(!html.contains("switchOf") && !html.contains("(base)"));
    assert!(!html.contains("more than two levels"));
    let with = Report::of(&synthetic::small(&["a", "b"], 2)).unwrap();
    let with = with.with(&synthetic::levels(1)).unwrap().html().unwrap();
    assert!(with.contains("switchOf"), "the panel has the levels of the other study");
}

#[test]
fn the_terminal_has_the_same_tables() {
    let report = Report::of(&synthetic::study(4)).unwrap();
    let text = text::render(&report, Detail::Summary);
    let line = |start: &str| {
        text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned()
    };
    let create = line("MH folder: create");
    assert!(create.contains("×3") && create.ends_with("su dh"), "{create}");
    assert!(text.contains("Targets of a reproduction"));
    let text = text::render(&report, Detail::Everything);
    assert!(text.contains("Table 2: terms of the model"), "published numbers are there");
    assert!(text.lines().all(|line| line.chars().count() < 160 && !line.ends_with(' ')));
}

#[test]
fn files_are_written_and_the_directory_that_cannot_be_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let report = Report::of(&synthetic::small(&["su", "dh"], 2)).unwrap();
    let written = report.write(dir.path()).unwrap();
    assert!(written.page.ends_with("report.html"));
    let count = fs::read_dir(dir.path().join("figures")).unwrap().count();
    assert_eq!(count, written.files);
    let runs = fs::read_to_string(dir.path().join("figures/runs.csv")).unwrap();
    assert_eq!(runs.lines().count(), 1 + 4 * 2);
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = report.write(&file).unwrap_err().to_string();
    assert!(error.contains("file/figures"), "{error}");
}

/// Options, published number and command of each line of a comparison.
fn lines_of(table: &str) -> Vec<(String, String, String)> {
    let cells = |line: &str| -> Vec<String> {
        line.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).to_owned()).collect()
    };
    let rows = table.lines().filter(|line| line.contains("`ffs lab run ")).map(cells);
    rows.map(|row| match &row[..] {
        [_, on, published, _, _, command] => (on.clone(), published.clone(), command.clone()),
        [_, published, _, _, command] => (String::new(), published.clone(), command.clone()),
        _ => panic!("{row:?}"),
    })
    .collect()
}

#[test]
fn the_comparison_and_its_document_have_every_published_number() {
    let report = Report::of(&synthetic::small(&["su", "dh"], 2)).unwrap();
    let rows = lines_of(&comparison::markdown(&report));
    let numbers: usize = report.published.sections.iter().map(|section| section.rows.len()).sum();
    assert_eq!(rows.len(), numbers + report.published.rows().count());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/published.md");
    let document = fs::read_to_string(path).unwrap();
    let (_, tables) = document.split_once("## Numbers").unwrap();
    let document = lines_of(tables);
    for (row, kept) in rows.iter().zip(&document) {
        assert_eq!(row, kept);
    }
    assert_eq!(rows.len(), document.len());
}
