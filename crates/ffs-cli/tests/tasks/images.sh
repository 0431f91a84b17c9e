# Tasks of docs/guide/images.md: making images, archives, what a copy keeps.
# shellcheck shell=bash disable=SC2154

task build_of_a_tree 'images.md#make-an-image-of-a-tree' bsdtar
build_of_a_tree() {
    tree rootfs
    ffs build root.img rootfs/
    spec_tree rootfs >want
    spec_image root.img >got
    same want got
    exits 1 ffs build root.img rootfs/
    ffs build --force --owner 0:0 root.img rootfs/
    spec_tree rootfs --uid 0 --gid 0 >want
    spec_image root.img >got
    same want got
    ffs fsck -n -f root.img
}

task build_to_a_size 'images.md#the-size' fsstat python3
build_to_a_size() {
    tree rootfs
    ffs build --size 12m -m 0 fixed.img rootfs
    is $((12 << 20)) "$(stat -c %s fixed.img)"
    is 'Fragment Range: 0 - 3071' "$(fsstat fixed.img | grep '^Fragment Range')"
    ffs build --free 8m free.img rootfs
    # Without a reserve, what fsstat counts as free is what users have.
    ffs build -m 0 --free 8m bare.img rootfs
    fsstat bare.img | awk '/^Num of Avail Full Blocks/ { b = $6 }
        /^Num of Avail Fragments/ { print (b * 8 + $5) * 4096 }' >want
    ffs df --json bare.img | rows 'f["available"]' >got
    same want got
    is True "$(ffs df --json free.img | rows 'f["available"] >= 8 << 20')"
    exits 1 ffs build --size 1m small.img rootfs
    absent small.img
}

task build_same_bytes 'images.md#the-same-bytes-every-time' sha256sum rsync
build_same_bytes() {
    tree rootfs
    export SOURCE_DATE_EPOCH=1700000000
    ffs build --owner 0:0 root.img rootfs
    rsync -aHS rootfs/ copy
    touch copy/var/numbers # newer than that time
    touch rootfs/var/numbers
    ffs build --owner 0:0 again.img copy
    ffs build --owner 0:0 third.img rootfs
    is "$(sum again.img)" "$(sum third.img)"
    ffs newfs -R -s 8m one.img
    ffs newfs -R -s 8m two.img
    is "$(sum one.img)" "$(sum two.img)"
}

task build_from_tar 'images.md#from-and-to-tar' tar bsdtar
build_from_tar() {
    tree rootfs
    spec_tree rootfs --uid 7 --gid 8 >want
    tar --format=posix --sort=name --owner=:7 --group=:8 -S -c -C rootfs . | ffs build a.img -
    spec_image a.img >got
    same want got
    bsdtar --format=pax --uid 7 --gid 8 -cf - -C rootfs . | ffs build --size 8m b.img -
    spec_image b.img | grep -v '/bin/tool' >got # the order of bsdtar chooses the first name
    grep -v '/bin/tool' want >most
    same most got
    is "$(sum rootfs/bin/tool)" "$(ffs cat b.img:/bin/tool2 | sum -)"
}

task build_from_compressed 'images.md#from-and-to-tar' tar xz zstd gzip bzip2
build_from_compressed() {
    tree rootfs
    tar --format=posix --sort=name -cf base.tar -C rootfs .
    ffs build plain.img base.tar
    xz -k base.tar && mv base.tar.xz base.txz
    zstd -q base.tar -o base.tar.zst
    gzip -k base.tar && mv base.tar.gz base.tgz
    bzip2 -k base.tar
    for archive in base.txz base.tar.zst base.tgz base.tar.bz2; do
        ffs build --force root.img "$archive"
        is "$(sum plain.img)" "$(sum root.img)"
    done
    ffs build --force root.img - <base.txz
    is "$(sum plain.img)" "$(sum root.img)"
}

task build_of_layers 'images.md#from-and-to-tar' tar bsdtar xz
build_of_layers() {
    tree base
    mkdir -p kernel/boot/kernel overlay/etc all
    seq 1 5000 >kernel/boot/kernel/kernel
    echo 'hostname="layer"' >overlay/etc/rc.conf
    chmod 640 overlay/etc/rc.conf
    tar --format=posix --sort=name -cJf base.txz -C base .
    bsdtar -cJf kernel.txz -C kernel .
    ffs build root.img base.txz kernel.txz overlay/
    tar -xpf base.txz -C all
    tar -xpf kernel.txz -C all
    cp -a overlay/. all
    spec_tree all >want
    spec_image root.img >got
    same want got
    mkdir -p clash/etc/rc.conf
    exits 1 ffs build clash.img base.txz clash
    absent clash.img
}

task build_by_metalog 'images.md#from-and-to-tar' bsdtar
build_by_metalog() {
    tree dest
    # bsdtar writes the specification, with owners that this user cannot give.
    spec_tree dest --uid 11 --gid 12 | sed 's/ size=.*//' |
        sed 's,^\(./bin/tool2* .*\)mode=755,\1mode=4555,' >list
    { echo '#mtree' && cat list; } >METALOG
    echo unlisted >dest/etc/unlisted
    ffs build --mtree METALOG root.img dest
    spec_image root.img | sed 's/ size=.*//' >got
    same list got
    is 2 "$(grep -c 'mode=4555' got)"
    echo './etc/absent mode=644 uid=0 gid=0 type=file' >>METALOG
    exits 1 ffs build --mtree METALOG other.img dest
}

task cp_out_by_mtree 'images.md#what-a-copy-keeps' mtree
cp_out_by_mtree() {
    tree rootfs
    mtree -c -k type,mode,uid,gid,nlink,size,time,link,sha256 -p rootfs >spec
    ffs build -n root.img rootfs
    ffs cp -a root.img:/. out
    mtree -f spec -p out
    chmod 700 out/bin/tool # mtree finds a change
    exits 2 mtree -f spec -p out
}

task tar_for_gnu_tar 'images.md#from-and-to-tar' tar
tar_for_gnu_tar() {
    tree rootfs
    ffs build -n root.img rootfs
    mkdir out etc
    ffs tar c root.img | tar -xpf - -C out
    stats rootfs >want
    stats out >got
    same want got
    diff -r --no-dereference rootfs out
    at_most 80 "$(stat -c %b out/var/sparse)" # a block of 32768 bytes, a fragment, and a map
    ffs tar cf etc.tar root.img:/etc
    tar -xpf etc.tar -C etc
    diff -r --no-dereference rootfs/etc etc
    ffs tar c root.img | ffs build -n again.img -
    is "$(ffs tar c root.img | sum -)" "$(ffs tar c again.img | sum -)"
}

task tar_for_bsdtar 'images.md#from-and-to-tar' bsdtar zstd
tar_for_bsdtar() {
    tree rootfs
    ffs build -n root.img rootfs
    mkdir out
    ffs tar c root.img | zstd -q >root.tar.zst
    bsdtar -xpf root.tar.zst -C out
    stats rootfs | grep -v '^ d' >want # bsdtar does not set the time of the target itself
    stats out | grep -v '^ d' >got
    same want got
    diff -r --no-dereference rootfs out
    (cd rootfs && find . ! -name . | LC_ALL=C sort) >want
    ffs tar c root.img | bsdtar -tf - | sed -e 's,/$,,' -e '/^\.$/d' | LC_ALL=C sort >got
    same want got
}

task tar_for_cpio 'images.md#from-and-to-tar' cpio bsdtar
tar_for_cpio() {
    tree rootfs
    rm rootfs/bin/tool2 # bsdtar loses the second name when it converts pax to newc
    ffs build -n root.img rootfs
    mkdir out
    ffs tar c root.img | bsdtar -cf - --format=newc @- | (cd out && cpio -idm --quiet)
    diff -r --no-dereference rootfs out
    is "$(stat -c '%a %Y' rootfs/etc/rc.conf)" "$(stat -c '%a %Y' out/etc/rc.conf)"
}

task tar_into_an_image 'images.md#from-and-to-tar' tar bsdtar
tar_into_an_image() {
    tree rootfs
    ffs newfs -n -s 16m root.img
    tar --format=posix --sort=name -czf base.tgz -C rootfs .
    ffs mkdir root.img:/usr
    ffs tar x -f base.tgz root.img:/usr
    spec_tree rootfs >want
    spec_image root.img:/usr >got
    same want got
    echo 'hostname="new"' >rootfs/etc/rc.conf
    bsdtar -cf - -C rootfs etc | ffs tar x root.img:/usr
    is 'hostname="new"' "$(ffs cat root.img:/usr/etc/rc.conf)"
    echo 'hostname="old"' >rootfs/etc/rc.conf
    bsdtar -cf - -C rootfs etc | ffs tar x -k root.img:/usr
    is 'hostname="new"' "$(ffs cat root.img:/usr/etc/rc.conf)"
    ffs newfs -n -O 1 -s 16m old.img
    ffs tar c root.img:/usr | ffs tar x old.img:/
    spec_image root.img:/usr >want
    spec_image old.img >got
    same want got
    head -c 300 base.tgz >short.tgz
    exits 1 ffs tar x -f short.tgz root.img:/usr
    ffs fsck -n -f root.img
}

task tar_with_hostile_names 'images.md#from-and-to-tar' python3 fls
tar_with_hostile_names() {
    python3 - "$PWD" <<'PYTHON'
import io, sys, tarfile
def archive(name, *members):
    with tarfile.open(name, "w") as tar:
        for member, target in members:
            info = tarfile.TarInfo(member)
            if target:
                info.type, info.linkname = tarfile.SYMTYPE, target
                tar.addfile(info)
            else:
                info.size = 4
                tar.addfile(info, io.BytesIO(b"evil"))
archive("up.tar", ("../up", None))
archive("abs.tar", (sys.argv[1] + "/abs", None))
archive("link.tar", ("link", ".."), ("link/through", None))
PYTHON
    ffs newfs -n -s 4m root.img
    ffs mkdir root.img:/in
    exits 1 ffs tar x -f up.tar root.img:/in
    ffs tar x -f abs.tar root.img:/in
    code=0
    ffs tar x -f link.tar root.img:/in || code=$?
    at_most 1 $code
    # Nothing of it is outside /in of the image, and nothing is on the host.
    is in "$(fls root.img | sed -n 's/^d\/d [0-9]*:\t//p;/r\/r/p;/l\/l/p')"
    absent abs up ../up through ../through
    is evil "$(ffs cat "root.img:/in$PWD/abs")"
    mkdir host
    ffs cp -a root.img:/in host
    absent abs through ../through
    exits 1 ffs build up.img up.tar
    absent up.img
}

task cp_like_rsync 'images.md#what-a-copy-keeps' rsync
cp_like_rsync() {
    tree rootfs
    ffs newfs -n -s 16m root.img
    ffs cp -a rootfs/. root.img:/
    ffs cp -a root.img:/. out
    # rsync would change nothing.
    rsync -aHnci --delete rootfs/ out >changes
    is 0 "$(wc -l <changes)"
    echo more >>out/etc/rc.conf
    rsync -aHnci --delete rootfs/ out >changes
    is 1 "$(wc -l <changes)"
    ffs newfs -n -O 1 --endian big -s 16m other.img
    ffs cp -a root.img:/. other.img:/
    ffs cp -a other.img:/. out2
    rsync -aHnci --delete rootfs/ out2 >changes
    is 0 "$(wc -l <changes)"
}

task cp_like_cp 'images.md#what-a-copy-keeps' cp stat
cp_like_cp() {
    mkdir host
    echo old >host/file
    chmod 640 host/file
    ln host/file host/name
    ffs newfs -s 4m root.img
    ffs cp -a host/. root.img:/
    echo 'new content' >source
    chmod 755 source
    touch -d '2020-01-01' source
    # The same steps here and in the image: an existing file keeps mode and names, a new one not.
    cp source host/file && cp source host/fresh && cp -p source host/kept
    for name in file fresh; do ffs cp source "root.img:/$name"; done
    ffs cp -p source root.img:/kept
    ffs cp -a root.img:/. out
    for name in file name fresh kept; do
        is "$(stat -c '%a %h %s' "host/$name")" "$(stat -c '%a %h %s' "out/$name")"
        cmp "host/$name" "out/$name"
    done
    is "$(stat -c %y host/kept)" "$(stat -c %y out/kept)"
    cp source third && ffs cp --atomic source root.img:/name
    cmp third <(ffs cat root.img:/name)
    echo kept >host/file && ffs cp -n host/file root.img:/file
    cmp source <(ffs cat root.img:/file)
}

task cp_of_holes 'images.md#what-a-copy-keeps' istat qemu-img python3
cp_of_holes() {
    truncate -s 20m sparse
    printf 'one' | dd of=sparse bs=1 seek=5000000 conv=notrunc status=none
    printf 'two' | dd of=sparse bs=1 seek=17000000 conv=notrunc status=none
    ffs newfs -s 16m root.img # smaller than the file
    ffs cp -a sparse root.img:/sparse
    ffs cp -a root.img:/sparse out
    cmp sparse out
    # The two pieces, and the end, which BSD allocates: each a block of 32768 bytes.
    # shellcheck disable=SC2094
    qemu-img map --output=json -f raw out >map
    printf '%s\n' '(4980736, 32768)' '(16973824, 32768)' '(20938752, 32768)' >want
    rows '(f["start"], f["length"]) * f["data"]' <map | grep -v '()' >got
    same want got
    is 'size: 20971520' "$(istat root.img "$(ffs stat --json root.img:/sparse |
        rows 'f["inode"]')" | grep '^size')"
}

task attributes_kept 'images.md#what-a-copy-keeps' setfattr getfattr tar
attributes_kept() {
    tree rootfs
    rm rootfs/dangling # getfattr fails at it
    setfattr -n user.origin -v 4.4BSD rootfs/etc/rc.conf
    setfattr -n user.binary -v 0x00ff10 rootfs/var
    dump_of() { (cd "$1" && getfattr -P -R -d -m '^user\.' -e hex . | sed '/^$/d'); }
    dump_of rootfs >want
    ffs build root.img rootfs
    ffs cp -a root.img:/. out
    dump_of out >got
    same want got
    tar --xattrs --format=posix -c -C rootfs . | ffs build two.img -
    ffs cp -a two.img:/. out2
    dump_of out2 >got
    same want got
    mkdir out3
    ffs tar c two.img | tar --xattrs -xpf - -C out3
    dump_of out3 >got
    same want got
    is 4.4BSD "$(ffs xattr get user.origin root.img:/etc/rc.conf)"
}

task access_lists_kept 'images.md#make-an-image-of-a-tree' setfacl getfacl
access_lists_kept() {
    tree rootfs
    setfacl -m u:1001:rw,g:1002:r rootfs/etc/rc.conf
    setfacl -m d:u:1001:rwx rootfs/var
    lists rootfs >want
    ffs build -n --acls root.img rootfs
    ffs cp -a root.img:/. out
    lists out >got
    same want got
    getfacl -n --omit-header rootfs/etc/rc.conf | sed '/^$/d' | LC_ALL=C sort >want
    ffs getfacl root.img:/etc/rc.conf | sed -e '/^#/d' -e '/^$/d' | LC_ALL=C sort >got
    same want got
    # Without --acls the mode allows the group no more than the list did: 644, and not 664.
    ffs build -n plain.img rootfs
    ffs cp -a plain.img:/etc/rc.conf bare
    is 644 "$(stat -c %a bare)"
}

task ci_job 'images.md#a-ci-job' python3
ci_job() {
    tree rootfs
    cat >job.sh <<'JOB'
set -eu
export SOURCE_DATE_EPOCH=1700000000
"$FFS" build --owner 0:0 -n --free 4m root.img rootfs
"$FFS" fsck -n -f root.img
"$FFS" ls -R --json root.img > contents.json
sha256sum root.img > sum
JOB
    FFS=$FFS sh job.sh
    sha256sum -c --status sum
    rows 'f["path"]["name"]' <contents.json | LC_ALL=C sort >got
    (cd rootfs && find . ! -name . -printf '/%P\n' | LC_ALL=C sort) >want
    same want got
}
