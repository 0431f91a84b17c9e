//! `ffs lab crash --rules`: the crash contract as a legend.

use std::io::Write;

use ffs_lab::crash::contract::{self, CHECKS, CONTRACT, RuleKind};

use crate::fail::{Failure, Outcome};
use crate::output;

/// Where the text of a legend begins, in columns.
const INDENT: usize = 8;
/// The width of a legend, in columns.
const WIDTH: usize = 96;

/// Prints every rule and check with its statement.
pub(super) fn print_all() -> Outcome {
    let mut out = output::stdout();
    for kind in RuleKind::ALL {
        writeln!(out, "{}\n", kind.heading())?;
        for rule in CONTRACT.iter().filter(|rule| rule.kind == kind) {
            entry(&mut out, rule.label, rule.statement)?;
            if !rule.repair.is_empty() {
                entry(&mut out, "", rule.repair)?;
            }
        }
        writeln!(out)?;
    }
    writeln!(out, "Checks, and violations besides the contract\n")?;
    for check in CHECKS {
        entry(&mut out, check.label, check.statement)?;
    }
    writeln!(
        out,
        "\nA violation C3:F3 breaks rule F3 in check C3; C2:LINK-LOW is a finding of fsck."
    )?;
    #[cfg(feature = "mutants")]
    {
        writeln!(out, "\nOrdering rules that --break switches off\n")?;
        for rule in ffs_lab::crash::mutants::Mutant::all() {
            entry(&mut out, &format!("{}:", rule.name()), rule.meaning())?;
        }
    }
    out.flush()?;
    Ok(0)
}

/// Prints the statement of each rule, check and finding that the violations name.
pub(super) fn print_legend<'a>(
    out: &mut impl Write,
    violations: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let mut printed: Vec<&str> = Vec::new();
    for (label, statement) in violations.flat_map(contract::explain) {
        if !printed.contains(&label) {
            printed.push(label);
            entry(out, label, statement)?;
        }
    }
    Ok(())
}

/// Prints a label and its text, which begins in column [`INDENT`] in every line.
fn entry(out: &mut impl Write, label: &str, text: &str) -> Result<(), Failure> {
    let mut line = format!("{label:<INDENT$}");
    if !line.ends_with(' ') {
        line.push(' ');
    }
    let mut is_first = true;
    for word in text.replace('`', "").split(' ') {
        if !is_first && line.len() + 1 + word.len() > WIDTH {
            writeln!(out, "{line}")?;
            line = " ".repeat(INDENT);
            is_first = true;
        }
        if !is_first {
            line.push(' ');
        }
        line += word;
        is_first = false;
    }
    writeln!(out, "{line}")?;
    Ok(())
}
