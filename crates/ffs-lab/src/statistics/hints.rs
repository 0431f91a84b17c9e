//! Sentences that interpret a model.

use super::combination::Combination;
use super::model::{Model, Term};

/// A term below this many percent of the base is small.
const SMALL: f64 = 2.0;
/// A model with this many small interactions explains little.
const MANY: usize = 4;

/// Whether the model explains the result: `false` if many small interactions are significant.
#[must_use]
pub(crate) fn is_satisfactory(model: &Model) -> bool {
    let small = |term: &&Term| term.options.count() > 1 && term.value.abs() < SMALL;
    model.spread.is_none() || model.significant().filter(small).count() < MANY
}

/// Sentences about the significant interactions and about the model as a whole.
#[must_use]
pub(crate) fn hints(model: &Model, names: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    if !is_satisfactory(model) {
        out.push(
            "Not satisfactory: many small terms are significant. The rank table is clearer."
                .to_owned(),
        );
    }
    if model.spread.is_none() {
        out.push(
            "One run of each: no test is possible; terms of 1 % and more are shown.".to_owned(),
        );
    }
    let pairs = model.significant().filter(|term| term.options.count() == 2);
    out.extend(pairs.filter_map(|term| pair(model, term, names)));
    if !model.is_complete {
        let order = model.order;
        out.push(format!(
            "Combinations are missing: terms of more than {order} option{} are omitted.",
            if order == 1 { "" } else { "s" }
        ));
    }
    out
}

/// A sentence about an interaction of two options; it depends on the effect of each alone.
fn pair(model: &Model, term: &Term, names: &[String]) -> Option<String> {
    let alone: Vec<&Term> =
        term.options.factors().filter_map(|f| model.term(Combination::only(f))).collect();
    let &[first, second] = alone.as_slice() else { return None };
    let helps = |term: &Term| term.is_significant && term.value < 0.0;
    let both_help = helps(first) && helps(second);
    let (first, second) = (first.value, second.value);
    let together = term.options.name(names, " and ");
    let sum = first + second + term.value;
    let relation = match (both_help, term.value > 0.0) {
        (true, true) => "overlap",
        (true, false) => "gain more together than the sum of both alone",
        // One of them is a loss, or has no significant effect of its own.
        (false, _) => "do not add up",
    };
    let text =
        format!("{together} {relation}: together {sum:+.1} %, not {:+.1} %.", first + second);
    Some(text.replace(" -", " −").replace("(-", "(−"))
}

#[cfg(test)]
mod tests {
    use super::super::table1;
    use super::*;

    #[test]
    fn an_overlap_has_a_sentence() {
        let model = Model::fit(&table1::cells()).unwrap();
        let hints = hints(&model, &table1::names());
        assert_eq!(hints, ["SU and DP overlap: together −52.4 %, not −57.0 %."]);
        assert!(is_satisfactory(&model));
    }

    #[test]
    fn an_option_without_an_effect_of_its_own_does_not_overlap() {
        let mut model = Model::fit(&table1::cells()).unwrap();
        let vm = model.terms.iter_mut().find(|term| term.options == Combination::only(1)).unwrap();
        vm.is_significant = false;
        let hints = hints(&model, &table1::names());
        assert!(hints[0].starts_with("SU and DP do not add up"), "{hints:?}");
    }

    #[test]
    fn many_small_terms_are_no_explanation() {
        let mut model = Model::fit(&table1::cells()).unwrap();
        for term in model.terms.iter_mut().filter(|term| term.options.count() == 2) {
            (term.value, term.is_significant) = (-1.0, true);
        }
        assert!(hints(&model, &table1::names())[0].starts_with("Not satisfactory"));
    }
}
