//! Access lists on their way between hosts, images and archives: kept, or the mode narrowed.

use crate::common::{Dir, fsck_clean, is_root, ok, run, text};
use ffs_core::acl::{Entry, Who, linux};
use ffs_core::{Cred, Env, Ffs, MountOptions, XattrNamespace, XattrSet};
use ffs_device::FileDevice;
use rustix::fs::XattrFlags;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

fn entries(list: &[(Who, u8)]) -> Vec<Entry> {
    list.iter().map(|&(who, perm)| Entry { who, perm }).collect()
}

/// rwx for the owner, r-- for the group, rw- for two who are named, below the mask rw-.
fn access() -> Vec<Entry> {
    entries(&[
        (Who::UserObj, 7),
        (Who::User(1001), 6),
        (Who::GroupObj, 4),
        (Who::Group(70_000), 6),
        (Who::Mask, 6),
        (Who::Other, 0),
    ])
}

fn default() -> Vec<Entry> {
    entries(&[
        (Who::UserObj, 7),
        (Who::User(1002), 5),
        (Who::GroupObj, 5),
        (Who::Mask, 5),
        (Who::Other, 0),
    ])
}

/// What a file has.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    perm: u32,
    access: Option<Vec<Entry>>,
    default: Option<Vec<Entry>>,
}

fn seen(perm: u32, access: Option<Vec<Entry>>, default: Option<Vec<Entry>>) -> Seen {
    Seen { perm, access, default }
}

fn on_host(path: &Path) -> Seen {
    let list = |name: &str| {
        let mut value = vec![0; 4096];
        let len = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
        Some(linux::decode(&value[..len]).unwrap())
    };
    let perm = fs::symlink_metadata(path).unwrap().mode() & 0o7777;
    seen(perm, list(ACCESS), list(DEFAULT))
}

fn mounted(image: &str) -> Ffs {
    let device = Arc::new(FileDevice::open(image.as_ref(), true).unwrap());
    Ffs::mount(device, &MountOptions::default(), Env::system()).unwrap()
}

/// Runs `work` on the file `name` in the root directory of an image.
fn with_file<T>(image: &str, name: &str, work: impl FnOnce(&Ffs, &ffs_core::Vnode) -> T) -> T {
    let ffs = mounted(image);
    let root = ffs.root().unwrap();
    let file = name
        .split('/')
        .filter(|name| !name.is_empty())
        .fold(root, |at, name| ffs.lookup(&Cred::root(), &at, name.as_bytes()).unwrap());
    let done = work(&ffs, &file);
    drop(file);
    ffs.unmount().unwrap();
    done
}

fn in_image(image: &str, name: &str) -> Seen {
    with_file(image, name, |ffs, file| {
        let list = |acl: Option<ffs_core::acl::Acl>| acl.map(|acl| acl.entries().to_vec());
        let perm = ffs.getattr(file).perm.into();
        seen(perm, list(ffs.access_acl(file).unwrap()), list(ffs.default_acl(file).unwrap()))
    })
}

fn set(path: &Path, name: &str, list: &[Entry]) {
    rustix::fs::setxattr(path, name, &linux::encode(list), XattrFlags::empty()).unwrap();
}

/// A tree with a list on a file, both on a directory, and none on another file; `None` if the host
/// has no access lists.
fn tree(d: &Dir) -> Option<std::path::PathBuf> {
    let tree = d.path("tree");
    fs::create_dir_all(tree.join("dir")).unwrap();
    fs::write(tree.join("file"), b"content").unwrap();
    fs::write(tree.join("plain"), b"content").unwrap();
    for (name, mode) in [("file", 0o4600), ("plain", 0o664), ("dir", 0o750)] {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let probe = linux::encode(&access());
    if rustix::fs::setxattr(tree.join("file"), ACCESS, &probe, XattrFlags::empty()).is_err() {
        println!("skipped: the host has no access lists");
        return None;
    }
    set(&tree.join("dir"), ACCESS, &access());
    set(&tree.join("dir"), DEFAULT, &default());
    Some(tree)
}

const KEPT: [(&str, u32); 3] = [("file", 0o4760), ("dir", 0o760), ("plain", 0o664)];

fn assert_kept(see: impl Fn(&str) -> Seen) {
    for (name, perm) in KEPT {
        let lists = (name != "plain").then(access);
        let wanted = seen(perm, lists, (name == "dir").then(default));
        assert_eq!(see(name), wanted, "{name}");
    }
}

fn assert_narrowed(see: impl Fn(&str) -> Seen) {
    for (name, perm) in [("file", 0o4740), ("dir", 0o740), ("plain", 0o664)] {
        assert_eq!(see(name), seen(perm, None, None), "{name}");
    }
}

fn with_lists(d: &Dir, name: &str, options: &[&str]) -> String {
    let image = d.image(name, "8m", options);
    ok(&["tunefs", "-a", "enable", &image]);
    image
}

/// Standard error of a command that succeeds.
fn stderr_of(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stderr).unwrap()
}

fn assert_list_reported(stderr: &str) {
    assert!(stderr.contains("2 access lists turned into a narrower mode ("), "{stderr}");
    assert!(stderr.contains("1 default access list not kept ("), "{stderr}");
    assert!(stderr.contains("file and 1 other file): "), "{stderr}");
    assert!(stderr.contains("dir): "), "{stderr}");
}

#[test]
fn lists_are_kept_from_host_to_image_to_image_to_host() {
    let d = Dir::new();
    let Some(tree) = tree(&d) else { return };
    let (one, two) = (with_lists(&d, "1.img", &[]), with_lists(&d, "2.img", &["--endian", "big"]));
    assert_eq!(stderr_of(&["cp", "-a", tree.to_str().unwrap(), &format!("{one}:/t")]), "");
    assert_kept(|name| in_image(&one, &format!("t/{name}")));
    assert_eq!(stderr_of(&["cp", "-a", &format!("{one}:/t"), &format!("{two}:/")]), "");
    assert_kept(|name| in_image(&two, &format!("t/{name}")));
    let out = d.path("out");
    assert_eq!(stderr_of(&["cp", "-a", &format!("{two}:/t"), out.to_str().unwrap()]), "");
    assert_kept(|name| on_host(&out.join(name)));
    for image in [&one, &two] {
        fsck_clean(Path::new(image));
    }
}

#[test]
fn lists_that_are_not_kept_narrow_the_mode() {
    let d = Dir::new();
    let Some(tree) = tree(&d) else { return };
    let tree = tree.to_str().unwrap();
    let from = with_lists(&d, "from.img", &[]);
    ok(&["cp", "-a", tree, &format!("{from}:/t")]);
    for (name, options) in [("a.img", &[][..]), ("b.img", &["-O", "1"])] {
        let image = d.image(name, "8m", options);
        assert_list_reported(&stderr_of(&["cp", "-a", tree, &format!("{image}:/t")]));
        assert_narrowed(|name| in_image(&image, &format!("t/{name}")));
        let image = d.image(name, "8m", options);
        assert_list_reported(&stderr_of(&[
            "cp",
            "-a",
            &format!("{from}:/t"),
            &format!("{image}:/"),
        ]));
        assert_narrowed(|name| in_image(&image, &format!("t/{name}")));
        fsck_clean(Path::new(&image));
    }
    // A file system without attributes.
    let bare = d.path("bare");
    fs::create_dir(&bare).unwrap();
    let mount = Command::new("mount").args(["-t", "ramfs", "none"]).arg(&bare).status();
    if !is_root() || !mount.is_ok_and(|status| status.success()) {
        return println!("skipped: cannot mount a file system without attributes");
    }
    let stderr = stderr_of(&["cp", "-a", &format!("{from}:/t"), bare.to_str().unwrap()]);
    let states: Vec<Seen> =
        KEPT.iter().map(|(name, _)| on_host(&bare.join("t").join(name))).collect();
    assert!(Command::new("umount").arg(&bare).status().unwrap().success());
    assert_list_reported(&stderr);
    let perms: Vec<u32> = states.iter().map(|seen| seen.perm).collect();
    assert_eq!(perms, [0o4740, 0o740, 0o664]);
}

#[test]
fn build_keeps_lists_with_acls() {
    let d = Dir::new();
    let Some(tree) = tree(&d) else { return };
    let (image, again) = (d.str("a.img"), d.str("b.img"));
    let tree = tree.to_str().unwrap();
    assert_list_reported(&stderr_of(&["build", &image, tree]));
    assert_narrowed(|name| in_image(&image, name));
    for image in [&image, &again] {
        let stderr = stderr_of(&["build", "--force", "--acls", image, tree]);
        assert!(!stderr.contains("warning"), "{stderr}");
    }
    assert!(fs::read(&image).unwrap() == fs::read(&again).unwrap(), "bytes differ");
    assert_kept(|name| in_image(&image, name));
    fsck_clean(Path::new(&image));
}

#[test]
fn lists_of_archives() {
    let d = Dir::new();
    let path = d.path("a.tar");
    let mut tar = tar::Builder::new(fs::File::create(&path).unwrap());
    let access_text =
        "user::rwx,user:me:rw-:1001,group::r--,group:us:rw-:70000,mask::rw-,other::---";
    let default_text = "user::rwx\nuser:1002:r-x\ngroup::r-x\nmask::r-x\nother::---\n";
    let linux_form = linux::encode(&access());
    let mut add = |name: &str, directory: bool, mode: u32, pax: &[(&str, &[u8])]| {
        tar.append_pax_extensions(pax.iter().copied()).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(if directory {
            tar::EntryType::Directory
        } else {
            tar::EntryType::Regular
        });
        header.set_size(0);
        header.set_mode(mode);
        tar.append_data(&mut header, name, &b""[..]).unwrap();
    };
    let access_text = access_text.as_bytes();
    add("file", false, 0o4760, &[("SCHILY.acl.access", access_text)]);
    let both =
        [("SCHILY.acl.access", access_text), ("SCHILY.acl.default", default_text.as_bytes())];
    add("dir", true, 0o760, &both);
    add("plain", false, 0o664, &[("SCHILY.acl.access", b"user::rw-,group::rw-,other::r--")]);
    add("binary", false, 0o760, &[("SCHILY.xattr.system.posix_acl_access", &linux_form)]);
    // Names without numbers, and a list of another kind.
    add(
        "names",
        false,
        0o770,
        &[("SCHILY.acl.access", b"user::rwx,user:me:rwx,group::r--,mask::rwx,other::---")],
    );
    add("nfs4", false, 0o755, &[("SCHILY.acl.ace", b"owner@:rwx::allow,everyone@:r::allow")]);
    add("label", false, 0o644, &[("RHT.security.selinux", b"system_u:object_r:x:s0\0")]);
    tar.into_inner().unwrap();
    let (with, without) = (d.str("with.img"), d.str("without.img"));
    let stderr = stderr_of(&["build", "--acls", &with, path.to_str().unwrap()]);
    for words in [
        "1 access list turned into a narrower mode (names): ",
        "1 NFSv4 access list turned into a mode for the owner alone (nfs4): ",
        "1 security attribute not kept (label): ",
    ] {
        assert!(stderr.contains(words), "{words} not in {stderr}");
    }
    assert_kept(|name| in_image(&with, name));
    assert_eq!(in_image(&with, "binary"), seen(0o760, Some(access()), None));
    let stderr = stderr_of(&["build", &without, path.to_str().unwrap()]);
    assert!(stderr.contains("4 access lists turned into a narrower mode ("), "{stderr}");
    assert_narrowed(|name| in_image(&without, name));
    for image in [&with, &without] {
        assert_eq!(in_image(image, "names").perm, 0o700);
        assert_eq!(in_image(image, "nfs4").perm, 0o700);
        fsck_clean(Path::new(image));
    }
}

#[test]
fn a_copy_onto_a_file_with_a_list() {
    let d = Dir::new();
    let Some(tree) = tree(&d) else { return };
    let image = with_lists(&d, "a.img", &[]);
    let at = |name: &str| format!("{image}:/{name}");
    let plain = tree.join("plain");
    let plain = plain.to_str().unwrap();
    ok(&["cp", "-a", &format!("{}/.", tree.display()), &at("")]);
    // Without -p the list stays with the file, also with --atomic.
    for options in [&[][..], &["--atomic"]] {
        ok(&[&["cp"], options, &[plain, &at("file")]].concat());
        assert_eq!(in_image(&image, "file"), seen(0o4760, Some(access()), None), "{options:?}");
        ok(&[&["cp"], options, &[&at("plain"), tree.join("file").to_str().unwrap()]].concat());
        let wanted = seen(on_host(&tree.join("file")).perm, Some(access()), None);
        assert_eq!(on_host(&tree.join("file")), wanted, "{options:?}");
        assert_eq!(wanted.perm & 0o777, 0o760);
    }
    // With it the file has what the source has: no list.
    ok(&["cp", "-p", &at("plain"), tree.join("file").to_str().unwrap()]);
    assert_eq!(on_host(&tree.join("file")), seen(0o664, None, None));
    ok(&["cp", "-p", plain, &at("file")]);
    assert_eq!(in_image(&image, "file"), seen(0o664, None, None));
    // So with directories.
    ok(&["mkdir", "-m", "700", &at("new")]);
    ok(&["cp", "-aT", &at("new"), &at("dir")]);
    assert_eq!(in_image(&image, "dir"), seen(0o700, None, None));
    ok(&["cp", "-aT", &at("new"), tree.join("dir").to_str().unwrap()]);
    assert_eq!(on_host(&tree.join("dir")), seen(0o700, None, None));
    fsck_clean(Path::new(&image));
}

/// New directories: what mkdir(1) makes of the umask, and of a default list, on the host.
#[test]
fn new_directories_obey_the_umask_or_the_list() {
    let d = Dir::new();
    let Some(tree) = tree(&d) else { return };
    let image = with_lists(&d, "a.img", &[]);
    let host = tree.join("listed");
    fs::create_dir(&host).unwrap();
    set(&host, DEFAULT, &default());
    ok(&["cp", "-a", host.to_str().unwrap(), &format!("{image}:/listed")]);
    for mask in ["0", "027", "077"] {
        let name = |dir: &str| format!("{dir}/u{mask}");
        for dir in ["listed", "."] {
            let script = format!("umask {mask}; exec \"$@\"");
            let inside = format!("{image}:/{}", name(dir));
            let outside = tree.join(name(dir));
            let outside = outside.to_str().unwrap();
            for words in [[env!("CARGO_BIN_EXE_ffs"), "mkdir", &inside], ["env", "mkdir", outside]]
            {
                let made = Command::new("sh").args(["-c", &script, "sh"]).args(words).status();
                assert!(made.unwrap().success(), "{words:?}");
            }
            let (got, wanted) = (in_image(&image, &name(dir)), on_host(&tree.join(name(dir))));
            assert_eq!(got.perm, wanted.perm, "{dir}, umask {mask}");
        }
    }
    fsck_clean(Path::new(&image));
}

/// New files in a directory with a default list: what cp(1) of coreutils makes of it on the host.
#[test]
fn new_files_inherit() {
    let d = Dir::new();
    let Some(tree) = tree(&d) else { return };
    let image = with_lists(&d, "a.img", &[]);
    let at = |name: &str| format!("{image}:/{name}");
    let source = d.path("source");
    fs::create_dir_all(source.join("below")).unwrap();
    for (name, mode) in [("one", 0o666), ("two", 0o600), ("below/three", 0o777)] {
        fs::write(source.join(name), b"x").unwrap();
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let source = source.to_str().unwrap();
    for options in ["-R", "-a"] {
        let wanted = d.path(&format!("wanted{options}"));
        let got = d.path(&format!("got{options}"));
        for dir in [&wanted, &got] {
            fs::create_dir(dir).unwrap();
            set(dir, DEFAULT, &default());
        }
        let copied = Command::new("cp").arg(options).arg(source).arg(&wanted).status();
        assert!(copied.unwrap().success());
        let name = format!("got{options}");
        ok(&["cp", "-a", got.to_str().unwrap(), &at("")]);
        ok(&["cp", options, source, &at(&name)]);
        ok(&["cp", "-a", source, &at("")]);
        ok(&["cp", options, &at("source"), got.to_str().unwrap()]);
        for file in ["", "/one", "/two", "/below", "/below/three"] {
            let wanted = on_host(&wanted.join(format!("source{file}")));
            assert_eq!(
                in_image(&image, &format!("{name}/source{file}")),
                wanted,
                "{options} {file}"
            );
            assert_eq!(on_host(&got.join(format!("source{file}"))), wanted, "{options} {file}");
        }
    }
    drop(tree);
    fsck_clean(Path::new(&image));
}

#[test]
fn lists_that_the_volume_does_not_heed_are_left_out() {
    let d = Dir::new();
    let Some(tree) = tree(&d) else { return };
    let image = with_lists(&d, "a.img", &[]);
    ok(&["cp", "-a", tree.to_str().unwrap(), &format!("{image}:/t")]);
    ok(&["tunefs", "-a", "disable", &image]);
    let (to, out) = (with_lists(&d, "b.img", &[]), d.path("out"));
    for target in [format!("{to}:/t"), out.to_str().unwrap().to_owned()] {
        let stderr = stderr_of(&["cp", "-a", &format!("{image}:/t"), &target]);
        assert!(stderr.contains("3 access lists left out ("), "{stderr}");
        assert!(stderr.contains("/t/dir and 1 other file): "), "{stderr}");
    }
    // The mode is all that counted.
    for (name, perm) in KEPT {
        assert_eq!(in_image(&to, &format!("t/{name}")), seen(perm, None, None));
        assert_eq!(on_host(&out.join(name)), seen(perm, None, None));
    }
}

#[test]
fn a_list_that_is_too_long_for_a_volume_narrows_the_mode() {
    let d = Dir::new();
    let Some(tree) = tree(&d) else { return };
    let mut long = entries(&[(Who::UserObj, 7)]);
    long.extend((0..40).map(|n| Entry { who: Who::User(2000 + n), perm: 7 }));
    long.extend(entries(&[(Who::GroupObj, 5), (Who::Mask, 7), (Who::Other, 0)]));
    set(&tree.join("file"), ACCESS, &long);
    let image = with_lists(&d, "a.img", &[]);
    let stderr =
        stderr_of(&["cp", "-p", tree.join("file").to_str().unwrap(), &format!("{image}:/")]);
    assert!(stderr.contains("1 access list turned into a narrower mode (file): "), "{stderr}");
    assert_eq!(in_image(&image, "file"), seen(0o4750, None, None));
}

#[test]
fn nfs4_lists_are_kept_between_volumes_that_have_them() {
    let d = Dir::new();
    let nfs4 = |name: &str, options: &[&str]| {
        let image = d.image(name, "8m", options);
        ok(&["tunefs", "-N", "enable", &image]);
        image
    };
    let (one, two, none) =
        (nfs4("1.img", &[]), nfs4("2.img", &["--endian", "big"]), with_lists(&d, "3.img", &[]));
    ok(&["cp", &d.file("f", b"content"), &format!("{one}:/f")]);
    let mut list = vec![0; 24 + 254 * 16];
    for (at, word) in [(0, 254_u32), (4, 1), (24, 0x40), (28, u32::MAX), (32, 9)] {
        list[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    list[36..40].copy_from_slice(&[0, 1, 2, 0]);
    let system = XattrNamespace::System;
    with_file(&one, "f", |ffs, file| {
        ffs.setxattr(&Cred::root(), file, system, b"nfs4.acl", &list, XattrSet::Any).unwrap();
    });
    assert_eq!(stderr_of(&["cp", "-a", &format!("{one}:/f"), &format!("{two}:/f")]), "");
    let swapped = with_file(&two, "f", |ffs, file| {
        assert_eq!(ffs.getattr(file).perm, 0o644);
        ffs.getxattr(&Cred::root(), file, system, b"nfs4.acl").unwrap()
    });
    assert_eq!(swapped[..4], [0, 0, 0, 254]);
    assert_eq!(swapped[36..40], [1, 0, 0, 2]);
    let back = d.image("4.img", "8m", &[]);
    ok(&["tunefs", "-N", "enable", &back]);
    ok(&["cp", "-a", &format!("{two}:/f"), &format!("{back}:/f")]);
    let back = with_file(&back, "f", |ffs, file| {
        ffs.getxattr(&Cred::root(), file, system, b"nfs4.acl").unwrap()
    });
    assert!(back == list);
    let out = d.path("out");
    for target in [format!("{none}:/f"), out.to_str().unwrap().to_owned()] {
        let stderr = stderr_of(&["cp", "-a", &format!("{one}:/f"), &target]);
        assert!(
            stderr.contains("1 NFSv4 access list turned into a mode for the owner alone ("),
            "{stderr}"
        );
    }
    assert_eq!(in_image(&none, "f").perm, 0o600);
    assert_eq!(on_host(&out).perm, 0o600);
}

#[test]
fn name_spaces_that_cannot_be_kept_are_reported() {
    let d = Dir::new();
    let file = d.file("f", b"#!/bin/sh\n");
    if is_root() {
        std::os::unix::fs::chown(&file, Some(5), Some(6)).unwrap();
    }
    // A capability as setcap writes it.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    if rustix::fs::setxattr(&file, "security.capability", &capability, XattrFlags::empty()).is_err()
    {
        return println!("skipped: needs the right to set capabilities");
    }
    let mut known = [0; 64];
    let image = d.image("a.img", "8m", &[]);
    assert_eq!(stderr_of(&["cp", "-a", &file, &format!("{image}:/f")]), "");
    let back = d.str("back");
    assert_eq!(stderr_of(&["cp", "-a", &format!("{image}:/f"), &back]), "");
    let len = rustix::fs::getxattr(&back, "security.capability", &mut known[..]).unwrap();
    assert_eq!(known[..len], capability, "also of a file that was given away");
    // A new content does not have the rights of the old one, as with cp(1).
    for options in [&["cp"][..], &["cp", "--atomic"]] {
        ok(&["cp", "-a", &file, &format!("{image}:/f")]);
        ok(&[options, &[file.as_str(), &format!("{image}:/f")]].concat());
        let listed = ok(&["stat", &format!("{image}:/f")]);
        assert!(!listed.contains("capability"), "{options:?}: {listed}");
    }
    // UFS1 has no attributes.
    let old = d.image("old.img", "8m", &["-O", "1"]);
    let stderr = stderr_of(&["cp", "-a", &file, &format!("{old}:/")]);
    assert!(stderr.contains("1 security attribute not kept (f): "), "{stderr}");
    assert_eq!(stderr_of(&["cp", &file, &format!("{old}:/g")]), "", "cp(1) keeps none either");
}
