//! How a model is to be read.

use super::cells::Combination;
use super::model::{Model, Term};

/// Terms smaller than this many percent of the base are small.
const SMALL: f64 = 2.0;
/// From this many small terms of several options on, a model explains little.
const MANY: usize = 4;

/// Whether so many small interactions are told from noise that the rank table says more.
#[must_use]
pub fn satisfactory(model: &Model) -> bool {
    let small = |term: &&Term| term.options.count() > 1 && term.value.abs() < SMALL;
    model.spread.is_none() || model.shown().filter(small).count() < MANY
}

/// Sentences about the interactions that are told from noise, and about the model as a whole.
#[must_use]
pub fn hints(model: &Model, names: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    if !satisfactory(model) {
        out.push(
            "Not satisfactory: many small terms survive; the rank table says more.".to_owned(),
        );
    }
    let pairs = model.shown().filter(|term| term.options.count() == 2);
    out.extend(pairs.filter_map(|term| pair(model, term, names)));
    if !model.complete {
        let order = model.order;
        out.push(format!(
            "Combinations are missing: terms of more than {order} option{} are left out.",
            if order == 1 { "" } else { "s" }
        ));
    }
    if model.spread.is_none() {
        out.push("One run of each: nothing is tested; terms of 1 % and more are shown.".to_owned());
    }
    out
}

/// What an interaction of two options means: the reading depends on what they do alone.
fn pair(model: &Model, term: &Term, names: &[String]) -> Option<String> {
    let alone: Vec<f64> = term
        .options
        .factors()
        .filter_map(|f| Some(model.term(Combination::only(f))?.value))
        .collect();
    let &[first, second] = alone.as_slice() else { return None };
    let together = term.options.name(names, " and ");
    let sum = first + second + term.value;
    let text = if first < 0.0 && second < 0.0 && term.value > 0.0 {
        format!("{together} overlap: together {sum:+.1} %, not {:+.1} %.", first + second)
    } else if term.value < 0.0 {
        let gain = "together they do more than each alone adds up to";
        format!("{together}: {gain} ({sum:+.1} %, not {:+.1} %).", first + second)
    } else {
        format!("{together} hinder each other: together {sum:+.1} %, not {:+.1} %.", first + second)
    };
    Some(text.replace(" -", " −").replace("(-", "(−"))
}

#[cfg(test)]
mod tests {
    use super::super::published;
    use super::*;

    #[test]
    fn an_overlap_is_told() {
        let model = Model::fit(&published::table1()).unwrap();
        let hints = hints(&model, &published::names());
        assert_eq!(hints, ["SU and DP overlap: together −52.4 %, not −57.0 %."]);
        assert!(satisfactory(&model));
    }

    #[test]
    fn many_small_terms_are_no_explanation() {
        let mut model = Model::fit(&published::table1()).unwrap();
        for term in model.terms.iter_mut().filter(|term| term.options.count() == 2) {
            (term.value, term.shown) = (-1.0, true);
        }
        assert!(hints(&model, &published::names())[0].starts_with("Not satisfactory"));
    }
}
