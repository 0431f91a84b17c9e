#!/usr/bin/env bash
# Measures how long it takes until a volume can be used after a crash: mounted at once and checked
# in the background, and checked by `fsck -p` first. Needs root. The server of a mount with many
# files is killed while programs make, rename and remove files. "First use" is the end of a listing
# of the root and of the creation of a file, from the start of the commands. The image is read from
# the disk each time: it is evicted from the page cache.
# usage: bench/bgfsck.sh [FILES] [ROUNDS]
. "$(dirname "$0")/common.sh"
files=${1:-1000000} rounds=${2:-3}

echo "making a volume of $files files"
tree="$work/tree"
# A thousand files of 1000 bytes, a hundred in each directory; then copies of them.
for d in $(seq 0 9); do files_of "$tree/base/sub$d" 100000 1000 2; done
copies "$tree" "$files"
free=$((files * 1000 + (256 << 20)))
"$ffs" build -U --free "$free" "$work/volume.img" "$tree" >/dev/null 2>&1
rm -rf "$tree"

# busy: makes, renames and removes files on the mount until the server is killed.
busy() {
    for n in $(seq 1 1000000); do
        mkdir "$mnt/new$n" || return
        for k in $(seq 1 50); do echo "$n $k" >"$mnt/new$n/f$k" || return; done
        mv "$mnt/new$n/f1" "$mnt/moved$n" || return
        [ "$n" -le 4 ] || rm -r "$mnt/new$((n - 4))" || return
    done
}
# Writes begin after 2 seconds instead of 30, so that the crash comes between many of them.
early=filedelay=2,dirdelay=2,metadelay=2
"$ffs" mount -f -o "$early" "$work/volume.img" "$mnt" &
server=$!
until mountpoint -q "$mnt"; do kill -0 "$server"; sleep 0.05; done
busy 2>/dev/null &
writer=$!
sleep "${FFS_BENCH_CRASH:-10}"
kill -9 "$server"
wait "$server" 2>/dev/null || true
umount -l "$mnt"
wait "$writer" 2>/dev/null || true

evict() { dd if="$1" iflag=nocache count=0 status=none; sync "$1"; dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none; }
use() { ls "$mnt" >/dev/null && echo first >"$mnt/first-use"; }
# Checks first.
foreground() { "$ffs" fsck -p "$work/run.img" && "$ffs" mount -o nobgfsck "$work/run.img" "$mnt" && use; }
background() { "$ffs" mount "$work/run.img" "$mnt" 2>/dev/null && use; }

for round in $(seq "$rounds"); do
    for how in foreground background; do
        cp --sparse=always "$work/volume.img" "$work/run.img"
        evict "$work/run.img"
        seconds "$how" >>"$work/$how.times"
        echo >>"$work/$how.times"
        if [ "$how" = background ]; then
            # The volume is in use until the check ends.
            seconds "$ffs" fsck -B "$mnt" >>"$work/check.times" 2>"$work/check.log"
            echo >>"$work/check.times"
        fi
        "$ffs" umount "$mnt"
        "$ffs" fsck -n -f "$work/run.img" >/dev/null
    done
    [ "$round" -gt 1 ] || tail -1 "$work/check.log"
done

first=$(median <"$work/foreground.times")
later=$(median <"$work/background.times")
printf '%-44s %10s\n' "seconds, median of $rounds" ''
printf '%-44s %10s\n' "first use after fsck -p" "$first"
printf '%-44s %10s\n' "first use, checked in the background" "$later"
printf '%-44s %10s\n' "the check in the background, after that" "$(median <"$work/check.times")"
printf '%-44s %10s\n' "fsck -p first is slower by" "$(ratio "$first" "$later")"
