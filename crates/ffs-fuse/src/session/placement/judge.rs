//! When a serving thread should be near its clients.
//!
//! **Invariants.**
//! 1. A thread that waits for its processor for [`LATE`] each time, or has not run for a [`TICK`]
//!    although it could, leaves.
//! 2. After that it rests: at first for [`MIN_PAUSE`], and each time twice as long, up to
//!    [`MAX_PAUSE`]. Four pauses without such a wait make the next one short again.

use std::time::{Duration, Instant};

/// Quick requests in a [`WINDOW`] for which a thread comes. They take longer than its coming.
pub(super) const BUSY: u32 = 4;
/// How often a thread that is near looks at itself.
pub(super) const WINDOW: Duration = Duration::from_millis(2);
/// How often another thread looks at it. Waking that one may move a client to another processor.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// Ticks without a request after which a thread leaves.
const QUIET: u32 = 5;
/// A wait for the processor that another program causes: a client waits for its reply after some
/// microseconds, a program without such waits keeps the processor for milliseconds at a time.
const LATE: Duration = Duration::from_micros(250);
const MIN_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// How a thread was scheduled since the last look.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheduled {
    /// How long it ran.
    pub(super) ran: Duration,
    /// How long it waited for a processor, if it got it.
    pub(super) waited: Duration,
    /// How often it got one.
    pub(super) times: u32,
}

/// What to do with a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    /// It becomes near.
    Come,
    /// It is not near any more. `contended`: because it waited for its processor.
    Leave {
        contended: bool,
    },
}

/// The state of the decision about one thread.
#[derive(Default)]
pub(super) struct Judge {
    near: bool,
    /// Ticks without a request, while near.
    quiet: u32,
    /// When it last came or had to leave.
    since: Option<Instant>,
    /// How long it rests after it had to leave.
    pause: Duration,
    resting: bool,
}

impl Judge {
    pub(super) fn is_near(&self) -> bool {
        self.near
    }

    /// The decision of a thread that serves quick requests. `scheduled` counts since the last one.
    pub(super) fn serves(&mut self, now: Instant, scheduled: &Scheduled) -> Verdict {
        let late = scheduled.times > 0 && scheduled.waited >= LATE * scheduled.times;
        if self.near {
            return if late { self.contended(now) } else { Verdict::Stay };
        }
        if self.resting && self.elapsed(now) < self.pause {
            return Verdict::Stay;
        }
        if late {
            // Other programs are there already.
            self.rest(now);
            return Verdict::Stay;
        }
        *self = Judge { near: true, quiet: 0, since: Some(now), resting: false, ..*self };
        Verdict::Come
    }

    /// The decision after a tick, about a thread that is near and has served `quick` requests in
    /// it. `is_runnable` returns whether the thread runs or could.
    pub(super) fn watched(
        &mut self,
        now: Instant,
        quick: u64,
        scheduled: &Scheduled,
        is_runnable: impl FnOnce() -> bool,
    ) -> Verdict {
        if scheduled.times == 0 && scheduled.ran < TICK / 2 && is_runnable() {
            return self.contended(now);
        }
        self.quiet = if quick > 0 { 0 } else { self.quiet + 1 };
        if self.quiet < QUIET {
            return Verdict::Stay;
        }
        self.near = false;
        Verdict::Leave { contended: false }
    }

    fn elapsed(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::MAX, |since| now.saturating_duration_since(since))
    }

    fn contended(&mut self, now: Instant) -> Verdict {
        let calm = self.elapsed(now) >= 4 * self.pause;
        let pause = if calm { MIN_PAUSE } else { (2 * self.pause).min(MAX_PAUSE) };
        *self = Judge { near: false, since: Some(now), pause, resting: true, ..*self };
        Verdict::Leave { contended: true }
    }

    /// The thread cannot come to its client now: it rests.
    pub(super) fn rest(&mut self, now: Instant) {
        let pause = self.pause.max(MIN_PAUSE);
        *self = Judge { near: false, since: Some(now), pause, resting: true, ..*self };
    }

    /// The thread leaves by itself. Returns whether it was near.
    pub(super) fn left(&mut self) -> bool {
        std::mem::replace(&mut self.near, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that got a processor `times` times and waited for it for `waited` in all.
    fn scheduled(times: u32, waited: Duration) -> Scheduled {
        Scheduled { ran: Duration::from_micros(20) * times, waited, times }
    }

    /// A thread beside its client: short waits.
    const ALONE: Scheduled =
        Scheduled { ran: WINDOW, waited: Duration::from_micros(1250), times: 50 };
    const NOT_RUN: Scheduled = Scheduled { ran: Duration::ZERO, waited: Duration::ZERO, times: 0 };
    const UNUSED: fn() -> bool = || panic!("not needed");
    const CONTENDED: Verdict = Verdict::Leave { contended: true };

    fn near(now: Instant) -> Judge {
        let mut judge = Judge::default();
        assert_eq!(judge.serves(now, &ALONE), Verdict::Come);
        judge
    }

    #[test]
    fn a_quiet_thread_leaves() {
        let mut now = Instant::now();
        let mut judge = near(now);
        for round in 0..1000 {
            now += TICK;
            // Requests with less than a tenth of a second between them let it stay.
            let quick = u64::from(round % QUIET == 0);
            assert_eq!(judge.watched(now, quick, &NOT_RUN, || false), Verdict::Stay);
        }
        assert_eq!(judge.watched(now, 0, &NOT_RUN, || false), Verdict::Leave { contended: false });
        assert!(!judge.is_near());
        assert_eq!(judge.serves(now, &ALONE), Verdict::Come, "it need not rest");
    }

    #[test]
    fn a_thread_that_waits_for_its_processor_leaves() {
        let now = Instant::now();
        let serves = |scheduled| near(now).serves(now + WINDOW, &scheduled);
        assert_eq!(serves(ALONE), Verdict::Stay);
        assert_eq!(serves(scheduled(2, LATE * 2)), CONTENDED);
        assert_eq!(serves(scheduled(2, LATE * 2 - Duration::from_nanos(1))), Verdict::Stay);
        assert_eq!(serves(NOT_RUN), Verdict::Stay);
        let watched = |s, runnable| near(now).watched(now + TICK, 1, &s, || runnable);
        assert_eq!(watched(NOT_RUN, true), CONTENDED, "it could run and has not");
        assert_eq!(watched(NOT_RUN, false), Verdict::Stay, "it waits for a request");
        let long = Scheduled { ran: TICK, ..NOT_RUN };
        assert_eq!(near(now).watched(now + TICK, 1, &long, UNUSED), Verdict::Stay, "it has run");
    }

    #[test]
    fn pauses_grow_and_become_short_again() {
        let (mut judge, mut now) = (Judge::default(), Instant::now());
        // How long it rests after it came and starved at once, or after a while.
        let mut rested = |judge: &mut Judge, calm: Duration| {
            assert_eq!(judge.serves(now, &ALONE), Verdict::Come);
            now += calm;
            assert_eq!(judge.serves(now, &scheduled(1, LATE)), CONTENDED);
            let begin = now;
            while judge.serves(now, &ALONE) == Verdict::Stay {
                now += Duration::from_millis(1);
            }
            assert!(judge.left());
            (now - begin).as_millis()
        };
        let pauses: Vec<u128> = (0..8).map(|_| rested(&mut judge, WINDOW)).collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 2000, 2000, 2000, 2000]);
        assert_eq!(rested(&mut judge, 4 * MAX_PAUSE), 200);
        assert_eq!(rested(&mut judge, WINDOW), 400);
    }

    #[test]
    fn a_thread_that_cannot_follow_rests() {
        let now = Instant::now();
        let mut judge = near(now);
        judge.rest(now);
        assert!(!judge.left(), "it is not near any more");
        assert_eq!(judge.serves(now + WINDOW, &ALONE), Verdict::Stay);
        assert_eq!(judge.serves(now + MIN_PAUSE, &ALONE), Verdict::Come);
    }

    #[test]
    fn a_thread_does_not_come_where_others_are() {
        let (mut judge, now) = (Judge::default(), Instant::now());
        assert_eq!(judge.serves(now, &scheduled(2, LATE * 2)), Verdict::Stay);
        assert_eq!(judge.serves(now + WINDOW, &ALONE), Verdict::Stay, "it rests");
        assert_eq!(judge.serves(now + MIN_PAUSE, &ALONE), Verdict::Come);
    }
}
