//! `ffs shell`.

use crate::common::{Dir, fails, ffs, fsck_clean, ok, run, text};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a script on standard input.
fn piped(args: &[&str], script: &str) -> Output {
    ffs().arg("shell").args(args).write_stdin(script).output().unwrap()
}

/// As [`piped`]; the script must succeed. Returns what it printed.
fn done(args: &[&str], script: &str) -> String {
    let output = piped(args, script);
    assert!(output.status.success(), "{script}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// As [`piped`]; the script must end with `code` and a message with `words`.
fn ends(args: &[&str], script: &str, code: i32, words: &str) -> String {
    let output = piped(args, script);
    assert_eq!(output.status.code(), Some(code), "{script}: {}", text(&output));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains(words), "{script}: {words:?} is not in: {stderr}");
    stderr
}

/// Commands with `@` in front of each path of the image, and `$` in front of each of the host.
const STEPS: &[&str] = &[
    "mkdir -p @/a/b @/c",
    "cp $host @/a/copied",
    "cp @/a/copied @/a/b/again",
    "cp -a @/a @/c/tree",
    "mv @/a/copied @/moved",
    "ln @/moved @/a/hard",
    "ln -s ../moved @/a/soft",
    "touch @/empty @/a/b/other",
    "truncate -s 300000 @/large",
    "chmod 4711 @/moved",
    "chmod -R go-rwx @/c/tree",
    "chown 12:34 @/a/b/again",
    "chflags nodump @/moved",
    "xattr set user.note text @/moved",
    "mkdir @/emptied @/removed",
    "touch @/emptied/x @/removed/y",
    "rm -r @/removed",
    "rm @/emptied/x",
    "mv @/empty @/large @/c",
    "touch -d 2002-06-10T09:00:00 @/c/empty",
    "tar c -f $out.tar @/c",
    "tar x -f $out.tar @/a/b",
];

#[test]
fn a_script_gives_the_tree_of_separate_commands() {
    let d = Dir::new();
    let (one, other) = (d.image("one.img", "16m", &["-U"]), d.image("other.img", "16m", &["-U"]));
    d.file("host", &crate::common::pattern(70_000, 1));
    let host = d.str("");
    for step in STEPS {
        let step = step.replace('@', &format!("{one}:")).replace('$', &host);
        ok(&step.split(' ').collect::<Vec<_>>());
    }
    let mut script = String::from("# the same, half of it from another directory\n");
    for (n, step) in STEPS.iter().enumerate() {
        if n == STEPS.len() / 2 {
            script.push_str("cd /a/b\n");
        }
        let inside = if n < STEPS.len() / 2 { "" } else { "../.." };
        let step = match step.contains('$') && step.starts_with("cp ") {
            true => step.replacen("cp ", "put ", 1),
            false => (*step).to_owned(),
        };
        script.push_str(&step.replace('@', inside).replace('$', &host));
        script.push('\n');
    }
    done(&["-w", &other], &script);
    assert_eq!(ok(&["diff", "--ignore", "time", &one, &other]), "");
    ok(&["rm", &format!("{other}:/c/tree/b/again")]);
    fails(&["diff", "--ignore", "time", &one, &other], 1, "");
    fsck_clean(Path::new(&other));
}

#[test]
fn the_first_failure_ends_a_script_with_its_line_and_exit_code() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    let script = d.file("x.ffs", b"# comment\nmkdir /a\nrm /none\nmkdir /b\n");
    let stderr = fails(&["shell", "-w", "-f", &script, &image], 1, ":3: rm: ");
    assert!(stderr.contains(&format!("{script}:3: rm: {image}:/none: no such file")), "{stderr}");
    assert_eq!(ok(&["ls", &image]), "a\n");

    let words = "standard input:2: ";
    ends(&[&image], "pwd\nls --no-such-option\n", 64, words);
    ends(&[&image], "pwd\nmv x\n", 64, words);
    ends(&[&image], "\nlss /\n", 64, "no such command; a similar one is ls");
    ends(&[&image], "\n/bin/ls /\n", 64, "no such command");
    ends(&[&image], "\nls 'x\n", 64, words);
    ends(&[&image], "\ncd /none\n", 1, "standard input:2: cd: ");
    ends(&[&image], "\n!exit 7\n", 7, words);
    ends(&["-w", &image], "\ntouch no/x\n", 1, "make it: mkdir -p /no\n");
    ends(&[&image], "\ncat no\n", 1, "see what is there: ls /\n");
    ends(&[&image], "\ncat /\n", 1, "list it: ls /\n");
    ends(&[&image], &format!("\nls {image}:/a\n"), 1, "in the shell a path has no image: /a\n");
    ends(&[&image], "\nls a.img:/a\n", 1, "in the shell a path has no image: /a\n");
    ends(&[&image], "\nls b.img:/a\n", 1, "list them: snapshot list\n");
    ends(&[&image], "\nffs ls\n", 64, "in the shell a command is typed without ffs");
    ends(&[&image], "\nfsck\n", 64, "run it outside: ffs fsck");
    ends(&[&image], "\ndiff -q /a /.snap/..\n", 1, "standard input:2: diff: ended with status 1");
    fails(&["shell", &image, "-c", "pwd", "-c", "cat /none"], 1, "-c:2: cat: ");
    fails(&["shell", &image, "-f", &d.str("no-script")], 1, "No such file");
    fails(&["shell", &image, "-f", &script, "-c", "pwd"], 64, "");

    // A minus ignores the failure, and prints it.
    let script = "-rm /none\n- !false\nmkdir /after\n";
    let output = piped(&["-w", &image], script);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains(":1: rm: "), "{}", text(&output));
    // A failure does not count for the commands after it.
    assert_eq!(done(&[&image], "-cat /none\nls /a\nls -d /after\nquit\nls /none\n"), "/after\n");
}

#[test]
fn words_are_split_as_in_a_shell() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    let script = "mkdir 'with space' with\\ backslash \"it's\" ./'#1' ü # a comment\nls\n";
    let names = ["#1", "it's", "with backslash", "with space", "ü", ""].join("\n");
    assert_eq!(done(&["-w", &image], script), names);
    let inode = ok(&["ls", "-i", "-d", &format!("{image}:/with space")]);
    let inode = inode.trim().split(' ').next().unwrap();
    let printed = done(&[&image], &format!("cd '#{inode}'\npwd\ncd ..\nls -d ./'#1'\n"));
    assert_eq!(printed, "/with space\n/#1\n");
    assert_eq!(ok(&["shell", &image, "-c", "cd 'it'\\''s'\npwd"]), "/it's\n");
    done(&["-w", &image], r"mv 'with space' $'\141\x62\u00e9\U0001f600'");
    assert_eq!(done(&[&image], "ls -d ab\u{e9}\u{1f600}"), "/ab\u{e9}\u{1f600}\n");
}

#[test]
fn nothing_is_taken_for_the_current_directory() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    done(&["-w", &image], "mkdir -p /k/l/m\ncd /k/l\ntouch 'a '\nrm a\\ \n");
    for line in ["rm -r ''", "mv '' /t", "chmod 0 \"\"", "get ''"] {
        ends(&["-w", &image], &format!("cd /k/l\n{line}"), 64, "an empty argument");
    }
    assert_eq!(done(&[&image], "ls /k/l"), "m\n");
    let args = ["shell", &image, "-c", "-ls /nope", "-c", "pwd"];
    assert_eq!(ok(&args), "/\n");
}

#[test]
fn a_script_is_a_file_a_pipe_or_words() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    assert_eq!(done(&["-f", "-", &image], "pwd"), "/\n");
    assert_eq!(done(&[&image], "cd .snap\npwd\n"), "/.snap\n");
    assert_eq!(done(&[&format!("{image}:/.snap")], "pwd\n"), "/.snap\n");
    assert_eq!(done(&[&image], ""), "");
    assert_eq!(ok(&["shell", &image, "-c", "pwd", "-c", "quit", "-c", "ls /none"]), "/\n");
    // A command gets what follows its line.
    assert_eq!(done(&[&image], "!read line; echo \"got $line\"\npwd\n!echo x\n"), "got pwd\nx\n");
    let put = "put -T /dev/stdin /in\nthe rest\nof it\n";
    done(&["-w", &image], put);
    assert_eq!(ok(&["cat", &format!("{image}:/in")]), "the rest\nof it\n");
    let json = done(&[&image], "stat --json in\nhelp\nhelp put\n");
    assert!(json.contains("\"name\":\"/in\""), "{json}");
    assert!(json.contains("copy-in") && json.contains("--atomic"), "{json}");
}

#[test]
fn an_image_is_read_only_without_w() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    let host = d.file("host", b"x");
    let before = fs::read(&image).unwrap();
    let put = format!("put {host}");
    for change in
        ["mkdir a", "rm -r .snap", "touch x", "chmod 700 .snap", "rmdir .snap", &put, "edit x"]
    {
        let script = format!("{change}\n");
        ends(
            &[&image],
            &script,
            1,
            "a.img: opened to be read; to change it, start the shell with -w",
        );
    }
    assert_eq!(done(&[&image], "sync\ndf\n").lines().count(), 2);
    assert!(fs::read(&image).unwrap() == before);
    // The lock is that of other commands.
    let own = format!("!{} ls {image}\n", assert_cmd::cargo::cargo_bin("ffs").display());
    done(&[&image], &own);
    ends(&["-w", &image], &own, 1, "in use");
}

#[test]
fn the_current_directory_follows_links_and_snapshots() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    let script = "mkdir -p a/b/c\nln -s a/b link\nln -s /link/c far\ntouch a/b/c/file\n\
                  snapshot create .snap/monday\nrm a/b/c/file\ncd far\npwd\ncd ..\npwd\nls\n\
                  cd /.snap/monday:/a\ncd b/c\npwd\nls\ncd ../../../..\npwd\nls -d a\n\
                  cd /link/../b\npwd\ncd\npwd\nls\n";
    let printed = done(&["-w", &image], script);
    let expected = "/a/b/c\n/a/b\nc\n/.snap/monday:/a/b/c\nfile\n/.snap/monday:/\n/a\n/a/b\n/\n\
                    a\nfar\nlink\n";
    assert_eq!(printed, expected);
    let diff = "diff /.snap/monday:/ / --exclude .snap\n";
    let output = piped(&[&image], diff);
    assert!(text(&output).contains("file"), "{}", text(&output));
    assert_eq!(ok(&["shell", &format!("{image}:/.snap/monday"), "-c", "ls a/b/c"]), "file\n");
    ends(&[&image], "cd far\ncd file\n", 1, "no such file");
    fsck_clean(Path::new(&image));
}

#[test]
fn files_are_copied_from_and_to_the_directory_of_the_host() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    fs::create_dir_all(d.path("host/tree/sub")).unwrap();
    d.file("host/file", b"file\n");
    d.file("host/tree/sub/leaf", b"leaf\n");
    // The image has a relative name, which stays right behind lcd.
    let script = "lcd host\nlpwd\nput file\nmkdir dir\ncd dir\nput file tree -R .\ncopy-in tree /\n\
                  ls -R /dir /tree\nget file out\nget -R tree file ..\ncopy-out /tree new\n\
                  !cat out ../file new/sub/leaf\ndf\n";
    let output =
        ffs().current_dir(d.path("")).args(["shell", "-w", "a.img"]).write_stdin(script).output();
    let output = output.unwrap();
    let printed = text(&output);
    assert!(output.status.success(), "{printed}");
    for words in ["/host\n", "/dir:\nfile\ntree\n", "leaf\n\n", "file\nfile\nleaf\n"] {
        assert!(printed.contains(words), "{words:?} is not in: {printed}");
    }
    assert!(d.path("tree/sub/leaf").is_file() && d.path("host/new/sub/leaf").is_file());
    // The image itself is not overwritten, under any name.
    let script = "lcd host\nget /file ../a.img\n";
    let output =
        ffs().current_dir(d.path("")).args(["shell", "a.img"]).write_stdin(script).output();
    let output = output.unwrap();
    assert!(text(&output).contains("is the image that is read"), "{}", text(&output));
    // Another image is a source.
    let other = d.image("other.img", "16m", &["-U"]);
    done(&["-w", &other], &format!("put {image}:/dir/file\ncat file\n"));
    fsck_clean(Path::new(&other));
    fsck_clean(Path::new(&image));
}

#[test]
fn commands_below_the_tree_see_what_was_changed() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    let host = d.file("host", &[7; 5000]);
    let script = format!(
        "put {host} /x\ncd .snap\ndebug inode ../x\ndebug dir /\ninfo\nsnapshot create s\n\
         snapshot list\ntree /\nfind -newer /x\n"
    );
    let printed = done(&["-w", &image], &script);
    for words in ["5000", "UFS2", "/.snap/s", "|-- .snap/"] {
        assert!(printed.contains(words), "{words:?} is not in: {printed}");
    }
    let editor = "EDITOR='sed -i s/o/0/'; export EDITOR";
    let ffs = assert_cmd::cargo::cargo_bin("ffs");
    let line =
        format!("{editor}; printf 'edit /t\\ncat /t\\n' | {} shell -w {image}", ffs.display());
    let host = d.file("t", b"one\n");
    done(&["-w", &image], &format!("put {host} /t\n"));
    let output = Command::new("sh").arg("-c").arg(line).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0ne\n", "{}", text(&output));
}

#[test]
fn a_killed_shell_leaves_what_was_synced_and_a_sound_volume() {
    let d = Dir::new();
    let image = d.image("a.img", "32m", &["-U"]);
    d.file("host", &crate::common::pattern(3 << 20, 9));
    let mut shell = Command::new(assert_cmd::cargo::cargo_bin("ffs"))
        .args(["shell", "-w", &image])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let script = format!(
        "put {} /synced\nsync\nmkdir -p /later/on\ncp /synced /later/on/copy\nrm /synced\n\
         mv /later /newer\n!echo ready\n",
        d.str("host")
    );
    shell.stdin.as_mut().unwrap().write_all(script.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    shell.kill().unwrap();
    shell.wait().unwrap();
    let output = run(&["fsck", "-p", &image]);
    assert!(output.status.success(), "{}", text(&output));
    fsck_clean(Path::new(&image));
    let found = ok(&["find", &image, "-type", "f", "-size", "+2M"]);
    assert!(found.contains("/synced") || found.contains("/newer/on/copy"), "{found}");
}

#[test]
fn changes_that_cannot_be_written_are_reported_at_the_end() {
    let d = Dir::new();
    let image = d.image("a.img", "32m", &["-U"]);
    let host = d.file("host", &crate::common::pattern(9 << 20, 9));
    // As a full disk: no file of this process may become longer than 2 MiB.
    let ffs = assert_cmd::cargo::cargo_bin("ffs");
    let line = format!(
        "trap '' XFSZ; ulimit -f 4096; exec {} shell -w {image} -c 'put {host}' -c pwd",
        ffs.display()
    );
    let output = Command::new("sh").arg("-c").arg(line).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("ffs fsck"), "{}", text(&output));
}

/// Plays a dialogue with `ffs shell ARGS` at a terminal of its own; `false` without Python.
fn at_a_terminal(d: &Dir, args: &[&str], dialogue: &str) -> Option<Output> {
    let program = d.file("dialogue.py", [DRIVER, dialogue, "finish()\n"].concat().as_bytes());
    let mut command = Command::new("python3");
    command.arg(program).arg(assert_cmd::cargo::cargo_bin("ffs")).arg("shell").args(args);
    command.env("XDG_STATE_HOME", d.path("state")).env("TERM", "xterm").current_dir(d.path(""));
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: needs python3: {error}");
            None
        }
    }
}

const DRIVER: &str = r#"
import os, pty, select, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
def expect(words):
    global seen
    words, end = words.encode(), time.time() + 60
    while words not in seen:
        if not select.select([terminal], [], [], max(0, end - time.time()))[0]:
            sys.exit("no %r in %r" % (words, seen))
        try:
            more = os.read(terminal, 4096)
        except OSError:
            more = b""
        if not more:
            sys.exit("no %r in %r before the end" % (words, seen))
        seen += more
    seen = seen[seen.index(words) + len(words):]
def send(text):
    os.write(terminal, text.encode())
def finish():
    while True:
        try:
            if not os.read(terminal, 4096):
                break
        except OSError:
            break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn names_with_control_characters_are_written_and_completed() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let names = "mkdir $'new\\nline' $'tab\\there' $'it\\'s'\n";
    let script = format!("{names}touch $'new\\nline/\\xff'\nls $'new\\nline'\n");
    let listed = ffs().args(["shell", "-w", &image, "-c", &script]).output().unwrap();
    assert_eq!(listed.stdout, b"\xff\n", "{}", text(&listed));
    assert_eq!(ok(&["find", &image, "-maxdepth", "1", "-name", "new*"]), "/new\nline\n");
    ok(&["stat", &format!("{image}:/it's"), &format!("{image}:/tab\there")]);
    fails(&["shell", &image, "-c", "ls $'x"], 64, "a quote is not closed");
    let dialogue = "
expect('a.img:/> ')
send('ls -d ne\\t\\r'); expect(\"ls -d $'new\\\\nline/'\"); expect('new\\\\x0aline')
expect('a.img:/> ')
send('\\x04')
";
    let Some(output) = at_a_terminal(&d, &["a.img"], dialogue) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{}", text(&output));
}

#[test]
fn a_terminal_has_completion_and_a_history() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    let host = d.file("host file", b"content\n");
    done(
        &["-w", &image],
        &format!("mkdir 'my dir'\nput '{host}' 'my dir/my file'\ntruncate -s 2g zeros\n"),
    );
    let dialogue = "
expect('a.img:/> ')
send('ca\\tmy\\tmy\\t\\r'); expect('cat my\\\\ dir/my\\\\ file'); expect('content')
expect('a.img:/> ')
send('cat /none\\r'); expect('cat: '); expect('no such file'); expect('a.img:/> ')
send('rm x\\x03'); expect('a.img:/> ')
send('cd my\\t\\r'); expect('a.img:/my dir> ')
send('!sleep 60\\r'); time.sleep(1); send('\\x03'); expect('a.img:/my dir> ')
send('cat /zeros\\r'); time.sleep(0.5); send('\\x03'); expect('cat: interrupted')
expect('a.img:/my dir> ')
send('put ho\\t\\r'); expect('put host\\\\ file'); expect('opened to be read')
send('\\x1b[A'); expect('put host\\\\ file'); send('\\x03'); expect('> ')
send('\\x04')
";
    let Some(output) = at_a_terminal(&d, &["a.img"], dialogue) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{}", text(&output));
    let history = d.path("state/ffs/shell_history");
    let kept = fs::read_to_string(&history).unwrap();
    assert!(kept.contains("cd my") && !kept.contains("rm x"), "{kept}");
    // The next shell has the lines; one without a history adds none.
    let dialogue = "
expect('> '); send('\\x1b[A'); expect('put host'); send('\\x03'); expect('> '); send('exit\\r')
";
    let output = at_a_terminal(&d, &["a.img"], dialogue).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{}", text(&output));
    let dialogue = "\nexpect('> '); send('df\\r'); expect('UFS2'); expect('> '); send('quit\\r')\n";
    let output = at_a_terminal(&d, &["--no-history", "a.img"], dialogue).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{}", text(&output));
    assert!(!fs::read_to_string(&history).unwrap().contains("df"));
}

#[test]
fn a_signal_at_the_prompt_unmounts_cleanly() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    for signal in ["SIGTERM", "SIGHUP"] {
        let dialogue = format!(
            "\nexpect('> '); send('mkdir {signal}\\r'); expect('> ')\n\
             time.sleep(0.2); os.kill(pid, signal.{signal})\n"
        );
        let Some(output) = at_a_terminal(&d, &["-w", "a.img"], &dialogue) else { return };
        assert_eq!(String::from_utf8_lossy(&output.stdout), "130\n", "{}", text(&output));
        ok(&["ls", &format!("{image}:/{signal}")]);
        fsck_clean(Path::new(&image));
        assert!(ok(&["info", &image]).contains(", clean"));
    }
}

#[test]
fn every_command_has_help() {
    let d = Dir::new();
    let image = d.image("a.img", "4m", &[]);
    let all = done(&[&image], "help\n");
    let names: Vec<&str> = all
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"tar") && names.contains(&"diff") && names.len() > 30, "{all}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let shown = done(&[&image], &format!("{name} --help\n"));
        assert!(shown.contains("Usage: ") && shown.contains("--help"), "{name}: {shown}");
    }
    assert!(done(&[&image], "debug inode --help\n").contains("Usage: "));
}
