//! A file system whose server is killed under load: what is done to it, and what must be left.
//!
//! Several writers, each with names of its own in common directories, do seeded random operations; a writer
//! counts an operation after it returned. When all is over, the number of operations that each writer had done
//! is enough to say what must be there: the writer's [`Script`] is run again, without a file system.
//!
//! # Invariants
//! 1. What a writer does follows from the seed and its number alone; no operation can fail.
//! 2. A name or a file may show any state it had since it was last made durable, and that of the
//!    operation that had not returned; nothing else.
//!
//! What is judged, in the words of `spec/fsck-and-crash.md` §9: G1 to G4, G8 to G18 and G21 as far as they
//! concern names and bytes.

mod content;
mod model;
mod script;

pub use content::Content;
pub use model::{At, Found, Model, Thing, directory_of};
pub use script::{Op, Place, Script};

/// What `fsck -p` may find after a kill (`spec/fsck-and-crash.md` §8).
pub const REPAIRS: &[&str] = &[
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

/// Directories in which all writers work; the first holds the others.
pub const COMMON: [&str; 3] = ["top", "top/a", "top/b"];

/// Judges what was found in [`COMMON`] when `writer` of `seed` had done `done` operations.
///
/// # Errors
/// What is wrong, in words.
pub fn judge(
    seed: u64,
    writer: u8,
    done: usize,
    sync: bool,
    found: &Found,
) -> Result<Promises, String> {
    let mut script = Script::new(seed, writer, sync);
    for _ in 0..done {
        let op = script.next_op();
        script.model.apply(&op, true);
    }
    let last = script.next_op();
    script.model.apply(&last, false);
    let told = |why: String| format!("writer {writer}, {done} operations, last {last}: {why}");
    script.model.judge(found).map_err(told)
}

/// What was asked of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Names that had to be there, or gone, because somebody was told so.
    pub names: u64,
    /// Files of which bytes had to be there.
    pub files: u64,
}

impl std::ops::AddAssign for Promises {
    fn add_assign(&mut self, more: Promises) {
        self.names += more.names;
        self.files += more.files;
    }
}

#[cfg(test)]
mod tests;
