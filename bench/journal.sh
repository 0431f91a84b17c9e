#!/usr/bin/env bash
# Measures the recovery by a journal: the server of a mount with many files is killed while programs
# make, rename and remove files, and `fsck -p` repairs the volume, by its journal and by a full check.
# Needs root. The image is read from the disk each time: it is evicted from the page cache.
# `bench/softdep.sh` measures what keeping the journal costs.
# usage: bench/journal.sh [FILES] [ROUNDS]
. "$(dirname "$0")/common.sh"
files=${1:-1000000} rounds=${2:-3}

crashed_volume "$work/volume.img" "$files" -j enable
for round in $(seq "$rounds"); do
    for flags in -p -fp; do
        cp --sparse=always "$work/volume.img" "$work/run.img"
        evict "$work/run.img"
        seconds "$ffs" fsck "$flags" "$work/run.img" >>"$work/times$flags"
        echo >>"$work/times$flags"
        [ "$flags" = -fp ] || "$ffs" fsck -n -f "$work/run.img" >/dev/null
    done
done
cp --sparse=always "$work/volume.img" "$work/run.img"
"$ffs" fsck -p "$work/run.img" | sed 's/^[^:]*: //'

journal=$(median <"$work/times-p")
full=$(median <"$work/times-fp")
printf '%-44s %10s\n' "seconds, median of $rounds" ''
printf '%-44s %10s\n' "fsck -p, by the journal" "$journal"
printf '%-44s %10s\n' "fsck -fp, a full check" "$full"
printf '%-44s %10s\n' "the full check is slower by" "$(ratio "$full" "$journal")"
