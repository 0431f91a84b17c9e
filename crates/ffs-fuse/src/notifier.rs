//! Answers to direct writes of content that the kernel may have in its page cache as it was before.
//!
//! The kernel drops the pages of a direct write before it sends the write, and, if the writer waits for it, once more
//! behind it. If the writer does not wait (asynchronous I/O), pages that somebody read meanwhile would stay as they
//! were. So they are dropped here, before the write is answered.
//!
//! **Invariants.**
//! 1. A thread of its own tells the kernel to drop pages: for that the kernel waits for reads and writes of them
//!    that are under way, which the workers serve. No worker waits for this thread.
//! 2. Only answers to direct writes wait here. Who waits for one has no page of the file locked, so what this thread
//!    waits for never waits for it.

use crate::wire::{Device, Pages, Reply};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// An answer to be sent when pages are dropped.
struct Job {
    pages: Pages,
    answer: Vec<u8>,
}

/// The thread's other end; it ends when this is dropped.
pub(crate) struct Notifier {
    queue: Sender<Job>,
}

impl Notifier {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be made.
    pub(crate) fn start(device: Arc<Device>) -> io::Result<Notifier> {
        let (queue, jobs) = channel::<Job>();
        std::thread::Builder::new().name("notifier".to_owned()).spawn(move || {
            for job in jobs {
                // It fails if the kernel has forgotten the file, which then has no pages.
                device.send(&Reply::stale_content(job.pages));
                device.send(&job.answer);
            }
        })?;
        Ok(Notifier { queue })
    }

    /// Has `pages` dropped, then sends `answer`.
    pub(crate) fn answer(&self, pages: Pages, answer: &[u8], device: &Device) {
        let job = Job { pages, answer: answer.to_vec() };
        if let Err(unsent) = self.queue.send(job) {
            // The thread ends only if it panicked: stale pages are the lesser evil.
            device.send(&unsent.0.answer);
        }
    }
}
