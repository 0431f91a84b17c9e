//! Calls that can be replayed, and calls that cannot.

use super::*;
use crate::systems::model::Model;
use crate::trace::path::TracePath;
use crate::trace::replay::Replay;
use crate::trace::{Op, text};

fn path(text: &str) -> TracePath {
    TracePath::parse(text.as_bytes()).unwrap()
}

/// A trace of these calls, each on a line of its own, from 2.
fn trace(is_complete: bool, have: Vec<Have>, ops: Vec<Op>) -> Trace {
    let calls = ops.into_iter().enumerate().map(|(at, op)| Call {
        line: at + 2,
        at: at as u64 * 1000,
        took: 100,
        pid: 1,
        op,
        error: None,
    });
    Trace { source: "t".to_owned(), is_complete, have, calls: calls.collect(), ..Trace::default() }
}

fn refused(ops: Vec<Op>) -> String {
    Program::of(&trace(true, Vec::new(), ops)).unwrap_err().to_string()
}

/// Replays on the model, which stops at a call that cannot succeed. Returns the names of calls.
fn replay(program: &Program) -> Model {
    use crate::systems::Target;
    let mut model = Model::default();
    let root = model.begin(program.demand).unwrap();
    let mut replay = Replay::new(root, program, 0.0);
    replay.prepare(&mut model, program, &mut || Ok(())).unwrap();
    replay.run(&mut model, program, &mut || Ok(())).unwrap();
    assert_eq!(model.leaks(), (0, 0));
    model
}

fn open(name: &str, file: u64, how: How) -> Op {
    Op::Open { path: path(name), file, how }
}

#[test]
fn calls_that_cannot_succeed_are_named_with_their_line() {
    assert!(refused(vec![Op::Mkdir(path("a")), Op::Mkdir(path("a/b/c"))]).contains("t: line 3: "));
    assert!(refused(vec![Op::Unlink(path("a"))]).contains("line 2: \"a\" does not exist"));
    assert!(refused(vec![Op::Mkdir(path("a")), Op::Mkdir(path("a"))]).contains("exists already"));
    assert!(refused(vec![Op::Mkdir(path("a")), Op::Unlink(path("a"))]).contains("a directory"));
    assert!(refused(vec![Op::Close(7)]).contains("file 7 is not open"));
    let twice = vec![open("f", 1, How::Create), open("f", 1, How::Read)];
    assert!(refused(twice).contains("file 1 is open already"));
    let below = Op::Rename { path: path("a"), to: path("a/b") };
    assert!(refused(vec![Op::Mkdir(path("a")), below]).contains("cannot be moved"));
    let full = vec![Op::Mkdir(path("a")), Op::Mkdir(path("a/b")), Op::Rmdir(path("a"))];
    assert!(refused(full).contains("line 4: \"a\" is not empty"));
    let no_dir = vec![open("f", 1, How::Create), Op::Mkdir(path("f/d"))];
    assert!(refused(no_dir).contains("no directory"));
}

#[test]
fn directories_keep_their_files_when_they_move() {
    let ops = vec![
        Op::Mkdir(path("a")),
        open("a/f", 1, How::CreateNew),
        Op::Rename { path: path("a"), to: path("b") },
        Op::Write { file: 1, offset: 0, len: 10 },
        open("b/g", 2, How::CreateNew),
        Op::Mkdir(path("c")),
        Op::Rename { path: path("b"), to: path("c") },
        Op::Stat(path("c/f")),
        Op::Unlink(path("c/f")),
        Op::Write { file: 1, offset: 10, len: 5 },
        Op::Close(1),
        Op::Close(2),
        Op::Symlink { path: path("l"), text: b"c".to_vec() },
        Op::Stat(path("l/g")),
        Op::Readlink(path("l")),
        Op::Link { path: path("c/g"), to: path("h") },
        Op::List(path("c")),
    ];
    let program = Program::of(&trace(true, Vec::new(), ops)).unwrap();
    assert_eq!(program.calls(), 17);
    assert_eq!(program.demand, Demand { files: 4, bytes: 15 });
    let model = replay(&program);
    assert_eq!((model.count("rename"), model.count("unlink"), model.count("symlink")), (2, 1, 1));
}

#[test]
fn what_a_program_needs_is_there_before_it_begins() {
    let ops = vec![
        Op::Stat(path("src")),
        open("src/a.c", 1, How::Read),
        Op::Read { file: 1, offset: 0, len: 4096 },
        Op::Read { file: 1, offset: 4096, len: 100 },
        Op::Close(1),
        Op::Readlink(path("link")),
        Op::Rename { path: path("src"), to: path("old") },
        open("old/b.c", 2, How::Read),
        Op::Close(2),
        open("new", 3, How::CreateNew),
        Op::Close(3),
        Op::Unlink(path("new")),
        // Another process must have made it.
        open("new", 4, How::Read),
        Op::Close(4),
    ];
    let program = Program::of(&trace(false, Vec::new(), ops)).unwrap();
    let sizes: Vec<u64> = program
        .given
        .iter()
        .filter_map(|given| match given {
            Given::File(_, size) => Some(*size),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [4196, 0], "a.c and b.c");
    assert_eq!(program.left_out.values().sum::<u64>(), 2, "{:?}", program.left_out);
    let model = replay(&program);
    assert_eq!(model.count("readlink"), 1);
}

#[test]
fn a_lookup_that_failed_is_made_and_other_failures_are_counted() {
    let mut all = trace(true, Vec::new(), vec![Op::Stat(path("a/b")), Op::Mkdir(path("c"))]);
    all.calls[0].error = Some("ENOENT".to_owned());
    all.calls[1].error = Some("EACCES".to_owned());
    let program = Program::of(&all).unwrap();
    assert_eq!(program.steps.len(), 1);
    assert_eq!(
        program.left_out.keys().collect::<Vec<_>>(),
        ["calls of mkdir that failed with EACCES"]
    );
    assert_eq!(replay(&program).count("stat"), 1);
}

#[test]
fn the_time_between_calls_is_the_gap_of_a_step() {
    let program =
        Program::of(&trace(true, Vec::new(), vec![Op::Sync, Op::Sync, Op::Sync])).unwrap();
    let gaps: Vec<u64> = program.steps.iter().map(|step| step.gap).collect();
    assert_eq!(gaps, [0, 900, 900]);
}

#[test]
fn a_trace_is_the_same_after_it_was_written_and_read() {
    let have = vec![
        Have::Dir(path("d")),
        Have::File(TracePath::parse(b"d/\xff\\").unwrap(), 9),
        Have::Link(path("l"), b"d/\xfe".to_vec()),
    ];
    let ops = vec![
        Op::Stat(path("x")),
        open("f", 1, How::Truncate),
        Op::Read { file: 1, offset: 3, len: 4 },
        Op::Write { file: 1, offset: 5, len: 6 },
        Op::Fsync(1),
        Op::Ftruncate { file: 1, size: 7 },
        Op::Close(1),
        Op::Truncate { path: path("f"), size: 8 },
        Op::Mkdir(path("m")),
        Op::Rmdir(path("m")),
        Op::Rename { path: path("f"), to: path("g") },
        Op::Link { path: path("g"), to: path("h") },
        Op::Symlink { path: path("s"), text: b"g".to_vec() },
        Op::Readlink(path("s")),
        Op::List(TracePath::root()),
        Op::Chmod { path: path("g"), mode: 0o4755 },
        Op::Times { path: path("g"), seconds: 10 },
        Op::Unlink(path("g")),
        Op::Sync,
        Op::Other("mmap".to_owned()),
    ];
    let mut all = trace(true, have, ops);
    all.tree = Some(TreeSum { dirs: 1, files: 2, links: 3, bytes: 4, sum: 5 });
    // Lines are counted from the header.
    let first = 2 + all.have.len();
    all.calls.iter_mut().enumerate().for_each(|(at, call)| call.line = first + at);
    all.calls[0].error = Some("ENOENT".to_owned());
    let written = text::write(&all);
    assert_eq!(text::parse(written.as_bytes()).unwrap(), all);
}

/// Each line is damaged in turn; each damage is an error with its line, or another trace.
#[test]
fn malformed_lines_are_named() {
    let good = [
        r#"{"ffs-trace":1,"from":"x","complete":true}"#,
        r#"{"have":"file","path":"a","size":3}"#,
        r#"{"call":"open","t":1,"pid":1,"path":"a","file":1,"how":"read"}"#,
        r#"{"call":"close","t":2,"pid":1,"file":1}"#,
        r#"{"end":{"dirs":0,"files":1,"links":0,"bytes":3,"sum":1}}"#,
    ];
    let parse = |at: usize, line: &str| {
        let mut lines = good.map(str::to_owned);
        lines[at] = line.to_owned();
        text::parse(format!("{}\n", lines.join("\n")).as_bytes())
    };
    assert!(parse(0, good[0]).is_ok());
    for (at, line, why) in [
        (0, r#"{"ffs-trace":2}"#, "version 1"),
        (0, r#"{"ffs-trace":1,"pid":3}"#, "expected the members"),
        (0, good[1], "version 1"),
        (1, r#"{"have":"pipe","path":"a"}"#, "expected dir, file or link"),
        (1, r#"{"have":"file","path":"a"}"#, "size is missing"),
        (1, r#"{"have":"file","path":"../a","size":3}"#, "'..'"),
        (1, r#"{"have":"file","path":"/a","size":3}"#, "empty"),
        (1, r#"{"have":"dir","path":"a","size":3}"#, "does not belong"),
        (1, r#"{"have":"file","path":"a","size":1099511627777}"#, "at most"),
        (1, r#"{"have":"file","path":"a","size":-1}"#, "line 2"),
        (2, r#"{"call":"opn","t":1,"pid":1}"#, "unknown call 'opn'"),
        (2, r#"{"call":"open","pid":1,"path":"a","file":1,"how":"read"}"#, "t is missing"),
        (2, r#"{"call":"open","t":1,"path":"a","file":1,"how":"read"}"#, "pid is missing"),
        (2, r#"{"call":"open","t":1,"pid":1,"path":"a","file":1,"how":"rad"}"#, "create-new"),
        (2, r#"{"call":"open","t":1,"pid":1,"path":"a\\q","file":1,"how":"read"}"#, "xHH"),
        (2, r#"{"call":"sync","t":1,"pid":1,"error":"oops"}"#, "such as ENOENT"),
        (2, r#"{"call":"sync","t":1,"pid":1,"have":"dir"}"#, "one of the members"),
        (2, r#"{"call":"chmod","t":1,"pid":1,"path":"a","mode":4096}"#, "4095"),
        (2, r#"{"call":"read","t":1,"pid":1,"file":1,"offset":0,"len":4294967296}"#, "at most"),
        (2, r#"{"call":"sync","t":1,"pid":1,"unknown":1}"#, "unknown field"),
        (2, "{", "line 3"),
        (2, "", "line 3"),
        (3, good[1], "comes too late"),
        (4, r#"{"end":{"dirs":0}}"#, "line 5"),
        (4, r#"{"end":{"dirs":0,"files":1,"links":0,"bytes":3,"sum":1},"t":1}"#, "alone"),
    ] {
        let error = parse(at, line).unwrap_err();
        assert!(
            error.contains(why) && error.contains(&format!("line {}", at + 1)),
            "{line}: {error}"
        );
    }
    let truncated = format!("{}\n{}", good[0], &good[2][..20]);
    assert!(text::parse(truncated.as_bytes()).unwrap_err().contains("line 2: is incomplete"));
    assert!(text::parse(b"").unwrap_err().contains("ffs-trace"));
    let open_end = text::parse(format!("{}\n", good[..3].join("\n")).as_bytes()).unwrap();
    assert_eq!(open_end.left_out.len(), 1, "the recording was interrupted");
}
