//! Memory for many small things that come and go.
//!
//! It grows and shrinks by pieces of a fixed size: nothing is ever copied to another place, so no operation
//! pays for those before it.
//!
//! # Invariants
//! 1. A key of what is gone is never mistaken for a later thing in the same place: each taking has a
//!    number of its own.
//! 2. A piece is among the `roomy` exactly if it has a free place. At most one of them holds memory for
//!    nothing.

use std::num::NonZeroU32;

/// Places in a piece.
const PIECE: u32 = 256;

/// The name of a thing; ordered by place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Id {
    place: u32,
    taken: NonZeroU32,
}

impl Id {
    /// Where it is: for those who know when it goes.
    pub(super) fn place(self) -> u32 {
        self.place
    }
}

#[derive(Debug)]
pub(super) enum Place<T> {
    /// The next free place of the piece.
    Free(Option<u8>),
    Taken(NonZeroU32, T),
}

#[derive(Debug)]
struct Piece<T> {
    places: Vec<Place<T>>,
    free: Option<u8>,
    live: u32,
}

impl<T> Piece<T> {
    fn has_room(&self) -> bool {
        self.live < PIECE
    }

    /// Takes a place; there is one.
    #[inline]
    fn take(&mut self, with: Place<T>) -> u8 {
        self.live += 1;
        if let Some(free) = self.free
            && let Some(at) = self.places.get_mut(usize::from(free))
        {
            if let Place::Free(next) = at {
                self.free = *next;
            }
            *at = with;
            return free;
        }
        if self.places.capacity() == 0 {
            self.places.reserve_exact(PIECE as usize);
        }
        self.places.push(with);
        (self.places.len() - 1) as u8
    }
}

/// Things of one kind.
#[derive(Debug)]
pub(super) struct Arena<T> {
    pieces: Vec<Piece<T>>,
    roomy: Vec<u32>,
    len: usize,
    /// How often a place was taken.
    taken: NonZeroU32,
}

impl<T> Arena<T> {
    pub(super) fn new() -> Arena<T> {
        Arena { pieces: Vec::new(), roomy: Vec::new(), len: 0, taken: NonZeroU32::MIN }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes a place for `thing`.
    #[inline]
    pub(super) fn insert(&mut self, thing: T) -> Id {
        let taken = self.taken;
        self.taken = taken.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.len += 1;
        let number = match self.roomy.last() {
            Some(number) => *number,
            None => {
                let number = self.pieces.len() as u32;
                self.pieces.push(Piece { places: Vec::new(), free: None, live: 0 });
                self.roomy.push(number);
                number
            }
        };
        let piece = &mut self.pieces[number as usize];
        let within = piece.take(Place::Taken(taken, thing));
        if !piece.has_room() {
            self.roomy.pop();
        }
        Id { place: number * PIECE + u32::from(within), taken }
    }

    #[inline]
    fn taken(&self, place: u32) -> Option<(NonZeroU32, &T)> {
        let piece = self.pieces.get((place / PIECE) as usize)?;
        match piece.places.get((place % PIECE) as usize)? {
            Place::Taken(taken, thing) => Some((*taken, thing)),
            Place::Free(_) => None,
        }
    }

    #[inline]
    fn taken_mut(&mut self, place: u32) -> Option<(NonZeroU32, &mut T)> {
        let piece = self.pieces.get_mut((place / PIECE) as usize)?;
        match piece.places.get_mut((place % PIECE) as usize)? {
            Place::Taken(taken, thing) => Some((*taken, thing)),
            Place::Free(_) => None,
        }
    }

    #[inline]
    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.taken(id.place).filter(|(taken, _)| *taken == id.taken).map(|(_, thing)| thing)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.taken_mut(id.place).filter(|(taken, _)| *taken == id.taken).map(|(_, thing)| thing)
    }

    /// What has this place now.
    #[inline]
    pub(super) fn at(&self, place: u32) -> Option<&T> {
        self.taken(place).map(|(_, thing)| thing)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, place: u32) -> Option<&mut T> {
        self.taken_mut(place).map(|(_, thing)| thing)
    }

    pub(super) fn contains_key(&self, id: Id) -> bool {
        self.get(id).is_some()
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        self.get(id)?;
        self.remove_at(id.place)
    }

    /// As [`Arena::remove`], of what has this place now.
    pub(super) fn remove_at(&mut self, place: u32) -> Option<T> {
        self.at(place)?;
        let (number, within) = (place / PIECE, place % PIECE);
        let piece = self.pieces.get_mut(number as usize)?;
        let place = piece.places.get_mut(within as usize)?;
        let was = std::mem::replace(place, Place::Free(piece.free));
        piece.free = Some(within as u8);
        if !piece.has_room() {
            self.roomy.push(number);
        }
        piece.live -= 1;
        self.len -= 1;
        if piece.live == 0 && self.len > 0 {
            (piece.places, piece.free) = (Vec::new(), None);
        }
        match was {
            Place::Taken(_, thing) => Some(thing),
            Place::Free(_) => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.pieces.iter().zip(0u32..).flat_map(|(piece, number)| {
            piece.places.iter().zip(number * PIECE..).filter_map(|(at, place)| match at {
                Place::Taken(taken, thing) => Some((Id { place, taken: *taken }, thing)),
                Place::Free(_) => None,
            })
        })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, thing)| thing)
    }

    /// Memory, without what the things themselves have elsewhere.
    pub(super) fn bytes(&self) -> usize {
        let places = self.pieces.iter().map(|piece| piece.places.capacity()).sum::<usize>();
        places * size_of::<Place<T>>()
            + self.pieces.capacity() * size_of::<Piece<T>>()
            + self.roomy.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_device::{Rng, SplitMix64};
    use std::collections::BTreeMap;

    #[test]
    fn a_key_names_one_thing_and_memory_is_given_back() {
        let (mut a, mut model, mut gone) = (Arena::new(), BTreeMap::new(), Vec::new());
        let rng = SplitMix64::new(0xa2e4a);
        for n in 0..60_000u64 {
            // More and more at first, then less and less.
            if rng.below(60_000) > n || model.is_empty() {
                let id = a.insert(n);
                assert_eq!(model.insert(id, n), None);
            } else {
                let nth = rng.below(model.len().min(500) as u64) as usize;
                let id = *model.keys().nth(nth).unwrap();
                assert_eq!(a.remove(id), model.remove(&id));
                gone.push(id);
            }
            assert_eq!(a.len(), model.len());
        }
        for (&id, n) in &model {
            assert_eq!(a.get(id), Some(n));
        }
        assert_eq!(a.values().count(), model.len());
        for id in model.into_keys() {
            a.remove(id);
        }
        assert!(a.bytes() <= PIECE as usize * size_of::<Place<u64>>() + 16384, "{}", a.bytes());
        let new: Vec<Id> = (0..1000).map(|n| a.insert(n)).collect();
        assert!(gone.iter().all(|&id| !a.contains_key(id) && !new.contains(&id)));
    }
}
