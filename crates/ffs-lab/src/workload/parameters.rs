//! The syntax of a workload on a command line: `name` or `name:parameter=value,...`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{LabError, Result};

/// A parameter of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The default value, for people.
    pub default: &'static str,
    /// A description.
    pub meaning: &'static str,
}

impl Parameter {
    /// A parameter.
    pub(super) const fn new(
        name: &'static str,
        default: &'static str,
        meaning: &'static str,
    ) -> Parameter {
        Parameter { name, default, meaning }
    }
}

/// The parameters that the user gave.
pub(super) struct Parameters {
    workload: String,
    given: BTreeMap<String, String>,
    /// The scale: 1 is the full size.
    pub(super) scale: f64,
}

impl Parameters {
    /// Parses `words`, the text after the name of a workload with these parameters.
    pub(super) fn parse(
        workload: &str,
        words: &str,
        known: &[Parameter],
        scale: f64,
    ) -> Result<Parameters> {
        let refuse = |why: String| Err(LabError::Plan(format!("workload '{workload}': {why}")));
        if !scale.is_finite() || scale <= 0.0 || scale > MOST_SCALE {
            return refuse(format!(
                "scale {scale}: expected a number above 0, at most {MOST_SCALE}"
            ));
        }
        let mut given = BTreeMap::new();
        for word in words.split(',').filter(|word| !word.is_empty()) {
            let Some((name, value)) = word.split_once('=') else {
                return refuse(format!("'{word}': expected NAME=VALUE"));
            };
            if !known.iter().any(|param| param.name == name) {
                let names = known.iter().map(|param| param.name);
                return refuse(unknown("parameter", name, names));
            }
            if given.insert(name.to_owned(), value.to_owned()).is_some() {
                return refuse(format!("'{name}' is given twice"));
            }
        }
        Ok(Parameters { workload: workload.to_owned(), given, scale })
    }

    fn refuse(&self, name: &str, value: &str, expected: &str) -> LabError {
        let workload = &self.workload;
        LabError::Plan(format!("workload '{workload}': '{name}={value}': expected {expected}"))
    }

    /// The value of a parameter, if it was given.
    fn get<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>> {
        let Some(value) = self.given.get(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| self.refuse(name, value, expected))
    }

    /// A number that is not scaled.
    pub(super) fn fixed(&self, name: &str, default: u32, from: u32, to: u32) -> Result<u32> {
        let expected = format!("a number, {from} to {to}");
        let value = self.get(name, &expected)?.unwrap_or(default);
        if (from..=to).contains(&value) {
            return Ok(value);
        }
        Err(self.refuse(name, &value.to_string(), &expected))
    }

    /// A count times the scale, at least 1.
    pub(super) fn count(&self, name: &str, default: u32, most: u32) -> Result<u32> {
        let full = self.fixed(name, default, 1, most)?;
        // The product fits, because the largest scale is small.
        Ok(u32::try_from(self.share(u64::from(full))).unwrap_or(u32::MAX))
    }

    /// The scale: 1 is the full size.
    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// `full` times the scale, at least 1.
    pub(super) fn share(&self, full: u64) -> u64 {
        share(full, self.scale)
    }

    /// The parameter, a share of the real size, times the scale.
    pub(super) fn size(&self, default: f64) -> Result<f64> {
        let expected = "a number above 0, at most 100";
        let value = self.get("size", expected)?.unwrap_or(default);
        if value > 0.0 && value <= MOST_SCALE {
            return Ok(value * self.scale);
        }
        Err(self.refuse("size", &value.to_string(), expected))
    }

    /// A number of bytes, such as `512m`.
    pub(super) fn bytes(&self, name: &str, default: u64) -> Result<u64> {
        let Some(value) = self.given.get(name) else { return Ok(default) };
        let bytes = ffs_core::size(value).filter(|bytes| *bytes <= MOST_BYTES);
        bytes.ok_or_else(|| self.refuse(name, value, "a size such as 512m, at most 1t"))
    }

    /// One of `words`; the first is the default.
    pub(super) fn word<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str> {
        let given = self.given.get(name).map_or(words[0], String::as_str);
        let found = words.iter().find(|word| **word == given);
        found.copied().ok_or_else(|| self.refuse(name, given, &words.join(" or ")))
    }

    /// The text of a parameter, if it was given.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.given.get(name).cloned()
    }

    /// The path of a file or directory.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.given.get(name).map(PathBuf::from)
    }
}

/// The largest scale.
const MOST_SCALE: f64 = 100.0;
/// The most bytes in a parameter.
const MOST_BYTES: u64 = 1 << 40;

/// `full` times `share`, at least 1. One multiplication rounds the same on every computer.
pub(super) fn share(full: u64, scale: f64) -> u64 {
    ((full as f64 * scale).round() as u64).max(1)
}

/// The message for an unknown name, with the nearest known name.
pub(super) fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let near = known
        .clone()
        .map(|each| (strsim::jaro_winkler(each, name), each))
        .filter(|(how_near, _)| *how_near > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, near)) = near {
        return format!("unknown {what} '{name}'; did you mean '{near}'?");
    }
    let all: Vec<&str> = known.collect();
    if all.is_empty() {
        return format!("unknown {what} '{name}': it has none");
    }
    format!("unknown {what} '{name}'; one of: {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Parameter; 2] =
        [Parameter::new("number", "500", ""), Parameter::new("order", "a", "")];

    fn refused(words: &str, scale: f64) -> String {
        let words = Parameters::parse("w", words, &KNOWN, scale);
        let read = words.and_then(|words| {
            words.count("number", 500, 1000)?;
            words.word("order", &["a", "b"])
        });
        read.unwrap_err().to_string()
    }

    #[test]
    fn words_are_understood() {
        let words = Parameters::parse("w", "number=7,order=b", &KNOWN, 0.5).unwrap();
        assert_eq!(words.count("number", 500, 1000).unwrap(), 4, "given numbers are scaled, too");
        assert_eq!(words.count("other", 500, 1000).unwrap(), 250);
        assert_eq!(words.fixed("number", 500, 1, 1000).unwrap(), 7);
        assert_eq!(words.word("order", &["a", "b"]).unwrap(), "b");
        assert_eq!(words.share(1), 1, "nothing is scaled away");
    }

    #[test]
    fn words_that_are_none_are_refused_with_a_hint() {
        assert!(refused("numbr=7", 1.0).contains("did you mean 'number'"));
        assert!(refused("xyz=7", 1.0).contains("one of: number, order"));
        assert!(refused("number", 1.0).contains("NAME=VALUE"));
        assert!(refused("number=1,number=2", 1.0).contains("twice"));
        assert!(refused("number=0", 1.0).contains("1 to 1000"));
        assert!(refused("number=x", 1.0).contains("a number"));
        assert!(refused("order=c", 1.0).contains("a or b"));
        assert!(refused("", 0.0).contains("above 0"));
        assert!(refused("", f64::NAN).contains("above 0"));
    }
}
