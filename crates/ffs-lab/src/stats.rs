//! What several rounds say together.

use statrs::statistics::{Data, Max, Min, OrderStatistics};

/// Times of one thing over several rounds, in the unit they came in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle one: what tables show. A busy machine spoils the mean, not this.
    pub median: f64,
    /// The best.
    pub min: f64,
    /// The worst.
    pub max: f64,
    /// How many.
    pub rounds: usize,
}

impl Summary {
    /// Summarises; `None` of nothing.
    #[must_use]
    pub fn of(times: &[f64]) -> Option<Summary> {
        if times.is_empty() {
            return None;
        }
        let mut data = Data::new(times.to_vec());
        let (min, max) = (data.min(), data.max());
        Some(Summary { median: data.median(), min, max, rounds: times.len() })
    }

    /// How far the rounds lie apart, percent of the median; `None` of one round.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
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
