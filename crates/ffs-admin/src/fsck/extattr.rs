//! Phase 1: the extended attributes of an inode (UFS2).
//!
//! **Purpose.** A malformed record makes every later one unreadable, and the file system then
//! refuses operations that depend on the attributes: a change of one, a mode with an access list,
//! a write to a file that may have capabilities.
//!
//! **Invariants.**
//! 1. After phase 1 the attribute area of an inode that remains is a sequence of well-formed
//!    records. If another round is due, that round establishes this.
//! 2. Records before the first malformed one stay.
//!
//! References: spec/on-disk-format.md §10.1; spec/fsck-and-crash.md §3.1 (EXT).

use ffs_ondisk::{FragNo, extattr};

use super::blkcheck::BlockCheck;
use super::checker::Checker;
use super::inode::Inode;
use super::report::Id;
use super::resolve::{Draft, Res};

impl Checker<'_> {
    /// Checks that the extended-attribute area has a possible size and the blocks for it.
    pub(super) fn check_ext_size(&mut self, node: &mut Inode) -> Res<()> {
        let (size, limit) = (node.d.extsize, 2 * self.g.bsize);
        let missing = (0..2u32).any(|i| size > i * self.g.bsize && node.d.extb[i as usize] == 0);
        if size <= limit && !missing {
            return Ok(());
        }
        let message = "extended attributes without their blocks: drop them";
        let draft = Draft::fatal(Id::Ext, message).ino(node.ino).before(size).after(0);
        if self.should_fix(draft)? {
            node.d.extsize = 0;
            node.d.extb = [0; 2];
            node.changed = true;
        }
        Ok(())
    }

    /// Checks the records of the extended-attribute area, whose blocks are valid.
    pub(super) fn check_ext_records(
        &mut self,
        node: &mut Inode,
        check: &mut BlockCheck,
    ) -> Res<()> {
        let (g, size) = (self.g, node.d.extsize);
        let mut area = Vec::new();
        for (i, &at) in (0..).zip(&node.d.extb) {
            let bytes = node.d.ext_frags(&g, i) as usize * g.fsize as usize;
            if let Some(at) = u64::try_from(at).ok().filter(|&at| at != 0 && bytes > 0) {
                area.extend(self.disk.read(FragNo(at), bytes)?);
            }
        }
        area.truncate(size as usize);
        if area.len() < size as usize {
            // A block is missing, and that was not repaired.
            return Ok(());
        }
        let Some(bad) = extattr::records(g.endian, &area).find_map(Result::err) else {
            return Ok(());
        };
        let kept = bad.off as u32;
        let message = format!("damaged extended attributes: drop those from there on ({bad})");
        let draft = Draft::fatal(Id::Ext, message).ino(node.ino).before(size).after(kept);
        if self.should_fix(draft)? {
            node.d.extsize = kept;
            for i in 0..node.d.extb.len() {
                if node.d.ext_frags(&g, i as u64) == 0 {
                    node.d.extb[i] = 0;
                }
            }
            self.write_shortened(node, check)?;
        }
        Ok(())
    }
}
