//! A progress bar for work that takes longer than a second, on a terminal only.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time before the bar is drawn.
const PATIENCE: Duration = Duration::from_secs(1);

/// The bar on the screen. [`suspend`] hides it while a message is printed.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Progress of one piece of work.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    wanted: bool,
    shown: bool,
    total: Option<u64>,
    counted: Counted,
}

#[derive(Clone, Copy)]
enum Counted {
    Bytes,
    Items,
    /// Pieces of different sizes. The caller estimates the time left and puts it in the message.
    #[cfg_attr(not(feature = "lab"), expect(dead_code, reason = "for the laboratory"))]
    Jobs,
}

impl Progress {
    /// Counts bytes, of `total` if that is known.
    pub(crate) fn bytes(what: &str, total: Option<u64>) -> Progress {
        Self::new(what, total, Counted::Bytes)
    }

    /// Counts things.
    pub(crate) fn items(what: &str, total: Option<u64>) -> Progress {
        Self::new(what, total, Counted::Items)
    }

    /// Counts pieces of work that differ in size. The bar prints no time left: the caller puts it
    /// in the message.
    #[cfg(feature = "lab")]
    pub(crate) fn jobs(what: &str, total: u64) -> Progress {
        Self::new(what, Some(total), Counted::Jobs)
    }

    fn new(what: &str, total: Option<u64>, counted: Counted) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        bar.set_prefix(what.to_owned());
        let wanted = io::stderr().is_terminal();
        Progress { bar, started: Instant::now(), wanted, shown: false, total, counted }
    }

    /// `n` more are done.
    pub(crate) fn add(&mut self, n: u64) {
        self.bar.inc(n);
        self.show_if_due();
    }

    /// `n` of `total` are done.
    pub(crate) fn set(&mut self, n: u64, total: Option<u64>) {
        if let Some(total) = total {
            self.bar.set_length(total);
            let known = self.total.replace(total).is_some();
            if self.shown && !known {
                self.set_style();
            }
        }
        self.bar.set_position(n);
        self.show_if_due();
    }

    /// Whether there is or may be a bar on the screen.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted || self.shown
    }

    /// Whether the bar is on the screen.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    /// A new piece of work begins: counts, rate and time left start over.
    pub(crate) fn begin(&mut self, what: String) {
        self.bar.reset();
        self.message(what);
    }

    /// Sets the text behind the bar: the current piece of work.
    pub(crate) fn message(&mut self, what: String) {
        self.bar.set_message(what);
    }

    fn show_if_due(&mut self) {
        if !self.wanted || self.started.elapsed() < PATIENCE {
            return;
        }
        (self.wanted, self.shown) = (false, true);
        self.set_style();
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.bar.clone());
    }

    fn set_style(&self) {
        let counts = match (self.counted, self.total.is_some()) {
            (Counted::Jobs, _) => "{bar:30} {pos} of {len}",
            (Counted::Bytes, true) => {
                "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"
            }
            (Counted::Bytes, false) => "{spinner} {bytes}, {bytes_per_sec}",
            (Counted::Items, true) => "{bar:30} {pos} of {len}, {eta} left",
            (Counted::Items, false) => "{spinner} {pos}",
        };
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{prefix}} {counts} {{wide_msg}}"))
        {
            self.bar.set_style(style);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Takes the bar off the screen while `print` prints.
pub(crate) fn suspend(print: impl FnOnce()) {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}
