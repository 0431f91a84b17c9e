//! Before the phases: what is wrong with the superblock.
//!
//! **Invariants.**
//! 1. Of a damaged superblock the constants come from a backup, the rest from whatever is sane: [`locate`]
//!    has seen to it, here it is reported.
//!
//! References: spec/fsck-and-crash.md §2; spec/on-disk-format.md §2, §3, §13, §14.
//!
//! [`locate`]: super::locate

use ffs_ondisk::sbsearch::{FsRecovery, RECOVERY_OFFSET, Source, Warning};
use ffs_ondisk::superblock::{CkHash, FsFlags, SBLOCKSIZE};
use ffs_ondisk::{CgNo, Format, Superblock};

use super::Checker;
use super::judge::{Draft, Res};
use super::locate::Correction;
use super::node::Node;
use super::report::{Id, Phase};

impl Checker<'_> {
    /// Reports what is wrong with the superblock.
    pub(super) fn check_superblock(
        &mut self,
        source: Source,
        warnings: &[Warning],
        corrections: &[Correction],
    ) -> Res<()> {
        self.enter(Phase::Setup, 0)?;
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
        // The copy in memory is right already; granted or not, the check goes on with it.
        self.ask(draft)?;
        self.sb_damaged = true;
        Ok(())
    }

    /// Fields with a safe substitute.
    fn check_fields(&mut self) -> Res<()> {
        if !(0..=1).contains(&self.sb.f.optim) {
            let draft = Draft::fatal(Id::SbField, "unknown optimisation: set to time");
            if self.ask(draft.place("optim").before(self.sb.f.optim).after(0))? {
                self.sb.f.optim = 0;
            }
        }
        if !(0..=99).contains(&self.sb.f.minfree) {
            let draft = Draft::fatal(Id::SbField, "impossible minfree: set to the default");
            if self.ask(draft.place("minfree").before(self.sb.f.minfree).after(8))? {
                self.sb.f.minfree = 8;
            }
        }
        let half = i64::from(self.g.fpg / 2);
        if !self.g.old_layout && !self.foreign() && !(0..=half).contains(&self.sb.f.metaspace) {
            let draft = Draft::fatal(Id::SbField, "impossible metaspace: set to none");
            if self.ask(draft.place("metaspace").before(self.sb.f.metaspace).after(0))? {
                self.sb.f.metaspace = 0;
            }
        }
        Ok(())
    }

    /// Check hashes are offered to operators of UFS2 volumes without them.
    fn offer_hashes(&mut self) -> Res<()> {
        if self.sb.format != Format::Ufs2 || !self.judge.asks() || self.foreign() {
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
            // Declining an offer is not leaving something unrepaired.
            let resolved = self.judge.resolved;
            if self.ask(draft.place(what))? {
                self.adopting |= bit;
            }
            self.judge.resolved = resolved;
        }
        if !self.adopting.is_empty() {
            self.g.ckhash |= self.adopting;
            self.sb.f.metackhash = self.g.ckhash.bits();
            self.sb.set_flags(self.sb.flags() | FsFlags::METACKHASH);
        }
        Ok(())
    }

    /// Whether the 64-bit fields from 864 on may be NetBSD's journal or quota.
    fn foreign(&self) -> bool {
        self.sb.f.flags & 0x100 != 0 || (self.sb.f.flags & 0x200 != 0 && self.sb.f.metackhash == 0)
    }

    /// Hashes that an older system did not keep up.
    fn check_hash_flags(&mut self) -> Res<()> {
        let f = &self.sb.f;
        let stale = f.metackhash != 0 && f.flags & FsFlags::METACKHASH.bits() == 0;
        if self.sb.format != Format::Ufs2 || !stale {
            return Ok(());
        }
        let draft = Draft::benign(Id::SbCkhash, "check hashes were not kept up: drop them");
        if self.ask(draft.before(format!("{:#x}", self.sb.f.metackhash)).after(0))? {
            self.sb.f.metackhash = 0;
        }
        Ok(())
    }

    /// The last group's copy has the same constants.
    fn check_last_backup(&mut self) -> Res<()> {
        let at = self.g.frag_to_byte(self.g.cgsblock(CgNo(self.g.ncg - 1)));
        let bytes = self.store.read(self.g.cgsblock(CgNo(self.g.ncg - 1)), SBLOCKSIZE)?;
        let problem = match Superblock::decode(&bytes, at) {
            Ok(copy) if copy.endian == self.sb.endian => {
                copy.differing_field(&self.sb).map(str::to_owned)
            }
            Ok(_) => Some("byte order".to_owned()),
            Err(_) => Some("magic".to_owned()),
        };
        let Some(field) = problem else { return Ok(()) };
        let message = format!("the last group's backup differs in {field}: write it again");
        if self.ask(Draft::fatal(Id::SbAlternate, message).place(format!("byte {at}")))? {
            self.rewrite_backup = Some(at);
        }
        Ok(())
    }

    /// The recovery record is offered to operators of volumes that have none (full check of UFS2 only).
    fn check_recovery(&mut self) -> Res<()> {
        let usual = self.sb.format == Format::Ufs2 && self.sb.location == 65536;
        if !usual || !self.judge.asks() {
            return Ok(());
        }
        let mut want = vec![0; 20];
        FsRecovery::of(&self.sb).encode(&mut want, self.g.endian);
        let fsize = u64::from(self.g.fsize);
        let (frag, off) = (RECOVERY_OFFSET / fsize, (RECOVERY_OFFSET % fsize) as usize);
        let have = self.store.read(ffs_ondisk::FragNo(frag), self.g.fsize as usize)?;
        if have.get(off..off + 20) == Some(&want) {
            return Ok(());
        }
        let message = "no record to find backup superblocks by: write one";
        // Declining the offer is not leaving something unrepaired.
        let resolved = self.judge.resolved;
        if self.ask(Draft::benign(Id::SbRecovery, message))? {
            let class = super::store::Class::Data;
            self.store.patch(ffs_ondisk::FragNo(frag), off, &want, class)?;
        }
        self.judge.resolved = resolved;
        Ok(())
    }

    /// A journal's list of unlinked inodes: phase 4 clears them, the list goes.
    pub(super) fn check_journal(&mut self) -> Res<()> {
        let suj = self.sb.flags().contains(FsFlags::SUJ);
        if !suj || self.sb.f.sujfree == 0 {
            return Ok(());
        }
        let draft =
            Draft::benign(Id::SujChain, "the journal lists unlinked inodes: empty the list");
        if self.ask(draft.before(self.sb.f.sujfree).after(0))? {
            self.sb.f.sujfree = 0;
            self.sujfree = true;
        }
        Ok(())
    }

    /// Takes an inode off the journal's list.
    pub(super) fn unchain(&mut self, node: &mut Node) -> Res<()> {
        if self.judge.may_write() {
            node.d.freelink = 0;
            self.save(node)?;
        }
        Ok(())
    }
}
