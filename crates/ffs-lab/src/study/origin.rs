//! The program and the simulated computers of a study.
//!
//! The results of a job depend on the version of ffs and on the description of the simulated
//! computer. Both are part of the plan, so that jobs of another version or computer belong to
//! another study.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::checksum::checksum;
use super::factor::Factor;
use crate::error::Result;
use crate::machine::Preset;

/// The program and the simulated computers of a study.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of ffs; empty if it is unknown.
    pub ffs: String,
    /// A checksum of the values in the machine files, without their names. Empty if the target runs
    /// in real time.
    pub machine: String,
}

impl Origin {
    /// The origin of a study that this program runs on a target with the options of the factors.
    ///
    /// # Errors
    /// [`crate::LabError::Plan`] if a machine is unknown or its file is invalid.
    pub(super) fn of(target: &str, factors: &[Factor]) -> Result<Origin> {
        let words = factors.iter().flat_map(|factor| factor.levels.iter().map(String::as_str));
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
            // All values: those of the file, and those it leaves to the default computer.
            let preset = Preset { name: String::new(), ..Preset::find(name)? };
            text.push_str(&format!("{preset:?}\n"));
        }
        let machine = if text.is_empty() { text } else { checksum(text.as_bytes()) };
        Ok(Origin { ffs: env!("CARGO_PKG_VERSION").to_owned(), machine })
    }

    /// Whether the plan has no origin.
    #[must_use]
    pub(crate) fn is_unknown(&self) -> bool {
        *self == Origin::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn machines_with_other_values_have_other_checksums() {
        let of = |target| Origin::of(target, &[]).unwrap().machine;
        assert_ne!(of("sim:machine=nvme2019-queue32"), of("sim:machine=nvme2019"));
        assert_ne!(of("sim:machine=smr2014-5900"), of("sim:machine=sata2016-7200"));
        assert_eq!(of("sim:machine=nvme2019"), of("sim:machine=nvme2019"));
    }
}
