//! Factors: a pair of option lists for the target, one for *off* and one for *on*.

use std::path::Path;

use ffs_core::TunableValues;
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::systems::TargetSpec;

/// The four factors of the paper, under the names of its tables.
const PAPER: [(&str, &str, &str); 4] = [
    ("su", "sync", "softdep"),
    ("dp", "dirpref=old", "dirpref=new"),
    ("vm", "vmiodirenable=0", "vmiodirenable=1"),
    ("dh", "dirhash_maxmem=0", "dirhash_maxmem=2m"),
];

/// A factor of a study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Short name: `su`.
    pub name: String,
    /// Options of the target when it is off, separated by commas.
    pub off: String,
    /// Options of the target when it is on.
    pub on: String,
}

impl Factor {
    fn new(name: &str, off: &str, on: &str) -> Factor {
        Factor { name: name.to_owned(), off: off.to_owned(), on: on.to_owned() }
    }

    /// The factors of the paper: soft updates, dirpref, vmiodir, dirhash (bits 0 to 3).
    #[must_use]
    pub fn paper() -> Vec<Factor> {
        PAPER.iter().map(|(name, off, on)| Factor::new(name, off, on)).collect()
    }

    /// Parses the name of a factor of the paper, `NAME=OFF/ON` (options of the target), or the name
    /// of any mount option that is on or off.
    ///
    /// # Errors
    /// [`LabError::Plan`] lists the valid forms.
    pub fn parse(text: &str) -> Result<Factor> {
        if let Some((name, off, on)) = PAPER.iter().find(|(name, ..)| *name == text) {
            return Ok(Factor::new(name, off, on));
        }
        if let Some((name, words)) = text.split_once('=') {
            let (off, on) = words.split_once('/').ok_or_else(|| {
                let like = "NAME=OFF/ON, like dh=dirhash_maxmem=0/dirhash_maxmem=2m";
                LabError::Plan(format!("factor '{text}': expected {like}"))
            })?;
            return Ok(Factor::new(name, off, on));
        }
        let known = TunableValues::default().list();
        if let Some(switch) = known.iter().find(|t| t.name == text || t.option == text) {
            let option = switch.option;
            return Ok(Factor::new(option, &format!("{option}=off"), &format!("{option}=on")));
        }
        let names = PAPER.iter().map(|(name, ..)| *name);
        let options = known.iter().map(|t| t.option);
        let hint = match ffs_core::nearest(text, names.clone().chain(options)) {
            None => format!(
                "; expected {}, a mount option that is on or off, or NAME=OFF/ON",
                names.collect::<Vec<&str>>().join(", ")
            ),
            near => ffs_core::suggestion(near),
        };
        Err(LabError::Plan(format!("unknown factor '{text}'{hint}")))
    }
}

/// Refuses names that are not unique, and options that the target refuses.
pub(super) fn check(factors: &[Factor], target: &str) -> Result<()> {
    TargetSpec::parse(target)?;
    if !factors.is_empty() && Path::new(target).is_dir() {
        let why = "a directory has no options to set; --factor none runs it as it is";
        return Err(LabError::spec(target, why));
    }
    for (at, factor) in factors.iter().enumerate() {
        let Factor { name, off, on } = factor;
        let refuse = |why: &str| Err(LabError::Plan(format!("factor '{name}': {why}")));
        let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name == "none" || !name.chars().all(fine) {
            return refuse("expected letters, digits, '.', '_' and '-', and not 'none'");
        }
        if factors.iter().take(at).any(|before| before.name == *name) {
            return refuse("is named twice");
        }
        if off == on {
            return refuse("is the same off and on");
        }
        for words in [off, on].into_iter().filter(|words| !words.is_empty()) {
            let joint = if target.contains(':') { ',' } else { ':' };
            TargetSpec::parse(&format!("{target}{joint}{words}"))?;
        }
    }
    Ok(())
}

/// The factors on one line.
pub(super) fn names(factors: &[Factor]) -> String {
    let one = |f: &Factor| format!("{}={}/{}", f.name, f.off, f.on);
    factors.iter().map(one).collect::<Vec<String>>().join(" ")
}
