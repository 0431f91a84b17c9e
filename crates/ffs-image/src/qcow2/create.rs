//! New qcow2 images.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use imago::format::PreallocateMode;
use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder};

use super::Storage;
use crate::bytes::be32;

/// Bytes that are looked at together. A cluster of the image has as many.
const CLUSTER: usize = 64 << 10;

/// Writes a qcow2 image of the disk in `raw` to `file`, which is empty. Clusters of zeros take no
/// space. The image is not durable until `file` is synced.
///
/// # Errors
/// The system's, of either file; [`io::ErrorKind::Interrupted`] when `cancelled` returns true.
pub fn write_qcow2(raw: &File, file: &File, cancelled: &dyn Fn() -> bool) -> io::Result<()> {
    let len = raw.metadata()?.len();
    let image = empty(file, len)?;
    let mut cluster = vec![0; CLUSTER];
    let mut at = 0;
    while let Some(start) = next_data(raw, at)?.filter(|start| *start < len) {
        if cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let start = start - start % CLUSTER as u64;
        let have = (len - start).min(CLUSTER as u64) as usize;
        let Some(bytes) = cluster.get_mut(..have) else { break };
        raw.read_exact_at(bytes, start)?;
        if bytes.iter().any(|byte| *byte != 0) {
            image.write(&*bytes, start)?;
        }
        at = start + CLUSTER as u64;
    }
    image.flush()?;
    sort_feature_names(file)
}

/// Writes a qcow2 image of a disk of `len` zeros to `file`, which is empty. The image is not
/// durable until `file` is synced.
///
/// # Errors
/// The system's; the format has no disk of this size.
pub fn write_empty_qcow2(file: &File, len: u64) -> io::Result<()> {
    empty(file, len)?.flush()?;
    sort_feature_names(file)
}

fn empty(file: &File, len: u64) -> io::Result<FormatAccess<Storage>> {
    let storage = Storage::try_from(file.try_clone()?)?;
    let builder = Qcow2::<Storage>::create_builder(storage);
    let builder = builder.size(len).preallocate(PreallocateMode::None);
    let image = builder.create_open(DenyImplicitOpenGate::default(), |storage| {
        Ok(Qcow2::<Storage>::builder(storage))
    })?;
    Ok(FormatAccess::new(image))
}

/// Sorts the names of features in the header, so that the same content gives the same bytes: imago
/// writes them in an order that differs from run to run.
fn sort_feature_names(file: &File) -> io::Result<()> {
    /// Offset of the length of the header.
    const HEADER_LENGTH: usize = 100;
    /// Type of the extension that has the names, and bytes of each name.
    const FEATURE_NAMES: u32 = 0x6803_f857;
    const NAME: usize = 48;
    let mut head = vec![0; CLUSTER];
    let have = file.read_at(&mut head, 0)?;
    head.truncate(have);
    // Each extension has a type, a length and data. Type 0 ends them.
    let mut at = be32(&head, HEADER_LENGTH) as usize;
    while let Some(extension) = head.get(at..at + 8) {
        let (kind, len) = (be32(extension, 0), be32(extension, 4) as usize);
        let start = at + extension.len();
        let Some(data) = head.get(start..start + len).filter(|_| kind != 0) else { break };
        if kind == FEATURE_NAMES {
            let mut names: Vec<&[u8]> = data.chunks(NAME).collect();
            names.sort_unstable();
            return file.write_all_at(&names.concat(), start as u64);
        }
        at = start + len.next_multiple_of(8);
    }
    Ok(())
}

/// The place of the next byte from `at` on that is not in a hole; `None` if there is none.
fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(place) => Ok(Some(place)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        // The host's file system does not know holes.
        Err(rustix::io::Errno::INVAL) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}
