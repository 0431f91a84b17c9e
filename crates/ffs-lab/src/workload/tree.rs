//! Trees of files: generated from a seed, or given by the user as an archive or a directory.
//!
//! # Invariants
//! 1. The entries have the order of an archive: depth first, a directory before its contents.
//! 2. A generated tree has exactly the requested directories and files. Its bytes differ from the
//!    requested total by rounding only, by less than one byte for each file.
//!
//! Reference: `docs/spec/benchmarks.md` §4 (tree generator).

use std::collections::BTreeSet;

use super::random::{RandomStream, source_size};

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The number of directories above it, without the top.
    pub(super) depth: usize,
    pub(super) name: Vec<u8>,
    /// The size of a file in bytes; `None` for a directory.
    pub(super) size: Option<u64>,
}

/// A tree without its top directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) entries: Vec<Entry>,
}

/// The size of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeSize {
    pub(super) dirs: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl TreeSize {
    /// The size times a scale.
    pub(super) fn scaled(self, scale: f64) -> TreeSize {
        let share = |n| super::parameters::share(n, scale);
        TreeSize { dirs: share(self.dirs), files: share(self.files), bytes: share(self.bytes) }
    }
}

/// The greatest depth of directories.
const DEPTH: usize = 10;
/// The next directory is likely to be below one of this many newest directories.
const RECENT: usize = 20;
/// One of this many directories is large.
const LARGE_EVERY: u64 = 200;

impl Tree {
    /// Generates a tree.
    pub(super) fn generate(seed: u64, shape: TreeSize) -> Tree {
        let draw = RandomStream::new(seed, "tree");
        let dirs = skeleton(&draw, shape.dirs as usize);
        let counts = file_counts(&draw, shape, dirs.len());
        let sizes = file_sizes(&draw, shape);
        let mut sizes = sizes.into_iter();
        let mut contents: Vec<Vec<Content>> = Vec::with_capacity(dirs.len());
        for count in counts {
            contents.push((0..count).map(|_| Content::File(sizes.next().unwrap_or(0))).collect());
        }
        for (dir, parent) in dirs.iter().enumerate() {
            if let Some(parent) = parent {
                contents[*parent].push(Content::Dir(dir));
            }
        }
        contents.iter_mut().for_each(|content| draw.shuffle(content));
        let mut tree = Tree::default();
        tree.emit(&draw, &contents, 0, 0);
        tree
    }

    fn emit(&mut self, draw: &RandomStream, contents: &[Vec<Content>], dir: usize, depth: usize) {
        let mut taken = BTreeSet::new();
        for content in &contents[dir] {
            let file = matches!(content, Content::File(_));
            let name = loop {
                let name = file_name(draw, file);
                if taken.insert(name.clone()) {
                    break name;
                }
            };
            match *content {
                Content::File(size) => self.entries.push(Entry { depth, name, size: Some(size) }),
                Content::Dir(below) => {
                    self.entries.push(Entry { depth, name, size: None });
                    self.emit(draw, contents, below, depth + 1);
                }
            }
        }
    }

    /// The directories, files and bytes of the tree, including its top.
    pub(super) fn size(&self) -> TreeSize {
        let dirs = 1 + self.entries.iter().filter(|entry| entry.size.is_none()).count() as u64;
        let bytes = self.entries.iter().filter_map(|entry| entry.size).sum();
        TreeSize { dirs, files: self.entries.len() as u64 + 1 - dirs, bytes }
    }

    /// The files: the names of the directories above, the name, and the bytes.
    pub(super) fn files(&self) -> Vec<TreeFile> {
        let mut path: Vec<Vec<u8>> = Vec::new();
        let mut found = Vec::new();
        for entry in &self.entries {
            path.truncate(entry.depth);
            match entry.size {
                None => path.push(entry.name.clone()),
                Some(size) => {
                    found.push(TreeFile { path: path.clone(), name: entry.name.clone(), size });
                }
            }
        }
        found
    }
}

/// A file and its path.
#[derive(Debug, Clone)]
pub(super) struct TreeFile {
    pub(super) path: Vec<Vec<u8>>,
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
}

enum Content {
    File(u64),
    Dir(usize),
}

/// Draws the parent of each directory. The first directory is the top.
fn skeleton(draw: &RandomStream, dirs: usize) -> Vec<Option<usize>> {
    let mut parents = vec![None];
    let mut depths = vec![0];
    for dir in 1..dirs.max(1) {
        let parent = loop {
            let recent = draw.percent(80);
            let parent =
                if recent { dir - 1 - draw.index(dir.min(RECENT)) } else { draw.index(dir) };
            if depths[parent] < DEPTH {
                break parent;
            }
        };
        parents.push(Some(parent));
        depths.push(depths[parent] + 1);
    }
    parents
}

/// Draws the number of files of each directory: geometric, with a few large ones, for a fixed
/// total.
fn file_counts(draw: &RandomStream, shape: TreeSize, dirs: usize) -> Vec<u64> {
    let large = |dir: usize| dirs as u64 >= LARGE_EVERY && dir as u64 % LARGE_EVERY == 7;
    let mut counts: Vec<u64> =
        (0..dirs).map(|dir| if large(dir) { draw.range(50, 300) } else { 0 }).collect();
    let taken: u64 = counts.iter().sum();
    let mean = shape.files.saturating_sub(taken) as f64 / dirs.max(1) as f64;
    for (dir, count) in counts.iter_mut().enumerate() {
        if !large(dir) {
            *count = draw.geometric(mean);
        }
    }
    let mut sum: u64 = counts.iter().sum();
    while sum != shape.files {
        let dir = draw.index(dirs);
        if sum < shape.files {
            (counts[dir], sum) = (counts[dir] + 1, sum + 1);
        } else if counts[dir] > 0 {
            (counts[dir], sum) = (counts[dir] - 1, sum - 1);
        }
    }
    counts
}

/// Sizes with the distribution of a source tree, scaled to a total.
fn file_sizes(draw: &RandomStream, shape: TreeSize) -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..shape.files).map(|_| source_size(draw)).collect();
    let total: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
    for size in &mut sizes {
        let scaled = u128::from(*size) * u128::from(shape.bytes) / total.max(1);
        *size = u64::try_from(scaled).unwrap_or(u64::MAX);
    }
    sizes
}

/// The characters of names; a name begins with one of the first 26 if the tree is generated.
pub(super) const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const SUFFIXES: [&str; 8] = [".c", ".h", ".c", ".h", ".man", ".S", ".cpp", ""];

/// A name of three to twenty letters, twelve on average, including the suffix of a file.
fn file_name(draw: &RandomStream, file: bool) -> Vec<u8> {
    let suffix = if file { SUFFIXES[draw.index(SUFFIXES.len())] } else { "" };
    let len = 3 + (draw.below(18) + draw.below(18)).div_ceil(2) as usize;
    let stem = len.saturating_sub(suffix.len()).max(1);
    let mut name: Vec<u8> = (0..stem)
        // The first character is a letter.
        .map(|at| LETTERS[draw.index(if at == 0 { 26 } else { LETTERS.len() })])
        .collect();
    name.extend_from_slice(suffix.as_bytes());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_requested_shape() {
        let shape = TreeSize { dirs: 500, files: 7500, bytes: 90 << 20 };
        let tree = Tree::generate(7, shape);
        let found = tree.size();
        assert_eq!((found.dirs, found.files), (500, 7500));
        assert!(found.bytes <= shape.bytes && found.bytes > shape.bytes - 7500, "{found:?}");
        assert_eq!(tree, Tree::generate(7, shape));
        assert_ne!(tree, Tree::generate(8, shape));
        let lens: Vec<usize> = tree.entries.iter().map(|entry| entry.name.len()).collect();
        let mean = lens.iter().sum::<usize>() as f64 / lens.len() as f64;
        assert!((11.5..12.5).contains(&mean), "{mean}");
        assert!(lens.iter().all(|len| (2..=20).contains(len)));
        assert!(tree.entries.iter().all(|entry| entry.depth <= DEPTH));
        let files = tree.files();
        assert_eq!(files.len(), 7500);
        let distinct: BTreeSet<_> = files.iter().map(|at| (&at.path, &at.name)).collect();
        assert_eq!(distinct.len(), 7500, "a name is used twice");
        let largest = files.iter().fold(std::collections::BTreeMap::new(), |mut counts, at| {
            *counts.entry(&at.path).or_insert(0) += 1;
            counts
        });
        let largest = largest.values().max().unwrap();
        assert!((50..400).contains(largest), "{largest}");
    }

    #[test]
    fn small_trees_are_trees() {
        for (dirs, files) in [(1, 1), (1, 50), (3, 1), (20, 70)] {
            let shape = TreeSize { dirs, files, bytes: files * 100 };
            let found = Tree::generate(1, shape).size();
            assert_eq!((found.dirs, found.files), (dirs, files));
        }
    }
}
