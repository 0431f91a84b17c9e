//! The model against the paper's tables, against the closed form, and against another package.

use super::super::design::Design;
use super::super::table1::{self, runs};
use super::*;

const SU: u32 = 1;
const DP: u32 = 2;
const VM: u32 = 4;
const DH: u32 = 8;

fn printed(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// Table 2 of the paper to the printed digit: values, errors, and which terms are there.
#[test]
fn table_2_comes_out_of_table_1() {
    let model = Model::fit(&table1::cells()).unwrap();
    let shown: Vec<(u32, String, String)> = model
        .significant()
        .map(|term| (term.options.0, printed(term.value, 2), printed(term.error.unwrap(), 2)))
        .collect();
    let table2 = [
        (0, "100.00", "0.24"),
        (SU, "-42.71", "0.34"),
        (DP, "-14.28", "0.34"),
        (VM, "-1.91", "0.34"),
        (SU | DP, "4.57", "0.48"),
    ];
    assert_eq!(shown, table2.map(|(set, v, e)| (set, v.to_owned(), e.to_owned())));
    assert_eq!(model.spread.unwrap().1, 48);
}

/// All sixteen terms, and the errors by order.
#[test]
fn every_term_of_the_model_is_as_expected() {
    let model = Model::fit(&table1::cells()).unwrap();
    let expected = [
        (SU, "-42.708"),
        (DP, "-14.285"),
        (VM, "-1.908"),
        (DH, "0.065"),
        (SU | DP, "4.566"),
        (SU | VM, "-0.384"),
        (SU | DH, "-0.290"),
        (DP | VM, "1.272"),
        (DP | DH, "0.515"),
        (VM | DH, "-0.118"),
        (SU | DP | VM, "0.828"),
        (SU | DP | DH, "0.894"),
        (SU | VM | DH, "0.266"),
        (DP | VM | DH, "-0.814"),
        (SU | DP | VM | DH, "-1.119"),
    ];
    for (set, value) in expected {
        assert_eq!(printed(model.term(Combination(set)).unwrap().value, 3), value, "{set:04b}");
    }
    let errors = ["0.242", "0.342", "0.484", "0.684", "0.968"];
    for term in &model.terms {
        let found = term.error.unwrap();
        let wanted: f64 = errors[term.options.count()].parse().unwrap();
        assert!((found - wanted).abs() < 0.0011, "{term:?}: {wanted}");
    }
    let t = |set: u32| {
        let term = model.term(Combination(set)).unwrap();
        (term.value / term.error.unwrap()).abs()
    };
    assert_eq!([VM, SU | DP, DP | VM].map(|set| printed(t(set), 1)), ["5.6", "9.4", "2.6"]);
}

/// Coefficients are alternating sums of means: the closed form, found without the library.
#[test]
fn least_squares_agree_with_the_contrasts_of_means() {
    let cells = table1::cells();
    let model = Model::fit(&cells).unwrap();
    assert_eq!(model.terms.len(), 16);
    for term in &model.terms {
        let within = cells.combinations().filter(|c| c.is_subset(term.options));
        let sum: f64 = within
            .map(|c| {
                let odd = (term.options.count() - c.count()) % 2 == 1;
                cells.percent(c).unwrap() * if odd { -1.0 } else { 1.0 }
            })
            .sum();
        assert!((sum - term.value).abs() < 1e-9, "{term:?}: {sum}");
    }
}

/// Table 3's shape (MH removal): nothing helps but soft updates, and dirhash with them.
#[test]
fn table_3_has_its_shape() {
    let mut cells = Cells::new(4);
    for c in cells.combinations() {
        let mean = match (c.has(0), c.has(3)) {
            (false, _) => 100.0,
            (true, false) => 1.33,
            (true, true) => 0.37,
        };
        for run in runs(mean, 0.017, 4) {
            cells.add(c, run);
        }
    }
    let model = Model::fit(&cells).unwrap();
    let shown: Vec<(u32, String, String)> = model
        .significant()
        .map(|term| (term.options.0, printed(term.value, 2), printed(term.error.unwrap(), 2)))
        .collect();
    let table3 = [(0, "100.00", "0.01"), (SU, "-98.67", "0.01"), (SU | DH, "-0.96", "0.02")];
    assert_eq!(shown, table3.map(|(set, v, e)| (set, v.to_owned(), e.to_owned())));
}

/// Made-up costs with interactions, between two and five runs a combination.
fn synthetic() -> Cells {
    let mut x: u64 = 20_020_610;
    let mut noise = || {
        x = (x * 1_103_515_245 + 12_345) % (1 << 31);
        2.0 * (x as f64 / f64::from(1_u32 << 31) - 0.5)
    };
    let mut cells = Cells::new(4);
    for c in cells.combinations() {
        let on = |factor| f64::from(u8::from(c.has(factor)));
        let (su, dp, vm, dh) = (on(0), on(1), on(2), on(3));
        let mean = 80.0 - 30.0 * su - 9.0 * dp - 1.5 * vm + 6.0 * su * dp - 2.5 * dp * dh
            + 1.25 * su * dp * vm;
        for _ in 0..2 + (c.0 * 5 + 3) % 4 {
            cells.add(c, mean + noise());
        }
    }
    cells
}

/// Made by Python's statsmodels 0.15.0 (numpy 2.4.6, scipy 1.17.1) from the runs of [`synthetic`]:
/// `OLS(percent of the mean of none, all 16 terms)`; term, `params`, `bse`, `pvalues`.
const STATSMODELS: [(u32, f64, f64, f64); 16] = [
    (0, 100.0, 0.305981384, 3.664555e-70),
    (1, -37.7197237, 0.572438752, 2.032637e-42),
    (2, -11.278213, 0.499665507, 2.270181e-24),
    (4, -1.26193418, 0.432723023, 5.782294e-03),
    (8, 1.36355029, 0.432723023, 3.077247e-03),
    (3, 8.68679996, 0.775085735, 6.524124e-14),
    (5, 0.0951061427, 0.809550647, 9.070675e-01),
    (6, 0.0629958612, 0.706633737, 9.294082e-01),
    (9, -0.9780798, 0.809550647, 2.340741e-01),
    (10, -3.23126104, 0.706633737, 4.568667e-05),
    (12, -1.1650941, 0.611962767, 6.413939e-02),
    (7, -0.161390047, 1.09613676, 8.836859e-01),
    (11, -0.897468823, 1.09613676, 4.177769e-01),
    (13, 0.975045427, 1.1448775, 3.994735e-01),
    (14, 0.522864035, 0.999331014, 6.037119e-01),
    (15, 0.0397405797, 1.55017147, 9.796749e-01),
];

/// Seconds of `rm` in a study of `x11:files=400,dirs=60` on the simulated machine, three runs of
/// each combination (two of some).
const REAL: [&[f64]; 16] = [
    &[9.111116, 8.693653397, 8.978374838],
    &[0.027252943, 0.027277502, 0.027243429],
    &[7.643929509, 8.380028161, 8.026224664],
    &[0.027264943, 0.027281502, 0.027253429],
    &[9.099854852, 8.727848719, 8.972182325],
    &[0.027932943, 0.027837502],
    &[7.639782805, 8.412414776, 8.523098587],
    &[0.027264943, 0.027801502, 0.027253429],
    &[9.111116, 8.693653397, 8.978374838],
    &[0.027252943, 0.027277502, 0.027243429],
    &[7.643929509, 8.380028161],
    &[0.027264943, 0.027281502, 0.027253429],
    &[9.099854852, 8.727848719, 8.972182325],
    &[0.027932943, 0.027837502, 0.027243429],
    &[7.639782805, 8.412414776, 8.523098587],
    &[0.027264943, 0.027801502, 0.027253429],
];

/// The same package on [`REAL`].
const STATSMODELS_REAL: [(u32, f64, f64, f64); 16] = [
    (0, 100.0, 1.58106826, 1.729607e-33),
    (1, -99.6946816, 2.23596817, 5.570112e-29),
    (2, -10.2040368, 2.23596817, 7.964598e-05),
    (4, 0.0625081986, 2.23596817, 9.778826e-01),
    (8, -3.23213636e-16, 2.23596817, 1.000000e+00),
    (3, 10.2041339, 3.16213651, 3.020792e-03),
    (5, -0.0554821621, 3.35395226, 9.869113e-01),
    (6, 1.8981049, 3.16213651, 5.528406e-01),
    (9, -1.35322523e-13, 3.16213651, 1.000000e+00),
    (10, -0.0531895317, 3.35395226, 9.874521e-01),
    (12, -1.77991338e-13, 3.16213651, 1.000000e+00),
    (7, -1.90318942, 4.60956647, 6.826320e-01),
    (11, 0.0531895317, 4.60956647, 9.908699e-01),
    (13, -0.00239625898, 4.60956647, 9.995887e-01),
    (14, 0.0531895317, 4.60956647, 9.908699e-01),
    (15, -0.0507932727, 6.51891142, 9.938348e-01),
];

fn agrees(cells: &Cells, expected: &[(u32, f64, f64, f64)]) {
    let model = Model::fit(cells).unwrap();
    assert_eq!((model.is_complete, model.terms.len()), (true, expected.len()));
    for &(set, value, error, chance) in expected {
        let term = model.term(Combination(set)).unwrap();
        assert!((term.value - value).abs() < 1e-6, "{term:?}: {value}");
        assert!((term.error.unwrap() - error).abs() < 1e-6, "{term:?}: {error}");
        let found = term.p_value.unwrap();
        assert!(
            (found - chance).abs() < 1e-6 && (chance > 0.5 || (found / chance - 1.0).abs() < 1e-4),
            "{term:?}"
        );
        assert_eq!(term.is_significant, chance < 1e-3, "{term:?}");
    }
}

#[test]
fn another_package_finds_the_same_with_unequal_numbers_of_runs() {
    let cells = synthetic();
    agrees(&cells, &STATSMODELS);
    let (sigma, degrees) = Model::fit(&cells).unwrap().spread.unwrap();
    assert!((sigma - 0.6841951737578856).abs() < 1e-9);
    assert_eq!(degrees, 40);
}

#[test]
fn another_package_finds_the_same_in_a_real_study() {
    let mut cells = Cells::new(4);
    for (bits, runs) in (0..).zip(REAL) {
        for run in runs {
            cells.add(Combination(bits), *run);
        }
    }
    agrees(&cells, &STATSMODELS_REAL);
}

/// The same package, the same data without combinations 6 and 15, terms of two options at most.
const STATSMODELS_PARTIAL: [(u32, f64); 11] = [
    (0, 100.010512),
    (1, -37.5603618),
    (2, -11.0355671),
    (4, -1.43485269),
    (8, 1.26406506),
    (3, 7.98633522),
    (5, 0.308013952),
    (6, 0.24763839),
    (9, -1.02218851),
    (10, -3.50732245),
    (12, -0.662334264),
];

#[test]
fn a_partial_experiment_has_the_terms_that_can_be_estimated() {
    let mut cells = Cells::new(4);
    let whole = synthetic();
    for c in whole.combinations().filter(|c| ![6, 15].contains(&c.0)) {
        for run in whole.runs(c) {
            cells.add(c, *run);
        }
    }
    let model = Model::fit(&cells).unwrap();
    assert_eq!((model.order, model.is_complete, model.terms.len()), (2, false, 11));
    for (set, value) in STATSMODELS_PARTIAL {
        let term = model.term(Combination(set)).unwrap();
        assert!((term.value - value).abs() < 1e-6, "{term:?}: {value}");
    }
}

#[test]
fn what_was_run_once_has_no_error_and_shows_what_is_large() {
    let mut cells = Cells::new(4);
    for (bits, mean, ..) in table1::TABLE1 {
        cells.add(Combination(bits), mean);
    }
    let model = Model::fit(&cells).unwrap();
    assert_eq!(model.spread, None);
    assert!(model.terms.iter().all(|term| term.error.is_none() && term.p_value.is_none()));
    assert!(model.term(Combination(SU)).unwrap().is_significant);
    assert!(!model.term(Combination(DH)).unwrap().is_significant);
}

#[test]
fn runs_that_are_all_alike_are_certain_but_rounding_is_nothing() {
    let mut cells = Cells::new(2);
    for (bits, mean) in [(0, 0.3), (1, 0.1), (2, 0.3), (3, 0.1)] {
        for _ in 0..3 {
            cells.add(Combination(bits), mean);
        }
    }
    let model = Model::fit(&cells).unwrap();
    let shown: Vec<u32> = model.significant().map(|term| term.options.0).collect();
    assert_eq!(shown, [0, 1]);
}

#[test]
fn other_numbers_of_options_work_too() {
    let mut one = Cells::new(1);
    one.add(Combination(0), 4.0);
    one.add(Combination(1), 1.0);
    let model = Model::fit(&one).unwrap();
    let off =
        model.terms.iter().zip([100.0, -75.0]).map(|(term, value)| (term.value - value).abs());
    assert!(model.terms.len() == 2 && off.fold(0.0, f64::max) < 1e-9);

    let mut none = Cells::new(0);
    none.add(Combination::NONE, 4.0);
    assert_eq!(Model::fit(&none).unwrap().terms.len(), 1);

    let mut six = Cells::new(6);
    for c in six.combinations() {
        six.add(c, 100.0 - c.count() as f64);
    }
    let model = Model::fit(&six).unwrap();
    assert_eq!(model.terms.len(), 64);
    assert!(model.terms.iter().all(|t| t.options.count() < 2 || t.value.abs() < 1e-9));

    let mut baseless = Cells::new(1);
    baseless.add(Combination(1), 1.0);
    assert_eq!(Model::fit(&baseless), None);
    assert_eq!(Model::fit(&Cells::new(3)), None);
}

/// Made-up costs of factors with two, three and two levels (options su, big=2, big=3, dh), between
/// two and five runs a combination.
fn synthetic_levels() -> Cells {
    let mut x: u64 = 20_020_610;
    let mut noise = || {
        x = (x * 1_103_515_245 + 12_345) % (1 << 31);
        2.0 * (x as f64 / f64::from(1_u32 << 31) - 0.5)
    };
    let mut cells = Cells::of(&Design::new(&[2, 3, 2]).unwrap());
    for c in cells.combinations() {
        let on = |option| f64::from(u8::from(c.has(option)));
        let (su, second, third, dh) = (on(0), on(1), on(2), on(3));
        let mean = 80.0 - 30.0 * su - 9.0 * second - 14.0 * third - 1.5 * dh
            + 6.0 * su * second
            + 11.0 * su * third
            - 2.5 * third * dh;
        for _ in 0..2 + (c.0 * 5 + 3) % 4 {
            cells.add(c, mean + noise());
        }
    }
    cells
}

/// The same package on [`synthetic_levels`]: `OLS(percent of the mean of none, su * C(big) * dh)`
/// with treatment coding. `C(big)[T.1]` is option 2, `C(big)[T.2]` option 4.
const STATSMODELS_LEVELS: [(u32, f64, f64, f64); 12] = [
    (0, 100.0, 0.326880949, 5.575008e-54),
    (1, -37.7197237, 0.611538259, 3.653122e-33),
    (2, -11.278213, 0.533794355, 1.445775e-19),
    (4, -16.9870919, 0.462279471, 1.665209e-26),
    (8, -1.45529124, 0.462279471, 3.700854e-03),
    (3, 8.68679996, 0.828026717, 1.481032e-11),
    (5, 13.933245, 0.8648457, 2.587244e-16),
    (9, 0.0713914418, 0.8648457, 9.347591e-01),
    (10, 0.710679582, 0.754899216, 3.540076e-01),
    (12, -3.11478709, 0.653761898, 4.527984e-05),
    (11, -1.39930883, 1.17100661, 2.414634e-01),
    (13, -0.799915637, 1.22307652, 5.180818e-01),
];

#[test]
fn another_package_finds_the_same_terms_of_three_levels() {
    let cells = synthetic_levels();
    agrees(&cells, &STATSMODELS_LEVELS);
    let (sigma, degrees) = Model::fit(&cells).unwrap().spread.unwrap();
    assert!((sigma / 0.730_928_022_635_999_7 - 1.0).abs() < 1e-9);
    assert_eq!(degrees, 30);
}

/// The same package, the same data without combinations 10 and 13, terms of two options at most.
const STATSMODELS_LEVELS_PARTIAL: [(u32, f64); 10] = [
    (0, 100.0),
    (1, -37.7197237),
    (2, -11.278213),
    (4, -16.9870919),
    (8, -1.45529124),
    (3, 8.68679996),
    (5, 13.933245),
    (9, 0.0713914418),
    (10, -0.688629244),
    (12, -3.11478709),
];

#[test]
fn a_partial_experiment_of_three_levels_has_the_terms_that_can_be_estimated() {
    let whole = synthetic_levels();
    let mut cells = Cells::of(whole.design());
    for c in whole.combinations().filter(|c| ![10, 13].contains(&c.0)) {
        for run in whole.runs(c) {
            cells.add(c, *run);
        }
    }
    let model = Model::fit(&cells).unwrap();
    assert_eq!((model.order, model.is_complete, model.terms.len()), (2, false, 10));
    for (set, value) in STATSMODELS_LEVELS_PARTIAL {
        let term = model.term(Combination(set)).unwrap();
        assert!((term.value - value).abs() < 1e-6, "{term:?}: {value}");
    }
}
