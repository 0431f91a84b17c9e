//! Charts as SVG: the same numbers give the same bytes, in light and dark colours.
//!
//! | module | holds |
//! | --- | --- |
//! | [`svg`] | the writer, and [`Figure`]: a chart within a page or in a file of its own |
//! | [`style`] | colours, fonts and dash patterns |
//! | [`scale`] | linear and logarithmic axes and their tick marks |
//! | [`triangle`] | what each option adds to the options before it (the paper's Figure 8) |
//! | [`lattice`] | all combinations and the steps between them (Figure 9) |
//! | [`interaction`] | the cost at each level of a factor, for each combination of the others |
//! | [`bar_chart`] | the summary: one bar for each result (Figure 10) |
//! | [`ratio_chart`] | measured numbers divided by published numbers |
//! | [`line_chart`] | cost as a size grows (Figures 2 to 6) |
//!
//! # Invariants
//! 1. Colours are CSS variables ([`style`]), so that the reader's setting of light or dark applies.
//! 2. Colour never carries a distinction alone: words, marks or dashes repeat it.
//! 3. Numbers have at most two decimals, and no number depends on the computer.
//!
//! Reference: `docs/spec/benchmarks.md` §3.4.

pub(crate) mod bar_chart;
pub(crate) mod dot_chart;
pub(crate) mod interaction;
pub(crate) mod lattice;
pub(crate) mod line_chart;
pub(crate) mod ratio_chart;
pub(crate) mod scale;
pub(crate) mod style;
pub(crate) mod svg;
pub(crate) mod triangle;

pub(crate) use svg::Figure;

/// Short names of the options in a chart, in the order of their bits.
pub(crate) type OptionNames<'a> = &'a [String];

/// A factor such as `×2.1`, with two or three significant digits.
#[must_use]
pub(crate) fn times(gain: f64) -> String {
    let digits = match gain {
        g if g >= 99.5 => 0,
        g if g >= 9.95 => 1,
        _ => 2,
    };
    format!("×{gain:.digits$}")
}
