//! The quota files: their usage is that of the inodes.
//!
//! **Purpose.** A crash leaves old counts in `quota.user` and `quota.group`, because the records
//! are written some time after the files. FreeBSD leaves this to quotacheck.
//!
//! **Invariants.**
//! 1. Only usage is corrected, in records that have a place in the file. Limits and times stay, and
//!    no block is allocated: the missing records are quotacheck's.
//! 2. A file that is no quota file with 64-bit records is not judged: to fsck it is a file.
//! 3. This runs after phase 4, when owners and block counts are right, and before phase 5, which
//!    preserves the blocks of snapshots that repairs change.
//!
//! References: spec/on-disk-format.md §15.

use std::collections::BTreeMap;

use ffs_ondisk::quota::{self, Dqblk, ENDIAN, QuotaHeader, QuotaType, RecordFormat, counted_ids};
use ffs_ondisk::{CgNo, Dinode, FileType, FragNo, Ino, snapshot};

use super::buffered::Class;
use super::checker::Checker;
use super::inoinfo::State;
use super::report::{Id, Phase};
use super::resolve::{Draft, Res};
use super::walk::{Action, BlockPointer, Visitor};
use crate::counted;
use crate::quotacheck::Usage;

/// The usage of users and groups, by [`QuotaType::index`].
type UsageByOwner = [BTreeMap<u32, Usage>; 2];

/// Collects the blocks of a quota file, up to the last record.
#[derive(Default)]
struct Blocks(Vec<(u64, FragNo, u32)>);

impl Visitor for Blocks {
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        let end = quota::offset(quota::MAX_ID).unwrap_or(0);
        let beyond = !run.ext && run.lbn.saturating_mul(ck.g.bsize.into()) > end;
        // Without repairs, pointers may share blocks.
        if beyond || self.0.len() as u64 > ck.g.size / u64::from(ck.g.frag) {
            return Ok(Action::Stop);
        }
        if !run.ext && run.level == 0 {
            self.0.push((run.lbn, run.frag(), run.frags));
        }
        Ok(Action::Keep)
    }
}

impl Checker<'_> {
    /// Checks the quota files of the root directory, if it has any.
    pub(super) fn check_quotas(&mut self) -> Res<()> {
        let mut files = Vec::new();
        for kind in QuotaType::ALL {
            let entry = self.lookup(Ino::ROOT, kind.file_name().as_bytes())?;
            let ino = entry.map(|e| Ino(e.ino)).filter(|ino| ino.0 < self.g.inodes());
            let ino = ino.filter(|&ino| self.inodes.get(ino).state == State::Used);
            files.extend(ino.map(|ino| (kind, ino)));
        }
        if files.is_empty() {
            return Ok(());
        }
        self.begin_phase(Phase::Quotas, self.g.ncg.into())?;
        let exempt: Vec<Ino> = files.iter().map(|(_, ino)| *ino).collect();
        let usage = self.count_usage(&exempt)?;
        for (kind, ino) in files {
            self.check_quota_file(kind, ino, &usage[kind.index()])?;
        }
        self.end_phase()
    }

    fn count_usage(&mut self, exempt: &[Ino]) -> Res<UsageByOwner> {
        let g = self.g;
        let mut usage = UsageByOwner::default();
        for c in (0..g.ncg).map(CgNo) {
            self.check_interrupt()?;
            let scan = self.groups[c.0 as usize].scan.min(g.ipg);
            for first in (0..scan).step_by(g.inopb as usize) {
                let ino = Ino(c.0 * g.ipg + first);
                let block = self.disk.read(g.ino_to_fsba(ino), g.bsize as usize)?;
                let slots = block.chunks_exact(g.format.dinode_size());
                for (n, raw) in (ino.0..).zip(slots) {
                    let d = Dinode::decode(&g, raw);
                    let is_file = d.mode != 0 && Ino(n) >= Ino::ROOT;
                    if is_file && !exempt.contains(&Ino(n)) && !snapshot::is_snapshot(&d) {
                        add(&mut usage, &d);
                    }
                }
            }
            self.advance(1);
        }
        Ok(usage)
    }

    fn check_quota_file(
        &mut self,
        kind: QuotaType,
        ino: Ino,
        usage: &BTreeMap<u32, Usage>,
    ) -> Res<()> {
        let mut node = self.read_inode(ino)?;
        if node.d.file_type() != Some(FileType::Regular) {
            return Ok(());
        }
        let mut blocks = Blocks::default();
        self.walk(&mut node, &mut blocks)?;
        let Some(&(0, first, _)) = blocks.0.first() else { return Ok(()) };
        let start = self.disk.read(first, self.g.fsize as usize)?;
        let start = &start[..QuotaHeader::SIZE.min(start.len())];
        if quota::examine(ino, node.d.size, start).ok() != Some(RecordFormat::Records64) {
            return Ok(());
        }
        let file = File { blocks: blocks.0, size: node.d.size };
        let wrong = self.compare(&file, usage, Repair::No)?;
        if wrong == 0 {
            return Ok(());
        }
        let ids = counted(wrong, "id");
        let message = format!("{}: wrong usage of {ids}: correct", kind.file_name());
        if self.should_fix(Draft::benign(Id::QuotaUsage, message).ino(ino))? {
            self.compare(&file, usage, Repair::Yes)?;
        }
        Ok(())
    }

    /// Compares the records of a quota file with `usage`; returns the number of wrong ones.
    fn compare(&mut self, file: &File, usage: &BTreeMap<u32, Usage>, repair: Repair) -> Res<u64> {
        let mut wrong = 0;
        for &(lbn, at, frags) in &file.blocks {
            self.check_interrupt()?;
            let base = lbn * u64::from(self.g.bsize);
            let bytes = self.disk.read(at, (frags * self.g.fsize) as usize)?;
            for (n, raw) in bytes.chunks_exact(Dqblk::SIZE).enumerate() {
                let off = n * Dqblk::SIZE;
                let place = base + off as u64;
                let id = quota::id_at(place).filter(|_| place + raw.len() as u64 <= file.size);
                let Some(id) = id else { continue };
                let mut record = Dqblk::decode(raw, ENDIAN);
                let right = usage.get(&id).copied().unwrap_or_default();
                let found = Usage { blocks: record.curblocks, inodes: record.curinodes };
                if found == right {
                    continue;
                }
                wrong += 1;
                if repair == Repair::Yes {
                    (record.curblocks, record.curinodes) = (right.blocks, right.inodes);
                    self.disk.patch(at, off, &record.to_bytes(), Class::Data)?;
                }
            }
        }
        Ok(wrong)
    }
}

/// The blocks of a quota file: logical block, address, fragments.
struct File {
    blocks: Vec<(u64, FragNo, u32)>,
    size: u64,
}

/// Whether wrong records are corrected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repair {
    No,
    Yes,
}

fn add(usage: &mut UsageByOwner, d: &Dinode) {
    for (ids, id) in usage.iter_mut().zip(counted_ids(d.uid, d.gid)) {
        if let Some(id) = id {
            let of = ids.entry(id).or_default();
            of.inodes += 1;
            of.blocks = of.blocks.saturating_add(d.blocks);
        }
    }
}
