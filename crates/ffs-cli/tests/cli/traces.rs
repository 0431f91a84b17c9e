//! `ffs lab record` and `ffs lab replay`: programs recorded on a mount, traced by strace, described
//! by fio; replayed on the library, the machine of 2002 and a directory.

use std::path::Path;
use std::process::Command;

use crate::common::{Dir, fails, ok, run, text};

/// The targets of a replay besides a directory.
const SIM: &str = "sim:softdep,used=5,turnover=0.1";

/// Whether this machine can mount; prints why not.
fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
    if !can {
        println!("skipped: needs /dev/fuse and root");
    }
    can
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: no {program}");
    }
    found
}

/// Records a command of the shell. Returns the path of the trace.
fn record(d: &Dir, name: &str, script: &str) -> String {
    let out = d.str(name);
    let printed = ok(&["lab", "record", "--out", &out, "--", "sh", "-e", "-c", script]);
    assert!(printed.contains(&format!("{out}: ")), "{printed}");
    out
}

/// Replays a trace on all kinds of targets; its tree must be the recorded one on each.
fn same_tree_everywhere(d: &Dir, trace: &str) {
    let here = d.str("here");
    std::fs::create_dir_all(&here).unwrap();
    let printed = ok(&[
        "lab",
        "replay",
        trace,
        "--target",
        "core",
        "--target",
        "core:sync",
        "--target",
        SIM,
        "--target",
        &here,
    ]);
    assert_eq!(printed.matches("the tree is as recorded").count(), 4, "{printed}");
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_recorded_tar_leaves_the_same_tree_on_every_target() {
    let d = Dir::new();
    if !can_mount() || !has("tar") {
        return;
    }
    let tree = d.path("tree");
    std::fs::create_dir_all(tree.join("sub/deep")).unwrap();
    for (name, size) in [("a", 0), ("b", 5000), ("sub/c", 100_000), ("sub/deep/d", 1)] {
        std::fs::write(tree.join(name), vec![b'x'; size]).unwrap();
    }
    std::os::unix::fs::symlink("a", tree.join("sub/link")).unwrap();
    std::fs::hard_link(tree.join("b"), tree.join("sub/b2")).unwrap();
    let archive = d.str("t.tar");
    let mut tar = Command::new("tar");
    let made = tar.args(["-cf", &archive, "-C"]).arg(d.0.path()).arg("tree").status().unwrap();
    assert!(made.success());
    let script = format!("tar xf {archive} && mv tree moved && rm moved/a && ls -lR > list");
    let trace = record(&d, "tar.trace", &script);
    let lines = std::fs::read_to_string(&trace).unwrap();
    assert!(lines.starts_with("{\"ffs-trace\":1,\"from\":\"sh -e -c tar xf"), "{lines}");
    assert!(lines.contains(r#""path":"tree","to":"moved""#), "{lines}");
    assert!(!lines.contains("xxxx"), "no content");
    same_tree_everywhere(&d, &trace);
    fails(&["lab", "record", "--out", &trace, "--", "true"], 1, "exists already");
}

#[test]
fn a_recorded_build_leaves_the_same_tree_on_every_target() {
    let d = Dir::new();
    if !can_mount() || !has("gcc") || !has("make") {
        return;
    }
    let source = "int f(void); int main(void) { return f(); }\n";
    d.file("main.c", source.as_bytes());
    d.file("f.c", b"int f(void) { return 0; }\n");
    let rules = b"prog: main.o f.o\n\tgcc -pipe -o $@ main.o f.o\n%.o: %.c\n\tgcc -pipe -c $<\n";
    d.file("Makefile", rules);
    let from = d.0.path().display();
    let script =
        format!("cp {from}/main.c {from}/f.c {from}/Makefile . && make && ./prog && rm *.o");
    same_tree_everywhere(&d, &record(&d, "make.trace", &script));
}

#[test]
fn a_recording_begins_with_what_the_image_had() {
    let d = Dir::new();
    if !can_mount() {
        return;
    }
    let (tree, image) = (d.path("tree"), d.str("i.img"));
    std::fs::create_dir_all(tree.join("old")).unwrap();
    std::fs::write(tree.join("old/f"), [7; 3000]).unwrap();
    ok(&["build", "--free", "8m", &image, tree.to_str().unwrap()]);
    let out = d.str("t.trace");
    let words = ["lab", "record", "--image", &image, "--out", &out, "--", "sh", "-c"];
    let output = run(&[&words[..], &["cat old/f > new; mv old older; exit 3"]].concat());
    assert_eq!(output.status.code(), Some(3), "the exit code is the program's: {}", text(&output));
    let lines = std::fs::read_to_string(&out).unwrap();
    assert!(lines.contains(r#"{"have":"file","path":"old/f","size":3000}"#), "{lines}");
    same_tree_everywhere(&d, &out);
    assert!(ok(&["ls", &format!("{image}:/")]).contains("older"), "the image is changed");
}

#[test]
fn output_of_strace_is_replayed() {
    let d = Dir::new();
    if !has("strace") {
        return;
    }
    let work = d.path("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("in"), [1; 9000]).unwrap();
    let out = d.str("s.strace");
    let script = "mkdir m && cp in m/copy && mv m n && cat n/copy >> log && ls n && rm in";
    let traced = Command::new("strace")
        .args(["-f", "-ttt", "-o", &out, "sh", "-e", "-c", script])
        .current_dir(&work)
        .status();
    if !traced.is_ok_and(|status| status.success()) {
        println!("skipped: strace may not trace here");
        return;
    }
    let cwd = work.to_str().unwrap();
    let here = d.str("here");
    std::fs::create_dir(&here).unwrap();
    let printed = ok(&[
        "lab", "replay", &out, "--cwd", cwd, "--target", "core", "--target", SIM, "--target", &here,
    ]);
    assert!(printed.contains("calls made"), "{printed}");
    assert!(printed.contains("paths outside of the root"), "libraries are left out: {printed}");
}

#[test]
fn a_trace_is_a_workload_of_studies_and_comparisons() {
    let d = Dir::new();
    let job = d.file("mix.fio", b"[mix]\nrw=randrw\nbs=4k\nsize=256k\nnrfiles=4\nfsync=8\n");
    let printed = ok(&["lab", "replay", &job, "--target", "core", "--target", SIM]);
    assert!(printed.contains("calls made"), "{printed}");
    let rows = ok(&["lab", "replay", &job, "--json"]);
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(row["workload"], "trace");
    let out = d.str("study");
    let workload = format!("trace:file={job}");
    let study = ["lab", "run", &workload, "--factor", "su", "--replicates", "2", "--out", &out];
    ok(&[&study[..], &["--target", "sim:used=5,turnover=0.1"]].concat());
    assert!(Path::new(&out).join("report.html").exists());
    assert!(ok(&["lab", "compare", "trace", "--rounds", "1"]).contains("replay"));
    let slow = ok(&["lab", "replay", &job, "--target", SIM, "--think", "100", "--json"]);
    assert!(slow.contains("\"result\":\"replay\""), "{slow}");
}

#[test]
fn malformed_traces_are_refused_with_their_line() {
    let d = Dir::new();
    let refused = |name: &str, content: &str, code: i32, words: &str| {
        let path = d.file(name, content.as_bytes());
        let printed = fails(&["lab", "replay", &path], code, words);
        assert!(printed.contains(&path), "{printed}");
    };
    let head = "{\"ffs-trace\":1,\"from\":\"x\",\"complete\":true}\n";
    refused(
        "a",
        &format!("{head}{{\"call\":\"close\",\"t\":1,\"pid\":1}}\n"),
        1,
        "line 2: the member file",
    );
    let close = "{\"call\":\"close\",\"t\":1,\"pid\":1,\"file\":3}\n";
    refused("b", &format!("{head}{close}"), 64, "line 2: file 3 is not open");
    refused("c", "1 1.5 close(3) = 0\nnonsense\n", 1, "line 2: expected a time");
    refused("d", "[job]\nrw=write\nsize=1m\nioengine=io_uring\n", 1, "line 4: option 'ioengine");
    fails(&["lab", "replay", &d.str("none")], 1, "none");
    fails(&["lab", "record", "--", "true"], 64, "--out");
}
