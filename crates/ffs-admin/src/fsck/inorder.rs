//! Work on numbered items by several threads, with the results in order.
//!
//! **Purpose.** The phases read a volume in pieces whose places are known beforehand. Threads read
//! the pieces ahead and examine them; the check takes the results in the order of the pieces, and
//! does there everything that a finding may depend on.
//!
//! **Invariants.**
//! 1. The results arrive in the order of the items, on the calling thread. So the findings do not
//!    depend on the number of threads.
//! 2. Each thread has at most [`AHEAD`] results that were not taken, and one that it works on.
//! 3. A thread waits only for the caller, and the caller only for the thread with the next item.
//!    When either of them ends, also early, its ends of the channels close, and the other ends.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Results of one thread that wait to be taken.
const AHEAD: usize = 2;
/// Limit on the threads if the caller chooses no number.
const MAX_THREADS: usize = 8;
/// The fewest items for which a thread is worth its start.
const ITEMS_PER_THREAD: usize = 4;

/// Threads that work for one check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threads {
    /// The number that the caller chose.
    chosen: Option<usize>,
}

impl Threads {
    /// `chosen` threads; `None`: by the number of processors and of items.
    pub(super) fn new(chosen: Option<usize>) -> Threads {
        Threads { chosen }
    }

    /// Threads for `items` items; 0 = the caller does the work.
    fn number(self, items: usize, processors: impl FnOnce() -> usize) -> usize {
        let useful = match self.chosen {
            Some(chosen) => chosen.min(items),
            // Counting the processors reads files of the host. The work on a few items takes less
            // time.
            None if items < 2 * ITEMS_PER_THREAD => 0,
            // Threads wait for the device most of the time, so there are more than processors.
            None => (2 * processors()).min(MAX_THREADS).min(items / ITEMS_PER_THREAD),
        };
        if useful > 1 { useful } else { 0 }
    }

    /// Calls `work` for the items `0..items`, on several threads, and `each` with every result in
    /// order. `work` gets an earlier result to use its memory. Ends at the first error of `each`.
    pub(super) fn in_order<T: Send + Default, E>(
        self,
        items: usize,
        work: impl Fn(usize, &mut T) + Sync,
        mut each: impl FnMut(usize, &mut T) -> Result<(), E>,
    ) -> Result<(), E> {
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        let number = self.number(items, processors);
        thread::scope(|scope| {
            let lanes: Vec<Option<Lane<T>>> = (0..number)
                .map(|first| {
                    let (results, taken) = sync_channel(AHEAD);
                    let (give_back, spare) = channel();
                    let (work, mine) = (&work, (first..items).step_by(number));
                    let run = move || run_lane(mine, work, &results, &spare);
                    // Without another thread the caller does this lane's work.
                    let started = thread::Builder::new().spawn_scoped(scope, run).is_ok();
                    started.then_some(Lane { taken, give_back })
                })
                .collect();
            let mut own = T::default();
            for item in 0..items {
                match lanes.get(item % number.max(1)) {
                    Some(Some(lane)) => {
                        // The thread panicked; the scope passes the panic on.
                        let Ok(mut result) = lane.taken.recv() else { break };
                        each(item, &mut result)?;
                        // The thread has ended if it has no more items.
                        let _ = lane.give_back.send(result);
                    }
                    _ => {
                        work(item, &mut own);
                        each(item, &mut own)?;
                    }
                }
            }
            Ok(())
        })
    }
}

/// The caller's ends of the channels of one thread.
struct Lane<T> {
    taken: Receiver<T>,
    give_back: Sender<T>,
}

fn run_lane<T: Default>(
    items: impl Iterator<Item = usize>,
    work: &(impl Fn(usize, &mut T) + Sync),
    results: &SyncSender<T>,
    spare: &Receiver<T>,
) {
    for item in items {
        let mut result = spare.try_recv().unwrap_or_default();
        work(item, &mut result);
        if results.send(result).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_order_is_that_of_the_items() {
        for threads in [0, 1, 2, 3, 7, 100] {
            for items in [0, 1, 2, 50] {
                let mut got = Vec::new();
                let work = |item: usize, out: &mut usize| *out = item * item;
                let done: Result<(), ()> =
                    Threads::new(Some(threads)).in_order(items, work, |item, square| {
                        got.push((item, *square));
                        Ok(())
                    });
                assert_eq!(done, Ok(()));
                assert_eq!(got, (0..items).map(|i| (i, i * i)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn few_items_have_no_threads() {
        let counted = || unreachable!("the processors are counted");
        assert_eq!(Threads::new(None).number(2 * ITEMS_PER_THREAD - 1, counted), 0);
        assert_eq!(Threads::new(Some(3)).number(1000, counted), 3);
        // At least two for many items, with any number of processors.
        assert!(Threads::new(None).number(1000, || 1) >= 2);
    }

    #[test]
    fn an_error_ends_all_threads_and_little_is_done_ahead() {
        let done = AtomicUsize::new(0);
        let work = |_: usize, _: &mut ()| {
            done.fetch_add(1, Ordering::Relaxed);
        };
        let end = Threads::new(Some(4)).in_order(1_000_000, work, |item, ()| match item {
            9 => Err("stop"),
            _ => Ok(()),
        });
        assert_eq!(end, Err("stop"));
        let limit = 10 + 4 * (AHEAD + 2);
        assert!(done.load(Ordering::Relaxed) <= limit, "{done:?}");
    }

    #[test]
    fn memory_is_used_again() {
        let made = AtomicUsize::new(0);
        let work = |_: usize, out: &mut Vec<u8>| {
            if out.capacity() == 0 {
                made.fetch_add(1, Ordering::Relaxed);
                out.reserve(100);
            }
        };
        let end: Result<(), ()> = Threads::new(Some(3)).in_order(10_000, work, |_, _| Ok(()));
        assert_eq!(end, Ok(()));
        assert!(made.load(Ordering::Relaxed) <= 3 * (AHEAD + 3), "{made:?}");
    }
}
