//! `fsync`: make the content, the inode and the path of a file durable, and older changes of names.
//!
//! Programs that are correct on a journaling file system rely on an fsync to make every older
//! change of names durable, as the commit of a journal does. This fsync does so, too, except with
//! the mount option `fsync=file`. Threads that call fsync at the same time share passes and
//! flushes: one of them leads, the others wait.
//!
//! # Invariants
//! 1. A buffer whose write fails stays dirty. A later fsync writes it again and fails again, until
//!    the data is on the device. No error is reported only once.
//! 2. Writes that a request issued before it joined the others are flushed by a flush that begins
//!    after it joined.
//! 3. While a request is open, a thread leads or a thread that waits is about to lead.
//!
//! Reference: `spec/soft-updates.md` §8.

use super::Syncer;
use crate::buf::{BufKey, BufRef};
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::ordering::{Event, InodeChange, OlderNames, Readiness, SyncPoint, SyncTarget};
use crate::sync::{Condvar, Mutex, pause};
use crate::tunables::FsyncScope;
use crate::types::SyncScope;
use ffs_ondisk::Ino;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most passes in a row without a change, about a millisecond each. A name may wait for a change
/// that an operation of another thread has reported but not yet made in a buffer.
const IDLE: u32 = 5000;
/// Most passes that write. A path of any depth becomes durable within a few passes.
const PASSES: u32 = 1000;

/// Whether to write buffers whose images would show no new change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Write,
    Skip,
}

/// The buffers that an fsync has still to write.
#[derive(Debug)]
struct Unsynced {
    /// The file's own blocks.
    own: Vec<BufRef>,
    /// The block of its inode.
    inode: Option<BufRef>,
    /// The group: its bitmap decides whether fsck reads the inode.
    group: Option<BufRef>,
}

/// An fsync in progress.
#[derive(Debug)]
struct Request {
    target: SyncTarget,
    unsynced: Unsynced,
    /// The older changes of names that it waits for, until it has a sync point for them.
    older: Option<OlderNames>,
    point: Option<SyncPoint>,
    /// Blocks that its last pass needed to write.
    wanted: BTreeSet<BufKey>,
    passes: u32,
    /// Passes in a row that changed nothing.
    idle: u32,
    /// The error with which it fails.
    error: Option<Error>,
}

/// All fsyncs in progress.
#[derive(Debug, Default)]
pub(super) struct Fsyncs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that the leader has not taken.
    open: BTreeMap<u64, Request>,
    done: BTreeMap<u64, Result<()>>,
    /// The number of requests so far, which is the id of the last one.
    last: u64,
    /// Whether a thread leads.
    has_leader: bool,
    /// Whether a write was issued since the last flush began.
    unflushed: bool,
    /// The number of name barriers ([`Syncer::begin_name_barrier`]).
    barriers: u64,
}

impl Syncer {
    /// Makes durable: content, indirect blocks, extended attributes, the inode, the names and
    /// directories on the path to the file, the names in it if it is a directory, and the older
    /// changes of names that the switch `fsync` selects. With [`SyncScope::Data`] inode and names
    /// are included only if size or pointers changed. The caller holds no inode lock.
    ///
    /// # Errors
    /// The device's; [`Error::Unwritten`].
    pub(crate) fn fsync(&self, ip: &Inode, scope: SyncScope) -> Result<()> {
        if self.ump.is_read_only() {
            return Ok(());
        }
        if scope == SyncScope::All {
            let mut file = ip.lock(&self.ump);
            if file.alive() && file.times_noted() {
                file.update(InodeChange::Attr)?;
            }
        }
        let (seen, mut request) = {
            // The lock is held while the first pass writes, so that it writes one state of the
            // file.
            let data = ip.read();
            let target = if data.d.is_dir() {
                SyncTarget::Directory(ip.ino)
            } else {
                SyncTarget::File(ip.ino)
            };
            let seen = ip.unsynced.seen();
            let inode = scope == SyncScope::All || seen & 1 == 1;
            let mut request = Request {
                target,
                unsynced: self.unsynced(ip, inode),
                older: inode.then(|| self.older_names()),
                point: None,
                wanted: BTreeSet::new(),
                passes: 0,
                idle: 0,
                error: None,
            };
            self.write_towards(&mut [&mut request], Held::Skip);
            (seen, request)
        };
        if let Some(e) = request.error.take() {
            return Err(e);
        }
        self.finish(request)?;
        ip.unsynced.clear(seen);
        Ok(())
    }

    /// Keeps names that are entered for `ino` from now on out of images, until
    /// [`Syncer::end_name_barrier`].
    pub(crate) fn begin_name_barrier(&self, ino: Ino) {
        self.fsyncs.state.lock().barriers += 1;
        self.ump.ordering.notify(Event::NameBarrierBegin { ino });
    }

    /// Ends the name barrier: the operation has reported all dependencies of the names.
    pub(crate) fn end_name_barrier(&self, ino: Ino) {
        self.ump.ordering.notify(Event::NameBarrierEnd { ino });
        self.fsyncs.state.lock().barriers -= 1;
        self.fsyncs.changed.notify_all();
    }

    /// The older changes of names that an fsync includes.
    fn older_names(&self) -> OlderNames {
        match self.ump.tunables.fsync() {
            FsyncScope::All => OlderNames::All,
            FsyncScope::File => OlderNames::MovedDirectories,
        }
    }

    /// Waits until the request is done. Leads if no other thread does.
    fn finish(&self, request: Request) -> Result<()> {
        let mut state = self.fsyncs.state.lock();
        state.last += 1;
        let id = state.last;
        state.open.insert(id, request);
        state.unflushed = true;
        loop {
            if let Some(result) = state.done.remove(&id) {
                return result;
            }
            if state.has_leader {
                state = self.fsyncs.changed.wait(&self.fsyncs.state, state);
                continue;
            }
            state.has_leader = true;
            drop(state);
            self.lead(id);
            state = self.fsyncs.state.lock();
            state.has_leader = false;
            self.fsyncs.changed.notify_all();
        }
    }

    /// Runs passes for all requests, including those that arrive in the meantime, until the request
    /// `own` of the caller is done.
    fn lead(&self, own: u64) {
        let mut open = BTreeMap::new();
        loop {
            let flush = {
                let mut state = self.fsyncs.state.lock();
                open.append(&mut state.open);
                std::mem::take(&mut state.unflushed)
            };
            let (done, wrote) = self.pass(&mut open, flush);
            if done.is_empty() && !wrote && open.values().any(|r| r.idle > 1) {
                pause();
            }
            let mut state = self.fsyncs.state.lock();
            if done.is_empty() && !wrote && state.barriers > 0 {
                // A request may wait for a name behind a barrier. The end of the barrier notifies.
                open.values_mut().for_each(|r| r.idle = r.idle.min(1));
                state = self.fsyncs.changed.wait(&self.fsyncs.state, state);
            }
            state.unflushed |= wrote;
            let over = done.iter().any(|(id, _)| *id == own);
            if !done.is_empty() {
                state.done.extend(done);
                self.fsyncs.changed.notify_all();
            }
            if over {
                // The next leader takes the other requests.
                state.open.append(&mut open);
                return;
            }
        }
    }

    /// Flushes the device if `flush`, does the deferred work that became safe, and writes the
    /// buffers that became ready. Returns the requests that are done, and whether any buffer was
    /// written.
    fn pass(
        &self,
        open: &mut BTreeMap<u64, Request>,
        flush: bool,
    ) -> (Vec<(u64, Result<()>)>, bool) {
        let before = self.ump.pending();
        let flushed = if flush { self.ump.end_pass() } else { Ok(()) };
        if let Err(e) = &flushed {
            open.values_mut().for_each(|r| r.error = Some(shared(e)));
        }
        let (worked, outcome) = self.run_work(usize::MAX);
        // Failed work concerns other files, and is tried again later.
        drop(outcome);
        self.note_older_names(open);
        let mut done = self.take_done(open);
        let held = if open.values().any(|r| r.idle > 0) { Held::Write } else { Held::Skip };
        let mut requests: Vec<&mut Request> = open.values_mut().collect();
        let wrote = self.write_towards(&mut requests, held);
        let moved = wrote > 0 || worked > 0 || self.ump.pending() != before;
        for r in requests {
            r.passes += u32::from(wrote > 0);
            r.idle = if moved { 0 } else { r.idle + 1 };
            if r.error.is_none() && (r.idle > IDLE || r.passes > PASSES) {
                r.error = Some(Error::Unwritten);
            }
        }
        let failed: Vec<u64> =
            open.iter().filter(|(_, r)| r.error.is_some()).map(|(id, _)| *id).collect();
        done.extend(failed.into_iter().filter_map(|id| Some((id, self.end(open, id)?))));
        (done, wrote > 0)
    }

    /// Gives new requests a sync point. It requires the changes of names that are pending now: all
    /// older ones, and perhaps a few newer ones. The requests of one kind share a sync point.
    fn note_older_names(&self, open: &mut BTreeMap<u64, Request>) {
        let mut points = Vec::new();
        for r in open.values_mut() {
            let Some(which) = r.older.take() else { continue };
            let begun = points.iter().find(|(of, _)| *of == which).map(|(_, point)| *point);
            r.point = begun.unwrap_or_else(|| {
                let point = self.ump.ordering.begin_sync_point(which);
                points.push((which, point));
                point
            });
        }
    }

    /// Removes the requests that are durable or have failed, and returns their results.
    fn take_done(&self, open: &mut BTreeMap<u64, Request>) -> Vec<(u64, Result<()>)> {
        let is_durable = |target| self.ump.ordering.is_durable(target);
        let is_done = |r: &Request| {
            r.error.is_some()
                || r.unsynced.is_done()
                    && is_durable(r.target)
                    && r.point.is_none_or(|point| is_durable(SyncTarget::Names(point)))
        };
        let ids: Vec<u64> = open.iter().filter(|(_, r)| is_done(r)).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| Some((id, self.end(open, id)?))).collect()
    }

    /// Removes a request, and its sync point if no other request has it. Returns its result.
    fn end(&self, open: &mut BTreeMap<u64, Request>, id: u64) -> Option<Result<()>> {
        let request = open.remove(&id)?;
        if let Some(point) = request.point
            && !open.values().any(|r| r.point == request.point)
        {
            self.ump.ordering.end_sync_point(point);
        }
        Some(request.error.map_or(Ok(()), Err))
    }

    /// The dirty buffers of a file; those of its inode and its group only if `inode`.
    fn unsynced(&self, ip: &Inode, inode: bool) -> Unsynced {
        let (g, cache) = (self.ump.g(), &self.ump.cache);
        let block = |at| inode.then(|| cache.dirty_buf(BufKey::Meta(at))).flatten();
        Unsynced {
            own: cache.dirty_of(ip.ino),
            inode: block(g.ino_to_fsba(ip.ino)),
            group: block(g.cgtod(g.ino_to_cg(ip.ino))),
        }
    }

    /// Writes the most ready of the buffers that the requests need, and returns their number.
    /// `held` applies if none of them is ready. A failure is recorded in the requests that need the
    /// block.
    fn write_towards(&self, requests: &mut [&mut Request], held: Held) -> usize {
        let mut each: BTreeMap<BufKey, BufRef> = BTreeMap::new();
        for r in requests.iter_mut() {
            let bufs = self.wanted(r);
            r.wanted = bufs.keys().copied().collect();
            each.extend(bufs);
        }
        let (ready, chosen) = self.ump.readiest(each.into_values().collect());
        if ready == Readiness::Held && held == Held::Skip {
            return 0;
        }
        // The blocks of the files first: if their writes fail, the inodes are not written.
        let of_file = |b: &BufRef| {
            requests.iter().any(|r| r.unsynced.own.iter().any(|own| Arc::ptr_eq(own, b)))
        };
        let (own, other): (Vec<_>, Vec<_>) = chosen.into_iter().partition(of_file);
        let mut images = 0;
        for bufs in [own, other] {
            let written = self.ump.cache.write_bufs(bufs.clone());
            images += written.count;
            for r in requests.iter_mut() {
                r.unsynced.remove_written(&bufs, &written.incomplete);
                if let Some(e) = &written.error
                    && written.failed.iter().any(|key| r.wanted.contains(key))
                {
                    r.error.get_or_insert(shared(e));
                }
            }
            if requests.iter().all(|r| r.error.is_some()) {
                break;
            }
        }
        images
    }

    /// The buffers that a request has to write: those of its file, and those that its sync target
    /// and its sync point wait for.
    fn wanted(&self, r: &mut Request) -> BTreeMap<BufKey, BufRef> {
        let (cache, ordering) = (&self.ump.cache, &self.ump.ordering);
        r.unsynced.own.retain(|b| b.is_dirty());
        let Unsynced { own, inode, group } = &r.unsynced;
        let some = own.iter().chain(inode).chain(group).cloned();
        let mut keys = ordering.blocks_to_write(r.target);
        keys.extend(
            r.point
                .into_iter()
                .flat_map(|point| ordering.blocks_to_write(SyncTarget::Names(point))),
        );
        let more = keys.into_iter().filter_map(|key| cache.dirty_buf(key));
        some.chain(more).map(|b| (b.key, b)).collect()
    }
}

/// A copy of the error for another request.
fn shared(e: &Error) -> Error {
    match e {
        Error::Io(e) => Error::Io(e.clone()),
        _ => Error::Unwritten,
    }
}

impl Unsynced {
    fn is_done(&self) -> bool {
        self.own.is_empty() && self.inode.is_none()
    }

    /// Removes the buffers that were `written`, except blocks of the file whose images were
    /// `incomplete`. The image of the inode's block may lack changes of other inodes; the sync
    /// target decides whether the changes of this inode are durable.
    fn remove_written(&mut self, written: &[BufRef], incomplete: &[BufRef]) {
        let among = |b: &BufRef, all: &[BufRef]| all.iter().any(|t| Arc::ptr_eq(t, b));
        self.own.retain(|b| !among(b, written) || among(b, incomplete));
        self.inode.take_if(|b| among(b, written));
        self.group.take_if(|b| among(b, written));
    }
}
