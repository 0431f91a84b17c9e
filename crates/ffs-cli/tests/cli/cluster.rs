//! The ready files of docs/lab/cluster: a study in parts, each a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Dir, ffs, ok};

/// A small study on the simulated machine: eight jobs.
const PLAN: &str =
    "mh:count=150 --factor su --factor dh --target sim:used=5,turnover=0.1 --replicates 2";
const PARTS: u32 = 3;
/// The calls of `aws s3` that the scripts use, on a directory.
const AWS: &str = r#"#!/bin/sh
set -eu
[ "$1" = s3 ]
shift
verb=$1
shift
[ "${1:-}" != --only-show-errors ] || shift
local_name() { case $1 in s3://*) echo "$FAKE_S3/${1#s3://}" ;; *) echo "$1" ;; esac; }
case $verb in
ls) [ -e "$(local_name "$1")" ] ;;
cp) mkdir -p "$(dirname "$(local_name "$2")")" && cp "$(local_name "$1")" "$(local_name "$2")" ;;
esac
"#;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/cluster").join(name)
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

/// One of the scripts, with the plan and the store.
fn script(name: &str, store: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg(file(name)).env("FFS", ffs().get_program()).env("FFS_PLAN", PLAN);
    command.env("FFS_STORE", store).env("FFS_PARTS", PARTS.to_string()).env("FFS_JOBS", "1");
    command.env_remove("FFS_PART").env_remove("SLURM_ARRAY_TASK_ID");
    command.env_remove("SLURM_SUBMIT_DIR").stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn succeeds(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {printed}", output.status);
    printed
}

/// Results and page of the study in one process.
fn whole(d: &Dir) -> [Vec<u8>; 2] {
    let out = d.str("unsharded");
    let words: Vec<&str> = ["lab", "run"].into_iter().chain(PLAN.split(' ')).collect();
    ok(&[&words[..], &["--out", &out]].concat());
    content(&out)
}

fn content(dir: &str) -> [Vec<u8>; 2] {
    ["results.jsonl", "report.html"].map(|name| std::fs::read(Path::new(dir).join(name)).unwrap())
}

#[test]
fn a_slurm_array_on_a_shared_directory_gives_the_bytes_of_one_run() {
    let d = Dir::new();
    let (store, merged) = (d.str("store"), d.str("merged"));
    let part = |part: u32| {
        let mut command = script("slurm.sh", &store);
        command.env_remove("FFS_PARTS").env("SLURM_ARRAY_TASK_COUNT", PARTS.to_string());
        command.env("SLURM_ARRAY_TASK_ID", part.to_string()).spawn().unwrap()
    };
    let parts: Vec<Child> = (1..=PARTS).map(part).collect();
    parts.into_iter().for_each(|part| drop(succeeds(part)));
    drop(succeeds(script("merge.sh", &store).arg(&merged).spawn().unwrap()));
    assert!(content(&merged) == whole(&d), "the merged study differs from an unsharded one");
}

#[test]
fn an_indexed_job_on_an_object_store_resumes_to_the_bytes_of_one_run() {
    let d = Dir::new();
    let (bucket, bin) = (d.str("bucket"), d.str("bin"));
    std::fs::create_dir(&bin).unwrap();
    let aws = Path::new(&bin).join("aws");
    std::fs::write(&aws, AWS).unwrap();
    make_executable(&aws);
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let on_store = |name: &str| {
        let mut command = script(name, "s3://studies/one");
        command.env("PATH", &path).env("FAKE_S3", &bucket).env("TMPDIR", d.0.path());
        command
    };
    let part = |index: u32| {
        on_store("part.sh").env("JOB_COMPLETION_INDEX", index.to_string()).spawn().unwrap()
    };
    let first = part(0);
    // The pod is evicted. How far it got does not matter.
    let _ = kill_process(Pid::from_child(&first), Signal::TERM);
    drop(first.wait_with_output().unwrap());
    let parts: Vec<Child> = (0..PARTS).map(part).collect();
    parts.into_iter().for_each(|part| drop(succeeds(part)));
    assert!(succeeds(part(1)).contains("are finished already"), "it begins with what is stored");
    let merged = d.str("merged");
    drop(succeeds(on_store("merge.sh").arg(&merged).spawn().unwrap()));
    assert!(content(&merged) == whole(&d), "the merged study differs from an unsharded one");
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_part_without_its_number_or_its_store_is_refused() {
    let d = Dir::new();
    for (missing, printed) in [("FFS_STORE", "no store"), ("FFS_PARTS", "no number of parts")] {
        let mut command = script("part.sh", &d.str("store"));
        let output = command.env("FFS_PART", "1").env_remove(missing).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(printed), "{missing}: {text}");
    }
    let output = script("part.sh", &d.str("store")).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no part"));
}

/// The number of parts in the files is one number.
#[test]
fn the_ready_files_agree_about_the_number_of_parts() {
    let job = text_of("job.yaml");
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key).map(str::to_owned));
        line.unwrap().trim().trim_matches('"').to_owned()
    };
    let parts = value(&job, "completions:");
    assert_eq!(value(&job, "parallelism:"), parts);
    for text in [&job, &text_of("merge.yaml")] {
        let after = text.split("FFS_PARTS\n").nth(1).unwrap();
        assert_eq!(value(after, "value:"), parts);
    }
    assert!(text_of("slurm.sh").contains(&format!("#SBATCH --array=1-{parts}\n")));
    assert!(!job.contains('\t') && !text_of("merge.yaml").contains('\t'), "YAML has no tabs");
}
