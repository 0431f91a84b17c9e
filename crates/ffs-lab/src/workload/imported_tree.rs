//! Real trees: the table of contents of an archive, or the content of a directory.
//!
//! # Invariants
//! 1. Only names and sizes are read. Nothing is unpacked, and nothing outside of the archive or
//!    directory is accessed.
//! 2. Links and devices, which not every target supports, are omitted and counted.
//! 3. An archive may be hostile: paths are split and checked, and the number of entries is limited.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use flate2::bufread::MultiGzDecoder;

use super::tree::{Entry, Tree};
use crate::error::{LabError, Result};

/// A real tree.
#[derive(Debug, Clone, Default)]
pub(super) struct ImportedTree {
    pub(super) tree: Tree,
    /// Entries that are neither files nor directories, or have impossible names.
    pub(super) left_out: u64,
    /// The size of the archive file in bytes; 0 for a directory.
    pub(super) packed: u64,
}

/// The most entries of a tree.
const MOST_ENTRIES: usize = 20_000_000;
/// The most directories above a file.
const MOST_DEPTH: usize = 128;

/// Reads the table of contents of an archive, compressed with gzip or not.
pub(super) fn archive(path: &Path) -> Result<ImportedTree> {
    let refuse = |why: &dyn std::fmt::Display| {
        LabError::Plan(format!("archive '{}': {why}", path.display()))
    };
    let file = File::open(path).map_err(|error| refuse(&error))?;
    let packed = file.metadata().map_err(|error| refuse(&error))?.len();
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let start = reader.fill_buf().map_err(|error| refuse(&error))?;
    let input: Box<dyn Read> = if start.starts_with(b"\x1f\x8b") {
        Box::new(MultiGzDecoder::new(reader))
    } else {
        Box::new(reader)
    };
    let mut read = tar::Archive::new(input);
    let mut below = Below::default();
    for entry in read.entries().map_err(|error| refuse(&error))? {
        let entry = entry.map_err(|error| {
            refuse(&format_args!("{error}; it must be a tar archive, compressed with gzip or not"))
        })?;
        let kind = entry.header().entry_type();
        let path = entry.path_bytes();
        let path = Path::new(OsStr::from_bytes(&path));
        let size = (kind.is_file() || kind.is_contiguous()).then(|| entry.size());
        if size.is_none() && !kind.is_dir() {
            below.left_out += 1;
            continue;
        }
        below.add(path, size).map_err(|why| refuse(&why))?;
    }
    below.finish(packed).ok_or_else(|| refuse(&"has no files"))
}

/// Reads the names and sizes below a directory.
pub(super) fn directory(path: &Path) -> Result<ImportedTree> {
    let mut given = ImportedTree::default();
    list(path, 0, &mut given)
        .map_err(|why| LabError::Plan(format!("tree '{}': {why}", path.display())))?;
    if given.tree.entries.is_empty() {
        return Err(LabError::Plan(format!("tree '{}': has no files", path.display())));
    }
    Ok(given)
}

fn list(path: &Path, depth: usize, given: &mut ImportedTree) -> std::result::Result<(), String> {
    let say = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(say)? {
        found.push(entry.map_err(say)?);
    }
    // Sorted by name, because the order of a directory depends on its file system.
    found.sort_by_key(std::fs::DirEntry::file_name);
    for entry in found {
        let attr = entry.metadata().map_err(say)?;
        let name = entry.file_name().as_bytes().to_owned();
        if given.tree.entries.len() >= MOST_ENTRIES || depth >= MOST_DEPTH {
            return Err(TOO_MUCH.to_owned());
        }
        if attr.is_file() {
            given.tree.entries.push(Entry { depth, name, size: Some(attr.len()) });
        } else if attr.is_dir() {
            given.tree.entries.push(Entry { depth, name, size: None });
            list(&entry.path(), depth + 1, given)?;
        } else {
            given.left_out += 1;
        }
    }
    Ok(())
}

const TOO_MUCH: &str = "has more entries or deeper directories than a workload takes";

/// A tree that is built from paths, in the order of their first occurrence.
#[derive(Default)]
struct Below {
    nodes: Vec<Node>,
    /// The parent and the name of each entry.
    known: BTreeMap<(usize, Vec<u8>), usize>,
    left_out: u64,
}

struct Node {
    name: Vec<u8>,
    size: Option<u64>,
    below: Vec<usize>,
}

impl Below {
    fn add(&mut self, path: &Path, size: Option<u64>) -> std::result::Result<(), &'static str> {
        if self.nodes.is_empty() {
            self.nodes.push(Node { name: Vec::new(), size: None, below: Vec::new() });
        }
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => names.push(name.as_bytes().to_owned()),
                Component::CurDir | Component::RootDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    self.left_out += 1;
                    return Ok(());
                }
            }
        }
        if names.iter().any(|name| name.len() > 255 || name.contains(&0)) {
            self.left_out += 1;
            return Ok(());
        }
        if names.len() > MOST_DEPTH || self.nodes.len() + names.len() > MOST_ENTRIES {
            return Err(TOO_MUCH);
        }
        let last = names.len().saturating_sub(1);
        let mut at = 0;
        for (depth, name) in names.into_iter().enumerate() {
            let size = if depth == last { size } else { None };
            let new = self.nodes.len();
            let node = *self.known.entry((at, name.clone())).or_insert(new);
            if node == new {
                self.nodes.push(Node { name, size, below: Vec::new() });
                self.nodes[at].below.push(new);
            } else if self.nodes[node].size.is_some() != size.is_some() {
                // The path is both a file and a directory: the first occurrence counts.
                self.left_out += 1;
                return Ok(());
            } else {
                self.nodes[node].size = size;
            }
            at = node;
        }
        Ok(())
    }

    fn finish(self, packed: u64) -> Option<ImportedTree> {
        if self.nodes.len() < 2 {
            return None;
        }
        let mut tree = Tree::default();
        let mut waiting: Vec<(usize, usize)> =
            self.nodes[0].below.iter().rev().map(|node| (*node, 0)).collect();
        while let Some((node, depth)) = waiting.pop() {
            let Node { name, size, below } = &self.nodes[node];
            tree.entries.push(Entry { depth, name: name.clone(), size: *size });
            waiting.extend(below.iter().rev().map(|node| (*node, depth + 1)));
        }
        Some(ImportedTree { tree, left_out: self.left_out, packed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tree::TreeSize;
    use std::io::Write;

    fn add(archive: &mut tar::Builder<impl Write>, path: &str, kind: tar::EntryType, size: u64) {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, &vec![0u8; size as usize][..]).unwrap();
    }

    fn build(out: impl Write) {
        let mut archive = tar::Builder::new(out);
        let (file, dir) = (tar::EntryType::Regular, tar::EntryType::Directory);
        add(&mut archive, "xc/", dir, 0);
        add(&mut archive, "xc/b", file, 3000);
        add(&mut archive, "xc/sub/deep/a", file, 10);
        add(&mut archive, "xc/c", file, 0);
        add(&mut archive, "xc/sub/z", file, 5);
        add(&mut archive, "../../etc/passwd", file, 1);
        add(&mut archive, "xc/c/below-a-file", file, 1);
        add(&mut archive, "xc/dev", tar::EntryType::Char, 0);
        archive.finish().unwrap();
    }

    #[test]
    fn an_archive_is_read_in_its_order_and_does_not_get_out() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, packed) = (dir.path().join("a.tar"), dir.path().join("a.tgz"));
        build(File::create(&plain).unwrap());
        let gzip = flate2::write::GzEncoder::new(
            File::create(&packed).unwrap(),
            flate2::Compression::fast(),
        );
        build(gzip);
        let given = archive(&plain).unwrap();
        assert_eq!(given.tree, archive(&packed).unwrap().tree);
        assert!(given.packed > archive(&packed).unwrap().packed);
        let names: Vec<(usize, &str, Option<u64>)> = given
            .tree
            .entries
            .iter()
            .map(|e| (e.depth, std::str::from_utf8(&e.name).unwrap(), e.size))
            .collect();
        let expected = [
            (0, "xc", None),
            (1, "b", Some(3000)),
            (1, "sub", None),
            (2, "deep", None),
            (3, "a", Some(10)),
            (2, "z", Some(5)),
            (1, "c", Some(0)),
        ];
        assert_eq!(names, expected);
        assert_eq!(given.left_out, 3);
    }

    #[test]
    fn a_directory_is_read_and_what_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/f"), "four").unwrap();
        std::os::unix::fs::symlink("f", dir.path().join("sub/link")).unwrap();
        let given = directory(dir.path()).unwrap();
        assert_eq!(given.tree.size(), TreeSize { dirs: 2, files: 1, bytes: 4 });
        assert_eq!(given.left_out, 1);
        let empty = tempfile::tempdir().unwrap();
        assert!(directory(empty.path()).unwrap_err().to_string().contains("no files"));
        assert!(directory(Path::new("/no/such")).is_err());
        let text = dir.path().join("text");
        std::fs::write(&text, "no archive at all, but long enough to be taken for one ".repeat(20))
            .unwrap();
        assert!(archive(&text).unwrap_err().to_string().contains("tar archive"));
    }
}
