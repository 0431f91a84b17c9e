//! The use of the fragments and inodes of an image.

use std::collections::{BTreeMap, VecDeque};

use ffs_ondisk::Ino;

use crate::crash::image::ImageBytes;
use crate::crash::raw::{Checker, Shape, Use};

/// Most characters of a path; of a longer one the end is kept.
const PATH: usize = 120;
/// Most violations that are kept.
const VIOLATIONS: usize = 8;

/// The kinds of use, in the order of the legend.
pub(super) const KINDS: [(Use, &str); 10] = [
    (Use::Free, "free"),
    (Use::Superblock, "superblock, boot blocks"),
    (Use::Group, "cylinder group"),
    (Use::Inodes, "inodes"),
    (Use::Summary, "summaries of groups"),
    (Use::Directory, "directory"),
    (Use::File, "file"),
    (Use::Other, "symbolic link, others"),
    (Use::Pointers, "indirect block, attributes"),
    (Use::Leaked, "in use without an owner"),
];

/// The place of a use among [`KINDS`].
pub(super) fn kind(found: Use) -> usize {
    KINDS.iter().position(|(kind, _)| *kind == found).unwrap_or(0)
}

/// An inode in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InodeUse {
    /// Directory, file or another: a place among [`KINDS`].
    pub(super) kind: usize,
    /// Bytes.
    pub(super) size: u64,
    /// Links.
    pub(super) links: u16,
    /// A path from the root; empty if none leads to it.
    pub(super) path: String,
}

/// The use of a volume at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeMap {
    pub(super) shape: Shape,
    /// The use of each fragment, and the inode that owns it.
    pub(super) uses: Vec<(Use, u32)>,
    pub(super) inodes: BTreeMap<u32, InodeUse>,
    /// Violations of the format, as the crash laboratory names them.
    pub(super) violations: Vec<String>,
}

/// Fragments by their use.
pub(super) type Counts = [u64; KINDS.len()];

impl VolumeMap {
    /// Reads an image.
    ///
    /// # Errors
    /// The reason, if it has no usable superblock.
    pub(super) fn of(image: &dyn ImageBytes) -> Result<VolumeMap, String> {
        let mut checker = Checker::new();
        let found = checker.check(image);
        if let Some(why) = found.violations.iter().find(|violation| violation.rule == "SB") {
            let why = &why.what;
            return Err(format!("{why}; expected an image of a UFS1 or UFS2 volume"));
        }
        let violations = found.violations.iter().take(VIOLATIONS);
        let violations = violations.map(|v| format!("{}: {}", v.rule, v.what)).collect();
        let paths = paths(&checker);
        let inode = |inode: &crate::crash::raw::Inode| {
            let kind = kind(Use::of_mode(inode.mode));
            let path = paths.get(&inode.ino).cloned().unwrap_or_default();
            (inode.ino, InodeUse { kind, size: inode.size, links: inode.nlink, path })
        };
        Ok(VolumeMap {
            shape: checker.shape(),
            uses: checker.uses(),
            inodes: checker.inodes_in_use().map(inode).collect(),
            violations,
        })
    }

    /// The fragments of a group by their use.
    pub(super) fn counts(&self, group: u32) -> Counts {
        let mut counts = Counts::default();
        let from = u64::from(group) * self.shape.fpg;
        let to = (from + self.shape.fpg).min(self.shape.size);
        for (found, _) in self.uses.get(from as usize..to as usize).unwrap_or(&[]) {
            if let Some(count) = counts.get_mut(kind(*found)) {
                *count += 1;
            }
        }
        counts
    }

    /// The inodes in use and the directories among them, of a group.
    pub(super) fn inodes_of(&self, group: u32) -> (usize, usize) {
        let from = group.saturating_mul(self.shape.ipg);
        let of = self.inodes.range(from..from.saturating_add(self.shape.ipg));
        let directory = kind(Use::Directory);
        of.fold((0, 0), |(all, dirs), (_, inode)| {
            (all + 1, dirs + usize::from(inode.kind == directory))
        })
    }
}

/// The first path of each inode that the root leads to.
fn paths(checker: &Checker) -> BTreeMap<u32, String> {
    let tree = &checker.found().tree;
    let mut paths = BTreeMap::from([(Ino::ROOT.0, "/".to_owned())]);
    let mut queue = VecDeque::from([Ino::ROOT.0]);
    while let Some(dir) = queue.pop_front() {
        let base = paths.get(&dir).cloned().unwrap_or_default();
        for entry in tree.entries(Ino(dir)) {
            if paths.contains_key(&entry.ino.0) || tree.inode(entry.ino).is_none() {
                continue;
            }
            let name = String::from_utf8_lossy(entry.name);
            let path = format!("{}/{name}", base.trim_end_matches('/'));
            paths.insert(entry.ino.0, shortened(&path));
            queue.push_back(entry.ino.0);
        }
    }
    paths
}

fn shortened(path: &str) -> String {
    let all = path.chars().count();
    if all <= PATH {
        return path.to_owned();
    }
    let end: String = path.chars().skip(all - PATH).collect();
    format!("…{end}")
}
