//! Why a result misses its target: the mechanism, where it is known.
//!
//! What was counted tells where time went; these sentences tell why it goes there on the machine and not in
//! the paper. They hold for the paper's sizes on `sim`. Each was read off the counts of such runs, and all but one
//! tested by runs in which the mechanism alone was changed; `bench/counter.sh` repeats them, `docs/lab/README.md` has their
//! figures.

/// A miss and its mechanism.
struct KnownMiss {
    /// Workload and result; `*` for all of them.
    result: (&'static str, &'static str),
    /// Only with one of these combinations; any if empty.
    on: &'static [&'static str],
    why: &'static str,
    /// What happened when it was changed; empty if nobody tried.
    tested: &'static str,
}

const KNOWN: [KnownMiss; 9] = [
    KnownMiss {
        result: ("mh", "rm"),
        on: &["su", "su+dh", "none → su", "su → su+dh", "none → su+dh"],
        why: "rm looks at all names before it removes the first. There are more files than vnodes, so that \
              most inodes are loaded twice.",
        tested: "With room for all of them rm takes 6.3 s instead of 7.9, with a hash 1.4 instead of 1.7.",
    },
    KnownMiss {
        result: ("mh", "rm"),
        on: &["su", "none → su", "su → su+dh"],
        why: "Many names were given by pack less than 30 s before. Our soft updates keep the old record apart until \
              the new name is on the disk: without a hash three times as many records are searched as without \
              soft updates, where the room of removed names is joined at once.",
        tested: "With everything on the disk before rm begins it takes 5.8 s instead of 7.9; with room for all \
                 inodes, too, 4.7.",
    },
    KnownMiss {
        result: ("mh", "create"),
        on: &["none → dh"],
        why: "Without a hash a search takes 0.8 ms of the processor before the two writes. The inode's block comes by \
              at any angle, and of a wait that may be anywhere in a turn nothing is saved on average: now and then \
              0.8 ms miss the sector and cost a whole turn. Only where the same block is written again, as by rm, \
              the search is hidden.",
        tested: "Where searching costs nothing, creation takes 631 s instead of 658 (with a hash 634): all of its \
                 27 s show; rm takes 387 s in each case.",
    },
    KnownMiss {
        result: ("x11", "find"),
        on: &[],
        why: "Only blocks of directories are read, and these only while vmiodir is off: the inodes are in \
              memory since untar. dirpref takes two in three seeks from these reads, but not the turns of \
              the platters. The paper's 34 ms a directory are more reads than one; of what, it does not say.",
        tested: "With 600 vnodes and 8 MB for blocks, so that inodes are read again, dirpref makes find 12.7 times \
                 as fast (3.8 s to 0.3) instead of 2.7.",
    },
    KnownMiss {
        result: ("andrew", "*"),
        on: &[],
        why: "The hundred copies are 20 MB and stay in memory: grep reads nothing from the disk, and the \
              other phases only directories that lost their buffers, which vmiodir prevents. So vmiodir \
              gains here what dirpref gained in the paper, whose files came from the disk. How large its \
              tree was, it does not say.",
        tested: "With 600 vnodes and 8 MB for blocks grep takes 56 s under the old dirpref and 31 under the new, \
                 instead of 0.9 under both.",
    },
    KnownMiss {
        result: ("bonnie", "seq-read"),
        on: &[],
        why: "A lookup in listing order takes 7 µs with a hash and 9 without (Figure 4); nothing else \
              happens in this test, and no disturbance hides it.",
        tested: "Priced alike, both read the same: 75,000 files a second with a hash, 77,000 without, instead \
                 of 63,000.",
    },
    KnownMiss {
        result: ("postmark", "create-alone"),
        on: &[],
        why: "Without a hash a creation searches the whole pool, 0.4 ms of the processor with 20,000 files. \
              The disk writes at the same time, but who creates waits for it only when too much is dirty, so \
              that a part of the search is not hidden.",
        tested: "Where searching costs nothing, 707 files a second are made without a hash and 711 with one, instead \
                 of 647.",
    },
    KnownMiss {
        result: ("postmark", "*"),
        on: &[],
        why: "With soft updates the disk is at work all the time and sets the pace. A hash only changes when \
              writes are begun, and so their order: a percent or two, which can be told where nothing else \
              disturbs.",
        tested: "A search that costs nothing changes the total by as much: 498 s with it, 492 without, 487 with \
                 a hash (20,000 files, 50,000 transactions).",
    },
    KnownMiss {
        result: ("micro", "fig3/linear/10000"),
        on: &[],
        why: "A removal without a hash goes through the chunks that were emptied before, which the paper's \
              curve, noisy as it is, hardly shows.",
        tested: "",
    },
];

/// What is known about a result and the combinations it misses with, `su` or `none → su`.
pub(super) fn of(workload: &str, metric: &str, on: &str) -> Vec<String> {
    let workload = workload.split(':').next().unwrap_or_default();
    let said = |result: &str| {
        let fits = |known: &&KnownMiss| {
            known.result == (workload, result) && (known.on.is_empty() || known.on.contains(&on))
        };
        let said =
            |known: &KnownMiss| format!("{} {}", known.why, known.tested).trim_end().to_owned();
        KNOWN.iter().filter(fits).map(said).collect::<Vec<String>>()
    };
    let own = said(metric);
    if own.is_empty() { said("*") } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_its_own_sentences_or_those_of_its_workload() {
        assert_eq!(of("mh:count=33164", "rm", "su").len(), 2);
        assert_eq!(of("mh", "rm", "su+dh").len(), 1);
        assert!(of("mh", "rm", "none").is_empty() && of("mh", "pack", "su").is_empty());
        let [own, all] =
            ["create-alone", "total"].map(|metric| of("postmark:number=7", metric, ""));
        assert!(own.len() == 1 && all.len() == 1 && own != all);
        for said in KNOWN.iter().flat_map(|known| [known.why, known.tested]) {
            assert!(said.is_empty() || said.ends_with('.') && !said.contains("  "), "{said}");
        }
        assert!(of("mh", "create", "none → dh")[0].contains(". Where searching"));
    }
}
