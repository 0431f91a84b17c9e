//! The summary of one result: the way from no option to all of them that is uppermost in the lattice.
//!
//! A step is tested on the runs of its two combinations alone (Welch's t). Combinations of one result may
//! differ five hundredfold, and their noise with them: pooled, the slow ones would drown the others.

use super::LEVEL;
use super::cells::{Cells, Combination};
use super::model::two_sided;

/// A step that changes the result by less than this is not named, however certain it is.
pub const VISIBLE: f64 = 0.01;
/// The same where one run of each is all there is and certainty is unknown.
pub const VISIBLE_UNTESTED: f64 = 0.05;

/// One more option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The option added.
    pub factor: usize,
    /// Options on afterwards.
    pub to: Combination,
    /// How many times better than the step before; below 1 is a loss.
    pub gain: f64,
    /// How likely chance alone gives a difference like this; `None` where no error is known.
    pub chance: Option<f64>,
    /// Whether the step is told from noise and can be seen.
    pub named: bool,
}

/// The uppermost path.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryPath {
    /// One step an option.
    pub steps: Vec<Step>,
    /// How many times better all options are than none.
    pub all: f64,
    /// The best combination, and how many times better it is.
    pub best: (Combination, f64),
}

impl SummaryPath {
    /// Of these runs; `None` if a combination on the way, or its rivals, were not run.
    #[must_use]
    pub fn of(cells: &Cells) -> Option<SummaryPath> {
        let mut at = Combination::NONE;
        let mut steps = Vec::new();
        cells.base()?;
        while at != Combination::all(cells.factors()) {
            let rivals = (0..cells.factors()).filter(|f| !at.has(*f)).map(|f| (f, at.with(f)));
            let means: Option<Vec<(usize, f64)>> =
                rivals.map(|(f, to)| Some((f, cells.mean(to).filter(|m| *m > 0.0)?))).collect();
            let (factor, mean) = means?.into_iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
            let to = at.with(factor);
            let gain = cells.mean(at)? / mean;
            let chance = welch(cells, at, to);
            let size = (gain - 1.0).abs().max((1.0 / gain - 1.0).abs());
            let named = match chance {
                Some(chance) => chance < LEVEL && size >= VISIBLE,
                None => size >= VISIBLE_UNTESTED,
            };
            steps.push(Step { factor, to, gain, chance, named });
            at = to;
        }
        let gains = cells.combinations().filter_map(|c| Some((c, cells.gain(c)?)));
        let best = gains.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
        Some(SummaryPath { steps, all: cells.gain(at)?, best })
    }

    /// The options that are named, in order.
    #[must_use]
    pub fn named(&self) -> Vec<usize> {
        self.steps.iter().filter(|step| step.named).map(|step| step.factor).collect()
    }
}

/// How likely chance alone gives the difference of two combinations; `None` if one was run once only.
fn welch(cells: &Cells, from: Combination, to: Combination) -> Option<f64> {
    // The variance of a mean, and its part in the degrees of freedom (Welch and Satterthwaite).
    let part = |at: Combination| {
        let left = cells.runs(at).len() as f64 - 1.0;
        // The population's variance divided by n - 1 is that of a sample divided by n.
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
    use super::super::published;
    use super::*;

    /// Figure 10's row "make buildworld": su, then dp, and nothing else is told from noise.
    #[test]
    fn the_row_of_buildworld_comes_out() {
        let path = SummaryPath::of(&published::table1()).unwrap();
        assert_eq!(path.named(), [0, 1]);
        let order: Vec<usize> = path.steps.iter().map(|step| step.factor).collect();
        assert_eq!(order, [0, 1, 2, 3]);
        assert!((path.all - 4345.38 / 2032.85).abs() < 1e-9);
        assert_eq!(path.best.0, Combination(15));
    }

    /// All of the options may be worse than some of them: a loss is a step like others.
    #[test]
    fn a_loss_comes_last_and_the_best_is_elsewhere() {
        let mut cells = Cells::new(2);
        for (bits, mean) in [(0, 17.0), (1, 17.5), (2, 3.0), (3, 4.0)] {
            for run in published::runs(mean, 0.01, 4) {
                cells.add(Combination(bits), run);
            }
        }
        let path = SummaryPath::of(&cells).unwrap();
        assert_eq!(path.named(), [1, 0], "dirpref, su (a loss)");
        assert!(path.steps[1].gain < 1.0);
        assert_eq!(path.best.0, Combination(2));
        assert!(path.all < path.best.1);
    }

    /// Without the first option each run takes five hundred times as long, with as much more noise.
    #[test]
    fn noise_of_slow_combinations_hides_no_step_between_fast_ones() {
        let mut cells = Cells::new(2);
        for (bits, mean) in [(0, 1000.0), (1, 2.0), (2, 1000.0), (3, 1.5)] {
            for run in published::runs(mean, mean * 0.005, 4) {
                cells.add(Combination(bits), run);
            }
        }
        let path = SummaryPath::of(&cells).unwrap();
        assert_eq!(path.named(), [0, 1]);
        assert!(path.steps[1].chance.unwrap() < LEVEL);
        // And noise of the two themselves is noise.
        let mut cells = Cells::new(1);
        for run in [2.0, 2.4, 1.6, 2.0] {
            cells.add(Combination::NONE, run);
            cells.add(Combination(1), run * 0.9);
        }
        assert_eq!(SummaryPath::of(&cells).unwrap().named(), [0; 0]);
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
        let chance = welch(&cells, Combination::NONE, Combination(1)).unwrap();
        assert!((chance - 0.023_376_767_6).abs() < 1e-9, "{chance}");
        let mut cells = Cells::new(1);
        for run in [1.0, 1.0] {
            cells.add(Combination::NONE, run);
        }
        cells.add(Combination(1), 2.0);
        assert_eq!(welch(&cells, Combination::NONE, Combination(1)), None, "one run only");
        cells.add(Combination(1), 2.0);
        assert_eq!(welch(&cells, Combination::NONE, Combination(1)), Some(0.0), "no noise at all");
    }

    #[test]
    fn without_a_rival_there_is_no_path() {
        let mut cells = Cells::new(2);
        for bits in [0, 1, 3] {
            cells.add(Combination(bits), 1.0);
        }
        assert_eq!(SummaryPath::of(&cells), None);
    }

    #[test]
    fn one_run_each_names_what_is_large() {
        let mut cells = Cells::new(2);
        for (bits, mean) in [(0, 10.0), (1, 5.0), (2, 9.9), (3, 4.9)] {
            cells.add(Combination(bits), mean);
        }
        let path = SummaryPath::of(&cells).unwrap();
        assert_eq!(path.named(), [0]);
        assert_eq!(path.steps[0].chance, None);
    }
}
