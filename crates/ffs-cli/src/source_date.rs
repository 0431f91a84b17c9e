//! `SOURCE_DATE_EPOCH`: the time that the results of `build`, `disk create` and `dump` have, so
//! that the same input gives the same bytes
//! (<https://reproducible-builds.org/specs/source-date-epoch/>).
//!
//! # Invariant
//! The variable is read here alone.

use std::os::unix::ffi::OsStrExt;

use crate::fail::{Failure, show};
use crate::parse::number::since_1970;

const NAME: &str = "SOURCE_DATE_EPOCH";

/// The value of the variable; `None` if it is not set.
///
/// # Errors
/// It is not a number of seconds. An empty value is an error, too: it is that of a command that
/// failed, such as `$(git log ...)`, and would give other bytes on every run.
pub(crate) fn source_date_epoch() -> Result<Option<i64>, Failure> {
    let Some(value) = std::env::var_os(NAME) else { return Ok(None) };
    let seconds = value.to_str().and_then(since_1970).ok_or_else(|| {
        let (shown, most) = (show(value.as_bytes()), i64::MAX);
        let text = format!(
            "{NAME}='{shown}': expected seconds since 1970, a decimal number from 0 to {most}"
        );
        Failure::usage(text).hint("set it to the output of `git log -1 --format=%ct`, or unset it")
    })?;
    Ok(Some(seconds))
}
