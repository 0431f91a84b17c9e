#!/usr/bin/env bash
# Whether a target of the study is missed for the reason that its report gives: the same workload on the machine of
# 2002 as it is, and with the one thing changed that is said to be the reason. Virtual time: the same figures on every
# machine. docs/lab/README.md has them. Takes some minutes.
# usage: bench/counter.sh
. "$(dirname "$0")/common.sh"

# Searching a directory costs nothing, looking into it as much as looking into its hash.
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

# rm: inodes loaded twice.
compare mh -- "softdep,$linear" "softdep,$linear,$vnodes" softdep "softdep,$vnodes"
# rm: records that pack left apart; the sync takes as long with a hash.
compare mh --sync -- "softdep,$linear" "softdep,$linear,$vnodes" softdep "softdep,$vnodes"
# What waiting for the disk hides of the search.
compare mh -- "sync,$linear" sync "sync,$linear,$free"
# find: inodes and blocks still in memory.
compare x11 -- {"$linear","$linear,$small"},vmiodirenable=0,dirpref={old,new}
# grep: files still in memory.
compare andrew -- "softdep,$linear,vmiodirenable=0"{,",$small"},dirpref={old,new}
# seq-read: what a lookup costs.
compare bonnie:data=0 -- "softdep,$linear" softdep "softdep,$linear,$free"
# create-alone: the search.
compare postmark:number=20000,transactions=50000 -- "softdep,$linear" softdep "softdep,$linear,$free"
