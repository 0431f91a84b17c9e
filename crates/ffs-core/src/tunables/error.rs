//! Errors of setting a switch, and the suggestion of a similar name.

/// An error of reading or setting a switch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TunableError {
    /// No switch, counter or gauge has this name.
    #[error("unknown name '{name}'{}", suggestion(*.nearest))]
    Unknown {
        /// The unknown name.
        name: String,
        /// A similar name.
        nearest: Option<&'static str>,
    },
    /// A counter or gauge, which cannot be set.
    #[error("'{0}' is read-only")]
    ReadOnly(&'static str),
    /// The value is not of the type of the switch.
    #[error("'{name}={value}': expected {expected}")]
    Value {
        /// The switch.
        name: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
        expected: String,
    },
    /// The value is too small or too large.
    #[error("'{name}={value}' is out of bounds: {min} to {max}")]
    Bounds {
        /// The switch.
        name: &'static str,
        /// The given value.
        value: String,
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
}

/// The end of an error message about an unknown word: a suggestion, if there is a similar name.
#[must_use]
pub fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default()
}

/// The name that the user probably meant: one with the same last component, one within two edits,
/// or one that contains the word.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&'a str> = names.collect();
    let last = |name: &str| name.rsplit('.').next().map(str::to_owned);
    if let Some(same) = names.iter().find(|n| last(n) == last(word)) {
        return Some(same);
    }
    let near = names.iter().map(|name| (strsim::levenshtein(word, name), *name)).min()?;
    // A short word is within two edits of many unrelated names.
    let most = if word.len() < 4 { 0 } else { (word.len() / 3).min(2) };
    if near.0 <= most {
        return Some(near.1);
    }
    let part = |name: &&&str| word.len() >= 4 && name.contains(word);
    names.iter().filter(part).min_by_key(|name| name.len()).copied()
}
