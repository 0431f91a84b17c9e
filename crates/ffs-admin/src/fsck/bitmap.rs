//! A bitmap with operations on runs of bits.

/// A fixed number of bits, initially clear.
#[derive(Debug, Clone)]
pub(super) struct Bitmap {
    words: Vec<u64>,
    len: u64,
}

impl Bitmap {
    pub(super) fn new(len: u64) -> Bitmap {
        let words = usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX);
        Bitmap { words: vec![0; words], len }
    }

    /// Bit `n`; `true` beyond the end, where nothing can be allocated.
    pub(super) fn get(&self, n: u64) -> bool {
        n >= self.len || self.words[(n / 64) as usize] >> (n % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, n: u64) {
        if n < self.len {
            self.words[(n / 64) as usize] |= 1 << (n % 64);
        }
    }

    pub(super) fn clear(&mut self, n: u64) {
        if n < self.len {
            self.words[(n / 64) as usize] &= !(1 << (n % 64));
        }
    }

    /// Sets the `n` bits from `at` on if all of them are clear and in one word; else changes
    /// nothing and returns `false`.
    pub(super) fn set_run(&mut self, at: u64, n: u32) -> bool {
        let shift = at % 64;
        if n == 0 || shift + u64::from(n) > 64 || at >= self.len || self.len - at < n.into() {
            return false;
        }
        let mask = u64::MAX >> (64 - n) << shift;
        let word = &mut self.words[(at / 64) as usize];
        let free = *word & mask == 0;
        if free {
            *word |= mask;
        }
        free
    }

    /// Clears the `n` bits from `at` on, which [`Bitmap::set_run`] has set.
    pub(super) fn clear_run(&mut self, at: u64, n: u32) {
        (at..at + u64::from(n)).for_each(|bit| self.clear(bit));
    }

    pub(super) fn set_range(&mut self, from: u64, to: u64) {
        let to = to.min(self.len);
        let mut n = from;
        while n < to {
            let bits = (64 - n % 64).min(to - n);
            self.words[(n / 64) as usize] |= u64::MAX >> (64 - bits) << (n % 64);
            n += bits;
        }
    }

    /// The 64 bits from `from` on, the first in bit 0; clear beyond the end.
    pub(super) fn word(&self, from: u64) -> u64 {
        let (word, shift) = ((from / 64) as usize, from % 64);
        let low = self.words.get(word).copied().unwrap_or(0) >> shift;
        let high = match shift {
            0 => 0,
            _ => self.words.get(word + 1).copied().unwrap_or(0) << (64 - shift),
        };
        low | high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cross_words_and_end_clear() {
        let mut bits = Bitmap::new(130);
        bits.set_range(60, 68);
        bits.set(129);
        assert_eq!(bits.word(60), 0xff);
        assert_eq!(bits.word(57), 0b111_1111_1000);
        assert_eq!(bits.word(64), 0x0f);
        assert_eq!(bits.word(125), 0x10);
        assert_eq!(bits.word(200), 0);
        assert!(bits.get(130), "nothing beyond the end is free");
        bits.clear(129);
        assert!(!bits.get(129));
    }

    #[test]
    fn a_run_is_taken_whole_or_not_at_all() {
        let mut bits = Bitmap::new(130);
        assert!(bits.set_run(56, 8) && bits.set_run(128, 2) && bits.set_run(64, 64));
        for (at, n) in [(63, 1), (60, 8), (129, 2), (130, 1), (u64::MAX, 8), (0, 0), (0, 65)] {
            let before = bits.words.clone();
            assert!(!bits.set_run(at, n), "{at} {n}");
            assert_eq!(bits.words, before, "{at} {n}");
        }
        bits.clear_run(56, 8);
        assert!(bits.set_run(60, 4) && !bits.set_run(56, 8));
    }

    #[test]
    fn ranges_are_what_their_bits_are() {
        for (from, to) in
            [(0, 0), (0, 1), (3, 64), (63, 65), (64, 128), (1, 200), (7, 3), (130, 131)]
        {
            let (mut range, mut single) = (Bitmap::new(130), Bitmap::new(130));
            range.set_range(from, to);
            (from..to).for_each(|n| single.set(n));
            assert_eq!(range.words, single.words, "{from}..{to}");
        }
    }
}
