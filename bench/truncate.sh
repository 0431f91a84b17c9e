#!/usr/bin/env bash
# Writes and truncates one sparse file in turns, with soft updates. It prints the time of a round and
# the memory of the bookkeeping for each tenth of the rounds. Neither may grow with the rounds.
# usage: bench/truncate.sh [ROUNDS]      100000 by default
. "$(dirname "$0")/common.sh"
"$root/target/release/examples/truncate" "${1:-100000}"
