//! No ordering: every write is delayed (`mount -o async`).
//!
//! A crash may leave anything; after it only a full fsck makes the volume usable.

use super::Ordering;
use crate::buf::WriteHooks;

/// The mode without promises.
#[derive(Debug, Default)]
pub(crate) struct Unordered;

impl WriteHooks for Unordered {}

impl Ordering for Unordered {
    fn name(&self) -> &'static str {
        "none"
    }
}
