//! The rank table: the combinations sorted by their means, with a bullet for each option.

use super::cells::Cells;
use super::combination::Combination;
use crate::portable_math;

/// A row of a rank table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RankRow {
    /// The options.
    pub(crate) combination: Combination,
    /// The mean cost.
    pub(crate) mean: f64,
    /// The mean cost in percent of that without options.
    pub(crate) percent: Option<f64>,
    /// Population sigma / sqrt(n), in percent of the mean without options; `None` for one run.
    pub(crate) error: Option<f64>,
    /// The number of runs.
    pub(crate) runs: usize,
}

/// The combinations that were run, the best first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RankTable {
    /// The options by importance: the columns of bullets from the left.
    pub(crate) order: Vec<usize>,
    /// The rows, the best first.
    pub(crate) rows: Vec<RankRow>,
}

/// The factor by which option `factor` changes the cost: the geometric mean over all pairs of
/// combinations that differ in it alone and were both run. Below 1 the option helps.
#[must_use]
fn effect(cells: &Cells, factor: usize) -> Option<f64> {
    let off = cells.combinations().filter(|c| !c.has(factor));
    let pair = |c| Some((cells.mean(c)?, cells.mean(c.with(factor))?));
    let ratios = off.filter_map(pair).filter(|(off, on)| *off > 0.0 && *on > 0.0);
    let logs: Vec<f64> = ratios.map(|(off, on)| portable_math::ln(on / off)).collect();
    (!logs.is_empty()).then(|| portable_math::exp(logs.iter().sum::<f64>() / logs.len() as f64))
}

/// The options, the one with the largest effect first: its bullets form the largest block of the
/// rank table. In a balanced experiment the mean effect over all pairs is also the mean within the
/// blocks of the options before it.
#[must_use]
pub(crate) fn importance(cells: &Cells) -> Vec<usize> {
    let size = |factor: &usize| {
        effect(cells, *factor).map_or(0.0, |effect| portable_math::ln(effect).abs())
    };
    let mut order: Vec<usize> = (0..cells.options()).collect();
    order.sort_by(|a, b| size(b).total_cmp(&size(a)));
    order
}

impl RankTable {
    /// The rank table of these runs.
    #[must_use]
    pub(crate) fn of(cells: &Cells) -> RankTable {
        let row = |combination| {
            Some(RankRow {
                combination,
                mean: cells.mean(combination)?,
                percent: cells.percent(combination),
                error: cells.error_percent(combination),
                runs: cells.runs(combination).len(),
            })
        };
        let mut rows: Vec<RankRow> = cells.combinations().filter_map(row).collect();
        rows.sort_by(|a, b| a.mean.total_cmp(&b.mean).then(a.combination.cmp(&b.combination)));
        RankTable { order: importance(cells), rows }
    }
}

#[cfg(test)]
mod tests {
    use super::super::design::Design;
    use super::super::table1;
    use super::*;

    /// Table 1 of the paper, to the printed digit.
    #[test]
    fn the_rank_table_of_the_paper_comes_out() {
        let table = RankTable::of(&table1::cells());
        let names = table1::names();
        assert_eq!(table.order, [0, 1, 2, 3], "SU, DP, VM, DH");
        let rows: Vec<(String, String, String, String, usize)> = table
            .rows
            .iter()
            .map(|row| {
                (
                    row.combination.name(&names, " "),
                    format!("{:.2}", row.mean),
                    format!("{:.2}", row.percent.unwrap()),
                    format!("{:.2}", row.error.unwrap()),
                    row.runs,
                )
            })
            .collect();
        let expected = table1::TABLE1.map(|(bits, mean, percent, error)| {
            (
                Combination(bits).name(&names, " "),
                format!("{mean:.2}"),
                format!("{percent:.2}"),
                format!("{error:.2}"),
                4,
            )
        });
        assert_eq!(rows, expected);
    }

    #[test]
    fn an_effect_of_a_level_is_that_against_the_base() {
        let mut cells = Cells::of(&Design::new(&[2, 3]).unwrap());
        for (bits, mean) in [(0, 8.0), (1, 4.0), (2, 7.0), (3, 3.5), (4, 1.0), (5, 0.5)] {
            cells.add(Combination(bits), mean);
        }
        let of = |option| effect(&cells, option).unwrap();
        let expected = [0.5, 0.875, 0.125];
        assert!((0..3).all(|option| (of(option) - expected[option]).abs() < 1e-12));
        assert_eq!(importance(&cells), [2, 0, 1]);
        assert_eq!(RankTable::of(&cells).rows.len(), 6);
    }

    #[test]
    fn missing_combinations_have_no_row_and_nothing_is_relative_without_a_base() {
        let mut cells = Cells::new(2);
        cells.add(Combination(1), 2.0);
        cells.add(Combination(3), 1.0);
        let table = RankTable::of(&cells);
        assert_eq!(table.rows.len(), 2);
        assert!(table.rows.iter().all(|row| row.percent.is_none() && row.error.is_none()));
        assert_eq!(table.order, [1, 0], "only dp is seen to change something");
    }
}
