//! The tables that `ffs lab crash` prints.

use std::collections::BTreeMap;
use std::io::Write;

use ffs_lab::crash::tally::Row;

use super::{Report, Shown, rules};
use crate::fail::Failure;
use crate::output;

/// Prints the tables of a run, or of one state (`only`), and its violations.
pub(super) fn print(out: &mut impl Write, report: &Report<'_>, only: bool) -> Result<(), Failure> {
    let rows: Vec<&Row> = report.tally.rows.iter().filter(|row| row.workloads > 0).collect();
    let mut lines = vec![
        [
            "",
            "workloads",
            "windows",
            "states",
            "distinct",
            "remounted",
            "in fsck",
            "broken",
            "failed calls",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    lines.extend(rows.iter().map(|row| {
        let numbers = [
            row.workloads,
            row.windows,
            row.states,
            row.distinct,
            row.remounted,
            row.interrupted,
            row.broken,
            row.failed_operations,
        ];
        let numbers = numbers.iter().map(u64::to_string);
        std::iter::once(row.geometry.to_owned()).chain(numbers).collect()
    }));
    writeln!(out, "Crash states, ordering {}, seed {}\n", report.ordering, report.seed)?;
    writeln!(out, "{}", output::table(lines, &[1, 2, 3, 4, 5, 6, 7, 8]))?;
    writeln!(out, "States that show what a crash may leave\n\n{}", seen(&rows))?;
    recoveries(out, &rows)?;
    if !only {
        rates(out, report)?;
    }
    for line in &report.tally.explained {
        writeln!(out, "{}", crate::fail::show(line))?;
    }
    if only {
        writeln!(out)?;
    }
    if report.violations.is_empty() {
        writeln!(out, "No rule is broken.")?;
        return Ok(());
    }
    for shown in &report.violations {
        let Shown { broken, command, events, shrunk } = shown;
        let by = broken.states.iter().map(|(name, states)| format!("{states} in {name}"));
        writeln!(out, "{}: {}", broken.rule, by.collect::<Vec<String>>().join(", "))?;
        writeln!(out, "    {}", crate::fail::show(&broken.what))?;
        writeln!(out, "    {command}")?;
        for line in events {
            writeln!(out, "    {}", crate::fail::show(line))?;
        }
        for line in shrunk.iter().flat_map(|text| text.lines()) {
            writeln!(out, "        {line}")?;
        }
    }
    writeln!(out)?;
    rules::print_legend(out, report.violations.iter().map(|shown| shown.broken.rule.as_str()))
}

/// Kinds of volume down, A1 to A16 across.
fn seen(rows: &[&Row]) -> String {
    let mut head = vec![String::new()];
    head.extend((1..=16).map(|number| format!("A{number}")));
    let mut lines = vec![head];
    lines.extend(rows.iter().map(|row| {
        let numbers = row.seen.iter().map(|n| if *n == 0 { "-".to_owned() } else { n.to_string() });
        std::iter::once(row.geometry.to_owned()).chain(numbers).collect()
    }));
    output::table(lines, &(1..=16).collect::<Vec<usize>>())
}

/// How many states were recovered by the journal, and why the journal of others was not used.
fn recoveries(out: &mut impl Write, rows: &[&Row]) -> Result<(), Failure> {
    let by_journal: u64 = rows.iter().map(|row| row.by_journal).sum();
    let mut refused: BTreeMap<&str, u64> = BTreeMap::new();
    for (why, states) in rows.iter().flat_map(|row| &row.refused) {
        *refused.entry(why).or_default() += states;
    }
    if by_journal == 0 && refused.is_empty() {
        return Ok(());
    }
    writeln!(out, "{by_journal} states were recovered by the journal.")?;
    for (why, states) in refused {
        writeln!(out, "{states} states had a full check: {why}.")?;
    }
    writeln!(out)?;
    Ok(())
}

fn rates(out: &mut impl Write, report: &Report<'_>) -> Result<(), Failure> {
    let done: u64 = report.tally.rows.iter().map(|row| row.workloads).sum();
    writeln!(
        out,
        "{done} of {} workloads in {:.1} s on {} threads: {:.0} states a second, {:.0} a second of \
         processor time",
        report.tally.planned,
        report.seconds,
        report.threads,
        report.states_per_second,
        report.states_per_cpu_second
    )?;
    let one_in = |rate: u32| match rate {
        0 => "none".to_owned(),
        rate => format!("1 in {rate}"),
    };
    writeln!(
        out,
        "every state: image, fsck -p, full check, tree; mounted unrepaired: {}; fsck interrupted: \
         {}\n",
        one_in(report.remount_every),
        one_in(report.interrupt_every)
    )?;
    Ok(())
}
