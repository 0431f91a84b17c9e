//! `ffs lab crash --break all`: every ordering rule switched off in turn, and how soon the
//! laboratory finds it.

use std::io::Write;
use std::time::Instant;

use ffs_core::{OrderingPolicy, Rule, break_rule};
use ffs_lab::crash::run::{self, Plan};

use super::Bar;
use crate::fail::{Failure, Outcome};
use crate::output;

/// The mutation table: the rules of the journal if it is kept, else those of soft updates. Exit 1
/// if a broken rule is not found, or something is found without one.
pub(super) fn table(plan: Plan) -> Outcome {
    let plan = Plan { until_broken: true, ..plan };
    let mut lines = vec![
        ["rule switched off", "states", "seconds", "found by", "first"].map(str::to_owned).to_vec(),
    ];
    let mut wrong = 0;
    // First a run with all rules in force: what it finds, no broken rule has caused.
    let is_of_journal = plan.ordering == OrderingPolicy::Journaled;
    let rules = Rule::ALL.iter().copied().filter(|rule| rule.is_of_journal() == is_of_journal);
    for rule in std::iter::once(None).chain(rules.map(Some)) {
        break_rule(rule);
        let started = Instant::now();
        let tally = run::run(&plan, &mut Bar::new(started, plan.max_states))?;
        if tally.interrupted {
            return Err(Failure::interrupted());
        }
        let states: u64 = tally.rows.iter().map(|row| row.states).sum();
        let found: Vec<&str> = tally.rules.iter().map(|broken| broken.rule.as_str()).collect();
        wrong += u64::from(found.is_empty() == rule.is_some());
        lines.push(vec![
            rule.map_or("(none)", Rule::name).to_owned(),
            states.to_string(),
            format!("{:.1}", started.elapsed().as_secs_f64()),
            if found.is_empty() { "nothing found".to_owned() } else { found.join(" ") },
            tally.rules.first().map(|broken| broken.first.clone()).unwrap_or_default(),
        ]);
    }
    break_rule(None);
    let mut out = output::stdout();
    writeln!(out, "{}", output::table(lines, &[1, 2]))?;
    out.flush()?;
    Ok(u8::from(wrong > 0))
}
