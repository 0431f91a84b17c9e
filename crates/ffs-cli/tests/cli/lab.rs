//! The laboratory: what it prints, what it leaves, what it refuses.

use crate::common::{Dir, fails, ok, text};

const PHASES: [&str; 7] = ["create", "list", "stat", "stat-cold", "miss", "rename", "unlink"];

#[test]
fn compare_dirs_prints_a_table_and_leaves_nothing() {
    let d = Dir::new();
    let here = d.0.path().to_str().unwrap().to_owned();
    let compare = ["lab", "compare", "dirs", "-n", "300", "--rounds", "1"];
    let out = ok(&[&compare[..], &["--target", "core", "--target", &here]].concat());
    assert!(out.contains("300 files") && out.contains("ratio"), "{out}");
    for phase in PHASES {
        assert!(out.lines().any(|line| line.starts_with(phase)), "no {phase} in {out}");
    }
    assert!(out.contains("core: ffs; durable:"), "{out}");
    assert_eq!(std::fs::read_dir(d.0.path()).unwrap().count(), 0);
}

#[test]
fn compare_dirs_prints_a_line_of_json_a_phase_and_target() {
    let d = Dir::new();
    let here = d.0.path().to_str().unwrap().to_owned();
    let args = ["lab", "compare", "dirs", "-n", "300", "--rounds", "1", "--json"];
    let output = crate::common::run(
        &[&args[..], &["--order", "listing", "--target", "core", "--target", &here]].concat(),
    );
    assert!(output.status.success(), "{}", text(&output));
    let mut seen = Vec::new();
    for line in String::from_utf8(output.stdout.clone()).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["n"], 300);
        assert!(row["us_per_op"].as_f64().unwrap() > 0.0, "{line}");
        seen.push((row["target"].clone(), row["phase"].clone()));
    }
    for phase in PHASES {
        assert!(seen.contains(&("core".into(), phase.into())), "{phase}: {seen:?}");
        // Only root makes the kernel forget, and nobody makes a tmpfs.
        let said = text(&output).contains("stat-cold is not measured");
        let skipped = phase == "stat-cold" && said;
        assert!(skipped || seen.contains(&(here.as_str().into(), phase.into())), "{phase}");
    }
}

#[test]
fn several_sizes_are_compared_with_each_other() {
    let out = ok(&["lab", "compare", "dirs", "-n", "100", "-n", "400", "--rounds", "1"]);
    assert!(out.contains("400 files against 100"), "{out}");
}

#[test]
fn targets_and_numbers_that_are_wrong_are_refused() {
    let d = Dir::new();
    let file = d.file("file", b"");
    let dirs = |args: &[&str]| {
        let all = [&["lab", "compare", "dirs", "-n", "10"], args].concat();
        fails(&all, 64, args.last().unwrap())
    };
    dirs(&["--target", "/no/such/dir"]);
    assert!(dirs(&["--target", "core:maxvnods=3"]).contains("maxvnodes"));
    dirs(&["--target", &file]);
    dirs(&["--rounds", "0"]);
    fails(&["lab", "compare", "dirs", "-n", "0"], 64, "0");
    fails(&["lab", "compare", "dir"], 64, "dirs");
    fails(&["lab", "compare", "dirs", "--target", "/proc"], 1, "/proc");
}

#[test]
fn figures_are_lines_of_values() {
    let args = ["lab", "figures", "--max", "300", "--step", "150", "--rounds", "1"];
    let csv = ok(&args);
    assert!(csv.starts_with("figure,series,n,us_per_op"), "{csv}");
    for figure in 2..=6 {
        let of_figure = format!("{figure},dirhash,300,");
        assert!(csv.lines().any(|line| line.starts_with(&of_figure)), "{figure}: {csv}");
    }
    let json = ok(&[&args[..], &["--json", "--figure", "6"]].concat());
    for line in json.lines() {
        let point: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(point["figure"], 6);
    }
    fails(&["lab", "figures", "--figure", "1"], 64, "figure 1");
    fails(&["lab", "figures", "--target", "/"], 64, "library alone");
}
