//! `-` as a file: the tables of docs/guide/streams.md.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Dir, is_root, ok, text};

/// What the examples use.
fn prepared() -> Dir {
    let d = Dir::new();
    let script = "
        mkdir -p tree/etc tree/mnt mnt; echo 'Remember the milk' > notes
        echo welcome > tree/etc/motd; tar cf notes.tar notes
        touch -d @1500000000.123456789 tree/*/* tree/* tree
        chmod 755 tree tree/*; chmod 644 tree/etc/motd; [ $(id -u) != 0 ] || chown -R 0:0 tree
        { echo '. type=dir uid=0 gid=0 mode=0755'; echo './etc type=dir uid=0 gid=0 mode=0755'
          echo './mnt type=dir uid=0 gid=0 mode=0755'
          echo './etc/motd type=file uid=0 gid=0 mode=0644'; } > METALOG";
    let done = Command::new("sh").args(["-ec", script]).current_dir(d.0.path()).status().unwrap();
    assert!(done.success());
    let (image, tree) = (d.str("disk.img"), d.str("tree"));
    ok(&["build", "--free", "1m", &image, &tree]);
    ok(&["build", "--free", "1m", "--acls", &d.str("acl.img"), &tree]);
    d
}

/// Runs `script` in the directory, with the command in the path.
fn shell(d: &Dir, script: &str) -> Output {
    let ffs = crate::common::ffs();
    let bin = Path::new(ffs.get_program()).parent().unwrap().to_owned();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", script]).env("PATH", path).env("LC_ALL", "C");
    shell.env_remove("SOURCE_DATE_EPOCH").current_dir(d.0.path()).output().unwrap()
}

/// The last cells of the rows of a section, without the quotes of code, and the cells before them.
fn rows(section: &str) -> Vec<(Vec<String>, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/streams.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let part = rest.split("\n## ").next().unwrap();
    let mut rows = Vec::new();
    for line in part.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let line = line.replace("\\|", "\u{1}");
        let mut cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let example = cells.pop().unwrap().trim_matches('`').replace('\u{1}', "|");
        rows.push((cells, example));
    }
    assert!(rows.len() > 8, "{section}");
    rows
}

#[test]
fn an_image_on_standard_input_reads_as_a_file() {
    let d = prepared();
    let made = shell(&d, "xz -k disk.img && qemu-img convert -O qcow2 disk.img disk.qcow2");
    let formats = if made.status.success() { 4 } else { 1 };
    for (_, example) in rows("Images that are read") {
        let command = example.strip_suffix(" < disk.img").unwrap();
        let named = command.replace("/dev/stdin", "disk.img").replace("-- -:", "disk.img:");
        let named = match named.contains("disk.img") {
            true => named,
            false => format!("{named} ").replacen(" - ", " disk.img ", 1),
        };
        let wanted = shell(&d, &named);
        assert!(wanted.status.success(), "{named}: {}", text(&wanted));
        let plain = |output: &Output| {
            let out = String::from_utf8_lossy(&output.stdout).into_owned();
            let out = out.replace("/dev/stdin", "disk.img").replace("-:/", "disk.img:/");
            let lines = out.lines().filter(|line| !line.contains("image,"));
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            lines.map(|line| words(line).replace("disk.img", "-")).collect::<Vec<_>>()
        };
        let sources = ["disk.img", "cat disk.img", "cat disk.img.xz", "cat disk.qcow2"];
        for source in &sources[..formats] {
            let script = match source.strip_prefix("cat ") {
                Some(_) => format!("{source} | {command}"),
                None => format!("{command} < {source}"),
            };
            let output = shell(&d, &script);
            assert!(output.status.success(), "{script}: {}", text(&output));
            assert_eq!(plain(&output), plain(&wanted), "{script}");
        }
    }
}

#[test]
fn files_may_be_standard_input_and_output() {
    if !is_root() {
        println!("skipped: the examples have files of root");
        return;
    }
    for (_, example) in rows("Files") {
        let d = prepared();
        let output = shell(&d, &example);
        assert!(output.status.success(), "{example}: {}", text(&output));
    }
}

#[test]
fn where_no_stream_is_possible_nothing_changes() {
    let d = prepared();
    let before = fs::read(d.path("disk.img")).unwrap();
    for (cells, example) in rows("Errors") {
        let output = shell(&d, &example);
        let code = output.status.code().map(|code| code.to_string());
        assert_eq!(code.as_deref(), Some(&*cells[1]), "{example}: {}", text(&output));
        assert!(output.stderr.starts_with(b"ffs "), "{example}: {}", text(&output));
        for made in ["-", "new.img", "d.img"] {
            assert!(!d.path(made).exists(), "{example}: {made}");
        }
    }
    assert!(fs::read(d.path("disk.img")).unwrap() == before);
}

#[test]
fn a_temporary_file_has_the_holes_of_the_image() {
    let d = Dir::new();
    let image = d.image("big.img", "1g", &[]);
    let script = "cat big.img | ffs shell - -c '!stat -Lc \"%s %b\" /proc/$PPID/fd/*; true'";
    let output = shell(&d, script);
    assert!(output.status.success(), "{}", text(&output));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let blocks = shown.lines().find_map(|line| line.strip_prefix("1073741824 "));
    let blocks: u64 = blocks.unwrap_or_else(|| panic!("{}", text(&output))).parse().unwrap();
    assert!(blocks * 512 < 64 << 20, "{blocks} blocks of 1 GiB");
    let script = format!("cat '{image}' | TMPDIR=/nonexistent ffs ls -");
    let output = shell(&d, &script);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("TMPDIR"), "{}", text(&output));
}
