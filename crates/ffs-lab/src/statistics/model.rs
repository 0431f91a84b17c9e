//! The linear model: the cost in percent of that without options, as a sum over sets of options.
//!
//! The model has treatment coding: an option is an indicator that is 1 at its level, and a set of
//! options of different factors is the product of their indicators. So the terms are the
//! combinations of the design, and a term counts where all its options are on.
//!
//! If every combination was run, the model has all terms, 2^k for k factors of two levels, and the
//! coefficients are alternating sums of the means of the combinations. If combinations are missing,
//! the terms of the highest orders are omitted until the others can be estimated: an incomplete
//! experiment still has main effects.
//!
//! The standard errors come from the spread within combinations, whichever terms the model has.

use nalgebra::{DMatrix, DVector};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::LEVEL;
use super::cells::Cells;
use super::combination::Combination;

/// Terms below this part of the base are rounding errors.
const ROUNDING: f64 = 1e-11;
/// Without a test, terms of at least this many percent are shown.
const SHOWN_UNTESTED: f64 = 1.0;

/// A term: the cost that a set of options adds when all of them are on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Term {
    /// The options; the empty set for the base.
    pub(crate) options: Combination,
    /// The term, in percent of the base.
    pub(crate) value: f64,
    /// Its standard error in percent; `None` if no combination was run twice.
    pub(crate) error: Option<f64>,
    /// Its p value (Student's t, two-sided).
    pub(crate) p_value: Option<f64>,
    /// Whether it is significant. The base always is.
    pub(crate) is_significant: bool,
}

/// A fitted model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    /// The terms by the number of their options, then by number.
    pub(crate) terms: Vec<Term>,
    /// The residual standard deviation of a run in percent, and its degrees of freedom.
    pub(crate) spread: Option<(f64, usize)>,
    /// The number of options of the largest term.
    pub(crate) order: usize,
    /// Whether all combinations were run, so that the model has all terms.
    pub(crate) is_complete: bool,
}

/// The standard deviation of a run, from the spread within combinations; its degrees of freedom.
#[must_use]
fn spread(cells: &Cells) -> Option<(f64, usize)> {
    let (squares, degrees) = cells.squares_within();
    (degrees > 0).then(|| ((squares / degrees as f64).sqrt(), degrees))
}

/// The two-sided p value of `value` with the standard error `error`. A value that is a rounding
/// error of `scale` has the p value 1.
#[must_use]
pub(super) fn two_sided(value: f64, error: f64, degrees: f64, scale: f64) -> f64 {
    if value.abs() <= scale.abs() * ROUNDING {
        return 1.0;
    }
    if error <= 0.0 {
        return 0.0;
    }
    let student = StudentsT::new(0.0, 1.0, degrees);
    student.map_or(1.0, |student| (2.0 * student.sf((value / error).abs())).min(1.0))
}

impl Model {
    /// Fits the model; `None` without a run of no options, or if the main effects cannot be
    /// estimated.
    #[must_use]
    pub(crate) fn fit(cells: &Cells) -> Option<Model> {
        let base = cells.base()?;
        let run: Vec<Combination> =
            cells.combinations().filter(|c| !cells.runs(*c).is_empty()).collect();
        let (terms, inverse, order) =
            (1..=cells.factors().max(1)).rev().find_map(|order| estimable(cells, &run, order))?;
        let means = run.iter().filter_map(|c| cells.mean(*c)).map(|mean| mean / base * 100.0);
        let means = DVector::from_iterator(run.len(), means);
        let values = &inverse * means;
        let spread = spread(cells).map(|(sigma, degrees)| (sigma / base * 100.0, degrees));
        let error = |row: usize| {
            let (sigma, _) = spread?;
            let each = run.iter().enumerate().map(|(column, at)| {
                let weight: f64 = inverse[(row, column)];
                weight * weight / cells.runs(*at).len() as f64
            });
            Some(sigma * each.sum::<f64>().sqrt())
        };
        let term = |(row, options): (usize, &Combination)| {
            let (value, error) = (values[row], error(row));
            let tested = error.zip(spread);
            let p_value =
                tested.map(|(error, (_, degrees))| two_sided(value, error, degrees as f64, 100.0));
            let untested = value.abs() >= SHOWN_UNTESTED;
            let is_significant =
                *options == Combination::NONE || p_value.map_or(untested, |p| p < LEVEL);
            Term { options: *options, value, error, p_value, is_significant }
        };
        let terms = terms.iter().enumerate().map(term).collect();
        Some(Model { terms, spread, order, is_complete: cells.missing().is_empty() })
    }

    /// A term by its options.
    #[must_use]
    pub(crate) fn term(&self, options: Combination) -> Option<&Term> {
        self.terms.iter().find(|term| term.options == options)
    }

    /// The significant terms.
    pub(crate) fn significant(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter().filter(|term| term.is_significant)
    }
}

/// The sets of at most `order` options, by size and then number, and the matrix that turns the
/// means of combinations into their coefficients; `None` if these cannot be estimated.
fn estimable(
    cells: &Cells,
    run: &[Combination],
    order: usize,
) -> Option<(Vec<Combination>, DMatrix<f64>, usize)> {
    let mut terms: Vec<Combination> = cells.combinations().filter(|c| c.count() <= order).collect();
    terms.sort_by_key(|c| (c.count(), c.0));
    if terms.len() > run.len() {
        return None;
    }
    let weight = |at: &Combination| (cells.runs(*at).len() as f64).sqrt();
    // Least squares of the runs is weighted least squares of the means. A square design is exact.
    let square = terms.len() == run.len();
    let weights: Vec<f64> = run.iter().map(|at| if square { 1.0 } else { weight(at) }).collect();
    let design = DMatrix::from_fn(run.len(), terms.len(), |row, column| {
        if terms[column].is_subset(run[row]) { weights[row] } else { 0.0 }
    });
    let qr = design.qr();
    let r = qr.r();
    let singular = (0..terms.len()).any(|i| r[(i, i)].abs() < 1e-9);
    if singular {
        return None;
    }
    let mut inverse = r.solve_upper_triangular(&qr.q().transpose())?;
    for (column, weight) in weights.iter().enumerate() {
        inverse.column_mut(column).scale_mut(*weight);
    }
    Some((terms, inverse, order))
}

#[cfg(test)]
mod tests;
