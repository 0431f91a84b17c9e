//! Whoever looks on: hears of progress, may ask to stop.

/// An onlooker.
pub trait Watch {
    /// What is being done now.
    fn step(&mut self, what: &str) {
        let _ = what;
    }

    /// `n` more operations are done; false to stop.
    fn done(&mut self, n: u64) -> bool;
}

/// Nobody looks on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn done(&mut self, _: u64) -> bool {
        true
    }
}
