//! A set that most often has one element. It is as large as two pointers, and does not allocate for
//! one element. Few elements are in a vector, in the order of their insertion; many are in a tree.
//!
//! # Invariants
//! 1. No two elements compare as equal.
//! 2. The cost of an operation on one element grows with the logarithm of the number of elements.

use super::heap::tree_bytes;
use std::collections::{BTreeSet, btree_set};

/// Most elements of a vector: a search reads a few cache lines.
const FEW: usize = 32;
/// A tree with so few elements becomes a vector again.
const FEW_AGAIN: usize = FEW / 2;

/// A set. `Ord` decides which elements are equal, so an element may hold more than its key.
#[derive(Clone, Debug)]
pub(super) enum SmallSet<T> {
    One(T),
    /// No element, or any number.
    Larger(Option<Box<Larger<T>>>),
}

#[derive(Clone, Debug)]
pub(super) enum Larger<T> {
    Few(Vec<T>),
    Many(BTreeSet<T>),
}

impl<T> Default for SmallSet<T> {
    #[inline]
    fn default() -> SmallSet<T> {
        SmallSet::EMPTY
    }
}

impl<T> SmallSet<T> {
    pub(super) const EMPTY: SmallSet<T> = SmallSet::Larger(None);

    pub(super) fn len(&self) -> usize {
        match self {
            SmallSet::One(_) => 1,
            SmallSet::Larger(None) => 0,
            SmallSet::Larger(Some(larger)) => match &**larger {
                Larger::Few(few) => few.len(),
                Larger::Many(tree) => tree.len(),
            },
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn iter(&self) -> Iter<'_, T> {
        match self {
            SmallSet::One(one) => Iter::Few(std::slice::from_ref(one).iter()),
            SmallSet::Larger(None) => Iter::Few([].iter()),
            SmallSet::Larger(Some(larger)) => match &**larger {
                Larger::Few(few) => Iter::Few(few.iter()),
                Larger::Many(tree) => Iter::Many(tree.iter()),
            },
        }
    }

    /// Bytes that the set allocated.
    pub(super) fn bytes(&self) -> usize {
        // One element, or none, is in the set itself.
        let SmallSet::Larger(Some(larger)) = self else { return 0 };
        let elements = match &**larger {
            Larger::Few(few) => few.capacity() * size_of::<T>(),
            Larger::Many(tree) => tree_bytes::<T, ()>(tree.len()),
        };
        size_of::<Larger<T>>() + elements
    }
}

impl<T: Ord> SmallSet<T> {
    /// The element that is equal to `like`.
    pub(super) fn get(&self, like: &T) -> Option<&T> {
        match self {
            SmallSet::One(one) => Some(one).filter(|e| *e == like),
            SmallSet::Larger(None) => None,
            SmallSet::Larger(Some(larger)) => match &**larger {
                Larger::Few(few) => few.iter().find(|e| *e == like),
                Larger::Many(tree) => tree.get(like),
            },
        }
    }

    pub(super) fn contains(&self, like: &T) -> bool {
        self.get(like).is_some()
    }

    /// Adds the element, or puts it in the place of an equal one, which it returns.
    pub(super) fn replace(&mut self, element: T) -> Option<T> {
        match self {
            SmallSet::Larger(Some(larger)) => return larger.replace(element),
            SmallSet::Larger(None) => *self = SmallSet::One(element),
            SmallSet::One(one) if *one == element => return Some(std::mem::replace(one, element)),
            SmallSet::One(_) => {
                if let SmallSet::One(first) = std::mem::take(self) {
                    *self = SmallSet::Larger(Some(Box::new(Larger::Few(vec![first, element]))));
                }
            }
        }
        None
    }

    /// Removes the element that is equal to `like`.
    pub(super) fn remove(&mut self, like: &T) -> Option<T> {
        match self {
            SmallSet::Larger(Some(larger)) => larger.remove(like),
            SmallSet::One(one) if one == like => match std::mem::take(self) {
                SmallSet::One(one) => Some(one),
                SmallSet::Larger(_) => None,
            },
            SmallSet::Larger(None) | SmallSet::One(_) => None,
        }
    }

    /// Keeps the elements for which `keep` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        match self {
            SmallSet::Larger(Some(larger)) => match &mut **larger {
                Larger::Few(few) => few.retain(keep),
                Larger::Many(tree) => tree.retain(keep),
            },
            SmallSet::One(one) if !keep(one) => *self = SmallSet::default(),
            SmallSet::One(_) | SmallSet::Larger(None) => {}
        }
    }
}

impl<T: Ord> Larger<T> {
    fn replace(&mut self, element: T) -> Option<T> {
        match self {
            Larger::Many(tree) => tree.replace(element),
            Larger::Few(few) => {
                if let Some(there) = few.iter_mut().find(|e| **e == element) {
                    return Some(std::mem::replace(there, element));
                }
                if few.len() < FEW {
                    few.push(element);
                } else {
                    *self = Larger::Many(few.drain(..).chain([element]).collect());
                }
                None
            }
        }
    }

    fn remove(&mut self, like: &T) -> Option<T> {
        match self {
            Larger::Few(few) => {
                let at = few.iter().position(|e| e == like)?;
                Some(few.remove(at))
            }
            Larger::Many(tree) => {
                let taken = tree.take(like);
                if tree.len() <= FEW_AGAIN {
                    *self = Larger::Few(std::mem::take(tree).into_iter().collect());
                }
                taken
            }
        }
    }
}

/// Iterates over the elements of a set.
pub(super) enum Iter<'a, T> {
    Few(std::slice::Iter<'a, T>),
    Many(btree_set::Iter<'a, T>),
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;
    fn next(&mut self) -> Option<&'a T> {
        match self {
            Iter::Few(few) => few.next(),
            Iter::Many(many) => many.next(),
        }
    }
}

impl<T> IntoIterator for SmallSet<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<
        std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>,
        btree_set::IntoIter<T>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        let (one, few, many) = match self {
            SmallSet::One(one) => (Some(one), Vec::new(), BTreeSet::new()),
            SmallSet::Larger(None) => (None, Vec::new(), BTreeSet::new()),
            SmallSet::Larger(Some(larger)) => match *larger {
                Larger::Few(few) => (None, few, BTreeSet::new()),
                Larger::Many(tree) => (None, Vec::new(), tree),
            },
        };
        one.into_iter().chain(few).chain(many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_device::{Rng, SplitMix64};
    use std::cmp::Ordering;

    /// Equal by `key` alone.
    #[derive(Clone, Copy, Debug)]
    struct Keyed {
        key: u64,
        with: u64,
    }

    impl Ord for Keyed {
        fn cmp(&self, other: &Keyed) -> Ordering {
            self.key.cmp(&other.key)
        }
    }
    impl PartialOrd for Keyed {
        fn partial_cmp(&self, other: &Keyed) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    impl PartialEq for Keyed {
        fn eq(&self, other: &Keyed) -> bool {
            self.key == other.key
        }
    }
    impl Eq for Keyed {}

    #[test]
    fn as_a_map() {
        let (mut set, mut model) = (SmallSet::default(), std::collections::BTreeMap::new());
        let rng = SplitMix64::new(0x5e7);
        for n in 0..40_000u64 {
            // Sets of one element, of a few, and of many by turns.
            let keys = [2, 24, 200][(n / 500 % 3) as usize];
            let like = Keyed { key: rng.below(keys), with: n };
            match rng.below(6) {
                0..=2 => {
                    let before = set.replace(like).map(|k| k.with);
                    assert_eq!(before, model.insert(like.key, n));
                }
                3 | 4 => {
                    assert_eq!(set.remove(&like).map(|k| k.with), model.remove(&like.key));
                }
                _ if rng.below(20) == 0 => {
                    set.retain(|k| k.key % 3 != 0);
                    model.retain(|key, _| key % 3 != 0);
                }
                _ => assert_eq!(set.get(&like).map(|k| k.with), model.get(&like.key).copied()),
            }
            assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            let mut all: Vec<_> = set.iter().map(|k| (k.key, k.with)).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(model.iter().map(|(k, v)| (*k, *v))));
            let mut owned: Vec<_> = set.clone().into_iter().map(|k| (k.key, k.with)).collect();
            owned.sort_unstable();
            assert_eq!(owned, all);
        }
    }
}
