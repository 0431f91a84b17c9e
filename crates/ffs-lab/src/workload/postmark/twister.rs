//! The Mersenne Twister MT19937, seeded as its authors' version of October 1999 did.
//!
//! The generator is a library's, which knows the seeding of 2002 only; but it takes over a state from
//! 624 of its outputs, and outputs are the state tempered.

use rand_mt::Mt;

/// Parameters of the state.
const WORDS: usize = 624;

/// The generator.
pub(super) struct Twister(Mt);

impl Twister {
    /// Seeds by a linear congruence, two steps a word: the upper halves of both.
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

    /// The next number modulo `n`; 0 without a draw if `n` is 0.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        if n == 0 { 0 } else { self.0.next_u32() % n }
    }
}

/// What the generator does to a word of its state before it hands it out.
fn temper(word: u32) -> u32 {
    let word = word ^ word >> 11;
    let word = word ^ word << 7 & 0x9d2c_5680;
    let word = word ^ word << 15 & 0xefc6_0000;
    word ^ word >> 18
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thousandth number from seed 4357, as the GNU Scientific Library tests its `mt19937_1999`.
    #[test]
    fn the_numbers_are_those_of_1999() {
        let mut twister = Twister::new(4357);
        let thousandth = (0..1000).map(|_| twister.0.next_u32()).last();
        assert_eq!(thousandth, Some(1_030_650_439));
        assert_eq!(Twister::new(42).below(0), 0);
    }
}
