//! The root directory before phase 1 scans inodes.
//!
//! **Purpose.** If inode 2 has lost its type but its first block begins with `.` and `..` of a
//! root, the type is restored. Otherwise the inode would be cleared together with every name below
//! it.
//!
//! References: spec/fsck-and-crash.md §3.3 (ROOT-TYPE, ROOT-UNALLOC); spec/known-failures.md §2.11.

use ffs_ondisk::dir;
use ffs_ondisk::{FragNo, Ino};

use super::checker::Checker;
use super::report::Id;
use super::resolve::{Draft, Res};

impl Checker<'_> {
    /// Restores the type of a root inode without one.
    pub(super) fn restore_root_type(&mut self) -> Res<()> {
        let mut node = self.read_inode(Ino::ROOT)?;
        if node.is_dir() || !self.begins_like_root(node.raw())? {
            return Ok(());
        }
        let (id, perm) = match node.d.mode {
            0 => (Id::RootUnalloc, 0o755),
            mode => (Id::RootType, mode & 0o7777),
        };
        let (old, new) = (node.d.mode, 0o040_000 | perm);
        let draft = Draft::fatal(id, "inode 2 holds a root directory: make it one").ino(Ino::ROOT);
        let draft = draft.before(format!("{old:#o}")).after(format!("{new:#o}"));
        if self.should_fix(draft)? {
            // The pointer area may have been decoded as the text of a symbolic link.
            let mut raw = node.raw().to_vec();
            ffs_ondisk::wire::put(&mut raw, 0, self.g.endian, new);
            node = super::inode::Inode::decode(&self.g, Ino::ROOT, &raw);
            self.write_inode(&mut node)?;
        }
        Ok(())
    }

    /// Whether the first block of the inode in `raw` begins like a root directory.
    fn begins_like_root(&mut self, raw: &[u8]) -> Res<bool> {
        let mut copy = raw.to_vec();
        ffs_ondisk::wire::put(&mut copy, 0, self.g.endian, 0o040_755u16);
        let node = super::inode::Inode::decode(&self.g, Ino::ROOT, &copy);
        let at = FragNo(u64::try_from(node.d.db[0]).unwrap_or(0));
        if node.d.size == 0 || self.g.run_problem(at, 1).is_some() {
            return Ok(false);
        }
        let buf = self.disk.read(at, self.g.fsize as usize)?;
        let dirblk = buf.get(..512).unwrap_or(&[]);
        let mut records = dir::records(self.dir_format(), dirblk);
        let mut is = |name: &[u8]| {
            records.next().is_some_and(|r| r.is_ok_and(|r| r.ino == 2 && r.name == name))
        };
        Ok(is(b".") && is(b".."))
    }
}
