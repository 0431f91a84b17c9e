//! A list that most often has one element: no bigger than two pointers, and one element needs no memory of
//! its own.

use std::ops::{Deref, DerefMut};

/// A list.
#[derive(Clone, Debug)]
#[allow(clippy::box_collection, reason = "a vector is three pointers")]
pub(super) enum List<T> {
    One(T),
    /// None, or as many as there are.
    Many(Option<Box<Vec<T>>>),
}

impl<T> Default for List<T> {
    #[inline]
    fn default() -> List<T> {
        List::EMPTY
    }
}

impl<T> Deref for List<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            List::One(one) => std::slice::from_ref(one),
            List::Many(Some(all)) => all,
            List::Many(None) => &[],
        }
    }
}

impl<T> DerefMut for List<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            List::One(one) => std::slice::from_mut(one),
            List::Many(Some(all)) => all,
            List::Many(None) => &mut [],
        }
    }
}

impl<T> List<T> {
    pub(super) const EMPTY: List<T> = List::Many(None);

    pub(super) fn push(&mut self, element: T) {
        match self {
            List::Many(Some(all)) => all.push(element),
            List::Many(None) => *self = List::One(element),
            List::One(_) => {
                if let List::One(first) = std::mem::take(self) {
                    *self = List::Many(Some(Box::new(vec![first, element])));
                }
            }
        }
    }

    /// Takes out the element at `at`, if there is one.
    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        match self {
            List::Many(Some(all)) if at < all.len() => Some(all.remove(at)),
            List::One(_) if at == 0 => match std::mem::take(self) {
                List::One(one) => Some(one),
                List::Many(_) => None,
            },
            _ => None,
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.remove(self.len().wrapping_sub(1))
    }

    /// Keeps what `keep` says, in its order.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        match self {
            List::Many(Some(all)) => all.retain(keep),
            List::One(one) if !keep(one) => *self = List::default(),
            List::One(_) | List::Many(None) => {}
        }
    }

    /// Bytes that are not in its owner.
    pub(super) fn bytes(&self) -> usize {
        match self {
            List::Many(Some(all)) => size_of::<Vec<T>>() + all.capacity() * size_of::<T>(),
            List::One(_) | List::Many(None) => 0,
        }
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, all) = match self {
            List::One(one) => (Some(one), Vec::new()),
            List::Many(all) => (None, all.map(|all| *all).unwrap_or_default()),
        };
        one.into_iter().chain(all)
    }
}

impl<T> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
        more.into_iter().for_each(|element| self.push(element));
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(from: I) -> List<T> {
        let mut list = List::default();
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
        let (mut list, mut model) = (List::default(), Vec::new());
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
