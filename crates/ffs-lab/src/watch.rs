//! Progress reports and interruption.

/// Receives the progress of a measurement, and can stop it.
pub trait Watch {
    /// Names the work that begins now.
    fn step(&mut self, what: &str) {
        let _ = what;
    }

    /// Reports `n` more finished operations. `false` stops the measurement.
    fn done(&mut self, n: u64) -> bool;
}

/// Ignores progress and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn done(&mut self, _: u64) -> bool {
        true
    }
}
