#!/usr/bin/env bash
# Compares soft updates, without and with a journal, with no order (async) and with ordered
# synchronous writes: files are made, renamed and removed in one directory. First in memory, where
# only the bookkeeping differs; then in image files on the disk, with real flushes. In each run the
# targets take turns.
# usage: bench/softdep.sh [N] [ROUNDS]
. "$(dirname "$0")/common.sh"
n=${1:-33164} rounds=${2:-3}

# table RESULTS FIELD: prints microseconds for each file (FIELD of the results): of each phase, their
# sum, and the sum with the writeback after each phase. Ratios are to the first target.
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
            printf "%-14s %9s %9s %9s %9s %9s %14s %9s\n", "target", "create", "rename", "unlink",
                "sum", "ratio", "with sync", "ratio"
            for (i = 1; i <= k; i++) {
                at = order[i]
                printf "%-14s %9.2f %9.2f %9.2f %9.2f %9.2f %14.2f %9.2f\n", at, took[at, "create"],
                    took[at, "rename"], took[at, "unlink"], sum[at], sum[at] / sum[order[1]], all[at],
                    all[at] / all[order[1]]
            }
            if (k == 3) printf "sync takes %.0f times as long as soft updates\n", sum[order[3]] / sum[order[2]]
        }' "$1"
}

echo "$n files, in memory: microseconds for each file, the fastest round"
"$ffs" lab compare dirs -n "$n" --rounds "$rounds" --json \
    --target core:async --target core:softdep >"$work/memory"
table "$work/memory" us_min
echo
"$ffs" lab compare dirs -n "$n" --rounds "$rounds" --json \
    --target core:softdep --target core:suj >"$work/journal"
table "$work/journal" us_min
echo
echo "$n files, image files in ${work%/*}: microseconds for each file, the median"
"$ffs" lab compare dirs -n "$n" --rounds 1 --json --target "core:async,image=$work/none" \
    --target "core:softdep,image=$work/soft" --target "core:sync,image=$work/sync" >"$work/disk"
table "$work/disk" us_per_op
