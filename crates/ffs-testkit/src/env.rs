//! Numbers that whoever runs a test may set: seeds to repeat, rounds to run.
//!
//! A variable that is set to something else stops the test: to go on with the default would be to run
//! another test than was asked for.

use std::env::{VarError, var};

/// The number that the variable `name` is set to, if it is set.
///
/// # Panics
/// If it is set to something that is not a number.
#[must_use]
pub fn number(name: &str) -> Option<u64> {
    match var(name) {
        Ok(text) => match text.parse() {
            Ok(number) => Some(number),
            Err(_) => panic!("{name}={text}: expected a number"),
        },
        Err(VarError::NotPresent) => None,
        Err(e) => panic!("{name}: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn set_to_a_number_or_not_set() {
        // Cargo sets these for each test.
        assert!(number("CARGO_PKG_VERSION_MAJOR").is_some());
        assert_eq!(number("FFS_THAT_NOBODY_SETS"), None);
    }

    #[test]
    #[should_panic(expected = "CARGO_PKG_NAME=bsdffs-testkit: expected a number")]
    fn set_to_a_word() {
        let _ = number("CARGO_PKG_NAME");
    }
}
