//! Deterministic numbers and bytes.
//!
//! **Purpose.** [`SplitMix64`] drives randomised tests from a seed; [`fill`] is the byte stream the
//! fixtures' files were made of.

/// Steele, Lea and Flood's generator: small, fast, and every seed is a good one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 if `bound` is 0. Evenly spread to within 2^-64 x `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.wrapping_sub(low).checked_add(1) {
            Some(width) if high >= low => low + self.below(width),
            _ => self.next_u64(),
        }
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `items`, or `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(items.len() as u64)).ok()?;
        items.get(index)
    }

    /// Fills `buf`.
    pub fn fill_bytes(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let number = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }

    /// `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        self.fill_bytes(&mut bytes);
        bytes
    }
}

/// `n` bytes, from byte `skip` on, of the stream that fixture files hold (`fill N SEED` of the
/// fixtures' README: xorshift64 from `seed | 1`, little-endian). The README's own OFFSET is where
/// in the *file* a stream begins.
#[must_use]
pub fn fill(n: usize, seed: u64, skip: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut step = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    };
    for _ in 0..skip / 8 {
        step();
    }
    let lead = (skip % 8) as usize;
    let mut bytes = Vec::with_capacity(n + 16);
    while bytes.len() < n + lead {
        bytes.extend_from_slice(&step());
    }
    bytes.truncate(n + lead);
    bytes.split_off(lead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_matches_the_published_stream() {
        let mut rng = SplitMix64::new(1_234_567);
        let want =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([rng.next_u64(), rng.next_u64(), rng.next_u64()], want);
    }

    #[test]
    fn ranges_hold() {
        let mut rng = SplitMix64::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            let x = rng.between(10, 14);
            assert!((10..=14).contains(&x));
            seen[(x - 10) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.pick::<u8>(&[]), None);
        assert_eq!(rng.bytes(13).len(), 13);
    }

    #[test]
    fn fill_can_start_anywhere() {
        let whole = fill(100, 41, 0);
        assert_eq!(whole[..4], fill(4, 40, 0)[..], "seeds differ in bit 0 only: same stream");
        for skip in 0..30 {
            assert_eq!(fill(50, 41, skip as u64), whole[skip..skip + 50]);
        }
    }
}
