//! A combination: the options that are on, as a set.
//!
//! An option is a factor of two levels, or a level of another factor ([`super::Design`]).

/// A set of options: bit `i` is option `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Combination(pub u32);

impl Combination {
    /// The empty set.
    pub(crate) const NONE: Combination = Combination(0);

    /// The set of all `factors` options.
    #[must_use]
    pub(crate) fn all(factors: usize) -> Combination {
        Combination((1 << factors) - 1)
    }

    /// The set of option `factor` alone.
    #[must_use]
    pub(crate) fn only(factor: usize) -> Combination {
        Combination(1 << factor)
    }

    /// Whether option `factor` is on.
    #[must_use]
    pub(crate) fn has(self, factor: usize) -> bool {
        self.0 >> factor & 1 == 1
    }

    /// The set with option `factor` added.
    #[must_use]
    pub(crate) fn with(self, factor: usize) -> Combination {
        Combination(self.0 | 1 << factor)
    }

    /// The set with option `factor` removed.
    #[must_use]
    pub(crate) fn without(self, factor: usize) -> Combination {
        Combination(self.0 & !(1 << factor))
    }

    /// The number of options in the set.
    #[must_use]
    pub(crate) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether every option of the set is in `other`.
    #[must_use]
    pub(crate) fn is_subset(self, other: Combination) -> bool {
        self.0 & !other.0 == 0
    }

    /// The numbers of the options in the set.
    pub(crate) fn factors(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |factor| self.has(*factor))
    }

    /// The name of the set: `none`, or the names of its options with `joint` between them.
    #[must_use]
    pub(crate) fn name(self, names: &[String], joint: &str) -> String {
        let on: Vec<&str> =
            self.factors().filter_map(|f| names.get(f)).map(String::as_str).collect();
        if on.is_empty() { "none".to_owned() } else { on.join(joint) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_have_names() {
        let names = ["su".to_owned(), "dp".to_owned(), "vm".to_owned()];
        assert_eq!(Combination(0).name(&names, "+"), "none");
        assert_eq!(Combination(5).name(&names, "+"), "su+vm");
        assert!(
            Combination(1).is_subset(Combination(5)) && !Combination(2).is_subset(Combination(5))
        );
    }
}
