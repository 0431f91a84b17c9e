//! A list that most often has one element. It is as large as two pointers, and does not allocate
//! for one element.

use std::ops::{Deref, DerefMut};

/// A list: empty, one element, or a vector.
#[derive(Clone, Debug)]
#[allow(clippy::box_collection, reason = "a vector is three pointers")]
pub(super) enum SmallList<T> {
    One(T),
    /// No element, or any number.
    Many(Option<Box<Vec<T>>>),
}

impl<T> Default for SmallList<T> {
    #[inline]
    fn default() -> SmallList<T> {
        SmallList::EMPTY
    }
}

impl<T> Deref for SmallList<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            SmallList::One(one) => std::slice::from_ref(one),
            SmallList::Many(Some(all)) => all,
            SmallList::Many(None) => &[],
        }
    }
}

impl<T> DerefMut for SmallList<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            SmallList::One(one) => std::slice::from_mut(one),
            SmallList::Many(Some(all)) => all,
            SmallList::Many(None) => &mut [],
        }
    }
}

impl<T> SmallList<T> {
    pub(super) const EMPTY: SmallList<T> = SmallList::Many(None);

    pub(super) fn push(&mut self, element: T) {
        match self {
            SmallList::Many(Some(all)) => all.push(element),
            SmallList::Many(None) => *self = SmallList::One(element),
            SmallList::One(_) => {
                if let SmallList::One(first) = std::mem::take(self) {
                    *self = SmallList::Many(Some(Box::new(vec![first, element])));
                }
            }
        }
    }

    /// Removes the element at index `at`, if there is one.
    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        match self {
            SmallList::Many(Some(all)) if at < all.len() => Some(all.remove(at)),
            SmallList::One(_) if at == 0 => match std::mem::take(self) {
                SmallList::One(one) => Some(one),
                SmallList::Many(_) => None,
            },
            _ => None,
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.remove(self.len().wrapping_sub(1))
    }

    /// Keeps the elements for which `keep` holds, in their order.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        match self {
            SmallList::Many(Some(all)) => all.retain(keep),
            SmallList::One(one) if !keep(one) => *self = SmallList::default(),
            SmallList::One(_) | SmallList::Many(None) => {}
        }
    }

    /// Bytes that the list allocated.
    pub(super) fn bytes(&self) -> usize {
        match self {
            SmallList::Many(Some(all)) => size_of::<Vec<T>>() + all.capacity() * size_of::<T>(),
            SmallList::One(_) | SmallList::Many(None) => 0,
        }
    }
}

impl<T> IntoIterator for SmallList<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, all) = match self {
            SmallList::One(one) => (Some(one), Vec::new()),
            SmallList::Many(all) => (None, all.map(|all| *all).unwrap_or_default()),
        };
        one.into_iter().chain(all)
    }
}

impl<T> Extend<T> for SmallList<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        more.into_iter().for_each(|element| self.push(element));
    }
}

impl<T> FromIterator<T> for SmallList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(from: I) -> SmallList<T> {
        let mut list = SmallList::default();
        list.extend(from);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_device::{Rng, SplitMix64};

    #[test]
    fn as_a_vector() {
        let (mut list, mut model) = (SmallList::default(), Vec::new());
        let rng = SplitMix64::new(0x115);
        for n in 0..20_000u64 {
            match rng.below(5) {
                0 | 1 => {
                    list.push(n);
                    model.push(n);
                }
                2 if !model.is_empty() => {
                    let at = rng.below(model.len() as u64) as usize;
                    assert_eq!(list.remove(at), Some(model.remove(at)));
                }
                3 => assert_eq!(list.pop(), model.pop()),
                4 => {
                    let which = rng.below(4);
                    list.retain(|x| x % 4 != which);
                    model.retain(|x| x % 4 != which);
                }
                _ => assert_eq!(list.remove(0), None),
            }
            assert_eq!(*list, *model);
            if model.len() > 6 {
                model.truncate(1);
                list = model.iter().copied().collect();
            }
            assert_eq!(list.clone().into_iter().collect::<Vec<_>>(), model);
        }
    }
}
