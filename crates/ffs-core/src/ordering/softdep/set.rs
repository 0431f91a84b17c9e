//! A set that most often has one element: no bigger than two pointers, and one element needs no memory of
//! its own. Few elements are in a vector, in the order of their insertion; many are in a tree.
//!
//! # Invariants
//! 1. No two elements compare as equal.
//! 2. The cost of an operation on one element grows with the logarithm of the number of elements.

use std::collections::{BTreeSet, btree_set};

/// Elements at most in a vector: a search reads a few lines of memory.
const FEW: usize = 32;
/// Elements left in a tree that becomes a vector again.
const FEW_AGAIN: usize = FEW / 2;

/// A set. The order of elements decides which are the same: an element may hold more than its key.
#[derive(Clone, Debug)]
pub(super) enum Set<T> {
    One(T),
    /// None, or as many as there are.
    More(Option<Box<More<T>>>),
}

#[derive(Clone, Debug)]
pub(super) enum More<T> {
    Few(Vec<T>),
    Many(BTreeSet<T>),
}

impl<T> Default for Set<T> {
    #[inline]
    fn default() -> Set<T> {
        Set::EMPTY
    }
}

impl<T> Set<T> {
    pub(super) const EMPTY: Set<T> = Set::More(None);

    pub(super) fn len(&self) -> usize {
        match self {
            Set::One(_) => 1,
            Set::More(None) => 0,
            Set::More(Some(more)) => match &**more {
                More::Few(few) => few.len(),
                More::Many(tree) => tree.len(),
            },
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn iter(&self) -> Iter<'_, T> {
        match self {
            Set::One(one) => Iter::Few(std::slice::from_ref(one).iter()),
            Set::More(None) => Iter::Few([].iter()),
            Set::More(Some(more)) => match &**more {
                More::Few(few) => Iter::Few(few.iter()),
                More::Many(tree) => Iter::Many(tree.iter()),
            },
        }
    }

    /// Bytes that are not in its owner; nodes of a tree may be half empty.
    pub(super) fn bytes(&self) -> usize {
        let Set::More(Some(more)) = self else { return 0 };
        let elements = match &**more {
            More::Few(few) => few.capacity(),
            More::Many(tree) => 2 * tree.len(),
        };
        size_of::<More<T>>() + elements * size_of::<T>()
    }
}

impl<T: Ord> Set<T> {
    /// The element that compares as equal to `like`.
    pub(super) fn get(&self, like: &T) -> Option<&T> {
        match self {
            Set::One(one) => Some(one).filter(|e| *e == like),
            Set::More(None) => None,
            Set::More(Some(more)) => match &**more {
                More::Few(few) => few.iter().find(|e| *e == like),
                More::Many(tree) => tree.get(like),
            },
        }
    }

    pub(super) fn contains(&self, like: &T) -> bool {
        self.get(like).is_some()
    }

    /// Adds the element, in the place of an equal one. Returns that.
    pub(super) fn replace(&mut self, element: T) -> Option<T> {
        match self {
            Set::More(Some(more)) => return more.replace(element),
            Set::More(None) => *self = Set::One(element),
            Set::One(one) if *one == element => return Some(std::mem::replace(one, element)),
            Set::One(_) => {
                if let Set::One(first) = std::mem::take(self) {
                    *self = Set::More(Some(Box::new(More::Few(vec![first, element]))));
                }
            }
        }
        None
    }

    /// Takes out the element that compares as equal to `like`.
    pub(super) fn remove(&mut self, like: &T) -> Option<T> {
        match self {
            Set::More(Some(more)) => more.remove(like),
            Set::One(one) if one == like => match std::mem::take(self) {
                Set::One(one) => Some(one),
                Set::More(_) => None,
            },
            Set::More(None) | Set::One(_) => None,
        }
    }

    /// Keeps the elements for which `keep` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        match self {
            Set::More(Some(more)) => match &mut **more {
                More::Few(few) => few.retain(keep),
                More::Many(tree) => tree.retain(keep),
            },
            Set::One(one) if !keep(one) => *self = Set::default(),
            Set::One(_) | Set::More(None) => {}
        }
    }
}

impl<T: Ord> More<T> {
    fn replace(&mut self, element: T) -> Option<T> {
        match self {
            More::Many(tree) => tree.replace(element),
            More::Few(few) => {
                if let Some(there) = few.iter_mut().find(|e| **e == element) {
                    return Some(std::mem::replace(there, element));
                }
                if few.len() < FEW {
                    few.push(element);
                } else {
                    *self = More::Many(few.drain(..).chain([element]).collect());
                }
                None
            }
        }
    }

    fn remove(&mut self, like: &T) -> Option<T> {
        match self {
            More::Few(few) => {
                let at = few.iter().position(|e| e == like)?;
                Some(few.remove(at))
            }
            More::Many(tree) => {
                let taken = tree.take(like);
                if tree.len() <= FEW_AGAIN {
                    *self = More::Few(std::mem::take(tree).into_iter().collect());
                }
                taken
            }
        }
    }
}

/// The elements of a set.
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

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<
        std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>,
        btree_set::IntoIter<T>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        let (one, few, many) = match self {
            Set::One(one) => (Some(one), Vec::new(), BTreeSet::new()),
            Set::More(None) => (None, Vec::new(), BTreeSet::new()),
            Set::More(Some(more)) => match *more {
                More::Few(few) => (None, few, BTreeSet::new()),
                More::Many(tree) => (None, Vec::new(), tree),
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
        let (mut set, mut model) = (Set::default(), std::collections::BTreeMap::new());
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
