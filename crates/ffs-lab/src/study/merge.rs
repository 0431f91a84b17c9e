//! Joins the parts of a study that were run in several places.

use std::path::{Path, PathBuf};

use super::plan::Plan;
use super::results_file::{self, ResultsFile};
use crate::error::{LabError, Result};

/// Joins the parts `from` (results files or their directories) in `dir`, which may hold a part.
///
/// # Errors
/// [`LabError::Unusable`] if a part cannot be read or belongs to another study; `dir` is unchanged
/// then.
pub fn merge(from: &[PathBuf], dir: &Path, note: &mut dyn FnMut(String)) -> Result<ResultsFile> {
    let parts = from.iter().map(|path| results_file::read(path)).collect::<Result<Vec<_>>>()?;
    let mut first: Option<(&PathBuf, &Plan)> = None;
    for (path, found) in &parts {
        let Some(plan) = &found.plan else { continue };
        match first {
            None => first = Some((path, plan)),
            Some((of, mine)) if mine != plan => {
                let (of, why) = (of.display(), mine.differences(plan));
                let why = format!("is a part of another study than {of} ({why})");
                return Err(LabError::unusable(&path.display().to_string(), why));
            }
            Some(_) => {}
        }
    }
    let Some((_, plan)) = first else {
        return Err(LabError::Plan("no part holds the plan of its study".to_owned()));
    };
    let tag = plan.tag()?;
    for (path, found) in &parts {
        results_file::report_damage(path, found, note);
        if found.jobs.iter().any(|(of, ..)| *of != tag) {
            let why = "holds jobs of another study";
            return Err(LabError::unusable(&path.display().to_string(), why));
        }
    }
    let mut store = ResultsFile::open(dir, plan, note)?;
    for (path, found) in parts.iter() {
        for (_, result, line) in &found.jobs {
            if !store.absorb(result.clone(), line.clone())? {
                let why = "holds a job that is not in its plan";
                return Err(LabError::unusable(&path.display().to_string(), why));
            }
        }
    }
    store.seal()?;
    Ok(store)
}
