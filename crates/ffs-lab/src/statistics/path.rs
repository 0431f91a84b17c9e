//! The stepwise path of one result: from no option to one of each factor, at each step the option
//! with the best result. If each factor has two levels, the path ends with all options on.
//!
//! A step is tested on the runs of its two combinations alone (Welch's t test). The combinations of
//! one result may differ five hundredfold, and so may their noise. A pooled error would be the
//! error of the slow combinations and hide every difference between fast ones.

use super::LEVEL;
use super::cells::Cells;
use super::combination::Combination;
use super::model::two_sided;

/// A step that changes the result by less than this is not significant, with any p value.
pub(crate) const VISIBLE: f64 = 0.01;
/// The same limit if each combination was run once and there is no p value.
const VISIBLE_UNTESTED: f64 = 0.05;

/// A step of the path: one more option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PathStep {
    /// The option added.
    pub(crate) factor: usize,
    /// The options after the step.
    pub(crate) to: Combination,
    /// The cost before the step divided by the cost after it; below 1 is a loss.
    pub(crate) gain: f64,
    /// Its p value; `None` if a combination was run once only.
    pub(crate) p_value: Option<f64>,
    /// Whether the step is significant and large enough to be shown.
    pub(crate) is_significant: bool,
}

/// The stepwise path: the uppermost path in the lattice of combinations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepwisePath {
    /// One step for each factor.
    pub(crate) steps: Vec<PathStep>,
    /// The cost without options divided by the cost at the end of the path.
    pub(crate) all: f64,
    /// The best combination, and the cost without options divided by its cost.
    pub(crate) best: (Combination, f64),
}

impl StepwisePath {
    /// The path of these runs; `None` if a combination that the path has to compare was not run.
    #[must_use]
    pub(crate) fn of(cells: &Cells) -> Option<StepwisePath> {
        let mut at = Combination::NONE;
        let mut steps = Vec::new();
        cells.base()?;
        while steps.len() < cells.factors() {
            let more = (0..cells.options()).filter(|f| !at.has(*f)).map(|f| (f, at.with(f)));
            // Not two options of one factor.
            let rivals = more.filter(|(_, to)| cells.design().index(*to).is_some());
            let means: Option<Vec<(usize, f64)>> =
                rivals.map(|(f, to)| Some((f, cells.mean(to).filter(|m| *m > 0.0)?))).collect();
            let (factor, mean) = means?.into_iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
            let to = at.with(factor);
            let gain = cells.mean(at)? / mean;
            let p_value = welch(cells, at, to);
            let size = (gain - 1.0).abs().max((1.0 / gain - 1.0).abs());
            let is_significant = match p_value {
                Some(p) => p < LEVEL && size >= VISIBLE,
                None => size >= VISIBLE_UNTESTED,
            };
            steps.push(PathStep { factor, to, gain, p_value, is_significant });
            at = to;
        }
        let gains = cells.combinations().filter_map(|c| Some((c, cells.gain(c)?)));
        let best = gains.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
        Some(StepwisePath { steps, all: cells.gain(at)?, best })
    }

    /// The options of the significant steps, in order.
    #[must_use]
    pub(crate) fn significant(&self) -> Vec<usize> {
        self.steps.iter().filter(|step| step.is_significant).map(|step| step.factor).collect()
    }
}

/// The p value of the difference of two combinations; `None` if one was run once only.
fn welch(cells: &Cells, from: Combination, to: Combination) -> Option<f64> {
    // The variance of a mean, and its term in the degrees of freedom (Welch and Satterthwaite).
    let part = |at: Combination| {
        let left = cells.runs(at).len() as f64 - 1.0;
        // The population variance divided by n - 1 is the sample variance divided by n.
        let sigma = cells.sigma(at)?;
        let variance = sigma * sigma / left;
        Some((variance, variance * variance / left))
    };
    let (first, second) = (part(from)?, part(to)?);
    let variance = first.0 + second.0;
    let degrees = (variance * variance / (first.1 + second.1)).max(1.0);
    let before = cells.mean(from)?;
    Some(two_sided(before - cells.mean(to)?, variance.sqrt(), degrees, before))
}

#[cfg(test)]
mod tests {
    use super::super::design::Design;
    use super::super::table1;
    use super::*;

    /// The row "make buildworld" of Figure 10: su, then dp, and nothing else is significant.
    #[test]
    fn the_row_of_buildworld_comes_out() {
        let path = StepwisePath::of(&table1::cells()).unwrap();
        assert_eq!(path.significant(), [0, 1]);
        let order: Vec<usize> = path.steps.iter().map(|step| step.factor).collect();
        assert_eq!(order, [0, 1, 2, 3]);
        assert!((path.all - 4345.38 / 2032.85).abs() < 1e-9);
        assert_eq!(path.best.0, Combination(15));
    }

    /// All options may be worse than some of them: a loss is a step like others.
    #[test]
    fn a_loss_comes_last_and_the_best_is_elsewhere() {
        let mut cells = Cells::new(2);
        for (bits, mean) in [(0, 17.0), (1, 17.5), (2, 3.0), (3, 4.0)] {
            for run in table1::runs(mean, 0.01, 4) {
                cells.add(Combination(bits), run);
            }
        }
        let path = StepwisePath::of(&cells).unwrap();
        assert_eq!(path.significant(), [1, 0], "dirpref, su (a loss)");
        assert!(path.steps[1].gain < 1.0);
        assert_eq!(path.best.0, Combination(2));
        assert!(path.all < path.best.1);
    }

    /// Without the first option each run takes five hundred times as long, with as much more noise.
    #[test]
    fn noise_of_slow_combinations_hides_no_step_between_fast_ones() {
        let mut cells = Cells::new(2);
        for (bits, mean) in [(0, 1000.0), (1, 2.0), (2, 1000.0), (3, 1.5)] {
            for run in table1::runs(mean, mean * 0.005, 4) {
                cells.add(Combination(bits), run);
            }
        }
        let path = StepwisePath::of(&cells).unwrap();
        assert_eq!(path.significant(), [0, 1]);
        assert!(path.steps[1].p_value.unwrap() < LEVEL);
        // And noise of the two themselves is noise.
        let mut cells = Cells::new(1);
        for run in [2.0, 2.4, 1.6, 2.0] {
            cells.add(Combination::NONE, run);
            cells.add(Combination(1), run * 0.9);
        }
        assert_eq!(StepwisePath::of(&cells).unwrap().significant(), [0; 0]);
    }

    /// t = 3.5355, 4.0755 degrees of freedom; the density integrated in steps of a two-millionth.
    #[test]
    fn the_test_is_that_of_welch() {
        let mut cells = Cells::new(1);
        for run in [1.0, 2.0, 3.0] {
            cells.add(Combination::NONE, run);
        }
        for run in [4.0, 6.0, 8.0, 10.0] {
            cells.add(Combination(1), run);
        }
        let p_value = welch(&cells, Combination::NONE, Combination(1)).unwrap();
        assert!((p_value - 0.023_376_767_6).abs() < 1e-9, "{p_value}");
        let mut cells = Cells::new(1);
        for run in [1.0, 1.0] {
            cells.add(Combination::NONE, run);
        }
        cells.add(Combination(1), 2.0);
        assert_eq!(welch(&cells, Combination::NONE, Combination(1)), None, "one run only");
        cells.add(Combination(1), 2.0);
        assert_eq!(welch(&cells, Combination::NONE, Combination(1)), Some(0.0), "no noise at all");
    }

    /// Options 1 and 2 are levels of one factor: the path takes the better of them, and no other.
    #[test]
    fn each_factor_is_a_step_to_its_best_level() {
        let mut cells = Cells::of(&Design::new(&[2, 3]).unwrap());
        for (bits, mean) in [(0, 12.0), (1, 8.0), (2, 3.0), (4, 6.0), (3, 2.0), (5, 1.0)] {
            for run in table1::runs(mean, 0.001, 4) {
                cells.add(Combination(bits), run);
            }
        }
        let path = StepwisePath::of(&cells).unwrap();
        let steps: Vec<(usize, u32)> = path.steps.iter().map(|s| (s.factor, s.to.0)).collect();
        assert_eq!(steps, [(1, 2), (0, 3)]);
        assert!((path.all - 6.0).abs() < 0.01);
        assert_eq!(path.best.0, Combination(5), "not on the path");
        assert_eq!(cells.summary_end(), Some(Combination(5)));
    }

    #[test]
    fn without_a_rival_there_is_no_path() {
        let mut cells = Cells::new(2);
        for bits in [0, 1, 3] {
            cells.add(Combination(bits), 1.0);
        }
        assert_eq!(StepwisePath::of(&cells), None);
    }

    #[test]
    fn one_run_each_names_what_is_large() {
        let mut cells = Cells::new(2);
        for (bits, mean) in [(0, 10.0), (1, 5.0), (2, 9.9), (3, 4.9)] {
            cells.add(Combination(bits), mean);
        }
        let path = StepwisePath::of(&cells).unwrap();
        assert_eq!(path.significant(), [0]);
        assert_eq!(path.steps[0].p_value, None);
    }
}
