//! The server with a browser and with hostile clients.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use super::*;
use crate::headless::Browser;
use crate::report::tests::synthetic;
use crate::study::ResultsFile;

/// A server on a thread; dropping it ends the server.
struct Running {
    server: Arc<Server>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn on(dir: &Path) -> Running {
        let server = Arc::new(Server::bind(dir, 0).unwrap());
        let ends = Arc::new(AtomicBool::new(false));
        let (mine, end) = (Arc::clone(&server), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            mine.run(&mut || !end.load(Ordering::SeqCst)).unwrap();
        });
        Running { server, ends, thread: Some(thread) }
    }

    /// Sends bytes and returns the answer.
    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.server.address).unwrap();
        // The server may answer before it has read everything.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        let host = self.server.address;
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|joined| joined.is_ok()) || std::thread::panicking());
    }
}

/// Writes a study with its first `n` jobs into `dir`.
fn put(dir: &Path, n: usize) {
    let study = synthetic::small(&["namecache"], 4);
    let mut store = ResultsFile::open(dir, &study.plan, &mut |_| {}).unwrap();
    for job in study.jobs.into_iter().take(n).skip(store.finished()) {
        store.append(job).unwrap();
    }
}

#[test]
fn the_page_follows_a_study_that_grows() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::on(dir.path());
    let page = running.get("/");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("No results yet"), "{page}");
    put(dir.path(), 3);
    let status = running.get("/status");
    assert!(status.contains("\"finished\":3,\"planned\":8"), "{status}");
    assert!(running.get("/?x=1").contains("The study is not complete"));
    put(dir.path(), 8);
    assert!(running.get("/status").contains("\"finished\":8,\"planned\":8"));
    let page = running.get("/");
    assert!(!page.contains("The study is not complete") && page.contains("show new results"));
}

#[test]
fn hostile_requests_get_errors_and_the_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), 8);
    let running = Running::on(dir.path());
    let port = running.server.address.port();
    let request = |line: &str, host: &str| format!("{line}\r\nHost: {host}\r\n\r\n").into_bytes();
    let own = format!("127.0.0.1:{port}");
    let long = format!("GET /{} HTTP/1.1\r\nHost: {own}\r\n\r\n", "x".repeat(20_000));
    let lines = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(5000));
    let cases: [(Vec<u8>, u16); 14] = [
        (request("POST / HTTP/1.1", &own), 405),
        (request("DELETE /status HTTP/1.1", &own), 405),
        (request("GET /../../etc/passwd HTTP/1.1", &own), 404),
        (request("GET /results.jsonl HTTP/1.1", &own), 404),
        (request("GET / HTTP/1.1", "evil.example"), 403),
        (request("GET / HTTP/1.1", &format!("evil.example:{port}")), 403),
        (request("GET http://x/ HTTP/1.1", &own), 400),
        (request("GET / HTTP/2.0", &own), 505),
        (request("GET  / HTTP/1.1", &own), 400),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), 400),
        (b"\x16\x03\x01\x02\x00\xff\xfe\r\n\r\n".to_vec(), 400),
        (b"GET / HTTP/1.1".to_vec(), 400),
        (long.into_bytes(), 431),
        (lines.into_bytes(), 431),
    ];
    for (bytes, code) in cases {
        let answer = running.send(&bytes);
        let shown: String = String::from_utf8_lossy(&bytes).chars().take(60).collect();
        // A connection that was reset has no answer; the next request shows the server goes on.
        let fine = answer.starts_with(&format!("HTTP/1.1 {code} "));
        assert!(fine || (code == 431 && answer.is_empty()), "{shown:?}: {answer:.80}");
        assert!(!answer.contains("root:"), "{shown:?}");
    }
    // Connections that send nothing do not stop others.
    let silent: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(running.server.address).unwrap()).collect();
    assert!(running.get("/status").contains("\"finished\":8"));
    drop(silent);
    let head = running.send(&request("HEAD / HTTP/1.1", "localhost"));
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written");
}

#[test]
fn a_directory_that_is_missing_and_a_port_in_use_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Server::bind(&dir.path().join("none"), 0).unwrap_err().to_string();
    assert!(error.contains("/none: No such file"), "{error}");
    let running = Running::on(dir.path());
    let port = running.server.address.port();
    let error = Server::bind(dir.path(), port).unwrap_err().to_string();
    assert!(
        error.contains("in use") && error.contains("choose another port with --port"),
        "{error}"
    );
}

#[test]
fn a_browser_shows_new_results_by_itself() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), 4);
    let running = Running::on(dir.path());
    browser.window(1280, 800, false);
    browser.go(&running.server.url());
    let wait = |browser: &mut Browser, finished: u32| {
        // The page looks every two seconds; the promise is that it comes.
        let seen = format!(
            "new Promise(done => {{ const look = () => {{ \
             const b = document.getElementById('live'); \
             if (b && b.dataset.finished === '{finished}') done(b.innerText); \
             else setTimeout(look, 100); }}; look(); }})"
        );
        browser.text(&seen)
    };
    assert!(wait(&mut browser, 4).contains("4 of 8 runs, running"));
    // With the box off, the page stays and offers the new results.
    browser.value("document.querySelector('#live input').click()");
    put(dir.path(), 8);
    assert!(wait(&mut browser, 8).contains("8 of 8 runs, complete"));
    let text = "document.querySelector('header').innerText";
    assert!(browser.text(text).contains("4 of 8"), "{}", browser.text(text));
    browser.go(&running.server.url());
    assert!(browser.text(text).contains("8 of 8"), "{}", browser.text(text));
    assert_eq!(browser.complaints, [""; 0]);
}
