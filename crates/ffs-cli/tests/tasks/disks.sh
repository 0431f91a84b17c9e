# Tasks of docs/guide/images.md: volumes, their settings, partitions, other formats.
# shellcheck shell=bash disable=SC2154

task new_volume_by_blkid 'images.md#empty-volumes' blkid fsstat
new_volume_by_blkid() {
    for options in '' '-O 1' '-O 1 --endian big' '--endian big -b 16384 -f 2048'; do
        # shellcheck disable=SC2086
        ffs newfs -U -L data $options -s 16m data.img
        is ufs "$(blkid -p -o value -s TYPE data.img)"
        want=2
        [[ $options != *-O* ]] || want=1
        is "File System Type: UFS $want" "$(fsstat data.img | grep '^File System Type')"
        ffs fsck -n -f data.img
        rm data.img
    done
    ffs newfs -L data -s 16m data.img
    is data "$(blkid -p -o value -s LABEL data.img)"
    ffs tunefs -L other data.img
    is other "$(blkid -p -o value -s LABEL data.img)"
    is 'Volume Name: other' "$(fsstat data.img | grep '^Volume Name')"
}

task geometry_by_fsstat 'images.md#other-formats' fsstat python3
geometry_by_fsstat() {
    tree rootfs
    for options in '-O 2' '-O 1' '-O 1 --endian big -b 16384 -f 2048' '-b 65536 -f 8192'; do
        # shellcheck disable=SC2086
        ffs build --force $options root.img rootfs
        ffs df --json root.img | rows 'f["block_size"], f["fragment_size"], f["inodes_free"]' >want
        fsstat root.img | awk '/^Block Size/ { b = $3 } /^Fragment Size/ { f = $3 }
            /^Num of Avail Inodes/ { i = $5 } END { printf "(%d, %d, %d)\n", b, f, i }' >got
        same want got
        # The directories: those of the tree, with .snap.
        is "$(($(find rootfs -type d | wc -l) + 1))" \
            "$(fsstat root.img | awk '/^Num of Directories/ { print $4 }')"
    done
}

task copies_of_the_superblock 'rescue.md#when-the-superblock-is-lost' od
copies_of_the_superblock() {
    sectors() { sed '1,/super-block/d' | grep -o '[0-9]*'; }
    ffs newfs -s 64m home.img | sectors >places
    ffs newfs -N -s 64m nothing.img | sectors >planned
    absent nothing.img
    same places planned
    at_most "$(wc -l <places)" 4
    while read -r sector; do # the magic number of UFS2, at byte 1372
        is 19540119 "$(od -An -tx4 -j $((sector * 512 + 1372)) -N 4 home.img | tr -d ' ')"
        ffs dumpfs -s -b "$sector" home.img >/dev/null
    done <places
    exits 1 ffs dumpfs -s -b 100 home.img
}

task names_of_bsd 'README.md#get-the-command' fsstat
names_of_bsd() {
    for name in newfs fsck_ffs tunefs growfs dumpfs; do ln -s "$FFS" $name; done
    truncate -s 16m data.img
    ./newfs -U -L bsd data.img
    ./fsck_ffs -n data.img
    ./tunefs -L again data.img
    truncate -s 24m data.img
    ./growfs -y data.img
    ./dumpfs data.img >/dev/null
    is 'Volume Name: again' "$(fsstat data.img | grep '^Volume Name')"
    is 'Fragment Range: 0 - 6143' "$(fsstat data.img | grep '^Fragment Range')"
}

task grow_an_image 'images.md#enlarge-a-volume-change-its-settings' fsstat bsdtar
grow_an_image() {
    tree rootfs
    ffs build -n root.img rootfs
    spec_image root.img >want
    ffs growfs -N -s 24m root.img
    at_most $((23 << 20)) "$(stat -c %s root.img)"
    ffs growfs -s 24m root.img
    is $((24 << 20)) "$(stat -c %s root.img)"
    is 'Fragment Range: 0 - 6143' "$(fsstat root.img | grep '^Fragment Range')"
    ffs fsck -n -f root.img
    spec_image root.img >got
    same want got
    seq 1 1000000 >numbers
    ffs cp numbers root.img:/numbers
    cmp numbers <(ffs cat root.img:/numbers)
}

task gpt_partition 'images.md#disk-images-with-partitions' sgdisk sfdisk fls
gpt_partition() {
    tree rootfs
    truncate -s 40m disk.img
    echo 'size=32M, type=516E7CB6-6ECF-11D6-8FF8-00022D09712B, name=root' |
        sfdisk -q -X gpt disk.img
    ffs build -n --into --fill --owner 0:0 disk.img@1 rootfs
    sound_gpt disk.img
    is A503 "$(sgdisk -p disk.img | awk '$1 == 1 { print $6 }')"
    first=$(sgdisk -i 1 disk.img | awk '/^First sector/ { print $3 }')
    (cd rootfs && find . ! -name . -printf '%P\n' | LC_ALL=C sort) >want
    fls_names -o "$first" disk.img | sed 's/^[0-9]* //' | LC_ALL=C sort >got
    same want got
    # The partition by itself is the same volume.
    dd if=disk.img of=part.img bs=512 skip="$first" count=65536 status=none
    is "$(ffs tar c disk.img | sum -)" "$(ffs tar c part.img | sum -)"
    ffs fsck -n -f disk.img
    exits 1 ffs newfs disk.img@0 --nonsense
    exits 1 ffs newfs disk.img@7
    sound_gpt disk.img
}

task read_by_a_boot_loader 'images.md#disk-images-with-partitions' grub-fstest sgdisk
read_by_a_boot_loader() {
    tree rootfs
    local type=516E7CB6-6ECF-11D6-8FF8-00022D09712B shape file
    truncate -s 40m disk.raw
    sgdisk -n "1:2048:+1M" -n "2:0:0" -t "2:$type" disk.raw >/dev/null
    # GRUB has a driver for each format. It loses the last byte of a symbolic link, also in volumes
    # that BSD wrote, so that only files are compared.
    for shape in '-O 1 -b 8192 -f 1024' '-O 2' '-O 2 -b 65536 -f 8192'; do
        # shellcheck disable=SC2086
        ffs build -n --into --fill --force $shape disk.raw@2 rootfs
        for file in etc/rc.conf etc/empty var/numbers var/large var/sparse bin/tool2; do
            grub-fstest disk.raw cmp "(loop0,gpt2)/$file" "rootfs/$file"
        done
        exits 1 grub-fstest disk.raw cmp '(loop0,gpt2)/bin/tool' rootfs/etc/rc.conf
    done
}

task gpt_partition_grows 'images.md#enlarge-a-volume-change-its-settings' sgdisk fsstat
gpt_partition_grows() {
    tree rootfs
    truncate -s 24m disk.img
    sgdisk -n 1:2048:+12M -t 1:a503 disk.img
    ffs build --into --fill disk.img@1 rootfs
    ffs cat disk.img@1:/var/large | sum - >want
    truncate -s 40m disk.img
    sgdisk -e -d 1 -n 1:2048:+32M -t 1:a503 disk.img
    ffs growfs disk.img@1
    is 'Fragment Range: 0 - 8191' "$(fsstat -o 2048 disk.img | grep '^Fragment Range')"
    sound_gpt disk.img
    ffs fsck -n -f disk.img@1
    ffs cat disk.img@1:/var/large | sum - >got
    same want got
}

task mbr_partition 'mounting.md#partitions' sfdisk mmls fls
mbr_partition() {
    tree rootfs
    truncate -s 24m disk.img
    printf '2048,8192,0x83\n10240,32768,0xa5,*\n' | sfdisk -q -X dos disk.img
    sfdisk -d disk.img >before
    ffs build -n --into --fill disk.img@2 rootfs
    sfdisk -d disk.img >after
    same before after
    mmls disk.img | grep '0000010240.*0000032768.*0xa5' >/dev/null
    (cd rootfs && find . ! -name . -printf '%P\n' | LC_ALL=C sort) >want
    fls_names -o 10240 disk.img | sed 's/^[0-9]* //' | LC_ALL=C sort >got
    same want got
    ffs cat disk.img:/var/numbers | cmp - rootfs/var/numbers
}

task two_partitions 'rescue.md#2-look-at-it' sgdisk icat python3
two_partitions() {
    truncate -s 32m disk.img
    sgdisk -n 1:2048:+64K -t 1:a501 -n 2:4096:+10M -t 2:a503 -c 2:root \
        -n 3:28672:+10M -t 3:a503 -c 3:home disk.img
    for n in 2 3; do
        ffs newfs -n "disk.img@$n"
        echo "partition $n" | ffs cp /dev/stdin "disk.img@$n:/name"
    done
    exits 1 ffs ls disk.img
    exits 1 ffs ls disk.img@9
    is 'partition 2' "$(icat -o 4096 disk.img "$(inode disk.img@2:/name)")"
    is 'partition 3' "$(icat -o 28672 disk.img "$(inode disk.img@p3:/name)")"
    ffs cp -a disk.img@2:/. disk.img@3:/copy
    is 'partition 2' "$(icat -o 28672 disk.img "$(inode disk.img@3:/copy/name)")"
    ffs fsck -n -f disk.img@2 disk.img@3
    sound_gpt disk.img
}

task fat_beside_ufs 'images.md#disk-images-with-partitions' sgdisk mkfs.fat fsck.fat mcopy mtype
fat_beside_ufs() {
    tree rootfs
    seq 1 100000 >loader.efi
    truncate -s 24m disk.img
    sgdisk -n 1:2048:+4M -t 1:ef00 -n 2:10240:+12M -t 2:a503 disk.img
    mkfs.fat --offset 2048 disk.img 4096 >/dev/null 2>&1
    mcopy -i disk.img@@1M loader.efi ::/LOADER.EFI
    dd if=disk.img of=fat bs=1M skip=1 count=4 status=none
    ffs build --into --fill disk.img@2 rootfs
    ffs rm -r disk.img:/var
    dd if=disk.img of=fat.after bs=1M skip=1 count=4 status=none
    cmp fat fat.after
    fsck.fat -n fat.after >/dev/null
    mtype -i disk.img@@1M ::/LOADER.EFI | cmp - loader.efi
    exits 1 ffs ls disk.img@1
    exits 3 ffs fsck -n disk.img@1
    cmp fat fat.after
}

task convert_formats 'faq.md#space' bsdtar fsstat
convert_formats() {
    tree rootfs
    ffs build -n -O 1 --endian big -b 16384 -f 2048 old.img rootfs
    is 'File System Type: UFS 1' "$(fsstat old.img | grep '^File System Type')"
    ffs newfs -n -s 24m new.img
    ffs cp -a old.img:/. new.img:/
    spec_tree rootfs | sed 's/\(time=[0-9]*\)\.[0-9]*/\1/' >want
    spec_image new.img | sed 's/\(time=[0-9]*\)\.[0-9]*/\1/' >got
    same want got
    ffs fsck -n -f old.img new.img
}

task erase_free_space 'faq.md#space' grep du
erase_free_space() {
    ffs newfs -s 24m z.img
    for _ in {1..1000}; do printf '%8192s' 'a secret sentence'; done >secret
    ffs cp secret z.img:/secret
    ffs rm z.img:/secret
    grep -q 'a secret sentence' z.img
    before=$(du -k z.img | awk '{ print $1 }')
    ffs fsck -Z -E -y z.img
    exits 1 grep -q 'a secret sentence' z.img
    at_most $((before / 4)) "$(du -k z.img | awk '{ print $1 }')"
    ffs fsck -n -f z.img
}
