#!/bin/sh
# Joins the parts of a study that part.sh ran, and writes the report.
#
#   FFS_STORE   as for part.sh
#   FFS_PARTS   the number of parts
#   FFS         the command (default: ffs)
#
# The first argument is the directory of the whole study (default: study).
set -eu

ffs=${FFS:-ffs}
out=${1:-study}
from=${FFS_STORE:?no store: set FFS_STORE}
case $from in
s3://*)
    remote=$from
    from=$(mktemp -d)
    trap 'rm -rf "$from"' EXIT
    part=1
    while [ "$part" -le "${FFS_PARTS:?no number of parts: set FFS_PARTS}" ]; do
        mkdir "$from/part$part"
        aws s3 cp --only-show-errors "$remote/part$part/results.jsonl" \
            "$from/part$part/results.jsonl"
        part=$((part + 1))
    done
    ;;
esac

set --
part=1
while [ "$part" -le "${FFS_PARTS:?no number of parts: set FFS_PARTS}" ]; do
    set -- "$@" "$from/part$part"
    part=$((part + 1))
done
"$ffs" lab merge "$@" --out "$out"
