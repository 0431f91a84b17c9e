//! `ffs lab export`, and the notebook that reads its files.

use std::path::Path;
use std::process::Command;

use crate::common::{Dir, fails, ok};

/// Buildworld, small, under all sixteen combinations of the paper's options, twice.
const STUDY: [&str; 9] = [
    "lab",
    "run",
    "buildworld",
    "--scale",
    "0.004",
    "--target",
    "sim:used=5,turnover=0.1",
    "--replicates",
    "2",
];
/// The exit code of the notebook's runner without pandas or statsmodels.
const NOT_INSTALLED: i32 = 77;

fn study(d: &Dir) -> String {
    let out = d.str("study");
    ok(&[&STUDY[..], &["--out", &out]].concat());
    out
}

#[test]
fn an_export_is_csv_with_a_dictionary_and_depends_on_the_results_only() {
    let d = Dir::new();
    let (study, out) = (study(&d), d.str("csv"));
    let printed = ok(&["lab", "export", &study, "--out", &out]);
    let read = |name: &str| std::fs::read_to_string(Path::new(&out).join(name)).unwrap();
    for name in ["runs", "phases", "counters", "published", "dictionary"] {
        assert!(printed.contains(&format!("{out}/{name}.csv")), "{printed}");
    }
    let runs = read("runs.csv");
    let heads = "workload,scale,combination,replicate,seed,on_su,on_dp,on_vm,on_dh,result,";
    assert!(runs.starts_with(heads), "{runs}");
    let builds = runs.lines().filter(|line| line.contains(",build,"));
    assert_eq!(builds.count(), 16 * 2);
    assert!(read("dictionary.csv").contains("runs,on_dp,,0 or 1,,"));
    let before = ["runs.csv", "phases.csv", "counters.csv"].map(read);
    ok(&["lab", "export", &format!("{study}/results.jsonl"), "--out", &out]);
    assert_eq!(before, ["runs.csv", "phases.csv", "counters.csv"].map(read));
    let dictionary = ok(&["lab", "export", "--dictionary"]);
    assert!(dictionary.contains("| runs | cost |"), "{dictionary}");
    fails(&["lab", "export", &study], 64, "--out");
    fails(&["lab", "export", &d.str("none"), "--out", &out], 1, "none");
}

#[test]
fn the_notebook_reproduces_table_2_and_figure_8() {
    let d = Dir::new();
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/notebook/run.py");
    let python = std::env::var("FFS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let run = |words: &[&str]| Command::new(&python).arg(&runner).args(words).output();
    let (study, out) = (study(&d), d.str("csv"));
    ok(&["lab", "export", &study, "--out", &out]);
    let Ok(output) = run(&[&out, &format!("{study}/figures")]) else {
        println!("skipped: no {python}");
        return;
    };
    let printed = [&*output.stdout, &*output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    if output.status.code() == Some(NOT_INSTALLED) {
        println!("{printed}");
        return;
    }
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("16 terms and 15 triangles agree"), "{printed}");
}
