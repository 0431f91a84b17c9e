//! The shape of a real tree: how its directories are nested, and the sizes of its files.
//!
//! A shape has no names, only their lengths. [`TreeShape::tree`] draws names of these lengths.
//!
//! # Invariants
//! 1. Directory 0 is the top. The parent of each other directory comes before it.
//! 2. A tree lists the files of a directory before its subdirectories, as the walk did that
//!    recorded the shape.
//! 3. A scaled shape has whole directories. Its part of the directories is exact, its part of the
//!    files and bytes nearly.
//!
//! Reference: `docs/spec/benchmarks.md` §4.1.

use std::collections::BTreeSet;

use super::random::RandomStream;
use super::tree::{Entry, LETTERS, Tree, TreeSize};
use crate::error::{LabError, Result};

/// The sources of XFree86 4.1.0 without fonts and general documentation.
const XFREE86: &str = include_str!("shapes/xfree86-4.1.0-src1.tsv");

/// The longest name of a file system.
const MOST_NAME: usize = 255;
/// How often a name is drawn again because its directory has it already.
const MOST_DRAWS: usize = 1000;

/// The shape of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeShape {
    dirs: Vec<ShapeDir>,
}

/// A directory of a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ShapeDir {
    parent: usize,
    /// The length of its name.
    name: usize,
    files: Vec<ShapeFile>,
}

/// A file of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShapeFile {
    /// The length of its name.
    name: usize,
    /// Its size in bytes.
    size: u64,
}

impl TreeShape {
    /// The source tree of XFree86 4.1.0.
    ///
    /// # Errors
    /// The built-in table is invalid.
    pub(super) fn xfree86() -> Result<TreeShape> {
        TreeShape::parse(XFREE86)
    }

    /// Reads a table: number of the directory, of its parent (`-` for the top), length of its name,
    /// number of files, and `LENGTH:BYTES` of each file.
    fn parse(text: &str) -> Result<TreeShape> {
        let mut dirs: Vec<ShapeDir> = Vec::new();
        let lines = text.lines().enumerate();
        for (at, line) in lines.filter(|(_, line)| !line.starts_with('#')) {
            let number = dirs.len();
            let dir = ShapeDir::parse(line, number);
            let dir = dir.filter(|dir| dir.parent < number.max(1));
            dirs.push(dir.ok_or_else(|| {
                LabError::Plan(format!("shape of a tree, line {}: not valid", at + 1))
            })?);
        }
        Ok(TreeShape { dirs })
    }

    /// Directories, files and bytes.
    pub(super) fn size(&self) -> TreeSize {
        let files = || self.dirs.iter().flat_map(|dir| &dir.files);
        TreeSize {
            dirs: self.dirs.len() as u64,
            files: files().count() as u64,
            bytes: files().map(|file| file.size).sum(),
        }
    }

    /// The shape times a scale: a part of the directories, or several copies below one top.
    /// What is below a directory that is left out moves to the directory above.
    pub(super) fn scaled(&self, scale: f64) -> TreeShape {
        let mut dirs: Vec<ShapeDir> = Vec::new();
        let mut left = scale;
        while let Some(top) = self.dirs.first().filter(|_| left > 0.0) {
            match dirs.first_mut() {
                Some(first) => first.files.extend(&top.files),
                None => dirs.push(top.clone()),
            }
            let part = left.min(1.0);
            let kept = |n: usize| (n as f64 * part).floor();
            // For each directory of the original: its number, or that of the one above.
            let mut moved = vec![0];
            for (number, dir) in self.dirs.iter().enumerate().skip(1) {
                let parent = moved[dir.parent];
                if kept(number) > kept(number - 1) {
                    moved.push(dirs.len());
                    dirs.push(ShapeDir { parent, ..dir.clone() });
                } else {
                    moved.push(parent);
                }
            }
            left -= 1.0;
        }
        TreeShape { dirs }
    }

    /// A tree of this shape with drawn names.
    ///
    /// # Errors
    /// A directory has more names of a length than there are.
    pub(super) fn tree(&self, seed: u64) -> Result<Tree> {
        let draw = RandomStream::new(seed, "names");
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.dirs.len()];
        for (number, dir) in self.dirs.iter().enumerate().skip(1) {
            below[dir.parent].push(number);
        }
        let mut tree = Tree::default();
        // The directories to do, with their depths and names. The top has no name.
        let mut waiting: Vec<(usize, usize, Vec<u8>)> = vec![(0, 0, Vec::new())];
        while let Some((number, depth, name)) = waiting.pop() {
            let Some(dir) = self.dirs.get(number) else { break };
            if number > 0 {
                tree.entries.push(Entry { depth: depth - 1, name, size: None });
            }
            let mut taken = BTreeSet::new();
            for file in &dir.files {
                let name = new_name(&draw, file.name, &mut taken)?;
                tree.entries.push(Entry { depth, name, size: Some(file.size) });
            }
            let names = below[number].iter().map(|&child| {
                let name = new_name(&draw, self.dirs[child].name, &mut taken)?;
                Ok((child, depth + 1, name))
            });
            let names: Vec<_> = names.collect::<Result<_>>()?;
            waiting.extend(names.into_iter().rev());
        }
        Ok(tree)
    }
}

impl ShapeDir {
    /// Reads the line of directory `number`.
    fn parse(line: &str, number: usize) -> Option<ShapeDir> {
        let words: Vec<&str> = line.split('\t').collect();
        let [own, parent, name, count, files] = words[..] else { return None };
        let parent = match parent {
            "-" if number == 0 => 0,
            parent => parent.parse().ok()?,
        };
        let files: Vec<ShapeFile> = files
            .split(',')
            .filter(|file| !file.is_empty())
            .map(|file| {
                let (name, size) = file.split_once(':')?;
                Some(ShapeFile { name: name_length(name)?, size: size.parse().ok()? })
            })
            .collect::<Option<_>>()?;
        let as_counted = own.parse() == Ok(number) && count.parse() == Ok(files.len());
        as_counted.then_some(ShapeDir { parent, name: name_length(name)?, files })
    }
}

fn name_length(word: &str) -> Option<usize> {
    word.parse().ok().filter(|length| (1..=MOST_NAME).contains(length))
}

/// Draws a name of this length that the directory does not have.
fn new_name(draw: &RandomStream, length: usize, taken: &mut BTreeSet<Vec<u8>>) -> Result<Vec<u8>> {
    for _ in 0..MOST_DRAWS {
        let name: Vec<u8> = (0..length).map(|_| LETTERS[draw.index(LETTERS.len())]).collect();
        if taken.insert(name.clone()) {
            return Ok(name);
        }
    }
    Err(LabError::Plan(format!("a directory has too many names of {length} characters")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_of_xfree86_has_the_recorded_size() {
        let shape = TreeShape::xfree86().unwrap();
        let size = TreeSize { dirs: 907, files: 11_305, bytes: 129_859_791 };
        assert_eq!(shape.size(), size);
        let tree = shape.tree(3).unwrap();
        assert_eq!(tree.size(), size);
        assert_eq!(tree, shape.tree(3).unwrap());
        assert_ne!(tree, shape.tree(4).unwrap());
        // Each directory comes before its contents, one level at a time.
        let mut depth = 0;
        for entry in &tree.entries {
            assert!(entry.depth <= depth, "{entry:?}");
            depth = entry.depth + usize::from(entry.size.is_none());
        }
        let files = tree.files();
        let paths: BTreeSet<_> = files.iter().map(|file| (&file.path, &file.name)).collect();
        assert_eq!(paths.len(), files.len(), "a name is used twice");
    }

    #[test]
    fn a_scaled_shape_has_that_part_of_the_tree_or_copies_of_it() {
        let shape = TreeShape::xfree86().unwrap();
        assert_eq!(shape.scaled(1.0), shape);
        let full = shape.size();
        for scale in [0.01, 0.1, 0.5, 0.9, 1.5, 3.0] {
            let size = shape.scaled(scale).size();
            let part = |n: u64, of: u64| n as f64 / (of as f64 * scale);
            assert!(size.dirs.abs_diff((full.dirs as f64 * scale) as u64) <= 3, "{scale} {size:?}");
            let files = part(size.files, full.files);
            assert!(scale < 0.1 || (0.6..1.6).contains(&files), "{scale} {files}");
            assert_eq!(shape.scaled(scale).tree(1).unwrap().size(), size);
        }
        let deepest = |shape: &TreeShape| {
            let tree = shape.tree(1).unwrap();
            tree.entries.iter().map(|entry| entry.depth).max()
        };
        assert!(deepest(&shape.scaled(0.1)) > Some(1));
    }

    #[test]
    fn bad_tables_are_refused_and_full_directories_end() {
        for bad in [
            "0\t-\t1\t2\t1:1",
            "1\t-\t1\t1\t1:1",
            "0\t-\t1\t1\t0:1",
            "0\t-\t1\t1\t256:1",
            "0\t-\t1\t1\tx:1",
            "0\t-\t1\t1",
            "0\t-\t1\t0\t\n1\t1\t3\t0\t",
            "0\t-\t1\t0\t\n1\t-\t3\t0\t",
        ] {
            assert!(TreeShape::parse(bad).is_err(), "{bad:?}");
        }
        let crowded = format!("0\t-\t1\t40\t{}", vec!["1:0"; 40].join(","));
        let why = TreeShape::parse(&crowded).unwrap().tree(1).unwrap_err().to_string();
        assert!(why.contains("too many names of 1 characters"), "{why}");
    }
}
