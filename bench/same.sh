#!/bin/sh
# Runs one small study with several programs. Results, page, figures and tables must be identical,
# byte for byte. A program is a command line, so it may be built for another processor or run by an
# emulator:
#
#   bench/same.sh target/release/ffs 'qemu-x86_64 -cpu core2duo target/release/ffs' \
#       'qemu-aarch64 -L /usr/aarch64-linux-gnu target/aarch64-unknown-linux-gnu/release/ffs' \
#       'ssh other ffs'          # then set DIR to a directory that both have
#
# Exits with 1 if a byte differs.
set -eu
# Otherwise ffs executes itself again with this setting, and leaves the emulator.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=0
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 64; }
dir=${DIR:-$(mktemp -d)}
[ -n "${DIR:-}" ] || trap 'rm -rf "$dir"' EXIT
n=0
for program; do
    n=$((n + 1))
    # All workloads, with soft updates and dirhash on and off, on two aged volumes.
    # shellcheck disable=SC2086
    $program lab run x11 mh bonnie andrew postmark netnews:size=0.05 buildworld:size=0.1 micro \
        --scale 0.01 --factor su --factor dh --replicates 2 --target sim:size=512,used=20,turnover=1 \
        --out "$dir/$n" >"$dir/$n.out"
    sed "s|$dir/$n/|DIR/|" "$dir/$n.out" >"$dir/$n/terminal.txt"
    (cd "$dir/$n" && find . -type f | LC_ALL=C sort | xargs sha256sum) >"$dir/$n.sums"
    all=$(wc -l <"$dir/$n.sums")
    if cmp -s "$dir/1.sums" "$dir/$n.sums"; then
        echo "$(sha256sum <"$dir/$n.sums" | head -c 16) of $all files: $program"
    else
        echo "DIFFERS: $program"
        diff "$dir/1.sums" "$dir/$n.sums" | head
        bad=1
    fi
done
exit ${bad:-0}
