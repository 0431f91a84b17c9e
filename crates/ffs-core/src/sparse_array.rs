//! An array of optional values for neighbouring numbers, with the number of values that it has.

use crate::prefetch;

/// An array of `N` places, each with a value or without.
#[derive(Debug)]
pub(crate) struct SparseArray<T, const N: usize> {
    places: [Option<T>; N],
    len: u32,
}

impl<T, const N: usize> Default for SparseArray<T, N> {
    fn default() -> SparseArray<T, N> {
        SparseArray { places: [const { None }; N], len: 0 }
    }
}

impl<T, const N: usize> SparseArray<T, N> {
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.places.get(at)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.places.get_mut(at)?.as_mut()
    }

    /// The value at `at`, made by `make` if there is none.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, at: usize, make: impl FnOnce() -> T) -> &mut T {
        let SparseArray { places, len } = self;
        places[at].get_or_insert_with(|| {
            *len += 1;
            make()
        })
    }

    /// Sets the value at `at`. Returns the value before.
    pub(crate) fn insert(&mut self, at: usize, value: T) -> Option<T> {
        let before = self.places[at].replace(value);
        self.len += u32::from(before.is_none());
        before
    }

    /// Removes the value at `at`.
    pub(crate) fn take(&mut self, at: usize) -> Option<T> {
        let taken = self.places.get_mut(at)?.take()?;
        self.len -= 1;
        Some(taken)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// Prefetches the cache lines that an access to `at` needs.
    pub(crate) fn prefetch(&self, at: usize) {
        self.places.get(at).inspect(|place| prefetch::line(*place));
        prefetch::line(&self.len);
    }
}
