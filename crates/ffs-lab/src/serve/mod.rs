//! A study in the browser while it runs: a small HTTP server on this computer.
//!
//! | address | answer |
//! | --- | --- |
//! | `/` | the report of the results so far, with a line that follows the study |
//! | `/status` | JSON: finished and planned jobs, and the version of the results |
//! | `/favicon.ico` | nothing, so that browsers do not report it missing |
//!
//! # Invariants
//! 1. The server listens on 127.0.0.1 only. It answers only requests whose `Host` is this computer,
//!    so that no page of another site can read the answers.
//! 2. It reads the directory of the study, and writes nothing.
//! 3. A request takes bounded time and memory: at most 8 KiB of head, no body, five seconds, and 32
//!    connections at a time. A request that is not understood gets an error.
//! 4. The page depends on the results only. It is made again when the results have changed.

mod request;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::error::{LabError, Result};
use crate::report::Report;
use crate::study::Results;
use request::{Request, Status};

/// The port of `ffs lab serve`: the year of the paper.
pub const PORT: u16 = 2002;
/// The longest time for a request, and for sending its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most connections at a time.
const CONNECTIONS: usize = 32;
/// How long the server waits for a connection before it looks for the end. Nanoseconds.
const PAUSE: i64 = 200_000_000;

/// What the page gets besides the report: the line that follows the study.
const LIVE: &str =
    concat!("<script>", include_str!("../../templates/live.js"), "</script>\n</body>");

/// A server that was started.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    study: Arc<Study>,
    connections: Arc<AtomicUsize>,
}

/// The study and its page.
#[derive(Debug)]
struct Study {
    dir: PathBuf,
    made: Mutex<Page>,
}

/// The page of a version of the results.
#[derive(Debug, Clone, Default)]
struct Page {
    /// Length and time of the results file; `None` before the first page.
    version: Option<(u64, SystemTime)>,
    html: Arc<str>,
    status: StudyStatus,
}

/// The state of a study.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct StudyStatus {
    /// Finished jobs.
    finished: usize,
    /// Planned jobs.
    planned: usize,
    /// A text that changes with the results.
    version: String,
    /// Why there is no report.
    problem: Option<String>,
}

impl Server {
    /// Listens on a port of 127.0.0.1; 0 for any free one. `dir` is the directory of a study, or
    /// its results file; there need not be results yet.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if `dir` does not exist or the port cannot be used.
    pub fn bind(dir: &Path, port: u16) -> Result<Server> {
        let name = dir.display().to_string();
        if let Err(error) = std::fs::metadata(dir) {
            return Err(LabError::unusable(&name, error));
        }
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let bound = TcpListener::bind(place).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.map_err(|error| {
            let why = format!("{error}; choose another port with --port, or 0 for any free one");
            LabError::unusable(&place.to_string(), why)
        })?;
        let study = Study { dir: dir.to_owned(), made: Mutex::default() };
        Ok(Server { listener, address, study: Arc::new(study), connections: Arc::default() })
    }

    /// The address of the page.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers requests until `goes_on` returns false. It is called several times a second.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if the port fails.
    pub fn run(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<()> {
        while goes_on() {
            let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
            let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE };
            match poll(&mut ready, Some(&pause)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LabError::unusable(&self.address.to_string(), error)),
            }
            // An error concerns one connection, which is over.
            while let Ok((stream, _)) = self.listener.accept() {
                self.answer(stream);
            }
        }
        Ok(())
    }

    /// Answers one connection on a thread of its own.
    fn answer(&self, stream: TcpStream) {
        let (study, address) = (Arc::clone(&self.study), self.address);
        let open = Arc::clone(&self.connections);
        if open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS {
            open.fetch_sub(1, Ordering::SeqCst);
            // Dropping the stream closes the connection.
            return;
        }
        let counted = Arc::clone(&open);
        let thread = std::thread::Builder::new().name("serve".to_owned());
        let started = thread.spawn(move || {
            // The browser may have closed the connection.
            let _ = converse(&stream, &study, address);
            counted.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Reads a request and sends the answer.
fn converse(stream: &TcpStream, study: &Study, address: SocketAddr) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let found = Request::read(stream, PATIENCE).and_then(|request| {
        request.check(address.port())?;
        Ok(request)
    });
    let (status, kind, body) = match &found {
        Err(status) => (*status, "text/plain", Arc::from(status.reason())),
        Ok(request) => match request.path() {
            "/" => (Status::Ok, "text/html", study.page().html),
            "/status" => {
                let status = serde_json::to_string(&study.page().status);
                (Status::Ok, "application/json", Arc::from(status.unwrap_or_default()))
            }
            // Browsers request an icon by themselves.
            "/favicon.ico" => (Status::Ok, "image/x-icon", Arc::from("")),
            _ => (Status::NotFound, "text/plain", Arc::from(Status::NotFound.reason())),
        },
    };
    let head_only = found.is_ok_and(|request| request.is_head());
    send(stream, status, kind, &body, head_only)
}

fn send(
    mut stream: &TcpStream,
    status: Status,
    kind: &str,
    body: &str,
    head_only: bool,
) -> std::io::Result<()> {
    // The page has its styles and scripts in it, and loads its status from this server.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                  connect-src 'self'; img-src 'self'";
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Security-Policy: {policy}\r\nConnection: close\r\n\r\n",
        status.code(),
        status.reason(),
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if !head_only {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

impl Study {
    /// The page of the results as they are now.
    fn page(&self) -> Page {
        let version = version(&self.dir);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.version.is_none() || made.version != version {
            *made = Page { version, ..Page::of(&self.dir, version) };
        }
        made.clone()
    }
}

/// Length and time of the results file.
fn version(dir: &Path) -> Option<(u64, SystemTime)> {
    let file = if dir.is_dir() { Results::path_in(dir) } else { dir.to_owned() };
    let found = std::fs::metadata(file).ok()?;
    Some((found.len(), found.modified().ok()?))
}

impl Page {
    fn of(dir: &Path, version: Option<(u64, SystemTime)>) -> Page {
        let since = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let version =
            version.map_or_else(String::new, |(len, at)| format!("{len}-{}", since(at).as_nanos()));
        let mut damage = Vec::new();
        let read = Results::read(dir, &mut |note| damage.push(note));
        let made = read.and_then(|results| {
            let planned = results.plan.jobs().len();
            let html = Report::of(&results)?.html()?;
            Ok((html, results.jobs.len(), planned))
        });
        match made {
            Ok((html, finished, planned)) => {
                let end = html.rfind("</body>").unwrap_or(html.len());
                let html =
                    format!("{}{LIVE}{}", &html[..end], html[end..].trim_start_matches("</body>"));
                let status = StudyStatus { finished, planned, version, problem: None };
                Page { version: None, html: html.into(), status }
            }
            Err(error) => {
                let problem = error.to_string();
                let words = crate::plot::svg::escape(&problem);
                let html = format!(
                    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
                     <title>ffs lab serve</title></head><body><h1>No results yet</h1>\
                     <p>{words}</p>{LIVE}</html>\n"
                );
                let status =
                    StudyStatus { version, problem: Some(problem), ..StudyStatus::default() };
                Page { version: None, html: html.into(), status }
            }
        }
    }
}
