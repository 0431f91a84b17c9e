//! Hints: commands that can be pasted, and what to do with what is no image.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{Dir, fails, ffs, is_root, make_tree, ok, run, text};
use crate::partitions::Loop;

#[test]
fn commands_in_messages_can_be_pasted() {
    let d = Dir::new();
    fs::create_dir(d.path("a dir's")).unwrap();
    let image = d.image("a dir's/my image.img", "8m", &[]);
    let word = format!("\"{image}\"");
    assert!(ok(&["info", &image]).contains(&format!("next: ffs ls {word}\n")));
    fails(&["cat", &format!("{image}:/x")], 1, &format!("ffs ls {word}"));
    let plain = d.image("plain-1.img", "8m", &[]);
    assert!(ok(&["info", &plain]).contains(&format!("next: ffs ls {plain}\n")));
    fs::write(d.path("none of mine"), vec![7; 1 << 20]).unwrap();
    let other = d.str("none of mine");
    fails(&["ls", &other], 1, &format!("-b SECTOR '{other}'"));
}

#[test]
fn a_slash_in_place_of_a_colon_and_swapped_words_are_noticed() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let wrong = format!("{image}/etc/rc");
    for args in [&["ls", &wrong][..], &["cat", &wrong], &["mkdir", &wrong], &["stat", &wrong]] {
        let code = run(args).status.code().unwrap();
        fails(args, code, &format!("follows a colon: {image}:/etc/rc"));
    }
    let root = format!("{image}:/");
    let error = run(&["chown", &root, "0:0"]);
    assert!(text(&error).contains("the new value comes first"), "{}", text(&error));
    assert!(!text(&run(&["chown", "0:0", "none.img:/"])).contains("the new value"));
}

#[test]
fn swapped_words_are_answered_with_the_line_to_type() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let (file, none) = (format!("{image}:/f"), d.str("none.img"));
    let dir = d.str("");
    ok(&["touch", &file]);
    for (args, code, line) in [
        (&["chmod", &file, "755"][..], 64, format!("write: ffs chmod MODE {file}")),
        (&["chown", &file, "0:0"], 64, format!("write: ffs chown OWNER:GROUP {file}")),
        (&["chflags", &file, "schg"], 64, format!("write: ffs chflags FLAGS {file}")),
        (&["chmod", "755", "none"], 1, "the new value comes first".into()),
        (&["touch", &file, "200206100900"], 64, format!("ffs touch -t 200206100900 {file}")),
        (&["touch", "2002-06-10T09:00:00", &file], 64, "ffs touch -d 2002-06-10T09:00:00".into()),
        (&["ln", "-s", &file, "target"], 64, format!("write: ffs ln -s target {file}")),
        (&["ln", &file, "b"], 64, format!("write: ffs ln {file} {image}:/b")),
        (&["mount", &dir, &image], 1, format!("write: ffs mount {image} {dir}")),
        (&["snapshot", "create", &image, "s"], 64, format!("create {image}:/.snap/s")),
        (&["snapshot", "create", &image], 64, format!("create {image}:/.snap/NAME")),
        (&["snapshot", "create", &image, "/a/s"], 64, format!("create {image}:/a/s")),
        (&["cp", "--update", "none", &file, &dir], 64, "write --update=none".into()),
        (&["cp", "--preserve", "mode,links", &file, &dir], 64, "write --preserve=mode,".into()),
    ] {
        fails(args, code, &line);
    }
    for how in [&["--reflink", "no"][..], &["--reflink=no"], &["--reflink", "never"]] {
        ok(&[&["cp"], how, &[&file, &dir]].concat());
    }
    // A file may have the name of a value, and an image one that is a time.
    std::fs::write(d.path("none"), b"").unwrap();
    let output = ffs().current_dir(&dir).args(["cp", "--update", "none", &file]).output();
    assert!(output.as_ref().unwrap().status.success(), "{}", text(&output.unwrap()));
    fails(&["touch", &none], 1, "none.img");
}

#[test]
fn a_tree_in_front_of_its_image_is_answered_with_the_line_to_type() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    fs::create_dir(d.path("my tree")).unwrap();
    fs::write(d.path("base.tar.gz"), b"x").unwrap();
    let (tree, new, archive) = (d.str("my tree"), d.str("new.img"), d.str("base.tar.gz"));
    for (args, line) in [
        (&[&*tree, &*new][..], format!("write: ffs build {new} '{tree}'")),
        (&[&tree, &image], format!("write: ffs build {image} '{tree}'")),
        (&["-O", "1", &archive, &new], format!("write: ffs build {new} {archive}")),
        (&[&archive, &tree, &new], format!("write: ffs build {new} {archive} '{tree}'")),
    ] {
        let shown = fails(&[&["build"], args].concat(), 64, &line);
        assert!(shown.contains("the image comes first"), "{shown}");
    }
    assert!(!d.path("new.img").exists() && d.path("my tree").is_dir());
    // Another fault has its own message.
    let none = d.str("none");
    for args in [&["--force", &image, &none][..], &[&new, &none], &[&tree, &tree]] {
        let shown = text(&run(&[&["build"], args].concat()));
        assert!(!shown.contains("the image comes first"), "{shown}");
    }
    ok(&["build", &new, &tree]);
}

#[test]
fn a_disk_without_partitions_is_refused() {
    let d = Dir::new();
    fails(&["disk", "create", &d.str("e.img")], 64, "--ufs LABEL[:SIZE]=SOURCE");
    assert!(!d.path("e.img").exists());
}

#[test]
fn several_types_are_found() {
    let d = Dir::new();
    make_tree(&d.path("tree"));
    let (image, tree) = (d.str("t.img"), d.str("tree"));
    ok(&["build", &image, &tree]);
    let found = |types: &str| ok(&["find", &image, "-type", types]);
    let mut both: Vec<_> = (found("p") + &found("l")).lines().map(str::to_owned).collect();
    let mut list: Vec<_> = found("l,p").lines().map(str::to_owned).collect();
    both.sort();
    list.sort();
    assert!(both.len() > 3 && both == list, "{list:?}");
    fails(&["find", &image, "-type", "f,"], 64, "one of b, c, d");
}

#[test]
fn a_hard_link_to_nothing_makes_no_directory() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Link);
    header.set_size(0);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_link(&mut header, "name", "some/where/file").unwrap();
    let archive = d.file("a.tar", &archive.into_inner().unwrap());
    fails(&["tar", "xf", &archive, &format!("{image}:/")], 1, "name: link to some/where/file");
    assert_eq!(ok(&["find", &image, "-mindepth", "1", "!", "-name", ".snap"]), "");
}

#[test]
fn archives_and_containers_in_compressed_files_are_named() {
    let d = Dir::new();
    for (name, start, words) in [
        (
            "a.zip",
            &b"PK\x03\x04"[..],
            "a ZIP archive, not a UFS file system; unpack it first: unzip",
        ),
        ("a.7z", b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
        ("a.rar", b"Rar!\x1a\x07", "a RAR archive"),
        ("a.img.lz4", b"\x04\x22\x4d\x18", "lz4 -d"),
        ("a.E01", b"EVF\x09\x0d\x0a\xff\0", "ewfexport"),
    ] {
        let mut bytes = vec![0; 200_000];
        bytes[..start.len()].copy_from_slice(start);
        let file = d.file(name, &bytes);
        fails(&["ls", &file], 1, words);
        assert!(ok(&["info", &file]).contains(words), "{name}");
    }
    let mut dmg = vec![0; 200_000];
    dmg[200_000 - 512..][..8].copy_from_slice(b"koly\0\0\0\x04");
    fails(&["ls", &d.file("a.dmg", &dmg)], 1, "a disk image of macOS");
    let mut qcow2 = vec![0; 200_000];
    qcow2[..4].copy_from_slice(b"QFI\xfb");
    let path = d.file("disk.qcow2", &qcow2);
    let packed = Command::new("gzip").arg(&path).status();
    if packed.is_ok_and(|status| status.success()) {
        let words = format!(
            "a qcow2 image, not a UFS file system; ffs opens such an image when it is not \
             compressed: gzip -dk {path}.gz"
        );
        fails(&["ls", &format!("{path}.gz")], 1, &words);
    }
}

#[test]
fn a_write_protected_device_is_noticed_before_anything_is_done() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let device = is_root().then(|| Loop::write_protected(&image)).flatten();
    let Some(device) = device else { return eprintln!("skipped: no loop device") };
    let name = &device.0;
    ok(&["ls", name]);
    for args in [&["mkdir", &format!("{name}:/x")][..], &["newfs", name]] {
        let code = run(args).status.code().unwrap();
        let shown = fails(args, code, "it is write-protected (`blockdev --setrw` may change that)");
        assert!(code != 0 && !shown.contains("overwritten"), "{shown}");
    }
    if !std::path::Path::new("/dev/fuse").exists() {
        return eprintln!("skipped: no /dev/fuse");
    }
    let point = d.str("mnt");
    fs::create_dir(&point).unwrap();
    let shown = run(&["mount", name, &point]);
    assert!(shown.status.success(), "{}", text(&shown));
    assert!(text(&shown).contains("the device cannot be written"), "{}", text(&shown));
    assert!(fs::write(d.path("mnt/x"), b"x").is_err());
    ok(&["umount", &point]);
}

#[test]
fn a_compressed_vmdk_is_refused_before_it_is_changed() {
    let d = Dir::new();
    let (image, vmdk) = (d.image("a.img", "8m", &[]), d.str("a.vmdk"));
    let how = ["convert", "-O", "vmdk", "-o", "subformat=streamOptimized", &image, &vmdk];
    let made = Command::new("qemu-img").args(how).stdout(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no qemu-img");
    }
    ok(&["ls", &vmdk]);
    let before = fs::read(&vmdk).unwrap();
    let words = "a streamOptimized image can only be read";
    fails(&["mkdir", &format!("{vmdk}:/x")], 1, words);
    assert!(fs::read(&vmdk).unwrap() == before);
}

#[test]
fn a_member_without_a_name_is_named_in_the_message() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let mut header = tar::Header::new_ustar();
    header.set_size(0);
    header.as_old_mut().name[..2].copy_from_slice(b"./");
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, &b""[..]).unwrap();
    let archive = d.file("a.tar", &archive.into_inner().unwrap());
    let words = "./: the name is that of a directory; left out";
    fails(&["tar", "xf", &archive, &format!("{image}:/")], 1, words);
}

#[test]
fn a_name_that_is_in_no_image_is_not_taken_for_one() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let (at, host) = (format!("{image}:/f"), d.file("f", b"text"));
    for args in [&["rm", &host][..], &["rm", &image], &["mkdir", &host], &["mv", &host, &image]] {
        fails(args, 64, if args[0] == "mv" { "not in an image" } else { "no path in an image" });
    }
    ok(&["touch", &at]);
    fails(&["touch", "-r", &host, &at], 64, &format!("{host}: not in an image"));
    fails(&["chmod", "644", &image, &host], 64, &format!("{host}: not in an image"));
    let other = d.image("other.img", "8m", &[]);
    fails(&["chown", "0", &image, &other], 64, "different images");
    fails(&["snapshot", "delete", &host], 1, "not on a mount of ffs");
    let link = format!("{image}:/link");
    fails(&["ln", "-s", &at, &link], 64, &format!("write: ffs ln -s /f {link}"));
    ok(&["ln", "-s", "none.img:/f", &link]);
    fails(&["tar", "xf", &host, &format!("{image}:/")], 1, "this is not a tar archive");
}

#[test]
fn a_missing_parent_is_named_with_the_command_that_makes_it() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let (new, host) = (format!("{image}:/no/dir/x"), d.file("f", b"text"));
    ok(&["cp", &host, &format!("{image}:/f")]);
    let words =
        format!("the parent directory does not exist; make it: ffs mkdir -p {image}:/no/dir");
    for args in [
        &["cp", &host, &new][..],
        &["touch", &new],
        &["mv", &format!("{image}:/f"), &new],
        &["ln", &format!("{image}:/f"), &new],
        &["snapshot", "create", &new],
    ] {
        fails(args, 1, &words);
    }
    ok(&["mkdir", "-p", &format!("{image}:/no/dir")]);
    ok(&["cp", &host, &new]);
    // Without a command where that would make another directory.
    ok(&["ln", "-s", "nowhere", &format!("{image}:/link")]);
    for args in
        [&["touch", &format!("{image}:/link/f")][..], &["mkdir", &format!("{image}:/link/d/e")]]
    {
        fails(args, 1, "/link is a symbolic link to nowhere");
    }
    for path in ["/a\u{7}/f", "#77/f"] {
        let refused = run(&["touch", &format!("{image}:{path}")]);
        assert!(!text(&refused).contains("mkdir"), "{}", text(&refused));
    }
    let number = ok(&["ls", "-di", &format!("{image}:/no")]);
    let number = format!("{image}:#{}/new", number.split_whitespace().next().unwrap());
    ok(&["mkdir", "-p", &format!("{number}/dir")]);
    fails(&["mkdir", "-p", &format!("{image}:#77")], 1, "no such file");
    assert_eq!(ok(&["ls", &format!("{image}:/no/new")]), "dir\n");
}

#[test]
fn a_shell_takes_the_name_of_its_image_for_a_name() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let run = |script: &str| {
        let mut shell = ffs();
        shell.current_dir(d.path("")).args(["shell", "-w", "a.img"]);
        shell.write_stdin(script).output().unwrap()
    };
    let done = run("ln -s a.img.old link\nmkdir a.img\nmv a.img b.img\nrm -d b.img\n");
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(ok(&["ls", &image]), "link\n");
    assert!(text(&run("chgrp wheel /link\n")).contains("write: chown :GROUP /PATH"));
}

#[test]
fn commands_of_other_programs_are_known_by_their_names() {
    for (args, tip) in [
        (&["chgrp", "wheel", "a.img:/f"][..], "ffs chown :GROUP IMAGE:/PATH"),
        (&["rmdir", "a.img:/d"], "ffs rm -d IMAGE:/PATH"),
        (&["makefs", "a.img", "t"], "ffs build IMAGE TREE"),
        (&["unmount", "/mnt"], "ffs umount DIR"),
    ] {
        fails(args, 64, tip);
    }
    fails(&["grwfs"], 64, "'growfs'");
}

#[test]
fn growfs_of_a_volume_that_fills_its_image_shows_what_to_do() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    fails(&["growfs", &image], 1, "the file system already fills its 8388608 bytes");
}
