//! The paper's Table 1 as runs: the fixture of the golden tests.

use super::cells::Cells;
use super::combination::Combination;

/// Options (SU 1, DP 2, VM 4, DH 8), mean in seconds, percent of none, sigma / sqrt(n) in percent.
pub(crate) const TABLE1: [(u32, f64, f64, f64); 16] = [
    (15, 2032.85, 46.78, 0.31),
    (7, 2058.92, 47.38, 0.32),
    (3, 2067.24, 47.57, 0.40),
    (11, 2118.72, 48.76, 0.03),
    (13, 2386.64, 54.92, 0.06),
    (5, 2389.99, 55.00, 0.05),
    (9, 2479.80, 57.07, 0.08),
    (1, 2489.56, 57.29, 0.04),
    (14, 3681.77, 84.73, 0.19),
    (6, 3697.03, 85.08, 0.44),
    (2, 3724.66, 85.72, 0.17),
    (10, 3749.88, 86.30, 0.24),
    (12, 4260.20, 98.04, 0.06),
    (4, 4262.49, 98.09, 0.02),
    (0, 4345.38, 100.00, 0.05),
    (8, 4348.22, 100.07, 0.08),
];

/// The names of the options.
pub(crate) fn names() -> Vec<String> {
    ["SU", "DP", "VM", "DH"].map(str::to_owned).to_vec()
}

/// `n` runs with the mean and population sigma given: half of them below, half above.
pub(crate) fn runs(mean: f64, sigma: f64, n: usize) -> Vec<f64> {
    (0..n).map(|i| if i % 2 == 0 { mean - sigma } else { mean + sigma }).collect()
}

/// Four runs of each combination with the means and errors of Table 1.
pub(crate) fn cells() -> Cells {
    let mut cells = Cells::new(4);
    for (bits, mean, _, error) in TABLE1 {
        for run in runs(mean, error / 100.0 * 4345.38 * 2.0, 4) {
            cells.add(Combination(bits), run);
        }
    }
    cells
}
