//! Writing buffers: images, clusters of neighbouring blocks, flushes.

use super::epoch::Fate;
use super::{Buf, BufCache, BufKey, BufKind, BufRef, Image, Written};
use crate::counters::{add, bump};
use crate::error::Result;
use crate::sync::{MutexGuard, RwLockReadGuard};
use ffs_device::Durability;
use ffs_ondisk::{Cg, CgMut};
use std::io::IoSlice;
use std::ops::RangeInclusive;

/// Most bytes in one device write.
const CLUSTER_BYTES: usize = 1 << 20;

/// Whether a write is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Until it is durable.
    Durable,
    /// Not: a flush follows some time.
    Delayed,
}

/// What a buffer's write was made from.
enum Bytes<'a> {
    /// File data, borrowed: nobody may change it until the write is done.
    Borrowed(RwLockReadGuard<'a, super::BufData>),
    /// A copy.
    Copied { bytes: Vec<u8>, version: u64, undone: bool },
}

/// One buffer of a write under way; dropping it lets others write the buffer.
struct Member<'a> {
    buf: &'a Buf,
    image: Bytes<'a>,
    _io: MutexGuard<'a, ()>,
}

impl Member<'_> {
    fn bytes(&self) -> &[u8] {
        match &self.image {
            Bytes::Borrowed(g) => &g.bytes,
            Bytes::Copied { bytes, .. } => bytes,
        }
    }
}

impl BufCache {
    /// Writes `buf` now and waits until it is durable.
    ///
    /// # Errors
    /// The device's; the buffer stays dirty.
    pub(crate) fn bwrite(&self, buf: &BufRef) -> Result<()> {
        match self.write_one(buf, How::Durable)? {
            Fate::Whole | Fate::Undone => Ok(()),
            // Another thread wrote it, and may not have flushed yet.
            Fate::Clean | Fate::Held => self.flush_device(),
        }
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn flush_device(&self) -> Result<()> {
        if self.dev.durability() == Durability::OnFlush {
            bump(&self.counters.flushes);
            let began = self.hooks.flushing();
            if let Err(e) = self.dev.flush() {
                // What was written before may be lost, whatever a later flush says.
                self.note_trouble();
                return Err(e.into());
            }
            self.hooks.flushed(began);
        }
        Ok(())
    }

    /// Writes the dirty buffers among `keys`, which a stream has just left behind: they are the
    /// first to make room, so that what the stream writes next finds memory in the CPU's cache.
    /// What cannot be written stays dirty.
    pub(crate) fn write_behind(&self, keys: RangeInclusive<BufKey>) {
        let some = self.dirty_among(keys);
        let keys: Vec<BufKey> = some.iter().map(|b| b.key).collect();
        drop(self.write_bufs(some));
        let mut st = self.state.lock();
        for key in keys {
            st.age(key);
        }
    }

    /// Writes the buffers that are dirty still, in the order in which they lie on the device.
    pub(crate) fn write_bufs(&self, bufs: Vec<BufRef>) -> Written {
        let mut order: Vec<(u64, BufRef)> = bufs.into_iter().map(|b| (addr_of(&b), b)).collect();
        order.sort_by_key(|(addr, b)| (*addr, b.key));
        let mut all = Written::default();
        let mut at = 0;
        while at < order.len() {
            let (done, result) = self.write_cluster(&order, at);
            let done = done.max(1);
            let members = order.get(at..at + done).unwrap_or(&[]).iter().map(|(_, b)| b);
            all.note(members, result);
            at += done;
        }
        all
    }

    /// Writes the buffer at `at` and as many file-data neighbours on disk as are free to be written.
    fn write_cluster(&self, order: &[(u64, BufRef)], at: usize) -> (usize, Result<Fate>) {
        let Some((_, first)) = order.get(at) else { return (1, Ok(Fate::Clean)) };
        if first.kind != BufKind::Data {
            return (1, self.write_one(first, How::Delayed));
        }
        let io = first.io.lock();
        let data = first.data.read();
        if !data.valid || !self.is_dirty(first) {
            return (1, Ok(Fate::Clean));
        }
        if self.hooks.make_image(first.key, first.kind, None) == Image::Held {
            return (1, Ok(Fate::Held));
        }
        let lead = Member { buf: first, image: Bytes::Borrowed(data), _io: io };
        let start = self.g.frag_to_byte(self.addr_of(&lead));
        let mut bytes = lead.bytes().len();
        let mut members = vec![lead];
        for (_, buf) in order.iter().skip(at + 1) {
            // Only the first lock may be waited for: another thread may hold one of the rest and
            // want the first.
            let Some(next) = try_member(buf).filter(|_| self.is_dirty(buf)) else { break };
            let addr = self.g.frag_to_byte(self.addr_of(&next));
            if addr != start + bytes as u64 || bytes + next.bytes().len() > CLUSTER_BYTES {
                break;
            }
            if self.hooks.make_image(buf.key, buf.kind, None) == Image::Held {
                break;
            }
            bytes += next.bytes().len();
            members.push(next);
        }
        let count = members.len();
        (count, self.write_members(start, members, How::Delayed))
    }

    fn addr_of(&self, m: &Member<'_>) -> ffs_ondisk::FragNo {
        match &m.image {
            Bytes::Borrowed(g) => g.addr,
            Bytes::Copied { .. } => m.buf.read().addr,
        }
    }

    fn write_one(&self, buf: &Buf, how: How) -> Result<Fate> {
        let io = buf.io.lock();
        let data = buf.data.read();
        if !data.valid || !self.is_dirty(buf) {
            return Ok(Fate::Clean);
        }
        let start = self.g.frag_to_byte(data.addr);
        let image = if buf.kind == BufKind::Data {
            let image = self.hooks.make_image(buf.key, buf.kind, None);
            (image != Image::Held).then_some(Bytes::Borrowed(data))
        } else {
            self.copy_image(buf, data)
        };
        let Some(image) = image else { return Ok(Fate::Held) };
        self.write_members(start, vec![Member { buf, image, _io: io }], how)
    }

    /// Copies, undoes and seals; `None` if the block must not be written now.
    fn copy_image<'a>(
        &self,
        buf: &Buf,
        data: RwLockReadGuard<'_, super::BufData>,
    ) -> Option<Bytes<'a>> {
        let version = data.version;
        let mut bytes = data.bytes.clone();
        // With the buffer still locked: what the policy takes back must be in the copy.
        let image = self.hooks.make_image(buf.key, buf.kind, Some(&mut bytes));
        drop(data);
        if image == Image::Held {
            return None;
        }
        bump(&self.counters.blocks_copied);
        let undone = image == Image::Undone;
        if buf.kind == BufKind::CylinderGroup {
            debug_assert_eq!(Cg::new(&self.g, &bytes).header().magic, ffs_ondisk::cg::CG_MAGIC);
            CgMut::new(&self.g, &mut bytes).seal(self.clock.now().secs);
        }
        Some(Bytes::Copied { bytes, version, undone })
    }

    fn write_members(&self, start: u64, members: Vec<Member<'_>>, how: How) -> Result<Fate> {
        let slices: Vec<IoSlice<'_>> = members.iter().map(|m| IoSlice::new(m.bytes())).collect();
        let total: usize = slices.iter().map(|s| s.len()).sum();
        let result = match (how, slices.as_slice()) {
            (How::Durable, all) => self.dev.write_durable_vectored_at(start, all),
            (How::Delayed, [one]) => self.dev.write_at(start, one),
            (How::Delayed, many) => self.dev.write_vectored_at(start, many),
        };
        drop(slices);
        if result.is_err() {
            self.note_trouble();
        }
        let counter = match how {
            How::Durable => &self.counters.writes_sync,
            How::Delayed => &self.counters.writes_delayed,
        };
        add(counter, members.len() as u64);
        add(&self.counters.bytes_written, total as u64);
        let durable = how == How::Durable || self.dev.durability() == Durability::OnCompletion;
        let mut fate = Fate::Whole;
        for m in members {
            if m.buf.kind == BufKind::Data {
                bump(&self.counters.writes_data);
            }
            let again = self.hooks.written(m.buf.key, result.is_ok(), durable);
            let undone = matches!(m.image, Bytes::Copied { undone: true, .. });
            if result.is_ok() && (again || undone) {
                bump(&self.counters.writes_undone);
                self.state.lock().restart_age(m.buf);
                fate = Fate::Undone;
            } else if result.is_ok() {
                self.clean_if_unchanged(m);
            }
        }
        result?;
        Ok(fate)
    }

    /// The image of `m`, with all changes, is on the device: the buffer is clean unless it changed
    /// meanwhile.
    fn clean_if_unchanged(&self, m: Member<'_>) {
        let version = match m.image {
            Bytes::Borrowed(g) => {
                let v = g.version;
                drop(g);
                v
            }
            Bytes::Copied { version, .. } => version,
        };
        let mut st = self.state.lock();
        // Under the cache's lock, so that a change after the test marks it dirty again after us.
        let unchanged = m.buf.data.try_read().is_some_and(|d| d.version == version);
        if unchanged {
            st.set_clean(m.buf);
        } else {
            st.restart_age(m.buf);
        }
    }
}

fn addr_of(buf: &Buf) -> u64 {
    buf.read().addr.0
}

fn try_member(buf: &Buf) -> Option<Member<'_>> {
    if buf.kind != BufKind::Data {
        return None;
    }
    let io = buf.io.try_lock()?;
    let data = buf.data.try_read().filter(|d| d.valid)?;
    Some(Member { buf, image: Bytes::Borrowed(data), _io: io })
}
