//! Passing over chunks at a glance: whether the bytes of a name occur in a chunk at all, and whether
//! it can have room, is told many times faster than by walking its records.
//!
//! # Invariants
//! 1. Only chunks that a walk has found sound are passed over, so that damage is met by the first
//!    search that would meet it.
//! 2. A chunk that is passed over holds no record of the name, live or whiteout. In a search for
//!    room it has not slack enough either, or room was found before it.

use super::chunks::CHUNK;
use ffs_ondisk::dir::{DirFormat, HEADER};

const WORD: usize = 4;

/// A name to be looked for. Names begin at multiples of four bytes.
pub(super) struct Glance<'a> {
    name: &'a [u8],
    /// Bytes of the name before the word that is compared.
    skip: usize,
    word: u32,
    mask: u32,
    /// The byte before the name, if it is the name's length.
    before: Option<u8>,
}

impl<'a> Glance<'a> {
    pub(super) fn new(fmt: DirFormat, name: &'a [u8]) -> Glance<'a> {
        let mut word = [0; WORD];
        let mut mask = [0; WORD];
        let skip = rarest_word(name);
        let some = name.get(skip..).unwrap_or(&[]).iter().take(WORD);
        for ((w, m), b) in word.iter_mut().zip(&mut mask).zip(some) {
            (*w, *m) = (*b, 0xff);
        }
        let (word, mask) = (u32::from_ne_bytes(word), u32::from_ne_bytes(mask));
        let before = u8::try_from(name.len()).ok().filter(|_| !fmt.old);
        Glance { name, skip, word, mask, before }
    }

    /// Whether the name's bytes are somewhere in `chunk` where a name can be.
    pub(super) fn may_hold(&self, chunk: &[u8]) -> bool {
        let same = |w: &[u8; WORD]| u32::from_ne_bytes(*w) & self.mask == self.word;
        let words = chunk.as_chunks::<WORD>().0;
        // No early exit: so it compiles to a few comparisons of many words each.
        if !words.iter().fold(false, |any, w| any | same(w)) {
            return false;
        }
        let starts = words.iter().enumerate().filter(|(_, w)| same(w)).map(|(i, _)| i * WORD);
        starts.filter_map(|at| at.checked_sub(self.skip)).any(|at| {
            at >= HEADER
                && self.before.is_none_or(|len| chunk.get(at - 1) == Some(&len))
                && chunk.get(at..at + self.name.len()) == Some(self.name)
        })
    }
}

/// Where the four bytes of `name` begin that fewest other names have: names that were counted up
/// differ in their digits, most others at their end.
fn rarest_word(name: &[u8]) -> usize {
    let words = name.as_chunks::<WORD>().0.iter().enumerate();
    let digits = |w: &[u8; WORD]| w.iter().filter(|b| b.is_ascii_digit()).count();
    words.max_by_key(|(i, w)| (digits(w), *i)).map_or(0, |(i, _)| i * WORD)
}

/// How far a search has found a directory sound, bytes from its start.
pub(super) struct Sound(pub(super) u32);

impl Sound {
    /// Whether the chunk at `at` need not be walked to know that it is sound.
    pub(super) fn covers(&self, at: u32) -> bool {
        at < self.0
    }

    /// The chunk at `at` was walked to its end.
    pub(super) fn walked(&mut self, at: u32) {
        if at == self.0 {
            self.0 = at + CHUNK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_ondisk::Endian;
    use ffs_ondisk::dir::{Record, dirsiz, write};

    fn chunk_of(fmt: DirFormat, names: &[&str]) -> Vec<u8> {
        let mut chunk = vec![0; CHUNK as usize];
        let mut off = 0;
        for (i, name) in names.iter().enumerate() {
            let last = i + 1 == names.len();
            let reclen = if last { chunk.len() - off } else { dirsiz(name.len()) };
            let record = Record { off, ino: 9, reclen, dtype: 8, name: name.as_bytes() };
            write(fmt, &mut chunk, &record);
            off += reclen;
        }
        chunk
    }

    #[test]
    fn no_name_is_overlooked() {
        let names = ["a", "ab", "abc", "abcd", "abcde", "IMG_0017.JPG", "x17y", "a-long-name.txt"];
        for (endian, old) in [Endian::Little, Endian::Big].into_iter().zip([false, true]) {
            let fmt = DirFormat { endian, old };
            let chunk = chunk_of(fmt, &names);
            let holds = |name: &str| Glance::new(fmt, name.as_bytes()).may_hold(&chunk);
            for name in names {
                assert!(holds(name), "{name}");
            }
            for name in ["b", "IMG_0018.JPG", "x18y", "another-name.txt", "z"] {
                assert!(!holds(name), "{name}");
            }
            assert_eq!(holds("x17"), old, "a beginning of another name");
        }
    }

    #[test]
    fn the_counted_part_is_compared() {
        assert_eq!(rarest_word(b"IMG_0017.JPG"), 4);
        assert_eq!(rarest_word(b"f12"), 0);
        assert_eq!(rarest_word(b"no-digits-here"), 8);
    }

    #[test]
    fn soundness_grows_without_gaps() {
        let mut s = Sound(0);
        s.walked(512);
        assert!(!s.covers(0));
        s.walked(0);
        s.walked(512);
        assert!(s.covers(512) && !s.covers(1024));
    }
}
