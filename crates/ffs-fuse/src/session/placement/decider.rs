//! When a serving thread should yield to its clients.
//!
//! **Invariants.**
//! 1. A thread that waits for its processor for [`LATE`] each time and [`LONG`] in all, or has not
//!    run for a [`TICK`] although it could, yields no more.
//! 2. After that it backs off: at first for [`MIN_PAUSE`], and each time twice as long, up to
//!    [`MAX_PAUSE`]. Four pauses without such a wait make the next one short again.

use crate::session::thread::Scheduled;
use std::time::{Duration, Instant};

/// Quick requests in a [`WINDOW`] for which a thread yields. They take longer than the change.
pub(super) const BUSY: u32 = 4;
/// How often a thread that yields examines itself.
pub(super) const WINDOW: Duration = Duration::from_millis(2);
/// How often the watchdog examines it. Waking that one may move a client to another processor.
pub(super) const TICK: Duration = Duration::from_millis(10);
/// A wait for the processor that another program causes, on average: a client waits for its reply
/// after some microseconds, a program without such waits keeps the processor for milliseconds.
const LATE: Duration = Duration::from_micros(125);
/// Shorter waits are not worth a change: the client itself may have computed meanwhile.
const LONG: Duration = Duration::from_millis(1);
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Why a thread yields no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It waited for its processor.
    Contended,
    /// It has no quick requests.
    Quiet,
}

/// Whether a thread waited long for its processor.
pub(super) fn is_late(scheduled: &Scheduled) -> bool {
    scheduled.times > 0 && scheduled.waited >= LONG.max(LATE * scheduled.times)
}

/// Whether a thread did not get its processor in a [`TICK`]. `is_runnable` returns whether it runs
/// or could.
pub(super) fn starves(scheduled: &Scheduled, is_runnable: impl FnOnce() -> bool) -> bool {
    scheduled.times == 0 && scheduled.ran < TICK / 2 && is_runnable()
}

/// The state of the decision about one thread.
#[derive(Default)]
pub(super) struct Decider {
    yields: bool,
    /// When it last had to leave, or first yielded after that.
    since: Option<Instant>,
    /// How long it backs off after it was contended.
    pause: Duration,
    backs_off: bool,
}

impl Decider {
    pub(super) fn yields(&self) -> bool {
        self.yields
    }

    /// Whether a busy thread should yield. `scheduled` counts what happened lately. If other
    /// programs are there already, it backs off.
    pub(super) fn may_enter(&mut self, now: Instant, scheduled: &Scheduled) -> bool {
        if self.backs_off(now) {
            return false;
        }
        if is_late(scheduled) {
            self.back_off(now);
            return false;
        }
        true
    }

    pub(super) fn backs_off(&self, now: Instant) -> bool {
        self.backs_off && self.elapsed(now) < self.pause
    }

    /// The thread yields from now on.
    pub(super) fn entered(&mut self, now: Instant) {
        debug_assert!(!self.yields);
        let since = self.since.filter(|_| !self.backs_off).or(Some(now));
        *self = Decider { yields: true, since, backs_off: false, ..*self };
    }

    /// The decision after a tick, about a thread that yields and has served `quick` requests in it.
    pub(super) fn watched(
        &self,
        quick: u64,
        scheduled: &Scheduled,
        is_runnable: impl FnOnce() -> bool,
    ) -> Option<Leave> {
        if is_late(scheduled) || starves(scheduled, is_runnable) {
            return Some(Leave::Contended);
        }
        (quick == 0).then_some(Leave::Quiet)
    }

    /// The thread does not yield any more.
    pub(super) fn left(&mut self, why: Leave, now: Instant) {
        self.yields = false;
        if why == Leave::Contended {
            let calm = self.elapsed(now) >= 4 * self.pause;
            self.pause = if calm { MIN_PAUSE } else { (2 * self.pause).min(MAX_PAUSE) };
            (self.since, self.backs_off) = (Some(now), true);
        }
    }

    /// The thread cannot yield now: it backs off.
    pub(super) fn back_off(&mut self, now: Instant) {
        self.pause = self.pause.max(MIN_PAUSE);
        (self.since, self.backs_off) = (Some(now), true);
    }

    fn elapsed(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::MAX, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that got a processor `times` times and waited for it for `waited` in all.
    fn scheduled(times: u32, waited: Duration) -> Scheduled {
        Scheduled { ran: Duration::from_micros(20) * times, waited, times }
    }

    const MS: Duration = Duration::from_millis(1);
    /// A thread beside its client: short waits.
    const ALONE: Scheduled = Scheduled { ran: WINDOW, waited: MS, times: 50 };
    const NOT_RUN: Scheduled = Scheduled { ran: Duration::ZERO, waited: Duration::ZERO, times: 0 };

    fn yielding(now: Instant) -> Decider {
        let mut decider = Decider::default();
        assert!(decider.may_enter(now, &ALONE));
        decider.entered(now);
        decider
    }

    #[test]
    fn a_thread_without_requests_leaves() {
        let now = Instant::now();
        let mut decider = yielding(now);
        assert_eq!(decider.watched(1, &ALONE, || false), None);
        assert_eq!(decider.watched(0, &NOT_RUN, || false), Some(Leave::Quiet));
        decider.left(Leave::Quiet, now);
        assert!(!decider.yields() && decider.may_enter(now, &ALONE), "it need not back off");
    }

    #[test]
    fn long_waits_are_noticed() {
        assert!(!is_late(&ALONE) && !is_late(&NOT_RUN) && is_late(&scheduled(20, LATE * 20)));
        let short = Duration::from_nanos(1);
        assert!(!is_late(&scheduled(20, LATE * 20 - short)));
        assert!(is_late(&scheduled(1, LONG)) && !is_late(&scheduled(1, LONG - short)));
        assert!(is_late(&scheduled(40, 5 * MS)), "one long wait among short ones");
        let watched = |s: Scheduled, runnable| yielding(Instant::now()).watched(1, &s, || runnable);
        let contended = Some(Leave::Contended);
        assert_eq!(watched(NOT_RUN, true), contended, "it could run and has not");
        assert_eq!(watched(NOT_RUN, false), None, "it waits for a request");
        assert_eq!(watched(Scheduled { ran: TICK, ..NOT_RUN }, true), None, "it has run");
        assert_eq!(watched(scheduled(4, 9 * MS), false), contended, "it has run for a moment");
    }

    #[test]
    fn pauses_grow_and_become_short_again() {
        let (mut decider, mut now) = (Decider::default(), Instant::now());
        // How long it backs off after it was contended at once, or after a while.
        let mut paused = |decider: &mut Decider, calm: Duration| {
            decider.entered(now);
            now += calm;
            decider.left(Leave::Contended, now);
            let begin = now;
            while !decider.may_enter(now, &ALONE) {
                now += MS;
            }
            (now - begin).as_millis()
        };
        let pauses: Vec<u128> = (0..11).map(|_| paused(&mut decider, WINDOW)).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
        assert_eq!(paused(&mut decider, 4 * MAX_PAUSE), 5);
        assert_eq!(paused(&mut decider, WINDOW), 10);
    }

    #[test]
    fn large_requests_meanwhile_do_not_make_a_pause_long() {
        let mut now = Instant::now();
        let mut decider = yielding(now);
        decider.left(Leave::Contended, now);
        now += MIN_PAUSE;
        for _ in 0..1000 {
            decider.entered(now);
            decider.left(Leave::Quiet, now);
            now += WINDOW;
        }
        decider.entered(now);
        decider.left(Leave::Contended, now);
        assert!(!decider.backs_off(now + MIN_PAUSE));
    }

    #[test]
    fn a_thread_does_not_yield_where_others_are() {
        let (mut decider, now) = (Decider::default(), Instant::now());
        assert!(!decider.may_enter(now, &scheduled(1, LONG)));
        assert!(!decider.may_enter(now + WINDOW, &ALONE), "it backs off");
        assert!(decider.may_enter(now + MIN_PAUSE, &ALONE));
    }
}
