#!/usr/bin/env bash
# Sequential write and read of one large file: dd on the backing file, the library, and FUSE, taking turns.
# usage: bench/stream.sh [MIB] [ROUNDS]      (default 4096 MiB, 3 rounds; FFS_BENCH_DIR chooses the disk)
. "$(dirname "$0")/common.sh"
mib=${1:-4096} rounds=${2:-3}
image="$work/image"
stream="$root/target/release/examples/stream"

for name in dd-write dd-read lib-write lib-read fuse-write fuse-read; do : >"$work/$name"; done
for _ in $(seq "$rounds"); do
    rm -f "$work/plain" "$image"
    seconds dd if=/dev/zero of="$work/plain" bs=1M count="$mib" conv=fsync status=none >>"$work/dd-write"
    echo >>"$work/dd-write"
    seconds dd if="$work/plain" of=/dev/null bs=1M status=none >>"$work/dd-read"
    echo >>"$work/dd-read"
    rm -f "$work/plain"
    "$ffs" newfs -s $((mib + mib / 8 + 64))m "$image" >/dev/null
    "$stream" write "$image" lib "$mib" | awk '{ print $5 }' >>"$work/lib-write"
    "$stream" read "$image" lib "$mib" | awk '{ print $5 }' >>"$work/lib-read"
    rm -f "$image"
    "$ffs" newfs -s $((mib + mib / 8 + 64))m "$image" >/dev/null
    if "$ffs" mount -o async "$image" "$mnt" 2>"$work/why"; then
        seconds dd if=/dev/zero of="$mnt/f" bs=1M count="$mib" conv=fsync status=none >>"$work/fuse-write"
        echo >>"$work/fuse-write"
        "$ffs" umount "$mnt"
        "$ffs" mount -o ro "$image" "$mnt"
        seconds dd if="$mnt/f" of=/dev/null bs=1M status=none >>"$work/fuse-read"
        echo >>"$work/fuse-read"
        "$ffs" umount "$mnt"
    else
        echo "FUSE skipped: $(head -1 "$work/why")"
    fi
done

printf '%-12s %10s %14s\n' what seconds 'ratio to dd'
for op in write read; do
    base=$(median <"$work/dd-$op")
    for who in dd lib fuse; do
        [ -s "$work/$who-$op" ] || continue
        t=$(median <"$work/$who-$op")
        printf '%-12s %10s %14s\n' "$who $op" "$t" "$(ratio "$t" "$base")"
    done
done
