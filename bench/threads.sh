#!/usr/bin/env bash
# Measures operations from one thread and from two at once: the library in process, ext4 on a loop
# device, and a mount of ffs by either transport, in turns. Every image is in the same directory. It
# needs root and mkfs.ext4.
# usage: bench/threads.sh [FILES] [ROUNDS]     files of each thread (20000), rounds (3)
# FFS_BENCH_DIR chooses the medium: /dev/shm is memory.
. "$(dirname "$0")/common.sh"
files=${1:-20000} rounds=${2:-3}
command -v mkfs.ext4 >/dev/null || { echo "bench/threads.sh: mkfs.ext4 is not installed" >&2; exit 1; }

mkdir "$work/ext4" "$work/ffs" "$work/ffs-io_uring"
unmount_all() {
    umount "$work/ext4" 2>/dev/null || true
    "$ffs" umount "$work/ffs" 2>/dev/null || true
    "$ffs" umount "$work/ffs-io_uring" 2>/dev/null || true
    cleanup
}
trap unmount_all EXIT
targets=(--target core --target ext4 --target ffs)
cd "$work"
truncate -s 2g ext4.img
mkfs.ext4 -q -F -N 200000 ext4.img
mount -o loop,noatime ext4.img ext4
"$ffs" newfs -u -i 8192 -s 2g ffs.img >/dev/null
"$ffs" mount -o async,noatime,io_uring=off ffs.img ffs >/dev/null
"$ffs" newfs -u -i 8192 -s 2g uring.img >/dev/null
if "$ffs" mount -o async,noatime,io_uring=on uring.img ffs-io_uring >/dev/null 2>&1; then
    targets+=(--target ffs-io_uring)
else
    echo "the kernel does not offer FUSE over io_uring; see docs/guide/mounting.md" >&2
fi
"$ffs" lab compare threads --threads 1,2 -n "$files" --rounds "$rounds" "${targets[@]}"
