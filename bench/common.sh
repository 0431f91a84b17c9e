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
