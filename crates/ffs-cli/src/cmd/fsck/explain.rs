//! `ffs fsck --explain`.

use std::io::Write;

use ffs_admin::fsck::{Id, Preen};

use crate::fail::{Failure, Outcome};
use crate::output;

/// The word that lists the codes.
const LIST: &str = "list";

/// Explains the code of a finding; without one, or with `list`, lists all.
pub(super) fn run(code: &str) -> Outcome {
    if code.is_empty() || code.eq_ignore_ascii_case(LIST) {
        return list();
    }
    let known = |id: &&Id| id.as_str().eq_ignore_ascii_case(code);
    match Id::ALL.iter().find(known) {
        Some(id) => explain(*id),
        None => Err(unknown(code)),
    }
}

fn list() -> Outcome {
    let mut out = output::stdout();
    for id in Id::ALL {
        writeln!(out, "{id:<14} {}", id.meaning())?;
    }
    out.flush()?;
    Ok(0)
}

fn explain(id: Id) -> Outcome {
    let texts = id.explain();
    let mut out = output::stdout();
    writeln!(out, "{id}: {}", id.meaning())?;
    for (head, text) in [
        ("Repair", texts.repair),
        ("Lost", texts.loss),
        ("Preen", preen(texts.preen)),
        ("Type", what_to_type(id, texts.preen)),
    ] {
        writeln!(out, "{:<8}{text}", format!("{head}:"))?;
    }
    out.flush()?;
    Ok(0)
}

/// What -p does.
fn preen(preen: Preen) -> &'static str {
    match preen {
        Preen::Repairs => "-p makes the repair.",
        Preen::WithoutSoftUpdates => {
            "-p makes the repair on a volume without soft updates; it stops on one with them."
        }
        Preen::OfDirectories => {
            "-p makes the repair of a directory on a volume with soft updates; else it stops."
        }
        Preen::IfConfirmed => "-p makes the repair if a backup superblock agrees; else it stops.",
        Preen::Stops => "-p stops, and has changed nothing.",
        Preen::Reports => "-p reports it and goes on.",
        Preen::Silent => "-p does not look for it.",
    }
}

/// The commands to use.
fn what_to_type(id: Id, preen: Preen) -> &'static str {
    match (id, preen) {
        (Id::IoRead, _) => "Copy the disk, such as with ddrescue; then: ffs fsck -n COPY",
        (_, Preen::Repairs) => {
            "ffs fsck -p IMAGE; with a question before each repair: ffs fsck IMAGE"
        }
        (_, Preen::Silent | Preen::Reports) => "ffs fsck IMAGE, which asks",
        _ => {
            "Copy the image if it matters. ffs fsck -n IMAGE shows all findings, ffs fsck IMAGE \
             asks for each repair, ffs fsck -y IMAGE makes all repairs."
        }
    }
}

fn unknown(code: &str) -> Failure {
    let names = Id::ALL.iter().map(|id| id.as_str());
    let nearest = ffs_core::nearest(&code.to_uppercase(), names);
    let suggestion = ffs_core::suggestion(nearest);
    let failure =
        Failure::usage(format!("--explain: no finding has the code '{code}'{suggestion}"));
    failure.hint("ffs fsck --explain list prints all codes")
}
