//! Bad input: what broke others must not break the mounted file system, nor the check.
//!
//! A test is named by the group of failures of the specification that it stands for
//! (`spec/known-failures.md` §2: `kf2_05_...`; §1: `kf1_08_...`); those of the list "bad input"
//! without a group are named `bad_...`. Each runs on UFS1 and UFS2 in both byte orders where the
//! format matters. What a test of damage demands is the same everywhere ([`ordeal`]): errors with
//! the right errno that name the structure, the place and the field; files that were not damaged
//! read back unchanged, before and after the check; bounded work and memory; one `fsck -y` repairs
//! everything, and the volume is not called clean before.
//!
//! Tests with random numbers print their seed; `FFS_KF_SEED` adds to it and `FFS_KF_TIMES` makes
//! them that many times longer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests stop at surprises"
)]

mod checker;
mod directories;
mod disk;
mod eio;
mod files;
mod groups;
mod images;
mod layout;
mod memory;
mod mounting;
mod ordeal;
mod snapshots;
mod space;
mod superblock;
mod walk;

use ffs_testkit::envvar::number;

/// A seed, and a number of rounds, as the environment changes them.
fn rounds(seed: u64, rounds: u64) -> (u64, u64) {
    let seed = seed.wrapping_add(number("FFS_KF_SEED").unwrap_or(0));
    (seed, rounds.saturating_mul(number("FFS_KF_TIMES").unwrap_or(1)))
}
