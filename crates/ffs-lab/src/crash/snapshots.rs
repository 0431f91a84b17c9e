//! The snapshots of a workload: what each of them has to show, and whether it does.
//!
//! **Purpose.** A snapshot must show the volume of its moment, in every state that a crash leaves.
//! When the workload makes a snapshot, the laboratory reads it through the mount, judges its tree
//! by the history of the workload, and keeps a hash of each block. Of a later state it reads the
//! image with its own code ([`SnapshotImage`]). If all hashes agree, the snapshot is right. If not,
//! the tree in the image is judged again: blocks that no file of the image has may change.
//!
//! References: `spec/snapshots.md` §12, `spec/fsck-and-crash.md` §9 S1 to S5.

use std::sync::Arc;

use ffs_admin::fsck::quick_check;
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::Ino;

use super::block_hashes::BlockHashes;
use super::exec::Executor;
use super::exec::snapshots::Made;
use super::history::{Action, CrashPoint, History, Life, ObjId, Progress, Step, Violation};
use super::mounting::failed;
use super::oracle::{Condition, Expectation, Promise, SoftUpdateOptions};
use super::raw::{Checker, Found, SnapshotImage};
use crate::error::Result;

/// The positions of a call in the event log: when it began, and when it had returned.
pub(crate) type Span = (u64, u64);

/// A snapshot of the workload.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotRecord {
    pub(crate) obj: ObjId,
    pub(crate) life: Life,
    pub(crate) hashes: Arc<BlockHashes>,
    /// The call that made it.
    made: Span,
    /// The call that removed its last name.
    removed: Option<Span>,
    /// The tree that it shows: everything up to its moment.
    history: Arc<History>,
    /// Whether the volume was known to have no lost space.
    clean: bool,
}

/// The snapshots of a recording.
#[derive(Debug)]
pub(super) struct SnapshotLog {
    records: Vec<SnapshotRecord>,
    clean: bool,
}

impl SnapshotLog {
    /// `before` are there already. `clean`: the volume has no lost space.
    pub(super) fn new(before: &[SnapshotRecord], clean: bool) -> SnapshotLog {
        SnapshotLog { records: before.to_vec(), clean }
    }

    /// Notes the snapshots that a call made or removed. `steps` are those of the call and all
    /// before it.
    ///
    /// # Errors
    /// [`crate::LabError::Failed`] if a new snapshot does not show the tree.
    pub(super) fn note(
        &mut self,
        executor: &mut Executor,
        steps: &[Step],
        span: Span,
    ) -> Result<()> {
        if let Some(made) = executor.take_made() {
            self.add(made, steps, span, executor.fs.geometry().bsize)?;
        }
        let last = steps.iter().rev().take_while(|step| (step.began, step.at) == span);
        let lost = last.filter_map(|step| match &step.what {
            Action::NameRemoved { obj, .. } => Some(*obj),
            Action::Renamed { replaced, .. } => *replaced,
            _ => None,
        });
        for obj in lost.filter(|obj| executor.is_removed_snapshot(*obj)) {
            if let Some(record) = self.records.iter_mut().find(|record| record.obj == obj) {
                record.removed.get_or_insert(span);
            }
        }
        Ok(())
    }

    fn add(&mut self, made: Made, steps: &[Step], span: Span, bsize: u32) -> Result<()> {
        let Made { obj, life, image } = made;
        let mut steps = steps.to_vec();
        let (began, at) = span;
        steps.push(Step { began, at, op: None, what: Action::Synced });
        let record = SnapshotRecord {
            obj,
            life,
            hashes: Arc::new(BlockHashes::of(&image, bsize)),
            made: span,
            removed: None,
            history: Arc::new(History { steps }),
            clean: self.clean,
        };
        if let Some(wrong) = record.judge(image).into_iter().next() {
            return Err(failed(&format!("the snapshot {obj}"), &wrong.what));
        }
        self.records.push(record);
        Ok(())
    }

    /// The snapshots, as they are in the log of the device.
    pub(super) fn into_records(self) -> Vec<SnapshotRecord> {
        self.records
    }

    /// The snapshots that are there at the end, as they were before the recording.
    pub(super) fn settled(self) -> Vec<SnapshotRecord> {
        let left = self.records.into_iter().filter(|record| record.removed.is_none());
        left.map(|record| SnapshotRecord { made: (0, 0), ..record }).collect()
    }
}

/// Those of `records` that a volume after a crash has, as they were before the next recording.
pub(super) fn surviving(records: &[SnapshotRecord], found: &Found) -> Vec<SnapshotRecord> {
    let there = records.iter().filter(|record| record.is_listed(found));
    let as_before =
        |record: &SnapshotRecord| SnapshotRecord { made: (0, 0), removed: None, ..record.clone() };
    there.map(as_before).collect()
}

fn progress((began, at): Span, crash: CrashPoint) -> Progress {
    Step { began, at, op: None, what: Action::Synced }.progress(crash)
}

impl SnapshotRecord {
    fn inode<'a>(&self, found: &'a Found) -> Option<&'a super::raw::Inode> {
        let inode = found.tree.inode(self.life.ino)?;
        let own = inode.generation == self.life.generation && found.tree.is_snapshot(inode);
        own.then_some(inode)
    }

    /// Whether the superblock lists it, and its inode is that of a snapshot.
    fn is_listed(&self, found: &Found) -> bool {
        let listed = found.tree.listed_snapshots().any(|ino| ino == self.life.ino);
        listed && self.inode(found).is_some()
    }

    /// Judges the tree in `image` as that of the volume at the moment of the snapshot.
    fn judge(&self, image: Vec<u8>) -> Vec<Violation> {
        let mut wrong = Vec::new();
        let mut checker = Checker::new();
        let found = checker.check(&image);
        wrong.extend(found.violations.iter().cloned());
        let promise = Promise::SoftUpdates(SoftUpdateOptions::default());
        let expected = Expectation::new(&self.history, u64::MAX, promise);
        expected.judge(&image, found, Condition::Recovered, &mut wrong);
        // The volume had lost space itself.
        wrong.retain(|violation| self.clean || !matches!(&*violation.rule, "X6" | "LINK"));
        let mut wrong: Vec<Violation> = wrong
            .into_iter()
            .map(|v| Violation::new("S1", format!("{} shows {}: {}", self.obj, v.rule, v.what)))
            .collect();
        if self.clean {
            let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::from_bytes(&image));
            let findings = quick_check(&device);
            let what = |finding| format!("in the snapshot {}: {finding}", self.obj);
            wrong.extend(findings.iter().map(|finding| Violation::new("S5", what(finding))));
        }
        wrong
    }

    /// S1 and S5: adds what is wrong in the snapshot, if it is listed.
    fn judge_content(&self, image: &[u8], found: &Found, out: &mut Vec<Violation>) {
        let Some(inode) = self.inode(found).filter(|_| self.is_listed(found)) else { return };
        let Some(shown) = SnapshotImage::of(&image, &found.tree, inode) else {
            let what = format!("the pointers of the snapshot {} lead nowhere", self.obj);
            out.push(Violation::new("S1", what));
            return;
        };
        if let Some(block) = self.hashes.first_wrong(&shown) {
            let because = |v: Violation| {
                Violation::new(v.rule.clone(), format!("{} (block {block} differs)", v.what))
            };
            out.extend(self.judge(shown.to_vec()).into_iter().map(because));
        }
    }

    /// S2 to S4: whether the snapshot must, or must not, be there.
    fn judge_presence(&self, found: &Found, crash: CrashPoint, out: &mut Vec<Violation>) {
        let (made, obj) = (progress(self.made, crash), self.obj);
        let removed = self.removed.map_or(Progress::NotStarted, |span| progress(span, crash));
        let there = self.is_listed(found);
        let mut wrong = |rule, what: &str| {
            out.push(Violation::new(rule, format!("the snapshot {obj} {what}")));
        };
        match (there, made, removed) {
            (false, Progress::Returned, Progress::NotStarted) => {
                wrong("S2", "was made, and the superblock does not list it as one");
            }
            (true, Progress::NotStarted, _) => wrong("S3", "is listed before it was made"),
            (true, _, Progress::Returned) => wrong("S4", "was removed and is listed"),
            (false, Progress::Running | Progress::NotStarted, _) if self.inode(found).is_some() => {
                wrong("S3", "has the mark of one before the superblock lists it");
            }
            _ => {}
        }
    }
}

/// The inodes that the superblock lists and that are no snapshots.
pub(super) fn listed_in_vain(found: &Found) -> impl Iterator<Item = Ino> + '_ {
    let is_snapshot =
        |ino: Ino| found.tree.inode(ino).is_some_and(|inode| found.tree.is_snapshot(inode));
    found.tree.listed_snapshots().filter(move |ino| !is_snapshot(*ino))
}

/// Which inodes that are no snapshots the superblock may list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listed<'a> {
    /// None.
    None,
    /// One that is being made, and these.
    Making(&'a [Ino]),
    /// Any.
    Any,
}

/// Adds to `out` what is wrong with the snapshots of a state that any of the `crashes` may have
/// left.
pub(super) fn judge(
    records: &[SnapshotRecord],
    (image, found): (&[u8], &Found),
    crashes: impl Iterator<Item = CrashPoint>,
    listed: Listed<'_>,
    out: &mut Vec<Violation>,
) {
    for record in records {
        record.judge_content(image, found, out);
    }
    for crash in crashes {
        for record in records {
            record.judge_presence(found, crash, out);
        }
        let creating = records.iter().any(|r| progress(r.made, crash) == Progress::Running);
        let allowed = |ino: &Ino| match listed {
            Listed::None => false,
            Listed::Making(known) => creating || known.contains(ino),
            Listed::Any => true,
        };
        for ino in listed_in_vain(found).filter(|ino| !allowed(ino)) {
            let what = format!("the superblock lists inode {}, which is no snapshot", ino.0);
            out.push(Violation::new("S3", what));
        }
    }
}

/// Adds to `out` what is wrong with the content of the snapshots that are listed.
pub(super) fn judge_contents(
    records: &[SnapshotRecord],
    image: &[u8],
    found: &Found,
    out: &mut Vec<Violation>,
) {
    records.iter().for_each(|record| record.judge_content(image, found, out));
}

#[cfg(test)]
mod tests {
    use super::super::Updates;
    use super::*;
    use crate::crash::geometry::{self, BaseVolume};
    use crate::crash::text;

    /// The volume after `ops`, with its snapshots.
    fn volume(shape: &str, ops: &str) -> BaseVolume {
        let base = geometry::find(shape).unwrap().base(Updates::Soft, true).unwrap();
        base.with(&text::parse(ops).unwrap().ops).unwrap()
    }

    /// The rules that `image` breaks.
    fn broken(base: &BaseVolume, image: &[u8]) -> Vec<String> {
        let (mut checker, mut out) = (Checker::new(), Vec::new());
        let found = checker.check(&image);
        let crash = std::iter::once(CrashPoint::from(9));
        judge(&base.snapshots, (image, found), crash, Listed::None, &mut out);
        let mut rules: Vec<String> = out.into_iter().map(|violation| violation.rule).collect();
        rules.dedup();
        rules
    }

    /// The image, with other bytes wherever it has `from`.
    fn with(image: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
        let mut image = image.to_vec();
        let mut at = 0;
        while at + from.len() <= image.len() {
            if &image[at..at + from.len()] == from {
                image[at..at + to.len()].copy_from_slice(to);
            }
            at += 512;
        }
        image
    }

    #[test]
    fn a_snapshot_that_shows_its_moment_breaks_no_rule() {
        for shape in ["ufs1-1m", "ufs2-2m", "ufs1-be", "ufs2-8m", "ufs2-32m"] {
            let ops = "snapshot /s\nwrite /B/foo 0 9000\nunlink /A/foo\nunlink /B/l\nmkdir /n\n\
                       truncate /foo 1\nsnapshot /t\nappend /foo 9000\nrename /foo /bar\n";
            let base = volume(shape, ops);
            assert_eq!(base.snapshots.len(), 2);
            assert_eq!(broken(&base, &base.image), [""; 0], "{shape}");
        }
    }

    #[test]
    fn changed_content_is_found_where_a_file_of_the_image_has_it() {
        let base = volume("ufs2-2m", "snapshot /s\n");
        let g = &base.geometry;
        let mut checker = Checker::new();
        let tree = &checker.check(&*base.image).tree;
        // Its first block has no fragment of another file, so nothing has copied it.
        let foo = tree.inode(tree.resolve(b"A/foo").unwrap()).unwrap();
        let at = tree.extents(foo).next().unwrap().at as usize;
        let mut image = base.image.to_vec();
        image[at + 5] ^= 1;
        assert_eq!(broken(&base, &image), ["S1"]);
        // The rest of the last fragment is no content.
        let mut image = base.image.to_vec();
        let end = tree.extents(foo).last().map(|e| e.at as usize + e.len).unwrap();
        image[end + 3] ^= 1;
        assert!((end + 3) / g.fsize as usize == (end - 1) / g.fsize as usize);
        assert_eq!(broken(&base, &image), [""; 0]);
    }

    #[test]
    fn a_snapshot_is_listed_from_its_making_to_its_removal() {
        let mut base = volume("ufs2-2m", "snapshot /s\n");
        let ino = base.snapshots[0].life.ino.0.to_le_bytes();
        let listed = 65536 + 1116;
        let unlisted = {
            let mut image = base.image.to_vec();
            assert_eq!(image[listed..listed + 4], ino);
            image[listed..listed + 4].fill(0);
            image
        };
        assert_eq!(broken(&base, &unlisted), ["S2"]);
        base.snapshots[0].removed = Some((2, 9));
        assert_eq!(broken(&base, &base.image.clone()), ["S4"]);
        assert_eq!(broken(&base, &unlisted), [""; 0]);
        base.snapshots[0].removed = Some((2, 10));
        assert_eq!(broken(&base, &base.image.clone()), [""; 0]);
        base.snapshots[0].removed = None;
        base.snapshots[0].made = (2, 12);
        assert_eq!(broken(&base, &unlisted), ["S3"]);
        assert_eq!(broken(&base, &base.image.clone()), [""; 0]);
        let other = [&ino[..], &3u32.to_le_bytes()].concat();
        let image = with(&base.image, &base.image[65536 + 1024..65536 + 1536], &{
            let mut sector = base.image[65536 + 1024..65536 + 1536].to_vec();
            sector[92..100].copy_from_slice(&other);
            sector
        });
        assert_eq!(broken(&base, &image), ["S3"]);
    }
}
