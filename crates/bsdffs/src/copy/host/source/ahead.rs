//! Reads ahead: threads that request the next files of a directory, so that a disk has several
//! requests at a time.
//!
//! # Invariants
//! 1. They begin when files come slowly, as from a disk. Files that the host has in memory need no
//!    thread.
//! 2. They are at most [`AHEAD`] files ahead, and open regular files only. What the source sends,
//!    and its order, does not depend on them.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, statat};

use super::Location;
use crate::copy::host::will_need;

/// Files ahead of the source, and files in one request.
const AHEAD: usize = 256;
const CHUNK: usize = 32;
const THREADS: usize = 4;
/// Files that are timed, and the mean time of one from which on it pays to read ahead.
const TIMED: u32 = 64;
const SLOW: Duration = Duration::from_micros(60);

type Chunk = (Arc<OwnedFd>, Vec<CString>);

/// The threads, and what decides about them.
#[derive(Default)]
pub(super) struct Ahead {
    to: Option<SyncSender<Chunk>>,
    files: u32,
    spent: Duration,
}

impl Ahead {
    /// Adds a file that was opened and read in this time.
    pub(super) fn timed(&mut self, spent: Duration) {
        if self.files >= TIMED {
            return;
        }
        self.files += 1;
        self.spent += spent;
        if self.files < TIMED {
            return;
        }
        if self.spent / TIMED < SLOW {
            // Files may come slowly later.
            (self.files, self.spent) = (0, Duration::ZERO);
            return;
        }
        let (to, from) = sync_channel(AHEAD / CHUNK);
        let from = Arc::new(Mutex::new(from));
        for _ in 0..THREADS {
            let from = Arc::clone(&from);
            std::thread::spawn(move || run(&from));
        }
        self.to = Some(to);
    }

    /// Requests names of `remaining`, the next of which is the last; `requested` of them were
    /// requested before.
    pub(super) fn request(
        &mut self,
        dir: &Arc<OwnedFd>,
        remaining: &[CString],
        requested: &mut usize,
    ) {
        let Some(to) = &self.to else { return };
        while *requested < AHEAD && *requested < remaining.len() {
            let end = remaining.len() - *requested;
            let names = remaining[end.saturating_sub(CHUNK)..end].iter().rev().cloned();
            let names: Vec<CString> = names.collect();
            let count = names.len();
            if to.try_send((Arc::clone(dir), names)).is_err() {
                return;
            }
            *requested += count;
        }
    }
}

/// Serves requests until the source ends.
fn run(from: &Mutex<Receiver<Chunk>>) {
    loop {
        let next = from.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((dir, names)) = next else { return };
        for name in names {
            let found = statat(&*dir, &name, AtFlags::SYMLINK_NOFOLLOW);
            // Errors are those of the source, which reports them.
            if found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file()) {
                let at = Location { dir: dir.as_fd(), name: &name, follow: false };
                if let Ok((fd, _)) = at.open_regular() {
                    will_need(&fd);
                }
            }
        }
    }
}
