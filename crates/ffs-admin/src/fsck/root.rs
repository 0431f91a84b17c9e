//! The root directory, before anything else is judged.
//!
//! **Purpose.** An inode 2 that has lost its type but still begins with `.` and `..` of a root gets its type
//! back, instead of being cleared and every name below it with it.
//!
//! References: spec/fsck-and-crash.md §3.3 (ROOT-TYPE, ROOT-UNALLOC); spec/known-failures.md §2.11.

use ffs_ondisk::dir;
use ffs_ondisk::{FragNo, Ino};

use super::Checker;
use super::judge::{Draft, Res};
use super::report::Id;

impl Checker<'_> {
    /// Gives a root without a type its type back.
    pub(super) fn rescue_root(&mut self) -> Res<()> {
        let mut node = self.node(Ino::ROOT)?;
        if node.is_dir() || !self.holds_root(node.raw())? {
            return Ok(());
        }
        let (id, perm) = match node.d.mode {
            0 => (Id::RootUnalloc, 0o755),
            mode => (Id::RootType, mode & 0o7777),
        };
        let (old, new) = (node.d.mode, 0o040_000 | perm);
        let draft = Draft::fatal(id, "inode 2 holds a root directory: make it one").ino(Ino::ROOT);
        let draft = draft.before(format!("{old:#o}")).after(format!("{new:#o}"));
        if self.ask(draft)? {
            // The pointer area may have been taken for a link's text: decode it again as a directory's.
            let mut raw = node.raw().to_vec();
            ffs_ondisk::wire::put(&mut raw, 0, self.g.endian, new);
            node = super::node::Node::decode(&self.g, Ino::ROOT, &raw);
            self.save(&mut node)?;
        }
        Ok(())
    }

    /// Whether the first block of the inode in `raw` begins like the root.
    fn holds_root(&mut self, raw: &[u8]) -> Res<bool> {
        let mut copy = raw.to_vec();
        ffs_ondisk::wire::put(&mut copy, 0, self.g.endian, 0o040_755u16);
        let node = super::node::Node::decode(&self.g, Ino::ROOT, &copy);
        let at = FragNo(u64::try_from(node.d.db[0]).unwrap_or(0));
        if node.d.size == 0 || self.g.run_problem(at, 1).is_some() {
            return Ok(false);
        }
        let buf = self.store.read(at, self.g.fsize as usize)?;
        let chunk = buf.get(..512).unwrap_or(&[]);
        let mut records = dir::records(self.dir_format(), chunk);
        let mut is = |name: &[u8]| {
            records.next().is_some_and(|r| r.is_ok_and(|r| r.ino == 2 && r.name == name))
        };
        Ok(is(b".") && is(b".."))
    }
}
