#!/usr/bin/env bash
# What logging costs while it is off: a commit without it and this one, in turns in one run. In
# memory, so that nothing but the processor's time counts. The ratio is of the best rounds.
# usage: bench/log.sh [BASE] [N] [ROUNDS]      BASE: the commit to compare with
. "$(dirname "$0")/common.sh"
added=$(git -C "$root" log --diff-filter=A --format=%H -- bench/log.sh | tail -1)
base=${1:-$added^} n=${2:-33164} rounds=${3:-7}

git -C "$root" worktree add --quiet --detach "$work/base" "$base"
trap 'git -C "$root" worktree remove --force "$work/base"; cleanup' EXIT
(cd "$work/base" && CARGO_TARGET_DIR="$work/target" cargo build --release --quiet --bin ffs)

# sum PROGRAM MODE: microseconds a file, all phases.
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
