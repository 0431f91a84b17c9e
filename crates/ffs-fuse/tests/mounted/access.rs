//! Who may do what: permissions, set-id bits, access lists, attributes, flags.

use crate::harness::{Image, as_user, errno};
use crate::{Test, sys};
use ffs_ondisk::{Endian, Format};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

pub(crate) const TESTS: &[Test] = &[
    ("others_are_kept_out", others_are_kept_out),
    ("writing_drops_set_id_bits", writing_drops_set_id_bits),
    ("directories_pass_their_group_on", directories_pass_their_group_on),
    ("access_lists_grant_and_bound", access_lists_grant_and_bound),
    ("default_lists_are_inherited", default_lists_are_inherited),
    ("attributes_by_name_space", attributes_by_name_space),
    ("volumes_without_attributes_say_so", volumes_without_attributes_say_so),
    ("flags_bind_even_root", flags_bind_even_root),
];

const USER: u32 = 1234;
const OTHER: u32 = 4321;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn others_are_kept_out() {
    for options in ["rw", "nodefault_permissions"] {
        let image = Image::new();
        let m = image.mount(options);
        let root = m.path("");
        fs::write(m.path("secret"), b"s").unwrap();
        chmod(&m.path("secret"), 0o600);
        fs::create_dir(m.path("home")).unwrap();
        chown(m.path("home"), Some(USER), Some(USER)).unwrap();
        let ok = |id, script| as_user(id, &root, script).status.success();
        assert!(!ok(USER, "cat secret"), "{options}");
        assert!(!ok(USER, "echo x > new"), "{options}");
        assert!(!ok(USER, "rm -f secret"), "{options}");
        assert!(!ok(USER, "chmod 777 secret"), "{options}");
        assert!(ok(USER, "echo x > home/f && chmod 640 home/f && cat home/f"), "{options}");
        assert!(!ok(OTHER, "cat home/f"), "{options}");
        assert!(!ok(OTHER, "touch home/f"), "{options}");
        let meta = fs::metadata(m.path("home/f")).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (USER, USER, 0o640));
        chmod(&root, 0o1777);
        assert!(ok(USER, "echo x > mine"), "{options}");
        assert!(!ok(OTHER, "rm -f mine"), "{options}: sticky");
        m.end();
    }
}

fn writing_drops_set_id_bits() {
    for options in ["rw", "writeback"] {
        let image = Image::new();
        let m = image.mount(options);
        let f = m.path("f");
        let fresh = |bits| {
            fs::write(&f, b"text").unwrap();
            chown(&f, Some(USER), Some(USER)).unwrap();
            chmod(&f, bits);
            assert_eq!(mode(&f), bits);
        };
        fresh(0o6777);
        assert!(as_user(OTHER, &m.path(""), "echo more >> f").status.success());
        assert_eq!(mode(&f), 0o777, "{options}: written by another");
        fresh(0o6777);
        assert!(as_user(OTHER, &m.path(""), ": > f").status.success());
        assert_eq!(mode(&f), 0o777, "{options}: truncated by another");
        fresh(0o6777);
        fs::write(&f, b"by root").unwrap();
        assert_eq!(mode(&f), 0o6777, "{options}: root keeps them");
        fresh(0o2767);
        assert!(as_user(OTHER, &m.path(""), "echo more >> f").status.success());
        assert_eq!(mode(&f), 0o2767, "{options}: no group execution, no privilege");
        m.end();
    }
}

fn directories_pass_their_group_on() {
    let image = Image::new();
    let m = image.mount("rw");
    fs::create_dir(m.path("d")).unwrap();
    chown(m.path("d"), None, Some(77)).unwrap();
    chmod(&m.path("d"), 0o2777);
    assert!(as_user(USER, &m.path("d"), "echo x > f; mkdir sub").status.success());
    let f = fs::metadata(m.path("d/f")).unwrap();
    assert_eq!((f.uid(), f.gid()), (USER, 77));
    assert_eq!(fs::metadata(m.path("d/sub")).unwrap().gid(), 77);
    assert_eq!(mode(&m.path("d/sub")) & 0o2000, 0o2000);
    m.end();
    let m = image.mount("bsdgroups");
    fs::create_dir(m.path("b")).unwrap();
    chown(m.path("b"), Some(USER), Some(88)).unwrap();
    assert!(as_user(USER, &m.path("b"), "echo x > f").status.success());
    assert_eq!(fs::metadata(m.path("b/f")).unwrap().gid(), 88);
    m.end();
}

/// A list in Linux's form: (tag, permissions, id).
pub(crate) fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut b = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        b.extend(tag.to_le_bytes());
        b.extend(perm.to_le_bytes());
        b.extend(id.to_le_bytes());
    }
    b
}

pub(crate) const NO_ID: u32 = u32::MAX;
pub(crate) const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Owner rw, USER r, group none, mask r, others none.
fn reader() -> Vec<u8> {
    acl(&[(1, 6, NO_ID), (2, 4, USER), (4, 0, NO_ID), (16, 4, NO_ID), (32, 0, NO_ID)])
}

fn access_lists_grant_and_bound() {
    let image = Image::new();
    let m = image.mount("acls");
    let root = m.path("");
    let f = m.path("f");
    fs::write(&f, b"text").unwrap();
    chmod(&f, 0o600);
    assert_eq!(errno(sys::get_xattr(&f, ACCESS)), libc::ENODATA);
    assert!(!as_user(USER, &root, "cat f").status.success());
    sys::set_xattr(&f, ACCESS, &reader(), 0).unwrap();
    assert_eq!(mode(&f), 0o640, "the group bits show the mask");
    assert!(as_user(USER, &root, "cat f").status.success());
    assert!(!as_user(OTHER, &root, "cat f").status.success());
    assert_eq!(sys::get_xattr(&f, ACCESS).unwrap(), reader());
    assert_eq!(sys::list_xattrs(&f).unwrap(), [ACCESS]);
    m.end();
    let m = image.mount("acls");
    assert_eq!(sys::get_xattr(&f, ACCESS).unwrap(), reader());
    chmod(&f, 0o600);
    assert!(!as_user(USER, &root, "cat f").status.success(), "the mode closes the mask");
    assert_eq!(sys::get_xattr(&f, ACCESS).unwrap()[4 + 3 * 8 + 2], 0);
    sys::remove_xattr(&f, ACCESS).unwrap();
    assert_eq!(errno(sys::get_xattr(&f, ACCESS)), libc::ENODATA);
    assert_eq!(errno(sys::set_xattr(&f, ACCESS, &acl(&[(1, 6, NO_ID)]), 0)), libc::EINVAL);
    assert_eq!(errno(sys::set_xattr(&f, DEFAULT, &reader(), 0)), libc::EACCES);
    m.end();
    let m = image.mount("rw");
    assert_eq!(errno(sys::set_xattr(&f, ACCESS, &reader(), 0)), libc::EOPNOTSUPP);
    m.end();
}

fn default_lists_are_inherited() {
    let image = Image::new();
    let m = image.mount("acls");
    let d = m.path("d");
    fs::create_dir(&d).unwrap();
    sys::set_xattr(&d, DEFAULT, &reader(), 0).unwrap();
    // The mask of the process does not count where there is a default list.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    fs::write(d.join("f"), b"text").unwrap();
    fs::create_dir(d.join("sub")).unwrap();
    fs::write(m.path("plain"), b"").unwrap();
    rustix::process::umask(umask);
    assert_eq!(mode(&d.join("f")), 0o640);
    assert_eq!(mode(&m.path("plain")), 0o600);
    assert_eq!(sys::get_xattr(&d.join("f"), ACCESS).unwrap(), reader());
    assert_eq!(errno(sys::get_xattr(&d.join("f"), DEFAULT)), libc::ENODATA);
    assert_eq!(sys::get_xattr(&d.join("sub"), DEFAULT).unwrap(), reader());
    chmod(&d, 0o755);
    assert!(as_user(USER, &d, "cat f").status.success());
    sys::remove_xattr(&d, DEFAULT).unwrap();
    assert_eq!(errno(sys::get_xattr(&d, DEFAULT)), libc::ENODATA);
    m.end();
}

fn attributes_by_name_space() {
    let image = Image::new();
    let m = image.mount("rw");
    let f = m.path("f");
    fs::write(&f, b"").unwrap();
    sys::set_xattr(&f, "user.a", b"1", 0).unwrap();
    sys::set_xattr(&f, "user.long", &[7; 3000], 0).unwrap();
    sys::set_xattr(&f, "trusted.t", b"2", 0).unwrap();
    sys::set_xattr(&f, "security.x", b"3", 0).unwrap();
    assert_eq!(errno(sys::set_xattr(&f, "trusted.security.x", b"4", 0)), libc::EOPNOTSUPP);
    assert_eq!(errno(sys::set_xattr(&f, "user.a", b"", libc::XATTR_CREATE)), libc::EEXIST);
    assert_eq!(errno(sys::set_xattr(&f, "user.b", b"", libc::XATTR_REPLACE)), libc::ENODATA);
    m.end();
    let m = image.mount("rw");
    let mut names = sys::list_xattrs(&f).unwrap();
    names.sort();
    assert_eq!(names, ["security.x", "trusted.t", "user.a", "user.long"]);
    assert_eq!(sys::get_xattr(&f, "user.long").unwrap(), [7; 3000]);
    sys::remove_xattr(&f, "user.a").unwrap();
    assert_eq!(errno(sys::get_xattr(&f, "user.a")), libc::ENODATA);
    chmod(&f, 0o644);
    let seen = as_user(USER, &m.path(""), "getfattr -dm - f 2>/dev/null");
    assert!(!String::from_utf8_lossy(&seen.stdout).contains("trusted"));
    assert_eq!(sys::get_xattr(&f, "security.x").unwrap(), b"3");
    m.end();
}

fn volumes_without_attributes_say_so() {
    let image = Image::of((Format::Ufs1, Endian::Little, 8192, 1024), 16 << 20);
    let m = image.mount("acls");
    let f = m.path("f");
    fs::write(&f, b"").unwrap();
    assert_eq!(errno(sys::set_xattr(&f, "user.a", b"1", 0)), libc::EOPNOTSUPP);
    assert_eq!(sys::list_xattrs(&f).unwrap(), Vec::<String>::new());
    chmod(&f, 0o040);
    assert!(!as_user(USER, &m.path(""), "cat f").status.success());
    m.end();
}

fn flags_bind_even_root() {
    const IMMUTABLE: u32 = 0x10;
    const APPEND: u32 = 0x20;
    let image = Image::new();
    let m = image.mount("rw");
    let f = m.path("f");
    fs::write(&f, b"text").unwrap();
    let open = File::open(&f).unwrap();
    assert_eq!(sys::get_flags(&open).unwrap(), 0);
    sys::set_flags(&open, IMMUTABLE).unwrap();
    assert_eq!(sys::get_flags(&open).unwrap(), IMMUTABLE);
    assert_eq!(errno(File::options().write(true).open(&f)), libc::EPERM);
    assert_eq!(errno(fs::remove_file(&f)), libc::EPERM);
    assert_eq!(errno(fs::set_permissions(&f, Permissions::from_mode(0o600))), libc::EPERM);
    sys::set_flags(&open, APPEND).unwrap();
    assert_eq!(errno(File::create(&f)), libc::EPERM);
    assert_eq!(errno(File::options().write(true).open(&f)), libc::EPERM);
    std::io::Write::write_all(&mut File::options().append(true).open(&f).unwrap(), b"+").unwrap();
    assert_eq!(errno(sys::set_flags(&open, 0x8)), libc::EOPNOTSUPP);
    sys::set_flags(&open, 0).unwrap();
    drop(open);
    assert_eq!(fs::read(&f).unwrap(), b"text+");
    fs::remove_file(&f).unwrap();
    m.end();
}
