//! `ffs lab` of a program without the laboratory: help and the error if there is no `ffs-lab`.
//!
//! If there is one, it runs before the command line is read: [`lab_program`].

use std::ffi::OsString;

use super::Doc;
use crate::fail::Outcome;
use crate::lab_program;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("sudo apt install ./bsdffs-lab_*.deb", "the laboratory on Debian: the program ffs-lab"),
        ("ffs lab --help", "all experiments, once it is installed"),
    ],
    exit: &[("1", "there is no program ffs-lab; if there is one, the exit code is its own")],
    see_also: &["ffs(1)"],
    section: "1",
    usage_code: 64,
};

/// Measure workloads on several file systems, and examine the states that a crash may leave.
///
/// The laboratory is a program of its own, ffs-lab, in the package bsdffs-lab. `ffs lab` runs it
/// from the directory of ffs, or else by PATH.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The experiment and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    experiment: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Outcome {
    drop(args.experiment);
    Err(lab_program::missing())
}
