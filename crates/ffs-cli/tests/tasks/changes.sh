# Tasks of docs/guide/images.md: changing, searching and comparing images without a mount.
# shellcheck shell=bash disable=SC2154

# The lines `INODE NAME` of all names that are in use, by The Sleuth Kit.
fls_names() {
    fls -rp "$@" | sed -n '/ \* /d;/OrphanFiles/d;s/^.\/. \([0-9]*\):\t/\1 /p' | LC_ALL=C sort
}

inode() { ffs stat --json "$1" | rows 'f["inode"]'; }

# field IMAGE PATH NAME: a line of istat(1) for a file
field() { istat "$1" "$(inode "$1:$2")" | sed -n "s/^$3:[ \t]*//p"; }

task ten_commands 'README.md#ten-commands-to-begin-with' fls icat python3
ten_commands() {
    echo hello >notes.txt
    ffs newfs -U -s 32m home.img
    ffs mkdir home.img:/docs
    ffs cp notes.txt home.img:/docs/
    ffs ls -l home.img:/docs >list
    is 1 "$(wc -l <list)"
    is hello "$(ffs cat home.img:/docs/notes.txt)"
    ffs cp -a home.img:/docs saved
    cmp notes.txt saved/notes.txt
    ffs df home.img
    ffs fsck -n home.img
    printf '.snap\ndocs\ndocs/notes.txt\n' >want
    fls_names home.img | sed 's/^[0-9]* //' | LC_ALL=C sort >got
    same want got
    is hello "$(icat home.img "$(inode home.img:/docs/notes.txt)")"
}

task change_an_image 'images.md#change-an-image' fls istat icat python3
change_an_image() {
    tree rootfs
    ffs build -n --owner 0:0 --free 4m root.img rootfs
    echo app >app
    mkdir -p tools/sub && echo x >tools/sub/x
    ffs cp app root.img:/app
    ffs cp -a tools root.img:/
    ffs mkdir -p -m 700 root.img:/root/.ssh
    ffs mv root.img:/app root.img:/var/
    ffs ln -s ../var/app root.img:/bin/link
    ffs ln root.img:/var/app root.img:/bin/app
    ffs chown 80:5 root.img:/var/app
    ffs chmod 4711 root.img:/var/app
    ffs rm root.img:/dangling
    ffs rm -r 'root.img:/a name'
    (cd rootfs && rm -r dangling 'a name' && mkdir -p root/.ssh && cp ../app var/app &&
        ln var/app bin/app && ln -s ../var/app bin/link && cp -a ../tools .)
    (cd rootfs && find . ! -name . -printf '%P\n' | LC_ALL=C sort) >want
    fls_names root.img | sed 's/^[0-9]* //' | LC_ALL=C sort >got
    same want got
    is rrws--x--x "$(field root.img /var/app mode)"
    is '80 / 5' "$(field root.img /var/app 'uid \/ gid')"
    is 2 "$(field root.img /var/app 'num of links')"
    is drwx------ "$(field root.img /root/.ssh mode)"
    is app "$(icat root.img "$(inode root.img:/bin/app)")"
    ffs fsck -n -f root.img
}

task modes_of_trees 'images.md#change-an-image' chmod find python3
modes_of_trees() {
    tree rootfs
    ffs build -n root.img rootfs
    chmod -R go-rwx,u+X rootfs/etc && chmod -R u=rwX,g=rX,o= rootfs/bin && chmod g+s rootfs/var
    ffs chmod -R go-rwx,u+X root.img:/etc
    ffs chmod -R u=rwX,g=rX,o= root.img:/bin
    ffs chmod g+s root.img:/var
    (cd rootfs && find . ! -type l ! -name . -printf '0%m /%P\n' | LC_ALL=C sort) >want
    ffs find --json root.img ! -type l -mindepth 1 |
        rows '"0%o %s" % (int(f["mode"], 8), f["path"]["name"])' |
        LC_ALL=C sort >got
    same want got
}

task owners_by_name 'images.md#change-an-image' istat python3
owners_by_name() {
    mkdir -p rootfs/etc rootfs/home/ann
    echo 'ann:*:1001:1002::0:0:Ann:/home/ann:/bin/sh' >rootfs/etc/master.passwd
    echo 'ann:*:1001:1002:Ann:/home/ann:/bin/sh' >rootfs/etc/passwd
    echo 'www:*:80:' >rootfs/etc/group
    echo letter >rootfs/home/ann/letter
    ffs build --owner 0:0 root.img rootfs
    ffs chown -R ann:www root.img:/home/ann
    is '1001 / 80' "$(field root.img /home/ann/letter 'uid \/ gid')"
    is '1001 / 80' "$(field root.img /home/ann 'uid \/ gid')"
    is '0 / 0' "$(field root.img /home 'uid \/ gid')"
    is /home/ann/letter "$(ffs find root.img -type f -user ann)"
}

task times_and_sizes 'images.md#change-an-image' istat icat sha256sum python3
times_and_sizes() {
    seq 1 50000 >file
    cp -p file host
    ffs newfs -s 8m root.img
    ffs cp file root.img:/file
    for size in 100000 +30000 -7 %4096; do
        truncate -s "$size" host
        ffs truncate -s "$size" root.img:/file
        is "$(stat -c %s host)" "$(field root.img /file size)"
        is "$(sum host)" "$(icat root.img "$(inode root.img:/file)" | sum -)"
    done
    ffs touch -d 2002-06-10T09:00:00 root.img:/file
    is '2002-06-10 09:00:00 (UTC)' "$(field root.img /file 'File Modified')"
    ffs touch -a -t 199912312359.58 root.img:/file
    is '1999-12-31 23:59:58 (UTC)' "$(field root.img /file Accessed)"
    is '2002-06-10 09:00:00 (UTC)' "$(field root.img /file 'File Modified')"
    ffs truncate -s 64m root.img:/swapfile # larger than the volume
    is $((64 << 20)) "$(field root.img /swapfile size)"
    ffs fsck -n -f root.img
}

task edit_in_a_script 'images.md#change-an-image' icat sed python3
edit_in_a_script() {
    tree rootfs
    ffs build root.img rootfs
    before=$(ffs stat --json root.img:/etc/rc.conf | rows 'f["inode"], f["mode"], f["uid"]')
    EDITOR='sed -i s/box/host/' ffs edit root.img:/etc/rc.conf
    sed -i s/box/host/ rootfs/etc/rc.conf
    icat root.img "$(inode root.img:/etc/rc.conf)" >got
    same rootfs/etc/rc.conf got
    is "$before" "$(ffs stat --json root.img:/etc/rc.conf | rows 'f["inode"], f["mode"], f["uid"]')"
    is "$(sum got)" "$(ffs cat root.img:/etc/rc.local | sum -)"
    exits 1 ffs edit -e false root.img:/etc/rc.conf
    is "$(sum got)" "$(ffs cat root.img:/etc/rc.conf | sum -)"
}

task pipes 'faq.md#before-you-begin' gzip sha256sum
pipes() {
    seq 1 300000 >numbers
    ffs newfs -s 8m root.img
    gzip -c numbers | ffs cp /dev/stdin root.img:/numbers.gz
    ffs cp root.img:/numbers.gz /dev/stdout | gunzip | cmp - numbers
    ffs cat root.img:/numbers.gz | gunzip | cmp - numbers
    mv numbers want
    ffs cp root.img:/numbers.gz . && gunzip -f numbers.gz
    cmp want numbers
    ffs cp numbers root.img:/numbers
    # A reader that ends early is no failure of the image.
    ffs cat root.img:/numbers | head -1 >first || true
    is 1 "$(cat first)"
    is "$(sum numbers)" "$(ffs cat root.img:/numbers | sum -)"
}

task find_like_find 'images.md#change-an-image' find
find_like_find() {
    tree rootfs
    touch -d '-3 days' rootfs/bin/tool
    chmod 4755 rootfs/var/large
    ffs build -n root.img rootfs
    while read -r expression; do
        eval "set -- $expression"
        (cd rootfs && find . "$@") | sed 's,^\.,,;s,^$,/,' | LC_ALL=C sort >want
        ffs find root.img "$@" | LC_ALL=C sort >got
        same want got || { echo "find $expression"; return 1; }
    done <<'EXPRESSIONS'
-type f
-type l -o -type d
-name '*.conf' -o -iname 'TOOL*'
-type f -size +100k
-type f -size -2
-type f -size 15c
-perm -4000
-perm 600
-perm -1000
-links 2
-links +2 -type d
-empty
-mtime -7
! \( -type d -o -type l \) -print
-path '*/var' -prune -o -print
-maxdepth 1
-mindepth 2 -type f
-uid 0 -type f -o -uid +0 -type f
EXPRESSIONS
    ffs find root.img:/var -type f -print0 | xargs -0 -n1 echo | LC_ALL=C sort >got
    (cd rootfs && find var -type f -printf '/%p\n' | LC_ALL=C sort) >want
    same want got
}

task compare_like_diff 'images.md#compare-images' diff python3
compare_like_diff() {
    tree rootfs
    ffs build -n root.img rootfs
    ffs diff root.img rootfs/
    echo changed >>rootfs/var/numbers
    echo new >rootfs/bin/new
    rm rootfs/etc/empty
    exits 1 ffs diff root.img rootfs/ >text
    ffs cp -a root.img:/. out
    exits 1 diff -rq --no-dereference out rootfs >want
    # The same files: `Only in DIR: NAME`, and names of files that differ.
    exits 1 ffs diff -q --only type,size,content root.img rootfs/ >got
    is "$(grep -c '^Only in' want)" "$(grep -c '^Only in' got)"
    sed -n 's/^Only in .*: //p' want | sort >names
    sed -n 's/^Only in .*: //p' got | sort >found
    same names found
    is 'var/numbers differs' "$(grep -v '^Only in' got)"
    exits 2 ffs diff root.img nowhere
    exits 1 ffs diff --json root.img rootfs/ >lines
    is 5 "$(rows 'f' <lines | wc -l)" || { cat lines; return 1; }
}

task shell_script 'images.md#many-steps-on-one-image' icat fls istat python3
shell_script() {
    # What guestfish does with mkdir-p, upload, chmod, ls, download.
    seq 1 1000 >'my notes.txt'
    mkdir site && echo page >site/index.html
    ffs newfs -s 16m root.img
    cat >setup.ffs <<'SCRIPT'
mkdir -p /usr/local/etc          # a comment
cd /usr/local/etc
put 'my notes.txt' notes.txt
-rm old.conf                     # a minus: a failure does not end the script
chown -R 0:5 .
chmod 640 notes.txt
copy-in site /usr/local
ln -s notes.txt link
sync
get notes.txt back.txt
!touch ran
SCRIPT
    ffs shell -w root.img -f setup.ffs
    cmp 'my notes.txt' back.txt
    [ -e ran ]
    cmp 'my notes.txt' <(icat root.img "$(inode root.img:/usr/local/etc/notes.txt)")
    is rrw-r----- "$(field root.img /usr/local/etc/notes.txt mode)"
    is '0 / 5' "$(field root.img /usr/local/etc 'uid \/ gid')"
    is page "$(ffs shell root.img -c 'cd /usr/local/site' -c 'cat index.html')"
    fls_names root.img | sed 's/^[0-9]* //' | grep ^usr >got
    printf 'usr%s\n' '' /local /local/etc /local/etc/link /local/etc/notes.txt /local/site \
        /local/site/index.html | LC_ALL=C sort >want
    same want <(LC_ALL=C sort got)
}

task shell_script_that_fails 'images.md#many-steps-on-one-image' fls
shell_script_that_fails() {
    ffs newfs -n -s 8m root.img
    printf 'mkdir /before\ncat /none\nmkdir /after\n' >typo.ffs
    exits 1 ffs shell -w root.img -f typo.ffs
    exits 64 ffs shell -w root.img -c 'mkdir --nonsense /x'
    exits 1 ffs shell root.img -c 'mkdir /read-only'
    printf 'mkdir /piped\n-cat /none\nmkdir /piped/too\n' | ffs shell -w root.img
    printf '%s\n' before piped piped/too >want
    fls_names root.img | sed 's/^[0-9]* //' | LC_ALL=C sort >got
    same want got
    ffs fsck -n -f root.img
}

task json_of_commands 'images.md#a-ci-job' python3 tar
json_of_commands() {
    tree rootfs
    ffs build --json --free 4m root.img rootfs >out.0
    ffs snapshot create root.img:/.snap/s
    ffs quotacheck -u root.img
    n=1
    while read -r command; do
        eval "ffs $command" >out.$n || { echo "ffs $command"; return 1; }
        n=$((n + 1))
    done <<'COMMANDS'
ls -laR --json root.img
stat --json root.img:/etc/rc.conf root.img:/bin/tool
find --json root.img
tree --json root.img
du --json root.img
df --json root.img
info --json root.img
fsck -n --json root.img
dumpfs -s --json root.img
snapshot list --json root.img
repquota --json root.img
tar c --json -f a.tar root.img
newfs -N --json -s 8m none.img
COMMANDS
    python3 - $(seq 0 $((n - 1))) <<'PYTHON'
import json, sys
for number in sys.argv[1:]:
    text = open("out." + number).read()
    try:
        json.loads(text)
    except ValueError:
        lines = [json.loads(line) for line in text.splitlines()]
        assert lines, number
PYTHON
    is "$(sum rootfs/var/large)" "$(sum <(tar -xOf a.tar ./var/large))"
}
