//! Pages for a browser: a report with several studies, a running study, a volume drawn.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Dir, fails, ffs, ok};

/// A study of four jobs in `out`.
fn study(out: &str, target: &str) {
    ok(&[
        "lab",
        "run",
        "mh:count=100",
        "--factor",
        "su",
        "--target",
        target,
        "--replicates",
        "2",
        "--out",
        out,
    ]);
}

#[test]
fn a_report_takes_other_studies_for_its_what_if_panel() {
    let d = Dir::new();
    let (one, two) = (d.str("one"), d.str("two"));
    study(&one, "sim:used=5,turnover=0.1");
    study(&two, "sim:used=5,turnover=0.1,cache=4m");
    ok(&["lab", "report", &one, "--with", &two]);
    let page = std::fs::read_to_string(Path::new(&one).join("report.html")).unwrap();
    assert!(page.contains("\"cache\":\"4m\""), "the settings of the other study");
    fails(&["lab", "report", &one, "--with", &d.str("none")], 1, "none");
}

#[test]
fn a_study_is_served_until_an_interrupt() {
    let d = Dir::new();
    let out = d.str("study");
    study(&out, "sim:used=5,turnover=0.1");
    let mut child = Command::new(ffs().get_program())
        .args(["lab", "serve", &out, "--port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap().trim_end_matches('/');
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/status").contains("\"finished\":4,\"planned\":4"));
    assert!(get("/").contains("MH folder"));
    assert!(get("/nothing").starts_with("HTTP/1.1 404"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    fails(&["lab", "serve", &d.str("none")], 1, "none");
}

#[test]
fn a_volume_is_drawn_and_only_read() {
    let d = Dir::new();
    let image = d.str("disk.img");
    ok(&["newfs", "-s", "8m", &image]);
    let tree = d.path("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), vec![7; 100_000]).unwrap();
    ok(&["cp", "-R", tree.to_str().unwrap(), &format!("{image}:/")]);
    let before = std::fs::read(&image).unwrap();
    let table = ok(&["lab", "draw", &image]);
    assert!(table.contains("cylinder group") && table.contains("UFS2"), "{table}");
    let (page, again) = (d.str("disk.html"), d.str("again.html"));
    for out in [&page, &again] {
        ok(&["lab", "draw", &image, "--html", "-o", out]);
    }
    let text = std::fs::read_to_string(&page).unwrap();
    for words in ["/tree/file", "Create /ffs-drawn", "Rename to /ffs-renamed", "Crash", "fsck -p"] {
        assert!(text.contains(words), "{words}");
    }
    assert_eq!(text, std::fs::read_to_string(&again).unwrap());
    assert_eq!(std::fs::read(&image).unwrap(), before, "the image is only read");
    let other = d.file("zeros", &[0; 1 << 20]);
    fails(&["lab", "draw", &other, "--html"], 1, "zeros");
}
