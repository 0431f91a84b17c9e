//! The limits and the usage of one id: what is admitted, and when a grace period begins.
//!
//! Reference: `spec/on-disk-format.md` §15.2.

use super::{Amount, Grace};
use ffs_ondisk::quota::Dqblk;

/// A record in memory (FreeBSD's `struct dquot`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dquot {
    record: Dqblk,
    /// Of id 0 the ends of the grace periods of blocks and inodes. The times of its record are the
    /// lengths of all grace periods, so its own ends are in memory only.
    ends: Option<[i64; 2]>,
    /// The quota file has older values.
    dirty: bool,
}

/// One of the two resources of a record.
#[derive(Clone, Copy)]
enum Resource {
    Blocks,
    Inodes,
}

/// Limits and usage of one resource.
#[derive(Clone, Copy)]
struct Meter {
    hard: u64,
    soft: u64,
    used: u64,
    /// The end of the grace period.
    expires: i64,
}

impl Meter {
    /// Whether `more` may be added at time `now` (`chkdqchg`, `chkiqchg`).
    fn admits(self, more: u64, now: i64) -> bool {
        let total = self.used.saturating_add(more);
        let over_hard = self.hard > 0 && total >= self.hard;
        let expired = self.is_over(self.used) && now > self.expires;
        more == 0 || !(over_hard || expired)
    }

    /// Whether `used` is at or above the soft limit.
    fn is_over(self, used: u64) -> bool {
        self.soft > 0 && used >= self.soft
    }

    /// With `used` instead of its usage. Crossing the soft limit begins the grace period.
    fn with_usage(self, used: u64, end_of_grace: i64) -> Meter {
        let crossed = self.is_over(used) && !self.is_over(self.used);
        Meter { used, expires: if crossed { end_of_grace } else { self.expires }, ..self }
    }
}

impl Dquot {
    /// The record of an id, as the quota file has it.
    pub(super) fn of(id: u32, record: Dqblk) -> Dquot {
        Dquot { record, ends: (id == 0).then_some([0; 2]), dirty: false }
    }

    /// Sets the usage to the one that was counted. The end of a grace period that the record does
    /// not have is computed from `now`.
    pub(super) fn recount(&mut self, counted: Amount, grace: Grace, now: i64) {
        let mut dq = self.clone();
        dq.set_usage(counted, grace, now);
        for (resource, grace) in
            [(Resource::Blocks, grace.blocks), (Resource::Inodes, grace.inodes)]
        {
            let m = dq.meter(resource);
            if m.is_over(m.used) && m.expires == 0 {
                dq.set_meter(resource, Meter { expires: now.saturating_add(grace), ..m });
            }
        }
        dq.dirty = self.dirty || dq.record != self.record;
        *self = dq;
    }

    pub(super) fn record(&self) -> &Dqblk {
        &self.record
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(super) fn set_dirty(&mut self, dirty: bool) {
        self.dirty = dirty;
    }

    /// Whether the id has neither limits nor usage, nor a grace period of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.record == Dqblk::default()
    }

    /// Whether `more` may be added at time `now`.
    pub(super) fn admits(&self, more: Amount, now: i64) -> bool {
        self.meter(Resource::Blocks).admits(more.blocks, now)
            && self.meter(Resource::Inodes).admits(more.inodes, now)
    }

    /// Adds `more`, without regard to the limits.
    pub(super) fn add(&mut self, more: Amount, grace: Grace, now: i64) {
        let used = self.usage();
        let blocks = used.blocks.saturating_add(more.blocks);
        let inodes = used.inodes.saturating_add(more.inodes);
        self.set_usage(Amount { blocks, inodes }, grace, now);
    }

    /// Subtracts `less`. The usage does not become negative.
    pub(super) fn subtract(&mut self, less: Amount) {
        self.record.curblocks = self.record.curblocks.saturating_sub(less.blocks);
        self.record.curinodes = self.record.curinodes.saturating_sub(less.inodes);
        self.dirty = true;
    }

    fn usage(&self) -> Amount {
        Amount { blocks: self.record.curblocks, inodes: self.record.curinodes }
    }

    fn set_usage(&mut self, to: Amount, grace: Grace, now: i64) {
        let end = |seconds: i64| now.saturating_add(seconds);
        let blocks = self.meter(Resource::Blocks).with_usage(to.blocks, end(grace.blocks));
        let inodes = self.meter(Resource::Inodes).with_usage(to.inodes, end(grace.inodes));
        self.set_meter(Resource::Blocks, blocks);
        self.set_meter(Resource::Inodes, inodes);
        self.dirty = true;
    }

    /// Sets the limits of `new`, and nothing else of it. A usage that is above a soft limit only
    /// now begins the grace period (`setquota`).
    pub(super) fn set_limits(&mut self, new: &Dqblk, grace: Grace, now: i64) {
        let all = [
            (Resource::Blocks, new.bhardlimit, new.bsoftlimit, grace.blocks),
            (Resource::Inodes, new.ihardlimit, new.isoftlimit, grace.inodes),
        ];
        for (resource, hard, soft, grace) in all {
            let old = self.meter(resource);
            let mut m = Meter { hard, soft, ..old };
            if m.is_over(m.used) && !old.is_over(old.used) {
                m.expires = now.saturating_add(grace);
            }
            self.set_meter(resource, m);
        }
        self.dirty = true;
    }

    /// Sets the lengths of the grace periods, in record 0.
    pub(super) fn set_grace(&mut self, grace: Grace) {
        (self.record.btime, self.record.itime) = (grace.blocks, grace.inodes);
        self.dirty = true;
    }

    fn meter(&self, resource: Resource) -> Meter {
        let r = &self.record;
        let (hard, soft, used, expires) = match resource {
            Resource::Blocks => (r.bhardlimit, r.bsoftlimit, r.curblocks, r.btime),
            Resource::Inodes => (r.ihardlimit, r.isoftlimit, r.curinodes, r.itime),
        };
        let expires = self.ends.map_or(expires, |ends| ends[resource as usize]);
        Meter { hard, soft, used, expires }
    }

    fn set_meter(&mut self, resource: Resource, m: Meter) {
        let r = &mut self.record;
        let expires = match resource {
            Resource::Blocks => {
                (r.bhardlimit, r.bsoftlimit, r.curblocks) = (m.hard, m.soft, m.used);
                &mut r.btime
            }
            Resource::Inodes => {
                (r.ihardlimit, r.isoftlimit, r.curinodes) = (m.hard, m.soft, m.used);
                &mut r.itime
            }
        };
        match &mut self.ends {
            Some(ends) => ends[resource as usize] = m.expires,
            None => *expires = m.expires,
        }
    }
}
