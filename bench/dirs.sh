#!/usr/bin/env bash
# One directory with a million empty files: the library in process against ext4 through system calls,
# side by side in one run; then the library alone at 3,000,000 files against 10,000. Needs root.
# usage: bench/dirs.sh [N] [ROUNDS] [LARGE]
. "$(dirname "$0")/common.sh"
n=${1:-1000000} rounds=${2:-1} large=${3:-3000000}

# An inode for every file under both names of the round, and room for a directory of them.
truncate -s $((n * 1024 + (1 << 30))) "$work/image"
mkfs.ext4 -q -F -N $((n + n / 10 + 1000)) "$work/image"
mount -o loop,noatime "$work/image" "$mnt"
"$ffs" lab compare dirs -n "$n" --rounds "$rounds" --target core --target "$mnt"
umount "$mnt"
rm -f "$work/image"

"$ffs" lab compare dirs -n 10000 -n "$large" --rounds "$rounds" --target core
