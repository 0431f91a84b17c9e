#!/usr/bin/env bash
# Write and truncate in turn on one sparse file, with soft updates: the cost of a round and the memory of the
# bookkeeping, for each tenth of the rounds. Both stay as they are however many rounds there were.
# usage: bench/truncate.sh [ROUNDS]      (default 100000)
. "$(dirname "$0")/common.sh"
"$root/target/release/examples/truncate" "${1:-100000}"
