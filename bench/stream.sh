#!/usr/bin/env bash
# Measures the sequential write and read of one large file: with dd on the backing disk, with the
# library, and through FUSE, in turns. The first read comes from the disk, because the script drops
# the host's cache of the file; the second comes from memory.
# usage: bench/stream.sh [MIB] [ROUNDS]      4096 MiB and 3 rounds by default
# FFS_BENCH_DIR chooses the disk.
. "$(dirname "$0")/common.sh"
mib=${1:-4096} rounds=${2:-3}
plain="$work/plain" image="$work/image"
stream="$root/target/release/examples/stream"

# note NAME CMD...: runs CMD, adds its seconds to the times of NAME.
note() { { seconds "${@:2}" && echo; } >>"$work/$1"; }
uncache() { sync "$1" && dd if="$1" iflag=nocache count=0 status=none; }
write_to() { dd if=/dev/zero of="$1" bs=1M count="$mib" conv=fsync status=none; }
read_from() { dd if="$1" of=/dev/null bs=1M status=none; }
stream() { "$stream" "$1" "$image" lib "$mib" | awk '{ print $5 }' >>"$work/lib-$2"; }
new_image() { rm -f "$image" && "$ffs" newfs -u -s $((mib + mib / 8 + 64))m "$image" >/dev/null; }

for _ in $(seq "$rounds"); do
    rm -f "$plain" "$image"
    note dd-write write_to "$plain"
    uncache "$plain"
    note dd-read read_from "$plain"
    note dd-reread read_from "$plain"
    rm -f "$plain"

    new_image
    stream write write
    uncache "$image"
    stream read read
    stream read reread

    new_image
    if ! "$ffs" mount -o async "$image" "$mnt" 2>"$work/why"; then
        echo "FUSE skipped: $(head -1 "$work/why")"
        continue
    fi
    note fuse-write write_to "$mnt/f"
    "$ffs" umount "$mnt"
    uncache "$image"
    for pass in read reread; do
        "$ffs" mount -o ro "$image" "$mnt"
        note fuse-$pass read_from "$mnt/f"
        "$ffs" umount "$mnt"
    done
done

printf '%-12s %10s %14s\n' test seconds 'ratio to dd'
for op in write read reread; do
    base=$(median <"$work/dd-$op")
    for side in dd lib fuse; do
        [ -s "$work/$side-$op" ] || continue
        t=$(median <"$work/$side-$op")
        printf '%-12s %10s %14s\n' "$side $op" "$t" "$(ratio "$t" "$base")"
    done
done
