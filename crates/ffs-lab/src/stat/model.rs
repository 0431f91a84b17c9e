//! The linear model: cost in percent of that without options, as a sum over sets of options.
//!
//! With every combination run the model has all 2^k terms and its coefficients are the alternating sums
//! of the combinations' means. Where combinations are missing, terms of the highest orders are left out
//! until the rest can be told apart: a partial experiment still has its main effects.
//!
//! Errors come from the spread within combinations alone, whatever terms there are.

use nalgebra::{DMatrix, DVector};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::LEVEL;
use super::cells::{Cells, Combination};

/// Terms below this part of the base are what is left by rounding.
const ROUNDING: f64 = 1e-11;
/// Without a test, terms from this many percent on are shown.
const SHOWN_UNTESTED: f64 = 1.0;

/// A term: what a set of options adds when all of them are on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The options; empty for the base.
    pub options: Combination,
    /// Percent of the base.
    pub value: f64,
    /// Its standard error, percent; `None` where no combination was run twice.
    pub error: Option<f64>,
    /// How likely chance alone gives this much; 1 at most.
    pub chance: Option<f64>,
    /// Whether it is told from noise. The base always is.
    pub shown: bool,
}

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Terms by the number of their options, then by number.
    pub terms: Vec<Term>,
    /// The residual standard deviation of one run, percent, and its degrees of freedom.
    pub spread: Option<(f64, usize)>,
    /// Options in the largest term.
    pub order: usize,
    /// Whether all combinations were run, so that the model has every term.
    pub complete: bool,
}

/// The standard deviation of one run, from the spread within combinations, and its degrees of freedom.
#[must_use]
fn spread(cells: &Cells) -> Option<(f64, usize)> {
    let (squares, degrees) = cells.within();
    (degrees > 0).then(|| ((squares / degrees as f64).sqrt(), degrees))
}

/// How likely chance alone gives `value` or more to either side, if the standard error is `error`.
/// `scale` tells what is large: differences of rounding are none.
#[must_use]
pub fn two_sided(value: f64, error: f64, degrees: f64, scale: f64) -> f64 {
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
    /// Fits; `None` without a run that has no option, or where not even main effects can be told apart.
    #[must_use]
    pub fn fit(cells: &Cells) -> Option<Model> {
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
            let chance =
                tested.map(|(error, (_, degrees))| two_sided(value, error, degrees as f64, 100.0));
            let shown = chance.map_or(value.abs() >= SHOWN_UNTESTED, |chance| chance < LEVEL);
            let shown = shown || *options == Combination::NONE;
            Term { options: *options, value, error, chance, shown }
        };
        let terms = terms.iter().enumerate().map(term).collect();
        Some(Model { terms, spread, order, complete: cells.missing().is_empty() })
    }

    /// A term by its options.
    #[must_use]
    pub fn term(&self, options: Combination) -> Option<&Term> {
        self.terms.iter().find(|term| term.options == options)
    }

    /// The terms that are told from noise.
    pub fn shown(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter().filter(|term| term.shown)
    }
}

/// Sets of options up to `order`, by size and then number, and the matrix that makes their coefficients
/// of the means of combinations; `None` if these cannot be told apart.
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
    // Weighted least squares of the means is least squares of the runs. A square design has no choice.
    let square = terms.len() == run.len();
    let weights: Vec<f64> = run.iter().map(|at| if square { 1.0 } else { weight(at) }).collect();
    let design = DMatrix::from_fn(run.len(), terms.len(), |row, column| {
        if terms[column].within(run[row]) { weights[row] } else { 0.0 }
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
