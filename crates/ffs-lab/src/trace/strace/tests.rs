//! Output of strace, from a real program and made up.

use super::*;
use crate::trace::resolve::Program;
use crate::trace::{How, Op, parse as parse_any};

fn options(cwd: &str) -> ReadOptions {
    ReadOptions { cwd: Some(cwd.to_owned()), ..ReadOptions::default() }
}

fn ops(text: &str) -> Vec<Op> {
    let trace = parse(text.as_bytes(), &options("/w")).unwrap();
    trace.calls.into_iter().map(|call| call.op).collect()
}

fn words(text: &str) -> Vec<String> {
    ops(text).iter().map(|op| format!("{op:?}")).collect()
}

#[test]
fn descriptors_are_followed_through_dup_fork_and_exec() {
    let text = r#"10 1.000000 openat(AT_FDCWD, "a", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3
10 1.000001 openat(AT_FDCWD, "b", O_RDONLY|O_CLOEXEC) = 4
10 1.000002 write(3, "x"..., 100) = 100
10 1.000003 dup2(3, 7) = 7
10 1.000004 close(3) = 0
10 1.000005 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>
11 1.000006 write(7, "y"..., 50) = 50
10 1.000007 <... clone resumed>) = 11
11 1.000008 execve("/bin/x", ["x"], 0x7 /* 3 vars */) = 0
11 1.000009 +++ exited with 0 +++
10 1.000010 write(7, "z", 1) = 1
10 1.000011 lseek(7, 10, SEEK_SET) = 10
10 1.000012 pwrite64(7, "q", 1, 500) = 1
10 1.000013 read(7, "", 5) = 5
10 1.000014 +++ exited with 0 +++
"#;
    let expected = [
        r#"Open { path: "a", file: 1, how: Truncate }"#,
        r#"Open { path: "b", file: 2, how: Read }"#,
        "Write { file: 1, offset: 0, len: 100 }",
        "Write { file: 1, offset: 100, len: 50 }",
        "Write { file: 1, offset: 150, len: 1 }",
        "Write { file: 1, offset: 500, len: 1 }",
        "Read { file: 1, offset: 10, len: 5 }",
    ];
    let found = words(text);
    assert_eq!(found[..expected.len()], expected);
    assert_eq!(found.len(), expected.len() + 2, "both files are closed at the end: {found:?}");
}

#[test]
fn paths_are_those_of_directories_and_of_the_process() {
    let text = r#"5 1.0 openat(AT_FDCWD, "/w/d", O_RDONLY|O_DIRECTORY) = 3
5 1.0 getdents64(3, 0x1 /* 3 entries */, 32768) = 80
5 1.0 getdents64(3, 0x1 /* 0 entries */, 32768) = 0
5 1.0 unlinkat(3, "f", 0) = 0
5 1.0 unlinkat(AT_FDCWD, "d", AT_REMOVEDIR) = 0
5 1.0 chdir("sub") = 0
5 1.0 mkdir("../other/./e", 0777) = 0
5 1.0 rename("g", "/w/h") = 0
5 1.0 stat("/etc/passwd", {st_mode=S_IFREG|0644, st_size=10, ...}) = 0
5 1.0 symlink("text", "l\303\274") = 0
5 1.0 chmod("x", 0640) = 0
5 1.0 utimensat(AT_FDCWD, "x", [{tv_sec=1, tv_nsec=0}, {tv_sec=1000, tv_nsec=5} /* b */], 0) = 0
5 1.0 access("no", F_OK) = -1 ENOENT (No such file or directory)
5 1.0 openat(AT_FDCWD, "plain", O_RDONLY) = 4
5 1.0 getdents64(4, 0x1 /* 2 entries */, 32768) = 48
"#;
    let expected = [
        r#"Stat("d")"#,
        r#"List("d")"#,
        r#"Unlink("d/f")"#,
        r#"Rmdir("d")"#,
        r#"Mkdir("other/e")"#,
        r#"Rename { path: "sub/g", to: "h" }"#,
        r#"Symlink { path: "sub/l\xc3\xbc", text: [116, 101, 120, 116] }"#,
        r#"Chmod { path: "sub/x", mode: 416 }"#,
        r#"Times { path: "sub/x", seconds: 1000 }"#,
        r#"Stat("sub/no")"#,
        r#"Stat("sub/plain")"#,
        r#"List("sub/plain")"#,
    ];
    assert_eq!(words(text), expected);
    let trace = parse(text.as_bytes(), &options("/w")).unwrap();
    assert_eq!(trace.left_out.values().sum::<u64>(), 1, "/etc/passwd");
    assert_eq!(trace.calls[9].error.as_deref(), Some("ENOENT"));
    assert!(!Program::of(&trace).unwrap().given.is_empty());
}

#[test]
fn appends_and_copies_have_offsets() {
    let text = r#"1.0 stat("log", {st_mode=S_IFREG|0644, st_size=1000, ...}) = 0
1.0 openat(AT_FDCWD, "log", O_WRONLY|O_APPEND) = 3
1.0 write(3, "a", 10) = 10
1.0 write(3, "a", 10) = 10
1.0 openat(AT_FDCWD, "copy", O_WRONLY|O_CREAT|O_EXCL, 0600) = 4
1.0 openat(AT_FDCWD, "from", O_RDONLY) = 5
1.0 copy_file_range(5, NULL, 4, NULL, 9000, 0) = 300
1.0 sendfile(4, 5, [0] => [100], 100) = 100
1.0 fallocate(4, 0, 0, 100) = 0
"#;
    let found = ops(text);
    assert_eq!(found[2], Op::Write { file: 1, offset: 1000, len: 10 });
    assert_eq!(found[3], Op::Write { file: 1, offset: 1010, len: 10 });
    assert!(matches!(found[4], Op::Open { how: How::CreateNew, .. }));
    assert_eq!(found[6], Op::Read { file: 3, offset: 0, len: 300 });
    assert_eq!(found[7], Op::Write { file: 2, offset: 0, len: 300 });
    assert_eq!(found[8], Op::Read { file: 3, offset: 0, len: 100 });
    assert_eq!(found[9], Op::Write { file: 2, offset: 300, len: 100 });
}

#[test]
fn malformed_lines_are_named() {
    let begin = "1 1.5 close(3) = 0\n";
    for (line, why) in [
        ("nonsense", "line 2: expected a time"),
        ("1 15 close(3) = 0", "line 2: expected a time"),
        ("1 1.5 close(3)", "line 2: expected '= RESULT'"),
        ("1 1.5 <... read resumed>) = 0", "line 2: 'read' resumes"),
        ("1 1.5 chmod(\"x\", 9) = 0", "line 2: mode '9'"),
        ("1 1.5 pread64(3, \"\", 1, x) = 0", "line 2: argument 'x'"),
        ("1 1.5 mkdir(0x1234, 0777) = 0", "line 2: expected a path"),
    ] {
        let error = parse(format!("{begin}{line}\n").as_bytes(), &options("/")).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
    let bytes = [begin.as_bytes(), b"1 1.5 open(\"\xff\", 0) = 3\n"].concat();
    assert!(parse(&bytes, &options("/")).unwrap_err().contains("line 2: "));
    assert!(parse(b"", &options("w")).unwrap_err().contains("absolute"));
    assert!(parse_any(begin.as_bytes(), &ReadOptions::default()).is_ok(), "the format is found");
}

/// Bytes that are no output of strace give an error or a trace, and never a panic.
#[test]
fn damaged_output_never_panics() {
    use ffs_device::{Rng, SplitMix64};
    let good = r#"10 1.000000 openat(AT_FDCWD, "a\"\303", O_RDWR|O_CREAT, 0644) = 3 <0.1>
10 1.000005 clone(flags=SIGCHLD <unfinished ...>
11 1.000006 utimensat(3, NULL, [{tv_sec=1} /* x */, {tv_sec=2}], 0) = 50
10 1.000007 <... clone resumed>) = 11
10 1.000011 lseek(7, 10, SEEK_SET) = 10
"#;
    let seed = 17;
    println!("seed {seed}");
    let rng = SplitMix64::new(seed);
    for _ in 0..20_000 {
        let mut bytes = good.as_bytes().to_vec();
        for _ in 0..=rng.next_u64() % 4 {
            let at = (rng.next_u64() % bytes.len().max(1) as u64) as usize;
            if bytes.is_empty() {
                break;
            }
            match rng.next_u64() % 3 {
                0 => bytes[at] = (rng.next_u64() % 128) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at + 1),
            }
        }
        if let Ok(trace) = parse(&bytes, &options("/w")) {
            let _ = Program::of(&trace);
        }
    }
}
