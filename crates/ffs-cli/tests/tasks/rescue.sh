# Tasks of docs/guide/rescue.md and checking.md: The Sleuth Kit sees what ffs sees; repairs.
# shellcheck shell=bash disable=SC2154

# place IMAGE WORDS N: the N-th place that fsstat has under these words, in bytes, for fragments of
# 4096 bytes
place() {
    echo $(($(fsstat "$1" | sed -n "s/^ *$2: \([0-9]*\) -.*/\1/p" | sed -n "$3p") * 4096))
}

# overwrite IMAGE BYTE LENGTH: with zeros
overwrite() {
    head -c "$3" /dev/zero | dd of="$1" bs=65536 oflag=seek_bytes seek="$2" conv=notrunc status=none
}

task names_by_fls 'rescue.md#2-look-at-it' fls python3
names_by_fls() {
    tree rootfs
    for options in '-O 2' '-O 1' '-O 1 --endian big -b 16384 -f 2048' '--endian big'; do
        # shellcheck disable=SC2086
        ffs build --force $options root.img rootfs
        fls_names root.img >want
        ffs find --json root.img -mindepth 1 |
            rows '"%d %s" % (f["inode"], f["path"]["name"][1:])' | LC_ALL=C sort >got
        same want got
    done
}

task contents_by_icat 'rescue.md#3-copy-out' fls icat sha256sum
contents_by_icat() {
    tree rootfs
    for options in '-O 2' '-O 1 --endian big -b 8192 -f 1024 --free 4m'; do
        # shellcheck disable=SC2086
        ffs build -n --force $options root.img rootfs
        fls_names root.img | while read -r number name; do
            if [ ! -s "rootfs/$name" ] || [ -d "rootfs/$name" ] || [ -L "rootfs/$name" ]; then
                continue
            fi
            is "$(sum "rootfs/$name")" "$(icat root.img "$number" | sum -)"
            is "$(sum "rootfs/$name")" "$(ffs cat "root.img:#$number" | sum -)"
            echo "$name" >>seen
        done
    done
    is "$((2 * $(find rootfs -type f -size +0 | wc -l)))" "$(wc -l <seen)"
}

task copy_of_a_disk 'rescue.md#1-take-an-image' dd sha256sum
copy_of_a_disk() {
    tree rootfs
    ffs build -n -U --free 4m sdb rootfs
    dd if=sdb of=disk.img bs=1M conv=sparse status=none
    cmp sdb disk.img
    cp --sparse=always disk.img work.img
    # The commands that never change an image, on one that is marked as in use.
    printf '\0' | dd of=disk.img bs=1 seek=$((65536 + 209)) conv=notrunc status=none # fs_clean
    sum disk.img >before
    touch -d 2020-01-01 disk.img
    for command in 'ls -lR disk.img' 'tree disk.img' 'find disk.img' 'stat disk.img:/etc/rc.conf' \
        'cat disk.img:/etc/rc.conf' 'df disk.img' 'dumpfs disk.img' 'debug inode disk.img:#2' \
        'undelete disk.img' 'info disk.img' 'cp -a disk.img:/. out' 'tar cf out.tar disk.img'; do
        # shellcheck disable=SC2086
        ffs $command >/dev/null || { echo "ffs $command"; return 1; }
    done
    ffs fsck -n disk.img || [ $? = 16 ]
    sum disk.img >after
    same before after
    is 2020 "$(date -r disk.img +%Y)"
    diff -r --no-dereference rootfs out
}

task removed_names_by_fls 'rescue.md#3-copy-out' fls istat python3
removed_names_by_fls() {
    tree rootfs
    ffs build -n root.img rootfs
    # Older systems leave a name: the record before it gets its space. The name here is etc/empty.
    block=$(istat root.img "$(inode root.img:/etc)" | sed -n '/^Direct/{n;s/ .*//p}')
    python3 - $((block * 4096)) <<'PYTHON'
import struct, sys
with open("root.img", "r+b") as image:
    image.seek(int(sys.argv[1]))
    block = bytearray(image.read(512))
    at, before = 0, None
    while block[at + 8:at + 13] != b"empty":
        before, at = at, at + struct.unpack_from("<H", block, at + 4)[0]
    length = struct.unpack_from("<H", block, before + 4)[0]
    struct.pack_into("<H", block, before + 4, length + struct.unpack_from("<H", block, at + 4)[0])
    image.seek(int(sys.argv[1]))
    image.write(block)
PYTHON
    exits 1 ffs stat root.img:/etc/empty
    fls -rpd root.img | sed -n '/OrphanFiles/d;s/^.*\t//p' | LC_ALL=C sort >want
    ffs debug body root.img | awk -F '|' '$2 ~ /deleted/ { print $2 }' |
        sed 's,^/,,;s/ (deleted.*//' | LC_ALL=C sort >got
    same want got
    fls -rpd root.img | sed -n 's,^.* \([0-9]*\)[^0-9]*:\t.*/,\1 ,p' >want
    ffs undelete --json root.img | grep '"event":"name"' |
        rows '"%d %s" % (f["inode"], f["name"])' >got
    same want got
    # ffs itself leaves no name.
    ffs build -n two.img rootfs
    ffs rm two.img:/etc/empty two.img:/var/numbers
    fls -rpd two.img >want
    ffs undelete --json two.img >got
    is 0 "$(cat want got | wc -l)"
}

task timeline_by_mactime 'rescue.md#3-copy-out' mactime fls
timeline_by_mactime() {
    tree rootfs
    ffs build -n --owner 5:6 root.img rootfs
    # The Sleuth Kit reads no time of creation from UFS; the other columns agree.
    columns() { LC_ALL=C sort | awk -F '|' -v OFS='|' '{ $11 = 0; print }'; }
    fls -r -m / root.img | grep -v OrphanFiles | columns >want
    ffs debug body root.img | grep -v '^0|/|' | columns >got
    same want got
    mactime -b want -d -y -z UTC >want.csv
    mactime -b got -d -y -z UTC >got.csv
    same want.csv got.csv
    at_most "$(wc -l <got.csv)" 18
}

task undelete_after_a_crash 'rescue.md#3-copy-out' root fuse cmp
undelete_after_a_crash() {
    seq 1 100000 >numbers
    ffs newfs -U -s 16m disk.img
    mkdir mnt
    mounts+=("$PWD/mnt")
    serve "$FFS" mount -f disk.img mnt
    for _ in {1..100}; do ! mountpoint -q mnt || break; sleep 0.05; done
    cp numbers mnt/numbers
    sync mnt/numbers
    exec 9<mnt/numbers
    rm mnt/numbers
    sync mnt # of an image in a file this does nothing, so:
    touch mnt/other && sync mnt/other
    kill -KILL "$server"
    wait "$server" || true
    exec 9<&-
    ffs umount mnt
    ffs undelete --json disk.img >removed
    ffs undelete -d found disk.img
    cmp numbers found/inode-*
    ffs fsck -p disk.img
    ffs fsck -n -f disk.img
}

task lost_superblock 'rescue.md#when-the-superblock-is-lost' fsstat bsdtar
lost_superblock() {
    tree rootfs
    ffs build -n --free 4m root.img rootfs
    spec_tree rootfs >want
    overwrite root.img 65536 8192
    exits 1 fsstat root.img
    spec_image root.img >got # a copy is found
    same want got
    exits 16 ffs fsck -n root.img
    exits 8 ffs fsck -p root.img
    ffs fsck -y root.img
    ffs fsck -n -f root.img
    fsstat root.img >/dev/null
    spec_image root.img >got
    same want got
}

task lost_directory 'checking.md#lostfound' istat sha256sum python3
lost_directory() {
    tree rootfs
    ffs build -n --free 4m root.img rootfs
    block=$(istat root.img "$(inode root.img:/var)" | sed -n '/^Direct/{n;s/ .*//p}')
    overwrite root.img $((block * 4096)) 512
    exits 16 ffs fsck -n root.img
    ffs fsck -y root.img
    ffs fsck -n -f root.img
    ffs cp -a root.img:/lost+found out
    for name in numbers large sparse; do
        sum "rootfs/var/$name"
    done | LC_ALL=C sort >want
    find out -type f -exec sha256sum {} + | awk '{ print $1 }' | LC_ALL=C sort >got
    same want got
}

task lost_maps 'checking.md#exit-codes' fsstat bsdtar python3
lost_maps() {
    tree rootfs
    ffs build -n --size 24m root.img rootfs
    spec_tree rootfs >want
    fsstat root.img | sed '/ Last /d' >before
    overwrite root.img "$(place root.img 'Group Desc' 2)" 4096
    exits 16 ffs fsck -n root.img
    code=0
    ffs fsck -n --json root.img >findings || code=$?
    is 16 "$code"
    python3 -m json.tool findings >/dev/null
    exits 8 ffs fsck -p -f root.img
    spec_image root.img >got # reading needs no maps
    same want got
    ffs fsck -y root.img
    ffs fsck -n -f root.img
    fsstat root.img | sed '/ Last /d' >after
    diff <(grep -v Written before) <(grep -v Written after)
    spec_image root.img >got
    same want got
}

task damaged_file 'rescue.md#4-if-the-volume-is-damaged' istat fsstat diff python3
damaged_file() {
    tree rootfs
    ffs build -n --free 4m root.img rootfs
    # The first block pointer of an inode of UFS2, at byte 112, leads outside the volume.
    number=$(inode root.img:/etc/rc.conf)
    group=$(field root.img /etc/rc.conf Group)
    first=$(fsstat root.img | sed -n 's/^  Inode Range: \([0-9]*\) -.*/\1/p' |
        sed -n "$((group + 1))p")
    at=$(($(place root.img 'Inode Table' $((group + 1))) + (number - first) * 256 + 112))
    printf '\377\340\365\005\0\0\0\0' | dd of=root.img bs=1 seek=$at conv=notrunc status=none
    exits 1 ffs cp -a root.img:/. out
    diff -rq --no-dereference rootfs out >differ || true
    is 1 "$(wc -l <differ)"
    [[ $(cat differ) = *rc.conf* ]]
    cp --sparse=always root.img work.img
    exits 16 ffs fsck -n root.img
    cmp root.img work.img
    ffs fsck -y work.img
    ffs fsck -n -f work.img
    ffs cp -a work.img:/. repaired
    is "$(stat -c %s rootfs/etc/rc.conf)" "$(stat -c %s repaired/etc/rc.conf)"
    diff -rq --no-dereference rootfs repaired >differ || true
    is 1 "$(wc -l <differ)"
}

task short_image 'rescue.md#when-a-part-of-the-image-is-missing' truncate diff
short_image() {
    tree rootfs
    ffs build -n --size 24m root.img rootfs
    cp --sparse=always root.img work.img
    truncate -s 12m work.img
    exits 1 ffs ls work.img
    truncate -s 24m work.img
    ffs fsck -y work.img
    ffs fsck -n -f work.img
    ffs cp -a work.img:/. saved
    # What is there has the right content, or is in a part that was lost.
    diff -rq --no-dereference rootfs saved >differ || true
    diff -r rootfs/etc saved/etc
}

task lost_partition_table 'rescue.md#when-the-superblock-is-lost' losetup sfdisk root bsdtar
lost_partition_table() {
    disk
    spec_tree rootfs >want
    dd if=/dev/zero of=disk.raw bs=1M count=1 conv=notrunc status=none
    truncate -s 18m disk.raw # without the copy of the table
    exits 1 ffs ls disk.raw@1
    device=$(losetup -r -f --show -o $((1 << 20)) disk.raw)
    code=0
    spec_image "$device" >got || code=$?
    losetup -d "$device"
    is 0 "$code"
    same want got
}
