//! What decides the numbers of a study besides its plan: the program, and the machines it describes.
//!
//! A job that was run by another version of ffs, or on another description of the machine, is a job of
//! another study: both are written into the plan, which is what files and their lines are recognised by.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::factor::Factor;
use super::lines::checksum;
use crate::error::Result;
use crate::machine::Preset;

/// Which program runs a study, on which machines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of ffs; empty where nobody noted it.
    pub ffs: String,
    /// Changes with anything in the machines that are simulated: their files' contents, not their names.
    /// Empty where time is real.
    pub machine: String,
}

impl Origin {
    /// This program's, for a target and the words that factors add to it.
    ///
    /// # Errors
    /// [`crate::LabError::Plan`] if a machine is unknown, or there is a mistake in its file.
    pub(super) fn of(target: &str, factors: &[Factor]) -> Result<Origin> {
        let words = factors.iter().flat_map(|factor| [factor.off.as_str(), factor.on.as_str()]);
        let words = std::iter::once(target).chain(words).flat_map(|all| all.split([':', ',']));
        let mut machines: BTreeSet<&str> =
            words.filter_map(|word| word.strip_prefix("machine=")).collect();
        if target.split(':').next() == Some("sim") {
            machines.insert("paper");
        } else {
            machines.clear();
        }
        let mut text = String::new();
        for name in &machines {
            // All values, those from the files and those left to the machine of the paper.
            let preset = Preset { name: String::new(), ..Preset::find(name)? };
            text.push_str(&format!("{preset:?}\n"));
        }
        let machine = if text.is_empty() { text } else { checksum(text.as_bytes()) };
        Ok(Origin { ffs: env!("CARGO_PKG_VERSION").to_owned(), machine })
    }

    /// Whether nobody noted it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Origin::default()
    }
}
