//! Locks without poisoning. They are in one module so that a model checker can replace them.
//!
//! A thread that panics while it holds a lock leaves at worst an incomplete change in memory. Every
//! structure is validated when it is used, so other threads may continue.
//!
//! With the cargo feature `schedule` a thread may have a [`schedule::Scheduler`]. Before such a
//! thread takes a lock it calls the scheduler, and it never blocks on a lock. Programs for users do
//! not contain this code; builds of the tests of the whole workspace do.

pub(crate) use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use std::sync::{PoisonError, TryLockError};

/// Mutual exclusion.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(v: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(v))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(feature = "schedule")]
        if let Some(guard) = schedule::take(schedule::LockId::of(self), || self.try_lock()) {
            return guard;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(g) => Some(g),
            Err(TryLockError::Poisoned(p)) => Some(p.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Lets other threads run for a moment.
pub(crate) fn pause() {
    #[cfg(feature = "schedule")]
    if schedule::is_followed() {
        return schedule::step(schedule::Step::Blocked(None));
    }
    std::thread::sleep(std::time::Duration::from_millis(1));
}

/// Waiting for another thread to change the data of a [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Releases the lock of `mutex`, waits for a notification, and takes the lock again. It may
    /// also return without a notification.
    #[cfg_attr(not(feature = "schedule"), expect(unused_variables, reason = "the guard has it"))]
    pub(crate) fn wait<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        #[cfg(feature = "schedule")]
        if schedule::is_followed() {
            drop(guard);
            schedule::step(schedule::Step::Blocked(None));
            return mutex.lock();
        }
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Many readers or one writer.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(v: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(v))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        #[cfg(feature = "schedule")]
        if let Some(guard) = schedule::take(schedule::LockId::of(self), || self.try_read()) {
            return guard;
        }
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.0.try_read() {
            Ok(g) => Some(g),
            Err(TryLockError::Poisoned(p)) => Some(p.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.0.try_write() {
            Ok(g) => Some(g),
            Err(TryLockError::Poisoned(p)) => Some(p.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        #[cfg(feature = "schedule")]
        if let Some(guard) = schedule::take(schedule::LockId::of(self), || self.try_write()) {
            return guard;
        }
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads that run one at a time, in an order that a [`Scheduler`](schedule::Scheduler) decides.
#[cfg(feature = "schedule")]
pub mod schedule {
    use std::cell::RefCell;
    use std::sync::Arc;

    /// A lock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct LockId {
        /// Its address.
        pub address: usize,
        /// The type of the lock.
        pub name: &'static str,
    }

    impl LockId {
        pub(super) fn of<L>(lock: &L) -> LockId {
            let address = std::ptr::from_ref(lock).addr();
            LockId { address, name: std::any::type_name::<L>() }
        }
    }

    /// The next action of a thread.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Step {
        /// Take a lock.
        Lock(LockId),
        /// Try again to take a lock that another thread holds, or look again for a change that it
        /// makes.
        Blocked(Option<LockId>),
        /// Begin or end a transfer to or from the device.
        Transfer,
    }

    /// Decides which thread runs.
    pub trait Scheduler {
        /// Returns when the calling thread may take this step.
        fn step(&self, step: Step);
    }

    thread_local! {
        static MINE: RefCell<Option<Arc<dyn Scheduler>>> = const { RefCell::new(None) };
    }

    /// Sets the scheduler of the calling thread; `None` removes it.
    pub fn follow(scheduler: Option<Arc<dyn Scheduler>>) {
        MINE.set(scheduler);
    }

    /// Whether the calling thread has a scheduler.
    pub(super) fn is_followed() -> bool {
        MINE.with_borrow(Option::is_some)
    }

    /// Waits until the calling thread may take this step. Does nothing for a thread without a
    /// scheduler.
    pub fn step(step: Step) {
        let mine = MINE.with_borrow(Clone::clone);
        if let Some(scheduler) = mine {
            scheduler.step(step);
        }
    }

    /// Takes a lock with `attempt`; `None` for a thread without a scheduler.
    pub(super) fn take<G>(lock: LockId, mut attempt: impl FnMut() -> Option<G>) -> Option<G> {
        let scheduler = MINE.with_borrow(Clone::clone)?;
        scheduler.step(Step::Lock(lock));
        loop {
            if let Some(guard) = attempt() {
                return Some(guard);
            }
            scheduler.step(Step::Blocked(Some(lock)));
        }
    }
}
