//! Listing directories.

use super::{Server, attr, skip_handle};
use crate::wire::reply::Dirent;
use crate::wire::{Errno, HandedOut, MAX_IO, Reply, Request};
use ffs_core::Ino;

impl Server {
    /// READDIR, and READDIRPLUS, which also looks up each name.
    pub(super) fn readdir(
        &self,
        r: &Request<'_>,
        out: &mut Reply,
        plus: bool,
    ) -> Result<(), Errno> {
        let mut a = r.args();
        skip_handle(&mut a)?;
        let at = a.u64()?;
        let limit = (a.u32()? as usize).min(MAX_IO);
        let dir = self.node(r)?;
        self.fs.readdir(&dir, at, &mut |e| {
            let d = Dirent {
                ino: u64::from(e.ino.0),
                next: e.next,
                kind: attr::dirent_kind(e.kind),
                name: e.name,
            };
            out.dirent(&d, plus, limit)
        })?;
        if plus {
            self.look_up_listed(out);
        }
        Ok(())
    }

    /// Fills in the nodes of a listing, without the lock of the directory. An entry whose inode
    /// cannot be read stays in the listing: a lookup of it will return the error.
    fn look_up_listed(&self, out: &mut Reply) {
        out.handed_out = HandedOut::Listing;
        let mut at = 0;
        while let Some((ino, name, next)) = out.plus_record(at) {
            let dots = name == b"." || name == b"..";
            let file = u32::try_from(ino).ok().filter(|_| !dots);
            if let Some(Ok(file)) = file.map(|ino| self.fs.vget(Ino(ino), None)) {
                let e = self.entry_of(file);
                out.fill_plus(at, &e, &self.options.timeouts);
            }
            at = next;
        }
    }
}
