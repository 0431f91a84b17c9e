# Tasks of docs/guide/backup.md and snapshots.md: dumps, snapshots.
# shellcheck shell=bash disable=SC2154

task dump_for_linux 'backup.md#dumps-from-other-systems' restore root
dump_for_linux() {
    tree rootfs
    find rootfs -exec touch -h -d '2023-11-14 22:13:20' {} + # it takes nanoseconds for microseconds
    ffs build -n root.img rootfs
    ffs dump -0 -f root.dump root.img
    restore -t -f root.dump | sed -n 's/^ *[0-9]*\t//p' | LC_ALL=C sort >list
    (cd rootfs && find . | LC_ALL=C sort) >want
    same want list
    mkdir out
    (cd out && restore -r -f ../root.dump && rm restoresymtable)
    diff -r --no-dereference rootfs out
    stats rootfs | grep -v '^ d' >want
    stats out | grep -v '^ d' >got # the root lost its file restoresymtable
    same want got
}

task dump_of_linux 'backup.md#dumps-from-other-systems' dump mke2fs losetup root
dump_of_linux() {
    tree rootfs
    truncate -s 16m ext.img
    mke2fs -q -t ext2 -d rootfs ext.img
    device=$(losetup -f --show ext.img)
    code=0
    dump -0 -q -f ext.dump "$device" || code=$?
    losetup -d "$device"
    is 0 "$code"
    mkdir out
    ffs restore -x -f ext.dump -D out
    diff -r --no-dereference -x lost+found rootfs out
    ffs newfs -n -s 16m new.img
    ffs restore -r -f ext.dump new.img:/
    ffs cp -a new.img:/. out2
    diff -r --no-dereference -x lost+found -x restoresymtable rootfs out2
    is "$(stat -c '%a %Y %h' rootfs/bin/tool)" "$(stat -c '%a %Y %h' out2/bin/tool)"
}

task dumps_of_a_week 'backup.md#rebuild-a-volume' bsdtar
dumps_of_a_week() {
    tree rootfs
    ffs build -n --free 4m home.img rootfs
    ffs dump -0u -D dates -f sunday.dump home.img
    sleep 1.1
    echo monday | ffs cp /dev/stdin home.img:/etc/rc.conf
    ffs rm -r 'home.img:/a name'
    ffs mv home.img:/var/numbers home.img:/bin/numbers
    ffs dump -1u -D dates -f monday.dump home.img
    sleep 1.1
    ffs mkdir home.img:/tuesday
    ffs dump -2u -D dates -f tuesday.dump home.img
    is 3 "$(wc -l <dates)"
    at_most $(($(stat -c %s sunday.dump) / 2)) "$(stat -c %s monday.dump)"
    ffs newfs -n -s 16m new.img
    for day in sunday monday tuesday; do ffs restore -r -f $day.dump new.img:/; done
    ffs rm new.img:/restoresymtable
    spec_image home.img | grep -v '^\. ' >want
    spec_image new.img | grep -v '^\. ' >got # the root lost its file restoresymtable
    same want got
    ffs fsck -n -f new.img
}

task dump_of_some_files 'backup.md#get-files-back' diff zstd
dump_of_some_files() {
    tree rootfs
    ffs build -n home.img rootfs
    mkdir out new
    ffs dump -f - home.img | zstd -q >home.dump.zst
    ffs restore -x -f home.dump.zst -D out etc bin/tool
    diff -r --no-dereference rootfs/etc out/etc
    cmp rootfs/bin/tool out/bin/tool
    is $'bin\netc' "$(ls out)"
    is tool "$(ls out/bin)"
    ffs restore -C -f home.dump.zst home.img:/
    ffs dump -f - home.img | ffs restore -r -f - new/
    rm -r new/restoresymtable
    diff -r --no-dereference rootfs new
    zstd -dq home.dump.zst
    truncate -s 100k home.dump
    exits 1 ffs restore -x -N -f home.dump
}

task snapshot_as_an_image 'snapshots.md#read-one' fls icat bsdtar python3
snapshot_as_an_image() {
    tree rootfs
    ffs build --free 8m disk.img rootfs
    spec_image disk.img >before
    number=$(inode disk.img:/var/large)
    ffs snapshot create disk.img:/.snap/monday
    echo changed | ffs cp /dev/stdin disk.img:/etc/rc.conf
    ffs rm disk.img:/var/large
    spec_image disk.img:/.snap/monday >after
    exits 1 cmp -s before <(spec_image disk.img)
    same before after
    ffs cp disk.img:/.snap/monday monday.img
    fls_names monday.img | grep 'var/large' >/dev/null
    icat monday.img "$number" | cmp - rootfs/var/large
    ffs fsck -n -f monday.img
    ffs fsck -n disk.img:/.snap/monday
    exits 1 ffs diff disk.img:/.snap/monday disk.img
    is monday "$(ffs snapshot list --json disk.img | rows 'f["paths"][0]["name"][7:]')"
    is 'hostname="box"' "$(ffs cat disk.img:/.snap/monday:/etc/rc.conf)"
    ffs snapshot delete disk.img:/.snap/monday
    ffs fsck -n -f disk.img
    is 0 "$(ffs ls -A disk.img:/.snap | wc -l)"
}

task snapshot_to_qemu 'images.md#block-devices-over-a-network' qemu-img diff
snapshot_to_qemu() {
    tree rootfs
    ffs build --free 8m disk.img rootfs
    ffs snapshot create disk.img:/.snap/monday
    ffs rm -r disk.img:/var
    serve "$FFS" serve nbd disk.img:/.snap/monday --unix "$PWD/monday.sock"
    await monday.sock
    qemu-img convert -O qcow2 "nbd+unix:///?socket=$PWD/monday.sock" monday.qcow2
    kill -TERM "$server"
    wait "$server"
    ffs cp -a monday.qcow2:/. out
    rm -r out/.snap
    diff -r --no-dereference rootfs out
}

task dump_of_snapshots 'snapshots.md#check-one-dump-one' restore root
dump_of_snapshots() {
    tree rootfs
    ffs build --free 8m disk.img rootfs
    ffs snapshot create disk.img:/.snap/monday
    ffs rm -r disk.img:/var
    ffs dump -0u -D dates -f monday.dump disk.img:/.snap/monday
    mkdir out
    (cd out && restore -r -f ../monday.dump && rm -r restoresymtable .snap)
    diff -r --no-dereference rootfs out
}

task journal_by_fls 'journal.md#making-a-journal' fls istat bsdtar python3
journal_by_fls() {
    tree rootfs
    ffs newfs -n -j -s 24m new.img
    ffs cp -a rootfs/. new.img:/
    is .sujournal "$(fls_names new.img | awk '$2 ~ /journal/ { print $2 }')"
    is $((4 << 20)) "$(field new.img /.sujournal size)"
    ffs fsck -n -f new.img
    ffs build -n --free 8m old.img rootfs
    ffs tunefs -j enable old.img
    is $((4 << 20)) "$(field old.img /.sujournal size)"
    ffs tunefs -j disable old.img
    ffs rm old.img:/.sujournal
    spec_tree rootfs | grep -v '^\. ' >want
    spec_image old.img | grep -v '^\. ' >got
    same want got
    ffs fsck -n -f old.img
}
