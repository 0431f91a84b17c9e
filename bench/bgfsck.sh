#!/usr/bin/env bash
# Measures how long it takes until a volume can be used after a crash: mounted at once and checked
# in the background, and checked by `fsck -p` first. Needs root. The server of a mount with many
# files is killed while programs make, rename and remove files. "First use" is the end of a listing
# of the root and of the creation of a file, from the start of the commands. The image is read from
# the disk each time: it is evicted from the page cache.
# usage: bench/bgfsck.sh [FILES] [ROUNDS]
. "$(dirname "$0")/common.sh"
files=${1:-1000000} rounds=${2:-3}

crashed_volume "$work/volume.img" "$files" -n enable
use() { ls "$mnt" >/dev/null && echo first >"$mnt/first-use"; }
# Checks first.
foreground() { "$ffs" fsck -p "$work/run.img" && "$ffs" mount -o nobgfsck "$work/run.img" "$mnt" && use; }
background() { "$ffs" mount "$work/run.img" "$mnt" 2>/dev/null && use; }

for round in $(seq "$rounds"); do
    for how in foreground background; do
        cp --sparse=always "$work/volume.img" "$work/run.img"
        evict "$work/run.img"
        seconds "$how" >>"$work/$how.times"
        echo >>"$work/$how.times"
        if [ "$how" = background ]; then
            # The volume is in use until the check ends.
            seconds "$ffs" fsck -B "$mnt" >>"$work/check.times" 2>"$work/check.log"
            echo >>"$work/check.times"
        fi
        "$ffs" umount "$mnt"
        "$ffs" fsck -n -f "$work/run.img" >/dev/null
    done
    [ "$round" -gt 1 ] || tail -1 "$work/check.log"
done

first=$(median <"$work/foreground.times")
later=$(median <"$work/background.times")
printf '%-44s %10s\n' "seconds, median of $rounds" ''
printf '%-44s %10s\n' "first use after fsck -p" "$first"
printf '%-44s %10s\n' "first use, checked in the background" "$later"
printf '%-44s %10s\n' "the check in the background, after that" "$(median <"$work/check.times")"
printf '%-44s %10s\n' "fsck -p first is slower by" "$(ratio "$first" "$later")"
