//! The statistics of a full factorial experiment: from the runs to the numbers of tables and
//! charts.
//!
//! | module | content |
//! | --- | --- |
//! | `combination` | [`Combination`]: a set of options |
//! | `design` | [`Design`]: factors, levels and their combinations |
//! | `cells` | [`Cells`]: the runs of one result by combination of options; means and spreads |
//! | `rank` | the rank table, and the importance of the options |
//! | `model` | the linear model with all interactions, standard errors, the test at 1/1000 |
//! | `path` | the stepwise path from no option to one of each factor: the best result comes first |
//! | `hints` | sentences that interpret a model |
//! | `summary` | median, minimum and maximum of a few rounds |
//!
//! # Invariants
//! 1. A value is a cost: less is better. A rate is stored as time per unit of work, so that its
//!    mean is the harmonic one.
//! 2. Relative values are relative to the combination without options. Without a run of it there
//!    are none.
//! 3. A combination that was not run is missing, never zero.
//!
//! Reference: `docs/spec/benchmarks.md` §3.

mod cells;
mod combination;
mod design;
pub(crate) mod hints;
mod model;
mod path;
mod rank;
mod summary;
#[cfg(test)]
pub(crate) mod table1;

pub(crate) use cells::Cells;
pub(crate) use combination::Combination;
pub(crate) use design::{Design, MOST_COMBINATIONS, MOST_OPTIONS};
pub(crate) use model::{Model, Term};
pub(crate) use path::{PathStep, StepwisePath, VISIBLE};
pub(crate) use rank::{RankRow, RankTable, importance};
pub(crate) use summary::Summary;

/// A difference is significant if its p value is below this.
pub(crate) const LEVEL: f64 = 1.0 / 1000.0;
