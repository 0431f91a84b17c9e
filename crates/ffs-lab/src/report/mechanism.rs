//! Why a result misses its target: the mechanism, where it is known.
//!
//! What was counted tells where time went; these sentences tell why it goes there on the machine and not in
//! the paper. They hold for the paper's sizes on `sim`, and each was read off the counts of such runs.

/// A miss and its mechanism.
struct Known {
    /// Workload and result; `*` for all of them.
    result: (&'static str, &'static str),
    /// Only with one of these combinations; any if empty.
    on: &'static [&'static str],
    why: &'static str,
}

const KNOWN: [Known; 9] = [
    Known {
        result: ("mh", "rm"),
        on: &["su", "su+dh", "none → su", "su → su+dh", "none → su+dh"],
        why: "rm looks at all names before it removes the first. There are more files than vnodes, so that \
              most inodes are loaded twice.",
    },
    Known {
        result: ("mh", "rm"),
        on: &["su", "none → su", "su → su+dh"],
        why: "Our soft updates keep the record of a removed name apart until its removal is on the disk: \
              without a hash three times as many records are searched as without soft updates, where the \
              room of removed names is joined at once.",
    },
    Known {
        result: ("mh", "create"),
        on: &["none → dh"],
        why: "The search takes the processor's 0.8 ms between two writes, and the platters go on turning: \
              what a hash saves is hidden in the wait only where the next sector has not passed meanwhile.",
    },
    Known {
        result: ("x11", "find"),
        on: &[],
        why: "Only blocks of directories are read, and these only while vmiodir is off: the inodes are in \
              memory since untar. dirpref takes two in three seeks from these reads, but not the turns of \
              the platters. The paper's 34 ms a directory are more reads than one; of what, it does not say.",
    },
    Known {
        result: ("andrew", "*"),
        on: &[],
        why: "The hundred copies are 20 MB and stay in memory: grep reads nothing from the disk, and the \
              other phases only directories that lost their buffers, which vmiodir prevents. So vmiodir \
              gains here what dirpref gained in the paper, whose files came from the disk. How large its \
              tree was, it does not say.",
    },
    Known {
        result: ("bonnie", "seq-read"),
        on: &[],
        why: "A lookup in listing order takes 7 µs with a hash and 9 without (Figure 4); nothing else \
              happens in this test, and no disturbance hides it.",
    },
    Known {
        result: ("postmark", "create-alone"),
        on: &[],
        why: "Without a hash a creation searches the whole pool, 0.4 ms of the processor with 20,000 files. \
              The disk writes at the same time, but who creates waits for it only when too much is dirty, so \
              that a part of the search is not hidden.",
    },
    Known {
        result: ("postmark", "*"),
        on: &[],
        why: "With soft updates the disk is at work all the time and sets the pace. A hash only changes when \
              writes are begun, and so their order: a percent or two, which can be told where nothing else \
              disturbs.",
    },
    Known {
        result: ("micro", "fig3/linear/10000"),
        on: &[],
        why: "A removal without a hash goes through the chunks that were emptied before, which the paper's \
              curve, noisy as it is, hardly shows.",
    },
];

/// What is known about a result and the combinations it misses with, `su` or `none → su`.
pub(super) fn of(workload: &str, metric: &str, on: &str) -> Vec<String> {
    let workload = workload.split(':').next().unwrap_or_default();
    let said = |result: &str| {
        let fits = |known: &&Known| {
            known.result == (workload, result) && (known.on.is_empty() || known.on.contains(&on))
        };
        KNOWN.iter().filter(fits).map(|known| known.why.to_owned()).collect::<Vec<String>>()
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
        assert!(KNOWN.iter().all(|known| known.why.ends_with('.') && !known.why.contains("  ")));
    }
}
