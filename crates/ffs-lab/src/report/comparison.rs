//! The comparison with the published numbers as a Markdown table, to be kept in a document.
//!
//! # Invariants
//! 1. Each published number, and each row of Figure 10, has one line, whether it was run or not.
//! 2. Each line has the command that measures it at full size.

use std::fmt::Write as _;

use super::Report;
use super::reproduction::{Agreement, ComparedNumber, lists};
use crate::plot::times;

/// The table.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for section in &report.compared {
        let title = match &section.count {
            Some(count) => format!("{} ({count})", section.title),
            None => section.title.clone(),
        };
        let _ = write!(out, "### {title}\n\nSource: {}.\n\n", section.source);
        out.push_str("| result | options | published | ours | ratio | command |\n");
        out.push_str("| --- | --- | ---: | ---: | ---: | --- |\n");
        for row in &section.rows {
            let ours = row.measured.as_deref().unwrap_or("not run");
            let (what, ratio) = (cell(&row.what), ratio(row));
            let (on, published, command) = (cell(&row.on), cell(&row.published), command(&row.at));
            let _ =
                writeln!(out, "| {what} | {on} | {published} | {ours} | {ratio} | `{command}` |");
        }
        out.push('\n');
    }
    out.push_str("### Figure 10: the significant options, in order\n\nSource: P.\n\n");
    out.push_str("| result | published | ours | same options | command |\n");
    out.push_str("| --- | --- | --- | --- | --- |\n");
    let places = report.published.rows().map(|(_, (words, _), _)| words.to_owned());
    for (row, words) in lists(&report.measured, &report.published).iter().zip(places) {
        let listed = |options: &[String]| match options {
            [] => "none".to_owned(),
            options => options.join(", "),
        };
        let ours = row.measured.as_deref().map_or_else(|| "not run".to_owned(), listed);
        let same = match (row.measured.is_some(), row.same(), row.same_set()) {
            (false, ..) => "",
            (true, true, _) => "yes",
            (true, false, true) => "in another order",
            (true, false, false) => "no",
        };
        let what = cell(&format!("{}: {}", row.group, row.what));
        let (published, command) = (listed(&row.published), command(&words));
        let _ = writeln!(out, "| {what} | {published} | {ours} | {same} | `{command}` |");
    }
    out
}

/// The text of a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn ratio(row: &ComparedNumber) -> String {
    let note = if row.calibrated { " (calibrated)" } else { "" };
    let text = match row.agreement {
        Agreement::NotRun => return String::new(),
        Agreement::Smaller(ratio) => match ratio {
            Some(ratio) => format!("{} (smaller run)", times(ratio)),
            None => "(smaller run)".to_owned(),
        },
        Agreement::Base => "base".to_owned(),
        Agreement::Ratio(ratio) => times(ratio),
        Agreement::OtherSign => "0 or other sign".to_owned(),
        Agreement::Bound(kept) => if kept { "within" } else { "beyond" }.to_owned(),
    };
    text + note
}

/// The command that measures a number of the workload in `at`.
fn command(at: &str) -> String {
    let words = at.split('/').next().unwrap_or(at);
    format!("ffs lab run {words} --out DIR")
}
