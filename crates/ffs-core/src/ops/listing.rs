//! Reading directories and symbolic links.

use super::{Vnode, check_alive, check_directory};
use crate::dir;
use crate::error::{Error, Result};
use crate::mount::Ffs;
use crate::types::DirEntry;
use ffs_ondisk::{Place, Structure};
use std::sync::atomic::Ordering;

impl Ffs {
    /// Shows the entries of a directory from position `at` (0 = start) on, `.` and `..` included,
    /// until `each` answers false. Positions stay right while the directory changes; nothing is
    /// locked while `each` runs.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]. If something in the directory is malformed, everything sound is shown
    /// first; then the call that reaches the end fails with EIO. A caller that hands out entries in
    /// portions passes on what it got and meets the error again with nothing to pass on.
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
    /// [`Error::Invalid`] if it is none; the device's.
    pub fn readlink(&self, link: &Vnode) -> Result<Vec<u8>> {
        let data = link.ip.read();
        check_alive(&data)?;
        self.0.view(&link.ip, &data).readlink()
    }
}
