//! What a tree holds, as numbers and a checksum: the same tree has the same sum on every file
//! system.
//!
//! # Invariants
//! 1. The sum covers paths, kinds, sizes of files and texts of links. It covers no content, times
//!    or permissions, which a replay does not have.
//! 2. The order of a listing has no influence.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::path::{TracePath, to_text};
use super::{Have, MOST_LINES};
use crate::error::{LabError, Result};
use crate::systems::{DirId, Kind, Target};

/// The sum of a tree, without its root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSum {
    /// Directories.
    pub dirs: u64,
    /// Names of files.
    pub files: u64,
    /// Names of symbolic links.
    pub links: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// CRC-32C of all entries, added up.
    pub sum: u64,
}

impl std::fmt::Display for TreeSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TreeSum { dirs, files, links, bytes, .. } = self;
        write!(f, "{dirs} directories, {files} files, {links} links, {bytes} bytes")
    }
}

impl TreeSum {
    /// Adds an entry.
    pub fn add(&mut self, entry: &Have) {
        let (kind, path, rest) = match entry {
            Have::Dir(path) => ("dir", path, String::new()),
            Have::File(path, size) => ("file", path, size.to_string()),
            Have::Link(path, text) => ("link", path, to_text(text)),
        };
        match entry {
            Have::Dir(_) => self.dirs += 1,
            Have::File(_, size) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(*size);
            }
            Have::Link(..) => self.links += 1,
        }
        let text = format!("{kind} {}\n{rest}", to_text(path.bytes()));
        let crc = ffs_ondisk::hash::check_hash_parts(&[text.as_bytes()]);
        self.sum = self.sum.wrapping_add(u64::from(crc));
    }
}

/// Everything below a directory of the host, each directory before its content, sorted by name.
///
/// # Errors
/// [`LabError::Unusable`] if something cannot be read or is neither file, directory nor link.
pub fn of_directory(root: &Path) -> Result<Vec<Have>> {
    let mut found = Vec::new();
    walk(root, &TracePath::root(), &mut found)
        .map_err(|why| LabError::unusable(&root.display().to_string(), why))?;
    Ok(found)
}

fn walk(dir: &Path, at: &TracePath, found: &mut Vec<Have>) -> std::result::Result<(), String> {
    let say = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(say)? {
        entries.push(entry.map_err(say)?);
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = at.join(entry.file_name().as_bytes())?;
        if found.len() >= MOST_LINES {
            return Err(format!("has more than {MOST_LINES} entries"));
        }
        let attr = entry.metadata().map_err(say)?;
        if attr.is_dir() {
            found.push(Have::Dir(path.clone()));
            walk(&entry.path(), &path, found)?;
        } else if attr.is_symlink() {
            let text = std::fs::read_link(entry.path()).map_err(say)?;
            found.push(Have::Link(path, text.as_os_str().as_bytes().to_vec()));
        } else if attr.is_file() {
            found.push(Have::File(path, attr.len()));
        }
    }
    Ok(())
}

/// The sum of everything below a directory of a target.
///
/// # Errors
/// The target's.
pub fn of_target(target: &mut dyn Target, root: DirId) -> Result<TreeSum> {
    let mut sum = TreeSum::default();
    add_target(target, root, &TracePath::root(), &mut sum)?;
    Ok(sum)
}

fn add_target(t: &mut dyn Target, dir: DirId, at: &TracePath, sum: &mut TreeSum) -> Result<()> {
    let mut entries = Vec::new();
    t.list_kinds(dir, &mut |name, kind| entries.push((name.to_vec(), kind)))?;
    for (name, kind) in entries {
        let path = at.join(&name).map_err(LabError::Plan)?;
        match kind {
            Kind::Directory => {
                sum.add(&Have::Dir(path.clone()));
                let below = t.open_dir(dir, &name)?;
                add_target(t, below, &path, sum)?;
                t.close_dir(below)?;
            }
            Kind::File => {
                let size = t.stat(dir, &name)?.map_or(0, |stat| stat.size);
                sum.add(&Have::File(path, size));
            }
            Kind::Other => {
                let text = t.readlink(dir, &name)?;
                sum.add(&Have::Link(path, text));
            }
        }
    }
    Ok(())
}
