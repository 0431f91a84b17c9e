#!/bin/sh
# Runs one part of a study, and keeps its results in a store that all parts share. Started again
# after a failure or a preemption, it runs the jobs that are missing.
#
#   FFS_STORE       a directory that all parts share, or s3://BUCKET/PREFIX
#   FFS_PARTS       the number of parts
#   FFS_PART        the number of this part, from 1; by default that of Slurm or Kubernetes
#   FFS_PLAN        the words of `ffs lab run` (default: paper)
#   FFS_JOBS        jobs at a time (default: one for each core)
#   FFS_KEEP_EVERY  seconds between copies to s3:// (default: 60)
#   FFS             the command (default: ffs)
#
# s3:// needs the program `aws`. AWS_ENDPOINT_URL names a store other than Amazon's.
set -eu

if [ -z "${FFS_PART:-}" ]; then
    # Slurm counts as --array does (here from 1), an indexed Job from 0.
    FFS_PART=${SLURM_ARRAY_TASK_ID:-$((${JOB_COMPLETION_INDEX:?no part: set FFS_PART} + 1))}
fi
name=part$FFS_PART
parts=${FFS_PARTS:?no number of parts: set FFS_PARTS}
ffs=${FFS:-ffs}

case ${FFS_STORE:?no store: set FFS_STORE} in
s3://*)
    remote=$FFS_STORE/$name/results.jsonl
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    dir=$scratch/$name
    ;;
*) remote='' dir=$FFS_STORE/$name ;;
esac

mkdir -p "$dir"
if [ -n "$remote" ]; then
    found=0
    aws s3 ls "$remote" > /dev/null || found=$?
    case $found in
    0) aws s3 cp --only-show-errors "$remote" "$dir/results.jsonl" ;;
    1) ;; # nothing is stored yet
    *) exit "$found" ;;
    esac
fi

keep() {
    if [ -n "$remote" ] && [ -s "$dir/results.jsonl" ]; then
        aws s3 cp --only-show-errors "$dir/results.jsonl" "$remote"
    fi
}

# shellcheck disable=SC2086 # the plan is several words
"$ffs" lab run ${FFS_PLAN:-paper} --shard "$FFS_PART/$parts" \
    ${FFS_JOBS:+--jobs "$FFS_JOBS"} --out "$dir" &
run=$!
# A preempted run keeps its finished jobs: SIGINT ends it after them.
trap 'kill -INT $run 2> /dev/null || :' TERM INT

if [ -n "$remote" ]; then
    seconds=0
    while kill -0 $run 2> /dev/null; do
        sleep 1 &
        wait $! || :
        seconds=$((seconds + 1))
        # A copy may end in an incomplete line, which a reader skips.
        if [ $((seconds % ${FFS_KEEP_EVERY:-60})) -eq 0 ]; then
            keep || echo "$name: the store cannot be written now" >&2
        fi
    done
fi
status=0
wait $run || status=$?
# A signal ends `wait` before the run has ended.
while kill -0 $run 2> /dev/null; do
    status=0
    wait $run || status=$?
done
keep
exit "$status"
