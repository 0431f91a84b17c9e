# Tasks of docs/guide/images.md: images of virtual machines, compressed images, NBD.
# shellcheck shell=bash disable=SC2154

# A disk with a GPT, and a volume with a tree in partition 1.
disk() {
    tree rootfs
    truncate -s 20m disk.raw
    echo '2048,32768,516E7CB6-6ECF-11D6-8FF8-00022D09712B' | sfdisk -q -X gpt disk.raw
    ffs build -n --into --fill disk.raw@1 rootfs
}

# machine FORMAT SUFFIX [OPTIONS]: an image by qemu-img is changed by ffs, and is right for qemu-img
machine() {
    disk
    qemu-img convert -f raw -O "$1" ${3:+-o "$3"} disk.raw "disk.$2"
    spec_tree rootfs >want
    spec_image "disk.$2" >got
    same want got
    seq 1 200000 >numbers
    ffs cp numbers "disk.$2:/numbers"
    ffs rm -r "disk.$2:/a name"
    ffs fsck -n -f "disk.$2@1"
    qemu-img check -q "disk.$2" || [ $? = 63 ] # 63: the format has no check
    qemu-img convert -f "$1" -O raw "disk.$2" back.raw
    sound_gpt back.raw
    ffs cat back.raw:/numbers | cmp - numbers
    icat -o 2048 back.raw "$(inode back.raw:/numbers)" | cmp - numbers
    is "$(ffs tar c "disk.$2" | sum -)" "$(ffs tar c back.raw | sum -)"
    exits 1 ffs ls 'back.raw:/a name'
}

task qcow2_of_a_machine 'images.md#images-of-virtual-machines' \
    qemu-img sfdisk sgdisk bsdtar icat python3
qcow2_of_a_machine() { machine qcow2 qcow2; }

task vdi_of_a_machine 'images.md#images-of-virtual-machines' \
    qemu-img sfdisk sgdisk bsdtar icat python3
vdi_of_a_machine() { machine vdi vdi; }

task vhd_of_a_machine 'images.md#images-of-virtual-machines' \
    qemu-img sfdisk sgdisk bsdtar icat python3
vhd_of_a_machine() { machine vpc vhd force_size=on; }

task vmdk_of_a_machine 'images.md#images-of-virtual-machines' \
    qemu-img qemu-nbd sfdisk sgdisk bsdtar icat python3
vmdk_of_a_machine() { machine vmdk vmdk; }

task vhdx_of_a_machine 'images.md#images-of-virtual-machines' \
    qemu-img qemu-nbd sfdisk sgdisk bsdtar icat python3
vhdx_of_a_machine() { machine vhdx vhdx; }

task qcow2_with_backing 'images.md#images-of-virtual-machines' qemu-img sfdisk
qcow2_with_backing() {
    disk
    qemu-img convert -f raw -O qcow2 -c disk.raw base.qcow2 # compressed clusters
    sum base.qcow2 >before
    qemu-img create -q -f qcow2 -F qcow2 -b base.qcow2 top.qcow2
    qemu-img create -q -f qcow2 -F qcow2 -b top.qcow2 leaf.qcow2
    echo 'hostname="leaf"' | ffs cp /dev/stdin leaf.qcow2:/etc/rc.conf
    ffs fsck -n -f leaf.qcow2
    qemu-img check -q leaf.qcow2
    qemu-img convert -O raw leaf.qcow2 leaf.raw
    is 'hostname="leaf"' "$(ffs cat leaf.raw:/etc/rc.conf)"
    is 'hostname="box"' "$(ffs cat top.qcow2:/etc/rc.conf)"
    sum base.qcow2 >after
    same before after
    qemu-img commit -q leaf.qcow2 # into top
    is 'hostname="leaf"' "$(ffs cat top.qcow2:/etc/rc.conf)"
    is "$(ffs tar c leaf.raw | sum -)" "$(ffs tar c top.qcow2 | sum -)"
    is 'hostname="box"' "$(ffs cat base.qcow2:/etc/rc.conf)"
}

task qcow2_made_and_grown 'images.md#images-of-virtual-machines' qemu-img fsstat bsdtar python3
qcow2_made_and_grown() {
    tree rootfs
    qemu-img create -q -f qcow2 new.qcow2 16m
    ffs build -n --into --fill new.qcow2 rootfs
    spec_tree rootfs >want
    spec_image new.qcow2 >got
    same want got
    ffs growfs -s 28m new.qcow2
    qemu-img check -q new.qcow2
    is $((28 << 20)) "$(qemu-img info --output=json new.qcow2 |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["virtual-size"])')"
    qemu-img convert -O raw new.qcow2 new.raw
    is 'Fragment Range: 0 - 7167' "$(fsstat new.raw | grep '^Fragment Range')"
    spec_image new.raw >got
    same want got
    qemu-img resize -q new.qcow2 36m
    ffs growfs new.qcow2
    ffs fsck -n -f new.qcow2
    qemu-img snapshot -c now new.qcow2
    ffs rm -r new.qcow2:/var
    qemu-img check -q new.qcow2
    qemu-img snapshot -a now new.qcow2
    spec_image new.qcow2 >got
    same want got
}

task streaming_vmdk 'images.md#images-of-virtual-machines' qemu-img sfdisk bsdtar
streaming_vmdk() {
    disk
    qemu-img convert -O vmdk -o subformat=streamOptimized disk.raw stream.vmdk
    spec_tree rootfs >want
    spec_image stream.vmdk >got
    same want got
    sum stream.vmdk >before
    exits 1 ffs rm stream.vmdk:/etc/rc.conf
    sum stream.vmdk >after
    same before after
}

task fixed_and_static 'images.md#images-of-virtual-machines' qemu-img sfdisk bsdtar
fixed_and_static() {
    disk
    spec_tree rootfs >want
    qemu-img convert -O vpc -o subformat=fixed disk.raw fixed.vhd
    qemu-img convert -O vdi -o static=on disk.raw static.vdi
    for image in fixed.vhd static.vdi; do
        spec_image $image >got
        same want got
        echo changed | ffs cp /dev/stdin $image:/etc/rc.conf
    done
    qemu-img convert -f vpc -O raw fixed.vhd a.raw
    qemu-img convert -f vdi -O raw static.vdi b.raw
    is changed "$(ffs cat a.raw:/etc/rc.conf)"
    is changed "$(ffs cat b.raw:/etc/rc.conf)"
    ffs fsck -n -f a.raw b.raw
}

task compressed_images 'images.md#compressed-images' xz gzip zstd bzip2 sfdisk bsdtar
compressed_images() {
    disk
    spec_tree rootfs >want
    xz -kT0 --block-size=1MiB disk.raw
    xz -kc disk.raw >one.raw.xz
    gzip -kc disk.raw >disk.raw.gz
    zstd -q disk.raw -o disk.raw.zst
    bzip2 -k disk.raw
    for image in disk.raw.xz one.raw.xz disk.raw.gz disk.raw.zst disk.raw.bz2; do
        spec_image $image >got
        same want got
        ffs cat $image:/var/large | cmp - rootfs/var/large
        sum $image >before
        exits 1 ffs rm $image:/etc/rc.conf
        sum $image >after
        same before after
    done
    ffs fsck -n -f disk.raw.xz
    head -c 20000 disk.raw.xz >short.raw.xz
    exits 1 ffs ls short.raw.xz
}

task nbdkit_file 'images.md#block-devices-over-a-network' nbdkit sfdisk bsdtar
nbdkit_file() {
    disk
    spec_tree rootfs >want
    serve nbdkit -f --exit-with-parent -U "$PWD/nbd" file disk.raw
    await nbd
    uri="nbd+unix:///?socket=$PWD/nbd"
    spec_image "$uri" >got
    same want got
    seq 1 100000 >numbers
    ffs cp numbers "$uri:/numbers"
    ffs fsck -n -f "$uri"
    kill "$server"
    wait "$server" || true
    ffs cat disk.raw:/numbers | cmp - numbers
    ffs fsck -n -f disk.raw
    exits 1 ffs ls "$uri"
}

task nbdkit_memory 'images.md#block-devices-over-a-network' nbdkit nbdcopy fsstat bsdtar
nbdkit_memory() {
    tree rootfs
    serve nbdkit -f --exit-with-parent -U "$PWD/nbd" memory 16M
    await nbd
    uri="nbd+unix:///?socket=$PWD/nbd"
    ffs newfs -n -L remote "$uri"
    ffs cp -a rootfs/. "$uri:/"
    nbdcopy "$uri" copy.img
    is 'Volume Name: remote' "$(fsstat copy.img | grep '^Volume Name')"
    ffs fsck -n -f copy.img
    spec_tree rootfs >want
    spec_image copy.img >got
    same want got
}

task nbdkit_filters 'images.md#block-devices-over-a-network' nbdkit xz sfdisk bsdtar
nbdkit_filters() {
    disk
    spec_tree rootfs >want
    xz -k --block-size=1MiB disk.raw
    # The server decompresses, and shows one partition, read-only.
    serve nbdkit -f -r --exit-with-parent -U "$PWD/nbd" --filter=partition --filter=xz \
        file disk.raw.xz partition=1
    await nbd
    uri="nbd+unix:///?socket=$PWD/nbd"
    spec_image "$uri" >got
    same want got
    exits 1 ffs rm "$uri:/etc/rc.conf"
    ffs fsck -n -f "$uri"
}

task nbdkit_with_errors 'images.md#block-devices-over-a-network' nbdkit sfdisk
nbdkit_with_errors() {
    disk
    cp disk.raw before.raw
    serve nbdkit -f --exit-with-parent -U "$PWD/nbd" --filter=error file disk.raw \
        error-pwrite=EIO error-pwrite-rate=100%
    await nbd
    exits 1 ffs cp rootfs/var/large "nbd+unix:///?socket=$PWD/nbd:/lost"
    ffs cat "nbd+unix:///?socket=$PWD/nbd:/var/large" | cmp - rootfs/var/large
    kill "$server"
    cmp before.raw disk.raw
}

task qemu_nbd 'images.md#block-devices-over-a-network' qemu-nbd qemu-img sfdisk bsdtar
qemu_nbd() {
    disk
    qemu-img convert -O qcow2 disk.raw disk.qcow2
    serve qemu-nbd -t -k "$PWD/nbd" -f qcow2 -x root disk.qcow2
    await nbd
    uri="nbd+unix:///root?socket=$PWD/nbd"
    spec_tree rootfs >want
    spec_image "$uri" >got
    same want got
    echo changed | ffs cp /dev/stdin "$uri:/etc/rc.conf"
    kill "$server"
    wait "$server" || true
    qemu-img check -q disk.qcow2
    is changed "$(ffs cat disk.qcow2:/etc/rc.conf)"
}

task serve_nbd_to_clients 'images.md#block-devices-over-a-network' \
    nbdcopy nbdinfo qemu-img sfdisk
serve_nbd_to_clients() {
    disk
    qemu-img convert -O qcow2 disk.raw disk.qcow2
    serve "$FFS" serve nbd disk.qcow2@1 --unix "$PWD/nbd"
    await nbd
    uri="nbd+unix:///?socket=$PWD/nbd"
    is $((16 << 20)) "$(nbdinfo --size "$uri")"
    nbdinfo --is read-only "$uri"
    dd if=disk.raw of=part.raw bs=1M skip=1 count=16 status=none
    nbdcopy "$uri" copy.raw
    cmp part.raw copy.raw
    qemu-img convert -O raw "$uri" copy2.raw
    cmp part.raw copy2.raw
    ffs cat "$uri:/var/large" | cmp - rootfs/var/large
    exits 1 ffs rm disk.qcow2:/etc/rc.conf # in use
    kill -TERM "$server"
    wait "$server"
    ffs rm disk.qcow2:/etc/rc.conf
}

task serve_nbd_to_a_writer 'images.md#block-devices-over-a-network' \
    qemu-io nbdcopy nbdinfo sfdisk sgdisk od
serve_nbd_to_a_writer() {
    disk
    serve "$FFS" serve nbd disk.raw@0 --write --unix "$PWD/nbd"
    await nbd
    uri="nbd+unix:///?socket=$PWD/nbd"
    exits 2 nbdinfo --is read-only "$uri"
    qemu-io -f raw -c 'write -P 0x5a 18m 64k' -c flush "$uri"
    qemu-io -f raw -c 'read -P 0x5a 18m 64k' "$uri"
    kill -TERM "$server"
    wait "$server"
    is 5a5a5a5a "$(od -An -tx4 -j $((18 << 20)) -N 4 disk.raw | tr -d ' ')"
    tree other
    ffs build -n --size 16m other.img other
    serve "$FFS" serve nbd disk.raw@1 --write --unix "$PWD/part"
    await part
    nbdcopy --destination-is-zero other.img "nbd+unix:///?socket=$PWD/part" ||
        nbdcopy other.img "nbd+unix:///?socket=$PWD/part"
    kill -TERM "$server"
    wait "$server"
    sound_gpt disk.raw
    dd if=disk.raw of=part.raw bs=1M skip=1 count=16 status=none
    cmp part.raw other.img
}
