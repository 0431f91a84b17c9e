//! Random draws that are the same on every computer. They use integers and the floating-point
//! operations that IEEE 754 rounds exactly (`+ - * / sqrt`), and no library of mathematical
//! functions.

use ffs_device::{Rng, SplitMix64};

/// A stream of random draws.
pub(super) struct RandomStream(SplitMix64);

impl RandomStream {
    /// The stream of a seed for `purpose`. Each purpose has its own stream.
    pub(super) fn new(seed: u64, purpose: &str) -> RandomStream {
        let mixed = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        RandomStream(SplitMix64::new(SplitMix64::new(seed).next_u64() ^ mixed))
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(super) fn below(&self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.0.below(n) }
    }

    /// A number from `from` to `to`.
    pub(super) fn range(&self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// True with the probability `percent`.
    pub(super) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An index below `n`.
    pub(super) fn index(&self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number in [0, 1).
    pub(super) fn unit(&self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A geometric number with this mean.
    pub(super) fn geometric(&self, mean: f64) -> u64 {
        let go_on = mean / (1.0 + mean);
        let mut count = 0;
        while count < GEOMETRIC_MOST && self.unit() < go_on {
            count += 1;
        }
        count
    }

    /// An approximately normal number with mean 0 and variance 1: the sum of twelve uniform ones.
    pub(super) fn normal(&self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// A log-normal number.
    pub(super) fn log_normal(&self, median: f64, sigma: f64) -> f64 {
        median * exp2(self.normal() * sigma * LOG2_E)
    }

    /// Shuffles a slice.
    pub(super) fn shuffle<T>(&self, things: &mut [T]) {
        for i in (1..things.len()).rev() {
            things.swap(i, self.index(i + 1));
        }
    }
}

/// The largest geometric number.
const GEOMETRIC_MOST: u64 = 100_000;
const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// `base` to a power from 0 to 1: the product of the roots for the binary digits of the power.
pub(super) fn power(base: f64, exponent: f64) -> f64 {
    if exponent >= 1.0 {
        return base;
    }
    let (mut root, mut rest, mut product) = (base, exponent, 1.0);
    for _ in 0..40 {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            rest -= 1.0;
            product *= root;
        }
    }
    product
}

/// Two to the power of `x`.
fn exp2(x: f64) -> f64 {
    let whole = x.floor();
    let mut scaled = power(2.0, x - whole);
    let times = (whole.abs() as u32).min(1000);
    for _ in 0..times {
        scaled = if whole > 0.0 { scaled * 2.0 } else { scaled / 2.0 };
    }
    scaled
}

/// Indices below n. The probability of the k-th is proportional to 1/(k+1)^exponent.
pub(super) struct Zipf(Vec<f64>);

impl Zipf {
    pub(super) fn new(n: usize, exponent: f64) -> Zipf {
        let mut total = 0.0;
        let weight = |k: usize| {
            total += 1.0 / power(k as f64, exponent);
            total
        };
        Zipf((1..=n.max(1)).map(weight).collect())
    }

    pub(super) fn draw(&self, draw: &RandomStream) -> usize {
        let total = self.0.last().copied().unwrap_or(1.0);
        let at = draw.unit() * total;
        self.0.partition_point(|sum| *sum <= at).min(self.0.len() - 1)
    }
}

/// Percentiles of the file sizes in a source tree, bytes: FreeBSD 10.4 with 64,630 files. The last
/// but one is chosen so that the mean is also that of the tree: 13.5 KB.
const PERCENTILES: [(f64, f64); 9] = [
    (0.0, 1.0),
    (0.10, 215.0),
    (0.25, 1165.0),
    (0.50, 3315.0),
    (0.75, 9108.0),
    (0.90, 24_613.0),
    (0.99, 164_243.0),
    (0.999, 300_000.0),
    (1.0, 2_097_152.0),
];

/// The median of [`source_size`].
pub(super) const MEDIAN_SIZE: u64 = 3315;

/// The size of a file in a source tree. The logarithm is linear between percentiles.
pub(super) fn source_size(draw: &RandomStream) -> u64 {
    let at = draw.unit();
    let above = PERCENTILES.iter().position(|(p, _)| *p > at).unwrap_or(PERCENTILES.len() - 1);
    let ((p0, low), (p1, high)) = (PERCENTILES[above.max(1) - 1], PERCENTILES[above.max(1)]);
    (low * power(high / low, (at - p0) / (p1 - p0))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_powers() {
        for (base, exponent) in [(2.0, 0.5), (10.0, 0.9), (3000.0, 0.123), (0.5, 0.7), (7.0, 1.0)] {
            let (ours, theirs) = (power(base, exponent), f64::powf(base, exponent));
            assert!((ours / theirs - 1.0).abs() < 1e-9, "{base} {exponent}: {ours} {theirs}");
        }
        for x in [-3.3, 0.0, 0.25, 5.0, 9.75] {
            assert!((exp2(x) / f64::exp2(x) - 1.0).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn sizes_are_those_of_a_source_tree() {
        let draw = RandomStream::new(1, "sizes");
        let mut sizes: Vec<u64> = (0..100_000).map(|_| source_size(&draw)).collect();
        sizes.sort_unstable();
        for (percentile, size) in &PERCENTILES[1..7] {
            let found = sizes[(percentile * 100_000.0) as usize] as f64;
            assert!((found / size - 1.0).abs() < 0.08, "{percentile}: {found} {size}");
        }
        let mean = sizes.iter().sum::<u64>() / 100_000;
        assert!((12_800..14_500).contains(&mean), "{mean}");
        assert!(*sizes.last().unwrap() <= 2 << 20);
    }

    #[test]
    fn draws_have_their_means() {
        let draw = RandomStream::new(3, "means");
        let mean = |each: &dyn Fn() -> f64| (0..50_000).map(|_| each()).sum::<f64>() / 50_000.0;
        let geometric = mean(&|| draw.geometric(14.0) as f64);
        assert!((13.5..14.5).contains(&geometric), "{geometric}");
        let small = mean(&|| f64::from(u8::from(draw.log_normal(1900.0, 1.05) < 4096.0)));
        assert!((0.74..0.79).contains(&small), "three quarters of the news under 4 KB: {small}");
        let zipf = Zipf::new(1000, 0.9);
        let first = mean(&|| f64::from(u8::from(zipf.draw(&draw) == 0)));
        let share = 1.0 / (1..=1000).map(|k| f64::powf(f64::from(k), -0.9)).sum::<f64>();
        assert!((first / share - 1.0).abs() < 0.1, "{first} {share}");
        assert_ne!(
            RandomStream::new(1, "a").below(1 << 40),
            RandomStream::new(1, "b").below(1 << 40)
        );
    }
}
