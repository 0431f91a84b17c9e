//! A file system that is killed under load: the load, and the check of the result.
//!
//! Several writers, each with its own names in common directories, perform seeded random
//! operations. A writer counts an operation after it has returned. After the kill, the number of
//! operations of each writer determines the possible states: the writer's [`Script`] is run again
//! without a file system.
//!
//! # Invariants
//! 1. The operations of a writer follow from the seed and its number alone; no operation can fail.
//! 2. A name or a file may have any state since it was last made durable, including the effect of
//!    the operation that had not returned, and no other state.
//!
//! The check covers G1 to G4, G8 to G18 and G21 of `spec/fsck-and-crash.md` §9 as far as they
//! concern names and bytes.

mod content;
mod model;
mod op;
mod script;

pub use model::{COMMON, FoundNode, FoundTree, Verified, directory_of};
pub use op::{EntryPath, Op};
pub use script::{FileOps, Script, SyncCalls, SyncFlag};

use model::Progress;

/// Findings that `fsck -p` may repair after a kill (`spec/fsck-and-crash.md` §8).
pub const ALLOWED_REPAIRS: &[&str] = &[
    "CG-LEAK",
    "CG-MAPS",
    "CG-HASH",
    "CG-SUMMARY",
    "CG-LOSTDIR",
    "CS-CG",
    "CS-TOTAL",
    "INO-UNREF0",
    "INO-UNREF",
    "INO-BLOCKS",
    "INO-ENDHOLE",
    "INO-HASH",
    "DIR-UNREF",
    "DIR-CLEAR",
    "LINK-HIGH",
    "ENT-EXCHANGE",
    "ENT-HARDDIR",
    "DOTDOT-WRONG",
    "SB-TORN",
];

/// Checks the tree found in [`COMMON`] after `writer` of `seed` had performed `done` operations.
///
/// # Errors
/// A description of the first name or file that must not be there, or is missing.
pub fn check_found(
    seed: u64,
    writer: u8,
    done: usize,
    sync: SyncCalls,
    found: &FoundTree,
) -> Result<Verified, String> {
    let mut script = Script::new(seed, writer, sync);
    for _ in 0..done {
        let op = script.next_op();
        script.complete(&op);
    }
    let last = script.next_op();
    script.model.apply(&last, Progress::Begun);
    let context = |why: String| format!("writer {writer}, {done} operations, last {last}: {why}");
    script.model.check_found(found).map_err(context)
}

/// Saves the image of a broken promise, which the next run may not find: the threads decide what it
/// contains. Returns where it is, for the message.
pub fn save_image(bytes: &[u8], seed: u64, number: u64) -> String {
    let name = format!("ffs-killed-{seed}-{number}-{}.img", std::process::id());
    let path = std::env::temp_dir().join(name);
    match std::fs::write(&path, bytes) {
        Ok(()) => format!("the image is {}", path.display()),
        Err(error) => format!("the image could not be saved: {error}"),
    }
}

#[cfg(test)]
mod tests;
