//! Parts of a study, run in several places, joined.

use std::path::{Path, PathBuf};

use super::plan::Plan;
use super::store::{self, Store};
use crate::error::{LabError, Result};

/// Joins the parts `from` (results files or their directories) in `dir`; a part may be there already.
///
/// # Errors
/// [`LabError::Unusable`] if a part cannot be read or is of another study; then `dir` is as it was.
pub fn merge(from: &[PathBuf], dir: &Path, note: &mut dyn FnMut(String)) -> Result<Store> {
    let parts = from.iter().map(|path| store::read(path)).collect::<Result<Vec<_>>>()?;
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
        store::tell_damage(path, found, note);
        if found.jobs.iter().any(|(of, ..)| *of != tag) {
            let why = "holds jobs of another study";
            return Err(LabError::unusable(&path.display().to_string(), why));
        }
    }
    let mut store = Store::open(dir, plan, note)?;
    for (path, found) in parts.iter() {
        for (_, result, line) in &found.jobs {
            if !store.absorb(result.clone(), line.clone())? {
                let why = "holds a job that its plan has not";
                return Err(LabError::unusable(&path.display().to_string(), why));
            }
        }
    }
    store.seal()?;
    Ok(store)
}
