//! The content of a partition from a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use ffs_device::BlockDevice;

use super::DiskError;
use crate::copy::Observer;

/// Bytes that are copied at a time.
const PIECE: usize = 64 << 10;

/// A file whose content a partition gets.
pub struct FileContent {
    file: File,
    path: PathBuf,
    len: u64,
}

impl FileContent {
    /// The content of `file`, which has the name `path` in messages.
    ///
    /// # Errors
    /// Its length cannot be found, or it has none: a pipe.
    pub fn new(file: File, path: PathBuf) -> io::Result<FileContent> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("is not a regular file"));
        }
        Ok(FileContent { file, path, len: found.len() })
    }

    /// Bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Writes the content to `device`, all of whose bytes are zero.
    pub(super) fn write(
        &self,
        device: &Arc<dyn BlockDevice>,
        observer: &mut dyn Observer,
    ) -> Result<(), DiskError> {
        let unread = |error| DiskError::Source { path: self.path.clone(), error };
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < self.len {
            if observer.is_cancelled() {
                return Err(DiskError::Cancelled);
            }
            let have = usize::try_from(self.len - at).unwrap_or(PIECE).min(PIECE);
            let bytes = piece.get_mut(..have).unwrap_or(&mut []);
            self.file.read_exact_at(bytes, at).map_err(unread)?;
            if bytes.iter().any(|byte| *byte != 0) {
                device.write_at(at, bytes).map_err(DiskError::Device)?;
            }
            at += have as u64;
            observer.progress(have as u64);
        }
        Ok(())
    }
}
