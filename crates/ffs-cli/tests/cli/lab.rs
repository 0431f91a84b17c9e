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
        // Only root can drop the kernel's caches, and a tmpfs has no others.
        let printed = text(&output).contains("stat-cold is not measured");
        let skipped = phase == "stat-cold" && printed;
        assert!(skipped || seen.contains(&(here.as_str().into(), phase.into())), "{phase}");
    }
}

#[test]
fn compare_threads_has_every_number_of_threads() {
    let d = Dir::new();
    let here = d.0.path().to_str().unwrap().to_owned();
    let threads = ["lab", "compare", "threads", "-n", "50", "--rounds", "1", "--threads", "1,3"];
    let both = [&threads[..], &["--target", "core", "--target", &here]].concat();
    let out = ok(&both);
    assert!(out.contains("3 threads") && out.contains("times"), "{out}");
    for line in ["create       different", "unlink       same"] {
        assert_eq!(out.lines().filter(|l| l.starts_with(line)).count(), 2, "{line} in {out}");
    }
    assert_eq!(ok(&[&both[..], &["--json"]].concat()).lines().count(), 2 * 2 * 5 * 2);
    assert_eq!(std::fs::read_dir(d.0.path()).unwrap().count(), 0);
    let refused = crate::common::run(&["lab", "compare", "threads", "--target", "sim"]);
    assert!(text(&refused).contains("one thread"), "{}", text(&refused));
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
fn compare_runs_any_workload_and_leaves_nothing() {
    let d = Dir::new();
    let here = d.0.path().to_str().unwrap().to_owned();
    let both = ["--rounds", "2", "--target", "core", "--target", &here];
    let postmark = ["lab", "compare", "postmark", "--scale", "0.1"];
    let out = ok(&[&postmark[..], &both].concat());
    assert!(out.contains("creation alone") && out.contains("ratio"), "{out}");
    assert!(out.contains(&format!("{here}: ")) && out.contains("durable:"), "{out}");
    let out = ok(&[&postmark[..], &both, &["--original"]].concat());
    assert!(out.contains("Creation alone: 50 files ("), "{out}");
    let lines = ok(&[&["lab", "compare", "mh:count=50", "--json", "--sync"][..], &both].concat());
    let rows: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 6, "{lines}");
    assert_eq!((&rows[0]["result"], &rows[0]["unit"]), (&"create".into(), &"files".into()));
    assert!(rows[1]["ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(rows[1]["finish"], "sync, in the time");
    assert_eq!(std::fs::read_dir(d.0.path()).unwrap().count(), 0);
}

#[test]
fn compare_states_what_a_crash_leaves_and_how_lookups_were_answered() {
    let young = "size=256,used=0,turnover=0";
    let targets = ["softdep,dirhash_maxmem=0", "data=ordered", "data=journal,stable"];
    let targets = targets.map(|words| format!("sim:{young},{words}"));
    let mut args = vec!["lab", "compare", "postmark:number=100,transactions=200", "--lookups"];
    args.extend(["--rounds", "1"]);
    args.extend(targets.iter().flat_map(|target| ["--target", target]));
    let out = ok(&args);
    for target in &targets {
        let fact = out.lines().find(|line| line.starts_with(&format!("{target}: ")));
        assert!(fact.is_some_and(|fact| fact.contains("a crash leaves")), "{out}");
        let shares = |line: &&str| line.starts_with("transactions") && line.contains(&**target);
        let line = out.lines().find(shares).unwrap_or_else(|| panic!("{target}: {out}"));
        let shares: Vec<f64> = line.split_whitespace().skip(2).flat_map(str::parse).collect();
        assert_eq!(shares.len(), 3, "{line}");
        assert!(shares.iter().all(|share| (0.0..=100.0).contains(share)), "{line}");
    }
    fails(&["lab", "compare", "mh", "--lookups", "--json"], 64, "--json");
}

#[test]
fn results_of_several_comparisons_become_tables_and_a_page() {
    let d = Dir::new();
    let compare = ["lab", "compare", "mh:count=50", "--rounds", "1", "--json"];
    let both = ["--target", "core", "--target", "core:softdep"];
    let one = ok(&[&compare[..], &both, &["--setup", "one"]].concat());
    let two = ok(&[&compare[..], &both, &["--setup", "<two>"]].concat());
    let rows = d.file("rows", format!("{one}{two}").as_bytes());
    let out = ok(&["lab", "chart", &rows]);
    assert!(out.contains("mh, one\n") && out.contains("mh, <two>\n"), "{out}");
    assert_eq!(out.matches("x: times as long for the same work as core").count(), 2, "{out}");
    let page = d.0.path().join("page.html");
    ok(&["lab", "chart", &rows, "--html", page.to_str().unwrap()]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert_eq!(html.matches("<svg").count(), 2);
    assert!(!html.contains("<two>"), "words of the user are escaped");
    let other = d.file("other", b"{}");
    fails(&["lab", "chart", &other], 1, "is not a result of `ffs lab compare --json`");
    fails(&["lab", "chart", "/no/such/file"], 1, "/no/such/file");
    fails(&[&compare[..5], &["--setup", "x"]].concat(), 64, "--json");
}

#[test]
fn an_interrupted_comparison_leaves_nothing() {
    use rustix::process::{Pid, Signal, kill_process};
    let d = Dir::new();
    let here = d.0.path().to_str().unwrap().to_owned();
    let image = format!("core:image={here}/x.img");
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args([
            "lab",
            "compare",
            "--rounds",
            "9",
            "randfiles:count=200000",
            "--target",
            &here,
            "--target",
            &image,
        ])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It is at work when there is something to remove.
    while std::fs::read_dir(&here).unwrap().next().is_none() {
        assert_eq!(child.try_wait().unwrap(), None, "it did not begin");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0, "something is left");
}

#[test]
fn workloads_are_listed_and_mistyped_ones_are_refused() {
    let list = ok(&["lab", "list"]);
    for name in ["x11", "mh", "bonnie", "andrew", "postmark", "netnews", "buildworld", "micro"] {
        assert!(list.contains(&format!("{name}: ")), "no {name} in {list}");
    }
    assert!(ok(&["lab", "list", "postmark"]).contains("  transactions= (500): "));
    let compare = |words: &str, hint: &str| fails(&["lab", "compare", words], 64, hint);
    compare("postmrk", "did you mean 'postmark'?");
    compare("postmark:nmber=5", "did you mean 'number'?");
    compare("x11:archive=/no/such.tgz", "/no/such.tgz");
    fails(&["lab", "compare"], 64, "WORKLOAD");
    fails(&["lab", "list", "bonny"], 64, "did you mean 'bonnie'?");
    fails(&["lab", "compare", "mh", "--scale", "0"], 64, "above 0");
    let table = ok(&["lab", "compare", "mh", "--original", "--scale", "0.001"]);
    assert!(table.contains("folder -pack"), "no form of its own: {table}");
}

#[test]
fn indexes_are_compared_and_the_same_seed_gives_the_same_bytes() {
    let d = Dir::new();
    let out = |name: &str| d.0.path().join(name).to_str().unwrap().to_owned();
    let (one, other) = (out("one"), out("other"));
    let run = |out: &str, jobs: &str| {
        let args = ["lab", "indexes", "--quick", "-n", "50", "-n", "1500"];
        ok(&[&args[..], &["--jobs", jobs, "--out", out]].concat())
    };
    let (text, again) = (run(&one, "1"), run(&other, "3"));
    assert_eq!(text, again);
    for word in ["linear", "dirhash", "chunk", "htree", "btree", "control", "a crash within"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    for name in ["indexes.svg", "index-create-random.svg", "indexes.jsonl"] {
        let read = |dir: &str| std::fs::read(std::path::Path::new(dir).join(name)).unwrap();
        assert_eq!(read(&one), read(&other), "{name}");
    }
    let args = ["lab", "indexes", "--quick", "-n", "50", "--index", "htree", "--json"];
    let lines = ok(&args);
    let rows = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let rows: Vec<serde_json::Value> = rows.collect();
    assert!(rows.iter().all(|row| row["index"] == "htree"), "{lines}");
    assert!(rows.iter().any(|row| row["phase"] == "miss"), "{lines}");
    assert!(rows.iter().any(|row| row["lost"].is_u64()), "{lines}");
    fails(&["lab", "indexes", "-n", "0"], 64, "0");
    fails(&["lab", "indexes", "--index", "hash"], 64, "hash");
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

/// The workload that docs/lab/crash.md shows.
fn documented_workload() -> String {
    let docs = include_str!("../../../../docs/lab/crash.md");
    let (_, rest) = docs.split_once("```crash\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn crash_runs_the_workload_that_the_documentation_shows() {
    let d = Dir::new();
    let file = d.file("own.crash", documented_workload().as_bytes());
    let args = ["lab", "crash", "--geometry", "ufs1-1m", "--workload", &file, "--json"];
    let output = crate::common::run(&[&args[..], &["--ordering", "sync"]].concat());
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["rows"][0]["geometry"], "ufs1-1m");
    assert!(found["rows"][0]["distinct"].as_u64().unwrap() > 100, "{found}");
    assert_eq!(found["rows"][0]["failed_operations"], 0);
    // New files are named before their maps are written: fsck is needed.
    assert_eq!(output.status.code(), Some(1));
    let rules: Vec<&str> = found["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["rule"].as_str().unwrap())
        .collect();
    assert!(rules.contains(&"F2"), "{rules:?}");
    let first = found["violations"][0]["first"].as_str().unwrap();
    let again =
        crate::common::run(&[&args[..6], &["--ordering", "sync", "--only", first]].concat());
    assert_eq!(again.status.code(), Some(1), "{}", text(&again));
    assert!(text(&again).contains(rules[0]), "{}", text(&again));
    assert!(text(&again).contains("  write 0: "), "{}", text(&again));
    let legend = "F2      A name leads to an inode whose bitmap bit is clear.";
    assert!(text(&again).contains(legend), "{}", text(&again));
}

#[test]
fn crash_prints_the_rules_of_the_contract() {
    let rules = ok(&["lab", "crash", "--rules"]);
    for label in ["F1", "F15", "A1", "A16", "G1", "G25", "X1", "X8", "S1", "S5", "C1", "C8", "RUN"]
    {
        assert!(rules.contains(&format!("\n{label:<8}")), "{label} in {rules}");
    }
    fails(&["lab", "crash", "--rules", "--json"], 64, "--rules");
}

#[test]
fn crash_prints_a_table_that_the_seed_decides() {
    let crash = |threads: &str| {
        let args = ["lab", "crash", "--ordering", "none", "--geometry", "ufs2-2m", "--random", "0"];
        let more = ["--length", "1", "--max-states", "400", "--threads", threads, "--json"];
        let output = crate::common::run(&[&args[..], &more].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        let mut found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for varies in ["seconds", "states_per_second", "states_per_cpu_second", "threads"] {
            assert!(found.as_object_mut().unwrap().remove(varies).is_some());
        }
        found
    };
    let one = crash("1");
    assert_eq!(one, crash("2"));
    assert!(one["rows"][0]["distinct"].as_u64().unwrap() >= 400, "{one}");
}

#[test]
fn crash_shrinks_what_breaks() {
    let d = Dir::new();
    let text = "mkdir /d\nchmod /d 700\ncreate /d/f\nappend /d/f 5000\nsync\nappend /d/f 9000\n\
                fsync /d/f\n";
    let file = d.file("own.crash", text.as_bytes());
    let args = ["lab", "crash", "--ordering", "sync", "--geometry", "ufs2-2m", "--workload", &file];
    let output = crate::common::run(&[&args[..], &["--shrink"]].concat());
    let out = crate::common::text(&output);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(
        out.contains("# ffs lab crash --ordering sync --workload FILE --only ufs2-2m/file:"),
        "{out}"
    );
    assert!(!out.contains("        chmod"), "irrelevant steps are removed: {out}");
}

#[test]
fn crash_refuses_what_it_does_not_understand() {
    let d = Dir::new();
    let file = d.file("own.crash", b"create /a\n  wrte /a 0 5\n");
    let fail = |args: &[&str], text: &str| fails(&[&["lab", "crash"], args].concat(), 64, text);
    let printed = fail(&["--workload", &file], "line 2, column 3");
    assert!(printed.contains("did you mean 'write'?"), "{printed}");
    fail(&["--workload", "/no/such/file"], "/no/such/file");
    fail(&["--geometry", "ufs2-2n"], "did you mean 'ufs2-2m'?");
    fail(&["--ordering", "snc"], "soft, suj, sync, none");
    fail(&["--only", "ufs2-2m/1.0"], "names no state");
    fail(&["--only", "ufs2-2m/1.0:0:p999"], "there is no state");
    let kinds = ["--length", "--random", "--directories", "--edges", "--chains", "--offline"];
    let none: Vec<&str> = kinds.into_iter().flat_map(|kind| [kind, "0"]).collect();
    fail(&none, "nothing to examine");
    fail(&["--length", "4"], "4");
}

#[test]
fn sweep_prints_a_line_for_each_value_and_writes_figures() {
    let d = Dir::new();
    let target = "sim:size=64,used=0,turnover=0";
    let args = ["lab", "sweep", "mh:count=200", "--target", target, "--over", "memory=16m,64m"];
    let out = d.str("figures");
    let printed =
        ok(&[&args[..], &["--curve", "none", "--curve", "su+dh", "--out", &out]].concat());
    let line = |at: &str| printed.lines().filter(|line| line.starts_with(at)).count();
    assert_eq!((line("memory"), line("16m"), line("64m")), (3, 3, 3), "{printed}");
    for name in ["create.svg", "create.csv", "pack.csv", "rm.csv"] {
        assert!(d.path("figures").join(name).is_file(), "{name}");
    }
    let lines = ok(&[&args[..], &["--json"]].concat());
    let values: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 3 * 2 * 2);
    assert_eq!((&values[0]["at"], &values[1]["curve"]), (&"16m".into(), &"su+dp+vm+dh".into()));
    let fail = |over: &str, text: &str| {
        fails(&["lab", "sweep", "mh:count=200", "--over", over], 64, text);
    };
    fail("memory", "NAME=V1,V2");
    fail("memory=16m,1m", "16m to 4g");
    fail("machine=nvme2018", "did you mean 'nvme2019'?");
}

#[test]
fn the_state_of_the_readme_exists() {
    let readme = include_str!("../../../../README.md");
    let line = readme.lines().find(|line| line.contains("lab crash --only")).unwrap();
    let state = line.split_whitespace().skip_while(|word| *word != "--only").nth(1).unwrap();
    assert!(include_str!("../../../../docs/lab/crash.md").contains(state));
    assert!(ok(&["lab", "crash", "--only", state]).contains("No rule is broken"));
}
