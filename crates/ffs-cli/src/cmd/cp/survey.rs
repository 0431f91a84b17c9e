//! The total of a source or of all, for the progress bar.
//!
//! # Invariants
//! 1. A survey reads no file before the bar is on the screen: it does not slow down small copies.
//! 2. It ends with the copy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use bsdffs::copy::{
    CopyReport, Entry, EntryKind, FileData, HostSource, HostSourceOptions, ImageRef, ImageSource,
    ImageSourceOptions, Observer, PartialFile, Select, Sink, SinkResult, SkippedFile,
    transfer_selected,
};
use ffs_core::{Cred, Ffs, Vnode};
use std::path::PathBuf;

/// The tree that is counted.
pub(super) enum Counted {
    Host(PathBuf, HostSourceOptions),
    Image(Ffs, Cred, Vnode, ImageSourceOptions),
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    started: AtomicBool,
    /// Bytes and files.
    totals: OnceLock<(u64, u64)>,
}

/// A survey in a thread of its own.
pub(super) struct Survey {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Survey {
    /// A survey of `trees`, which waits for [`Survey::start`].
    pub(super) fn new(trees: Vec<Counted>, select: Arc<dyn Select>) -> Survey {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !own.started.load(Ordering::Relaxed) && !own.stop.load(Ordering::Relaxed) {
                std::thread::park();
            }
            if !own.stop.load(Ordering::Relaxed) {
                count(trees, &select, &own);
            }
        });
        Survey { shared, thread: Some(thread) }
    }

    pub(super) fn start(&self) {
        if !self.shared.started.swap(true, Ordering::Relaxed)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Bytes and files, as soon as they are counted.
    pub(super) fn totals(&self) -> Option<(u64, u64)> {
        self.shared.totals.get().copied()
    }
}

impl Drop for Survey {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A survey that failed has no totals.
            let _ = thread.join();
        }
    }
}

fn count(trees: Vec<Counted>, select: &Arc<dyn Select>, shared: &Shared) {
    let (mut sink, mut quiet) = (Sizes::default(), Quiet(shared));
    for tree in trees {
        let select = Some(Arc::clone(select));
        let done = match tree {
            Counted::Host(path, options) => {
                let options =
                    HostSourceOptions { data: false, xattrs: false, stream: false, ..options };
                let source = HostSource::new(path, b"", options);
                transfer_selected(source, select, &mut sink, &mut quiet)
            }
            Counted::Image(ffs, cred, top, options) => {
                let options =
                    ImageSourceOptions { data: FileData::Nothing, xattrs: false, ..options };
                let image = ImageRef { ffs: &ffs, cred: &cred, name: "" };
                let source = ImageSource::new(image, top, b"", options);
                transfer_selected(source, select, &mut sink, &mut quiet)
            }
        };
        if done.is_err() {
            return;
        }
    }
    // It is set once.
    let _ = shared.totals.set((sink.bytes, sink.files));
}

#[derive(Default)]
struct Sizes {
    bytes: u64,
    files: u64,
}

impl Sink for Sizes {
    fn entry(&mut self, entry: &Entry, _: &mut CopyReport) -> SinkResult {
        self.files += 1;
        if let EntryKind::File(size) = entry.kind {
            self.bytes += size;
        }
        Ok(())
    }

    fn data(&mut self, _: u64, _: &[u8]) -> SinkResult {
        Ok(())
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        Ok(())
    }

    fn abort(&mut self) -> Option<PartialFile> {
        None
    }
}

/// Errors are those of the copy, which reports them.
struct Quiet<'a>(&'a Shared);

impl Observer for Quiet<'_> {
    fn skipped(&mut self, _: &SkippedFile) {}

    fn is_cancelled(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }
}
