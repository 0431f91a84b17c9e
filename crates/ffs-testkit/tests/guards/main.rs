//! Guards over the sources: retired words, layout, import circles.
//!
//! Each guard counts its findings by area: a crate, or a top-level folder. `allowances.txt` holds
//! the counts that are still allowed. A count above its allowance fails; the aim is an empty file.
//! After a count has fallen, lower its allowance:
//!
//! ```console
//! $ FFS_ALLOWANCES=lower cargo test -p bsdffs-testkit --test guards
//! ```
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at surprises")]

mod allowance;
mod circles;
mod files;
mod layout;
mod modules;
mod softdep_order;
mod vocabulary;
