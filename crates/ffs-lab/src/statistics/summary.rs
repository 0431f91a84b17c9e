//! Median, minimum and maximum of a few rounds.

use statrs::statistics::{Data, Max, Min, OrderStatistics};

/// Median, minimum and maximum of one time over several rounds, in the unit of the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    /// The median, which tables show: unlike the mean, it does not follow a disturbed round.
    pub(crate) median: f64,
    /// The smallest value.
    pub(crate) min: f64,
    /// The largest value.
    pub(crate) max: f64,
    /// The number of rounds.
    pub(crate) rounds: usize,
}

impl Summary {
    /// The summary of `times`; `None` if there are none.
    #[must_use]
    pub(crate) fn of(times: &[f64]) -> Option<Summary> {
        if times.is_empty() {
            return None;
        }
        let mut data = Data::new(times.to_vec());
        let (min, max) = (data.min(), data.max());
        Some(Summary { median: data.median(), min, max, rounds: times.len() })
    }

    /// The range in percent of the median; `None` for one round.
    #[must_use]
    pub(crate) fn spread(&self) -> Option<f64> {
        (self.rounds > 1 && self.median > 0.0).then(|| (self.max - self.min) / self.median * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_holds_the_middle_and_the_ends() {
        let s = Summary::of(&[5.0, 1.0, 3.0]).unwrap();
        assert_eq!((s.median, s.min, s.max, s.rounds), (3.0, 1.0, 5.0, 3));
        assert!((s.spread().unwrap() - 400.0 / 3.0).abs() < 1e-9);
        assert_eq!(Summary::of(&[2.0, 4.0]).unwrap().median, 3.0);
        assert_eq!(Summary::of(&[7.0]).unwrap().spread(), None);
        assert_eq!(Summary::of(&[]), None);
    }
}
