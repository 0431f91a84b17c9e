//! `--log FILTER`: which events are logged, and where they go.
//!
//! The libraries emit `tracing` events. Without a filter no command logs anything; a server
//! (`ffs mount`) logs errors. `docs/guide/logging.md` lists the targets and levels.

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

use ffs_fuse::{LogWriter, Options};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::{output, progress};

/// Where the filter comes from if the command line has none.
const VARIABLE: &str = "RUST_LOG";

/// The filter of the command line, or else of the environment; checked.
static FILTER: OnceLock<String> = OnceLock::new();

/// Sets the filter: the one of the command line, or else of the environment.
///
/// # Errors
/// The filter of the command line cannot be read.
pub(crate) fn set_filter(given: Option<String>) -> Result<(), ParseError> {
    let filter = match given {
        Some(filter) => {
            EnvFilter::builder().parse(&filter)?;
            filter
        }
        None => match std::env::var(VARIABLE) {
            Ok(filter) if is_readable(&filter) => filter,
            _ => return Ok(()),
        },
    };
    // Set once, before anything is logged.
    let _ = FILTER.set(filter);
    Ok(())
}

/// Whether the environment's filter can be read. Prints a warning if not. An empty one is no
/// filter.
fn is_readable(filter: &str) -> bool {
    let parsed = EnvFilter::builder().parse(filter);
    if let Err(error) = &parsed {
        output::warn(format!("{VARIABLE}: {error}"));
    }
    parsed.is_ok() && !filter.is_empty()
}

/// Logs what the filter selects; nothing without one.
pub(crate) fn start() {
    if let Some(filter) = FILTER.get() {
        install(filter);
    }
}

/// Logs errors, what the filter selects, and with `-o debug` the requests.
pub(crate) fn start_server(options: &Options) {
    let filter = FILTER.get().map_or("", String::as_str);
    let requests = if options.debug { "ffs::fuse=debug" } else { "" };
    let parts = ["error", filter, requests].into_iter().filter(|part| !part.is_empty());
    install(&parts.collect::<Vec<_>>().join(","));
}

/// As [`start_server`] for a mount that mount(8) makes.
pub(crate) fn start_helper(options: &Options) {
    // Only a filter of the command line is an error.
    let _ = set_filter(None);
    start_server(options);
}

/// Logs what `filter`, which was checked, selects.
fn install(filter: &str) {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_ansi(false)
        .with_timer(Clock)
        .with_writer(Destination)
        .finish();
    // Fails only where one is installed already: it stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// The time of a message, where nothing else adds it.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        if LogWriter::is_syslog() { Ok(()) } else { SystemTime.format_time(out) }
    }
}

/// Standard error, above a progress bar; syslog for a server in the background.
struct Destination;

impl<'a> MakeWriter<'a> for Destination {
    type Writer = Message;

    fn make_writer(&'a self) -> Message {
        Message(LogWriter::new(tracing::Level::ERROR))
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Message {
        Message(LogWriter::new(*meta.level()))
    }
}

struct Message(LogWriter);

impl Write for Message {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let mut result = Ok(0);
        progress::suspend(|| result = self.0.write(message));
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
