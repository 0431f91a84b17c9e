//! Axes: the positions of values, and the tick marks.

use crate::portable_math::{decade, ln, ten_to};

/// An axis: values from `low` to `high` are at positions from `from` to `to`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

/// The divisions of a decade, from coarse to fine.
const DECADES: [&[f64]; 5] = [
    &[1.0],
    &[1.0, 3.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
];
/// A logarithmic axis whose ends have a smaller ratio has the marks of a linear one.
const NARROW: f64 = 1.8;

impl Scale {
    /// A linear axis.
    #[must_use]
    pub(crate) fn linear(range: (f64, f64), places: (f64, f64)) -> Scale {
        let high = if range.1 > range.0 { range.1 } else { range.0 + 1.0 };
        Scale { low: range.0, high, from: places.0, to: places.1, log: false }
    }

    /// A logarithmic axis. Its values are above 0.
    #[must_use]
    pub(crate) fn log(range: (f64, f64), places: (f64, f64)) -> Scale {
        let low = range.0.max(1e-12);
        let high = if range.1 > low { range.1 } else { low * 1.1 };
        Scale { low, high, from: places.0, to: places.1, log: true }
    }

    /// The position of a value. A value outside is at the nearer end.
    #[must_use]
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let part = if self.log {
            ln(value / self.low) / ln(self.high / self.low)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }

    /// The values with a tick mark. Marks are at least `apart` apart.
    #[must_use]
    pub(crate) fn marks(&self, apart: f64) -> Vec<f64> {
        let most = ((self.to - self.from).abs() / apart).floor().max(1.0);
        if !self.log || self.high / self.low < NARROW {
            return self.even(most);
        }
        let fits = |marks: &Vec<f64>| {
            let places: Vec<f64> = marks.iter().map(|mark| self.at(*mark)).collect();
            places.windows(2).all(|pair| (pair[1] - pair[0]).abs() >= apart)
        };
        let fine = DECADES.iter().rev().map(|division| self.divided(division));
        let found = fine.into_iter().find(fits);
        found.filter(|marks| marks.len() > 1).unwrap_or_else(|| self.sparse(most))
    }

    /// Marks at these divisions of each decade.
    fn divided(&self, division: &[f64]) -> Vec<f64> {
        let (first, last) = (decade(self.low), decade(self.high) + 1);
        let decades = (first..=last).map(ten_to);
        let marks = decades.flat_map(|decade| division.iter().map(move |part| part * decade));
        let slack = 1.0 + 1e-9;
        marks.filter(|m| *m >= self.low / slack && *m <= self.high * slack).collect()
    }

    /// Marks at some decades, if not all have space. At most `most` marks.
    fn sparse(&self, most: f64) -> Vec<f64> {
        let all = self.divided(DECADES[0]);
        let step = (all.len() as f64 / most).ceil().max(1.0) as usize;
        all.into_iter().step_by(step).collect()
    }

    /// Round values at equal distances. About `most` marks.
    fn even(&self, most: f64) -> Vec<f64> {
        let rough = (self.high - self.low) / most;
        let unit = ten_to(decade(rough));
        let steps = [1.0, 2.0, 5.0, 10.0].map(|part| part * unit);
        let step = steps.into_iter().find(|step| *step >= rough * (1.0 - 1e-9)).unwrap_or(rough);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// The label of a mark, with the decimals that distinguish it from its neighbours.
#[must_use]
pub(crate) fn label(marks: &[f64], value: f64) -> String {
    let step = marks.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(f64::INFINITY, f64::min);
    let step = if step.is_finite() { step } else { value.abs() };
    let digits = (0..6).find(|digits| {
        let unit = ten_to(*digits);
        (value * unit - (value * unit).round()).abs() < 1e-6 * (step * unit).max(1.0)
    });
    let digits = digits.unwrap_or(6) as usize;
    group(&format!("{value:.digits$}"))
}

/// Inserts narrow spaces between thousands in a number of five or more digits.
#[must_use]
pub(crate) fn group(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let digits = whole.trim_start_matches('-');
    if digits.len() < 5 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut out = whole[..whole.len() - digits.len()].to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_inside() {
        let linear = Scale::linear((0.0, 10_000.0), (0.0, 300.0));
        assert_eq!(linear.marks(60.0), [0.0, 2000.0, 4000.0, 6000.0, 8000.0, 10_000.0]);
        let log = Scale::log((1.0, 500.0), (0.0, 300.0));
        assert_eq!(log.marks(30.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        let narrow = Scale::log((0.97, 1.04), (0.0, 200.0));
        let labels: Vec<String> =
            narrow.marks(40.0).iter().map(|m| label(&narrow.marks(40.0), *m)).collect();
        assert_eq!(labels, ["0.98", "1", "1.02", "1.04"]);
        let wide = Scale::log((1e-6, 1e12), (0.0, 100.0));
        assert!(wide.marks(30.0).len() <= 4);
    }

    #[test]
    fn places_are_in_proportion() {
        let log = Scale::log((1.0, 100.0), (0.0, 10.0));
        assert!((log.at(10.0) - 5.0).abs() < 1e-12);
        assert_eq!((log.at(0.0), log.at(1e9)), (0.0, 10.0));
        let flat = Scale::linear((3.0, 3.0), (0.0, 10.0));
        assert_eq!(flat.at(3.0), 0.0);
    }

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!(group("1234.5"), "1234.5");
        assert_eq!(group("-1234567.25"), "-1\u{202f}234\u{202f}567.25");
    }
}
