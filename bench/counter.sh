#!/usr/bin/env bash
# Tests the explanations that the report gives for missed targets. Each workload runs on the machine
# of 2002, and again with one change: the one that removes the supposed reason. Time is virtual, so
# every machine gives the same figures. The manual of the laboratory (docs/lab) quotes them. It takes
# some minutes.
# usage: bench/counter.sh
. "$(dirname "$0")/common.sh"

# A linear search of a directory costs as much as a lookup in its hash.
cat >"$work/no-search.toml" <<END
[cpu]
chunk_scanned = 0.0
chunk_scanned_far = 0.0
entry_scanned = 0.0
entry_scanned_far = 0.0
linear_lookup = 2.7
END
free=machine=$work/no-search.toml
linear=dirhash_maxmem=0
vnodes=maxvnodes=90000,minvnodes=90000    # more than there are files
small=cache=8m,minvnodes=300,maxvnodes=600    # less than the trees need

# compare WORKLOAD [OPTION...] -- TARGET...
compare() {
    local args=()
    while [ "$1" != -- ]; do args+=("$1"); shift; done
    shift
    for target; do args+=(--target "sim:$target"); done
    echo "== ${args[*]//$work\//}"
    "$ffs" lab compare "${args[@]}" --rounds 1
}

# rm: inodes are loaded twice.
compare mh -- "softdep,$linear" "softdep,$linear,$vnodes" softdep "softdep,$vnodes"
# rm: pack has spread the records; the sync takes as long with a hash.
compare mh --sync -- "softdep,$linear" "softdep,$linear,$vnodes" softdep "softdep,$vnodes"
# The search runs while the disk turns, so it costs less than its processor time.
compare mh -- "sync,$linear" sync "sync,$linear,$free"
# find: inodes and blocks are still in memory.
compare x11 -- {"$linear","$linear,$small"},vmiodirenable=0,dirpref={old,new}
# grep: files are still in memory.
compare andrew -- "softdep,$linear,vmiodirenable=0"{,",$small"},dirpref={old,new}
# seq-read: the cost of a lookup.
compare bonnie:data=0 -- "softdep,$linear" softdep "softdep,$linear,$free"
# create-alone: the cost of the search.
compare postmark:number=20000,transactions=50000 -- "softdep,$linear" softdep "softdep,$linear,$free"
