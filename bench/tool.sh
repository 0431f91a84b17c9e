#!/usr/bin/env bash
# Measures the command beside itself: ffs info of a large compressed image, ffs find against ffs ls
# -R, and ffs tar c against ffs cat and against cat from a mount.
# usage: bench/tool.sh [FILES] [ROUNDS] [MiB]     MiB: all the large files of tar and cat together
. "$(dirname "$0")/common.sh"
files=${1:-1000000} rounds=${2:-5} megabytes=${3:-1024}
image_size=${FFS_BENCH_IMAGE:-10g}

# compare FIRST SECOND...: runs the functions of these names in turns, and prints their medians and
# ratios to the first one.
compare() {
    local name first
    for name; do : >"$work/$name.times"; done
    for name; do "$name"; done
    for _ in $(seq "$rounds"); do
        for name; do { seconds "$name"; echo; } >>"$work/$name.times"; done
    done
    first=$(median <"$work/$1.times")
    for name; do
        printf '%-28s %10s %16s\n' "$name" "$(median <"$work/$name.times")" \
            "$(ratio "$(median <"$work/$name.times")" "$first")"
    done
}

# peak CMD...: seconds and KiB of memory at the peak.
peak() {
    command -v /usr/bin/time >/dev/null || { echo "no /usr/bin/time"; return; }
    /usr/bin/time -f '%e s, %M KiB at the peak' "$@" 2>&1 >/dev/null | tail -1
}

info() {
    echo "a volume of $image_size without files, mostly zeros, as .raw.xz"
    truncate -s "$image_size" "$work/large.raw"
    "$ffs" newfs "$work/large.raw" >/dev/null
    # In blocks, as xz makes them with several threads, and in one piece.
    xz -0 -T2 -c "$work/large.raw" >"$work/blocks.raw.xz"
    xz -0 -T1 -c "$work/large.raw" >"$work/piece.raw.xz"
    rm "$work/large.raw"
    for name in blocks piece; do
        printf '%-28s %s\n' "ffs info, xz in $name" "$(peak "$ffs" info "$work/$name.raw.xz")"
    done
    rm "$work"/*.raw.xz
}

ls_R() { "$ffs" ls -R "$work/many.img:/" | cat >/dev/null; }
find_all() { "$ffs" find "$work/many.img:/" | cat >/dev/null; }
find_name() { "$ffs" find "$work/many.img:/" -name '*7' | cat >/dev/null; }

names() {
    local here="$work/empty"
    echo "$files empty files, a thousand in a directory"
    mkdir "$here"
    : >"$work/nothing"
    awk -v files="$files" -v nothing="$work/nothing" 'BEGIN {
        for (n = 0; n < files; n++) {
            dir = sprintf("./dir%d", n / 1000)
            if (n % 1000 == 0) print dir " type=dir mode=0755"
            print dir "/file" n " type=file mode=0644 contents=" nothing
        }
    }' >"$work/spec"
    "$ffs" build --mtree "$work/spec" "$work/many.img" "$here" >/dev/null 2>&1
    rm "$work/spec"
    compare ls_R find_all find_name
    rm "$work/many.img"
}

cat_all() { "$ffs" cat "${large[@]}" | cat >/dev/null; }
tar_c() { "$ffs" tar c "$work/large.img:/" | cat >/dev/null; }
cat_mounted() { cat "$mnt"/part* | cat >/dev/null; }

content() {
    local n
    echo "four files of $((megabytes / 4)) MiB each, to a pipe"
    mkdir "$work/tree"
    for n in 1 2 3 4; do
        # A pipeline would fail with the end of yes.
        head -c $((megabytes / 4 << 20)) < <(yes "line of file $n") >"$work/tree/part$n"
        large+=("$work/large.img:/part$n")
    done
    "$ffs" build "$work/large.img" "$work/tree" >/dev/null 2>&1
    rm -r "$work/tree"
    if "$ffs" mount -o ro "$work/large.img" "$mnt" 2>"$work/why"; then
        compare cat_all tar_c cat_mounted
        "$ffs" umount "$mnt"
    else
        echo "no mount: $(head -1 "$work/why")"
        compare cat_all tar_c
    fi
}

large=()
printf '%-28s %10s %16s\n' program seconds 'ratio to first'
names
content
info
