//! ffs
fn main() {}
