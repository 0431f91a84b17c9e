//! Before phase 0: checks of the superblock.
//!
//! **Invariants.**
//! 1. The constants of a damaged superblock have been taken from a backup or from safe defaults by
//!    [`locate`]; this module reports the corrections.
//!
//! References: spec/fsck-and-crash.md §2; spec/on-disk-format.md §2, §3, §13, §14.
//!
//! [`locate`]: super::locate

use ffs_ondisk::sbsearch::{FsRecovery, RECOVERY_OFFSET, Source, Warning};
use ffs_ondisk::superblock::{CkHash, FsFlags, SBLOCKSIZE};
use ffs_ondisk::{CgNo, Format, Superblock};

use super::checker::Checker;
use super::inode::Inode;
use super::locate::Correction;
use super::report::{Id, Phase};
use super::resolve::{Draft, Res};

impl Checker<'_> {
    /// Reports the problems of the superblock.
    pub(super) fn check_superblock(
        &mut self,
        source: Source,
        warnings: &[Warning],
        corrections: &[Correction],
    ) -> Res<()> {
        self.begin_phase(Phase::Setup, 0)?;
        let unconfirmed = warnings.contains(&Warning::Unconfirmed);
        let place = format!("byte {}", self.sb.location);
        match source {
            Source::Primary => {}
            Source::PrimaryBadHash => {
                let message = "wrong check hash, right constants: a torn write";
                let draft = Draft::fatal_if(unconfirmed, Id::SbTorn, message).place(place);
                self.superblock_again(draft)?;
            }
            Source::Backup(at) => {
                let message = match warnings.iter().find(|w| matches!(w, Warning::Damaged(..))) {
                    Some(why) => format!("unusable, the backup at byte {at} is used: {why}"),
                    None => format!("the superblock at byte {at} is used"),
                };
                self.superblock_again(Draft::fatal(Id::SbBad, message).place(place))?;
            }
        }
        for c in corrections {
            let message = format!("wrong {}: take the backups' or the computed one", c.field);
            let draft = Draft::fatal(Id::SbField, message).place(c.field);
            self.superblock_again(draft.before(&c.found).after(&c.right))?;
        }
        self.check_fields()?;
        self.check_hash_flags()?;
        self.offer_hashes()?;
        self.check_last_backup()?;
        self.check_recovery()
    }

    fn superblock_again(&mut self, draft: Draft) -> Res<()> {
        // The copy in memory is already right, and the check uses it after either answer.
        self.should_fix(draft)?;
        self.sb_damaged = true;
        Ok(())
    }

    /// Checks fields that have a safe substitute.
    fn check_fields(&mut self) -> Res<()> {
        if !(0..=1).contains(&self.sb.f.optim) {
            let draft = Draft::fatal(Id::SbField, "unknown optimisation: set to time");
            if self.should_fix(draft.place("optim").before(self.sb.f.optim).after(0))? {
                self.sb.f.optim = 0;
            }
        }
        if !(0..=99).contains(&self.sb.f.minfree) {
            let draft = Draft::fatal(Id::SbField, "impossible minfree: set to the default");
            if self.should_fix(draft.place("minfree").before(self.sb.f.minfree).after(8))? {
                self.sb.f.minfree = 8;
            }
        }
        let half = i64::from(self.g.fpg / 2);
        if !self.g.old_layout && !self.foreign() && !(0..=half).contains(&self.sb.f.metaspace) {
            let draft = Draft::fatal(Id::SbField, "impossible metaspace: set to none");
            if self.should_fix(draft.place("metaspace").before(self.sb.f.metaspace).after(0))? {
                self.sb.f.metaspace = 0;
            }
        }
        Ok(())
    }

    /// Offers check hashes for a UFS2 volume that lacks them, in an interactive check.
    fn offer_hashes(&mut self) -> Res<()> {
        if self.sb.format != Format::Ufs2 || !self.resolver.is_interactive() || self.foreign() {
            return Ok(());
        }
        let offers = [
            (CkHash::CYLGRP, "cylinder groups"),
            (CkHash::SUPERBLOCK, "superblocks"),
            (CkHash::INODE, "inodes"),
        ];
        for (bit, what) in offers {
            if self.g.ckhash.contains(bit) {
                continue;
            }
            let draft =
                Draft::benign(Id::SbHashes, format!("no check hashes for {what}: add them"));
            // A declined offer does not leave anything unrepaired.
            let resolved = self.resolver.resolved;
            if self.should_fix(draft.place(what))? {
                self.adopting |= bit;
            }
            self.resolver.resolved = resolved;
        }
        if !self.adopting.is_empty() {
            self.g.ckhash |= self.adopting;
            self.sb.f.metackhash = self.g.ckhash.bits();
            self.sb.set_flags(self.sb.flags() | FsFlags::METACKHASH);
        }
        Ok(())
    }

    /// Whether the 64-bit fields from offset 864 on may belong to NetBSD's journal or quota.
    fn foreign(&self) -> bool {
        self.sb.f.flags & 0x100 != 0 || (self.sb.f.flags & 0x200 != 0 && self.sb.f.metackhash == 0)
    }

    /// Drops check hashes that an older system did not maintain.
    fn check_hash_flags(&mut self) -> Res<()> {
        let f = &self.sb.f;
        let stale = f.metackhash != 0 && f.flags & FsFlags::METACKHASH.bits() == 0;
        if self.sb.format != Format::Ufs2 || !stale {
            return Ok(());
        }
        let draft = Draft::benign(Id::SbCkhash, "check hashes were not maintained: drop them");
        if self.should_fix(draft.before(format!("{:#x}", self.sb.f.metackhash)).after(0))? {
            self.sb.f.metackhash = 0;
        }
        Ok(())
    }

    /// Checks that the backup of the last group has the same constants.
    fn check_last_backup(&mut self) -> Res<()> {
        let at = self.g.frag_to_byte(self.g.cgsblock(CgNo(self.g.ncg - 1)));
        let bytes = self.disk.read(self.g.cgsblock(CgNo(self.g.ncg - 1)), SBLOCKSIZE)?;
        let problem = match Superblock::decode(&bytes, at) {
            Ok(copy) if copy.endian == self.sb.endian => {
                copy.differing_field(&self.sb).map(str::to_owned)
            }
            Ok(_) => Some("byte order".to_owned()),
            Err(_) => Some("magic".to_owned()),
        };
        let Some(field) = problem else { return Ok(()) };
        let message = format!("the last group's backup differs in {field}: write it again");
        if self.should_fix(Draft::fatal(Id::SbAlternate, message).place(format!("byte {at}")))? {
            self.rewrite_backup = Some(at);
        }
        Ok(())
    }

    /// Offers a recovery record for a UFS2 volume that lacks one, in an interactive check.
    fn check_recovery(&mut self) -> Res<()> {
        let usual = self.sb.format == Format::Ufs2 && self.sb.location == 65536;
        if !usual || !self.resolver.is_interactive() {
            return Ok(());
        }
        let mut want = vec![0; 20];
        FsRecovery::of(&self.sb).encode(&mut want, self.g.endian);
        let fsize = u64::from(self.g.fsize);
        let (frag, off) = (RECOVERY_OFFSET / fsize, (RECOVERY_OFFSET % fsize) as usize);
        let have = self.disk.read(ffs_ondisk::FragNo(frag), self.g.fsize as usize)?;
        if have.get(off..off + 20) == Some(&want) {
            return Ok(());
        }
        let message = "no record to find backup superblocks by: write one";
        // A declined offer does not leave anything unrepaired.
        let resolved = self.resolver.resolved;
        if self.should_fix(Draft::benign(Id::SbRecovery, message))? {
            let class = super::buffered::Class::Data;
            self.disk.patch(ffs_ondisk::FragNo(frag), off, &want, class)?;
        }
        self.resolver.resolved = resolved;
        Ok(())
    }

    /// Makes the journal unusable before the first repair, and empties its list of unlinked inodes;
    /// phase 4 clears the inodes.
    pub(super) fn check_journal(&mut self) -> Res<()> {
        let suj = self.sb.flags().contains(FsFlags::SUJ);
        if suj && !self.sb.is_clean() {
            // An interrupted check must not leave a journal that seems usable.
            let mut unusable = self.sb.clone();
            unusable.f.mtime = self.next_mtime();
            self.disk.write_early(unusable.location, unusable.encode());
        }
        if !suj || self.sb.f.sujfree == 0 {
            return Ok(());
        }
        let draft =
            Draft::benign(Id::SujChain, "the journal lists unlinked inodes: empty the list");
        if self.should_fix(draft.before(self.sb.f.sujfree).after(0))? {
            self.sb.f.sujfree = 0;
            self.sujfree = true;
        }
        Ok(())
    }

    /// Removes an inode from the journal's list.
    pub(super) fn unchain(&mut self, node: &mut Inode) -> Res<()> {
        if self.resolver.can_write() {
            node.d.freelink = 0;
            self.write_inode(node)?;
        }
        Ok(())
    }
}
