#!/usr/bin/env bash
# Measures one directory with N empty files (a million by default): the library in the process
# against ext4 through system calls, in one run. Then the library alone, with LARGE files (3,000,000)
# against 10,000. It needs root.
# usage: bench/dirs.sh [N] [ROUNDS] [LARGE]
. "$(dirname "$0")/common.sh"
n=${1:-1000000} rounds=${2:-1} large=${3:-3000000}

# An inode for each file, and space for a directory with the old and the new name of each.
truncate -s $((n * 1024 + (1 << 30))) "$work/image"
mkfs.ext4 -q -F -N $((n + n / 10 + 1000)) "$work/image"
mount -o loop,noatime "$work/image" "$mnt"
"$ffs" lab compare dirs -n "$n" --rounds "$rounds" --target core --target "$mnt"
umount "$mnt"
rm -f "$work/image"

"$ffs" lab compare dirs -n 10000 -n "$large" --rounds "$rounds" --target core
