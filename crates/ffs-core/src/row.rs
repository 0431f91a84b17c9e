//! A row of places for things whose numbers are neighbours, and how many of them are there.

use crate::prefetch;

/// A row of `N` places.
#[derive(Debug)]
pub(crate) struct Row<T, const N: usize> {
    all: [Option<T>; N],
    len: u32,
}

impl<T, const N: usize> Default for Row<T, N> {
    fn default() -> Row<T, N> {
        Row { all: [const { None }; N], len: 0 }
    }
}

impl<T, const N: usize> Row<T, N> {
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.all.get(at)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.all.get_mut(at)?.as_mut()
    }

    /// What is at a place of the row, made if there is nothing.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, at: usize, make: impl FnOnce() -> T) -> &mut T {
        let Row { all, len } = self;
        all[at].get_or_insert_with(|| {
            *len += 1;
            make()
        })
    }

    /// Puts a thing at a place of the row; what was there.
    pub(crate) fn put(&mut self, at: usize, thing: T) -> Option<T> {
        let before = self.all[at].replace(thing);
        self.len += u32::from(before.is_none());
        before
    }

    pub(crate) fn take(&mut self, at: usize) -> Option<T> {
        let taken = self.all.get_mut(at)?.take()?;
        self.len -= 1;
        Some(taken)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().flatten()
    }

    /// What is at `at` will be looked for or taken out.
    pub(crate) fn prefetch(&self, at: usize) {
        self.all.get(at).inspect(|place| prefetch::line(*place));
        prefetch::line(&self.len);
    }
}
