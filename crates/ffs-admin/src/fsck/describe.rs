//! What a finding says of the inode it is about.
//!
//! **Purpose.** An operator who is asked decides by owner, mode, size, time and path, not by an inode number. Every
//! finding takes these along as they were before the answer.
//!
//! **Invariants.**
//! 1. Describing never ends a check and never makes a finding: what cannot be read is left out.
//! 2. A path is looked for before a question only if somebody will read it; else once, at the end.

use std::collections::BTreeSet;

use ffs_ondisk::Ino;

use super::Checker;
use super::judge::{Draft, Res};
use super::report::InodeInfo;

impl Checker<'_> {
    /// Records the finding; `true` if it is to be repaired.
    pub(super) fn ask(&mut self, draft: Draft) -> Res<bool> {
        let draft = self.described(draft);
        self.judge.ask(draft)
    }

    /// Records a finding nothing is done about.
    pub(super) fn note(&mut self, draft: Draft) -> Res<()> {
        let draft = self.described(draft);
        self.judge.note(draft)
    }

    /// Records something that preen only mentions and that does not keep the volume from being clean.
    pub(super) fn mention(&mut self, draft: Draft) {
        let draft = self.described(draft);
        self.judge.mention(draft);
    }

    fn described(&mut self, mut draft: Draft) -> Draft {
        if !self.judge.will_show(&draft) {
            return draft;
        }
        let asks = self.judge.asks();
        self.quietly(|ck| {
            let finding = draft.finding();
            finding.inode = finding.ino.and_then(|ino| ck.inode_info(Ino(ino)));
            finding.target = finding.target.and_then(|t| ck.inode_info(Ino(t.ino)));
            if asks {
                finding.path = finding.ino.and_then(|ino| ck.path_of(Ino(ino)));
            }
        });
        draft
    }

    /// Reads for a description: what cannot be read is no finding of the phase at hand.
    fn quietly(&mut self, describe: impl FnOnce(&mut Self)) {
        let bad = self.store.take_bad();
        describe(self);
        self.store.replace_bad(bad);
    }

    fn inode_info(&mut self, ino: Ino) -> Option<InodeInfo> {
        if ino.0 < 2 || ino.0 >= self.g.inodes() {
            return None;
        }
        let d = self.node(ino).ok()?.d;
        let (uid, gid, mode, nlink) = (d.uid, d.gid, d.mode, d.nlink);
        Some(InodeInfo { ino: ino.0, uid, gid, mode, nlink, size: d.size, mtime: d.mtime.secs })
    }

    /// Fills in the paths that findings do not have yet, as the tree is now.
    pub(super) fn name_findings(&mut self) {
        let unnamed = |path: &Option<String>| path.as_ref().is_none_or(|p| p.starts_with('?'));
        let mut findings = std::mem::take(&mut self.judge.findings);
        let lacking = findings.iter().filter(|f| unnamed(&f.path)).filter_map(|f| f.ino);
        let wanted: BTreeSet<Ino> = lacking.map(Ino).collect();
        if !wanted.is_empty() {
            self.quietly(|ck| {
                ck.index_names(Some(&wanted));
                for finding in findings.iter_mut().filter(|f| unnamed(&f.path)) {
                    let found = finding.ino.and_then(|ino| ck.path_of(Ino(ino)));
                    finding.path = found.or(finding.path.take());
                }
            });
        }
        self.judge.findings = findings;
    }
}
