#!/usr/bin/env bash
# Compares two lists of mount options by what programs do with a source tree. It needs root.
# usage: bench/options.sh OPTIONS OPTIONS [ROUNDS] [SOURCE-TREE]
# For example: bench/options.sh noatime no_open 5 ~/.cargo/registry/src
# The image is in memory and the mount is async. The sides take turns, and the programs may run on
# any processor: the tree is unpacked from an archive; after another mount, with nothing in the
# caches of the kernel, it is searched by name and by content, archived, and removed. The figures
# are the medians of the seconds, and the ratio of the second list to the first.
fail() {
    echo "bench/options.sh: $1" >&2
    exit 1
}
[ $# -ge 2 ] || {
    sed -n '2,/^fail/s/^# \{0,1\}//p' "$0" >&2
    exit 64
}
[ "$(id -u)" = 0 ] || fail "must run as root, to mount"
export FFS_BENCH_DIR=${FFS_BENCH_DIR:-/dev/shm}
. "$(dirname "$0")/common.sh"
lists=("$1" "$2") rounds=${3:-5} tree=${4:-$root/crates}
tar cf "$work/tree.tar" -C "$tree" .
size=$((512 + $(du -sm --apparent-size "$tree" | awk '{ print $1 }') * 2))m

mounted() {
    "$ffs" mount -o "async,${lists[$side]}" "$work/image" "$mnt" >/dev/null 2>"$work/mount" || {
        cat "$work/mount" >&2
        fail "the image cannot be mounted"
    }
}
# took NAME CMD...: appends the time of CMD to the results of this side.
took() {
    local name=$1
    shift
    echo "$name $(seconds "$@")" >>"$work/$side"
}
for _ in $(seq "$rounds"); do
    for side in 0 1; do
        "$ffs" newfs -u -s "$size" -i 8192 "$work/image" >/dev/null
        mounted
        took untar tar xf "$work/tree.tar" -C "$mnt"
        "$ffs" umount "$mnt"
        mounted
        took find find "$mnt" -size 0
        took grep sh -c "grep -r 'no such text' '$mnt' || test \$? = 1"
        "$ffs" umount "$mnt"
        mounted
        # To a pipe: tar reads no content if it writes to /dev/null.
        took tar sh -c "tar cf - -C '$mnt' . | cat"
        took rm find "$mnt" -mindepth 1 -delete
        "$ffs" umount "$mnt"
        rm -f "$work/image"
    done
done
echo "seconds with ${lists[0]}, with ${lists[1]}, ratio"
for name in untar find grep tar rm; do
    a=$(awk -v n=$name '$1 == n { print $2 }' "$work/0" | median)
    b=$(awk -v n=$name '$1 == n { print $2 }' "$work/1" | median)
    printf '  %-6s %7.3f %7.3f %6.2f\n' "$name" "$a" "$b" "$(ratio "$b" "$a")"
done
