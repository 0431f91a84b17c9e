//! The runs of one result by combination of options, and their means and spreads.

use super::combination::Combination;
use super::design::Design;

/// The costs of one result: several runs of each combination of options.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cells {
    design: Design,
    /// The runs of each combination of the design.
    runs: Vec<Vec<f64>>,
}

impl Cells {
    /// No runs, for `factors` factors of two levels, at most ten.
    #[must_use]
    pub(crate) fn new(factors: usize) -> Cells {
        Cells::of(&Design::new(&vec![2; factors]).unwrap_or_default())
    }

    /// No runs, for a design.
    #[must_use]
    pub(crate) fn of(design: &Design) -> Cells {
        Cells { design: design.clone(), runs: vec![Vec::new(); design.combinations().len()] }
    }

    /// Adds a run. A cost that is NaN, infinite or negative is not added: `false`.
    pub(crate) fn add(&mut self, at: Combination, cost: f64) -> bool {
        let fine = cost.is_finite() && cost >= 0.0;
        let runs = self.design.index(at).and_then(|index| self.runs.get_mut(index));
        match runs {
            Some(runs) if fine => runs.push(cost),
            _ => return false,
        }
        true
    }

    /// The factors and their combinations.
    #[must_use]
    pub(crate) fn design(&self) -> &Design {
        &self.design
    }

    /// The number of options.
    #[must_use]
    pub(crate) fn options(&self) -> usize {
        self.design.options()
    }

    /// The number of factors.
    #[must_use]
    pub(crate) fn factors(&self) -> usize {
        self.design.factors()
    }

    /// All combinations, run or not.
    pub(crate) fn combinations(&self) -> impl Iterator<Item = Combination> + use<> {
        self.design.combinations().to_vec().into_iter()
    }

    /// The runs of a combination.
    #[must_use]
    pub(crate) fn runs(&self, at: Combination) -> &[f64] {
        let runs = self.design.index(at).and_then(|index| self.runs.get(index));
        runs.map_or(&[], Vec::as_slice)
    }

    /// The combinations without a run.
    #[must_use]
    pub(crate) fn missing(&self) -> Vec<Combination> {
        self.combinations().filter(|c| self.runs(*c).is_empty()).collect()
    }

    /// The mean of a combination; `None` without a run.
    #[must_use]
    pub(crate) fn mean(&self, at: Combination) -> Option<f64> {
        let runs = self.runs(at);
        (!runs.is_empty()).then(|| runs.iter().sum::<f64>() / runs.len() as f64)
    }

    /// The sum of squares about the mean of a combination.
    fn squares(&self, at: Combination) -> f64 {
        let mean = self.mean(at).unwrap_or(0.0);
        self.runs(at).iter().map(|run| (run - mean) * (run - mean)).sum()
    }

    /// The population standard deviation (divided by n) of a combination; `None` below two runs.
    #[must_use]
    pub(crate) fn sigma(&self, at: Combination) -> Option<f64> {
        let n = self.runs(at).len();
        (n > 1).then(|| (self.squares(at) / n as f64).sqrt())
    }

    /// The sum of squares within the combinations, and its degrees of freedom.
    #[must_use]
    pub(crate) fn squares_within(&self) -> (f64, usize) {
        let squares = self.combinations().map(|at| self.squares(at)).sum();
        let degrees = self.runs.iter().map(|runs| runs.len().saturating_sub(1)).sum();
        (squares, degrees)
    }

    /// The mean without options; `None` without a run, or if it is 0.
    #[must_use]
    pub(crate) fn base(&self) -> Option<f64> {
        self.mean(Combination::NONE).filter(|base| *base > 0.0)
    }

    /// The mean without options divided by that of a combination.
    #[must_use]
    pub(crate) fn gain(&self, at: Combination) -> Option<f64> {
        self.mean(at).filter(|mean| *mean > 0.0).and_then(|mean| Some(self.base()? / mean))
    }

    /// The combination that a summary compares with the one without options: all options on, or the
    /// best one if a factor has more than two levels.
    #[must_use]
    pub(crate) fn summary_end(&self) -> Option<Combination> {
        let means = || self.combinations().filter_map(|at| Some((at, self.mean(at)?)));
        let best = || means().min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        self.design.all_on().or_else(|| Some(best()?.0))
    }

    /// The mean of a combination, in percent of the mean without options.
    #[must_use]
    pub(crate) fn percent(&self, at: Combination) -> Option<f64> {
        Some(self.mean(at)? / self.base()? * 100.0)
    }

    /// Population sigma / sqrt(n) of a combination, in percent of the mean without options.
    #[must_use]
    pub(crate) fn error_percent(&self, at: Combination) -> Option<f64> {
        let n = self.runs(at).len() as f64;
        Some(self.sigma(at)? / n.sqrt() / self.base()? * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_combinations_have_no_mean() {
        let mut cells = Cells::new(2);
        for cost in [2.0, 4.0] {
            assert!(cells.add(Combination::NONE, cost));
        }
        assert!(cells.add(Combination(3), 1.0));
        assert!(!cells.add(Combination(3), f64::NAN));
        assert!(!cells.add(Combination(3), f64::INFINITY));
        assert!(!cells.add(Combination(4), 1.0), "there is no such combination");
        assert_eq!(cells.mean(Combination::NONE), Some(3.0));
        assert_eq!(cells.sigma(Combination::NONE), Some(1.0), "divided by n, not n - 1");
        assert_eq!(cells.sigma(Combination(3)), None, "one run has no spread");
        assert_eq!(cells.gain(Combination(3)), Some(3.0));
        assert_eq!(cells.mean(Combination(1)), None);
        assert_eq!(cells.missing(), [Combination(1), Combination(2)]);
        assert_eq!(cells.squares_within(), (2.0, 1));
    }

    #[test]
    fn rates_are_averaged_as_time_per_work() {
        // A run at 10/s and one at 30/s: the mean rate is 15/s, not 20/s.
        let mut cells = Cells::new(0);
        for rate in [10.0, 30.0] {
            cells.add(Combination::NONE, 1.0 / rate);
        }
        let mean = cells.mean(Combination::NONE).unwrap();
        assert!((1.0 / mean - 15.0).abs() < 1e-12);
    }
}
