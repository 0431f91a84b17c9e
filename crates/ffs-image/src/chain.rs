//! The files that an image names: backing files, external data files, extents of a VMDK disk. They
//! are examined before `qemu-nbd` opens the image, because it opens them without a limit of time.
//!
//! **Invariant.** No file is opened unless it is a regular file or a block device: an open of a
//! pipe waits for its other end, and one of a device of characters may have effects.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ffs_device::{BlockDevice, DeviceError, FileDevice};

use crate::blocks::vmdk_descriptor;
use crate::bytes::{be32, be64};
use crate::image::Refused;
use crate::magic::{self, Format};

/// Most files of a disk that are examined. A disk of VMware in pieces of 2 GB has one for each.
const MAX_FILES: usize = 4096;
/// Longest chain of backing files.
const MAX_DEPTH: usize = 64;
/// Longest name of a file.
const MAX_NAME: u32 = 4096;
/// Most extensions of a header that are read.
const MAX_EXTENSIONS: usize = 64;
/// The extension of a qcow2 header that names the external data file.
const DATA_FILE: u32 = 0x4441_5441;

/// The search: the files that were examined, by device and inode.
struct Search {
    seen: Vec<(u64, u64)>,
}

/// Fails if the image `file` at `path`, or one of the files behind it, names a pipe, a socket or a
/// device of characters as a part of the disk, or what is no path.
pub(crate) fn check(file: &dyn BlockDevice, path: &Path, format: Format) -> Result<(), Refused> {
    let mut search = Search { seen: Vec::new() };
    search.names_of(file, path, format, MAX_DEPTH)
}

impl Search {
    fn names_of(
        &mut self,
        file: &dyn BlockDevice,
        path: &Path,
        format: Format,
        depth: usize,
    ) -> Result<(), Refused> {
        let names = match format {
            Format::Qcow | Format::Qcow2 => names_in_qcow2(file)?,
            Format::Vmdk | Format::VmdkDescription => names_in_vmdk(file)?,
            _ => return Ok(()),
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        for name in names {
            let by = if depth == MAX_DEPTH { None } else { Some(path) };
            self.visit(folder, &file_name(&name)?, by, depth)?;
        }
        Ok(())
    }

    /// Examines the file `name` of `folder`, which the image `by` names; `None` is the first one.
    fn visit(
        &mut self,
        folder: &Path,
        name: &Path,
        by: Option<&Path>,
        depth: usize,
    ) -> Result<(), Refused> {
        let path = &folder.join(name);
        // The driver reports what does not exist.
        let Ok(found) = std::fs::metadata(path) else { return Ok(()) };
        let kind = found.file_type();
        if kind.is_dir() {
            return Ok(());
        }
        if !kind.is_file() && !kind.is_block_device() {
            let by = by.map_or("it".to_owned(), |by| by.display().to_string());
            let name = name.display();
            let why = format!("{by} names {name}, which is not a regular file or a block device");
            return Err(Refused::Damaged(why));
        }
        let place = (found.dev(), found.ino());
        if self.seen.contains(&place) {
            return Ok(());
        }
        if depth == 0 || self.seen.len() == MAX_FILES {
            let why = format!("more than {MAX_FILES} files, or a chain of more than {MAX_DEPTH}");
            return Err(Refused::Damaged(why));
        }
        self.seen.push(place);
        // The driver also reports what cannot be opened.
        let Ok(file) = FileDevice::open(path, false) else { return Ok(()) };
        if names_others(&file)? {
            let name = name.display();
            return Err(Refused::Damaged(format!("{name} is of a format that is not examined")));
        }
        let format = magic::recognise(&file)?;
        self.names_of(&file, path, format, depth - 1)
    }
}

/// The file that QEMU opens for `name`. It would take an option list in JSON, or open a network
/// connection for the name of a protocol: the first cannot be examined, the second must not follow
/// from the content of a file.
fn file_name(name: &[u8]) -> Result<PathBuf, Refused> {
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    if let Some(file) = name.strip_prefix(b"file:") {
        return Ok(path(file));
    }
    let end = name.iter().position(|byte| matches!(byte, b'/' | b':'));
    if end.is_some_and(|end| name[end] == b':') {
        let name = String::from_utf8_lossy(name);
        return Err(Refused::Damaged(format!(
            "it names {name}, which is no path of a file; to change that: qemu-img rebase -u"
        )));
    }
    Ok(path(name))
}

/// Whether a file is of a format of QEMU that names other files, and that [`magic::recognise`] does
/// not know: QED, and an old format of VMware.
fn names_others(file: &dyn BlockDevice) -> Result<bool, DeviceError> {
    let mut head = [0; 4];
    if file.len_bytes() < head.len() as u64 {
        return Ok(false);
    }
    file.read_at(0, &mut head)?;
    Ok(matches!(&head, b"QED\0" | b"COWD"))
}

/// The backing file and the external data file that a header of qcow or qcow2 names.
fn names_in_qcow2(file: &dyn BlockDevice) -> Result<Vec<Vec<u8>>, DeviceError> {
    let mut head = [0; 104];
    let have = head.len().min(usize::try_from(file.len_bytes()).unwrap_or(usize::MAX));
    file.read_at(0, &mut head[..have])?;
    let mut names = Vec::new();
    names.extend(text(file, be64(&head, 8), be32(&head, 16))?);
    let mut at = match be32(&head, 4) {
        0 | 1 => return Ok(names),
        2 => 72,
        _ => u64::from(be32(&head, 100).max(104)),
    };
    for _ in 0..MAX_EXTENSIONS {
        let mut extension = [0; 8];
        if at.saturating_add(8) > file.len_bytes() {
            break;
        }
        file.read_at(at, &mut extension)?;
        let (kind, len) = (be32(&extension, 0), be32(&extension, 4));
        if kind == 0 {
            break;
        }
        if kind == DATA_FILE {
            names.extend(text(file, at + 8, len)?);
        }
        at = at.saturating_add(8 + u64::from(len).next_multiple_of(8));
    }
    Ok(names)
}

/// The `len` bytes at `at`; `None` if the header names no file there.
fn text(file: &dyn BlockDevice, at: u64, len: u32) -> Result<Option<Vec<u8>>, DeviceError> {
    let beyond = at.checked_add(len.into()).is_none_or(|end| end > file.len_bytes());
    if at == 0 || len == 0 || len > MAX_NAME || beyond {
        return Ok(None);
    }
    let mut name = vec![0; len as usize];
    file.read_at(at, &mut name)?;
    Ok(Some(name))
}

/// The names between quotation marks in the description of a VMDK disk.
fn names_in_vmdk(file: &dyn BlockDevice) -> Result<Vec<Vec<u8>>, DeviceError> {
    let text = vmdk_descriptor(file)?;
    let lines = text.split(|&byte| byte == b'\n');
    let quoted = lines.flat_map(|line| line.split(|&byte| byte == b'"').skip(1).step_by(2));
    let names = quoted.filter(|name| !name.is_empty()).map(<[u8]>::to_vec);
    Ok(names.take(MAX_FILES + 1).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn only_a_path_is_followed() {
        let path = |name: &str| file_name(name.as_bytes()).map_err(|_| ());
        assert_eq!(path("base.raw"), Ok("base.raw".into()));
        assert_eq!(path("file:/a/b"), Ok("/a/b".into()));
        assert_eq!(path("/a:b"), Ok("/a:b".into()));
        for name in ["json:{'filename':'/a'}", "http://127.0.0.1/x", "nbd:localhost:1", "x:y"] {
            assert_eq!(path(name), Err(()), "{name}");
        }
    }
}
