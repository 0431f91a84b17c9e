//! Pictures: SVG that is the same to the byte for the same numbers, in light and dark.
//!
//! | module | holds |
//! | --- | --- |
//! | [`svg`] | the writer, and [`Figure`]: within a page or a file of its own |
//! | [`scale`] | linear and logarithmic axes, and where their marks are |
//! | [`triangle`] | what each option adds to the options before it (the paper's Figure 8) |
//! | [`lattice`] | all combinations and the steps between them (Figure 9) |
//! | [`bars`] | the summary: one bar a result (Figure 10) |
//! | [`ratios`] | how near measured numbers are to published ones |
//! | [`curves`] | cost as something grows (Figures 2 to 6) |
//!
//! # Invariants
//! 1. Colours are CSS variables ([`style`]): the reader's choice of light or dark decides, not the file.
//! 2. An option's or a curve's colour is never all that tells it: there are words, marks or dashes too.
//! 3. Numbers have two decimals at most, and nothing depends on the machine.
//!
//! Reference: `spec/benchmarks.md` §3.4.

pub(crate) mod bar_chart;
pub(crate) mod lattice;
pub(crate) mod line_chart;
pub(crate) mod ratio_chart;
pub(crate) mod scale;
pub(crate) mod style;
pub(crate) mod svg;
pub(crate) mod triangle;

pub(crate) use svg::Figure;

/// OptionNames of the options in a picture, short ones.
pub(crate) type OptionNames<'a> = &'a [String];

/// `×2.1`, with as many digits as are worth reading.
#[must_use]
pub(crate) fn times(gain: f64) -> String {
    let digits = match gain {
        g if g >= 99.5 => 0,
        g if g >= 9.95 => 1,
        _ => 2,
    };
    format!("×{gain:.digits$}")
}
