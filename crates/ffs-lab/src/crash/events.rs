//! The log events of soft updates while a workload is recorded, for the report of a failing state.
//!
//! The engine logs each ordering event, each rollback, and each write to the target `ffs::softdep`
//! of `tracing`. [`Collector`] keeps them with their place in the log of the device.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};

use ffs_device::MemDevice;
use ffs_device::record::Recorder;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The target of the engine's log events.
const TARGET: &str = "ffs::softdep";

/// A log event of the engine of soft updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderingEvent {
    /// Events in the log of the device when it happened.
    pub at: u64,
    /// Its text with its fields.
    pub text: String,
}

/// Keeps the log events of soft updates in one thread.
pub(crate) struct Collector {
    recorder: Arc<Recorder<MemDevice>>,
    events: Mutex<Vec<OrderingEvent>>,
}

impl Collector {
    /// `recorder` is the device of the workload.
    pub(crate) fn new(recorder: Arc<Recorder<MemDevice>>) -> Collector {
        Collector { recorder, events: Mutex::new(Vec::new()) }
    }

    /// Calls `run`. Returns its result, and the log events of this thread until it returned.
    pub(crate) fn collect<T>(self, run: impl FnOnce() -> T) -> (T, Vec<OrderingEvent>) {
        let collector = Arc::new(self);
        let result = tracing::subscriber::with_default(Arc::clone(&collector), run);
        let mut events = collector.events.lock().unwrap_or_else(PoisonError::into_inner);
        (result, std::mem::take(&mut *events))
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // `tracing::enabled!` has neither an event nor a span.
        metadata.target() == TARGET && !metadata.is_span()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let event = OrderingEvent { at: self.recorder.logged(), text: text.message + &text.fields };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// The text of a log event: its message, and its fields with their names.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A write to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// The lines of a report: the last `most` events before the device had seen `seen` events.
pub(super) fn lines(events: &[OrderingEvent], seen: u64, most: usize) -> Vec<String> {
    let before = events.partition_point(|event| event.at <= seen);
    let events = events.get(..before).unwrap_or_default();
    let shown = events.get(before.saturating_sub(most)..).unwrap_or_default();
    let head = match before - shown.len() {
        _ if before == 0 => return Vec::new(),
        0 => "soft updates (device events, then the event):".to_owned(),
        skipped => format!("soft updates, {skipped} before them (device events, then the event):"),
    };
    let line = |event: &OrderingEvent| format!("  {:>4} {}", event.at, event.text);
    std::iter::once(head).chain(shown.iter().map(line)).collect()
}
