//! The paper's benchmarks in a program without the laboratory: by the program `ffs-lab`.

use std::ffi::OsStr;
use std::path::Path;

use crate::fail::Failure;
use crate::lab_program;

/// Why it is left out here, if it is.
pub(super) fn left_out() -> Option<String> {
    let missing = lab_program::find().is_none();
    missing.then(|| "the laboratory is a package of its own, bsdffs-lab".to_owned())
}

/// How many runs the study is: the plan is part of the laboratory.
pub(super) fn runs() -> Option<u64> {
    None
}

/// Runs the quick study in `dir`, which must be new. The laboratory prints the tables.
pub(super) fn run(dir: &Path) -> Result<(), Failure> {
    let Some(program) = lab_program::find() else { return Err(lab_program::missing()) };
    let args = ["lab", "run", "--quick", "--out"].map(OsStr::new);
    let args: Vec<_> = args.into_iter().chain([dir.as_os_str()]).map(OsStr::to_owned).collect();
    let ended = lab_program::command(&program, &args).status();
    let ended = ended.map_err(|error| Failure::host(&program, &error))?;
    if ended.success() { Ok(()) } else { Err(Failure::new(program.display(), ended)) }
}
