//! Making a file durable: its content, its inode, what leads to it, and older changes of names.
//!
//! Programs that are correct on a journaling file system count on an fsync to make every older change of
//! names durable, as the commit of a journal does. So does it here, unless the mount says `fsync=file`.
//! Threads that call fsync at the same time share passes and flushes: one of them leads, the others wait.
//!
//! # Invariants
//! 1. A buffer whose write fails stays dirty, so a later fsync tries again and fails again until the
//!    data is on the device: no error is reported once and then forgotten.
//! 2. What a request wrote before it joined the others is flushed by a flush that begins afterwards.
//! 3. While a request is open some thread leads, or is about to.
//!
//! Reference: `spec/soft-updates.md` §8.

use super::Syncer;
use crate::buf::{BufKey, BufRef};
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::ordering::{Event, InodeChange, OlderNames, Readiness, SyncPoint, SyncTarget};
use crate::sync::{Condvar, Mutex, pause};
use crate::tunables::FsyncScope;
use ffs_ondisk::Ino;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Passes in a row that may change nothing, about a millisecond each: what a name waits for may belong to an
/// operation of another thread that has reported it and not yet changed a buffer.
const IDLE: u32 = 5000;
/// Passes at most that write: a chain of names is a few passes long, however deep the tree.
const PASSES: u32 = 1000;

/// What an fsync has still to write.
#[derive(Debug)]
struct Left {
    /// The file's own blocks.
    own: Vec<BufRef>,
    /// The block of its inode.
    inode: Option<BufRef>,
    /// The group, on which it depends whether the inode is looked at.
    group: Option<BufRef>,
}

/// An fsync under way.
#[derive(Debug)]
struct Request {
    goal: SyncTarget,
    left: Left,
    /// Older changes of names that it waits for, before a sync point has them.
    older: Option<OlderNames>,
    point: Option<SyncPoint>,
    /// Blocks that its last pass wanted to write.
    wanted: BTreeSet<BufKey>,
    passes: u32,
    /// Passes in a row that changed nothing.
    idle: u32,
    /// Why it cannot be reached.
    error: Option<Error>,
}

/// All fsyncs under way.
#[derive(Debug, Default)]
pub(super) struct Fsyncs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Those that the leader has not taken.
    open: BTreeMap<u64, Request>,
    done: BTreeMap<u64, Result<()>>,
    /// Requests so far.
    last: u64,
    /// Whether a thread leads.
    led: bool,
    /// Whether anything was written that no flush has made durable.
    unflushed: bool,
    /// Names that operations under way hold back ([`Syncer::hold_name`]).
    held: u64,
}

impl Syncer {
    /// Makes content, indirect blocks, extended attributes and the inode durable, and the names and
    /// directories that lead to the file (of a directory, its names too), and older changes of names as
    /// the mount says; with `data_only` the inode and names only if size or pointers changed. The caller
    /// holds no inode lock.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn fsync(&self, ip: &Inode, data_only: bool) -> Result<()> {
        if self.ump.is_read_only() {
            return Ok(());
        }
        if !data_only {
            let mut file = ip.lock(&self.ump);
            if file.alive() && file.times_noted() {
                file.update(InodeChange::Attr)?;
            }
        }
        let (seen, mut request) = {
            // While the first pass writes: what it writes is one state of the file.
            let data = ip.read();
            let goal = if data.d.is_dir() {
                SyncTarget::Directory(ip.ino)
            } else {
                SyncTarget::File(ip.ino)
            };
            let seen = ip.unsynced.seen();
            let inode = !data_only || seen & 1 == 1;
            let mut request = Request {
                goal,
                left: self.unsynced(ip, inode),
                older: inode.then(|| self.older_names()),
                point: None,
                wanted: BTreeSet::new(),
                passes: 0,
                idle: 0,
                error: None,
            };
            self.write_towards(&mut [&mut request], false);
            (seen, request)
        };
        if let Some(e) = request.error.take() {
            return Err(e);
        }
        self.finish(request)?;
        ip.unsynced.clear(seen);
        Ok(())
    }

    /// Names entered for `ino` from now on are in no image until [`Syncer::let_name_go`].
    pub(crate) fn hold_name(&self, ino: Ino) {
        self.fsyncs.state.lock().held += 1;
        self.ump.ordering.notify(Event::NameBarrierBegin { ino });
    }

    /// All is reported that the names wait for.
    pub(crate) fn let_name_go(&self, ino: Ino) {
        self.ump.ordering.notify(Event::NameBarrierEnd { ino });
        self.fsyncs.state.lock().held -= 1;
        self.fsyncs.changed.notify_all();
    }

    fn older_names(&self) -> OlderNames {
        match self.ump.tunables.fsync() {
            FsyncScope::All => OlderNames::All,
            FsyncScope::File => OlderNames::MovedDirectories,
        }
    }

    /// Waits until the request is done. Leads while nobody else does.
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
            if state.led {
                state = self.fsyncs.changed.wait(&self.fsyncs.state, state);
                continue;
            }
            state.led = true;
            drop(state);
            self.lead(id);
            state = self.fsyncs.state.lock();
            state.led = false;
            self.fsyncs.changed.notify_all();
        }
    }

    /// Passes for all requests, those included that come in the meantime, until that of the caller is done.
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
            if done.is_empty() && !wrote && state.held > 0 {
                // Perhaps for a name that another operation holds back: that ends, or it comes to nothing.
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
                // Whoever leads next goes on with the others.
                state.open.append(&mut open);
                return;
            }
        }
    }

    /// One flush, work that it allows, and what can be written after it. Returns the requests that are done,
    /// and whether anything was written.
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
        // Work that fails is another file's.
        drop(outcome);
        self.note_older_names(open);
        let mut done = self.take_done(open);
        let all = open.values().any(|r| r.idle > 0);
        let mut requests: Vec<&mut Request> = open.values_mut().collect();
        let wrote = self.write_towards(&mut requests, all);
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

    /// Requests that came in wait for the changes of names outstanding now: all that are older than they, and
    /// mostly no others. One sync point does for all of them.
    fn note_older_names(&self, open: &mut BTreeMap<u64, Request>) {
        let mut points = Vec::new();
        for r in open.values_mut() {
            let Some(which) = r.older.take() else { continue };
            let known = points.iter().find(|(of, _)| *of == which).map(|(_, point)| *point);
            r.point = known.unwrap_or_else(|| {
                let point = self.ump.ordering.begin_sync_point(which);
                points.push((which, point));
                point
            });
        }
    }

    /// Takes out what is reached, or has failed.
    fn take_done(&self, open: &mut BTreeMap<u64, Request>) -> Vec<(u64, Result<()>)> {
        let reached = |goal| self.ump.ordering.is_durable(goal);
        let is_done = |r: &Request| {
            r.error.is_some()
                || r.left.is_done()
                    && reached(r.goal)
                    && r.point.is_none_or(|point| reached(SyncTarget::Names(point)))
        };
        let ids: Vec<u64> = open.iter().filter(|(_, r)| is_done(r)).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| Some((id, self.end(open, id)?))).collect()
    }

    /// The request waits no more.
    fn end(&self, open: &mut BTreeMap<u64, Request>, id: u64) -> Option<Result<()>> {
        let request = open.remove(&id)?;
        if let Some(point) = request.point
            && !open.values().any(|r| r.point == request.point)
        {
            self.ump.ordering.end_sync_point(point);
        }
        Some(request.error.map_or(Ok(()), Err))
    }

    /// What there is to be written of a file.
    fn unsynced(&self, ip: &Inode, inode: bool) -> Left {
        let (g, cache) = (self.ump.g(), &self.ump.cache);
        let block = |at| inode.then(|| cache.dirty_buf(BufKey::Meta(at))).flatten();
        Left {
            own: cache.dirty_of(ip.ino),
            inode: block(g.ino_to_fsba(ip.ino)),
            group: block(g.cgtod(g.ino_to_cg(ip.ino))),
        }
    }

    /// Writes what is readiest of what is left and of what brings the goals nearer; what would show
    /// nothing new only if `all`. Returns how many blocks. Failures are noted in the requests that want
    /// the block.
    fn write_towards(&self, requests: &mut [&mut Request], all: bool) -> usize {
        let mut each: BTreeMap<BufKey, BufRef> = BTreeMap::new();
        for r in requests.iter_mut() {
            let bufs = self.wanted(r);
            r.wanted = bufs.keys().copied().collect();
            each.extend(bufs);
        }
        let (ready, chosen) = self.ump.readiest(each.into_values().collect());
        if ready == Readiness::Held && !all {
            return 0;
        }
        // The files' own first: if they fail, their inodes need not name them.
        let of_file =
            |b: &BufRef| requests.iter().any(|r| r.left.own.iter().any(|own| Arc::ptr_eq(own, b)));
        let (own, other): (Vec<_>, Vec<_>) = chosen.into_iter().partition(of_file);
        let mut images = 0;
        for bufs in [own, other] {
            let written = self.ump.cache.write_bufs(bufs.clone());
            images += written.count;
            for r in requests.iter_mut() {
                r.left.strike(&bufs, &written.incomplete);
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

    /// What is left of a request, and what brings its goals nearer.
    fn wanted(&self, r: &mut Request) -> BTreeMap<BufKey, BufRef> {
        let (cache, ordering) = (&self.ump.cache, &self.ump.ordering);
        r.left.own.retain(|b| cache.is_dirty(b));
        let some = r.left.own.iter().chain(&r.left.inode).chain(&r.left.group).cloned();
        let mut keys = ordering.blocks_to_write(r.goal);
        keys.extend(
            r.point
                .into_iter()
                .flat_map(|point| ordering.blocks_to_write(SyncTarget::Names(point))),
        );
        let more = keys.into_iter().filter_map(|key| cache.dirty_buf(key));
        some.chain(more).map(|b| (b.key, b)).collect()
    }
}

/// The error again, for another thread.
fn shared(e: &Error) -> Error {
    match e {
        Error::Io(e) => Error::Io(e.clone()),
        _ => Error::Unwritten,
    }
}

impl Left {
    fn is_done(&self) -> bool {
        self.own.is_empty() && self.inode.is_none()
    }

    /// Takes out what was written: of the file's own blocks only those that are not `kept`. The block
    /// of the inode may keep changes of other inodes; whether it does of this one is the goal's.
    fn strike(&mut self, tried: &[BufRef], kept: &[BufRef]) {
        let among = |b: &BufRef, all: &[BufRef]| all.iter().any(|t| Arc::ptr_eq(t, b));
        self.own.retain(|b| !among(b, tried) || among(b, kept));
        self.inode.take_if(|b| among(b, tried));
        self.group.take_if(|b| among(b, tried));
    }
}
