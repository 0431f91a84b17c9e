//! The factorial design: the factors of an experiment, their levels and all combinations of them.
//!
//! The first level of a factor is its base. Each other level is an *option*. So a factor of two
//! levels has one option, which is on or off, and a factor of L levels has L - 1 options, of which
//! at most one is on. Options are the indicators of treatment (dummy) coding.
//!
//! # Invariants
//! 1. Options are numbered by factor, then by level.
//! 2. A combination has at most one option of each factor. The combinations are in ascending order.
//! 3. There are at most [`MOST_OPTIONS`] options and [`MOST_COMBINATIONS`] combinations.

use super::combination::Combination;

/// The most options: a combination has a bit for each.
pub(crate) const MOST_OPTIONS: usize = 31;
/// The most combinations.
pub(crate) const MOST_COMBINATIONS: usize = 1024;

/// The factors of an experiment and their combinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Design {
    /// For each factor the number of its first option, and the number of its options.
    factors: Vec<(usize, usize)>,
    combinations: Vec<Combination>,
}

impl Default for Design {
    /// The design without a factor.
    fn default() -> Design {
        Design { factors: Vec::new(), combinations: vec![Combination::NONE] }
    }
}

impl Design {
    /// The design of factors with these numbers of levels; `None` with more options or combinations
    /// than a design may have.
    #[must_use]
    pub(crate) fn new(levels: &[usize]) -> Option<Design> {
        let Design { mut factors, mut combinations } = Design::default();
        let mut first = 0;
        for options in levels.iter().map(|levels| levels.saturating_sub(1)) {
            let all = combinations.len().saturating_mul(options.saturating_add(1));
            if all > MOST_COMBINATIONS || first + options > MOST_OPTIONS {
                return None;
            }
            let before = combinations.clone();
            for option in first..first + options {
                combinations.extend(before.iter().map(|at| at.with(option)));
            }
            factors.push((first, options));
            first += options;
        }
        Some(Design { factors, combinations })
    }

    /// The number of options.
    #[must_use]
    pub(crate) fn options(&self) -> usize {
        self.factors.iter().map(|(_, options)| options).sum()
    }

    /// The number of factors.
    #[must_use]
    pub(crate) fn factors(&self) -> usize {
        self.factors.len()
    }

    /// Whether each factor has two levels, so that each set of options is a combination.
    #[must_use]
    pub(crate) fn is_two_level(&self) -> bool {
        self.factors.iter().all(|(_, options)| *options == 1)
    }

    /// All options on; `None` if options exclude each other.
    #[must_use]
    pub(crate) fn all_on(&self) -> Option<Combination> {
        self.is_two_level().then(|| Combination::all(self.factors()))
    }

    /// All combinations.
    #[must_use]
    pub(crate) fn combinations(&self) -> &[Combination] {
        &self.combinations
    }

    /// The number of a combination; `None` if it has two options of a factor, or one that is none.
    #[must_use]
    pub(crate) fn index(&self, at: Combination) -> Option<usize> {
        self.combinations.binary_search(&at).ok()
    }

    /// The level of a factor in a combination, 0 for the base.
    #[must_use]
    pub(crate) fn level(&self, at: Combination, factor: usize) -> usize {
        let (first, options) = self.factors.get(factor).copied().unwrap_or_default();
        (0..options).find(|option| at.has(first + option)).map_or(0, |option| option + 1)
    }

    /// The combination with a factor set to a level.
    #[must_use]
    pub(crate) fn with_level(&self, at: Combination, factor: usize, level: usize) -> Combination {
        let (first, options) = self.factors.get(factor).copied().unwrap_or_default();
        let rest = (first..first + options).fold(at, Combination::without);
        if level == 0 || level > options { rest } else { rest.with(first + level - 1) }
    }

    /// The factors with more than two levels.
    pub(crate) fn multilevel(&self) -> impl Iterator<Item = usize> {
        (0..).zip(&self.factors).filter(|(_, (_, options))| *options > 1).map(|(factor, _)| factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(design: &Design) -> Vec<u32> {
        design.combinations().iter().map(|at| at.0).collect()
    }

    #[test]
    fn every_set_is_a_combination_of_two_level_factors() {
        let design = Design::new(&[2, 2, 2]).unwrap();
        assert_eq!(bits(&design), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(design.all_on(), Some(Combination(7)));
        assert_eq!(bits(&Design::new(&[]).unwrap()), [0]);
    }

    #[test]
    fn levels_of_a_factor_exclude_each_other() {
        let design = Design::new(&[2, 3, 2]).unwrap();
        assert_eq!((design.options(), design.factors()), (4, 3));
        assert_eq!(bits(&design), [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13]);
        assert_eq!((design.all_on(), design.is_two_level()), (None, false));
        assert_eq!(design.index(Combination(6)), None, "both options of the second factor");
        assert_eq!(design.index(Combination(16)), None, "no option of this design");
        let at = Combination(0b1101);
        assert_eq!([0, 1, 2].map(|factor| design.level(at, factor)), [1, 2, 1]);
        assert_eq!(design.with_level(at, 1, 1), Combination(0b1011));
        assert_eq!(design.with_level(at, 1, 0), Combination(0b1001));
        assert_eq!(design.multilevel().collect::<Vec<usize>>(), [1]);
    }

    #[test]
    fn a_design_is_bounded() {
        assert_eq!(Design::new(&[2; 10]).unwrap().combinations().len(), MOST_COMBINATIONS);
        assert_eq!(Design::new(&[2; 11]), None);
        assert_eq!(Design::new(&[MOST_OPTIONS + 1]).unwrap().options(), MOST_OPTIONS);
        assert_eq!(Design::new(&[MOST_OPTIONS + 2]), None);
        assert_eq!(Design::new(&[usize::MAX, 2]), None);
        assert_eq!(Design::new(&[17, 17]), None, "289 combinations of 32 options");
    }
}
