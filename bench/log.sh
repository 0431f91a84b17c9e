#!/usr/bin/env bash
# Measures what logging costs while it is off: compares a commit without logging and this one. They
# run in turns, on a volume in memory, so that only processor time counts. Each figure is that of
# the fastest round.
# usage: bench/log.sh [BASE] [N] [ROUNDS]
# BASE is the commit to compare with, by default the one before logging was added; N is the number
# of files. The script builds BASE in a temporary worktree, which takes some minutes.
. "$(dirname "$0")/common.sh"
added=$(git -C "$root" log --diff-filter=A --format=%H -- bench/log.sh | tail -1)
base=${1:-$added^} n=${2:-33164} rounds=${3:-7}

git -C "$root" worktree add --quiet --detach "$work/base" "$base"
trap 'git -C "$root" worktree remove --force "$work/base"; cleanup' EXIT
(cd "$work/base" && CARGO_TARGET_DIR="$work/target" cargo build --release --quiet --bin ffs)

# sum PROGRAM MODE: prints microseconds for each file, the sum of all phases.
sum() {
    "$1" lab compare dirs -n "$n" --rounds 1 --json --target "core:$2" |
        sed -n 's/.*"us_per_op":\([0-9.]*\).*/\1/p' | awk '{ us += $1 } END { printf "%.4f\n", us }'
}
for _ in $(seq "$rounds"); do
    for mode in async softdep; do
        sum "$work/target/release/ffs" "$mode" >>"$work/$mode.before"
        sum "$ffs" "$mode" >>"$work/$mode.after"
    done
done
printf '%-10s %12s %12s %8s\n' "n=$n" 'before us' 'after us' ratio
for mode in async softdep; do
    before=$(sort -g "$work/$mode.before" | head -1) after=$(sort -g "$work/$mode.after" | head -1)
    printf '%-10s %12s %12s %8s\n' "$mode" "$before" "$after" "$(ratio "$after" "$before")"
done
