//! The paper's benchmarks, small, on the simulated machine of 2002.

use std::path::Path;

use ffs_lab::study::{Plan, ResultsFile, Shard};

use crate::cmd::lab::study;
use crate::fail::Failure;
use crate::memory;
use crate::output;

/// Why it is left out here, if it is.
pub(super) fn left_out() -> Option<String> {
    let bytes = study::memory_of(&Plan::quick());
    let short = memory::available().is_some_and(|available| available < bytes);
    short.then(|| format!("it takes {} of memory, which is not there", output::human(bytes)))
}

/// How many runs the study is.
pub(super) fn runs() -> Option<u64> {
    Some(Plan::quick().jobs().len() as u64)
}

/// Runs the quick study in `dir`, which must be new, writes its report there and prints the tables.
pub(super) fn run(dir: &Path) -> Result<(), Failure> {
    let plan = Plan::quick().signed()?;
    let mut store = ResultsFile::open(dir, &plan, &mut |text| output::note(text))?;
    let ended = study::carry_out(&mut store, Shard::WHOLE, study::threads_and_memory(&plan));
    if ended.interrupted {
        return Err(Failure::interrupted());
    }
    study::conclude(&store, ended, dir)?;
    study::finish(&store, dir, false)?;
    Ok(())
}
