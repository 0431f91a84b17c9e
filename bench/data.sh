#!/usr/bin/env bash
# Measures reading and writing one file with fio: ext4 on a loop device, and a mount of ffs, in turns.
# Both images are in the same directory, and every write is durable at its end. It needs root, fio
# and mkfs.ext4.
# usage: bench/data.sh [-r ROUNDS] [-o OPTIONS] [MIB]
#   -r ROUNDS   rounds (3)
#   -o OPTIONS  mount options of ffs
#   MIB         size of the file (512)
# FFS_BENCH_DIR chooses the medium: /dev/shm is memory.
. "$(dirname "$0")/common.sh"
rounds=3 options=
while getopts r:o: option; do
    case $option in
        r) rounds=$OPTARG ;;
        o) options=$OPTARG ;;
        *) exit 64 ;;
    esac
done
shift $((OPTIND - 1))
mib=${1:-512}
for program in fio mkfs.ext4; do
    command -v "$program" >/dev/null || { echo "bench/data.sh: $program is not installed" >&2; exit 1; }
done

# fio_rate NAME ARGUMENT...: runs a job on the mounted file system, prints its bytes a second.
fio_rate() {
    fio --name="$1" --filename="$mnt/file" --size="${mib}m" --invalidate=1 --fadvise_hint=0 \
        --output-format=json "${@:2}" >"$work/job" 2>"$work/why" || { cat "$work/why" >&2; exit 1; }
    python3 -c 'import json, sys
text = open(sys.argv[1]).read()
job = json.loads(text[text.index("{"):])["jobs"][0]
bytes = job["read"]["io_bytes"] + job["write"]["io_bytes"]
# With the sync at the end, which fio counts apart.
print(bytes * 1000 / max(job["job_runtime"], 1))' "$work/job"
}
# jobs SIDE: the jobs; reads begin without cached content of the file system.
jobs() {
    local small=$((mib / 8)) depth
    note() { fio_rate "$@" >>"$work/$side-$1"; }
    local side=$1
    cold() { sync -f "$mnt/file"; echo 3 >/proc/sys/vm/drop_caches; }
    note write-1m --rw=write --bs=1m --ioengine=psync --end_fsync=1
    note overwrite-128k --rw=write --bs=128k --ioengine=psync --end_fsync=1
    cold
    note read-1m --rw=read --bs=1m --ioengine=psync
    note read-4k --rw=read --bs=4k --ioengine=psync
    note mmap-read --rw=read --bs=128k --ioengine=mmap
    cold
    note random-read-4k --rw=randread --bs=4k --ioengine=psync --io_size="${small}m"
    note random-write-4k --rw=randwrite --bs=4k --ioengine=psync --io_size="${small}m" --end_fsync=1
    note direct-write-512k --rw=write --bs=512k --direct=1 --ioengine=psync --end_fsync=1
    note direct-read-512k --rw=read --bs=512k --direct=1 --ioengine=psync
    for depth in 1 8 32; do
        note direct-random-4k-depth-$depth --rw=randread --bs=4k --direct=1 --ioengine=libaio \
            --iodepth=$depth --io_size="${small}m"
    done
}

for _ in $(seq "$rounds"); do
    image="$work/ext4.img"
    truncate -s $((mib * 2 + 64))m "$image"
    mkfs.ext4 -q -F "$image"
    mount -o loop "$image" "$mnt"
    jobs ext4
    umount "$mnt"
    rm "$image"

    image="$work/ffs.img"
    "$ffs" newfs -u -s $((mib * 2 + 64))m "$image" >/dev/null
    "$ffs" mount ${options:+-o "$options"} "$image" "$mnt" >/dev/null
    jobs ffs
    "$ffs" umount "$mnt"
    rm "$image"
done

printf '%-26s %12s %12s %22s\n' job 'ext4, MB/s' 'ffs, MB/s' 'ext4 / ffs (1: equal)'
for file in "$work"/ext4-*; do
    job=${file##*/ext4-}
    a=$(median <"$file") b=$(median <"$work/ffs-$job")
    awk -v job="$job" -v a="$a" -v b="$b" \
        'BEGIN { printf "%-26s %12.0f %12.0f %22.2f\n", job, a / 1e6, b / 1e6, a / b }'
done
