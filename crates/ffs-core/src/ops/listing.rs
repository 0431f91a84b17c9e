//! Reading directories and symbolic links.

use super::{Vnode, check_alive, check_directory};
use crate::dir;
use crate::error::{Error, Result};
use crate::mount::Ffs;
use crate::types::DirEntry;
use ffs_ondisk::{Place, Structure};
use std::sync::atomic::Ordering;

impl Ffs {
    /// Calls `each` with the entries of a directory from position `at` (0 is the start) on,
    /// including `.` and `..`, until `each` returns false. Positions stay valid while the directory
    /// changes. No lock is held while `each` runs.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]. If a part of the directory is malformed, all other entries are
    /// reported first; then the call that reaches the end fails with EIO. A caller that returns
    /// entries in portions should return those it got; its next call fails again, without entries.
    pub fn readdir(
        &self,
        dir: &Vnode,
        at: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let (mut at, mut bad, mut shown) = (at, None, false);
        loop {
            let chunk = {
                let data = dir.ip.read();
                check_directory(&data)?;
                dir::read_chunk(self.0.view(&dir.ip, &data), at, &mut bad)?
            };
            let Some(chunk) = chunk else { break };
            let mut count = |e: DirEntry<'_>| {
                shown = true;
                each(e)
            };
            if !chunk.show(self.geometry(), &mut count, &mut bad) {
                return Ok(());
            }
            at = chunk.end();
        }
        let data = dir.ip.read();
        self.0.view(&dir.ip, &data).touch_accessed();
        match bad {
            Some(e) => {
                dir.ip.dir.malformed.store(true, Ordering::Relaxed);
                Err(self.0.damaged(e))
            }
            None if !shown && dir.ip.dir.malformed.load(Ordering::Relaxed) => {
                let (s, place) = (Structure::Directory, Place::Inode(dir.ip.ino));
                Err(Error::corrupt(s, place, "record", "malformed", "sound records"))
            }
            None => Ok(()),
        }
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file is no symbolic link; the device's.
    pub fn readlink(&self, link: &Vnode) -> Result<Vec<u8>> {
        let data = link.ip.read();
        check_alive(&data)?;
        self.0.view(&link.ip, &data).readlink()
    }
}
