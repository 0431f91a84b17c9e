//! The tests of the core, but for those with a folder, and those that count the memory of their
//! process. One program for all of them is quicker to build than one for each file.

mod attributes;
mod between;
mod bgfsck;
mod common;
mod cutoff;
mod dirhash;
mod durability;
#[path = "../../ffs-testkit/shared/edit.rs"]
mod edit;
mod exchange;
mod faults;
mod fixtures;
mod fuzzed;
mod hostile_dirs;
mod in_place;
mod listing;
mod namecache;
mod namespace;
mod prefixes;
mod races;
mod rename_example;
mod softdep;
mod softdep_bounds;
mod softdep_cost;
mod softdep_cycles;
mod softdep_full;
mod softdep_torn;
mod sync_writes;
mod torn;
mod vmiodir;
