//! A thread that makes the kernel drop pages from its cache.
//!
//! The kernel drops the pages of a direct write before it sends the request and, if the caller
//! waits for the write, again after the reply. If the caller does not wait (asynchronous I/O), a
//! page that another process reads in between would keep the old content. The server therefore
//! makes the kernel drop the pages before it replies. The pages of a refused write have content
//! that the file never gets. They are dropped, too, and its reply does not wait for that.
//!
//! **Invariants.**
//! 1. A separate thread sends the notifications: to drop a page, the kernel waits for reads and
//!    writes of that page, which the workers serve. No worker waits for this thread.
//! 2. Only replies to direct writes wait here. A caller of a direct write holds no page lock, so no
//!    request that this thread waits for can wait for that caller.
//! 3. A reply that waits occupies one of the requests that the kernel may send at a time, and the
//!    read of a page may need one. So at most as many wait as each [`Limit`] admits. Further
//!    replies go at once, and their pages are dropped afterwards.
//! 4. What is dropped afterwards takes memory for each file, not for each write.

use crate::wire::{Device, Pages, Reply};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sends a reply.
pub(crate) type SendReply = Box<dyn FnOnce() + Send>;

/// How many replies may wait at a time, of those that occupy the same requests.
pub(crate) struct Limit {
    most: usize,
    waiting: AtomicUsize,
}

/// The right of a reply to wait. Dropping this ends it.
struct Wait(Arc<Limit>);

impl Limit {
    pub(crate) fn new(most: usize) -> Arc<Limit> {
        Arc::new(Limit { most, waiting: AtomicUsize::new(0) })
    }

    /// `None`: too many wait already.
    fn wait(self: &Arc<Self>) -> Option<Wait> {
        let more = |waiting| (waiting < self.most).then_some(waiting + 1);
        let counted = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| Wait(Arc::clone(self)))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Job {
    /// Drop the pages, then send the reply, which waits for as long.
    Answer(Pages, SendReply, [Option<Wait>; 2]),
    /// Drop what is in [`Later`].
    Later,
}

/// Pages to drop, by node: one range that holds all of them.
#[derive(Default)]
struct Later(Mutex<HashMap<u64, Pages>>);

impl Later {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Pages>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether nothing was there before.
    fn add(&self, pages: Pages) -> bool {
        let mut later = self.lock();
        let first = later.is_empty();
        match later.entry(pages.node) {
            Entry::Occupied(mut known) => known.get_mut().extend(&pages),
            Entry::Vacant(new) => drop(new.insert(pages)),
        }
        first
    }

    fn take(&self) -> HashMap<u64, Pages> {
        std::mem::take(&mut *self.lock())
    }
}

/// The handle of the thread, which ends when this is dropped.
pub(crate) struct Notifier {
    queue: Sender<Job>,
    later: Arc<Later>,
    limit: Arc<Limit>,
}

impl Notifier {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(crate) fn start(device: Arc<Device>) -> io::Result<Notifier> {
        let (queue, jobs) = channel::<Job>();
        let later = Arc::new(Later::default());
        let pending = Arc::clone(&later);
        // This fails if the kernel has forgotten the file, which then has no pages.
        let drop_pages = move |pages| {
            device.send(&Reply::stale_content(pages));
        };
        std::thread::Builder::new().name("notifier".to_owned()).spawn(move || {
            for job in jobs {
                match job {
                    Job::Answer(pages, send, waits) => {
                        drop_pages(pages);
                        send();
                        drop(waits);
                    }
                    Job::Later => pending.take().into_values().for_each(&drop_pages),
                }
            }
        })?;
        Ok(Notifier { queue, later, limit: Limit::new(Device::MAX_BACKGROUND / 4) })
    }

    /// The right of one more reply to wait. `own` is a further limit.
    fn wait(&self, own: Option<&Arc<Limit>>) -> Option<[Option<Wait>; 2]> {
        let own = match own {
            Some(limit) => Some(limit.wait()?),
            None => None,
        };
        Some([Some(self.limit.wait()?), own])
    }

    /// Makes the kernel drop `pages`, then sends a reply by `send`. If too many replies wait, here
    /// or by the limit `own`, it sends the reply at once, and the pages are dropped later.
    pub(crate) fn answer(&self, pages: Pages, own: Option<&Arc<Limit>>, send: SendReply) {
        let Some(waits) = self.wait(own) else {
            self.drop_pages(pages);
            return send();
        };
        if let Err(unsent) = self.queue.send(Job::Answer(pages, send, waits))
            && let Job::Answer(_, send, _) = unsent.0
        {
            // The thread ends only if it panicked. A stale page is better than no reply.
            send();
        }
    }

    /// Makes the kernel drop `pages` later. No reply waits for that.
    pub(crate) fn drop_pages(&self, pages: Pages) {
        if self.later.add(pages) {
            // It fails as above.
            let _ = self.queue.send(Job::Later);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_admits_so_many_at_a_time() {
        let limit = Limit::new(2);
        let (first, second) = (limit.wait(), limit.wait());
        assert!(first.is_some() && second.is_some() && limit.wait().is_none());
        drop(first);
        assert!(limit.wait().is_some_and(|_| limit.wait().is_none()));
        assert!(limit.wait().is_some());
    }

    #[test]
    fn pages_that_are_dropped_later_are_one_range_of_a_file() {
        let (later, at) = (Later::default(), |node, offset, len| Pages { node, offset, len });
        assert!(later.add(at(5, 4096, 100)));
        for pages in [at(5, 100, 8), at(6, 0, u64::MAX), at(5, 8192, 1)] {
            assert!(!later.add(pages));
        }
        let mut all: Vec<Pages> = later.take().into_values().collect();
        all.sort_by_key(|pages| pages.node);
        assert_eq!(all, [at(5, 100, 8093), at(6, 0, u64::MAX)]);
        assert!(later.add(at(5, 1, 1)), "nothing is left");
    }
}
