//! Counters of requests by kind.
//!
//! **Purpose.** How many requests a program's call costs is a property of the protocol and of our
//! replies. The counters show it, also in tests.

use crate::wire::op;
use ffs_core::{Nature, Sysctl};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Above every opcode.
const OPCODES: usize = 64;

/// How often threads of the server got the policy `SCHED_IDLE` and had to leave it.
#[derive(Default)]
pub(crate) struct SchedIdleCounts {
    pub(crate) entered: AtomicU64,
    pub(crate) contended: AtomicU64,
}

/// The counters of `spliced`: names and meanings.
const SPLICED: [(&str, &str); 2] = [
    (
        "vfs.fusefs.reads_spliced",
        "Reads whose content passed from the image to the kernel by splice(2).",
    ),
    (
        "vfs.fusefs.writes_spliced",
        "Writes whose content passed from the kernel to the server by splice(2).",
    ),
];

/// The counters of [`SchedIdleCounts`]: names and meanings.
const SCHED_IDLE: [(&str, &str); 2] = [
    (
        "vfs.fusefs.sched_idle",
        "How often a thread of the server got the policy SCHED_IDLE, beside its client.",
    ),
    (
        "vfs.fusefs.sched_idle_contended",
        "How often a thread lost that policy because it waited for its processor.",
    ),
];

/// The number of requests of each kind since the mount.
pub(super) struct RequestCounts {
    by_opcode: [AtomicU64; OPCODES],
    /// Reads whose content splice(2) sent, and writes whose content arrived by it.
    spliced: [AtomicU64; 2],
    sched_idle: Arc<SchedIdleCounts>,
}

impl RequestCounts {
    pub(super) fn new() -> RequestCounts {
        let by_opcode = [const { AtomicU64::new(0) }; OPCODES];
        RequestCounts { by_opcode, spliced: Default::default(), sched_idle: Arc::default() }
    }

    /// Counts a request. An opcode above the table is not counted.
    pub(super) fn count(&self, opcode: u32) {
        if let Some(n) = self.by_opcode.get(opcode as usize) {
            n.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a read whose content was not copied.
    pub(super) fn count_spliced_read(&self) {
        self.spliced[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a write whose content arrived in a pipe.
    pub(super) fn count_spliced_write(&self) {
        self.spliced[1].fetch_add(1, Ordering::Relaxed);
    }

    /// The counters for the threads that serve.
    pub(super) fn sched_idle(&self) -> Arc<SchedIdleCounts> {
        Arc::clone(&self.sched_idle)
    }

    /// Every counter.
    pub(super) fn sysctl(&self) -> impl Iterator<Item = Sysctl> + '_ {
        let sched_idle = [&self.sched_idle.entered, &self.sched_idle.contended];
        let named = SPLICED.iter().zip(&self.spliced).chain(SCHED_IDLE.iter().zip(sched_idle));
        let named = named.map(|(&(name, meaning), count)| Sysctl {
            name,
            nature: Nature::Counter,
            value: count.load(Ordering::Relaxed).to_string(),
            meaning,
        });
        let by_opcode = op::COUNTED.iter().filter_map(|&(opcode, name)| {
            let count = self.by_opcode.get(opcode as usize)?.load(Ordering::Relaxed);
            Some(Sysctl {
                name,
                nature: Nature::Counter,
                value: count.to_string(),
                meaning: "Requests of this kind from the kernel.",
            })
        });
        by_opcode.chain(named)
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
        counts.count_spliced_read();
        counts.count_spliced_write();
        counts.sched_idle().entered.fetch_add(1, Ordering::Relaxed);
        counts.sched_idle().contended.fetch_add(1, Ordering::Relaxed);
        assert!(counts.sysctl().all(|s| s.value == "1"));
        assert_eq!(counts.sysctl().count(), op::COUNTED.len() + 4);
    }
}
