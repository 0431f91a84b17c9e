//! Several crashes without a check in between: the volume that a crash left becomes the volume of
//! the next workload.
//!
//! **Purpose.** The content of the device after a crash is durable. So the oracle continues from
//! the tree that the independent checker found after the crash. Every state on the way is checked
//! against the guarantees given before it. A guarantee that holds over each link of the chain holds
//! over the chain.
//!
//! # Invariants
//! 1. Objects keep their numbers, so tags identify their object to the end of the chain.
//! 2. A chain continues only from states in which every name has one meaning: no exchange is half
//!    done, and no directory has two names. Such states are examined, but a check decides how they
//!    continue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ffs_device::MemDevice;
use ffs_ondisk::Ino;
use ffs_ondisk::exchange::PREFIX;
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::journal;

use super::geometry::BaseVolume;
use super::history::SECTOR;
use super::history::{Action, Attrs, Life, Name, ObjId, ObjKind, ROOT, Step};
use super::mounting;
use super::raw::{Checker, Inode, Tree};
use super::record::Recording;
use super::snapshots;
use super::suj;

/// The root directory's inode.
const ROOT_INO: Ino = Ino(2);
/// The objects of a history by their inodes.
type Lives = BTreeMap<Life, (ObjId, ObjKind)>;

/// The volume that a crash of `recording`, which was made on `base`, left in `image`; `None` if a
/// chain does not continue from it. `fingerprint` identifies the image.
pub(super) fn next(
    base: &BaseVolume,
    recording: &Recording,
    image: Vec<u8>,
    fingerprint: u64,
) -> Option<BaseVolume> {
    let image = if base.journal.is_empty() { image } else { suj::recovered(image)? };
    let mut checker = Checker::new();
    let found = checker.check(&image);
    if !found.violations.is_empty() || !mounting::is_mountable(&image) {
        return None;
    }
    let lives = recording.history.steps.iter().filter_map(|step| match &step.what {
        Action::Created { obj, kind, life, .. } => Some((*life, (*obj, kind.clone()))),
        _ => None,
    });
    let walk = Walk { image: &image, tree: &found.tree, lives: lives.collect() };
    let snapshots = snapshots::surviving(&recording.snapshots, found);
    let listed_in_vain = snapshots::listed_in_vain(found).collect();
    let found = walk.all()?;
    let mut tree = recording.tree.clone();
    tree.replace(found.names, &found.attrs);
    let step = |what| Step { began: 0, at: 0, op: None, what };
    Some(BaseVolume {
        shape: base.shape,
        geometry: base.geometry,
        device: MemDevice::from_bytes(&image),
        image: Arc::new(image),
        tree,
        steps: found.steps.into_iter().chain([Action::Synced]).map(step).collect(),
        journal: Arc::clone(&base.journal),
        fingerprint,
        snapshots,
        unchecked: true,
        listed_in_vain,
    })
}

struct Walk<'a> {
    image: &'a Vec<u8>,
    tree: &'a Tree,
    lives: Lives,
}

/// What a crash left.
#[derive(Default)]
struct Left {
    steps: Vec<Action>,
    names: BTreeMap<Name, ObjId>,
    attrs: BTreeMap<ObjId, Attrs>,
}

impl Walk<'_> {
    /// Everything that the root leads to.
    fn all(&self) -> Option<Left> {
        let mut left = Left::default();
        let mut known = BTreeSet::new();
        let mut open = vec![(ROOT, ROOT_INO)];
        while let Some((dir, ino)) = open.pop() {
            for entry in self.tree.entries(ino) {
                if dir == ROOT && (entry.name == b".snap" || entry.name == journal::NAME) {
                    continue;
                }
                if entry.name.starts_with(PREFIX) {
                    return None;
                }
                let inode = self.tree.inode(entry.ino)?;
                let life = Life { ino: entry.ino, generation: inode.generation };
                let (obj, kind) = self.lives.get(&life)?;
                let is_directory = *kind == ObjKind::Directory;
                if known.insert(*obj) {
                    self.made(*obj, kind, life, inode, &mut left)?;
                    if is_directory {
                        open.push((*obj, entry.ino));
                    }
                } else if is_directory {
                    return None;
                }
                let name = Name { dir, name: entry.name.to_vec() };
                left.names.insert(name.clone(), *obj);
                left.steps.push(Action::NameAdded { name, obj: *obj });
            }
        }
        Some(left)
    }

    fn made(
        &self,
        obj: ObjId,
        kind: &ObjKind,
        life: Life,
        inode: &Inode,
        left: &mut Left,
    ) -> Option<()> {
        let mode = inode.mode & 0o7777;
        let attrs = Attrs { mode, uid: inode.uid, gid: inode.gid, mtime: None };
        let extended = self.tree.attributes(self.image, inode)?;
        let extended = extended.into_iter().map(|a| ((a.namespace, a.name), a.value)).collect();
        left.attrs.insert(obj, attrs);
        left.steps.push(Action::Created { obj, kind: kind.clone(), attrs, life, extended });
        if *kind == ObjKind::File {
            left.steps.push(self.content(obj, inode));
        }
        Some(())
    }

    fn content(&self, obj: ObjId, inode: &Inode) -> Action {
        let mut sectors = Vec::new();
        let (mut end, block) = (0, self.tree.block_size());
        for extent in self.tree.extents(inode) {
            let first = extent.at as usize;
            let bytes = self.image.get(first..first + extent.len).unwrap_or(&[]);
            for (index, part) in (extent.sector..).zip(bytes.chunks(SECTOR)) {
                let mut page = [0; SECTOR];
                page[..part.len()].copy_from_slice(part);
                if page != [0; SECTOR] {
                    sectors.push((index, page));
                }
            }
            end = extent.sector * SECTOR as u64 + block;
        }
        // The size after a check, which shortens a file that ends in a hole.
        let least =
            if inode.size > NDADDR as u64 * block { inode.size.min(end) } else { inode.size };
        let behind = self.behind(inode);
        Action::ContentFound { obj, size: inode.size, least, sectors, behind }
    }

    /// The content of the last fragment from the end of the file on.
    fn behind(&self, inode: &Inode) -> Vec<(u64, [u8; SECTOR])> {
        let past = inode.size.next_multiple_of(self.tree.fragment_size().max(1));
        let sector = SECTOR as u64;
        let last = self.tree.extents(inode).last();
        let Some(last) = last.filter(|last| last.sector * sector + last.len as u64 == inode.size)
        else {
            return Vec::new();
        };
        let within = inode.size / sector..past / sector;
        let at = |index: u64| last.at as usize + ((index - last.sector) as usize) * SECTOR;
        let page = |index| self.image.get(at(index)..at(index) + SECTOR)?.try_into().ok();
        within.filter_map(|index| Some((index, page(index)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::Updates;
    use crate::crash::geometry;
    use crate::crash::history::History;
    use crate::crash::oracle::{Condition, Expectation, FsyncScope, Promise, SoftUpdateOptions};
    use crate::crash::record::{Setting, record};
    use crate::crash::text;
    use ffs_core::{Cred, Env, Ffs, MountOptions, OrderingPolicy, SetAttr};
    use ffs_device::BlockDevice;

    const SOFT: SoftUpdateOptions =
        SoftUpdateOptions { fsync: FsyncScope::File, replace_order: true };

    /// The rules that `image` breaks after the crash that left `base`.
    fn broken(base: &BaseVolume, image: &Vec<u8>) -> Vec<String> {
        let history = History { steps: base.steps.clone() };
        let expected = Expectation::new(&history, 0, Promise::SoftUpdates(SOFT));
        let mut checker = Checker::new();
        let mut out = Vec::new();
        expected.judge(image, checker.check(image), Condition::Recovered, &mut out);
        let mut rules: Vec<String> = out.into_iter().map(|violation| violation.rule).collect();
        rules.dedup();
        rules
    }

    /// The volume after a crash at the end of `ops`, and how a chain goes on from it.
    fn crashed(ops: &str) -> BaseVolume {
        let base = geometry::find("ufs2-2m").unwrap().base(Updates::Soft, true).unwrap();
        let workload = text::parse(ops).unwrap();
        let setting = Setting {
            ordering: OrderingPolicy::SoftUpdates,
            seed: 1,
            soft: SOFT,
            keeps_events: false,
        };
        let recording = record(&base, &workload, setting).unwrap();
        let device = base.device.snapshot();
        for write in recording.windows.iter().flat_map(|window| &window.writes) {
            device.write_at(write.offset, &write.bytes).unwrap();
        }
        next(&base, &recording, device.to_vec(), 0).unwrap()
    }

    /// What a hand does to a volume.
    fn changed(base: &BaseVolume, change: impl FnOnce(&Ffs, &Cred)) -> Vec<u8> {
        let device = Arc::new(base.device.snapshot());
        let env = Env::seeded(crate::crash::mounting::clock(1), 1);
        let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
        let fs = Ffs::mount(shared, &MountOptions::default(), env).unwrap();
        change(&fs, &Cred::root());
        fs.unmount().unwrap();
        device.to_vec()
    }

    #[test]
    fn what_a_crash_left_is_promised_to_the_next_one() {
        let base =
            crashed("append /foo 700\nrename /foo /bar\nmkdir /D\nchmod /A/foo 600\nwait 31\n");
        assert_eq!(broken(&base, &base.image), [""; 0]);
        let root = |fs: &Ffs| fs.root().unwrap();
        let removed = changed(&base, |fs, cred| fs.unlink(cred, &root(fs), b"bar").unwrap());
        assert_eq!(broken(&base, &removed), ["X4", "X1"]);
        let truncated = changed(&base, |fs, cred| {
            let file = fs.lookup(cred, &root(fs), b"bar").unwrap();
            let size = SetAttr { size: Some(512), ..SetAttr::default() };
            fs.setattr(cred, &file, &size).unwrap();
        });
        assert_eq!(broken(&base, &truncated), ["G1"]);
    }

    #[test]
    fn a_chain_goes_on_with_the_names_and_numbers_that_there_are() {
        let base = crashed("create /n\nunlink /B/l\nwait 31\n");
        let workload =
            text::parse("append /n 100\nfsync /n\ncreate /m\nunlink /B/l\nsync\n").unwrap();
        let setting = Setting {
            ordering: OrderingPolicy::SoftUpdates,
            seed: 2,
            soft: SOFT,
            keeps_events: false,
        };
        let recording = record(&base, &workload, setting).unwrap();
        let failed: Vec<usize> = recording.failed.iter().map(|(number, _)| *number).collect();
        assert_eq!(failed, [3], "the crash has left only what there was");
        let numbers = recording.history.steps.iter().filter_map(|step| match step.what {
            Action::Created { obj, .. } => Some(obj),
            _ => None,
        });
        let numbers: Vec<ObjId> = numbers.collect();
        let different: BTreeSet<ObjId> = numbers.iter().copied().collect();
        assert_eq!(numbers.len(), different.len());
    }
}
