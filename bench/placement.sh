#!/usr/bin/env bash
# Compares a mount whose threads run beside the program that waits for them (SCHED_IDLE, the
# default) with one whose threads the scheduler places (-o no_sched_idle). It needs root, and at
# least two processors. Where the kernel offers requests over io_uring, it measures those, too.
# usage: bench/placement.sh [ROUNDS] [SOURCE-TREE]
# The image is in memory and the mount is async. The sides take turns. The programs may run on any
# processor: Postmark, a tree unpacked and removed, a program for each of 200 files, 256 MiB written
# and read, and the tree copied by a program on each processor at once. Then it is copied while a
# loop keeps every processor busy. The figures are the medians of the seconds and the ratio.
# The last line is the slowest of 400 calls (utimensat) of a program, while another one makes calls
# and computes in turns: the thread that serves is on that one's processor then.
fail() {
    echo "bench/placement.sh: $1" >&2
    exit 1
}
switch=/sys/module/fuse/parameters/enable_uring
[ "$(id -u)" = 0 ] || fail "must run as root, to mount"
[ "$(nproc)" -gt 1 ] || fail "one processor: there is nothing to compare"
export FFS_BENCH_DIR=${FFS_BENCH_DIR:-/dev/shm}
. "$(dirname "$0")/common.sh"
loops=() before=
ended() {
    [ ${#loops[@]} = 0 ] || kill "${loops[@]}" 2>/dev/null || true
    cleanup
    [ -z "$before" ] || echo "$before" >$switch
}
trap ended EXIT
transports=off
if [ -w $switch ]; then
    before=$(cat $switch)
    echo Y >$switch
    transports="off on"
fi
rounds=${1:-3} tree=${2:-$root/crates}
tar cf "$work/tree.tar" -C "$tree" .
mkdir "$work/tree"
tar xf "$work/tree.tar" -C "$work/tree"
# A copy for each processor, two more, and what the other programs write.
size=$((1024 + $(du -sm "$work/tree" | awk '{ print $1 }') * 5 / 4 * ($(nproc) + 2)))m

# took NAME CMD...: appends the time of CMD to the results of this side.
took() {
    local name=$1
    shift
    echo "$name $(seconds "$@")" >>"$work/$uring-$side"
}
each() {
    local cpu pid pids=()
    for cpu in $(seq "$(nproc)"); do
        cp -r "$work/tree" "$mnt/each$cpu" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid"
    done
}
# Prints the seconds of the slowest call beside a program that computes.
slowest() {
    python3 - "$mnt/s/1" <<'END'
import os, sys, time
file = sys.argv[1]
client = os.fork()
if client == 0:
    while True:
        for _ in range(60):
            os.utime(file)
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            pass
slowest = 0
for _ in range(400):
    time.sleep(0.007)
    begin = time.monotonic()
    os.utime(file)
    slowest = max(slowest, time.monotonic() - begin)
os.kill(client, 9)
print(f"{slowest:.4f}")
END
}
programs() {
    mkdir "$mnt/p" "$mnt/s"
    took postmark "$ffs" lab compare postmark:number=2000,transactions=10000 --rounds 1 \
        --target "$mnt/p"
    took untar tar xf "$work/tree.tar" -C "$mnt/s"
    took rm rm -r "$mnt/s"
    mkdir "$mnt/s"
    took many-programs sh -c "for i in \$(seq 200); do /bin/echo x >'$mnt'/s/\$i; done"
    took write dd if=/dev/zero of="$mnt/big" bs=1M count=256 conv=fsync status=none
    took read dd if="$mnt/big" of=/dev/null bs=1M iflag=direct status=none
    took each each
    for _ in $(seq "$(nproc)"); do
        while :; do :; done &
        loops+=($!)
    done
    took busy cp -r "$work/tree" "$mnt/busy"
    kill "${loops[@]}"
    wait "${loops[@]}" 2>/dev/null || true
    loops=()
    echo "slowest-call $(slowest)" >>"$work/$uring-$side"
}
for _ in $(seq "$rounds"); do
    for uring in $transports; do
        for side in no_sched_idle sched_idle; do
            "$ffs" newfs -s "$size" -i 4096 "$work/image" >/dev/null
            "$ffs" mount -o "async,noatime,io_uring=$uring,$side" \
                "$work/image" "$mnt" >/dev/null 2>"$work/mount" || {
                cat "$work/mount" >&2
                fail "the image cannot be mounted"
            }
            programs
            "$ffs" umount "$mnt"
            rm -f "$work/image"
        done
    done
done
for uring in $transports; do
    echo "io_uring=$uring: seconds with no_sched_idle, with sched_idle, ratio"
    for name in $(awk '{ print $1 }' "$work/$uring-sched_idle" | awk '!seen[$0]++'); do
        a=$(awk -v n="$name" '$1 == n { print $2 }' "$work/$uring-no_sched_idle" | median)
        b=$(awk -v n="$name" '$1 == n { print $2 }' "$work/$uring-sched_idle" | median)
        printf '  %-14s %7.3f %7.3f %6.2f\n' "$name" "$a" "$b" "$(ratio "$b" "$a")"
    done
done
