//! The laboratory: benchmarks, a simulated computer of 2002, crash states and stress tests.
//!
//! A *workload* makes calls on a *target*. A target is the library in this process, the library on
//! the simulated computer, or a directory of any mounted file system. A *study* runs workloads
//! under every combination of mount options and writes a *report*.
//!
//! | module | content |
//! | --- | --- |
//! | [`systems`] | [`Target`]: the calls a workload can make, and the three kinds of target |
//! | [`workload`] | the benchmarks of the paper and others, in measured phases |
//! | [`dirs`] | one directory of N empty files, operation by operation |
//! | [`compare`] | one workload on several targets in one run |
//! | [`threads`] | the same operations from several threads, real or simulated |
//! | [`cost_curves`] | the cost of one operation as a directory grows: the paper's Figures 2 to 6 |
//! | [`index`] | directory indexes side by side: dirhash, HTree, a B+tree and others |
//! | [`study`] | every combination of mount options, several runs of each, in random order |
//! | `statistics` | rank tables, the linear model, the stepwise path, medians |
//! | [`report`], `plot` | the report of a study as HTML, text and CSV; its charts as SVG |
//! | `machine` | the simulated computer: processor, disk and clock in virtual time |
//! | [`crash`] | the disk images a crash can leave, and their check |
//! | [`serve`] | a running study in the browser |
//! | [`draw`] | a volume drawn block by block, and a crash and its repair in steps |
//! | [`apps`] | real programs on a recorded device, and what they find after a crash |
//! | [`stress`] | random operations by several processes on a mounted directory |
//! | [`trace`] | the calls of real programs: formats, recording, replay |
//! | [`memory_latency`] | the time of one read of main memory |
//! | `file_names`, `shuffle` | file names and seeded orders, prepared before the clock starts |
//! | `portable_math` | logarithms and powers with the same result on every computer |
//! | `timer`, `watch` | the clock; progress and interruption |
//!
//! # Invariants
//! 1. A workload reads the time from its [`Target`]. A simulated target returns virtual time.
//! 2. Only calls of the target are timed. Names, orders and progress reports are made outside.
//! 3. The same seed gives the same operations in the same order on every target.
//! 4. A target removes what it made, also after an error or an interruption, and changes nothing
//!    that existed before.
//!
//! # Example
//! ```
//! use std::sync::Arc;
//!
//! use ffs_lab::compare::WorkloadRequest;
//! use ffs_lab::systems::Context;
//! use ffs_lab::workload::{PhaseOptions, by_name};
//! use ffs_lab::{RealTimer, TargetSpec, Unwatched};
//!
//! # fn main() -> ffs_lab::Result<()> {
//! let workload = by_name("postmark:number=20,transactions=30", 1.0)?;
//! let request = WorkloadRequest {
//!     workload: &*workload,
//!     targets: vec![TargetSpec::parse("core")?, TargetSpec::parse("core:softdep")?],
//!     seed: 2002,
//!     rounds: 1,
//!     options: PhaseOptions::default(),
//!     setup: String::new(),
//! };
//! let context = Context { timer: Arc::new(RealTimer::start()), seed: 2002 };
//! let comparison = request.run(&context, &mut Unwatched)?;
//! assert!(comparison.row("core:softdep", "create-alone").is_some());
//! # Ok(())
//! # }
//! ```
//!
//! Reference: `docs/spec/benchmarks.md`.

pub mod apps;
pub mod compare;
pub mod cost_curves;
pub mod crash;
pub mod dirs;
pub mod draw;
mod error;
mod file_names;
#[cfg(test)]
mod headless;
pub mod index;
mod machine;
pub mod memory_latency;
mod plot;
mod pool;
mod portable_math;
pub mod report;
pub mod serve;
mod shuffle;
mod statistics;
#[cfg(target_os = "linux")]
pub mod stress;
pub mod study;
pub mod sweep;
pub mod systems;
pub mod threads;
mod timer;
pub mod trace;
mod watch;
pub mod workload;

pub use error::{LabError, Result};
pub use systems::{Target, TargetSpec};
pub use timer::{RealTimer, Timer};
pub use watch::{Unwatched, Watch};
pub use workload::Workload;
