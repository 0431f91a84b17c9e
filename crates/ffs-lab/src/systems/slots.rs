//! A table whose small numbers are reused.

/// A table of values under small numbers.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Adds `value` and returns its number.
    pub(super) fn insert(&mut self, value: T) -> usize {
        if let Some(at) = self.free.pop() {
            self.slots[at] = Some(value);
            return at;
        }
        self.slots.push(Some(value));
        self.slots.len() - 1
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.slots.get(at).and_then(Option::as_ref)
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        let value = self.slots.get_mut(at).and_then(Option::take);
        if value.is_some() {
            self.free.push(at);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slots = Slots::default();
        assert_eq!((slots.insert('a'), slots.insert('b')), (0, 1));
        assert_eq!(slots.remove(0), Some('a'));
        assert_eq!((slots.remove(0), slots.remove(7)), (None, None));
        assert_eq!(slots.get(0), None);
        assert_eq!((slots.insert('c'), slots.get(0), slots.get(1)), (0, Some(&'c'), Some(&'b')));
    }
}
