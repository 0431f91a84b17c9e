//! Replies that wait until the kernel has dropped pages of its page cache.
//!
//! Two kinds of requests need it: direct writes of content that may be in the cache, and renames of
//! directories to another parent, whose cached listing has the old parent as `..`.
//!
//! The kernel drops the pages of a direct write before it sends the request and, if the caller
//! waits for the write, again after the reply. If the caller does not wait (asynchronous I/O), a
//! page that another process reads in between would keep the old content. The server therefore
//! makes the kernel drop the pages before it replies.
//!
//! Pages of a refused write are dropped, too, but its reply does not wait for that.
//!
//! **Invariants.**
//! 1. A separate thread sends the notifications: to drop a page, the kernel waits for reads and
//!    writes of that page, which the workers serve. No worker waits for this thread.
//! 2. Only replies to direct writes and renames wait here. Their callers hold no page lock, so no
//!    request that this thread waits for can wait for such a caller.

use crate::wire::{Device, Pages, Reply};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// A reply that waits until the kernel has dropped pages.
struct Job {
    pages: Vec<Pages>,
    send: SendReply,
}

/// Sends a reply.
pub(crate) type SendReply = Box<dyn FnOnce() + Send>;

/// The handle of the thread, which ends when this is dropped.
pub(crate) struct Notifier {
    queue: Sender<Job>,
}

impl Notifier {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(crate) fn start(device: Arc<Device>) -> io::Result<Notifier> {
        let (queue, jobs) = channel::<Job>();
        std::thread::Builder::new().name("notifier".to_owned()).spawn(move || {
            for job in jobs {
                // This fails if the kernel has forgotten the file, which then has no pages.
                for pages in job.pages {
                    device.send(&Reply::stale_content(pages));
                }
                (job.send)();
            }
        })?;
        Ok(Notifier { queue })
    }

    /// Makes the kernel drop `pages`, then sends a reply by `send`.
    pub(crate) fn answer(&self, pages: Vec<Pages>, send: SendReply) {
        if let Err(unsent) = self.queue.send(Job { pages, send }) {
            // The thread ends only if it panicked. A stale page is better than no reply.
            (unsent.0.send)();
        }
    }

    /// Makes the kernel drop `pages` at some time.
    pub(crate) fn drop_pages(&self, pages: Vec<Pages>) {
        self.answer(pages, Box::new(|| ()));
    }
}
