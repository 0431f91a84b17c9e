//! Studies: what they print and leave, how they end early and go on.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Dir, fails, ffs, ok, run, text};

/// A small study on the simulated machine: eight jobs.
const SMALL: [&str; 11] = [
    "lab",
    "run",
    "mh:count=150",
    "--factor",
    "su",
    "--factor",
    "dh",
    "--target",
    "sim:used=5,turnover=0.1",
    "--replicates",
    "2",
];

fn with<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], &["--out", out], more].concat()
}

fn results(out: &str) -> Vec<u8> {
    std::fs::read(Path::new(out).join("results.jsonl")).unwrap()
}

fn page(out: &str) -> Vec<u8> {
    std::fs::read(Path::new(out).join("report.html")).unwrap()
}

/// Results and report of a study that nothing disturbs.
fn undisturbed(d: &Dir) -> (String, Vec<u8>) {
    let out = d.str("whole");
    ok(&with(&out, &["--jobs", "1"]));
    let bytes = results(&out);
    (out, bytes)
}

#[test]
fn a_study_split_in_two_and_merged_is_the_same_to_the_last_byte() {
    let d = Dir::new();
    let (out, whole) = undisturbed(&d);
    let (one, two, all) = (d.str("one"), d.str("two"), d.str("all"));
    let part = run(&with(&one, &["--shard", "1/2"]));
    assert!(part.status.success() && text(&part).contains("4 of 8 jobs"), "{}", text(&part));
    let printed = fails(&["lab", "merge", &one, "--out", &all], 1, "4 of 8 jobs");
    assert!(printed.contains("missing: mh:count=150 "), "{printed}");
    ok(&with(&two, &["--shard", "2/2"]));
    ok(&["lab", "merge", &one, &two, "--out", &all]);
    assert_eq!(results(&all), whole);
    assert_eq!(page(&all), page(&out));
    let other = d.str("other");
    ok(&with(&other, &["--seed", "3", "--shard", "8/8"]));
    let printed =
        fails(&["lab", "merge", &one, &other, "--out", &d.str("none")], 1, "seed 3, not 2002");
    assert!(printed.contains("another study") && !d.0.path().join("none").exists(), "{printed}");
}

/// Begins or resumes the study and sends it a signal as soon as it has finished a job. Whether that
/// came before its end.
fn ended_by(signal: Signal, out: &str) -> bool {
    let file = Path::new(out).join("results.jsonl");
    let lines = || std::fs::read(&file).map_or(0, |b| b.iter().filter(|b| **b == b'\n').count());
    let before = lines().max(1);
    let mut child = Command::new(ffs().get_program());
    let child = child.args(with(out, &["--jobs", "1"])).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    while lines() <= before && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = kill_process(Pid::from_child(&child), signal);
    let status = child.wait().unwrap();
    if signal == Signal::INT && !status.success() {
        assert_eq!(status.code(), Some(130));
    }
    !status.success()
}

#[test]
fn a_study_that_was_killed_or_interrupted_goes_on_to_the_same_bytes() {
    let d = Dir::new();
    let (first, whole) = undisturbed(&d);
    let out = d.str("disturbed");
    let ended = [Signal::KILL, Signal::INT].map(|signal| ended_by(signal, &out));
    assert!(ended[0], "the study was over before it could be killed");
    let output = run(&with(&out, &[]));
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("finished already"), "{}", text(&output));
    assert_eq!(results(&out), whole);
    assert_eq!(page(&out), page(&first));
}

#[test]
fn a_report_is_made_again_from_the_results_alone() {
    let d = Dir::new();
    let (out, _) = undisturbed(&d);
    let (file, elsewhere) = (format!("{out}/results.jsonl"), d.str("elsewhere"));
    let printed = ok(&["lab", "report", &file, "--out", &elsewhere, "--tables"]);
    assert!(printed.contains("MH folder: create") && printed.contains("σ/√n"), "{printed}");
    assert!(printed.contains(&format!("report: {elsewhere}/report.html")), "{printed}");
    assert_eq!(page(&elsewhere), page(&out));
    let runs = std::fs::read_to_string(Path::new(&out).join("figures/runs.csv")).unwrap();
    assert_eq!(runs.lines().count(), 1 + 3 * 4 * 2, "three results, four combinations, twice");
    fails(&["lab", "report", &d.str("nothing")], 1, "nothing");
}

#[test]
fn a_factor_of_three_levels_is_run_merged_reported_and_exported() {
    let d = Dir::new();
    let study = |out: &str, more: &[&str]| {
        let target = "--target sim:used=5,turnover=0.1 --replicates 2 --jobs 1";
        let words =
            format!("lab run mh:count=150 --factor su --factor memory=64m/128m/256m {target}");
        let words: Vec<&str> = words.split(' ').chain(["--out", out]).collect();
        ok(&[&words, more].concat())
    };
    let (whole, one, two, all) = (d.str("whole"), d.str("one"), d.str("two"), d.str("all"));
    let printed = study(&whole, &[]);
    assert!(printed.contains("MH folder: create"), "{printed}");
    study(&one, &["--shard", "1/2"]);
    study(&two, &["--shard", "2/2"]);
    ok(&["lab", "merge", &one, &two, "--out", &all]);
    assert_eq!(results(&all), results(&whole));
    assert_eq!(page(&all), page(&whole));
    let figures = Path::new(&whole).join("figures");
    let rows = std::fs::read_to_string(figures.join("mh-count-150-create-levels-2-memory.csv"));
    assert_eq!(rows.unwrap().lines().count(), 1 + 6);
    let printed = ok(&["lab", "report", &whole, "--tables"]);
    assert!(printed.contains("% of none, by memory"), "{printed}");
    let out = d.str("csv");
    ok(&["lab", "export", &whole, "--out", &out]);
    let runs = std::fs::read_to_string(Path::new(&out).join("runs.csv")).unwrap();
    assert!(runs.starts_with("workload,scale,combination,replicate,seed,on_su,level_memory,"));
    assert_eq!(runs.lines().filter(|line| line.contains(",su+memory=256m,")).count(), 2 * 3);
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_made() {
    let d = Dir::new();
    let out = d.str("out");
    let refused = |args: &[&str], printed: &str| {
        fails(&[&["lab", "run", "--out", &out], args].concat(), 64, printed)
    };
    refused(&["mhh"], "did you mean 'mh'?");
    refused(&["papr"], "did you mean 'paper'?");
    refused(&["postmark:numbr=3"], "did you mean 'number'?");
    refused(&["mh", "mh"], "named twice");
    refused(&["mh", "--factor", "vmiodirenabel"], "did you mean 'vmiodirenable'?");
    refused(&["mh", "--factor", "x=maxvnods=1/maxvnodes=2"], "maxvnodes");
    refused(&["mh", "--factor", "dh=4"], "NAME=OFF/ON");
    refused(&["mh", "--factor", "memory=64m/256m/64m"], "has the level 'memory=64m' twice");
    refused(&["mh", "--factor", "memory=64m/256m/lots"], "expected 16m to 4g");
    refused(&["mh", "--target", "simm"], "did you mean 'sim'?");
    refused(&["mh", "--target", "sim:softdp"], "did you mean 'softdep'?");
    refused(&["mh", "--target", "sim:tunrover=1"], "did you mean 'turnover'?");
    refused(&["mh", "--target", "sim:xyz=1"], "or one of: sync, ");
    refused(&["mh", "--target", "sim:machine=ide2001-720"], "did you mean 'ide2001-7200'?");
    refused(&["mh", "--target", "/"], "--factor none");
    refused(&["mh", "--shard", "3/2"], "like 2/8");
    refused(&["mh", "--replicates", "0"], "replicates");
    refused(&["mh", "--scale", "0"], "above 0");
    assert!(!Path::new(&out).exists());
    fails(&["lab", "run", "mh"], 64, "--out");
    let file = d.file("file", b"mine");
    fails(&["lab", "run", "mh", "--out", &file], 1, "is not a directory");
    fails(&["lab", "merge", &out, "-o", &out], 1, &out);
}

#[test]
fn a_study_ends_with_its_report_and_so_does_its_repetition() {
    let d = Dir::new();
    let out = d.str("out");
    let study =
        ["lab", "run", "mh:count=50", "bonnie:n=1,data=0", "--target", "core", "--factor", "dh"];
    let study = [&study[..], &["--replicates", "1", "--out", &out]].concat();
    let printed = ok(&study);
    assert!(printed.contains("report.html") && printed.contains("pack"), "{printed}");
    let page = Path::new(&out).join("report.html");
    let first = std::fs::read(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    assert_eq!(ok(&study), printed, "nothing is run again");
    assert_eq!(std::fs::read(&page).unwrap(), first);
}

#[test]
fn another_study_in_the_same_place_is_refused() {
    let d = Dir::new();
    let out = d.str("out");
    let core = ["lab", "run", "mh:count=50", "--target", "core", "--factor", "dh", "--out", &out];
    ok(&[&core[..], &["--replicates", "1"]].concat());
    let before = results(&out);
    let printed = fails(&core, 1, "replicates 1, not 4");
    assert!(printed.contains("--out"), "{printed}");
    assert_eq!(results(&out), before);
    std::fs::write(Path::new(&out).join("results.jsonl"), "mine\n").unwrap();
    fails(&core, 1, "is not a results file");
    assert_eq!(results(&out), b"mine\n");
}
