//! A synthetic study: the published times where there are some, a simple model elsewhere.

use std::collections::BTreeMap;

use crate::report::published::Published;
use crate::statistics::{Combination, table1::TABLE1};
use crate::study::{Factor, JobResult, Origin, Plan, PlanItem, Results};
use crate::systems::Usage;
use crate::workload::{Metric, MetricKind, Outcome, PhaseResult};

/// The paper's options.
pub(super) fn factors(names: &[&str]) -> Vec<Factor> {
    let factor = |name: &&str| Factor {
        name: (*name).to_owned(),
        levels: vec![format!("{name}=off"), format!("{name}=on")],
    };
    names.iter().map(factor).collect()
}

/// Noise between -1 and 1.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Seconds of a result under a combination.
fn seconds(at: &str, on: Combination) -> f64 {
    let pick = |times: [f64; 4]| times[usize::from(on.has(0)) + 2 * usize::from(on.has(1))];
    let with = |base: f64, parts: [f64; 4]| {
        let left = |f: usize| if on.has(f) { parts[f] } else { 1.0 };
        base * (0..4).map(left).product::<f64>()
    };
    let hashed = |times: [f64; 3]| match (on.has(0), on.has(3)) {
        (false, _) => times[0],
        (true, false) => times[1],
        (true, true) => times[2],
    };
    match at {
        "x11/untar" => pick([300.0, 90.0, 200.0, 40.0]),
        "x11/find" => pick([17.0, 17.1, 3.0, 4.0]),
        "x11/rm" => pick([230.0, 15.0, 180.0, 4.0]),
        "mh/create" => hashed([815.0, 30.0, 2.4]),
        "mh/pack" => hashed([1200.0, 95.0, 2.4]),
        "mh/rm" => hashed([370.0, 5.0, 1.4]),
        "buildworld/build" => TABLE1.iter().find(|row| row.0 == on.0).map_or(0.0, |row| row.1),
        "bonnie/seq-read" => 3.0,
        "bonnie/ran-read" => with(9.0, [1.0, 1.0, 1.0, 0.2]),
        "andrew/stat" | "andrew/grep" | "buildworld/grep" => with(55.0, [1.0, 0.83, 1.0, 1.0]),
        "andrew/compile" => with(700.0, [0.8, 1.0, 0.985, 1.0]),
        "andrew/rm" | "andrew/mkdir" => with(44.0, [0.3, 0.8, 0.9, 0.95]),
        at if at.starts_with("postmark") && at.ends_with("delete-alone") => {
            with(20.0, [0.1, 1.0, 1.0, 0.8])
        }
        at if at.starts_with("postmark") => with(80.0, [0.4, 1.0, 1.0, 1.0]),
        at if at.starts_with("bonnie") => with(60.0, [0.1, 1.0, 1.0, 0.3]),
        _ => with(120.0, [0.35, 0.85, 1.0, 1.0]),
    }
}

fn phase(id: &str, seconds: f64, on: Combination) -> PhaseResult {
    let work = 33_164.0;
    let writes = if on.has(0) { 900 } else { 66_000 };
    let mut counters = BTreeMap::from([("buf_hits".to_owned(), 400_000)]);
    if !on.has(0) {
        counters.insert("writes_sync".to_owned(), writes);
    }
    let (name, count) =
        if on.has(3) { ("dirhash_hits", 33_000) } else { ("dir_bytes_scanned", 9_000_000_000) };
    counters.insert(name.to_owned(), count);
    let usage = Usage {
        cpu_ns: (seconds * 1e8) as u64,
        search_ns: (seconds * 6e7) as u64,
        disk_busy_ns: (seconds * 8e8) as u64,
        reads: 120,
        writes,
        sectors: writes * 32,
        seeks: writes / 2,
    };
    let notes = Vec::new();
    let phase = id.to_owned();
    PhaseResult { phase, elapsed: seconds, cpu: seconds / 10.0, work, usage, counters, notes }
}

fn outcome(
    words: &str,
    metrics: &[(String, MetricKind)],
    on: Combination,
    noise: &mut Noise,
) -> Outcome {
    let mut made = Outcome::default();
    for (id, kind) in metrics {
        let seconds = seconds(&format!("{words}/{id}"), on) * (1.0 + 0.004 * noise.next());
        made.phases.push(phase(id, seconds, on));
        let work = if *kind == MetricKind::CpuPercent { seconds / 10.0 } else { 33_164.0 };
        let title = id.replace('-', " ");
        made.metrics.push(Metric { id: id.clone(), title, kind: *kind, elapsed: seconds, work });
    }
    made
}

fn curves() -> Outcome {
    let mut made = Outcome::default();
    let mut add = |figure: u8, name: &str, n: u32, us: f64| {
        let id = format!("fig{figure}/{name}/{n}");
        let title = format!("Figure {figure}, {name}, {n} entries");
        made.metrics.push(Metric {
            id,
            title,
            kind: MetricKind::Rate,
            elapsed: us / 1e4,
            work: 100.0,
        });
    };
    for n in (1..=20).map(|i| i * 500) {
        let grows = 0.035 * f64::from(n);
        add(2, "linear", n, 50.0 + grows);
        add(2, "dirhash", n, 50.0);
        add(2, "linear-small", n / 40, 40.0);
        add(3, "linear", n, 45.0);
        add(3, "dirhash", n, 35.0);
        for (figure, slope) in [(4, 0.0), (5, 0.5)] {
            add(figure, "linear", n, 9.0 + slope * grows);
            add(figure, "dirhash", n, 7.0);
            for (name, limit) in [("name-cache", 4458), ("name-cache-minvnodes=1000", 1000)] {
                add(figure, name, n, if n < limit { 5.0 } else { 7.0 });
            }
            add(figure, "name-cache-minvnodes=4000", n, if n < 4000 { 5.0 } else { 7.0 });
            add(figure, "primed", n, 5.0);
            add(figure, "not-primed", n, 7.0);
        }
        add(6, "linear", n, 9.0 + grows);
        add(6, "dirhash", n, 6.0);
    }
    made
}

/// The workloads of Figure 10 and their results, rates where the benchmark has rates.
fn workloads() -> Vec<(String, Vec<(String, MetricKind)>)> {
    let published = Published::read().unwrap();
    let mut all: Vec<(String, Vec<(String, MetricKind)>)> = Vec::new();
    for (_, (words, metric), _) in published.rows() {
        if !all.iter().any(|(known, _)| known == words) {
            all.push((words.to_owned(), Vec::new()));
        }
        let rate =
            words.starts_with("bonnie") || (words.starts_with("postmark") && metric != "total");
        let kind = if rate { MetricKind::Rate } else { MetricKind::Time };
        let (_, metrics) = all.last_mut().unwrap();
        metrics.push((metric.to_owned(), kind));
        if words == "bonnie" {
            metrics.push((format!("{metric}/cpu"), MetricKind::CpuPercent));
        }
    }
    let (_, bonnie) = all.iter_mut().find(|(words, _)| words == "bonnie").unwrap();
    bonnie.push(("seq-read".to_owned(), MetricKind::Rate));
    all
}

/// A whole study of the paper's four options with these runs of each combination.
pub(crate) fn study(replicates: u32) -> Results {
    let workloads = workloads();
    let item = |(words, _): &(String, _)| PlanItem {
        workload: words.clone(),
        scale: 1.0,
        combinations: Vec::new(),
    };
    let mut items: Vec<PlanItem> = workloads.iter().map(item).collect();
    items.push(PlanItem { workload: "micro".to_owned(), scale: 1.0, combinations: vec![1] });
    let plan = Plan {
        name: "paper".to_owned(),
        workloads: items,
        factors: factors(&["su", "dp", "vm", "dh"]),
        replicates,
        seed: 2002,
        target: "sim".to_owned(),
        origin: Origin::default(),
    };
    let mut noise = Noise(2002);
    let mut jobs = Vec::new();
    for (words, metrics) in &workloads {
        for combination in 0..16 {
            for replicate in 0..replicates {
                let outcome = outcome(words, metrics, Combination(combination), &mut noise);
                let workload = words.clone();
                jobs.push(JobResult { workload, combination, replicate, seed: 1, outcome });
            }
        }
    }
    for replicate in 0..replicates {
        let workload = "micro".to_owned();
        jobs.push(JobResult { workload, combination: 1, replicate, seed: 1, outcome: curves() });
    }
    Results { plan, jobs }
}

/// One workload with one result under any options; each halves it.
pub(crate) fn small(names: &[&str], replicates: u32) -> Results {
    of_factors(factors(names), replicates)
}

/// The same with a factor of two levels and one of three.
pub(crate) fn levels(replicates: u32) -> Results {
    let big = Factor::parse("big=maxvnodes=5000/maxvnodes=20000/maxvnodes=90000").unwrap();
    of_factors([factors(&["su"]), vec![big]].concat(), replicates)
}

/// One workload with one result; each option halves it.
pub(crate) fn of_factors(factors: Vec<Factor>, replicates: u32) -> Results {
    let plan = Plan {
        name: "mine".to_owned(),
        workloads: vec![PlanItem {
            workload: "thing".to_owned(),
            scale: 0.5,
            combinations: Vec::new(),
        }],
        factors,
        replicates,
        seed: 7,
        target: "core".to_owned(),
        origin: Origin::default(),
    };
    let mut noise = Noise(7);
    let mut jobs = Vec::new();
    for combination in plan.combinations() {
        for replicate in 0..replicates {
            let seconds =
                64.0 / f64::from(1 << u32::count_ones(combination)) * (1.0 + 0.01 * noise.next());
            let kind = MetricKind::Time;
            let metric = Metric {
                id: "run".to_owned(),
                title: "run".to_owned(),
                kind,
                elapsed: seconds,
                work: 10.0,
            };
            let outcome = Outcome {
                phases: vec![phase("run", seconds, Combination(combination))],
                metrics: vec![metric],
            };
            let workload = "thing".to_owned();
            jobs.push(JobResult { workload, combination, replicate, seed: 1, outcome });
        }
    }
    Results { plan, jobs }
}
