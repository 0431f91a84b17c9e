#!/usr/bin/env bash
# What a directory operation costs through FUSE, beside the least any FUSE server can cost.
# usage: bench/metadata.sh TOOLS [N] [ROUNDS]
# TOOLS is a folder with dirbench.c (times operations) and fusefloor.c (a server that does nothing).
. "$(dirname "$0")/common.sh"
tools=${1:?usage: bench/metadata.sh TOOLS [N] [ROUNDS]} n=${2:-1000} rounds=${3:-5}
gcc -O2 -o "$work/dirbench" "$tools/dirbench.c"
gcc -O2 -o "$work/fusefloor" "$tools/fusefloor.c" -lpthread
phases="create-shuf stat-shuf miss rename-shuf unlink-shuf"

# Nothing may be answered from the kernel's own caches, on either side.
for _ in $(seq "$rounds"); do
    "$work/fusefloor" -T 0 "$mnt" &
    floor=$!
    until mountpoint -q "$mnt"; do :; done
    "$work/dirbench" -d "$mnt/d" -n "$n" -l floor $phases >>"$work/out"
    umount "$mnt"
    wait "$floor" || true

    "$ffs" newfs -s 256m "$work/image" >/dev/null
    "$ffs" mount -o async,attr_timeout=0,entry_timeout=0 "$work/image" "$mnt"
    "$work/dirbench" -d "$mnt/d" -n "$n" -l ffs $phases >>"$work/out"
    "$ffs" umount "$mnt"
    rm -f "$work/image"
done

# Median over the rounds of each phase's mean, and the ratio.
printf '%-14s %10s %10s %8s\n' "n=$n" 'floor us' 'ffs us' ratio
for p in $phases; do
    for who in floor ffs; do
        sed -n "s/.*\"fs\":\"$who\".*\"phase\":\"$p\".*\"us\":\([0-9.]*\).*/\1/p" "$work/out" | median >"$work/$who"
    done
    f=$(cat "$work/floor") o=$(cat "$work/ffs")
    printf '%-14s %10s %10s %8s\n' "$p" "$f" "$o" "$(ratio "$o" "$f")"
done
