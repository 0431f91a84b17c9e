//! The statistics: from the runs of a full factorial experiment to tables and pictures' numbers.
//!
//! | module | holds |
//! | --- | --- |
//! | [`cells`] | [`Cells`]: the runs of one result by combination of options; means and spreads |
//! | [`rank`] | the rank table, and which option matters most |
//! | [`model`] | the linear model with all interactions, errors, the test at 1/1000 |
//! | [`path`] | from nothing to everything, the option that helps most first |
//! | [`hints`] | how a model is to be read, in sentences |
//!
//! # Invariants
//! 1. A value is a cost: less is better. Rates come in as time per unit of work, so their mean is one
//!    of times (that is, harmonic).
//! 2. Everything relative is relative to the combination without options; where that was not run,
//!    nothing relative is told.
//! 3. What was not run is missing, never zero.
//!
//! Reference: `spec/benchmarks.md` §3.

pub mod cells;
pub mod hints;
pub mod model;
pub mod path;
#[cfg(test)]
pub(crate) mod published;
pub mod rank;

pub use cells::{Cells, Combination};
pub use model::{Model, Term};
pub use path::{Step, SummaryPath};
pub use rank::{RankRow, RankTable};

/// A difference is told from noise when chance alone gives it less often than this.
pub const LEVEL: f64 = 1.0 / 1000.0;
