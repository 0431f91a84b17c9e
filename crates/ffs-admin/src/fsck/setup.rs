//! Before the phases: which superblock, and what is wrong with it.
//!
//! **Invariants.**
//! 1. The constants the check works with passed [`ffs_ondisk::sbcheck`] and every group has room for its
//!    metadata, so that addresses computed from them lie on the device.
//! 2. Of a damaged superblock the constants come from a backup, the rest from whatever is sane.
//!
//! References: spec/fsck-and-crash.md §2; spec/on-disk-format.md §2, §3, §13, §14.

use std::sync::Arc;

use ffs_device::{BlockDevice, DeviceError};
use ffs_ondisk::sbsearch::{
    self, Found, FsRecovery, RECOVERY_OFFSET, SearchError, Source, Warning,
};
use ffs_ondisk::superblock::{CkHash, FsFlags, SBLOCKSIZE, SbFields, magic_of};
use ffs_ondisk::{CgNo, Error, Format, Geometry, Superblock, sbcheck};

use super::Checker;
use super::judge::{Draft, Res, Stop};
use super::node::Node;
use super::report::{Id, Phase, exit};

/// Where the first backup lies for the usual block sizes, bytes.
const USUAL_BACKUPS: [u64; 7] = [16384, 32768, 65536, 73728, 81920, 98304, 131_072];

/// A constant that the standard superblock has wrong.
#[derive(Debug, Clone)]
pub(super) struct Correction {
    field: &'static str,
    found: String,
    right: String,
}

macro_rules! constants {
    ($($field:ident),*) => {
        /// Makes constants that no sum or check hash protects those of `from`; what was changed.
        fn take_constants(sb: &mut Superblock, from: &Superblock) -> Vec<Correction> {
            let mut out = Vec::new();
            $(if sb.f.$field != from.f.$field {
                let (found, right) = (sb.f.$field.to_string(), from.f.$field.to_string());
                out.push(Correction { field: stringify!($field), found, right });
                sb.f.$field = from.f.$field;
            })*
            out
        }
    };
}
constants!(
    old_cgoffset,
    old_cgmask,
    old_cpg,
    old_nrpos,
    old_inodefmt,
    cgsize,
    contigsumsize,
    maxsymlinklen,
    maxfilesize,
    qbmask,
    qfmask,
    size,
    dsize,
    csaddr,
    sblockloc
);

/// The superblock to work with.
pub(super) struct Located {
    /// It, with the constants made right.
    pub(super) found: Found,
    /// What was wrong with them.
    pub(super) corrections: Vec<Correction>,
}

/// Finds the superblock, at 512-byte block `at` if one is named.
pub(super) fn locate(dev: &Arc<dyn BlockDevice>, at: Option<u64>) -> Res<Located> {
    let size = Some(dev.len_bytes());
    let read = |offset, len| read(dev, offset, len);
    let found = match at {
        None => sbsearch::find(read, size),
        Some(block) => sbsearch::at(read, block.saturating_mul(512), size),
    };
    if let Err(SearchError::Format(Error::Corrupt(bad))) = &found
        && bad.field == sbcheck::DEVICE_SIZE
        && let Some(located) = other_size(dev)
    {
        return Ok(located);
    }
    let refused =
        matches!(found, Err(SearchError::Format(Error::Unsupported(_) | Error::Corrupt(_))));
    let found = if refused && at.is_none() { other_backup(dev).map_or(found, Ok) } else { found };
    let found = found.map_err(|error| match error {
        SearchError::Format(error @ Error::NewfsUnfinished(_)) => {
            Stop::Refused(exit::UNFINISHED_NEWFS, error.to_string())
        }
        other => Stop::Refused(exit::SUPERBLOCK, other.to_string()),
    })?;
    let mut located = outvote(dev, found);
    restore_layout(dev, &mut located);
    correct_file_size(dev, &mut located);
    check_room(&located.found.geometry)?;
    Ok(located)
}

fn read(dev: &Arc<dyn BlockDevice>, offset: u64, len: usize) -> Result<Vec<u8>, DeviceError> {
    let mut buf = vec![0; len];
    dev.read_at(offset, &mut buf).map(|()| buf)
}

/// A sound backup at one of the usual places, for a standard superblock that alone says something impossible.
fn other_backup(dev: &Arc<dyn BlockDevice>) -> Option<Found> {
    let sound = |at: u64| {
        let found = sbsearch::at(|o, n| read(dev, o, n), at, Some(dev.len_bytes())).ok()?;
        let home = found.sb.standard_location();
        let backup = found.source == Source::Backup(at) && found.sb.hash_ok();
        let magic = read(dev, home, SBLOCKSIZE).is_ok_and(|b| magic_of(&b).is_some());
        let own = found.geometry.frag_to_byte(found.geometry.cgsblock(CgNo(0))) == at;
        (backup && magic && own).then_some(found)
    };
    USUAL_BACKUPS.into_iter().find_map(sound)
}

/// A volume that claims to be larger than its device, but whose first backup knows better.
fn other_size(dev: &Arc<dyn BlockDevice>) -> Option<Located> {
    let read = |offset, len| read(dev, offset, len);
    let mut found = sbsearch::find(read, None).ok()?;
    let at = found.geometry.frag_to_byte(found.geometry.cgsblock(CgNo(0)));
    let copy = Superblock::decode(&read(at, SBLOCKSIZE).ok()?, at).ok()?;
    if found.sb.old_layout || copy.differing_field(&found.sb).is_some() {
        return None;
    }
    let corrections = take_constants(&mut found.sb, &copy);
    let (geometry, _) = sbcheck::verdict_ignoring_hash(&found.sb, Some(dev.len_bytes())).ok()?;
    found.geometry = geometry;
    Some(Located { found, corrections })
}

/// The largest file size follows from the block size, on all volumes that have the 64-bit fields.
fn correct_file_size(dev: &Arc<dyn BlockDevice>, located: &mut Located) {
    let sb = &mut located.found.sb;
    let g = located.found.geometry;
    let right = sbcheck::max_file_size(g.bsize.into(), g.nindir.into());
    let modern = !sb.old_layout && (sb.format == Format::Ufs2 || sb.f.old_inodefmt >= 2);
    if !modern || sb.f.maxfilesize == right {
        return;
    }
    let found = std::mem::replace(&mut sb.f.maxfilesize, right).to_string();
    let correction = Correction { field: "maxfilesize", found, right: right.to_string() };
    if let Ok((geometry, _)) = sbcheck::verdict_ignoring_hash(sb, Some(dev.len_bytes())) {
        located.found.geometry = geometry;
        located.corrections.push(correction);
    }
}

/// Where all of several backups agree against a standard superblock without a check hash, they are right.
fn outvote(dev: &Arc<dyn BlockDevice>, mut found: Found) -> Located {
    let g = found.geometry;
    let hashed = found.sb.ckhashes().contains(CkHash::SUPERBLOCK);
    if hashed || found.source != Source::Primary || found.sb.old_layout {
        return Located { found, corrections: Vec::new() };
    }
    let mut sb = found.sb.clone();
    let corrections = match agreed_backup(dev, &g, &sb) {
        Some(copy) => take_constants(&mut sb, &copy),
        None => Vec::new(),
    };
    if !corrections.is_empty() {
        match sbcheck::verdict(&sb, Some(dev.len_bytes())) {
            Ok((geometry, _)) => (found.sb, found.geometry) = (sb, geometry),
            Err(_) => return Located { found, corrections: Vec::new() },
        }
    }
    Located { found, corrections }
}

/// One of several backups, if all agree.
fn agreed_backup(dev: &Arc<dyn BlockDevice>, g: &Geometry, sb: &Superblock) -> Option<Superblock> {
    let mut groups = vec![0, 1, g.ncg - 1];
    groups.retain(|&c| c < g.ncg);
    groups.dedup();
    let backup = |&c: &u32| {
        let at = g.frag_to_byte(g.cgsblock(CgNo(c)));
        let copy = Superblock::decode(&read(dev, at, SBLOCKSIZE).ok()?, at).ok()?;
        (copy.endian == sb.endian && copy.format == sb.format).then_some(copy)
    };
    let mut copies: Vec<Superblock> = groups.iter().map_while(backup).collect();
    let first = copies.first()?;
    let agree = |o: &Superblock| {
        o.old_layout == first.old_layout && take_constants(&mut o.clone(), first).is_empty()
    };
    let all = copies.len() == groups.len() && copies.len() > 1 && copies.iter().all(agree);
    all.then(|| copies.swap_remove(0))
}

/// `maxbsize` alone tells whether a UFS1 superblock has the 64-bit fields. One that by it has none, while all
/// backups do, has a wrong `maxbsize`.
fn restore_layout(dev: &Arc<dyn BlockDevice>, located: &mut Located) {
    let Found { sb, geometry: g, source, .. } = &located.found;
    if *source != Source::Primary || !sb.old_layout {
        return;
    }
    let Some(copy) = agreed_backup(dev, g, sb).filter(|copy| !copy.old_layout) else { return };
    let mut bytes = sb.raw().to_vec();
    let Some(field) = SbFields::FIELDS.iter().find(|f| f.name == "maxbsize") else { return };
    let found = field.value(&bytes, 0, sb.endian).to_string();
    field.set(&mut bytes, 0, sb.endian, copy.f.maxbsize.into());
    let Ok(mut sb) = Superblock::decode(&bytes, sb.location) else { return };
    let right = copy.f.maxbsize.to_string();
    let mut corrections = vec![Correction { field: "maxbsize", found, right }];
    corrections.append(&mut take_constants(&mut sb, &copy));
    if let Ok((geometry, _)) = sbcheck::verdict(&sb, Some(dev.len_bytes())) {
        (located.found.sb, located.found.geometry) = (sb, geometry);
        located.corrections = corrections;
    }
}

/// Every group has room for its metadata.
fn check_room(g: &Geometry) -> Res<()> {
    let first = if g.cgoffset > 0 { 0 } else { g.ncg.saturating_sub(1) };
    for c in first..g.ncg {
        let c = CgNo(c);
        let end = g.cgbase(c).plus(g.cg_frags(c).into());
        if g.cgdmin(c) > end {
            let why = format!("superblock: no room for the metadata of group {c}");
            return Err(Stop::Refused(exit::SUPERBLOCK, why));
        }
    }
    Ok(())
}

impl Checker<'_> {
    /// Reports what is wrong with the superblock.
    pub(super) fn check_superblock(
        &mut self,
        source: Source,
        warnings: &[Warning],
        corrections: &[Correction],
    ) -> Res<()> {
        self.enter(Phase::Setup)?;
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
        self.judge.ask(draft)?;
        self.sb_damaged = true;
        Ok(())
    }

    /// Fields with a safe substitute.
    fn check_fields(&mut self) -> Res<()> {
        if !(0..=1).contains(&self.sb.f.optim) {
            let draft = Draft::fatal(Id::SbField, "unknown optimisation: set to time");
            if self.judge.ask(draft.place("optim").before(self.sb.f.optim).after(0))? {
                self.sb.f.optim = 0;
            }
        }
        if !(0..=99).contains(&self.sb.f.minfree) {
            let draft = Draft::fatal(Id::SbField, "impossible minfree: set to the default");
            if self.judge.ask(draft.place("minfree").before(self.sb.f.minfree).after(8))? {
                self.sb.f.minfree = 8;
            }
        }
        let half = i64::from(self.g.fpg / 2);
        if !self.g.old_layout && !self.foreign() && !(0..=half).contains(&self.sb.f.metaspace) {
            let draft = Draft::fatal(Id::SbField, "impossible metaspace: set to none");
            if self.judge.ask(draft.place("metaspace").before(self.sb.f.metaspace).after(0))? {
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
            if self.judge.ask(draft.place(what))? {
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
        if self.judge.ask(draft.before(format!("{:#x}", self.sb.f.metackhash)).after(0))? {
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
        if self.judge.ask(Draft::fatal(Id::SbAlternate, message).place(format!("byte {at}")))? {
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
        if self.judge.ask(Draft::benign(Id::SbRecovery, message))? {
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
        if self.judge.ask(draft.before(self.sb.f.sujfree).after(0))? {
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
