//! Counters of requests by kind.
//!
//! **Purpose.** How many requests a program's call costs is a property of the protocol and of our
//! replies. The counters show it, also in tests.

use crate::wire::op;
use ffs_core::{Nature, Sysctl};
use std::sync::atomic::{AtomicU64, Ordering};

/// Above every opcode.
const OPCODES: usize = 64;

/// The number of requests of each kind since the mount.
pub(super) struct RequestCounts {
    by_opcode: [AtomicU64; OPCODES],
    spliced: AtomicU64,
}

impl RequestCounts {
    pub(super) fn new() -> RequestCounts {
        let by_opcode = [const { AtomicU64::new(0) }; OPCODES];
        RequestCounts { by_opcode, spliced: AtomicU64::new(0) }
    }

    /// Counts a request. An opcode above the table is not counted.
    pub(super) fn count(&self, opcode: u32) {
        if let Some(n) = self.by_opcode.get(opcode as usize) {
            n.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a read whose content was not copied.
    pub(super) fn count_spliced(&self) {
        self.spliced.fetch_add(1, Ordering::Relaxed);
    }

    /// Every counter.
    pub(super) fn sysctl(&self) -> impl Iterator<Item = Sysctl> + '_ {
        let spliced = Sysctl {
            name: "vfs.fusefs.reads_spliced",
            nature: Nature::Counter,
            value: self.spliced.load(Ordering::Relaxed).to_string(),
            meaning: "Reads whose content passed from the image to the kernel by splice(2).",
        };
        let by_opcode = op::COUNTED.iter().filter_map(|&(opcode, name)| {
            let count = self.by_opcode.get(opcode as usize)?.load(Ordering::Relaxed);
            Some(Sysctl {
                name,
                nature: Nature::Counter,
                value: count.to_string(),
                meaning: "Requests of this kind from the kernel.",
            })
        });
        by_opcode.chain([spliced])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_has_a_counter() {
        let counts = RequestCounts::new();
        for &(opcode, _) in op::COUNTED {
            counts.count(opcode);
        }
        counts.count(u32::MAX);
        counts.count_spliced();
        assert!(counts.sysctl().all(|s| s.value == "1"));
        assert_eq!(counts.sysctl().count(), op::COUNTED.len() + 1);
    }
}
