//! How near a study comes to the published numbers.
//!
//! # Invariants
//! 1. A published measurement is counted once. Numbers that follow from others by arithmetic, as
//!    factors, percentages and terms of a model do, are compared but not counted.
//! 2. Each counted number is in exactly one place: calibrated, near by some factor, far, or a
//!    number without a ratio (0, or the other sign), which is a miss.
//! 3. A bound is met or not. It never counts as a ratio.
//! 4. Only runs of the published size count.

use super::reproduction::{Agreement, ComparedNumber, ComparedSection};

/// The factors within which numbers are counted.
pub(super) const FACTORS: [f64; 4] = [1.15, 1.3, 1.5, 2.0];

/// Numbers that were measured at full size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// All of them.
    pub(crate) all: usize,
    /// Those within each of [`FACTORS`], in both directions.
    pub(crate) within: [usize; FACTORS.len()],
    /// Those without a ratio: 0, or of the other sign.
    pub(crate) other_sign: usize,
}

impl Tally {
    fn add(&mut self, agreement: Agreement) {
        self.all += 1;
        match agreement {
            Agreement::Ratio(ratio) => {
                for (count, factor) in self.within.iter_mut().zip(FACTORS) {
                    *count += usize::from(is_within(ratio, factor));
                }
            }
            _ => self.other_sign += 1,
        }
    }
}

/// Numbers of one kind, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Score {
    /// The kind of the numbers.
    pub(crate) group: String,
    /// Predictions: neither calibrated nor bounds.
    pub(crate) predicted: Tally,
    /// Numbers that the machine was calibrated with.
    pub(crate) calibrated: Tally,
    /// Bounds: met, and all.
    pub(crate) bounds: (usize, usize),
    /// Numbers that were not measured, or at a smaller size.
    pub(crate) not_run: usize,
}

/// Whether a ratio is within a factor, in both directions.
pub(super) fn is_within(ratio: f64, factor: f64) -> bool {
    ratio.max(1.0 / ratio) <= factor
}

impl Score {
    fn add(&mut self, number: &ComparedNumber) {
        match number.agreement {
            Agreement::NotRun | Agreement::Smaller(_) => self.not_run += 1,
            Agreement::Base => {}
            Agreement::Bound(holds) => {
                self.bounds = (self.bounds.0 + usize::from(holds), self.bounds.1 + 1);
            }
            found @ (Agreement::Ratio(_) | Agreement::OtherSign) => match number.calibrated {
                true => self.calibrated.add(found),
                false => self.predicted.add(found),
            },
        }
    }

    /// Whether something was measured.
    pub(crate) fn has_numbers(&self) -> bool {
        self.predicted.all + self.calibrated.all + self.bounds.1 > 0
    }

    /// The row of a table: group, counted, within each factor, farther, other sign, calibrated,
    /// bounds, not run.
    pub(crate) fn row(&self) -> Vec<String> {
        let of = |(part, all): (usize, usize)| match all {
            0 => String::new(),
            _ => format!("{part} of {all}"),
        };
        let Tally { all, within, other_sign } = self.predicted;
        let far = all - within[FACTORS.len() - 1] - other_sign;
        let calibrated = (self.calibrated.within[1], self.calibrated.all);
        let mut row = vec![self.group.clone(), all.to_string()];
        row.extend(within.iter().map(usize::to_string));
        row.extend([far, other_sign].map(|n| n.to_string()));
        row.extend([of(calibrated), of(self.bounds), self.not_run.to_string()]);
        row
    }
}

/// The heads of the table whose rows [`Score::row`] makes.
pub(super) const HEADS: [&str; 11] = [
    "published",
    "predicted",
    "≤ ×1.15",
    "≤ ×1.3",
    "≤ ×1.5",
    "≤ ×2",
    "farther",
    "0 or other sign",
    "calibrated ≤ ×1.3",
    "bounds met",
    "not run",
];

/// Counts the numbers of all sections by kind, in the order of the file.
#[must_use]
pub(super) fn all(compared: &[ComparedSection]) -> Vec<Score> {
    let mut scores: Vec<Score> = Vec::new();
    for section in compared {
        let Some(group) = &section.count else { continue };
        let at = scores.iter().position(|score| score.group == *group).unwrap_or_else(|| {
            scores.push(Score { group: group.clone(), ..Score::default() });
            scores.len() - 1
        });
        let counted = section.rows.iter().filter(|number| !number.follows);
        counted.for_each(|number| scores[at].add(number));
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(agreement: Agreement) -> ComparedNumber {
        ComparedNumber { agreement, ..ComparedNumber::default() }
    }

    #[test]
    fn every_number_counts_once_and_a_miss_is_a_miss() {
        let calibrated =
            |ratio| ComparedNumber { calibrated: true, ..number(Agreement::Ratio(ratio)) };
        let rows = vec![
            number(Agreement::Ratio(1.0)),
            number(Agreement::Ratio(1.0 / 1.2)),
            number(Agreement::Ratio(1.4)),
            number(Agreement::Ratio(0.51)),
            number(Agreement::Ratio(8.0)),
            number(Agreement::OtherSign),
            number(Agreement::Bound(true)),
            number(Agreement::Bound(false)),
            number(Agreement::NotRun),
            number(Agreement::Smaller(Some(1.0))),
            number(Agreement::Base),
            calibrated(1.0),
            calibrated(1.4),
            ComparedNumber { follows: true, ..number(Agreement::Ratio(1.0)) },
        ];
        let section = |rows: Vec<ComparedNumber>, count: Option<&str>| ComparedSection {
            count: count.map(str::to_owned),
            rows,
            ..ComparedSection::default()
        };
        let derived = section(vec![number(Agreement::Ratio(1.0))], None);
        let more = section(vec![number(Agreement::Ratio(1.0))], Some("times"));
        let found = all(&[section(rows, Some("times")), derived, more]);
        let expected = Score {
            group: "times".to_owned(),
            predicted: Tally { all: 7, within: [2, 3, 4, 5], other_sign: 1 },
            calibrated: Tally { all: 2, within: [1, 1, 2, 2], other_sign: 0 },
            bounds: (1, 2),
            not_run: 2,
        };
        assert_eq!(found, [expected]);
        assert_eq!(found[0].row().len(), HEADS.len());
        assert_eq!(found[0].row()[6], "1");
    }
}
