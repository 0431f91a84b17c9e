#!/usr/bin/env bash
# Files made, renamed and removed in one directory: soft updates beside no order at all (async) and ordered
# synchronous writes. First in memory, where only the bookkeeping differs; then in image files on the disk,
# with real flushes. In each run the targets take turns.
# usage: bench/softdep.sh [N] [ROUNDS]
. "$(dirname "$0")/common.sh"
n=${1:-33164} rounds=${2:-3}

# Microseconds a file (FIELD of the results): of each phase, their sum, and that with the writing back after
# each phase; ratios to the first target.
# table RESULTS FIELD
table() {
    awk -v us="$2" '
        function field(name,    s) {
            s = $0
            sub(".*\"" name "\":\"?", "", s)
            sub("[\",}].*", "", s)
            return s
        }
        { sub(/,image=[^"]*/, ""); at = field("target"); phase = field("phase") }
        phase ~ /create|rename|unlink/ {
            if (!(at in sum)) order[++k] = at
            took[at, phase] = field(us); sum[at] += took[at, phase]
            all[at] += took[at, phase] + field("sync_us_per_op")
        }
        END {
            printf "%-14s %9s %9s %9s %9s %9s %14s %9s\n", "target", "create", "rename", "unlink", "sum", "ratio",
                "with sync", "ratio"
            for (i = 1; i <= k; i++) {
                at = order[i]
                printf "%-14s %9.2f %9.2f %9.2f %9.2f %9.2f %14.2f %9.2f\n", at, took[at, "create"],
                    took[at, "rename"], took[at, "unlink"], sum[at], sum[at] / sum[order[1]], all[at],
                    all[at] / all[order[1]]
            }
            if (k == 3) printf "sync beside soft updates: x %.0f\n", sum[order[3]] / sum[order[2]]
        }' "$1"
}

echo "$n files, in memory: microseconds a file, the best of the rounds"
"$ffs" lab compare dirs -n "$n" --rounds "$rounds" --json --target core:async --target core:softdep >"$work/memory"
table "$work/memory" us_min
echo
echo "$n files, image files in ${work%/*}: microseconds a file, the median"
"$ffs" lab compare dirs -n "$n" --rounds 1 --json --target "core:async,image=$work/none" \
    --target "core:softdep,image=$work/soft" --target "core:sync,image=$work/sync" >"$work/disk"
table "$work/disk" us_per_op
