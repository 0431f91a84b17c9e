#!/usr/bin/env bash
# Postmark of the NetBSD mail (20,000 files, 50,000 transactions) on the machine of 2002. First what
# each order of writes costs, with what it makes durable; then how priming the name cache changes
# the lookups. Time is virtual, so every machine gives the same figures. docs/lab/postmark.md quotes
# them. It takes some minutes.
# usage: bench/finish-lines.sh
. "$(dirname "$0")/common.sh"

workload=postmark:number=20000,transactions=50000
linear=dirhash_maxmem=0

# compare TITLE [OPTION...] -- TARGET...
compare() {
    local args=()
    echo "== $1"
    shift
    while [ "$1" != -- ]; do args+=("$1"); shift; done
    shift
    for target; do args+=(--target "sim:$target"); done
    "$ffs" lab compare "$workload" --rounds 1 "${args[@]}"
}

orders=(sync softdep suj async data=ordered data=journal data=writeback)
compare "each order as it is" -- "${orders[@]}"
compare "each phase ends with a sync" --sync -- "${orders[@]}"
compare "names are durable on return" -- sync {softdep,suj,data=ordered,data=journal},stable
compare "priming of the name cache" --lookups -- \
    softdep{",$linear",}{,",namecache_prime=create",",namecache_prime=all"}
