#!/usr/bin/env bash
# Compares the two ways of requests to a mount: /dev/fuse and io_uring. It needs root and a kernel
# that offers FUSE over io_uring; it switches that on, and back at the end.
# usage: bench/transport.sh [N] [ROUNDS] [SOURCE-TREE]
# The image is in memory. Both ways run in turns:
#   one        operations on N names in one directory (bench/tools/dirbench.c), the server on the
#              same processor
#   free       the same, wherever the system runs them
#   each       the time of all of it by a program on each processor at once
#   programs   Postmark; a tree unpacked from an archive and removed; 256 MiB written and read
# Names and attributes have no time in the kernel's caches, except for the programs. The figures are
# medians, in microseconds (one, free) and seconds, and the ratio is that of io_uring to /dev/fuse.
fail() {
    echo "bench/transport.sh: $1" >&2
    exit 1
}
switch=/sys/module/fuse/parameters/enable_uring
[ "$(id -u)" = 0 ] || fail "must run as root, to mount"
[ -w $switch ] || fail "the kernel has no FUSE over io_uring (Linux 6.14, CONFIG_FUSE_IO_URING)"
command -v cc >/dev/null || fail "there is no C compiler (cc)"
export FFS_BENCH_DIR=${FFS_BENCH_DIR:-/dev/shm}
. "$(dirname "$0")/common.sh"
before=$(cat $switch)
trap 'cleanup; echo "$before" >$switch' EXIT
echo Y >$switch
n=${1:-2000} rounds=${2:-5} tree=${3:-$root/crates}
cc -O2 -o "$work/dirbench" "$root/bench/tools/dirbench.c"
tar cf "$work/tree.tar" -C "$tree" .
phases="create-shuf stat-shuf miss rename-shuf unlink-shuf"

# mounted WAY OPTIONS COMMAND...: runs COMMAND on a new volume.
mounted() {
    local way=$1 options=$2
    shift 2
    "$ffs" newfs -u -s 1g -i 4096 "$work/image" >/dev/null
    $before_mount "$ffs" mount -o "async,io_uring=$way,$options" "$work/image" "$mnt" 2>/dev/null
    "$@"
    "$ffs" umount "$mnt"
    rm -f "$work/image"
}
# took NAME CMD...: appends the time of CMD to the results of $way.
took() {
    local name=$1
    shift
    echo "$name $(seconds "$@")" >>"$work/$way"
}
# names LABEL DIR PREFIX...: times the operations on names, run by the command PREFIX.
names() {
    local label=$1 dir=$2
    shift 2
    "$@" "$work/dirbench" -d "$mnt/$dir" -n "$n" -l x $phases |
        sed -n "s/^\"x\",\"\([a-z-]*\)\",\([0-9.]*\).*/$label:\1 \2/p" >>"$work/$way"
}
# A program on each processor, all at once.
each() {
    local cpu
    for cpu in $(seq 0 $(($(nproc) - 1))); do
        taskset -c "$cpu" "$work/dirbench" -d "$mnt/d$cpu" -n "$n" -l x $phases &
    done
    wait
}
programs() {
    mkdir "$mnt/p"
    took postmark $on_one "$ffs" lab compare postmark:number=2000,transactions=10000 \
        --rounds 1 --target "$mnt/p"
    took untar $on_one tar xf "$work/tree.tar" -C "$mnt"
    took rm $on_one sh -c "rm -r $mnt/*"
    took write $on_one dd if=/dev/zero of="$mnt/big" bs=1M count=256 conv=fsync status=none
    took read $on_one dd if="$mnt/big" of=/dev/null bs=1M iflag=direct status=none
}
uncached=attr_timeout=0,entry_timeout=0,negative_timeout=0
on_one="taskset -c 0"
for _ in $(seq "$rounds"); do
    for way in off on; do
        before_mount=$on_one mounted $way $uncached names one d $on_one
        before_mount="" mounted $way $uncached names free d env
        before_mount="" mounted $way $uncached took each each
        before_mount=$on_one mounted $way noatime programs
    done
done
printf '%-18s %12s %12s %8s\n' "n=$n" /dev/fuse io_uring ratio
for name in $(awk '!seen[$1]++ { print $1 }' "$work/on"); do
    for way in off on; do sed -n "s/^$name //p" "$work/$way" | median >"$work/median.$way"; done
    dev=$(cat "$work/median.off") ring=$(cat "$work/median.on")
    printf '%-18s %12s %12s %8s\n' "$name" "$dev" "$ring" "$(ratio "$ring" "$dev")"
done
