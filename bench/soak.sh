#!/usr/bin/env bash
# Stresses a mount for a long time with eight processes (`ffs lab stress`: four tree, two owned, one
# fsx, one sparse), and prints the server's memory at intervals. Then the unmount must succeed, fsck
# must find nothing, and the contents must be right on the checked volume. It needs root.
# usage: bench/soak.sh [SECONDS] [SEED] [OPERATIONS TO OMIT, e.g. exchange] [OPTIONS OF ffs mount -o]
# The default is an hour and seed 1. FFS_SOAK_NO_SPARSE=1 runs a second fsx instead of sparse;
# FFS_BENCH_BUILT=1 skips the build, FFS_BENCH_FFS names another binary.
. "$(dirname "$0")/common.sh"
ffs=${FFS_BENCH_FFS:-$ffs}
span=${1:-3600} seed=${2:-1} without=${3:-} options=${4:-}
samples=12
server=

cd "$work"
cleanup() {
    cd /
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    umount -i -l "$mnt" 2>/dev/null || true
    rm -rf "$work"
}
"$ffs" newfs -U -s 2g image >/dev/null
# The limit of 4 GiB ends the server before it uses up the machine's memory.
(ulimit -v 4194304 && exec "$ffs" mount -f ${options:+-o "$options"} image "$mnt") &
server=$!
until mountpoint -q "$mnt"; do
    kill -0 "$server"
    sleep 0.1
done

# stress KIND PROCESSES
stress() {
    "$ffs" lab stress "$mnt" --kind "$1" -p "$2" --seconds "$span" --seed "$seed" \
        ${without:+--without "$without"} >"$1.log" 2>&1
}
jobs=()
kinds=("tree 4" "owned 2" "fsx 1" "sparse 1")
[ -z "${FFS_SOAK_NO_SPARSE:-}" ] || kinds=("tree 4" "owned 2" "fsx 2")
for kind in "${kinds[@]}"; do
    # Two words: a kind and a number.
    # shellcheck disable=SC2086
    stress $kind &
    jobs+=($!)
done

printf '%8s %14s %14s %10s\n' seconds 'resident KiB' 'highest KiB' records
for n in $(seq "$samples"); do
    sleep $((span / samples))
    # With a time limit: a busy server may answer late.
    records=$(timeout 10 "$ffs" sysctl -n "$mnt" debug.softdep.total_records 2>/dev/null || echo -)
    awk -v s=$((n * (span / samples))) -v r="$records" \
        '/^VmRSS/ { rss = $2 } /^VmHWM/ { top = $2 } END { printf "%8s %14s %14s %10s\n", s, rss, top, r }' \
        "/proc/$server/status"
done
failed=0
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
tail -qn 1 ./*.log
[ $failed = 0 ] || { cat ./*.log; echo "a stress failed" >&2; exit 1; }
"$ffs" umount "$mnt"
wait "$server"
server=
found=$("$ffs" fsck -n -f image | tail -n +7)
"$ffs" fsck -n -f image | grep -vE '^\*\*|files, .* used' && { echo "fsck found something" >&2; exit 1; }
echo "unmounted; check: $found"
"$ffs" mount image "$mnt"
"$ffs" lab stress "$mnt" --verify
"$ffs" umount "$mnt"
