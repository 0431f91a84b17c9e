#!/usr/bin/env bash
# Daily tasks of the user guide, with other programs as judges of the results.
#
#   tasks.sh [FFS [NAME...]]    run all tasks, or those with these names
#   tasks.sh --list             number, name, section of docs/guide, programs
#
# FFS is the program under test, by default `ffs` in PATH. Tasks compare bytes, hashes, listings,
# modes, times and exit codes, and no messages. A task whose programs or rights are missing is
# skipped. The exit code is 1 if a task failed, and 64 if the command line is wrong.
#
# A file in tasks/ has the tasks of some pages. `task` registers one: its name, the section, and
# the programs that it needs; the function of that name runs in an empty directory of its own.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
names=() sections=() needs=()

# task NAME SECTION PROGRAM...: also `root`, and `fuse` for a mount by root
task() {
    names+=("$1") sections+=("$2") needs+=("${*:3}")
}

for part in images changes disks machines rescue backup mounts; do
    # shellcheck source=/dev/null
    . "$here/tasks/$part.sh"
done

# Why a task with these needs cannot run; nothing if it can.
missing() {
    local program
    for program in "$@"; do
        case $program in
        root) [ "$(id -u)" = 0 ] || { echo 'root is needed'; return; } ;;
        fuse) (: <>/dev/fuse) 2>/dev/null || { echo '/dev/fuse cannot be opened'; return; } ;;
        *) type -P "$program" >/dev/null || { echo "$program is not installed"; return; } ;;
        esac
    done
}

# ---- for tasks

ffs() { "$FFS" "$@"; }
python3() { "${PYTHON:?}" "$@"; } # the interpreter itself: a wrapper of pyenv takes 0.1 s

# exits CODE COMMAND...: the command must exit with this code
exits() {
    local want=$1 code=0
    shift
    "$@" || code=$?
    [ "$code" = "$want" ] || { echo "exit code $code, not $want: $*"; return 1; }
}

# is WANT GOT: two values that must be the same, and not empty
is() {
    if [ -z "$1" ] || [ "$1" != "$2" ]; then
        printf 'expected: %s\nis:       %s\n' "$1" "$2"
        return 1
    fi
}

# same WANT GOT: two files with the same content, not empty
same() {
    [ -s "$1" ] || { echo "$1 is empty"; return 1; }
    cmp -s "$1" "$2" || { diff -u "$1" "$2" || true; echo "$1 and $2 differ"; return 1; }
}

# The partition table of a disk has no problem.
sound_gpt() { sgdisk -v "$1" | grep 'No problems found' >/dev/null; }

# absent PATH...: none of them exists
absent() {
    local path
    for path in "$@"; do
        if [ -e "$path" ] || [ -L "$path" ]; then
            echo "$path exists"
            return 1
        fi
    done
}

# at_most LIMIT NUMBER
at_most() { [ "$2" -le "$1" ] || { echo "$2 is more than $1"; return 1; }; }

# The hashes of files. Nothing has no hash, so that `is` finds two commands that both failed.
sum() { sha256sum "$@" | awk '$1 !~ /^e3b0c44298fc1c14/ { print $1 }'; }

# Ends the task: it cannot run here, for this reason.
skip() {
    echo "$*"
    exit 77
}

# Evaluates an expression over each object `f` of JSON on standard input: an array, or lines.
rows() {
    python3 -c '
import json, sys
text = sys.stdin.read()
array = text.lstrip().startswith("[")
for f in json.loads(text) if array else [json.loads(line) for line in text.splitlines()]:
    print(eval(sys.argv[1]))' "$1"
}

# tree DIR: files of all common kinds, with fixed times
tree() {
    mkdir -p "$1"/{etc,bin,var/empty,'a name/with spaces'}
    echo 'hostname="box"' >"$1/etc/rc.conf"
    seq 1 30000 >"$1/var/numbers"
    seq 100001 300000 >"$1/var/large"
    printf '#!/bin/sh\necho tool\n' >"$1/bin/tool"
    printf 'start' >"$1/var/sparse"
    truncate -s 3m "$1/var/sparse"
    printf 'end' >>"$1/var/sparse"
    : >"$1/etc/empty"
    echo text >"$1/a name/with spaces/umläut"
    ln "$1/bin/tool" "$1/bin/tool2"
    ln -s rc.conf "$1/etc/rc.local"
    ln -s /nowhere/else "$1/dangling"
    chmod 755 "$1" "$1/bin/tool"
    chmod 600 "$1/etc/empty"
    chmod 1777 "$1/var/empty"
    find "$1" -exec touch -h -d '2023-11-14 22:13:20.123456789' {} +
    touch -d '2001-02-03 04:05:06' "$1/etc/rc.conf"
}

specification='--options=!all,type,mode,uid,gid,size,time,link,sha256'
# Reads an archive; prints a line for each member, by bsdtar in the format of mtree(5).
spec() {
    bsdtar -cf - --format=mtree "$specification" @- |
        sed -e 's,^/\.,.,' -e '/^#mtree/d' -e '/^\.\/\.snap[ /]/d' | LC_ALL=C sort
}

# spec_tree DIR [OPTION...]: the same of a directory of the host
spec_tree() {
    (cd "$1" && find . -print0 | LC_ALL=C sort -z |
        bsdtar -cf - --format=pax "${@:2}" --null -nT -) | spec
}

# spec_image IMAGE[:/PATH]: the same of an image
spec_image() { ffs tar c "$1" | spec; }

# The access lists of a tree, sorted by path
lists() { (cd "$1" && find . ! -type l ! -path './.snap*' | LC_ALL=C sort | getfacl -n -); }

# The lines of find(1) for a tree: types, modes, owners, links, sizes of files, times, targets.
stats() {
    (cd "$1" && find . -path ./.snap -prune -o \( -type d -printf '%P %y %m %U %G %T@\n' \) -o \
        -printf '%P %y %m %U %G %n %s %T@ %l\n' | LC_ALL=C sort)
}

# await PATH: waits until a server has made its socket
await() {
    for _ in {1..200}; do
        [ ! -e "$1" ] || return 0
        sleep 0.05
    done
    echo "$1 did not appear"
    return 1
}

servers=() mounts=()
# serve COMMAND...: a server in the background that ends with the task; its process is $server
serve() {
    "$@" &
    server=$!
    servers+=("$server")
}

# mounted IMAGE DIR [OPTIONS]: mounts until the end of the task, or until `unmount DIR`
mounted() {
    mkdir -p "$2"
    mounts+=("$PWD/$2")
    ffs mount ${3:+-o "$3"} "$1" "$2"
}
unmount() { ffs umount "$1"; }

end_of_task() {
    local at
    for at in "${mounts[@]}"; do
        ! grep -q " $at " /proc/mounts || ffs umount "$at" || umount -l "$at" || true
    done
    for at in "${servers[@]}"; do
        kill "$at" 2>/dev/null || true
    done
}

# ---- running them

case ${1:-} in
--list)
    for i in "${!names[@]}"; do
        printf '%2d %-24s %-58s %s\n' $((i + 1)) "${names[i]}" "${sections[i]}" "${needs[i]}"
    done
    exit
    ;;
--one) # the child process of a task
    FFS=$2
    trap end_of_task EXIT
    "$3"
    exit
    ;;
-*)
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 64
    ;;
esac

export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8 TZ=UTC
unset SOURCE_DATE_EPOCH RUST_LOG VISUAL EDITOR
umask 022
FFS=$(command -v "${1:-ffs}") || { echo "tasks.sh: ${1:-ffs}: not found" >&2; exit 64; }
FFS=$(realpath "$FFS")
PYTHON=$(command python3 -c 'import sys; print(sys.executable)' 2>/dev/null) || PYTHON=python3
export PYTHON
wanted=("${@:2}")
for name in "${wanted[@]}"; do
    [[ " ${names[*]} " = *" $name "* ]] || { echo "tasks.sh: no task $name" >&2; exit 64; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'wait; exit 130' INT TERM # the tasks that run end first
chmod 755 "$work"

# run I: runs a task in its directory, prints its line, and keeps the first word of that
run() {
    local name=${names[$1]} code=0 line why log="$work/$1.log"
    # shellcheck disable=SC2086
    why=$(missing ${needs[$1]})
    if [ -n "$why" ]; then
        code=77
    else
        mkdir "$work/$name"
        (cd "$work/$name" && exec timeout -k 10 120 "$BASH" "$here/tasks.sh" --one "$FFS" "$name") \
            >"$log" 2>&1 </dev/null || code=$?
    fi
    case $code in
    0) line="ok $(($1 + 1)) $name" ;;
    77) line="skipped $(($1 + 1)) $name: ${why:-$(tail -n 1 "$log")}" ;;
    *)
        line="FAILED $(($1 + 1)) $name: exit code $code; ${sections[$1]}"
        line+=$'\n'$(sed 's/^/    /' "$log")
        ;;
    esac
    printf '%s\n' "$line"
    echo "${line%% *}" >"$work/$1.result"
    chmod -R u+rwX "$work/$name" 2>/dev/null || true
    rm -rf "${work:?}/$name"
}

# As many tasks at a time as there are processors.
jobs=$(nproc)
started=0
for i in "${!names[@]}"; do
    [ "${#wanted[@]}" = 0 ] || [[ " ${wanted[*]} " = *" ${names[i]} "* ]] || continue
    [ "$started" -lt "$jobs" ] || wait -n || true
    run "$i" &
    started=$((started + 1))
done
wait

count() { cat "$work"/*.result | grep -cx "$1" || true; }
failed=$((started - $(count ok) - $(count skipped)))
echo "$(count ok) ok, $(count skipped) skipped, $failed failed"
[ "$failed" = 0 ]
