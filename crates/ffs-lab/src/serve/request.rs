//! Requests of HTTP/1.1, of which only the first line and `Host` are needed.
//!
//! # Invariants
//! 1. A head has at most [`HEAD`] bytes and arrives within a given time; otherwise it is refused.
//! 2. A request that was accepted is a GET or HEAD of a path of this computer.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Most bytes of the head of a request.
const HEAD: usize = 8 << 10;

/// A status of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    Forbidden,
    NotFound,
    NotAllowed,
    Timeout,
    TooLarge,
    Version,
}

impl Status {
    pub(super) fn code(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::BadRequest => 400,
            Status::Forbidden => 403,
            Status::NotFound => 404,
            Status::NotAllowed => 405,
            Status::Timeout => 408,
            Status::TooLarge => 431,
            Status::Version => 505,
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::BadRequest => "Bad Request",
            Status::Forbidden => "Forbidden",
            Status::NotFound => "Not Found",
            Status::NotAllowed => "Method Not Allowed",
            Status::Timeout => "Request Timeout",
            Status::TooLarge => "Request Header Fields Too Large",
            Status::Version => "HTTP Version Not Supported",
        }
    }
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    method: String,
    target: String,
    version: String,
    hosts: Vec<String>,
}

impl Request {
    /// Reads the head of a request.
    pub(super) fn read(stream: &TcpStream, patience: Duration) -> Result<Request, Status> {
        let end = Instant::now() + patience;
        let mut head = Vec::new();
        let mut stream = stream;
        loop {
            if let Some(at) = end_of_head(&head) {
                return Request::parse(head.get(..at).unwrap_or(&[]));
            }
            if head.len() >= HEAD {
                return Err(Status::TooLarge);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
                return Err(Status::Timeout);
            }
            let mut part = [0; 1024];
            let most = part.len().min(HEAD - head.len());
            let part = part.get_mut(..most).unwrap_or(&mut []);
            match stream.read(part) {
                Ok(0) => return Err(Status::BadRequest),
                Ok(n) => head.extend_from_slice(part.get(..n).unwrap_or(&[])),
                Err(_) => return Err(Status::Timeout),
            }
        }
    }

    fn parse(head: &[u8]) -> Result<Request, Status> {
        let text = std::str::from_utf8(head).map_err(|_| Status::BadRequest)?;
        let mut lines = text.split("\r\n");
        let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let &[method, target, version] = first.as_slice() else { return Err(Status::BadRequest) };
        let mut hosts = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(Status::BadRequest)?;
            if name.eq_ignore_ascii_case("host") {
                hosts.push(value.trim().to_owned());
            }
        }
        let (method, target) = (method.to_owned(), target.to_owned());
        Ok(Request { method, target, version: version.to_owned(), hosts })
    }

    /// Refuses what the server does not answer on `port`.
    pub(super) fn check(&self, port: u16) -> Result<(), Status> {
        if !self.version.starts_with("HTTP/1.") {
            return Err(Status::Version);
        }
        if !matches!(self.method.as_str(), "GET" | "HEAD") {
            return Err(Status::NotAllowed);
        }
        if !self.target.starts_with('/') {
            return Err(Status::BadRequest);
        }
        // A name of another site that leads here is not answered.
        let [host] = self.hosts.as_slice() else { return Err(Status::BadRequest) };
        let own = ["127.0.0.1", "localhost"];
        let given = host.strip_suffix(&format!(":{port}")).unwrap_or(host);
        if own.contains(&given) { Ok(()) } else { Err(Status::Forbidden) }
    }

    /// The path, without a query.
    pub(super) fn path(&self) -> &str {
        self.target.split(['?', '#']).next().unwrap_or_default()
    }

    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }
}

fn end_of_head(head: &[u8]) -> Option<usize> {
    head.windows(4).position(|four| four == b"\r\n\r\n")
}
