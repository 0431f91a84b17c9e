//! `ffs completions`.

use std::io::Write;

use clap::Command;

use super::{Doc, EXIT};
use crate::fail::Outcome;
use crate::output;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs completions bash > /etc/bash_completion.d/ffs", "bash, for all users"),
        ("ffs completions zsh > ~/.zfunc/_ffs", "zsh, for one user"),
    ],
    exit: EXIT,
    see_also: &["ffs-man(1)"],
    section: "1",
    usage_code: 64,
};

/// Write a shell's completions to standard output.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Writes the completions of `command_line`.
pub(crate) fn run(args: &Args, mut command_line: Command) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command_line, "ffs", &mut text);
    let mut out = output::stdout();
    out.write_all(&text)?;
    out.flush()?;
    Ok(0)
}
