//! The Mersenne Twister MT19937, seeded as its authors' version of October 1999 did.
//!
//! The library that implements the generator has only the seeding of 2002. But it recovers a state
//! from 624 outputs, so this module computes the state of the old seeding and tempers it to
//! outputs.

use rand_mt::Mt;

/// The parameters of the state.
const WORDS: usize = 624;

/// The generator.
pub(super) struct Twister(Mt);

impl Twister {
    /// Seeds with a linear congruential generator: each word has the upper halves of two steps.
    pub(super) fn new(seed: u32) -> Twister {
        let mut seed = seed;
        let mut upper = || {
            let half = seed & 0xffff_0000;
            seed = seed.wrapping_mul(69_069).wrapping_add(1);
            half
        };
        let state: [u32; WORDS] = std::array::from_fn(|_| upper() | upper() >> 16);
        Twister(Mt::from(state.map(temper)))
    }

    /// The next number modulo `n`. If `n` is 0, returns 0 without a draw.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        if n == 0 { 0 } else { self.0.next_u32() % n }
    }
}

/// Tempers a word of the state to an output.
fn temper(word: u32) -> u32 {
    let word = word ^ word >> 11;
    let word = word ^ word << 7 & 0x9d2c_5680;
    let word = word ^ word << 15 & 0xefc6_0000;
    word ^ word >> 18
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thousandth number from seed 4357, as the GNU Scientific Library tests its
    /// `mt19937_1999`.
    #[test]
    fn the_numbers_are_those_of_1999() {
        let mut twister = Twister::new(4357);
        let thousandth = (0..1000).map(|_| twister.0.next_u32()).last();
        assert_eq!(thousandth, Some(1_030_650_439));
        assert_eq!(Twister::new(42).below(0), 0);
    }
}
