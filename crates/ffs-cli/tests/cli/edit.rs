//! `ffs edit`.

use crate::common::{Dir, ffs, fsck_clean, ok, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// Runs `ffs edit` with an editor that is a shell script; `$1` is the file to edit.
fn edit(d: &Dir, path: &str, script: &str) -> Output {
    let editor = d.path("editor");
    fs::write(&editor, format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = ffs();
    command.env_remove("VISUAL").env("EDITOR", &editor).env("TMPDIR", d.path("tmp"));
    command.args(["edit", path]).output().unwrap()
}

fn prepared(d: &Dir) -> (String, String) {
    fs::create_dir(d.path("tmp")).unwrap();
    let image = d.image("a.img", "16m", &["-U"]);
    let host = d.file("rc.conf", b"hostname=old\n");
    let path = format!("{image}:/rc.conf");
    ok(&["cp", &host, &path]);
    (image, path)
}

/// What is left in the directory for temporary files.
fn left(d: &Dir) -> Vec<std::path::PathBuf> {
    fs::read_dir(d.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_content_changes_and_nothing_else() {
    let d = Dir::new();
    let (image, path) = prepared(&d);
    ok(&["ln", &path, &format!("{image}:/other")]);
    ok(&["chmod", "640", &path]);
    ok(&["chown", "12:34", &path]);
    ok(&["chflags", "nodump", &path]);
    let attributes = || {
        let all = ok(&["stat", &path]);
        let is_kept = |line: &&str| {
            ["path", "mode", "flags", "inode", "birth"].iter().any(|w| line.contains(w))
        };
        all.lines().filter(is_kept).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = attributes();
    let script = "test \"$(basename \"$1\")\" = rc.conf\nsed -i s/old/new-and-longer/ \"$1\"";
    let done = edit(&d, &path, script);
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(ok(&["cat", &format!("{image}:/other")]), "hostname=new-and-longer\n");
    assert_eq!(attributes(), before);
    let done = edit(&d, &path, "printf x > \"$1\"");
    assert!(done.status.success() && ok(&["cat", &path]) == "x", "a shorter one");
    assert!(left(&d).is_empty(), "{:?}", left(&d));
    fsck_clean(Path::new(&image));
}

#[test]
fn nothing_changes_without_a_change_or_with_a_failed_editor() {
    let d = Dir::new();
    let (image, path) = prepared(&d);
    let before = fs::read(&image).unwrap();
    let done = edit(&d, &path, "true");
    assert!(done.status.success() && text(&done).contains("not changed"), "{}", text(&done));
    let done = edit(&d, &path, "echo more >> \"$1\"; exit 3");
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done).contains("nothing was changed"), "{}", text(&done));
    for (at, words) in
        [("/", "directory"), ("/no/file", "the parent directory"), (".snap", "/.snap")]
    {
        let done = edit(&d, &format!("{image}:{at}"), "echo >> \"$1\"");
        assert!(!done.status.success() && text(&done).contains(words), "{at}: {}", text(&done));
    }
    assert!(fs::read(&image).unwrap() == before);
    let done = edit(&d, &format!("{image}:/made"), "echo made > \"$1\"");
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(ok(&["cat", &format!("{image}:/made")]), "made\n");
}

#[test]
fn a_text_that_cannot_be_stored_is_kept_and_the_file_as_it_was() {
    let d = Dir::new();
    let (image, path) = prepared(&d);
    let program = assert_cmd::cargo::cargo_bin("ffs");
    let other = format!("'{}' chmod 600 '{path}'\necho mine > \"$1\"", program.display());
    let done = edit(&d, &path, &other);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done));
    assert!(text(&done).contains("has changed in the image"), "{}", text(&done));
    assert_eq!(ok(&["cat", &path]), "hostname=old\n");
    let kept = left(&d).pop().unwrap().join("rc.conf");
    assert!(text(&done).contains(kept.to_str().unwrap()), "{}", text(&done));
    assert_eq!(fs::read_to_string(&kept).unwrap(), "mine\n");
    fs::remove_dir_all(kept.parent().unwrap()).unwrap();

    // More than fits.
    let done = edit(&d, &path, "head -c 30000000 /dev/zero > \"$1\"");
    assert_eq!(done.status.code(), Some(1), "{}", text(&done));
    assert!(text(&done).contains("your text is in"), "{}", text(&done));
    assert_eq!(ok(&["cat", &path]), "hostname=old\n");
    let kept = left(&d).pop().unwrap().join("rc.conf");
    assert_eq!(fs::metadata(kept).unwrap().len(), 30_000_000);
    fsck_clean(Path::new(&image));
}

#[test]
fn a_signal_ends_the_editor_and_names_the_text() {
    let d = Dir::new();
    let (_, path) = prepared(&d);
    // The editor signals ffs, which is its parent or the parent of its shell.
    let script = "echo new > \"$1\"; ffs=$PPID\n\
                  grep -q '^Name:.ffs' /proc/$ffs/status || ffs=$(ps -o ppid= -p $ffs)\n\
                  kill -TERM $ffs; exec sleep 30";
    let begun = std::time::Instant::now();
    let done = edit(&d, &path, script);
    assert!(begun.elapsed().as_secs() < 20);
    assert_eq!(done.status.code(), Some(130), "{}", text(&done));
    let copies = left(&d);
    assert_eq!(copies.len(), 1);
    let copy = copies[0].join("rc.conf");
    assert!(
        text(&done).contains(&format!("your text is in {}", copy.display())),
        "{}",
        text(&done)
    );
    assert_eq!(fs::read(&copy).unwrap(), b"new\n");
    assert_eq!(ok(&["cat", &path]), "hostname=old\n");
}

#[test]
fn an_editor_ends_also_if_the_caller_has_blocked_its_signal() {
    let d = Dir::new();
    let (_, path) = prepared(&d);
    let program = assert_cmd::cargo::cargo_bin("ffs");
    let blocked = "--block-signal=CHLD";
    if !Command::new("env").args([blocked, "true"]).status().is_ok_and(|status| status.success()) {
        return println!("skipped: no env(1) with --block-signal");
    }
    let mut command = assert_cmd::Command::new("env");
    command.arg(blocked).arg(program).args(["edit", "-e", "echo new >", &path]);
    let done = command.timeout(Duration::from_secs(60)).output().unwrap();
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(ok(&["cat", &path]), "new\n");
}

/// Runs a script of `ffs shell` on standard input, in a session without a terminal, or with one.
fn script(command: &str, args: &[&str], script: &str) -> Option<Output> {
    let program = assert_cmd::cargo::cargo_bin("ffs");
    let found = Command::new(command).arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("skipped: no {command}");
        return None;
    }
    let mut command = assert_cmd::Command::new(command);
    command.args(args).arg(program).env_remove("VISUAL").env("EDITOR", "sh -c 'cat > \"$1\"' -");
    Some(command.write_stdin(script).timeout(Duration::from_secs(60)).output().unwrap())
}

#[test]
fn an_editor_does_not_read_the_script_that_runs_it() {
    let d = Dir::new();
    let (image, path) = prepared(&d);
    let place = format!("exec \"$0\" shell -w '{image}' -f -");
    let lines = "edit rc.conf\nmkdir /after\n";
    let Some(done) = script("setsid", &["-w", "sh", "-c", &place], lines) else { return };
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(ok(&["cat", &path]), "", "the editor had no input");
    assert_eq!(ok(&["ls", &image]), "after\nrc.conf\n");
    let place = format!("exec \"$0\" shell -w '{image}' -f /dev/stdin");
    let lines = "edit rc.conf\nrmdir /after\nmkdir /after\n";
    let done = script("setsid", &["-w", "sh", "-c", &place], lines).unwrap();
    assert!(done.status.success() && ok(&["cat", &path]).is_empty(), "{}", text(&done));
    // The input of a command that is no script is that of its editor.
    let mut alone = ffs();
    alone.args(["edit", "-e", "cat >", &path]).write_stdin("from a pipe\n");
    assert!(alone.output().unwrap().status.success());
    assert_eq!(ok(&["cat", &path]), "from a pipe\n");
    // With a terminal, the editor reads from that.
    let driver = d.file("driver.py", TERMINAL.as_bytes());
    let words = [&*driver, &image];
    let Some(done) = script("python3", &words, "") else { return };
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(ok(&["cat", &path]), "from the terminal\n");
    assert_eq!(ok(&["ls", &image]), "after\nlater\nrc.conf\n");
}

/// Runs a script of the shell with a terminal, on which a line is typed for the editor.
const TERMINAL: &str = r#"
import os, pty, sys
out, into = os.pipe()
os.write(into, b"edit rc.conf\nmkdir /later\n")
os.close(into)
pid, terminal = pty.fork()
if pid == 0:
    os.dup2(out, 0)
    os.execv(sys.argv[2], [sys.argv[2], "shell", "-w", sys.argv[1], "-f", "-"])
os.close(out)
os.write(terminal, b"from the terminal\n\x04")
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn an_editor_may_leave_a_pipe_or_a_directory() {
    let d = Dir::new();
    let (image, path) = prepared(&d);
    for script in ["rm \"$1\"; mkfifo \"$1\"", "rm \"$1\"; mkdir \"$1\""] {
        let output = edit(&d, &path, script);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains("not a regular file"), "{}", text(&output));
    }
    assert_eq!(ok(&["cat", &path]), "hostname=old\n");
    fsck_clean(Path::new(&image));
}

#[test]
fn the_editor_does_not_run_for_an_image_that_cannot_be_written() {
    let d = Dir::new();
    let (image, _) = prepared(&d);
    let Ok(done) = Command::new("gzip").arg(&image).status() else {
        return println!("skipped: gzip is not installed");
    };
    assert!(done.success());
    let path = format!("{image}.gz:/rc.conf");
    let refused = edit(&d, &path, &format!("touch {}", d.str("ran")));
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("--write"), "{}", text(&refused));
    assert!(!d.path("ran").exists());
}
