//! Factors: lists of options for the target, one for each level. The first level is the base.
//!
//! # Invariants
//! 1. A factor of two levels is written as `off` and `on`, as in all results files; one of more
//!    levels as `levels`. A version of ffs that has only two levels refuses the second form.
//! 2. The name of an option has no comma, no `+` and no space, so that lists of names can be split.

use std::path::Path;

use ffs_core::TunableValues;
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::statistics::{MOST_COMBINATIONS, MOST_OPTIONS};
use crate::systems::{TargetSpec, own_words};

/// Most factors of a study.
const MOST_FACTORS: usize = 10;
/// The four factors of the paper, under the names of its tables.
const PAPER: [(&str, &str, &str); 4] = [
    ("su", "sync", "softdep"),
    ("dp", "dirpref=old", "dirpref=new"),
    ("vm", "vmiodirenable=0", "vmiodirenable=1"),
    ("dh", "dirhash_maxmem=0", "dirhash_maxmem=2m"),
];

/// A factor of a study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "FactorRecord", into = "FactorRecord")]
pub struct Factor {
    /// Short name: `su`.
    pub name: String,
    /// Options of the target at each level, separated by commas; for two levels off and on.
    pub levels: Vec<String>,
}

/// A factor in a results file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum FactorRecord {
    TwoLevels { name: String, off: String, on: String },
    Levels { name: String, levels: Vec<String> },
}

impl From<FactorRecord> for Factor {
    fn from(record: FactorRecord) -> Factor {
        match record {
            FactorRecord::TwoLevels { name, off, on } => Factor { name, levels: vec![off, on] },
            FactorRecord::Levels { name, levels } => Factor { name, levels },
        }
    }
}

impl From<Factor> for FactorRecord {
    fn from(factor: Factor) -> FactorRecord {
        let Factor { name, levels } = factor;
        match <[String; 2]>::try_from(levels) {
            Ok([off, on]) => FactorRecord::TwoLevels { name, off, on },
            Err(levels) => FactorRecord::Levels { name, levels },
        }
    }
}

impl Factor {
    fn new(name: &str, off: &str, on: &str) -> Factor {
        Factor { name: name.to_owned(), levels: [off, on].map(str::to_owned).into() }
    }

    /// The factors of the paper: soft updates, dirpref, vmiodir, dirhash (bits 0 to 3).
    #[must_use]
    pub fn paper() -> Vec<Factor> {
        PAPER.iter().map(|(name, off, on)| Factor::new(name, off, on)).collect()
    }

    /// The text from which [`Factor::parse`] makes the factor: `NAME=LEVEL/LEVEL`.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        format!("{}={}", self.name, self.levels.join("/"))
    }

    /// Whether the factor is on or off.
    #[must_use]
    pub(crate) fn is_two_level(&self) -> bool {
        self.levels.len() == 2
    }

    /// Short names of the levels: the values, if each level sets the same setting and no other; the
    /// levels themselves, if each is one word; otherwise `level1`, `level2`.
    #[must_use]
    pub(crate) fn level_names(&self) -> Vec<String> {
        let given = || self.levels.iter().filter(|level| !level.is_empty());
        let key = |level: &String| level.split_once('=').map(|(key, _)| key.to_owned());
        let first = given().next().and_then(key);
        let same = first.is_some() && given().all(|level| key(level) == first);
        let short = |level: &String| match level.split_once('=') {
            _ if level.is_empty() => "default".to_owned(),
            Some((_, value)) if same => value.to_owned(),
            _ => level.clone(),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let names: Vec<String> = self.levels.iter().map(short).collect();
        if names.iter().all(|name| !name.is_empty() && name.chars().all(plain)) {
            return names;
        }
        (1..=self.levels.len()).map(|number| format!("level{number}")).collect()
    }

    /// The names of the options, which are the levels other than the base: `su` of a factor of two
    /// levels, `big=20000` and `big=90000` of one with three.
    #[must_use]
    pub(crate) fn option_names(&self) -> Vec<String> {
        if self.is_two_level() {
            return vec![self.name.clone()];
        }
        let names = self.level_names().into_iter().skip(1);
        names.map(|level| format!("{}={level}", self.name)).collect()
    }

    /// Parses the name of a factor of the paper, `NAME=LEVEL/LEVEL/...` (options of the target), or
    /// the name of any mount option that is on or off. If NAME is a setting, a level may be its
    /// value: `memory=64m/256m`.
    ///
    /// # Errors
    /// [`LabError::Plan`] lists the valid forms.
    pub fn parse(text: &str) -> Result<Factor> {
        if let Some((name, off, on)) = PAPER.iter().find(|(name, ..)| *name == text) {
            return Ok(Factor::new(name, off, on));
        }
        if let Some((name, words)) = text.split_once('=') {
            let levels = split_levels(words);
            if levels.len() < 2 {
                let like = "NAME=OFF/ON, like dh=dirhash_maxmem=0/dirhash_maxmem=2m, or \
                            NAME=LEVEL/LEVEL/..., like memory=64m/256m/1g";
                return Err(LabError::Plan(format!("factor '{text}': expected {like}")));
            }
            let levels = if are_values(name, &levels) {
                levels.iter().map(|value| format!("{name}={value}")).collect()
            } else {
                levels
            };
            return Ok(Factor { name: name.to_owned(), levels });
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
                "; expected {}, a mount option that is on or off, NAME=OFF/ON, or \
                 NAME=LEVEL/LEVEL/...",
                names.collect::<Vec<&str>>().join(", ")
            ),
            near => ffs_core::suggestion(near),
        };
        Err(LabError::Plan(format!("unknown factor '{text}'{hint}")))
    }
}

/// The levels of a text, which are separated by `/`. A path that begins with `/` is one value: it
/// ends before a piece that begins with `NAME=`.
fn split_levels(text: &str) -> Vec<String> {
    let mut levels: Vec<String> = Vec::new();
    for piece in text.split('/') {
        let begins_level = piece.split(',').next().is_some_and(|word| word.contains('='));
        match levels.last_mut() {
            Some(last) if last.ends_with('=') || (last.contains("=/") && !begins_level) => {
                last.push('/');
                last.push_str(piece);
            }
            _ => levels.push(piece.to_owned()),
        }
    }
    levels
}

/// Whether the levels are values of the setting `name`, and not words for the target.
fn are_values(name: &str, levels: &[String]) -> bool {
    let known = TunableValues::default().list();
    let is_setting = |word: &str| known.iter().any(|t| t.name == word || t.option == word);
    let is_value = |level: &String| {
        let plain = !level.is_empty() && !level.contains(['=', ',']);
        plain && !own_words().any(|word| word == *level) && !is_setting(level)
    };
    let takes_value = own_words().any(|word| word.split_once('=').is_some_and(|(n, _)| n == name));
    (takes_value || is_setting(name)) && levels.iter().all(is_value)
}

/// Refuses more factors, levels or combinations than a study may have.
pub(crate) fn check_number(factors: &[Factor]) -> Result<()> {
    let refuse = |why: String| Err(LabError::Plan(why));
    if factors.len() > MOST_FACTORS {
        return refuse(format!("{} factors: no more than {MOST_FACTORS}", factors.len()));
    }
    let levels = factors.iter().map(|factor| factor.levels.len());
    let combinations = levels.fold(1, usize::saturating_mul);
    if combinations > MOST_COMBINATIONS {
        return refuse(format!(
            "{combinations} combinations of levels: no more than {MOST_COMBINATIONS}"
        ));
    }
    let options: usize = factors.iter().map(|f| f.levels.len().saturating_sub(1)).sum();
    if options > MOST_OPTIONS {
        return refuse(format!("{options} levels besides the first: no more than {MOST_OPTIONS}"));
    }
    Ok(())
}

/// Refuses names that are not unique, and options that the target refuses.
pub(super) fn check(factors: &[Factor], target: &str) -> Result<()> {
    TargetSpec::parse(target)?;
    if !factors.is_empty() && Path::new(target).is_dir() {
        let why = "a directory has no options to set; --factor none runs it as it is";
        return Err(LabError::spec(target, why));
    }
    check_number(factors)?;
    for (at, factor) in factors.iter().enumerate() {
        let Factor { name, levels } = factor;
        let refuse = |why: &str| Err(LabError::Plan(format!("factor '{name}': {why}")));
        let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name == "none" || !name.chars().all(fine) {
            return refuse("expected letters, digits, '.', '_' and '-', and not 'none'");
        }
        if factors.iter().take(at).any(|before| before.name == *name) {
            return refuse("is named twice");
        }
        if levels.len() < 2 {
            return refuse("expected at least two levels");
        }
        let repeated = (1..levels.len()).find(|n| levels.iter().take(*n).any(|l| *l == levels[*n]));
        match repeated {
            Some(_) if factor.is_two_level() => return refuse("is the same off and on"),
            Some(n) => return refuse(&format!("has the level '{}' twice", levels[n])),
            None => {}
        }
        for words in levels.iter().filter(|words| !words.is_empty()) {
            let joint = if target.contains(':') { ',' } else { ':' };
            TargetSpec::parse(&format!("{target}{joint}{words}"))?;
        }
    }
    Ok(())
}

/// The factors on one line.
pub(super) fn names(factors: &[Factor]) -> String {
    factors.iter().map(Factor::text).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(text: &str) -> Vec<String> {
        Factor::parse(text).unwrap().levels
    }

    #[test]
    fn a_factor_has_any_number_of_levels() {
        let big = Factor::parse("big=maxvnodes=5000/maxvnodes=20000/maxvnodes=90000").unwrap();
        assert_eq!(big.levels, ["maxvnodes=5000", "maxvnodes=20000", "maxvnodes=90000"]);
        assert_eq!(big.level_names(), ["5000", "20000", "90000"]);
        assert_eq!(big.option_names(), ["big=20000", "big=90000"]);
        assert_eq!(Factor::parse(&big.text()).unwrap(), big);
        assert_eq!(levels("x=/noatime/relatime"), ["", "noatime", "relatime"]);
    }

    #[test]
    fn a_level_may_be_a_value_of_the_setting_that_names_the_factor() {
        assert_eq!(levels("memory=64m/256m/1g"), ["memory=64m", "memory=256m", "memory=1g"]);
        let machine = Factor::parse("machine=ide2001-5400/ide2001-7200/scsi2002-15k").unwrap();
        assert_eq!(machine.levels[2], "machine=scsi2002-15k");
        assert_eq!(machine.option_names()[0], "machine=ide2001-7200");
        assert_eq!(levels("data=ordered/journal"), ["data=ordered", "data=journal"]);
        assert_eq!(levels("seed=1/2"), ["seed=1", "seed=2"]);
        assert_eq!(levels("maxvnodes=5000/9000"), ["maxvnodes=5000", "maxvnodes=9000"]);
        // Words for the target stay words, also if the name is that of a setting.
        assert_eq!(levels("softdep=sync/softdep"), ["sync", "softdep"]);
        assert_eq!(levels("seed=softdep/stable"), ["softdep", "stable"]);
        assert_eq!(levels("namecache=sync/softdep"), ["sync", "softdep"]);
        assert_eq!(levels("memory=/memory=64m"), ["", "memory=64m"]);
    }

    #[test]
    fn a_path_is_one_value() {
        let text =
            "m=machine=paper/machine=/etc/a/b.toml,cache=8m/machine=/c.toml/machine=nvme2019";
        let expected = [
            "machine=paper",
            "machine=/etc/a/b.toml,cache=8m",
            "machine=/c.toml",
            "machine=nvme2019",
        ];
        assert_eq!(levels(text), expected);
        assert_eq!(Factor::parse(text).unwrap().option_names()[0], "m=level2");
    }

    #[test]
    fn names_of_options_can_be_listed() {
        let own = Factor::parse("o=sync/softdep,noatime/async").unwrap();
        assert_eq!(own.option_names(), ["o=level2", "o=level3"], "a name has no comma");
        let order = Factor::parse("o=sync/softdep/async").unwrap();
        assert_eq!(order.option_names(), ["o=softdep", "o=async"]);
        let empty = Factor::parse("o=/maxvnodes=5000/maxvnodes=9000").unwrap();
        assert_eq!(empty.level_names(), ["default", "5000", "9000"]);
        assert_eq!(Factor::parse("x=maxvnodes=1/maxvnodes=2").unwrap().option_names(), ["x"]);
    }

    #[test]
    fn what_cannot_be_a_factor_is_refused_with_the_reason() {
        let refused = |texts: &[&str]| {
            let factors: Result<Vec<Factor>> = texts.iter().map(|t| Factor::parse(t)).collect();
            factors.and_then(|factors| check(&factors, "sim")).unwrap_err().to_string()
        };
        assert!(refused(&["memory=64m"]).contains("NAME=LEVEL/LEVEL/..."));
        assert!(refused(&["memory=64m/256m/64m"]).contains("has the level 'memory=64m' twice"));
        assert!(refused(&["memory=64m/256m/3m"]).contains("expected 16m to 4g"));
        assert!(refused(&["machine=paper/nvme2019/ide2001"]).contains("ide2001"));
        assert!(refused(&["x=sync/softdep/softdp"]).contains("softdp"));
        let many: Vec<String> = (0..40).map(|n| format!("maxvnodes={}", 1000 + n)).collect();
        assert!(refused(&[&format!("x={}", many.join("/"))]).contains("39 levels besides"));
        let ten = ["a", "b", "c", "d"].map(|name| format!("{name}={}", many[..6].join("/")));
        let texts: Vec<&str> = ten.iter().map(String::as_str).collect();
        assert!(refused(&texts).contains("1296 combinations of levels: no more than 1024"));
    }

    /// The lines of results files: those of two levels are as they were before there were more.
    #[test]
    fn two_levels_are_written_as_off_and_on() {
        let line = |text: &str| serde_json::to_string(&Factor::parse(text).unwrap()).unwrap();
        assert_eq!(line("su"), r#"{"name":"su","off":"sync","on":"softdep"}"#);
        let three = r#"{"name":"memory","levels":["memory=64m","memory=256m","memory=1g"]}"#;
        assert_eq!(line("memory=64m/256m/1g"), three);
        for text in ["su", "memory=64m/256m/1g"] {
            let read: Factor = serde_json::from_str(&line(text)).unwrap();
            assert_eq!(read, Factor::parse(text).unwrap());
        }
    }
}
