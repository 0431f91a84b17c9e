//! The directories of a stream as a tree of names.
//!
//! # Invariants
//! 1. A node is a name in a directory; node 0 is the root. A node comes after its directory, and
//!    the names of a directory come in byte order, depth first.
//! 2. A directory has one node: a second name and a loop, which only a damaged stream has, are
//!    reported.
//! 3. No name is empty, `.` or `..`, or has a slash or a NUL; no path is longer than
//!    [`MAX_PATH`].

use std::collections::BTreeMap;

use ffs_ondisk::Ino;
use ffs_ondisk::dir::{DirFormat, read};
use ffs_ondisk::geometry::DIRBLKSIZ;

/// Longest path of a node, bytes. Without a limit the paths of a deep tree need memory that grows
/// with the square of its depth.
const MAX_PATH: usize = 1 << 16;
/// Most problems that are reported.
const MAX_PROBLEMS: usize = 1000;
/// The inode number of whiteouts.
const WINO: u32 = 1;

/// The entries of a directory: inode and name.
pub(super) type Entries = Vec<(u32, Box<[u8]>)>;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The node of the directory; 0 for the root itself.
    pub(super) parent: u32,
    /// Inode.
    pub(super) ino: u32,
    /// Name; empty for the root.
    pub(super) name: Box<[u8]>,
    pub(super) directory: bool,
    /// Length of the path, bytes.
    len: u32,
}

/// A tree of names.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Inodes with their nodes, sorted.
    by_ino: Vec<(u32, u32)>,
}

/// A path, and why it is not in the tree.
pub(super) type Problem = (Vec<u8>, &'static str);

impl Tree {
    /// The tree of `dirs` with the names of inodes that `keep` accepts.
    pub(super) fn build(
        dirs: &BTreeMap<u32, Entries>,
        keep: impl Fn(u32) -> bool,
    ) -> (Tree, Vec<Problem>) {
        let mut builder = Builder { dirs, keep, nodes: Vec::new(), problems: Vec::new() };
        builder.walk();
        let Builder { nodes, problems, .. } = builder;
        let mut by_ino: Vec<_> = nodes.iter().zip(0..).map(|(node, n)| (node.ino, n)).collect();
        by_ino.sort_unstable();
        (Tree { nodes, by_ino }, problems)
    }

    /// The nodes of an inode, in the order of their paths.
    pub(super) fn nodes_of(&self, ino: u32) -> impl Iterator<Item = u32> {
        let start = self.by_ino.partition_point(|&(found, _)| found < ino);
        self.by_ino[start..].iter().take_while(move |(found, _)| *found == ino).map(|(_, n)| *n)
    }

    /// The path of a node, relative to the root.
    pub(super) fn path(&self, node: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = node;
        while at != 0 {
            let node = &self.nodes[at as usize];
            names.push(&node.name[..]);
            at = node.parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// For each node, whether its path is one of `paths` or, if `recursive`, below one. Returns the
    /// paths that do not exist, too.
    pub(super) fn select(&self, paths: &[Vec<u8>], recursive: bool) -> (Vec<bool>, Vec<Vec<u8>>) {
        let mut children: BTreeMap<(u32, &[u8]), u32> = BTreeMap::new();
        for (node, n) in self.nodes.iter().zip(0..).skip(1) {
            children.insert((node.parent, &node.name), n);
        }
        let mut selected = vec![false; self.nodes.len()];
        let mut missing = Vec::new();
        for path in paths {
            let names = crate::namei::components(path);
            let mut names = names;
            let found = names.try_fold(0, |dir, name| children.get(&(dir, name)).copied());
            match found.and_then(|node| selected.get_mut(node as usize)) {
                Some(selected) => *selected = true,
                None => missing.push(path.clone()),
            }
        }
        if recursive {
            for n in 1..self.nodes.len() {
                selected[n] |= selected[self.nodes[n].parent as usize];
            }
        }
        (selected, missing)
    }
}

struct Builder<'d, K> {
    dirs: &'d BTreeMap<u32, Entries>,
    keep: K,
    nodes: Vec<Node>,
    problems: Vec<Problem>,
}

impl<K: Fn(u32) -> bool> Builder<'_, K> {
    fn walk(&mut self) {
        let root = Ino::ROOT.0;
        let name = Box::default();
        self.nodes.push(Node { parent: 0, ino: root, name, directory: true, len: 0 });
        let mut visited = std::collections::BTreeSet::from([root]);
        let mut stack = vec![sorted(self.dirs, &self.keep, root, 0)];
        while let Some(open) = stack.last_mut() {
            let Some((parent, ino, name)) = open.pop() else {
                stack.pop();
                continue;
            };
            let above = &self.nodes[parent as usize];
            let len = above.len as usize + name.len() + 1;
            let directory = self.dirs.contains_key(&ino);
            if len > MAX_PATH {
                self.problem(parent, name, "the path is too long");
                continue;
            }
            if directory && !visited.insert(ino) {
                self.problem(parent, name, "a second name of a directory; the dump is damaged");
                continue;
            }
            let n = self.nodes.len() as u32;
            let (name, len) = (Box::from(name), len as u32);
            self.nodes.push(Node { parent, ino, name, directory, len });
            if directory {
                stack.push(sorted(self.dirs, &self.keep, ino, n));
            }
        }
    }

    fn problem(&mut self, parent: u32, name: &[u8], why: &'static str) {
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let tree = Tree { nodes: std::mem::take(&mut self.nodes), by_ino: Vec::new() };
        let mut path = tree.path(parent);
        path.truncate(1024);
        self.nodes = tree.nodes;
        self.problems.push((crate::namei::join(&path, name), why));
    }
}

/// The names of a directory, the first one last, each with `node` and its inode.
fn sorted(
    dirs: &BTreeMap<u32, Entries>,
    keep: impl Fn(u32) -> bool,
    dir: u32,
    node: u32,
) -> Vec<(u32, u32, &[u8])> {
    let entries = dirs.get(&dir).map(Vec::as_slice).unwrap_or_default();
    let kept = entries.iter().filter(|(ino, _)| keep(*ino));
    let mut names: Vec<_> = kept.map(|(ino, name)| (node, *ino, &name[..])).collect();
    names.sort_by(|a, b| b.2.cmp(a.2));
    names.dedup_by(|a, b| a.2 == b.2);
    names
}

/// The entries in the content of a directory, without `.`, `..` and whiteouts. Malformed records
/// are counted and skipped up to the next chunk.
pub(super) fn parse_directory(format: DirFormat, bytes: &[u8]) -> (Entries, u64) {
    let (mut entries, mut malformed) = (Entries::new(), 0);
    let mut off = 0;
    while off < bytes.len() {
        // Linux's dump writes records that end at multiples of 1024 bytes, not 512.
        let end = bytes.len().min((off / super::TP_BSIZE + 1) * super::TP_BSIZE);
        match read(format, &bytes[..end], off) {
            Ok(record) => {
                off += record.reclen;
                if record.ino > WINO && record.name != b"." && record.name != b".." {
                    entries.push((record.ino, record.name.into()));
                }
            }
            Err(_) => {
                malformed += 1;
                off = (off / DIRBLKSIZ + 1) * DIRBLKSIZ;
            }
        }
    }
    (entries, malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs(all: &[(u32, &[(u32, &str)])]) -> BTreeMap<u32, Entries> {
        let entries = |list: &[(u32, &str)]| {
            list.iter().map(|(ino, name)| (*ino, name.as_bytes().into())).collect()
        };
        all.iter().map(|(ino, list)| (*ino, entries(list))).collect()
    }

    fn paths(tree: &Tree) -> Vec<String> {
        let all = 0..tree.nodes.len() as u32;
        all.map(|n| String::from_utf8_lossy(&tree.path(n)).into_owned()).collect()
    }

    #[test]
    fn names_come_in_order_and_loops_are_reported() {
        let dirs = dirs(&[
            (2, &[(4, "z"), (3, "d"), (5, "a"), (9, "left out")]),
            (3, &[(2, "up"), (3, "self"), (4, "again"), (6, "sub")]),
            (6, &[(3, "loop")]),
        ]);
        let (tree, problems) = Tree::build(&dirs, |ino| ino != 9);
        assert_eq!(paths(&tree), ["", "a", "d", "d/again", "d/sub", "z"]);
        assert_eq!(problems.len(), 3);
        assert_eq!(tree.nodes_of(4).collect::<Vec<_>>(), [3, 5]);
        let (selected, missing) = tree.select(&[b"./d/".to_vec(), b"d/none".to_vec()], true);
        assert_eq!(selected, [false, false, true, true, true, false]);
        assert_eq!(missing, [b"d/none".to_vec()]);
    }

    #[test]
    fn a_chain_of_directories_ends_at_the_longest_path() {
        let name = "n".repeat(255);
        let all: Vec<(u32, Vec<(u32, &str)>)> =
            (2..1000).map(|ino| (ino, vec![(ino + 1, name.as_str())])).collect();
        let dirs = dirs(&all.iter().map(|(ino, list)| (*ino, &list[..])).collect::<Vec<_>>());
        let (tree, problems) = Tree::build(&dirs, |_| true);
        assert_eq!((tree.nodes.len(), problems.len()), (1 + MAX_PATH / 256, 1));
    }
}
