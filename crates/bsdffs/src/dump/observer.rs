//! The interface between a dump and its caller.

/// Watches and steers a dump.
pub trait DumpObserver {
    /// `records` of about `estimate` records are written.
    fn progress(&mut self, records: u64, estimate: u64) {
        let _ = (records, estimate);
    }

    /// A file is not complete in the dump.
    fn problem(&mut self, text: &str);

    /// Whether to end the dump.
    fn is_cancelled(&self) -> bool {
        false
    }
}
