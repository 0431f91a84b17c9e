#!/usr/bin/env bash
# Compares directory operations through a mount with those of a FUSE server that does nothing.
# usage: bench/metadata.sh [N] [ROUNDS]     as root; it needs a C compiler and /dev/fuse
# The two programs are bench/tools/dirbench.c, which times the operations, and
# bench/tools/fusefloor.c, the server. Both sides run in turns, N names each. Names and attributes
# have no time in the kernel's caches, so that every operation reaches the server.
fail() {
    echo "bench/metadata.sh: $1" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || fail "must run as root, to mount"
[ -c /dev/fuse ] || fail "/dev/fuse does not exist (modprobe fuse)"
command -v cc >/dev/null || fail "there is no C compiler (cc)"
. "$(dirname "$0")/common.sh"
n=${1:-1000} rounds=${2:-5}
for tool in dirbench fusefloor; do
    cc -O2 -o "$work/$tool" "$root/bench/tools/$tool.c"
done
phases="create-shuf stat-shuf miss rename-shuf unlink-shuf"

for _ in $(seq "$rounds"); do
    "$work/fusefloor" -T 0 "$mnt" &
    floor=$!
    until mountpoint -q "$mnt"; do
        kill -0 "$floor" 2>/dev/null || fail "the server does not start"
        sleep 0.05
    done
    "$work/dirbench" -d "$mnt/d" -n "$n" -l floor $phases >>"$work/out"
    umount "$mnt"
    wait "$floor" || true

    "$ffs" newfs -u -s 256m "$work/image" >/dev/null
    "$ffs" mount -o async,attr_timeout=0,entry_timeout=0 "$work/image" "$mnt"
    "$work/dirbench" -d "$mnt/d" -n "$n" -l ffs $phases >>"$work/out"
    "$ffs" umount "$mnt"
    rm -f "$work/image"
done

# Each figure is the median of the rounds' means.
printf '%-14s %10s %10s %8s\n' "n=$n" 'floor us' 'ffs us' ratio
for phase in $phases; do
    for server in floor ffs; do
        sed -n "s/^\"$server\",\"$phase\",//p" "$work/out" | median >"$work/$server"
    done
    floor_us=$(cat "$work/floor") ffs_us=$(cat "$work/ffs")
    printf '%-14s %10s %10s %8s\n' \
        "$phase" "$floor_us" "$ffs_us" "$(ratio "$ffs_us" "$floor_us")"
done
