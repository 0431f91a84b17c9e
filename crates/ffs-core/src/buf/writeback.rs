//! Writing buffers and flushing the device.
//!
//! Neighbouring blocks of file data are written together, as one *cluster*.

use super::hooks::{WriteResult, WriteStart};
use super::put_content::PutContent;
use super::written::{WriteOutcome, Written};
use super::{Buf, BufCache, BufData, BufKey, BufKind, BufRef, LOG};
use crate::counters::{add, bump};
use crate::error::{Error, Result};
use crate::sync::{MutexGuard, RwLockReadGuard};
use ffs_device::Durability;
use ffs_ondisk::{Cg, CgMut, FragNo};
use std::io::IoSlice;
use std::ops::{Range, RangeInclusive};
use std::sync::Weak;
use tracing::{debug, error, trace};

/// Most bytes in one device write.
const CLUSTER_BYTES: usize = 1 << 20;
/// Most blocks of metadata for one commit of records.
const BATCH: usize = 64;

/// Until when a write waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// Until the data are durable.
    Durable,
    /// Until the device has the data: a flush follows later.
    Accepted,
}

/// The bytes that a write sends to the device.
pub(super) enum WriteImage<'a> {
    /// File data in the buffer itself; the guard prevents changes until the write is done.
    Borrowed(RwLockReadGuard<'a, BufData>),
    /// A copy of metadata, made at `version`.
    Copied { bytes: Vec<u8>, addr: FragNo, version: u64, rolled_back: bool },
}

/// One buffer of a write in flight; dropping it lets other threads write the buffer.
pub(super) struct Member<'a> {
    pub(super) buf: &'a Buf,
    pub(super) image: WriteImage<'a>,
    pub(super) _io: MutexGuard<'a, ()>,
}

impl Member<'_> {
    fn bytes(&self) -> &[u8] {
        match &self.image {
            WriteImage::Borrowed(data) => &data.bytes,
            WriteImage::Copied { bytes, .. } => bytes,
        }
    }

    fn addr(&self) -> FragNo {
        match &self.image {
            WriteImage::Borrowed(data) => data.addr,
            WriteImage::Copied { addr, .. } => *addr,
        }
    }
}

impl BufCache {
    /// Writes `buf` now and waits until it is durable.
    ///
    /// # Errors
    /// The device's; the buffer stays dirty.
    pub(crate) fn bwrite(&self, buf: &BufRef) -> Result<()> {
        match self.write_one(buf, WaitFor::Durable)? {
            WriteOutcome::Complete | WriteOutcome::RolledBack => Ok(()),
            // Another thread wrote it, and may not have flushed yet.
            WriteOutcome::Clean | WriteOutcome::Held => self.flush_device(),
        }
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn flush_device(&self) -> Result<()> {
        if self.dev.durability() == Durability::OnFlush {
            bump(&self.counters.flushes);
            let began = self.hooks.flush_started();
            debug!(target: LOG, "flush");
            if let Err(e) = self.dev.flush() {
                error!(target: LOG, error = %e, "flush failed: earlier writes may be lost");
                // Earlier writes may be lost even if a later flush succeeds.
                self.set_needs_check();
                return Err(e.into());
            }
            self.hooks.flush_completed(began);
        }
        Ok(())
    }

    /// Writes the dirty buffers among `keys`, which a sequential writer has just finished, and
    /// makes them the first to be evicted: the next blocks of the stream then reuse memory that is
    /// in the processor's cache. A buffer that cannot be written stays dirty.
    pub(crate) fn write_behind(&self, keys: RangeInclusive<BufKey>) {
        let bufs = self.dirty_in_range(keys);
        let keys: Vec<BufKey> = bufs.iter().map(|b| b.key).collect();
        drop(self.write_bufs(bufs));
        let mut st = self.state.write();
        for key in keys {
            st.age(key);
        }
    }

    /// Writes those of `bufs` that are still dirty, in the order of their addresses.
    pub(crate) fn write_bufs(&self, bufs: Vec<BufRef>) -> Written {
        let addr = |buf: &BufRef| buf.read().addr.0;
        let mut order: Vec<(u64, BufRef)> = bufs.into_iter().map(|b| (addr(&b), b)).collect();
        order.sort_by_key(|(addr, b)| (*addr, b.key));
        let ranges = order.iter().filter(|(_, b)| b.kind != BufKind::CylinderGroup);
        let ranges = ranges.map(|(at, b)| self.frags(*at, b.read().bytes.len()));
        // All copies together cost two flushes. An error is reported by the write of its block.
        drop(self.before_write(ranges));
        let mut all = Written::default();
        let mut at = 0;
        while let Some((_, first)) = order.get(at) {
            if first.kind != BufKind::Data && self.hooks.has_records() {
                at += self.write_batch(&order, at, &mut all);
                continue;
            }
            let (done, outcome) = self.write_cluster(&order, at);
            let done = done.max(1);
            let members = order.get(at..at + done).unwrap_or(&[]).iter().map(|(_, b)| b);
            all.add(members, outcome);
            at += done;
        }
        all
    }

    /// Writes the buffer at `at`. If it has file data, writes with it the buffers after it that
    /// have file data, follow on the device, and are not locked. Returns how many buffers it
    /// handled.
    fn write_cluster(&self, order: &[(u64, BufRef)], at: usize) -> (usize, Result<WriteOutcome>) {
        let Some((_, first)) = order.get(at) else { return (1, Ok(WriteOutcome::Clean)) };
        if first.kind != BufKind::Data {
            return (1, self.write_one(first, WaitFor::Accepted));
        }
        let io = first.io.lock();
        let data = first.data.read();
        if !data.valid || !first.is_dirty() {
            return (1, Ok(WriteOutcome::Clean));
        }
        if self.is_held(first) {
            return (1, Ok(WriteOutcome::Held));
        }
        let lead = Member { buf: first, image: WriteImage::Borrowed(data), _io: io };
        let start = self.g.frag_to_byte(lead.addr());
        let mut bytes = lead.bytes().len();
        let mut members = vec![lead];
        for (_, buf) in order.iter().skip(at + 1) {
            // Only the first lock may be waited for: another thread may hold one of the others and
            // wait for the first.
            let Some(next) = try_member(buf).filter(|_| buf.is_dirty()) else { break };
            let addr = self.g.frag_to_byte(next.addr());
            if addr != start + bytes as u64 || bytes + next.bytes().len() > CLUSTER_BYTES {
                break;
            }
            if self.is_held(buf) {
                break;
            }
            bytes += next.bytes().len();
            members.push(next);
        }
        (members.len(), self.write_members(members, WaitFor::Accepted, None))
    }

    /// Writes the buffer at `at`, which has metadata, and some of those after it: first all copies
    /// are made, so that one commit of records is enough for them. Adds their outcomes to `all`.
    /// Returns how many buffers it handled.
    fn write_batch(&self, order: &[(u64, BufRef)], at: usize, all: &mut Written) -> usize {
        let rest = order.get(at..).unwrap_or(&[]);
        let batch = rest.iter().map(|(_, buf)| buf).take(BATCH);
        // The lock for copies of snapshots comes between those of groups and of others.
        let is_group = |buf: &Buf| buf.kind == BufKind::CylinderGroup;
        let first = rest.first().is_some_and(|(_, buf)| is_group(buf));
        let batch = batch.take_while(|b| b.kind != BufKind::Data && is_group(b) == first);
        let (mut members, mut handled) = (Vec::new(), 0);
        for (k, buf) in batch.enumerate() {
            // Only the first lock may be waited for, as in a cluster.
            let (io, data) = match k {
                0 => (Some(buf.io.lock()), Some(buf.data.read())),
                _ => (buf.io.try_lock(), buf.data.try_read()),
            };
            let (Some(io), Some(data)) = (io, data) else { break };
            handled += 1;
            if data.valid && buf.is_dirty() {
                match self.copy(buf, data) {
                    Some(image) => members.push((buf, Member { buf, image, _io: io })),
                    None => all.add(std::iter::once(buf), Ok(WriteOutcome::Held)),
                }
            }
        }
        for (buf, member) in members {
            let outcome = self.write_members(vec![member], WaitFor::Accepted, None);
            all.add(std::iter::once(buf), outcome);
        }
        handled.max(1)
    }

    /// Whether the ordering mode postpones the write of a buffer with file data. If not, the write
    /// must follow.
    pub(super) fn is_held(&self, buf: &Buf) -> bool {
        self.hooks.start_write(buf.key, buf.kind, None) == WriteStart::Held
    }

    fn write_one(&self, buf: &Buf, wait: WaitFor) -> Result<WriteOutcome> {
        let io = buf.io.lock();
        let data = buf.data.read();
        if !data.valid || !buf.is_dirty() {
            return Ok(WriteOutcome::Clean);
        }
        let image = if buf.kind == BufKind::Data {
            (!self.is_held(buf)).then_some(WriteImage::Borrowed(data))
        } else {
            self.copy(buf, data)
        };
        let Some(image) = image else { return Ok(WriteOutcome::Held) };
        self.write_members(vec![Member { buf, image, _io: io }], wait, None)
    }

    /// Makes the write image of a block of metadata: a copy with its check hash, in which the
    /// ordering mode rolled back the changes that must not be on disk yet. `None` if the write is
    /// held.
    fn copy<'a>(&self, buf: &Buf, data: RwLockReadGuard<'_, BufData>) -> Option<WriteImage<'a>> {
        let (addr, version) = (data.addr, data.version);
        let mut bytes = data.bytes.clone();
        // The buffer is still locked: each change that is rolled back must be in the copy.
        let start = self.hooks.start_write(buf.key, buf.kind, Some(&mut bytes));
        drop(data);
        if start == WriteStart::Held {
            return None;
        }
        bump(&self.counters.blocks_copied);
        if buf.kind == BufKind::CylinderGroup {
            debug_assert_eq!(Cg::new(&self.g, &bytes).header().magic, ffs_ondisk::cg::CG_MAGIC);
            CgMut::new(&self.g, &mut bytes).seal(self.clock.now().secs);
        }
        let rolled_back = start == WriteStart::RolledBack;
        Some(WriteImage::Copied { bytes, addr, version, rolled_back })
    }

    /// Writes `members`, which are adjacent on the device, and notifies the ordering mode. With
    /// `content` that is written.
    pub(super) fn write_members(
        &self,
        members: Vec<Member<'_>>,
        wait: WaitFor,
        content: Option<&mut PutContent<'_>>,
    ) -> Result<WriteOutcome> {
        let start = members.first().map_or(0, |first| self.g.frag_to_byte(first.addr()));
        let slices: Vec<IoSlice<'_>> = members.iter().map(|m| IoSlice::new(m.bytes())).collect();
        let total: usize = slices.iter().map(|s| s.len()).sum();
        let recorded = match members.iter().any(|m| self.needs_records(m)) {
            true => self.hooks.commit_records(),
            false => Ok(()),
        };
        let result = recorded.and_then(|()| self.keep_old(&members, total)).and_then(|()| {
            if let Some(content) = content {
                return content.put(&*self.dev, start, total);
            }
            Ok(match (wait, slices.as_slice()) {
                (WaitFor::Durable, all) => self.dev.write_durable_vectored_at(start, all),
                (WaitFor::Accepted, [one]) => self.dev.write_at(start, one),
                (WaitFor::Accepted, many) => self.dev.write_vectored_at(start, many),
            }?)
        });
        drop(slices);
        log_write(&members, total, wait, &result);
        // Without space for a copy the block has its old content, and is written later.
        if !matches!(result, Ok(()) | Err(Error::NoSpace)) {
            self.set_needs_check();
        }
        let counter = match wait {
            WaitFor::Durable => &self.counters.writes_sync,
            WaitFor::Accepted => &self.counters.writes_delayed,
        };
        add(counter, members.len() as u64);
        add(&self.counters.bytes_written, total as u64);
        let durable = wait == WaitFor::Durable || self.dev.durability() == Durability::OnCompletion;
        let hook_result = match (&result, durable) {
            (Err(_), _) => WriteResult::Failed,
            (Ok(()), false) => WriteResult::Unflushed,
            (Ok(()), true) => WriteResult::Durable,
        };
        let mut outcome = WriteOutcome::Complete;
        for m in members {
            if m.buf.kind == BufKind::Data {
                bump(&self.counters.writes_data);
            }
            let again = self.hooks.write_completed(m.buf.key, hook_result);
            let rolled_back = matches!(m.image, WriteImage::Copied { rolled_back: true, .. });
            if result.is_ok() && (again || rolled_back) {
                bump(&self.counters.writes_rolled_back);
                self.state.write().dirty.restart_age(m.buf);
                outcome = WriteOutcome::RolledBack;
            } else if result.is_ok() {
                self.clean_if_unchanged(m);
            }
        }
        result?;
        Ok(outcome)
    }

    /// Whether records must be durable before `m` is written.
    fn needs_records(&self, m: &Member<'_>) -> bool {
        let frags = (m.bytes().len() as u64).div_ceil(self.g.fsize.into());
        match m.image {
            WriteImage::Copied { .. } => true,
            WriteImage::Borrowed(_) => {
                self.hooks.data_needs_records(m.addr().0..m.addr().0 + frags)
            }
        }
    }

    /// Lets snapshots copy the blocks that a write of `members`, `bytes` long, will overwrite.
    fn keep_old(&self, members: &[Member<'_>], bytes: usize) -> Result<()> {
        match members.first() {
            Some(first) if first.buf.kind != BufKind::CylinderGroup => {
                self.before_write(std::iter::once(self.frags(first.addr().0, bytes)))
            }
            _ => Ok(()),
        }
    }

    /// The fragments of `bytes` bytes at fragment `at`.
    fn frags(&self, at: u64, bytes: usize) -> Range<u64> {
        at..at.saturating_add((bytes as u64).div_ceil(self.g.fsize.into()))
    }

    /// See [`CopyOnWrite::before_write`].
    fn before_write(&self, runs: impl Iterator<Item = Range<u64>>) -> Result<()> {
        match self.copy_on_write.get().and_then(Weak::upgrade) {
            Some(hook) => hook.before_write(&mut runs.fuse()),
            None => Ok(()),
        }
    }

    /// Changes the content that the block of `buf` has on the device, and not the buffer. `patch`
    /// returns whether it changed anything. No write of the buffer is in flight meanwhile.
    ///
    /// # Errors
    /// The device's, and that of `patch`.
    pub(crate) fn patch_device(
        &self,
        buf: &BufRef,
        patch: impl FnOnce(&mut [u8]) -> Result<bool>,
    ) -> Result<()> {
        let _io = buf.io.lock();
        let (addr, len) = {
            let data = buf.read();
            (data.addr, data.bytes.len())
        };
        let mut bytes = vec![0; len];
        self.dev.read_at(self.g.frag_to_byte(addr), &mut bytes)?;
        if patch(&mut bytes)? {
            self.dev.write_at(self.g.frag_to_byte(addr), &bytes)?;
        }
        Ok(())
    }

    /// Marks the buffer of `m` clean unless it changed since its write image was made. The write
    /// image had all changes and is on the device.
    fn clean_if_unchanged(&self, m: Member<'_>) {
        let version = match m.image {
            WriteImage::Borrowed(data) => {
                let version = data.version;
                drop(data);
                version
            }
            WriteImage::Copied { version, .. } => version,
        };
        let mut st = self.state.write();
        // The content stays locked meanwhile: a thread that changes the buffer later finds it clean
        // when it marks it dirty.
        match m.buf.data.try_read() {
            Some(data) if data.version == version => st.set_clean(m.buf),
            _ => st.dirty.restart_age(m.buf),
        }
    }

    /// Writes all dirty buffers once, without making them durable.
    #[cfg(test)]
    pub(crate) fn write_delayed(&self) -> Result<()> {
        self.write_bufs(self.dirty_bufs()).result()
    }

    /// Writes all dirty buffers once and makes them durable.
    #[cfg(test)]
    pub(crate) fn flush_all(&self) -> Result<()> {
        let written = self.write_delayed();
        let flushed = self.flush_device();
        written.and(flushed)
    }
}

/// Logs a write of `bytes` bytes: `members`, which are adjacent on the device.
fn log_write(members: &[Member<'_>], bytes: usize, wait: WaitFor, result: &Result<()>) {
    let Some(first) = members.first() else { return };
    let (key, kind, fragment) = (first.buf.key, first.buf.kind, first.addr().0);
    let blocks = members.len();
    match result {
        Ok(()) => {
            let durable = wait == WaitFor::Durable;
            let rolled_back = matches!(first.image, WriteImage::Copied { rolled_back: true, .. });
            trace!(
                target: LOG,
                %key, ?kind, fragment, blocks, bytes, durable, rolled_back, "write"
            );
        }
        Err(e) => {
            error!(target: LOG, %key, ?kind, fragment, blocks, bytes, error = %e, "write failed");
        }
    }
}

/// Locks a buffer with file data for writing, unless it is locked.
fn try_member(buf: &Buf) -> Option<Member<'_>> {
    if buf.kind != BufKind::Data {
        return None;
    }
    let io = buf.io.try_lock()?;
    let data = buf.data.try_read().filter(|d| d.valid)?;
    Some(Member { buf, image: WriteImage::Borrowed(data), _io: io })
}
