//! The ordering rules that can be switched off: those of the mounted file system, and those of
//! growfs and tunefs.

use crate::error::{LabError, Result};

/// A rule that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Of the mounted file system.
    Core(ffs_core::Rule),
    /// Of a command.
    Admin(ffs_admin::rules::Rule),
}

impl Mutant {
    /// All rules.
    pub fn all() -> impl Iterator<Item = Mutant> {
        let core = ffs_core::Rule::ALL.iter().copied().map(Mutant::Core);
        core.chain(ffs_admin::rules::Rule::ALL.iter().copied().map(Mutant::Admin))
    }

    /// The rule called `name`.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the name that was probably meant.
    pub fn find(name: &str) -> Result<Mutant> {
        Mutant::all().find(|rule| rule.name() == name).ok_or_else(|| {
            let near = ffs_core::nearest(name, Mutant::all().map(Mutant::name));
            LabError::Plan(format!("unknown rule '{name}'{}", ffs_core::suggestion(near)))
        })
    }

    /// The rules that `names` selects: names with commas between them, or `all`: those of the
    /// journal if one is kept (`is_journaled`), else all others.
    ///
    /// # Errors
    /// As [`Mutant::find`].
    pub fn select(names: &str, is_journaled: bool) -> Result<Vec<Mutant>> {
        let is_of_journal =
            |rule: &Mutant| matches!(rule, Mutant::Core(rule) if rule.is_of_journal());
        match names {
            "all" => Ok(Mutant::all().filter(|rule| is_of_journal(rule) == is_journaled).collect()),
            names => names.split(',').map(Mutant::find).collect(),
        }
    }

    /// The name that commands use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mutant::Core(rule) => rule.name(),
            Mutant::Admin(rule) => rule.name(),
        }
    }

    /// The rule in one sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Mutant::Core(rule) => rule.meaning(),
            Mutant::Admin(rule) => rule.meaning(),
        }
    }

    /// Switches one rule off in the whole process, or all on.
    pub fn break_rule(rule: Option<Mutant>) {
        let (mut core, mut admin) = (None, None);
        match rule {
            Some(Mutant::Core(rule)) => core = Some(rule),
            Some(Mutant::Admin(rule)) => admin = Some(rule),
            None => {}
        }
        ffs_core::break_rule(core);
        ffs_admin::rules::break_rule(admin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_one_name() {
        let mut names: Vec<&str> = Mutant::all().map(Mutant::name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        let selected = [true, false].map(|journal| Mutant::select("all", journal).unwrap());
        assert!(selected[0].contains(&Mutant::find("record-of-taken").unwrap()));
        assert_eq!(selected.concat().len(), all);
        let two = Mutant::select("copy-apart,log-before-mark", false).unwrap();
        assert_eq!(
            two.iter().map(|rule| rule.name()).collect::<Vec<_>>(),
            ["copy-apart", "log-before-mark"]
        );
        assert!(Mutant::find("copy-apar").unwrap_err().to_string().contains("'copy-apart'"));
    }
}
