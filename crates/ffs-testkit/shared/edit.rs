//! For tests: changes an inode of an unmounted volume. The tests include this file with `#[path]`,
//! because `ffs-testkit` uses no other crate.
#![allow(clippy::unwrap_used, reason = "tests stop at surprises")]

use ffs_device::BlockDevice;
use ffs_ondisk::{Dinode, Geometry, Ino};

/// Changes inode `ino` on the device, and leaves its check hash as it was. Returns it as it is now.
pub(crate) fn edit(
    dev: &dyn BlockDevice,
    g: &Geometry,
    ino: Ino,
    change: impl FnOnce(&mut Dinode),
) -> Dinode {
    let at = g.frag_to_byte(g.ino_to_fsba(ino)) + g.ino_to_fsbo(ino) as u64;
    let mut raw = vec![0; g.format.dinode_size()];
    dev.read_at(at, &mut raw).unwrap();
    let mut d = Dinode::decode(g, &raw);
    change(&mut d);
    d.encode(g, &mut raw);
    dev.write_at(at, &raw).unwrap();
    d
}
