#!/usr/bin/env bash
# Measures snapshots: for how long writers wait while one is made of a large volume, and what
# overwrites and removals cost with one. In process, on sparse image files, with soft updates and
# real flushes. Measurements with and without a snapshot take turns.
# usage: bench/snapshot.sh [FILES] [GIB]
. "$(dirname "$0")/common.sh"
"$root/target/release/examples/snapcost" "$work" "${1:-1000000}" "${2:-100}"
