//! `ffs build` from several sources, and from compressed archives. GNU tar and the compressors are
//! the judges.

use crate::build::{assert_holds, gnu_tar};
use crate::common::{Dir, fails, ffs, json_lines, make_tree, ok, text};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a shell script in the directory.
fn sh(d: &Dir, script: &str) -> bool {
    Command::new("sh").args(["-ec", script]).current_dir(d.0.path()).status().unwrap().success()
}

#[test]
fn compressed_archives_are_the_archive() {
    if !gnu_tar() {
        return println!("skipped: no GNU tar");
    }
    let d = Dir::new();
    make_tree(&d.path("tree"));
    let pack = "tar --sort=name --format=posix --xattrs --xattrs-include='user.*' --sparse";
    // The last file is part of the second compressed file, where there are two.
    assert!(sh(&d, &format!("head -c 300000 /dev/urandom > tree/zz; {pack} -cf a.tar -C tree .")));
    ok(&["build", &d.str("plain.img"), &d.str("a.tar")]);
    let plain = fs::read(d.path("plain.img")).unwrap();
    let halves = "head -c 200k a.tar | PACK; tail -c +204801 a.tar | PACK";
    for program in ["gzip", "xz", "xz --block-size=64k -T2", "zstd", "bzip2", "zstd -19 --long=27"]
    {
        let name = program.split(' ').next().unwrap();
        if Command::new(name).arg("--version").stdin(Stdio::null()).output().is_err() {
            println!("skipped: no {name}");
            continue;
        }
        for script in ["PACK < a.tar", halves] {
            let script = script.replace("PACK", &format!("{program} -c"));
            assert!(sh(&d, &format!("({script}) > packed")));
            let image = d.str("packed.img");
            ok(&["build", "--force", &image, &d.str("packed")]);
            assert!(fs::read(&image).unwrap() == plain, "{script}");
            let piped = ffs()
                .args(["build", "--force", &image, "-"])
                .write_stdin(fs::read(d.path("packed")).unwrap())
                .output()
                .unwrap();
            assert!(piped.status.success(), "{script}: {}", text(&piped));
            assert!(fs::read(&image).unwrap() == plain, "{script}: piped");
        }
        // A changed byte, or a missing end, is noticed, and no image is left.
        let whole = fs::read(d.path("packed")).unwrap();
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 0x55;
        for bytes in [&damaged[..], &whole[..whole.len() / 2], &whole[..12]] {
            fs::write(d.path("damaged"), bytes).unwrap();
            let words = "the compressed data is damaged or truncated";
            fails(&["build", &d.str("new.img"), &d.str("damaged")], 1, words);
            assert!(!d.path("new.img").exists(), "{program}");
        }
    }
    assert_holds(&d, &d.str("plain.img"), &d.path("tree"));
}

#[test]
fn archives_that_begin_like_compressed_files_are_archives() {
    if !gnu_tar() {
        return println!("skipped: no GNU tar");
    }
    let d = Dir::new();
    assert!(sh(&d, "mkdir t; echo x > t/BZh91; cd t; tar -cf ../a.tar BZh91"));
    ok(&["build", &d.str("a.img"), &d.str("a.tar")]);
    assert_eq!(ok(&["cat", &format!("{}:/BZh91", d.str("a.img"))]), "x\n");
}

/// Layers as a release has them: a base, a kernel, and files of the user. `tar x` merges them.
const LAYERS: &str = "
    umask 022
    mkdir -p base/etc/rc.d base/bin base/boot kernel/boot/kernel mine/etc/rc.d mine/home/alice
    echo base > base/etc/motd; echo conf > base/etc/rc.conf; echo sh > base/bin/sh
    ln base/bin/sh base/bin/rsh; ln -s ../bin/sh base/etc/shell; chmod 4555 base/bin/sh
    chmod 711 base/boot; head -c 400000 /dev/zero | tr '\\0' k > base/boot/kernel.old
    head -c 900000 /dev/zero | tr '\\0' k > kernel/boot/kernel/kernel
    echo mine > mine/etc/motd; rm -f mine/etc/rc.conf; ln -s motd mine/etc/rc.conf
    echo file > mine/etc/shell; echo new > mine/bin-sh; mkdir mine/bin; echo other > mine/bin/rsh
    head -c 90 /dev/zero > mine/boot; rm mine/boot; mkdir -m 750 mine/boot
    echo small > mine/boot/kernel.old; find mine base kernel -exec touch -hd @1000000000 {} +
    tar --sort=name -cJf base.txz -C base .; tar --sort=name -czf kernel.tgz -C kernel .
    mkdir tree; tar -xpf base.txz -C tree; tar -xpf kernel.tgz -C tree
    tar -C mine -c . | tar -xp -C tree";

#[test]
fn later_sources_are_laid_over_earlier_ones() {
    if !gnu_tar() {
        return println!("skipped: no GNU tar");
    }
    let d = Dir::new();
    assert!(sh(&d, LAYERS));
    let (base, kernel, mine) = (d.str("base.txz"), d.str("kernel.tgz"), d.str("mine"));
    for format in ["1", "2"] {
        let image = d.str(&format!("{format}.img"));
        ok(&["build", "-O", format, &image, &base, &kernel, &mine]);
        assert_holds(&d, &image, &d.path("tree"));
        let again = d.str("again.img");
        ok(&["build", "-O", format, "--force", &again, &base, &kernel, &mine]);
        assert!(fs::read(&again).unwrap() == fs::read(&image).unwrap(), "the same bytes");
        // One of the sources may be a pipe.
        let piped = ffs()
            .args(["build", "-O", format, "--force", &again, &base, "-", &mine])
            .write_stdin(fs::read(&kernel).unwrap())
            .output()
            .unwrap();
        assert!(piped.status.success(), "{}", text(&piped));
        assert!(fs::read(&again).unwrap() == fs::read(&image).unwrap(), "piped");
    }
    fails(&["build", &d.str("new.img"), "-", &base, "-"], 64, "only once");
    fails(&["build", &d.str("new.img"), &base, &d.str("missing")], 1, "missing");
    fails(&["build", &d.str("new.img")], 64, "TREE|ARCHIVE|-");
    assert!(!d.path("new.img").exists());
}

#[test]
fn a_second_archive_in_a_file_is_no_silent_loss() {
    if !gnu_tar() {
        return println!("skipped: no GNU tar");
    }
    let d = Dir::new();
    assert!(sh(&d, LAYERS));
    let joined = "cat base.txz kernel.tgz > odd; xz -dc base.txz > b.tar; zcat kernel.tgz > k.tar
        cat b.tar k.tar > two.tar; cat b.tar k.tar | gzip > two.tgz
        cat base.txz base.txz > two.txz; truncate -s +600k b.tar; cat b.tar k.tar > far.tar";
    assert!(sh(&d, joined));
    for name in ["two.tar", "two.tgz", "two.txz", "far.tar"] {
        fails(&["build", &d.str("new.img"), &d.str(name)], 1, "another archive follows");
        assert!(!d.path("new.img").exists(), "{name}");
    }
    fails(&["build", &d.str("new.img"), &d.str("odd")], 1, "damaged");
    // GNU tar and `ffs tar x` read the first one: an archive may be written over a longer one.
    ok(&["newfs", "-s", "16m", &d.str("x.img")]);
    ok(&["tar", "x", "-f", &d.str("two.tar"), &format!("{}:/", d.str("x.img"))]);
    // Zeros, and bytes that are no archive, may follow.
    assert!(sh(&d, "xz -dc base.txz > b.tar; echo text >> b.tar; truncate -s +5M b.tar"));
    ok(&["build", &d.str("new.img"), &d.str("b.tar")]);
}

#[test]
fn compressed_dumps_are_restored_and_their_damage_is_noticed() {
    let d = Dir::new();
    make_tree(&d.path("tree"));
    ok(&["build", &d.str("a.img"), &d.str("tree")]);
    ok(&["dump", "-0", "-f", &d.str("dump"), &d.str("a.img")]);
    let (inside, packed) = (format!("{}:/", d.str("b.img")), d.str("packed"));
    for program in ["gzip", "xz", "zstd", "bzip2"] {
        if !sh(&d, &format!("command -v {program} >/dev/null && {program} -c dump > packed")) {
            println!("skipped: no {program}");
            continue;
        }
        fs::remove_file(d.path("b.img")).unwrap_or(());
        ok(&["newfs", "-s", "64m", &d.str("b.img")]);
        ok(&["restore", "-x", "-f", &packed, "-D", &inside]);
        ok(&["restore", "-C", "-f", &packed, &inside]);
        ok(&["restore", "-C", "-f", &d.str("dump"), &inside]);
        // The checksum of gzip is behind the data.
        let mut bytes = fs::read(&packed).unwrap();
        let at = bytes.len() - 6;
        bytes[at] ^= 0x55;
        fs::write(&packed, bytes).unwrap();
        fails(&["restore", "-x", "-N", "-f", &packed, "-D", &inside], 1, "damaged");
    }
}

#[test]
fn what_follows_compressed_data_is_zeros_or_an_error() {
    if !gnu_tar() {
        return println!("skipped: no GNU tar");
    }
    let d = Dir::new();
    assert!(sh(&d, "mkdir t; echo x > t/f; tar -cf a.tar -C t f"));
    for program in ["gzip", "bzip2", "xz", "zstd"] {
        if !sh(&d, &format!("command -v {program} >/dev/null && {program} -c a.tar > packed")) {
            println!("skipped: no {program}");
            continue;
        }
        let packed = d.str("packed");
        let mut bytes = fs::read(&packed).unwrap();
        if program != "zstd" {
            bytes.extend([0; 1024]);
            fs::write(&packed, &bytes).unwrap();
        }
        ok(&["build", "--force", &d.str("a.img"), &packed]);
        fs::remove_file(d.path("x.img")).unwrap_or(());
        let inside = format!("{}:/", d.str("x.img"));
        ok(&["newfs", "-s", "16m", &d.str("x.img")]);
        ok(&["tar", "x", "-f", &packed, &inside]);
        assert_eq!(ok(&["cat", &format!("{inside}f")]), "x\n");
        bytes.extend(b"text");
        fs::write(&packed, &bytes).unwrap();
        fails(&["build", "--force", &d.str("b.img"), &packed], 1, "damaged");
        assert!(!d.path("b.img").exists(), "{program}");
    }
}

#[test]
fn large_windows_and_skipped_frames() {
    let d = Dir::new();
    assert!(sh(&d, "mkdir t; echo x > t/f; tar -cf a.tar -C t f"));
    let more = "head -c 300M /dev/zero | zstd -q --long=30 -c > long.zst; \
                head -c 1M a.tar | xz --lzma2=dict=512MiB > long.xz; \
                printf 'P*M\\030\\003\\000\\000\\000abc' > skip.zst; zstd -q -c a.tar >> skip.zst";
    if !sh(&d, more) {
        return println!("skipped: no zstd or xz, or not with large windows");
    }
    for name in ["long.zst", "long.xz"] {
        fails(&["build", &d.str("a.img"), &d.str(name)], 1, "needs more than 256 MiB of memory");
    }
    ok(&["build", &d.str("a.img"), &d.str("skip.zst")]);
    // A disk image begins with zeros, but it is no empty archive.
    fails(&["build", &d.str("b.img"), &d.str("a.img")], 1, "this is not a tar archive");
}

#[test]
fn flags_of_an_earlier_source_do_not_stop_a_later_one() {
    let d = Dir::new();
    let archive = |name: &str, members: &[(&str, tar::EntryType, &str)]| {
        let mut out = tar::Builder::new(Vec::new());
        for (path, kind, flags) in members {
            let data = if kind.is_dir() { "" } else { path };
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.set_size(data.len() as u64);
            if !flags.is_empty() {
                out.append_pax_extensions([("SCHILY.fflags", flags.as_bytes())]).unwrap();
            }
            out.append_data(&mut header, path, data.as_bytes()).unwrap();
        }
        d.file(name, &out.into_inner().unwrap())
    };
    use tar::EntryType::{Directory, Regular};
    let base = archive(
        "base.tar",
        &[
            ("lib", Directory, ""),
            ("lib/libc", Regular, "schg"),
            ("lib/kept", Regular, "schg,nodump"),
            ("empty", Directory, "schg"),
        ],
    );
    let over = archive("over.tar", &[("lib/libc", Regular, ""), ("empty/new", Regular, "uchg")]);
    let image = d.str("a.img");
    ok(&["build", &image, &base, &over]);
    let flags = |path: &str| {
        let shown = ok(&["stat", "--json", &format!("{image}:{path}")]);
        let value: serde_json::Value = json_lines(&shown);
        value[0]["flags"].as_str().unwrap().to_owned()
    };
    let paths = ["/lib/libc", "/lib/kept", "/empty", "/empty/new"];
    assert_eq!(paths.map(flags), ["-", "schg,nodump", "schg", "uchg"]);
}

#[test]
fn a_replaced_file_is_in_the_size_and_a_type_does_not_change() {
    let d = Dir::new();
    let script = "mkdir a b c; head -c 8M /dev/zero | tr '\\0' x > a/f; cp a/f b/f
        mkdir c/f; ln -s / a/out; mkdir b/out; echo x > b/out/escaped-from-ffs-test";
    assert!(sh(&d, script));
    let (image, a, b) = (d.str("a.img"), d.str("a"), d.str("b"));
    fails(&["build", &image, &a, &d.str("c")], 1, "exists and is not a directory");
    fails(&["build", &image, &a, &b], 1, "out: exists and is not a directory");
    assert!(!Path::new("/escaped-from-ffs-test").exists() && !Path::new(&image).exists());
    assert!(sh(&d, "rm -r b/out"));
    ok(&["build", "-m", "0", &image, &a, &b]);
    assert!(fs::metadata(&image).unwrap().len() > 16 << 20, "space for both");
}
