//! Cases that the invariants exclude.

/// Reports a broken invariant, as `KASSERT` does. Debug builds and tests stop; a release build goes
/// on without the step, because a mounted volume must not lose the changes of other files.
#[track_caller]
pub(super) fn broken(what: &str) {
    debug_assert!(false, "soft updates: {what}");
    let _ = what;
}
