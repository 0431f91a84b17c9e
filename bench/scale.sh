#!/usr/bin/env bash
# Measures empty volumes of many terabytes on sparse files: making and checking them. For each size
# it prints the processor time (user and system), the space that newfs takes on the host, and the
# peak memory of the check; also of another ffs (FFS_BEFORE=PROGRAM). Each figure is that of the
# fastest round. The folder (FFS_BENCH_DIR) must be on a file system that can hold such files: 15t
# is near the limit of ext4.
# usage: bench/scale.sh [ROUNDS [SIZE...]]
. "$(dirname "$0")/common.sh"
rounds=${1:-3}
sizes=("${@:2}")
[ ${#sizes[@]} -gt 0 ] || sizes=(1t 4t 15t)

# timed FILE CMD...: adds processor seconds and peak KiB to FILE
timed() {
    local file=$1
    shift
    /usr/bin/time -f '%U %S %M' -o "$work/time" "$@" >/dev/null 2>&1
    awk '{ print $1 + $2, $3 }' "$work/time" >>"$file"
}
# least FILE COLUMN
least() { awk -v c="$2" 'NR == 1 || $c < best { best = $c } END { print best }' "$1"; }

printf '%-8s %-8s %10s %12s %10s %10s\n' size program 'newfs s' 'newfs MiB' 'fsck s' 'fsck KiB'
for size in "${sizes[@]}"; do
    for _ in $(seq "$rounds"); do
        for name in before ffs; do
            program=$ffs
            [ "$name" = ffs ] || program=${FFS_BEFORE:-}
            [ -n "$program" ] || continue
            rm -f "$work/volume.img"
            truncate -s "${size^^}" "$work/volume.img"
            timed "$work/$name.$size.newfs" "$program" newfs "$work/volume.img"
            du -m "$work/volume.img" | awk '{ print $1 }' >>"$work/$name.$size.space"
            timed "$work/$name.$size.fsck" "$program" fsck -n -f "$work/volume.img"
        done
    done
    for name in before ffs; do
        [ -e "$work/$name.$size.newfs" ] || continue
        printf '%-8s %-8s %10.2f %12d %10.2f %10d\n' "$size" "$name" \
            "$(least "$work/$name.$size.newfs" 1)" "$(least "$work/$name.$size.space" 1)" \
            "$(least "$work/$name.$size.fsck" 1)" "$(least "$work/$name.$size.fsck" 2)"
    done
done
