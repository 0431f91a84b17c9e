#!/usr/bin/env bash
# Measures the check of a consistent volume with many files: processor time (user and system) and
# peak memory of `ffs fsck -n -f`, of another ffs (FFS_BEFORE=PROGRAM), and of e2fsck on an ext4 with
# the same tree, if it is installed. The images are in memory (/dev/shm). With FFS_BENCH_COLD=1 each
# image is evicted from the page cache first, and the elapsed time is measured; then FFS_BENCH_DIR must
# be on a disk. The programs take turns; each figure is that of the fastest round.
# FFS_BENCH_FREE=100g makes a sparse image with so much free space.
# usage: bench/fsck.sh [FILES] [ROUNDS]
FFS_BENCH_DIR=${FFS_BENCH_DIR:-/dev/shm}
. "$(dirname "$0")/common.sh"
files=${1:-306000} rounds=${2:-7}

echo "making a tree of $files files"
tree="$work/tree"
# A thousand files of up to 10 KB, ten in each directory; then copies of them.
for d in $(seq 0 99); do
    size=$((d * 7919 % 9973 + 1))
    files_of "$tree/base/sub$d" $((size * 10)) "$size" 1
done
copies "$tree" "$files"
"$ffs" build --free "${FFS_BENCH_FREE:-0}" "$work/ffs.img" "$tree" >/dev/null 2>&1
names=(ffs)
if [ -n "${FFS_BEFORE:-}" ]; then names=(before ffs); fi
if command -v mkfs.ext4 e2fsck >/dev/null; then
    truncate -s "$(($(stat -c %s "$work/ffs.img") * 3 / 2))" "$work/ext4.img"
    mkfs.ext4 -q -F -N "$((files * 5 / 4 + 1000))" -d "$tree" "$work/ext4.img"
    names+=(e2fsck)
fi
rm -rf "$tree"

# once NAME: prints user seconds, system seconds (cold: elapsed seconds and 0) and peak memory in KiB
once() {
    local figures='%U %S %M'
    if [ -n "${FFS_BENCH_COLD:-}" ]; then
        figures='%e 0 %M'
        if [ "$1" = e2fsck ]; then evict "$work/ext4.img"; else evict "$work/ffs.img"; fi
    fi
    case $1 in
    before) set -- "$FFS_BEFORE" fsck -n -f "$work/ffs.img" ;;
    ffs) set -- "$ffs" fsck -n -f "$work/ffs.img" ;;
    e2fsck) set -- e2fsck -n -f "$work/ext4.img" ;;
    esac
    /usr/bin/time -f "$figures" -o "$work/time" "$@" >/dev/null 2>&1
    cat "$work/time"
}
for _ in $(seq "$rounds"); do
    for name in "${names[@]}"; do once "$name" >>"$work/$name.times"; done
done

"$ffs" fsck -n -f "$work/ffs.img" | tail -1
printf '%-8s %12s %10s %10s %14s\n' program "${FFS_BENCH_COLD:+elapsed }seconds" ratio user 'peak KiB'
for name in "${names[@]}"; do
    awk -v name="$name" -v to="${first:-}" '
        { sum = $1 + $2; if (NR == 1 || sum < best) best = sum; if (NR == 1 || $1 < user) user = $1 }
        { if (NR == 1 || $3 < peak) peak = $3 }
        END {
            printf "%-8s %12.2f %10.2f %10.2f %14d\n", name, best, to == "" ? 1 : best / to, user, peak
        }' "$work/$name.times"
    [ -n "${first:-}" ] ||
        first=$(awk '{ s = $1 + $2; if (NR == 1 || s < b) b = s } END { print b }' \
            "$work/$name.times")
done
