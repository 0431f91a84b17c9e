#!/usr/bin/env bash
# Compares ways to make an image from a tree: ffs build, tar x into a mount of ffs, and makefs if it
# is installed.
# usage: bench/build.sh [TREE] [ROUNDS]      without TREE the script makes one of 50,000 files
. "$(dirname "$0")/common.sh"
tree=${1:-} rounds=${2:-3}
if [ -z "$tree" ]; then
    tree="$work/tree"
    echo "making a tree of 50 000 files"
    for d in $(seq 500); do
        mkdir -p "$tree/dir$((d % 50))/sub$d"
        for f in $(seq 100); do
            head -c $((d * f % 9973)) /dev/zero | tr '\0' x >"$tree/dir$((d % 50))/sub$d/file$f"
        done
    done
fi
files=$(find "$tree" | wc -l)
tar -C "$tree" -cf "$work/tree.tar" .

for name in build tar makefs; do : >"$work/$name"; done
for _ in $(seq "$rounds"); do
    rm -f "$work"/*.img
    { seconds "$ffs" build "$work/b.img" "$tree"; echo; } >>"$work/build"
    size=$(($(stat -c %s "$work/b.img") * 2 + (64 << 20)))
    "$ffs" newfs -u -s "$((size >> 20))m" "$work/t.img" >/dev/null
    if "$ffs" mount -o async "$work/t.img" "$mnt" 2>"$work/why"; then
        { seconds sh -c "tar -C '$mnt' -xf '$work/tree.tar' && '$ffs' umount '$mnt'"; echo; } \
            >>"$work/tar"
    else
        echo "FUSE skipped: $(head -1 "$work/why")"
    fi
    if command -v makefs >/dev/null; then
        { seconds makefs -t ffs -o version=2 "$work/m.img" "$tree"; echo; } >>"$work/makefs"
    fi
done

echo "$files files and directories"
printf '%-28s %10s %16s\n' program seconds 'ratio to build'
base=$(median <"$work/build")
for name in build tar makefs; do
    [ -s "$work/$name" ] || continue
    t=$(median <"$work/$name")
    printf '%-28s %10s %16s\n' "$name" "$t" "$(ratio "$t" "$base")"
done
if [ -x /usr/bin/time ]; then
    rm -f "$work/b.img"
    /usr/bin/time -f 'peak memory of ffs build: %M KiB' "$ffs" build "$work/b.img" "$tree" \
        2>&1 >/dev/null | tail -1
fi
