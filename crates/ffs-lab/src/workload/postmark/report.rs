//! The report in the format of Postmark, for scripts that read it.

use std::fmt::Write;

use crate::workload::Outcome;

/// Formats bytes as Postmark does: with two digits, in kilobytes of 1024 bytes.
fn scaled(bytes: f64) -> String {
    const KILOBYTE: f64 = 1024.0;
    if bytes > KILOBYTE * KILOBYTE {
        format!("{:.2} megabytes", bytes / KILOBYTE / KILOBYTE)
    } else {
        format!("{:.2} kilobytes", bytes / KILOBYTE)
    }
}

/// The verbose report. Seconds have fractions.
pub(super) fn verbose(outcome: &Outcome) -> Option<String> {
    let get = |id| outcome.metric(id).map(|metric| (metric.elapsed, metric.work));
    let (total, _) = get("total")?;
    let (mixed, transactions) = get("transactions")?;
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").ok();
    let count = |id, indent: &str, before: &str, after: &str| {
        let (elapsed, work): (f64, f64) = get(id)?;
        Some(format!("{indent}{before}{work:.0}{after} ({:.0} per second)", work / elapsed))
    };
    line("Time:".to_owned())?;
    line(format!("\t{total:.3} seconds total"))?;
    let rate = transactions / mixed;
    line(format!("\t{mixed:.3} seconds of transactions ({rate:.0} per second)\n"))?;
    line("Files:".to_owned())?;
    line(count("create", "\t", "", " created")?)?;
    line(count("create-alone", "\t\t", "Creation alone: ", " files")?)?;
    line(count("create-mixed", "\t\t", "Mixed with transactions: ", " files")?)?;
    line(count("read", "\t", "", " read")?)?;
    line(count("append", "\t", "", " appended")?)?;
    line(count("delete", "\t", "", " deleted")?)?;
    line(count("delete-alone", "\t\t", "Deletion alone: ", " files")?)?;
    line(count("delete-mixed", "\t\t", "Mixed with transactions: ", " files")?)?;
    line("\nData:".to_owned())?;
    for (id, what) in [("data-read", "read"), ("data-written", "written")] {
        let (elapsed, bytes) = get(id)?;
        line(format!("\t{} {what} ({} per second)", scaled(bytes), scaled(bytes / elapsed)))?;
    }
    Some(out)
}
