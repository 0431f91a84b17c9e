//! The command that repeats a study, made from the plan in its results.
//!
//! # Invariants
//! 1. The command has an option for each difference between the plan and the default plan.
//! 2. A difference that no option can express appears as a comment.

use crate::study::{Factor, Origin, Plan, PlanItem};

/// Determines a study too, and is not in its plan.
const UNRECORDED: &str =
    "not recorded: the contents of the archives and trees that the options name";
/// The same for a plan without an origin.
const UNSIGNED: &str =
    "not recorded: the version of ffs, and the contents of the files that the options name";

/// The lines of the commands, and a comment for each difference that they cannot express.
pub(super) fn again(plan: &Plan) -> String {
    let (words, rest) = [options(plan, true), options(plan, false)]
        .into_iter()
        .min_by_key(|(words, rest)| (rest.len(), words.len()))
        .unwrap_or_default();
    let mut lines = vec![format!("ffs lab run {} --out DIR", words.join(" "))];
    lines.push("ffs lab report DIR".to_owned());
    lines.extend(rest.iter().map(|rest| format!("# without an option: {rest}")));
    lines.push(match &plan.origin {
        origin if origin.is_unknown() => format!("# {UNSIGNED}"),
        Origin { ffs, machine } if machine.is_empty() => {
            format!("# run by ffs {ffs}; {UNRECORDED}")
        }
        Origin { ffs, machine } => {
            format!("# run by ffs {ffs} on the machine {machine}; {UNRECORDED}")
        }
    });
    lines.join("\n")
}

/// The options of `ffs lab run`, based on the plan `quick` or `paper`, and the differences that
/// they do not cover.
fn options(plan: &Plan, quick: bool) -> (Vec<String>, Vec<String>) {
    let base = if quick { Plan::quick() } else { Plan::paper() };
    let (mut words, mut rest) = (Vec::new(), Vec::new());
    let whole = matches!(plan.name.as_str(), "paper" | "quick");
    let mut again = if whole {
        words.push("paper".to_owned());
        base.clone()
    } else {
        words.extend(plan.workloads.iter().map(|item| quoted(&item.workload)));
        let item = |item: &PlanItem| PlanItem {
            scale: base.scale_of(&item.workload),
            combinations: Vec::new(),
            ..item.clone()
        };
        Plan { workloads: plan.workloads.iter().map(item).collect(), ..base.clone() }
    };
    if quick {
        words.push("--quick".to_owned());
    }
    words.extend(["--seed".to_owned(), plan.seed.to_string()]);
    if plan.replicates != base.replicates {
        words.extend(["--replicates".to_owned(), plan.replicates.to_string()]);
    }
    let ends = plan.workloads.first().zip(again.workloads.first());
    let scale = ends.map_or(1.0, |(wanted, base)| short(wanted.scale / base.scale));
    if scale != 1.0 {
        words.extend(["--scale".to_owned(), scale.to_string()]);
    }
    if plan.target != base.target {
        words.extend(["--target".to_owned(), quoted(&plan.target)]);
    }
    let factors = factors(plan, &base, &mut rest);
    words.extend(factors.into_iter().flat_map(|factor| ["--factor".to_owned(), quoted(&factor)]));

    again.workloads.iter_mut().for_each(|item| item.scale *= scale);
    rest.extend(workloads(&plan.workloads, &again.workloads));
    (words, rest)
}

/// A quotient, rounded to twelve digits.
fn short(quotient: f64) -> f64 {
    format!("{quotient:.11e}").parse().unwrap_or(quotient)
}

/// The values of `--factor`; empty if the factors are those of the default plan.
fn factors(plan: &Plan, base: &Plan, rest: &mut Vec<String>) -> Vec<String> {
    if plan.factors == base.factors {
        return Vec::new();
    }
    if plan.factors.is_empty() {
        return vec!["none".to_owned()];
    }
    let mut words = Vec::new();
    for factor in &plan.factors {
        let full = factor.text();
        let known = |text: &String| Factor::parse(text).is_ok_and(|found| found == *factor);
        match [factor.name.clone(), full.clone()].into_iter().find(known) {
            Some(text) => words.push(text),
            None => rest.push(format!("factor {full}")),
        }
    }
    words
}

/// The workloads that the command would run differently or not at all, and those that it would add.
fn workloads(wanted: &[PlanItem], again: &[PlanItem]) -> Vec<String> {
    let mut rest = Vec::new();
    for item in wanted {
        let found = again.iter().find(|other| other.workload == item.workload);
        let near = |other: &PlanItem| (other.scale / item.scale - 1.0).abs() < 1e-9;
        if found.is_none_or(|other| !near(other)) {
            rest.push(format!("{} at scale {}", item.workload, item.scale));
        }
        let same = found.is_none_or(|other| other.combinations == item.combinations);
        if !same {
            rest.push(format!("{} in combinations {:?} only", item.workload, item.combinations));
        }
    }
    let added = |other: &&PlanItem| !wanted.iter().any(|item| item.workload == other.workload);
    rest.extend(
        again.iter().filter(added).map(|other| format!("a study without {}", other.workload)),
    );
    rest
}

/// A word, quoted for a shell where necessary.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=:,./_-+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(plan: &Plan) -> String {
        let text = again(plan);
        assert!(!text.contains("without an option"), "{text}");
        text.lines().next().unwrap().to_owned()
    }

    #[test]
    fn a_plan_with_defaults_needs_no_option() {
        assert_eq!(first(&Plan::paper()), "ffs lab run paper --seed 2002 --out DIR");
        assert_eq!(first(&Plan::quick()), "ffs lab run paper --quick --seed 2002 --out DIR");
    }

    #[test]
    fn what_differs_from_the_defaults_is_in_the_command() {
        let mut plan = Plan { replicates: 7, seed: 1, ..Plan::paper() };
        plan.target = "sim:machine=my disk".to_owned();
        plan.factors.retain(|factor| factor.name != "vm");
        plan.factors.push(Factor::parse("namecache").unwrap());
        plan.factors.push(Factor::parse("big=maxvnodes=5000/maxvnodes=90000").unwrap());
        plan.workloads.iter_mut().for_each(|item| item.scale *= 0.3);
        assert_eq!(
            first(&plan),
            "ffs lab run paper --seed 1 --replicates 7 --scale 0.3 --target 'sim:machine=my disk' \
             --factor su --factor dp --factor dh --factor namecache \
             --factor big=maxvnodes=5000/maxvnodes=90000 --out DIR"
        );
        plan.factors = vec![Factor::parse("memory=64m/256m/1g").unwrap()];
        let levels = "--factor memory=memory=64m/memory=256m/memory=1g";
        assert!(first(&plan).contains(levels), "{}", first(&plan));
        plan.factors.clear();
        assert!(first(&plan).contains("--factor none"));
    }

    #[test]
    fn workloads_of_a_small_plan_are_known_by_their_scales() {
        let items = ["netnews", "micro"].map(|name| PlanItem {
            workload: name.to_owned(),
            scale: Plan::quick().scale_of(name),
            combinations: Vec::new(),
        });
        let plan = Plan { name: "netnews micro".into(), workloads: items.into(), ..Plan::quick() };
        assert_eq!(first(&plan), "ffs lab run netnews micro --quick --seed 2002 --out DIR");
    }

    #[test]
    fn differences_without_an_option_are_comments() {
        let mut plan = Plan::paper();
        plan.workloads.retain(|item| item.workload != "bonnie");
        plan.workloads[1].scale = 0.4;
        let text = again(&plan);
        assert!(text.contains("# without an option: mh at scale 0.4"), "{text}");
        assert!(text.contains("# without an option: a study without bonnie"), "{text}");
        assert!(text.contains("# not recorded: the version of ffs"), "{text}");
        let text = again(&Plan::paper().signed().unwrap());
        assert!(text.contains(concat!(
            "# run by ffs ",
            env!("CARGO_PKG_VERSION"),
            " on the machine "
        )));
    }
}
