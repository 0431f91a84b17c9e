//! Every command with valid options, with unknown options, and with files that are no images.

use crate::common::{Dir, fails, ffs, json_lines, ok, run, text};

/// Command, exit code of a wrong command line, arguments before an image, after it.
type Row = (&'static str, i32, &'static [&'static str], &'static [&'static str]);

/// Commands that take an image.
const ON_IMAGES: &[Row] = &[
    ("fsck", 1, &["-n"], &[]),
    ("tunefs", 2, &["-p"], &[]),
    ("dumpfs", 1, &[], &[]),
    ("dump", 1, &["-f", "-"], &[]),
    ("ls", 64, &[], &[]),
    ("tree", 64, &[], &[]),
    ("stat", 64, &[], &[]),
    ("df", 64, &[], &[]),
];
const OTHERS: &[Row] = &[
    ("newfs", 1, &[], &[]),
    ("growfs", 1, &[], &[]),
    ("info", 64, &[], &[]),
    ("serve", 64, &[], &[]),
    ("restore", 1, &[], &[]),
    ("mount", 1, &[], &[]),
    ("umount", 1, &[], &[]),
    ("sysctl", 64, &[], &[]),
    ("build", 64, &[], &[]),
    ("cat", 64, &[], &[]),
    ("cp", 64, &[], &[]),
    ("chmod", 64, &[], &[]),
    ("chown", 64, &[], &[]),
    ("chflags", 64, &[], &[]),
    ("mkdir", 64, &[], &[]),
    ("rm", 64, &[], &[]),
    ("mv", 64, &[], &[]),
    ("ln", 64, &[], &[]),
    ("demo", 64, &[], &[]),
    ("lab", 64, &[], &[]),
    ("completions", 64, &[], &[]),
    ("man", 64, &[], &[]),
];

#[test]
fn help_teaches_and_wrong_options_exit_as_on_bsd() {
    for (command, usage, ..) in ON_IMAGES.iter().chain(OTHERS) {
        let help = ok(&[command, "--help"]);
        for part in ["Usage:", "Examples:", "Exit status:", "See also:"] {
            assert!(help.contains(part), "{command} --help has no {part}");
        }
        let stderr = fails(&[command, "--no-such-option"], *usage, "--no-such-option");
        assert!(stderr.starts_with(&format!("ffs {command}: ")), "{stderr}");
    }
    assert!(ok(&["--version"]).starts_with("ffs "));
    assert!(ok(&["--help"]).contains("Try it:"));
    fails(&["frobnicate"], 64, "frobnicate");
    fails(&["tunfs"], 64, "tunefs");
    fails(&["completions", "bsh"], 64, "bash");
}

#[test]
fn missing_arguments_are_usage_errors() {
    for (command, usage, ..) in ON_IMAGES.iter().chain(OTHERS) {
        if !matches!(*command, "demo" | "man") {
            let output = run(&[command]);
            assert_eq!(output.status.code(), Some(*usage), "{command}: {}", text(&output));
        }
    }
}

#[test]
fn images_that_are_none_are_refused_with_a_reason() {
    let d = Dir::new();
    let garbage = crate::common::pattern(1 << 20, 7);
    let images = [
        (d.str("missing.img"), "missing.img"),
        (d.file("empty.img", b""), "empty.img"),
        (d.file("tiny.img", b"tiny"), "tiny.img"),
        (d.file("zeros.img", &vec![0; 1 << 20]), "zeros.img"),
        (d.file("garbage.img", &garbage), "garbage.img"),
        (d.file("disk.qcow2", b"QFI\xfb and more of it, up to thirty-two bytes"), "qcow2"),
        (d.0.path().to_str().unwrap().to_owned(), d.0.path().to_str().unwrap()),
        ("/dev/null".to_owned(), "/dev/null"),
    ];
    for (command, usage, before, after) in ON_IMAGES {
        for (image, named) in &images {
            let mut args = vec![*command];
            args.extend(*before);
            args.push(image);
            args.extend(*after);
            let output = run(&args);
            let code = output.status.code().unwrap();
            let expected = if *command == "fsck" { vec![3, 8] } else { vec![1] };
            assert!(expected.contains(&code), "{args:?} ({usage}): {}", text(&output));
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(stderr.contains(named), "{args:?}: {}", text(&output));
        }
    }
}

#[test]
fn writing_commands_refuse_what_is_no_image_too() {
    let d = Dir::new();
    let zeros = d.file("zeros.img", &vec![0; 1 << 20]);
    let inside = format!("{zeros}:/x");
    let source = d.file("source", b"data");
    for args in [
        vec!["mkdir", &inside],
        vec!["chmod", "644", &inside],
        vec!["chown", "0", &inside],
        vec!["chflags", "nodump", &inside],
        vec!["rm", &inside],
        vec!["mv", &inside, &inside],
        vec!["ln", "-s", "x", &inside],
        vec!["cp", &source, &inside],
        vec!["cp", &inside, &source],
        vec!["cat", &inside],
        vec!["tunefs", "-m", "5", &zeros],
        vec!["growfs", &zeros],
    ] {
        fails(&args, 1, "zeros.img");
    }
    let missing = format!("{}:/x", d.str("missing.img"));
    fails(&["mkdir", &missing], 1, "missing.img");
    fails(&["cp", &source, &missing], 1, "missing.img");
    assert!(!d.path("missing.img").exists());
}

#[cfg(unix)]
#[test]
fn unreadable_images_say_so() {
    if crate::common::is_root() {
        return println!("skipped: root may read everything");
    }
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    use std::os::unix::fs::PermissionsExt;
    let mode = |mode| std::fs::set_permissions(&image, std::fs::Permissions::from_mode(mode));
    mode(0o000).unwrap();
    fails(&["ls", &image], 1, "ermission denied");
    mode(0o400).unwrap();
    ok(&["ls", &image]);
    fails(&["mkdir", &format!("{image}:/d")], 1, "ermission denied");
}

#[test]
fn images_larger_than_their_file_and_wrong_partitions() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(3 << 20).unwrap();
    for args in [vec!["ls", &image], vec!["df", &image]] {
        fails(&args, 1, "a.img");
    }
    assert!(!run(&["fsck", "-n", &image]).status.success());
    let whole = d.image("b.img", "8m", &[]);
    fails(&["ls", &format!("{whole}@3")], 1, "no partition");
    let Some(disk) = d.fixture("part-gpt-ufs2") else { return };
    ok(&["ls", &disk]);
    ok(&["ls", &format!("{disk}@2:/")]);
    fails(&["ls", &format!("{disk}@9:/")], 1, "@2");
    fails(&["ls", &format!("{disk}@1:/")], 1, "no superblock");
    let stderr = fails(&["newfs", &disk], 1, "partition table");
    assert!(stderr.contains("@2"), "{stderr}");
}

#[test]
fn a_truncated_fixture_is_refused() {
    let d = Dir::new();
    let Some(image) = d.fixture("freebsd8-ufs2-head-1m") else { return };
    fails(&["ls", &image], 1, "head-1m");
}

#[test]
fn names_of_bsd_programs_are_the_programs() {
    let d = Dir::new();
    let program = assert_cmd::cargo::cargo_bin!("ffs");
    let call = |name: &str, args: &[&str]| {
        let link = d.path(name);
        if !link.exists() {
            std::os::unix::fs::symlink(program, &link).unwrap();
        }
        std::process::Command::new(link).args(args).output().unwrap()
    };
    let image = d.str("x.img");
    let made = call("newfs", &["-s", "16m", &image]);
    assert!(made.status.success(), "{}", text(&made));
    for (name, args) in [
        ("fsck_ffs", ["-n", image.as_str()]),
        ("fsck_ufs", ["-n", &image]),
        ("fsck.ffs", ["-p", &image]),
        ("tunefs", ["-p", &image]),
        ("dumpfs", ["-s", &image]),
    ] {
        let output = call(name, &args);
        assert!(output.status.success(), "{name}: {}", text(&output));
    }
    let flagged = call("chflags", &["-v", "nodump", &format!("{image}:/")]);
    assert_eq!(text(&flagged), "exit status: 0\n/: - -> nodump\n");
    let missing = call("chflags", &["nodump", &format!("{image}:/none")]);
    assert!(text(&missing).contains("\nchflags: "), "{}", text(&missing));
    let bad = call("tunefs", &["--nonsense"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&bad.stderr).starts_with("tunefs: "), "{}", text(&bad));
    let helper = call("mount.fuse.ffs", &[]);
    assert_eq!(helper.status.code(), Some(1));
}

#[test]
fn a_closed_pipe_is_no_error_message() {
    let d = Dir::new();
    let image = d.image("a.img", "64m", &[]);
    let big = d.file("big", &vec![b'x'; 8 << 20]);
    ok(&["cp", &big, &format!("{image}:/big")]);
    let program = assert_cmd::cargo::cargo_bin!("ffs");
    let mut child = std::process::Command::new(program)
        .args(["cat", &format!("{image}:/big")])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", text(&output));
    assert!(!output.status.success());
}

#[test]
fn completions_and_manual_pages_are_written() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(&["completions", shell]).contains("ffs"));
    }
    let d = Dir::new();
    ok(&["man", &d.str("")]);
    let page = std::fs::read_to_string(d.path("man8/ffs-newfs.8")).unwrap();
    for section in
        [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]
    {
        assert!(page.contains(section), "{section} missing in\n{page}");
    }
    let first = ok(&["man"]);
    for (command, ..) in ON_IMAGES.iter().chain(OTHERS) {
        assert!(first.contains(&format!("ffs\\-{command}")), "{command}");
    }
    assert!(std::fs::read_dir(d.path("man1")).unwrap().count() > 10);
}

#[test]
fn json_is_json_everywhere() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let inside = format!("{image}:/");
    ok(&["snapshot", "create", &format!("{image}:/.snap/s")]);
    ok(&["quotacheck", "-u", &image]);
    for args in [
        vec!["dumpfs", "--json", &image],
        vec!["tunefs", "-p", "--json", &image],
        vec!["newfs", "-N", "--json", &image],
    ] {
        let printed = ok(&args);
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&printed);
        assert!(parsed.is_ok(), "{args:?}: {printed}");
    }
    // What may be of several files or images is one object a line.
    for (args, count) in [
        (vec!["ls", "--json", "-a", &inside], 4),
        (vec!["ls", "--json", "-d", &inside, &inside], 2),
        (vec!["stat", "--json", &inside, &inside], 2),
        (vec!["tree", "--json", &inside], 3),
        (vec!["find", "--json", &inside], 4),
        (vec!["du", "--json", &inside, &inside], 4),
        (vec!["info", "--json", &image, &image], 2),
        (vec!["df", "--json", &image, &image], 2),
        (vec!["fsck", "-n", "--json", &image, &image], 2),
        (vec!["snapshot", "list", "--json", &image], 1),
        (vec!["repquota", "--json", &image], 1),
        (vec!["quota", "-u", "--json", &image, "0", "1"], 2),
    ] {
        let printed = ok(&args);
        let objects: Vec<serde_json::Value> = json_lines(&printed);
        assert!(objects.iter().all(serde_json::Value::is_object), "{args:?}: {printed}");
        assert_eq!(objects.len(), count, "{args:?}: {printed}");
    }
    let value: serde_json::Value = json_lines(&ok(&["df", "--json", &image]));
    assert_eq!(value[0]["format"], "UFS2");
    assert_eq!(value[0]["block_size"], 32768);
    let _ = ffs();
}
