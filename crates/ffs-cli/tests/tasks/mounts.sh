# Tasks of docs/guide/mounting.md and quotas.md: Linux programs on a mount.
# shellcheck shell=bash disable=SC2154

task mount_by_stat 'mounting.md#mount-and-unmount' root fuse stat
mount_by_stat() {
    tree rootfs
    ffs build -n root.img rootfs
    mounted root.img mnt ro
    stats rootfs >want
    stats mnt >got
    same want got
    diff -r --no-dereference rootfs mnt
    unmount mnt
}

task mount_by_mtree 'mounting.md#mount-and-unmount' root fuse mtree tar
mount_by_mtree() {
    tree rootfs
    ffs newfs -n -U -s 24m root.img
    mounted root.img mnt
    tar --format=posix -cf - -C rootfs . | tar -xpf - -C mnt
    keys=type,mode,uid,gid,nlink,size,time,link,sha256
    mtree -c -k $keys -p rootfs >spec
    mtree -f spec -p mnt
    unmount mnt
    ffs fsck -n -f root.img
    ffs cp -a root.img:/. out
    mtree -f spec -p out
}

task mount_with_rsync 'mounting.md#what-linux-programs-can-do' root fuse rsync bsdtar
mount_with_rsync() {
    tree rootfs
    ffs newfs -n -O 1 -s 24m root.img
    mounted root.img mnt async
    find rootfs -exec touch -h -d '2023-11-14 22:13:20' {} +
    rsync -aHS rootfs/ mnt
    echo more >>rootfs/etc/rc.conf
    rm rootfs/var/large
    rsync -aHS --delete rootfs/ mnt
    rsync -aHS --modify-window=-1 rootfs/ mnt # times of directories in which it removed
    unmount mnt
    spec_tree rootfs | grep -v '^\./bin/tool' >want
    spec_image root.img | grep -v '^\./bin/tool' >got
    same want got
    ffs fsck -n -f root.img
}

task mount_read_only 'mounting.md#when-a-volume-is-mounted-read-only' root fuse sha256sum
mount_read_only() {
    tree rootfs
    ffs build root.img rootfs
    sum root.img >before
    mounted root.img mnt ro
    find mnt -type f -exec cat {} + >/dev/null
    exits 1 touch mnt/new
    exits 1 rm mnt/etc/rc.conf
    ffs cat root.img:/etc/rc.conf | cmp - rootfs/etc/rc.conf # a second reader
    exits 1 ffs rm root.img:/etc/rc.conf
    unmount mnt
    sum root.img >after
    same before after
}

task mount_for_another_user 'mounting.md#users-and-permissions' root fuse setpriv stat
mount_for_another_user() {
    tree rootfs
    ffs build -n --free 4m --owner 1001:1002 root.img rootfs
    mounted root.img mnt uid=4321,gid=4322,umask=027
    is '4321 4322 750' "$(stat -c '%u %g %a' mnt/etc/rc.conf)"
    is '4321 4322 750' "$(stat -c '%u %g %a' mnt/etc)"
    setpriv --reuid 4321 --regid 4322 --clear-groups sh -c 'echo mine >mnt/etc/new'
    exits 1 setpriv --reuid 4323 --regid 4323 --clear-groups touch mnt/etc/other
    unmount mnt
    ffs cp -a root.img:/etc out
    is '1001 1002' "$(stat -c '%u %g' out/new)"
    mounted root.img mnt idmap=u:1001:4321:1,idmap=g:1002:4322:1
    is '4321 4322 644' "$(stat -c '%u %g %a' mnt/etc/rc.conf)"
    setpriv --reuid 4321 --regid 4322 --clear-groups sh -c 'echo mine >mnt/etc/mapped'
    unmount mnt
    is '1001 1002' "$(ffs ls -l root.img:/etc/mapped | awk '{ print $3, $4 }')"
    ffs fsck -n -f root.img
}

task mount_as_a_user 'mounting.md#users-and-permissions' root fuse setpriv fusermount3 stat
mount_as_a_user() {
    # fusermount3 wants a user with a name.
    as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
    as_user sh -c ': <>/dev/fuse' 2>/dev/null || skip 'other users may not open /dev/fuse'
    tree rootfs
    ffs build -n --free 4m --owner 0:0 root.img rootfs
    mkdir mnt
    chown 65534:65534 root.img mnt .
    mounts+=("$PWD/mnt")
    as_user "$FFS" mount -o fakeroot root.img mnt
    as_user sh -c 'echo "hostname=fake" >>mnt/etc/rc.conf; chown 80:80 mnt/bin/tool'
    as_user "$FFS" umount mnt
    is '80 80' "$(ffs ls -l root.img:/bin/tool | awk '{ print $3, $4 }')"
    is hostname=fake "$(ffs cat root.img:/etc/rc.conf | sed -n 2p)"
    ffs fsck -n -f root.img
}

task mount_with_access_lists 'mounting.md#what-linux-programs-can-do' \
    root fuse setfacl getfacl setfattr getfattr
mount_with_access_lists() {
    tree rootfs
    ffs build -n --free 4m root.img rootfs
    ffs tunefs -a enable root.img
    mounted root.img mnt
    setfacl -m u:1001:rw,g:1002:r mnt/etc/rc.conf
    setfacl -m d:u:1001:rwx mnt/var
    setfattr -n user.origin -v 4.4BSD mnt/etc/rc.conf
    lists mnt >want
    unmount mnt
    ffs cp -a root.img:/. out
    lists out >got
    same want got
    is 4.4BSD "$(ffs xattr get user.origin root.img:/etc/rc.conf)"
    ffs setfacl -x u:1001 root.img:/etc/rc.conf
    ffs xattr set user.more value root.img:/etc/rc.conf
    mounted root.img mnt ro
    [[ $(getfacl -n mnt/etc/rc.conf) != *user:1001* ]]
    is value "$(getfattr --only-values -n user.more mnt/etc/rc.conf)"
    unmount mnt
}

task mount_with_flags 'mounting.md#users-and-permissions' root fuse chattr lsattr
mount_with_flags() {
    tree rootfs
    ffs build -n --free 4m root.img rootfs
    ffs chflags uchg root.img:/etc/rc.conf
    mounted root.img mnt
    exits 1 rm mnt/etc/rc.conf
    exits 1 cp rootfs/var/numbers mnt/etc/rc.conf
    chattr +i mnt/var/numbers
    chattr +d mnt/var/large
    [[ $(lsattr mnt/var/numbers) = *i* ]]
    unmount mnt
    is schg "$(ffs ls -lo root.img:/var/numbers | awk '{ print $5 }')"
    is nodump "$(ffs ls -lo root.img:/var/large | awk '{ print $5 }')"
    exits 1 ffs rm root.img:/etc/rc.conf
    ffs chflags nouchg root.img:/etc/rc.conf
    ffs rm root.img:/etc/rc.conf
}

task usage_by_du 'images.md#change-an-image' root fuse du df find python3
usage_by_du() {
    tree rootfs
    ffs build -n --free 4m root.img rootfs
    ffs du -a root.img | grep -v tool | LC_ALL=C sort >got # two names, which count once
    ffs df --json root.img | rows 'tuple(f[n] // 1024 for n in ["bytes", "used", "available"])' \
        >size
    ffs find root.img -ls | awk '{ print $1, $4, $7 }' >rows
    mounted root.img mnt ro
    (cd mnt && du -a -B512 .) | grep -v tool | sed 's,\t\.$,\t/,;s,\t\./,\t/,' |
        LC_ALL=C sort >want
    same want got
    df -k --output=size,used,avail mnt | awk 'NR == 2 { printf "(%d, %d, %d)\n", $1, $2, $3 }' >want
    same want size
    (cd mnt && find . -printf '%i %n %s\n') | LC_ALL=C sort >want
    LC_ALL=C sort rows >got
    same want got
    unmount mnt
}

task two_mounts_of_a_disk 'mounting.md#partitions' root fuse sgdisk
two_mounts_of_a_disk() {
    truncate -s 32m disk.img
    sgdisk -n 2:4096:+10M -t 2:a503 -n 3:28672:+10M -t 3:a503 disk.img
    ffs newfs -U disk.img@2
    ffs newfs -U disk.img@3
    mounted disk.img@2 one
    exits 1 ffs mkdir disk.img@3:/new # the lock is on the whole file
    echo two >one/name
    unmount one
    mounted disk.img@3 two
    echo three >two/name
    unmount two
    is two "$(ffs cat disk.img@2:/name)"
    is three "$(ffs cat disk.img@3:/name)"
    ffs fsck -n -f disk.img@2 disk.img@3
    sound_gpt disk.img
}

task mount_all_of_a_disk 'mounting.md#partitions' root fuse sgdisk fls
mount_all_of_a_disk() {
    truncate -s 48m disk.img
    sgdisk -n 1:2048:+10M -t 1:8300 -n 2:24576:+10M -t 2:a503 -c 2:root \
        -n 3:49152:+10M -t 3:a503 -c 3:home disk.img
    ffs newfs -U disk.img@2
    ffs newfs -U disk.img@3
    mkdir mnt
    mounts+=("$PWD/mnt/root" "$PWD/mnt/home")
    ffs mount --all disk.img mnt
    exits 1 ffs ls disk.img@2:/ # each server has the lock
    for name in root home; do
        mountpoint -q mnt/$name
        seq 1 100000 >mnt/$name/numbers
        mkdir mnt/$name/$name
    done
    unmount mnt/root
    exits 1 ffs ls disk.img@2:/ # the other one, too
    unmount mnt/home
    for part in 2:root 3:home; do
        is "$(seq 1 100000 | cksum)" "$(ffs cat "disk.img@${part%:*}:/numbers" | cksum)"
        ffs ls "disk.img@${part%:*}" | grep -x "${part#*:}"
    done
    ffs fsck -n -f disk.img@2 disk.img@3
    sound_gpt disk.img
    fls -o 24576 disk.img | grep numbers >/dev/null
    # Read-only, they share the lock with other readers. A qcow2 image is for readers.
    ffs mount --all -o ro disk.img mnt
    ffs cat disk.img@3:/numbers | cmp - mnt/home/numbers
    unmount mnt/root
    unmount mnt/home
}

task mount_of_a_qcow2 'images.md#images-of-virtual-machines' root fuse qemu-img sfdisk sgdisk
mount_of_a_qcow2() {
    disk
    qemu-img convert -O qcow2 disk.raw disk.qcow2
    mounted disk.qcow2 mnt
    seq 1 200000 >mnt/numbers
    rm -r mnt/var
    unmount mnt
    qemu-img check -q disk.qcow2
    qemu-img convert -O raw disk.qcow2 back.raw
    ffs cat back.raw:/numbers | cmp - <(seq 1 200000)
    ffs fsck -n -f back.raw
    sound_gpt back.raw
}

task quota_on_a_mount 'quotas.md#first-steps' root fuse setpriv du
quota_on_a_mount() {
    ffs newfs -U -s 24m home.img
    ffs mkdir -m 1777 home.img:/home
    ffs quotacheck -u home.img
    ffs edquota -e home.img:500k:1m:0:10 4321
    mounted home.img mnt quota
    as_user() { setpriv --reuid 4321 --regid 4321 --clear-groups "$@"; }
    as_user dd if=/dev/zero of=mnt/home/small bs=1k count=100 status=none
    exits 1 as_user dd if=/dev/zero of=mnt/home/large bs=1k count=2000 status=none
    sync mnt/home/large
    want=$(du -ck mnt/home/small mnt/home/large | awk '/total/ { print $1 }')
    ffs repquota --json mnt >usage
    ffs repquota -n mnt | awk '$1 == 4321 { print $3 }' >got
    is "$want" "$(cat got)"
    at_most 1023 "$want"
    exits 1 ffs quota mnt 4321
    as_user touch mnt/home/{1,2,3,4,5,6,7}
    exits 1 as_user touch mnt/home/8
    dd if=/dev/zero of=mnt/home/root bs=1k count=2000 status=none
    unmount mnt
    ffs quotacheck -u home.img
    ffs cp -a home.img:/home out
    is 9 "$(find out -user 4321 | wc -l)" # usage stays below the limit of 10
    ffs fsck -n -f home.img
}

task server_killed 'checking.md#after-a-crash-preen' root fuse
server_killed() {
    tree rootfs
    ffs newfs -n -U -s 24m home.img
    mkdir mnt
    mounts+=("$PWD/mnt")
    serve "$FFS" mount -f home.img mnt
    for _ in {1..100}; do ! mountpoint -q mnt || break; sleep 0.05; done
    cp -a rootfs/. mnt
    sync mnt/etc/rc.conf # all names that were complete before it are durable
    rm mnt/var/large
    seq 1 1000 >mnt/unsynced
    kill -KILL "$server"
    wait "$server" || true
    ffs umount mnt
    ffs fsck -F home.img
    ffs fsck -p home.img
    exits 7 ffs fsck -F home.img
    ffs fsck -n -f home.img
    ffs cp -a home.img:/. out
    (cd rootfs && find . ! -name large | LC_ALL=C sort) >want
    (cd out && find . ! -name large ! -name unsynced | LC_ALL=C sort) >got
    same want got
    cmp rootfs/etc/rc.conf out/etc/rc.conf
}

task snapshot_of_a_mount 'snapshots.md#make-one' root fuse restore diff
snapshot_of_a_mount() {
    tree rootfs
    ffs build -U --free 12m home.img rootfs
    mounted home.img mnt
    ffs snapshot create mnt/.snap/monday
    rm -r mnt/var
    ffs dump -0 -L -f home.dump mnt
    ffs cp -a mnt/.snap/monday:/. before
    unmount mnt
    mounted home.img:/.snap/monday mnt
    diff -r --no-dereference -x .snap rootfs mnt
    exits 1 touch mnt/new
    unmount mnt
    diff -r --no-dereference -x .snap rootfs before
    mkdir out
    (cd out && restore -r -f ../home.dump && rm -r restoresymtable .snap)
    rm -r rootfs/var
    diff -r --no-dereference rootfs out
    ffs fsck -n -f home.img
}

task holes_on_a_mount 'mounting.md#what-linux-programs-can-do' root fuse fallocate qemu-img python3
holes_on_a_mount() {
    ffs newfs -U -s 16m home.img
    mounted home.img mnt
    head -c 1m /dev/zero | tr '\0' x >plain
    cp plain mnt/file
    fallocate -p -o 262144 -l 524288 mnt/file
    fallocate -p -o 262144 -l 524288 plain
    cmp plain mnt/file
    is "$(stat -c %b plain)" "$(($(stat -c %b mnt/file) - 64))" # and an indirect block
    qemu-img map --output=json -f raw plain | rows 'f["start"], f["length"], f["data"]' >want
    qemu-img map --output=json -f raw mnt/file | rows 'f["start"], f["length"], f["data"]' >got
    same want got
    fallocate -l 2m mnt/reserved
    at_most "$(du -k mnt/reserved | awk '{ print $1 }')" 2048
    unmount mnt
    ffs cat home.img:/file | cmp - plain
    ffs fsck -n -f home.img
}

task overlay_on_a_mount 'mounting.md#what-linux-programs-can-do' root fuse stat
overlay_on_a_mount() {
    tree lower
    ffs newfs -U -s 16m upper.img
    mounted upper.img mnt
    mkdir mnt/upper mnt/work all
    mount -t overlay overlay -o "lowerdir=lower,upperdir=mnt/upper,workdir=mnt/work" all ||
        skip 'this kernel has no overlayfs'
    mounts+=("$PWD/all")
    echo over >>all/etc/rc.conf
    rm all/var/large
    is 2 "$(wc -l <all/etc/rc.conf)"
    [ ! -e all/var/large ]
    umount all
    is 'character special file' "$(stat -c %F mnt/upper/var/large)"
    unmount mnt
    is 2 "$(ffs cat upper.img:/upper/etc/rc.conf | wc -l)"
    ffs fsck -n -f upper.img
}
