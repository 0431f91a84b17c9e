#!/usr/bin/env bash
# Compares file systems on Postmark, a million random files and a real source tree: ffs as a library
# in the process, ffs mounted through FUSE, and ext4, XFS and btrfs on loop images. It needs root. A
# file system whose mkfs or kernel module is missing is left out, with a message.
# usage: bench/compare.sh [SOURCE-TREE] [ROUNDS] [OPTIONS OF ffs lab compare]
# e.g.   bench/compare.sh "" 1 --sync --scale 0.1
. "$(dirname "$0")/common.sh"
sources=$(rustc --print sysroot)/lib/rustlib/src
[ -d "$sources" ] || sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
tree=$(realpath "${1:-$sources}") rounds=${2:-3}
shift $(($# < 2 ? $# : 2))

cd "$work"
kinds="ffs ext4 xfs btrfs"
cleanup() {
    cd /
    for kind in $kinds; do
        "$ffs" umount "$work/$kind" 2>/dev/null || umount "$work/$kind" 2>/dev/null || true
    done
    rm -rf "$work"
}
targets=(--target core)
for kind in $kinds; do
    mkdir "$kind"
    # A sparse file with an inode for each of a million files and space for the trees.
    truncate -s 12g "$kind.img"
    case $kind in
        ffs) make=("$ffs" newfs -u -i 8192) mount=("$ffs" mount -o async,noatime) ;;
        ext4) make=(mkfs.ext4 -q -F -N 1200000) mount=(mount -o loop,noatime) ;;
        *) make=("mkfs.$kind" -q -f) mount=(mount -o loop,noatime) ;;
    esac
    if "${make[@]}" "$kind.img" >"$kind.log" 2>&1 &&
        "${mount[@]}" "$kind.img" "$kind" >>"$kind.log" 2>&1; then
        targets+=(--target "$kind")
    else
        echo "$kind is left out: $(tail -1 "$kind.log")" >&2
    fi
done

for workload in postmark:number=20000,transactions=50000 randfiles:count=1000000 "x11:tree=$tree"; do
    "$ffs" lab compare "$workload" --rounds "$rounds" "${targets[@]}" "$@"
    echo
done
