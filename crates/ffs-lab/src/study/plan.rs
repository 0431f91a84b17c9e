//! What a study runs: workloads, factors and replicates, and the jobs and seeds derived from them.
//!
//! # Invariants
//! 1. The jobs, their order and their seeds are a function of the plan.
//! 2. All combinations of one replicate have the same seed, and so start on the same aged volume.
//!
//! A combination is a set of options, as bits. A factor of two levels has one option, and a factor
//! of L levels has L - 1, of which at most one is in a combination.

use std::fmt;

use ffs_device::{Rng, SplitMix64};
use serde::{Deserialize, Serialize};

use super::checksum::checksum;
use super::factor::{self, Factor};
use super::origin::Origin;
use crate::error::{LabError, Result};
use crate::shuffle::{Purpose, shuffled};
use crate::statistics::{Combination, Design};

/// Most runs of each combination.
const MOST_REPLICATES: u32 = 10_000;
/// Mixed into the seeds of replicates, so that no other draw from the study's seed repeats them.
const REPLICATE: u64 = 0x7265_706c;

/// A workload of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanItem {
    /// The workload as [`crate::workload`] takes it: `postmark:number=20000`. Unique in a plan.
    pub workload: String,
    /// The factor its counts are multiplied by.
    pub scale: f64,
    /// The combinations it runs under; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub combinations: Vec<u32>,
}

/// Everything that determines the results of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `paper`, `quick`, or the names of the workloads.
    pub name: String,
    /// The workloads, in the order of the tables.
    pub workloads: Vec<PlanItem>,
    /// The factors. Their options are the bits of a combination, in this order: if each factor has
    /// two levels, factor `i` is bit `i`.
    pub factors: Vec<Factor>,
    /// Runs of each combination.
    pub replicates: u32,
    /// All seeds and orders are derived from it.
    pub seed: u64,
    /// The target. A job appends the options of its combination.
    pub target: String,
    /// The program and the simulated computers; see [`Plan::signed`].
    #[serde(default, skip_serializing_if = "Origin::is_unknown")]
    pub origin: Origin,
}

/// One run of one workload, ordered as in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// Index in [`Plan::workloads`].
    pub item: usize,
    /// The options that are on, by bit.
    pub combination: u32,
    /// The number of the run, from 0.
    pub replicate: u32,
}

impl Plan {
    /// The plan with the origin set to this program and the present machine files.
    ///
    /// # Errors
    /// [`LabError::Plan`] if a machine is unknown or its file is invalid.
    pub fn signed(self) -> Result<Plan> {
        let origin = Origin::of(&self.target, &self.factors)?;
        Ok(Plan { origin, ..self })
    }

    /// The factors and their combinations. A plan that [`Plan::check`] refuses may have none.
    #[must_use]
    pub(crate) fn design(&self) -> Design {
        let levels: Vec<usize> = self.factors.iter().map(|factor| factor.levels.len()).collect();
        Design::new(&levels).unwrap_or_default()
    }

    /// All combinations of the levels of the factors.
    #[must_use]
    pub fn combinations(&self) -> Vec<u32> {
        self.design().combinations().iter().map(|at| at.0).collect()
    }

    /// The names of the options, by bit: `su`, `big=20000`.
    #[must_use]
    pub(crate) fn option_names(&self) -> Vec<String> {
        self.factors.iter().flat_map(Factor::option_names).collect()
    }

    /// The name of a combination: `none`, `su`, `su+dp`, `su+big=20000`.
    #[must_use]
    pub(crate) fn combination_name(&self, combination: u32) -> String {
        Combination(combination).name(&self.option_names(), "+")
    }

    /// All jobs, in the order of the tables.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (item, of) in self.workloads.iter().enumerate() {
            let wanted = |c: &u32| of.combinations.is_empty() || of.combinations.contains(c);
            for combination in self.combinations().into_iter().filter(wanted) {
                let replicates = 0..self.replicates;
                jobs.extend(replicates.map(|replicate| Job { item, combination, replicate }));
            }
        }
        jobs
    }

    /// The jobs of a shard, in the order in which they run.
    #[must_use]
    pub fn order(&self, shard: Shard) -> Vec<Job> {
        let jobs = self.jobs();
        // `check` keeps the number of jobs within a u32.
        let order = shuffled(jobs.len() as u32, self.seed, Purpose::Jobs);
        let mine = order.iter().enumerate().filter(|(at, _)| *at as u32 % shard.of == shard.index);
        mine.filter_map(|(_, job)| jobs.get(*job as usize).copied()).collect()
    }

    /// The seed of all jobs of a replicate. It has 53 bits, so that every JSON reader can hold it.
    #[must_use]
    pub(crate) fn seed_of(&self, replicate: u32) -> u64 {
        let stream = SplitMix64::new(self.seed).next_u64() ^ REPLICATE << 32 ^ u64::from(replicate);
        SplitMix64::new(stream).next_u64() >> 11
    }

    /// The target under a combination, in the syntax of [`crate::TargetSpec::parse`].
    #[must_use]
    pub(crate) fn target_in(&self, combination: u32) -> String {
        let words = self.words_in(combination);
        let joint = if self.target.contains(':') { ',' } else { ':' };
        if words.is_empty() {
            self.target.clone()
        } else {
            format!("{}{joint}{words}", self.target)
        }
    }

    /// The options of a combination, separated by commas.
    #[must_use]
    pub(crate) fn words_in(&self, combination: u32) -> String {
        let design = self.design();
        let level = |factor: usize| design.level(Combination(combination), factor);
        let words = self.factors.iter().enumerate().filter_map(|(n, f)| f.levels.get(level(n)));
        let words: Vec<&str> =
            words.map(String::as_str).filter(|words| !words.is_empty()).collect();
        words.join(",")
    }

    /// The name of a job: `mh su+dp #2`.
    #[must_use]
    pub fn job_name(&self, job: &Job) -> String {
        let item = self.workloads.get(job.item).map_or("?", |item| &item.workload);
        format!("{item} {} #{}", self.combination_name(job.combination), job.replicate + 1)
    }

    /// Refuses a plan that cannot run, and names that are not unique.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the reason.
    pub fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(LabError::Plan(why));
        if self.workloads.is_empty() {
            return refuse("there is no workload to run".to_owned());
        }
        for (at, item) in self.workloads.iter().enumerate() {
            if self.workloads.iter().take(at).any(|before| before.workload == item.workload) {
                return refuse(format!("workload '{}' is named twice", item.workload));
            }
            if !(item.scale.is_finite() && item.scale > 0.0) {
                return refuse(format!("scale {} is not above 0", item.scale));
            }
        }
        if self.replicates == 0 || self.replicates > MOST_REPLICATES {
            let most = MOST_REPLICATES;
            return refuse(format!("{} replicates: expected 1 to {most}", self.replicates));
        }
        factor::check(&self.factors, &self.target)
    }

    /// A checksum of the plan. Each line of a results file holds it.
    pub(super) fn tag(&self) -> Result<String> {
        let text =
            serde_json::to_string(self).map_err(|error| LabError::Plan(error.to_string()))?;
        Ok(checksum(text.as_bytes()))
    }

    /// How `other` differs from this plan; empty if it does not.
    #[must_use]
    pub fn differences(&self, other: &Plan) -> String {
        let mut out = Vec::new();
        let mut differ = |what: &str, mine: String, theirs: String| {
            if mine != theirs {
                out.push(format!("{what} {theirs}, not {mine}"));
            }
        };
        differ("seed", self.seed.to_string(), other.seed.to_string());
        differ("replicates", self.replicates.to_string(), other.replicates.to_string());
        differ("target", self.target.clone(), other.target.clone());
        differ("workloads", self.workload_names(), other.workload_names());
        differ("factors", factor::names(&self.factors), factor::names(&other.factors));
        let known = |text: &String| if text.is_empty() { "unknown" } else { text }.to_owned();
        differ("run by ffs", known(&self.origin.ffs), known(&other.origin.ffs));
        let machines = "on a machine described otherwise: checksum";
        differ(machines, known(&self.origin.machine), known(&other.origin.machine));
        if out.is_empty() && self != other {
            out.push(format!("plan '{}', not '{}'", other.name, self.name));
        }
        out.join("; ")
    }

    fn workload_names(&self) -> String {
        let item = |item: &PlanItem| {
            let only: Vec<String> = item.combinations.iter().map(u32::to_string).collect();
            let only =
                if only.is_empty() { String::new() } else { format!(" in {}", only.join(",")) };
            format!("{} x{}{only}", item.workload, item.scale)
        };
        self.workloads.iter().map(item).collect::<Vec<String>>().join(", ")
    }
}

/// A part of the jobs of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// The number of the part, from 0.
    pub(crate) index: u32,
    /// The number of parts.
    pub of: u32,
}

impl Shard {
    /// All jobs.
    pub const WHOLE: Shard = Shard { index: 0, of: 1 };
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// Parses `2/8`, the second of eight.
    fn from_str(text: &str) -> std::result::Result<Shard, String> {
        let wrong = || "expected I/N with I from 1 to N, like 2/8".to_owned();
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let (index, of): (u32, u32) =
            (index.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
        match index.checked_sub(1) {
            Some(index) if index < of => Ok(Shard { index, of }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(factors: &[&str]) -> Plan {
        let item = PlanItem { workload: "mh".into(), scale: 1.0, combinations: Vec::new() };
        let factors = factors.iter().map(|text| Factor::parse(text).unwrap()).collect();
        Plan { workloads: vec![item], replicates: 2, ..Plan::quick() }.with_factors(factors)
    }

    #[test]
    fn all_combinations_of_levels_are_jobs() {
        let plan = plan(&["su", "memory=64m/256m/1g", "dh"]);
        plan.check().unwrap();
        assert_eq!(plan.jobs().len(), 2 * 3 * 2 * 2);
        let names: Vec<String> =
            plan.combinations().into_iter().map(|c| plan.combination_name(c)).collect();
        let first = ["none", "su", "memory=256m", "su+memory=256m", "memory=1g", "su+memory=1g"];
        assert_eq!(names[..6], first);
        assert_eq!(
            names[6..],
            first.map(|name| match name {
                "none" => "dh".to_owned(),
                name => format!("{name}+dh"),
            })
        );
        let words = |name: &str| {
            let at = plan.combinations().into_iter().find(|c| plan.combination_name(*c) == name);
            plan.target_in(at.unwrap())
        };
        assert_eq!(words("none"), "sim:sync,memory=64m,dirhash_maxmem=0");
        assert_eq!(words("su+memory=1g"), "sim:softdep,memory=1g,dirhash_maxmem=0");
    }

    #[test]
    fn parts_have_each_job_of_three_levels_once() {
        let plan = plan(&["memory=64m/256m/1g", "su"]);
        let mut parts: Vec<Job> =
            (0..3).flat_map(|index| plan.order(Shard { index, of: 3 })).collect();
        parts.sort();
        assert_eq!(parts, plan.jobs());
    }
}
