//! Ctrl-C during long operations: a copy, a build or a check ends when the interpreter has a
//! pending signal whose handler raises.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bsdffs::build::BuildObserver;
use bsdffs::copy::{Observer, SkippedFile};
use pyo3::prelude::*;

/// How often pending signals are looked for.
const INTERVAL: Duration = Duration::from_millis(50);
/// Messages about skipped files that are kept. The report counts all.
const MESSAGES: usize = 1000;

/// The exception that a signal handler has raised, if there is one.
fn pending() -> Option<PyErr> {
    Python::attach(|py| py.check_signals().err())
}

/// Watches a copy or a build.
pub(crate) struct Watch {
    state: RefCell<(Instant, Option<PyErr>)>,
    skipped: Vec<String>,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch { state: RefCell::new((Instant::now(), None)), skipped: Vec::new() }
    }

    /// The exception that ended the operation, and the messages about skipped files.
    pub(crate) fn finish(self) -> (Option<PyErr>, Vec<String>) {
        (self.state.into_inner().1, self.skipped)
    }
}

impl Observer for Watch {
    fn skipped(&mut self, file: &SkippedFile) {
        if self.skipped.len() < MESSAGES {
            self.skipped.push(file.to_string());
        }
    }

    fn is_cancelled(&self) -> bool {
        let mut state = self.state.borrow_mut();
        if state.1.is_none() && state.0.elapsed() >= INTERVAL {
            *state = (Instant::now(), pending());
        }
        state.1.is_some()
    }
}

impl BuildObserver for Watch {}

/// Watches a check, which reports its progress from a closure without a borrow.
#[derive(Clone)]
pub(crate) struct Interrupt {
    pub(crate) flag: Arc<AtomicBool>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Interrupt {
    pub(crate) fn new() -> Interrupt {
        Interrupt { flag: Arc::default(), raised: Arc::default() }
    }

    /// A function to call at each step.
    pub(crate) fn watch(&self) -> impl FnMut() + Send + use<> {
        let own = self.clone();
        let mut looked = Instant::now();
        move || {
            if looked.elapsed() < INTERVAL {
                return;
            }
            looked = Instant::now();
            if let Some(error) = pending() {
                *own.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                own.flag.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The exception that ended the check.
    pub(crate) fn finish(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
