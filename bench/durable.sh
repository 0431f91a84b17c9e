#!/usr/bin/env bash
# Measures durable operations: ffs through FUSE on an image file, against ext4 on a loop device over
# an image file of the same disk. The sides take turns; each round measures both. It needs root,
# python3 and git.
# Both are equally durable: the loop device does direct I/O and turns a flush into fsync of its file,
# and ffs calls fdatasync of its image. The columns "flushes" have the flushes that the disk completed
# for each operation. If one side had none, the script prints an error and fails.
# usage: bench/durable.sh [-quick] [ROUNDS] [OPTIONS OF ffs mount -o, e.g. stable]
# There are 5 rounds by default. FFS_BENCH_DIR chooses the disk, FFS_BENCH_ONLY the workloads ("git
# maildir"); FFS_BENCH_BUILT=1 skips the build, FFS_BENCH_FFS names another binary.
. "$(dirname "$0")/common.sh"
ffs=${FFS_BENCH_FFS:-$ffs}
span=3 rounds=5
if [ "${1:-}" = -quick ]; then
    shift
    span=0.5 rounds=2
fi
rounds=${1:-$rounds} options=${2:-}
workloads=${FFS_BENCH_ONLY:-files files+dir git sqlite-delete sqlite-wal maildir}
scripts=$root/bench

cd "$work"
mkdir ffs ext4
loop=
cleanup() {
    cd /
    "$ffs" umount "$work/ffs" 2>/dev/null || true
    umount "$work/ext4" 2>/dev/null || true
    [ -z "$loop" ] || losetup -d "$loop" 2>/dev/null || true
    rm -rf "$work"
}

# The disk that holds the images: its statistics have the number of flushes.
disk=$(stat -c '%Hd:%Ld' "$work")
stat=/sys/dev/block/$disk/stat
[ -r "$stat" ] || { echo "$work is on no disk of its own ($disk): set FFS_BENCH_DIR" >&2; exit 1; }
[ ! -e "/sys/dev/block/$disk/partition" ] || stat=/sys/dev/block/$disk/../stat

# Both images are written once, so that no measured operation allocates blocks of its image.
for side in ffs ext4; do
    dd if=/dev/zero of="$side.img" bs=1M count=1024 conv=fsync status=none
done
"$ffs" newfs -U ffs.img >/dev/null
mkfs.ext4 -q -F ext4.img
loop=$(losetup --find --show --direct-io=on ext4.img)
[ "$(cat "/sys/block/${loop#/dev/}/loop/dio")" = 1 ] ||
    { echo "$loop does no direct I/O here: set FFS_BENCH_DIR to another disk" >&2; exit 1; }
mount "$loop" ext4
"$ffs" mount ${options:+-o "$options"} ffs.img ffs

# measure SIDE WORKLOAD WRITERS: adds milliseconds and flushes of an operation to the cell's files.
measure() {
    local out
    out=$(python3 "$scripts/durable.py" "$work/$1" "$2" "$3" "$span" "$stat")
    awk -v ms="$2.$3.$1.ms" -v fl="$2.$3.$1.fl" \
        '{ n = $1 ? $1 : 1; printf "%.4f\n", $2 * 1000 / n >> ms; printf "%.3f\n", $3 / n >> fl }' \
        <<<"$out"
}

for round in $(seq "$rounds"); do
    for workload in $workloads; do
        for writers in 1 4; do
            sides="ext4 ffs"
            [ $((round % 2)) = 1 ] || sides="ffs ext4"
            for side in $sides; do measure $side "$workload" $writers; done
            paste -d ' ' "$workload.$writers.ffs.ms" "$workload.$writers.ext4.ms" | tail -1 |
                awk '{ printf "%.3f\n", $1 / $2 }' >>"$workload.$writers.ratio"
        done
    done
done

echo "milliseconds for each operation, the median of $rounds rounds of $span s"
echo "ratio: ffs to ext4, the median of the rounds"
printf '%-14s %7s %9s %9s %6s %13s %13s\n' workload writers ffs ext4 ratio 'flushes ffs' 'flushes ext4'
fail=0
for workload in $workloads; do
    for writers in 1 4; do
        cell=$workload.$writers
        row=()
        for file in ffs.ms ext4.ms ratio ffs.fl ext4.fl; do row+=("$(median <"$cell.$file")"); done
        printf '%-14s %7s %9s %9s %6s %13s %13s\n' "$workload" "$writers" "${row[@]}"
        for flushes in "${row[3]}" "${row[4]}"; do
            awk -v n="$flushes" 'BEGIN { exit !(n > 0) }' || fail=1
        done
    done
done
if [ $fail = 1 ]; then
    echo "one side did not flush the disk: the times are not comparable" >&2
    exit 1
fi
