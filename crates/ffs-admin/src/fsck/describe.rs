//! Inode attributes and paths in findings.
//!
//! **Purpose.** An operator decides by owner, mode, size, time and path rather than by inode
//! number. Every finding records these as they were before the answer.
//!
//! **Invariants.**
//! 1. A description never ends a check and never makes a finding: an attribute that cannot be read
//!    is omitted.
//! 2. Paths are searched before each question in an interactive check, else once at the end.

use std::collections::BTreeSet;

use ffs_ondisk::Ino;

use super::checker::Checker;
use super::report::{Id, InodeAttrs};
use super::resolve::{Draft, Res};

impl Checker<'_> {
    /// Records a finding; `true` if it is to be repaired.
    pub(super) fn should_fix(&mut self, draft: Draft) -> Res<bool> {
        let draft = self.described(draft);
        self.resolver.should_fix(draft)
    }

    /// Records a finding that has no repair.
    pub(super) fn report_unfixed(&mut self, draft: Draft) -> Res<()> {
        let draft = self.described(draft);
        self.resolver.report_unfixed(draft)
    }

    /// Records a finding that does not prevent the clean flag.
    pub(super) fn report_only(&mut self, draft: Draft) {
        let draft = self.described(draft);
        self.resolver.report_only(draft);
    }

    /// Reports the ranges that could not be read since the last call.
    pub(super) fn report_bad_reads(&mut self) -> Res<()> {
        for bad in self.disk.take_bad() {
            let message = format!("cannot read, taken as zeros: {}", bad.reason);
            let place = format!("byte {}", bad.offset);
            self.report_unfixed(Draft::fatal(Id::IoRead, message).place(place))?;
        }
        Ok(())
    }

    /// Adds the attributes of the inodes concerned, and the path for an interactive check.
    fn described(&mut self, mut draft: Draft) -> Draft {
        if !self.resolver.is_shown(&draft) {
            return draft;
        }
        let interactive = self.resolver.is_interactive();
        self.ignoring_bad_reads(|ck| {
            let finding = draft.finding();
            finding.inode = finding.ino.and_then(|ino| ck.inode_attrs(Ino(ino)));
            finding.target = finding.target.and_then(|t| ck.inode_attrs(Ino(t.ino)));
            if interactive {
                finding.path = finding.ino.and_then(|ino| ck.path_of(Ino(ino)));
            }
        });
        draft
    }

    /// Calls `describe`; ranges that it cannot read are not findings of the current phase.
    fn ignoring_bad_reads(&mut self, describe: impl FnOnce(&mut Self)) {
        let bad = self.disk.take_bad();
        describe(self);
        self.disk.replace_bad(bad);
    }

    fn inode_attrs(&mut self, ino: Ino) -> Option<InodeAttrs> {
        if ino.0 < 2 || ino.0 >= self.g.inodes() {
            return None;
        }
        let d = self.read_inode(ino).ok()?.d;
        let (uid, gid, mode, nlink) = (d.uid, d.gid, d.mode, d.nlink);
        Some(InodeAttrs { ino: ino.0, uid, gid, mode, nlink, size: d.size, mtime: d.mtime.secs })
    }

    /// Adds the paths that findings lack, from the current tree.
    pub(super) fn add_paths(&mut self) {
        let unnamed = |path: &Option<String>| path.as_ref().is_none_or(|p| p.starts_with('?'));
        let mut findings = std::mem::take(&mut self.resolver.findings);
        let lacking = findings.iter().filter(|f| unnamed(&f.path)).filter_map(|f| f.ino);
        let wanted: BTreeSet<Ino> = lacking.map(Ino).collect();
        if !wanted.is_empty() {
            self.ignoring_bad_reads(|ck| {
                ck.build_name_table(Some(&wanted));
                for finding in findings.iter_mut().filter(|f| unnamed(&f.path)) {
                    let found = finding.ino.and_then(|ino| ck.path_of(Ino(ino)));
                    finding.path = found.or(finding.path.take());
                }
            });
        }
        self.resolver.findings = findings;
    }
}
