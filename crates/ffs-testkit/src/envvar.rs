//! Numbers from environment variables: seeds to repeat, rounds to run.
//!
//! A variable with a value that is not a number stops the test. The default would run a different
//! test from the one requested.

use std::env::{VarError, var};

/// The value of the variable `name`, if it is set.
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
        assert_eq!(number("FFS_NEVER_SET"), None);
    }

    #[test]
    #[should_panic(expected = "CARGO_PKG_NAME=bsdffs-testkit: expected a number")]
    fn set_to_a_word() {
        let _ = number("CARGO_PKG_NAME");
    }
}
