//! The page in a real browser, if one is installed.
//!
//! The test serves a harness that shows the page in frames of several widths, in light and in dark
//! colours, examines the layout, and posts the findings back. So it works with each browser that
//! runs without a screen: those based on Chromium, and Firefox. `FFS_BROWSER` names one that is not
//! in `PATH`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::Deserialize;

use super::synthetic;
use crate::report::Report;

const BROWSERS: [&str; 7] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome-headless-shell",
    "firefox",
    "firefox-esr",
];
/// The longest time for a browser to start and examine the page.
const PATIENCE: Duration = Duration::from_secs(60);
/// The smallest legible size of letters on a phone, in pixels.
const SMALLEST: f64 = 7.0;

const HARNESS: &str = include_str!("harness.html");

/// The findings in one frame.
#[derive(Debug, Deserialize)]
struct Seen {
    width: u32,
    dark: bool,
    errors: Vec<String>,
    /// Requests other than the page.
    requests: u32,
    /// Pixels by which the page is wider than the frame.
    overflow: i64,
    ground: f64,
    contrast: f64,
    faintest: String,
    smallest: f64,
    pictures: u32,
}

/// A browser and its arguments.
fn browser() -> Option<Vec<String>> {
    if let Ok(given) = std::env::var("FFS_BROWSER") {
        return Some(given.split_whitespace().map(str::to_owned).collect());
    }
    let path = std::env::var_os("PATH")?;
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let find = |name: &&str| places.iter().map(|dir| dir.join(name)).find(|file| file.is_file());
    BROWSERS.iter().find_map(find).map(|file| vec![file.to_string_lossy().into_owned()])
}

/// A running browser. Dropping it ends all its processes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

fn start(words: &[String], profile: &std::path::Path, address: &str) -> std::io::Result<Running> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--headless");
    if words[0].contains("firefox") {
        command.arg("--no-remote").arg("--profile").arg(profile);
    } else {
        let flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"];
        command.args(flags).arg(format!("--user-data-dir={}", profile.display()));
    }
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().map(Running)
}

/// Answers one request; the body of a post is the result.
fn answer(
    stream: TcpStream,
    page: &str,
    results: &mpsc::Sender<Option<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut words = first.split(' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("POST"), _) => {
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let _ = results.send(Some(String::from_utf8_lossy(&body).into_owned()));
            ("200 OK", "text/plain", "")
        }
        (_, Some("/")) => {
            let _ = results.send(None);
            ("200 OK", "text/html", HARNESS)
        }
        (_, Some("/page")) => ("200 OK", "text/html", page),
        _ => ("404 Not Found", "text/plain", ""),
    };
    let mut stream = stream;
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\n")?;
    write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// Shows the page to a browser; `None` if it does not even ask for it.
fn look(words: &[String], page: String) -> Option<Vec<Seen>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, results) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A browser may open connections that it does not use.
            let (page, sender) = (page.clone(), sender.clone());
            std::thread::spawn(move || answer(stream, &page, &sender));
        }
    });
    let profile = tempfile::tempdir().unwrap();
    let _running = start(words, profile.path(), &address).ok()?;
    results.recv_timeout(PATIENCE).ok()?;
    loop {
        match results.recv_timeout(PATIENCE) {
            Ok(Some(body)) => return Some(serde_json::from_str(&body).expect(&body)),
            Ok(None) => {}
            Err(_) => panic!("the browser requested the page, but sent no findings"),
        }
    }
}

#[test]
fn the_page_is_fine_in_a_real_browser() {
    let Some(words) = browser() else {
        eprintln!("skipped: no browser in PATH (chromium, google-chrome, firefox, or FFS_BROWSER)");
        return;
    };
    let mut study = synthetic::study(2);
    let few = ["mh", "bonnie", "buildworld", "micro"];
    study.jobs.retain(|job| few.contains(&job.workload.as_str()));
    study.plan.workloads.retain(|item| few.contains(&item.workload.as_str()));
    let report = Report::of(&study).unwrap();
    // Both forms of the summary are for readers without scripts.
    let pictures = report.figures.len() as u32 - 2;
    let Some(seen) = look(&words, report.html().unwrap()) else {
        eprintln!("skipped: {} does not start here", words[0]);
        return;
    };
    assert_eq!(seen.len(), 6, "three widths, light and dark");
    for frame in seen {
        assert_eq!(frame.errors, [""; 0], "{frame:?}");
        assert_eq!((frame.requests, frame.overflow), (0, 0), "{frame:?}");
        assert_eq!(frame.pictures, pictures, "{frame:?}");
        assert_eq!(frame.ground < 0.2, frame.dark, "{frame:?}");
        assert!(frame.contrast >= 4.5, "{} is hard to read: {frame:?}", frame.faintest);
        assert!(frame.smallest >= SMALLEST || frame.width > 400, "{frame:?}");
    }
}
