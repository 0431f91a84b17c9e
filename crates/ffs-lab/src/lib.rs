//! The laboratory: workloads written once, run on any target, side by side.
//!
//! | module | holds |
//! | --- | --- |
//! | [`target`] | [`Target`]: the library ([`target::core`]), on the machine of 2002 ([`target::sim`]), a directory |
//! | [`dirs`] | one directory, N empty files: the phases and their measurement |
//! | [`compare`] | the same phases on several targets in one run, interleaved |
//! | [`apps`] | real programs on a recorded disk, and what they find after a power cut |
//! | [`crash`] | every state a power cut may leave, examined |
//! | [`stress`] | random operations by several processes on a mounted directory |
//! | [`study`] | every combination of switches, several times, in random order |
//! | [`figures`] | the cost curves of the paper's Figures 2 to 6 |
//! | [`work`] | the workloads of the paper and others: files made, read, renamed and removed in phases |
//! | [`order`], [`names`] | seeded orders, and names laid out in them before time is taken |
//! | [`stat`] | the experiment's statistics: rank tables, the linear model, the summary |
//! | [`plot`] | pictures as SVG |
//! | [`report`] | the report of a study: a page, its figures, tables |
//! | [`memory`] | what a read of memory costs that waits for another |
//! | [`machine`] | the computer of 2002 in virtual time |
//! | [`stats`] | what several rounds say together |
//! | `same` | logarithms and powers with the same bits on every computer |
//! | [`timer`], [`watch`] | time from outside; progress out, "stop" in |
//!
//! # Invariants
//! 1. A workload knows its target by [`Target`] alone, and reads the time from it: a target with a
//!    simulated disk answers with virtual time.
//! 2. What is measured are the calls of the target: names, orders and progress are made outside.
//! 3. Same seed, same operations in the same order on every target.
//! 4. A target leaves no trace, also after an error or when it is told to stop, and touches nothing
//!    that was there before.
//!
//! Reference: `spec/benchmarks.md` §2.4, §3, §4.8, §4.9.

pub mod apps;
pub mod compare;
pub mod crash;
pub mod dirs;
mod error;
pub mod figures;
pub mod machine;
pub mod memory;
pub mod names;
pub mod order;
pub mod plot;
pub mod report;
mod same;
pub mod stat;
pub mod stats;
pub mod stress;
pub mod study;
pub mod target;
pub mod timer;
pub mod watch;
pub mod work;

pub use error::{LabError, Result};
pub use target::{Target, TargetSpec};
pub use timer::{RealTimer, Timer};
pub use watch::{Unwatched, Watch};
pub use work::Workload;
