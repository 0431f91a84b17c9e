//! Studies whose process ends early, at points drawn from a seed: a second run of the command gives
//! the same bytes as an undisturbed study. The point of a kill differs from run to run; the
//! assertions do not depend on it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ffs_testkit::rng::SplitMix64;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Dir, ffs, ok, run, text};

/// Rounds of killing.
const ROUNDS: u64 = 14;
/// Bytes in which the shell counts the size of files.
const BLOCK: u64 = 512;

/// Sixteen short jobs on a volume that is quickly made.
fn study(out: &str) -> Vec<String> {
    let words = "lab run mh:count=60 bonnie:n=1,data=0 --factor su --factor dh --replicates 2 \
                 --jobs 1 \
                 --target sim:size=64,used=5,turnover=0.1 --out";
    words.split_whitespace().chain([out]).map(str::to_owned).collect()
}

/// Every file below `dir` with its bytes, by name.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                found.push((path.strip_prefix(dir).unwrap().display().to_string(), bytes));
            }
        }
    }
    found.sort();
    found
}

fn bytes_below(dir: &Path) -> u64 {
    files(dir).iter().map(|(_, bytes)| bytes.len() as u64).sum()
}

fn assert_same(dir: &Path, whole: &[(String, Vec<u8>)], when: &str) {
    let found = files(dir);
    let names = |all: &[(String, Vec<u8>)]| all.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&found), names(whole), "{when}");
    for (mine, theirs) in found.iter().zip(whole) {
        assert!(mine.1 == theirs.1, "{when}: {} differs", mine.0);
    }
}

/// Runs the study and kills it when it has written so many bytes. Whether it was killed before its
/// end.
fn killed_at(out: &str, bytes: u64) -> bool {
    let mut child = Command::new(ffs().get_program())
        .args(study(out))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while bytes_below(Path::new(out)) < bytes && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = kill_process(Pid::from_child(&child), Signal::KILL);
    !child.wait().unwrap().success()
}

#[test]
fn a_study_killed_at_drawn_points_resumes_to_the_same_results_and_report() {
    let d = Dir::new();
    ok(&study(&d.str("whole")));
    let whole = files(&d.path("whole"));
    let (out, all) = (d.str("killed"), bytes_below(&d.path("whole")));
    let results = whole.iter().find(|f| f.0 == "results.jsonl").unwrap().1.len() as u64;
    let mut rng = SplitMix64::new(2002);
    let mut kills = 0;
    for round in 0..ROUNDS {
        let before = bytes_below(Path::new(&out));
        // Among the jobs, or while the report is written.
        let end = if round % 3 == 2 { all } else { results };
        let point = before + 1 + rng.below(end.saturating_sub(before).clamp(1, end / 4));
        if killed_at(&out, point) {
            kills += 1;
        } else {
            assert_same(Path::new(&out), &whole, "not killed");
            fs::remove_dir_all(&out).unwrap();
        }
    }
    assert!(kills > 0, "no process was killed before its end");
    ok(&study(&out));
    assert_same(Path::new(&out), &whole, &format!("after {kills} kills"));
}

/// Runs the study in a shell that limits files to `blocks`. A larger write kills the process or, if
/// it `ignores_signal`, fails as on a full disk.
fn limited(out: &str, blocks: u64, ignores_signal: bool, elsewhere: &Path) -> Output {
    let trap = if ignores_signal { "trap '' XFSZ; " } else { "" };
    let script = format!("{trap}ulimit -c 0; ulimit -f {blocks} && exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg(ffs().get_program()).args(study(out));
    shell.env("TMPDIR", elsewhere).output().unwrap()
}

#[test]
fn a_study_killed_in_the_middle_of_a_line_or_a_page_resumes_to_the_same_bytes() {
    let d = Dir::new();
    ok(&study(&d.str("whole")));
    let whole = files(&d.path("whole"));
    let longest = whole.iter().map(|f| f.1.len() as u64).max().unwrap() / BLOCK;
    let out = d.str("limited");
    let mut rng = SplitMix64::new(1996);
    // Ever later, the last time in the longest file.
    let points = [1, 1 + rng.below(12), 13 + rng.below(30), longest - rng.below(longest / 8)];
    for blocks in points {
        let ended = limited(&out, blocks, false, d.0.path());
        assert!(!ended.status.success(), "{blocks} blocks: {}", text(&ended));
    }
    ok(&study(&out));
    assert_same(Path::new(&out), &whole, "after writes beyond the limit");
}

/// Bytes of the longest file that is not the page.
fn longest_but_page(whole: &[(String, Vec<u8>)]) -> u64 {
    let others = whole.iter().filter(|f| f.0 != "report.html");
    others.map(|f| f.1.len() as u64).max().unwrap()
}

#[test]
fn a_full_disk_loses_no_finished_job_and_what_is_kept_elsewhere_is_joined() {
    let d = Dir::new();
    ok(&study(&d.str("whole")));
    let whole = files(&d.path("whole"));
    let (out, elsewhere) = (d.str("full"), d.path("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    let ended = limited(&out, 24, true, &elsewhere);
    let printed = text(&ended);
    assert_eq!(ended.status.code(), Some(1), "{printed}");
    let rescued: Vec<_> = fs::read_dir(&elsewhere).unwrap().flatten().map(|e| e.path()).collect();
    let [rescued] = rescued.as_slice() else { panic!("{rescued:?}: {printed}") };
    let rescued = rescued.to_str().unwrap();
    assert!(printed.contains(&format!("ffs lab merge {rescued} -o {out}")), "{printed}");
    // Some jobs are still missing.
    let joined = run(&["lab", "merge", rescued, "-o", &out]);
    assert_eq!(joined.status.code(), Some(1), "{}", text(&joined));
    let again = run(&study(&out));
    assert!(
        again.status.success() && text(&again).contains("finished already"),
        "{}",
        text(&again)
    );
    assert_same(Path::new(&out), &whole, "after a full disk");
    // The limit has space for the results, and none for the page.
    let page = d.str("page");
    let ended = limited(&page, longest_but_page(&whole) / BLOCK + 1, true, &elsewhere);
    let printed = text(&ended);
    assert_eq!(ended.status.code(), Some(1), "{printed}");
    assert!(printed.contains("all jobs are in") && !Path::new(&page).join("report.html").exists());
    ok(&["lab", "report", &page]);
    assert_same(Path::new(&page), &whole, "after the page did not fit");
}
