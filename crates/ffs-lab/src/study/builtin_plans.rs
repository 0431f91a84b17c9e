//! The plans `paper` and `quick`.
//!
//! `paper` runs each benchmark at the size of the paper; `quick` runs the same benchmarks in less
//! than a minute.

use super::factor::Factor;
use super::origin::Origin;
use super::plan::{Plan, PlanItem};
use crate::statistics::Combination;

/// The benchmarks in the order of the paper's tables: workload, scale in `paper`, scale in `quick`.
const BENCHMARKS: &[(&str, f64, f64)] = &[
    ("x11", 1.0, 0.1),
    ("mh", 1.0, 0.1),
    ("bonnie", 1.0, 0.1),
    ("andrew", 1.0, 0.1),
    ("postmark:number=1000,transactions=50000", 1.0, 0.1),
    ("postmark:number=10000,transactions=50000", 1.0, 0.1),
    ("postmark:number=20000,transactions=50000", 1.0, 0.1),
    ("postmark:number=20000,transactions=100000", 1.0, 0.1),
    ("netnews", 1.0, 0.01),
    ("buildworld", 1.0, 0.01),
    ("micro", 1.0, 0.3),
];

impl Plan {
    /// The study of the paper: four runs of every combination.
    #[must_use]
    pub fn paper() -> Plan {
        let items = BENCHMARKS.iter().map(|(workload, scale, _)| (*workload, *scale));
        Plan::of("paper", 4, items)
    }

    /// The same study with smaller workloads and one run.
    #[must_use]
    pub fn quick() -> Plan {
        let items = BENCHMARKS.iter().map(|(workload, _, scale)| (*workload, *scale));
        Plan::of("quick", 1, items)
    }

    fn of<'a>(name: &str, replicates: u32, items: impl Iterator<Item = (&'a str, f64)>) -> Plan {
        let item = |(workload, scale): (&str, f64)| PlanItem {
            workload: workload.to_owned(),
            scale,
            combinations: Vec::new(),
        };
        let plan = Plan {
            name: name.to_owned(),
            workloads: items.map(item).collect(),
            factors: Factor::paper(),
            replicates,
            seed: 2002,
            target: "sim".to_owned(),
            origin: Origin::default(),
        };
        plan.with_factors(Factor::paper())
    }

    /// The plan with these factors. `micro` sets the other options itself, so it runs only with
    /// soft updates if they are the factor `su`, and with no factor otherwise.
    #[must_use]
    pub fn with_factors(mut self, factors: Vec<Factor>) -> Plan {
        self.factors = factors;
        let (design, bases) = (self.design(), Combination::NONE);
        let softdep = |level: &String| level.split(',').any(|word| word == "softdep");
        let su = self.factors.iter().enumerate().find(|(_, factor)| factor.name == "su");
        let with = su.map_or(bases, |(at, factor)| {
            let level = factor.levels.iter().skip(1).position(softdep).unwrap_or(0) + 1;
            design.with_level(bases, at, level)
        });
        for item in &mut self.workloads {
            if item.workload.split(':').next() == Some("micro") {
                item.combinations = vec![with.0];
            }
        }
        self
    }

    /// The scale of a workload in this plan. A workload that is not in the plan has the first
    /// scale.
    #[must_use]
    pub fn scale_of(&self, workload: &str) -> f64 {
        let name = |words: &str| words.split(':').next().unwrap_or_default().to_owned();
        let found = self.workloads.iter().find(|item| name(&item.workload) == name(workload));
        found.or(self.workloads.first()).map_or(1.0, |item| item.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::check_workloads;

    #[test]
    fn micro_runs_with_soft_updates_only() {
        let micro = |factors: &[&str]| {
            let factors = factors.iter().map(|text| Factor::parse(text).unwrap()).collect();
            let plan = Plan::quick().with_factors(factors);
            plan.workloads.last().unwrap().combinations.clone()
        };
        assert_eq!(micro(&["su", "dh"]), [1]);
        assert_eq!(micro(&["dp", "su"]), [2]);
        assert_eq!(micro(&["dp"]), [0]);
        assert_eq!(micro(&[]), [0]);
        assert_eq!(micro(&["memory=64m/256m/1g", "su"]), [4]);
        assert_eq!(micro(&["su=sync/async/softdep"]), [2]);
    }

    #[test]
    fn the_plans_can_be_run() {
        for plan in [Plan::paper(), Plan::quick()] {
            plan.check().unwrap();
            check_workloads(&plan).unwrap();
            assert_eq!(plan.combinations(), (0..16).collect::<Vec<u32>>());
        }
        assert_eq!(Plan::paper().replicates, 4);
        let postmark = |plan: Plan| plan.scale_of("postmark:number=7");
        assert!(postmark(Plan::quick()) < postmark(Plan::paper()));
    }
}
