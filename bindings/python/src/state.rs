//! A volume that can be closed while files and listings of it exist.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::os_error;
use crate::path::FsPath;
use crate::process::Process;

/// Something of a volume that the end of the volume releases.
pub(crate) trait Release: Send + Sync {
    fn release(&self);
}

/// A value that can be taken away: a file until it is closed.
pub(crate) struct Slot<T> {
    value: Mutex<Option<T>>,
    process: Process,
}

impl<T> Slot<T> {
    /// The value. A thread that panicked has left it usable: the core keeps its own invariants.
    ///
    /// # Errors
    /// This is another process than the one that opened the volume.
    pub(crate) fn lock(&self) -> PyResult<MutexGuard<'_, Option<T>>> {
        self.process.check()?;
        Ok(self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the value was taken away. Another process does not wait for the lock.
    pub(crate) fn is_empty(&self) -> bool {
        match self.lock() {
            Ok(value) => value.is_none(),
            Err(_) => self.value.try_lock().is_ok_and(|value| value.is_none()),
        }
    }
}

impl<T: Send> Release for Slot<T> {
    fn release(&self) {
        // In another process the value stays until the slot is dropped.
        if let Ok(mut value) = self.lock() {
            drop(value.take());
        }
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.process.drop_own(value);
    }
}

/// The shared state of a volume.
pub(crate) struct State {
    volume: RwLock<Option<bsdffs::Volume>>,
    users: Mutex<Vec<Weak<dyn Release>>>,
    process: Process,
}

impl Drop for State {
    fn drop(&mut self) {
        let volume = self.volume.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.process.drop_own(volume);
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the volume is closed")
}

impl State {
    pub(crate) fn new(volume: bsdffs::Volume) -> State {
        State {
            volume: RwLock::new(Some(volume)),
            users: Mutex::new(Vec::new()),
            process: Process::current(),
        }
    }

    /// The process that opened the volume.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    pub(crate) fn is_closed(&self) -> bool {
        if self.process.is_other() {
            return self.volume.try_read().is_ok_and(|volume| volume.is_none());
        }
        self.volume.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn volume(&self) -> Option<bsdffs::Volume> {
        self.volume.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `work` on the volume without the interpreter lock. An error names `paths`.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        paths: &[&FsPath],
        work: impl FnOnce(&bsdffs::Volume) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        self.process.check()?;
        let done = py.detach(|| self.volume().map(|volume| work(&volume)));
        done.ok_or_else(closed)?.map_err(|error| os_error(py, &error, paths))
    }

    /// Puts `value` into a slot that the end of the volume empties.
    pub(crate) fn register<T: Send + 'static>(&self, value: T) -> Arc<Slot<T>> {
        let slot = Arc::new(Slot { value: Mutex::new(Some(value)), process: self.process });
        let user: Weak<dyn Release> = Arc::downgrade(&(Arc::clone(&slot) as Arc<dyn Release>));
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        // The list is cleaned when it would grow, so its length stays below twice the users.
        if users.len() == users.capacity() {
            users.retain(|user| user.strong_count() > 0);
        }
        users.push(user);
        drop(users);
        // The volume may have been closed since its user was made.
        if self.is_closed() {
            slot.release();
        }
        slot
    }

    /// Unmounts the volume and releases its users. After an error it stays open.
    pub(crate) fn close(&self) -> io::Result<()> {
        if let Some(volume) = self.volume() {
            volume.close()?;
        }
        drop(self.volume.write().unwrap_or_else(PoisonError::into_inner).take());
        let users = std::mem::take(&mut *self.users.lock().unwrap_or_else(PoisonError::into_inner));
        users.iter().filter_map(Weak::upgrade).for_each(|user| user.release());
        Ok(())
    }
}
