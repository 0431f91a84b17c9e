//! The two plans that come with the laboratory.
//!
//! Scales are chosen for the time the plan takes and by nothing else: `paper` runs each benchmark as large as
//! half an hour on two cores allows, `quick` the same benchmarks in less than a minute.

use super::factor::Factor;
use super::origin::Origin;
use super::plan::{Item, Plan};

/// Benchmarks of the paper, in the order of its tables: workload, its scale in `paper`, and in `quick`.
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
    /// The paper's study: four runs of everything.
    #[must_use]
    pub fn paper() -> Plan {
        let items = BENCHMARKS.iter().map(|(workload, scale, _)| (*workload, *scale));
        Plan::of("paper", 4, items)
    }

    /// The same small, once.
    #[must_use]
    pub fn quick() -> Plan {
        let items = BENCHMARKS.iter().map(|(workload, _, scale)| (*workload, *scale));
        Plan::of("quick", 1, items)
    }

    fn of<'a>(name: &str, replicates: u32, items: impl Iterator<Item = (&'a str, f64)>) -> Plan {
        let item = |(workload, scale): (&str, f64)| {
            let combinations = if workload == "micro" { vec![MICRO] } else { Vec::new() };
            Item { workload: workload.to_owned(), scale, combinations }
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

    /// The scale that a workload has in this plan; that of the first for one that is not in it.
    #[must_use]
    pub fn scale_of(&self, workload: &str) -> f64 {
        let name = |words: &str| words.split(':').next().unwrap_or_default().to_owned();
        let found = self.workloads.iter().find(|item| name(&item.workload) == name(workload));
        found.or(self.workloads.first()).map_or(1.0, |item| item.scale)
    }
}

/// The micro-benchmarks turn their switches themselves, with soft updates on.
const MICRO: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Lab;

    #[test]
    fn the_plans_can_be_run() {
        for plan in [Plan::paper(), Plan::quick()] {
            plan.check().unwrap();
            Lab::knows(&plan).unwrap();
            assert_eq!(plan.combinations(), 16);
        }
        assert_eq!(Plan::paper().replicates, 4);
        let postmark = |plan: Plan| plan.scale_of("postmark:number=7");
        assert!(postmark(Plan::quick()) < postmark(Plan::paper()));
    }
}
