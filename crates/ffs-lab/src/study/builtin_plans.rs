//! The plans `paper` and `quick`.
//!
//! The scales depend only on the time a plan may take. `paper` runs each benchmark as large as fits
//! in half an hour on two cores; `quick` runs the same benchmarks in less than a minute.

use super::factor::Factor;
use super::origin::Origin;
use super::plan::{Plan, PlanItem};

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
    ("netnews", 0.5, 0.1),
    ("buildworld", 1.0, 0.1),
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
        let item = |(workload, scale): (&str, f64)| {
            let combinations = if workload == "micro" { vec![MICRO] } else { Vec::new() };
            PlanItem { workload: workload.to_owned(), scale, combinations }
        };
        Plan {
            name: name.to_owned(),
            workloads: items.map(item).collect(),
            factors: Factor::paper(),
            replicates,
            seed: 2002,
            target: "sim".to_owned(),
            origin: Origin::default(),
        }
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

/// The only combination of `micro`, which sets the other options itself: soft updates on.
const MICRO: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::check_workloads;

    #[test]
    fn the_plans_can_be_run() {
        for plan in [Plan::paper(), Plan::quick()] {
            plan.check().unwrap();
            check_workloads(&plan).unwrap();
            assert_eq!(plan.combinations(), 16);
        }
        assert_eq!(Plan::paper().replicates, 4);
        let postmark = |plan: Plan| plan.scale_of("postmark:number=7");
        assert!(postmark(Plan::quick()) < postmark(Plan::paper()));
    }
}
