//! Bad input: input that broke other systems must break neither the mounted file system nor the
//! check.
//!
//! The name of a test has the group of failures in the specification (`spec/known-failures.md` §2:
//! `kf2_05_...`; §1: `kf1_08_...`); tests from the list "bad input" without a group are named
//! `bad_...`. Each test runs on UFS1 and UFS2 in both byte orders if the format matters. All tests
//! of damage have the same requirements ([`ordeal`]): errors with the right errno, the structure,
//! its location and the field; undamaged files are unchanged before and after the check; bounded
//! work and memory; one `fsck -y` repairs everything, and the volume is not marked clean before.
//!
//! Tests with random numbers print their seed. `FFS_KF_SEED` is added to it, and `FFS_KF_TIMES`
//! multiplies the number of rounds.
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

/// A seed and a number of rounds, modified by the environment.
fn rounds(seed: u64, rounds: u64) -> (u64, u64) {
    let seed = seed.wrapping_add(number("FFS_KF_SEED").unwrap_or(0));
    (seed, rounds.saturating_mul(number("FFS_KF_TIMES").unwrap_or(1)))
}
