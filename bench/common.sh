# Shared by the benchmark scripts: paths, a build of the programs, a temporary folder that is removed
# at exit, and small functions.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ffs="$root/target/release/ffs"
work=$(mktemp -d "${FFS_BENCH_DIR:-${TMPDIR:-/tmp}}/ffs-bench.XXXXXX")
mnt="$work/mnt"
mkdir "$mnt"
cleanup() {
    umount "$mnt" 2>/dev/null || fusermount3 -u "$mnt" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
[ -n "${FFS_BENCH_BUILT:-}" ] || (cd "$root" && cargo build --release --quiet --workspace --examples --bins)

now() { date +%s.%N; }
# seconds CMD...: runs CMD, prints how long it took.
seconds() {
    local from to
    from=$(now)
    "$@" >/dev/null
    to=$(now)
    awk -v a="$from" -v b="$to" 'BEGIN { printf "%.3f", b - a }'
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# copies TREE FILES: fills TREE/dir2, TREE/dir3, ... with copies of TREE/base, which has a thousand
# files, until there are FILES files.
copies() {
    local n
    for n in $(seq 2 $((($2 + 999) / 1000))); do cp -r "$1/base" "$1/dir$n"; done
}
# files_of DIR BYTES SIZE SUFFIX: makes the directory DIR with files of SIZE bytes, BYTES in all, with
# SUFFIX digits in their names.
files_of() {
    mkdir -p "$1"
    head -c "$2" /dev/zero | split -a "$4" -d -b "$3" - "$1/file-"
}

# evict FILE: removes the file from the page cache.
evict() {
    dd if="$1" iflag=nocache count=0 status=none
    sync "$1"
    dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none
}
# busy: makes, renames and removes files on the mount until the server is killed.
busy() {
    local n k
    for n in $(seq 1 1000000); do
        mkdir "$mnt/new$n" || return
        for k in $(seq 1 50); do echo "$n $k" >"$mnt/new$n/f$k" || return; done
        mv "$mnt/new$n/f1" "$mnt/moved$n" || return
        [ "$n" -le 4 ] || rm -r "$mnt/new$((n - 4))" || return
    done
}
# crashed_volume IMAGE FILES OPTION...: makes a volume of FILES files, sets OPTION of tunefs, such as
# `-n enable`, mounts it, and after some seconds kills the server while programs use the mount.
crashed_volume() {
    local image=$1 files=$2 d server writer
    shift 2
    echo "making a volume of $files files"
    # A thousand files of 1000 bytes, a hundred in each directory; then copies of them.
    for d in $(seq 0 9); do files_of "$work/tree/base/sub$d" 100000 1000 2; done
    copies "$work/tree" "$files"
    "$ffs" build --free $((files * 1000 + (256 << 20))) "$image" "$work/tree" >/dev/null 2>&1
    rm -rf "$work/tree"
    "$ffs" tunefs "$@" "$image" >/dev/null 2>&1
    # Writes begin after 2 seconds instead of 30, so that the crash comes between many of them.
    "$ffs" mount -f -o filedelay=2,dirdelay=2,metadelay=2 "$image" "$mnt" &
    server=$!
    until mountpoint -q "$mnt"; do kill -0 "$server"; sleep 0.05; done
    busy 2>/dev/null &
    writer=$!
    sleep "${FFS_BENCH_CRASH:-10}"
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    umount -l "$mnt"
    wait "$writer" 2>/dev/null || true
}
