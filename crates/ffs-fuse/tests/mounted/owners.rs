//! Owners and permissions that programs see, and those on the volume: `uid`, `gid`, `umask`,
//! `idmap`.

use crate::access::{self, ACCESS, NO_ID};
use crate::harness::{Image, Mnt, as_user, errno};
use crate::{Test, sys};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

pub(crate) const TESTS: &[Test] = &[
    ("every_file_is_mine", every_file_is_mine),
    ("a_umask_replaces_all_permissions", a_umask_replaces_all_permissions),
    ("maps_lead_there_and_back", maps_lead_there_and_back),
    ("access_lists_are_mapped", access_lists_are_mapped),
    ("a_user_mapped_to_root_is_not_root", a_user_mapped_to_root_is_not_root),
    ("root_stays_root", root_stays_root),
    ("set_id_bits_serve_no_other_user", set_id_bits_serve_no_other_user),
];

const ME: u32 = 1234;
const OTHER: u32 = 4321;
/// The id that Linux shows for ids without a range.
const OVERFLOW: u32 = 65534;

/// `OWNER:GROUP:MODE` of a file.
fn owner(m: &Mnt<'_>, name: &str) -> String {
    let meta = fs::symlink_metadata(m.path(name)).unwrap();
    format!("{}:{}:{:o}", meta.uid(), meta.gid(), meta.mode() & 0o7777)
}

/// Whether a script succeeds as user and group `id`, in the root directory of the mount.
fn can(m: &Mnt<'_>, id: u32, script: &str) -> bool {
    as_user(id, &m.path(""), script).status.success()
}

/// A volume as another machine left it.
fn foreign() -> Image {
    let image = Image::new();
    let m = image.mount("rw");
    fs::create_dir(m.path("home")).unwrap();
    fs::write(m.path("home/secret"), b"s").unwrap();
    fs::write(m.path("system"), b"s").unwrap();
    let script = "chmod 700 home; chmod 600 home/secret; chown -R 77:88 home; chmod 640 system";
    assert!(can(&m, 0, script));
    m.end();
    image
}

fn every_file_is_mine() {
    let image = foreign();
    let m = image.mount("uid=1234,gid=1234");
    assert_eq!(owner(&m, ""), "1234:1234:755");
    assert_eq!(owner(&m, "home/secret"), "1234:1234:600");
    assert!(can(&m, ME, "cat home/secret && echo x >> system && mkdir etc && echo x > etc/f"));
    assert!(can(&m, ME, "echo x > home/new && ln -s new home/link && mkfifo home/pipe"));
    assert!(can(
        &m,
        ME,
        "chmod 604 home/new && chown 1234:1234 home/new && mv home/new home/moved"
    ));
    assert!(can(&m, 0, "echo x > home/by-root"));
    assert!(!can(&m, OTHER, "cat home/secret"), "permissions apply to the others");
    assert!(!can(&m, OTHER, "echo x > new"));
    assert!(!can(&m, 0, "chown 5 system") && !can(&m, 0, "chgrp 5 system"));
    // `cp -a` and tar name the owner that they see.
    assert!(can(&m, ME, "cp -a home/secret home/copy && tar -c home | tar -xp -C etc"));
    m.end();

    let m = image.mount("ro");
    for (name, wanted) in [
        ("system", "0:0:640"),
        ("etc", "0:0:755"),
        ("etc/f", "0:0:644"),
        ("home/secret", "77:88:600"),
        ("home/moved", "77:88:604"),
        ("home/link", "77:88:777"),
        ("home/pipe", "77:88:644"),
        ("home/by-root", "77:88:644"),
        ("home/copy", "77:88:600"),
        ("etc/home/secret", "0:0:600"),
    ] {
        assert_eq!(owner(&m, name), wanted, "{name}");
    }
    m.end();

    // The user alone: groups are those of the volume and of the caller.
    let m = image.mount("uid=1234");
    assert_eq!(owner(&m, "home/secret"), "1234:88:600");
    assert!(can(&m, ME, "echo x > home/mixed"));
    m.end();
    let m = image.mount("ro");
    assert_eq!(owner(&m, "home/mixed"), "77:1234:644");
    m.end();
}

fn a_umask_replaces_all_permissions() {
    let image = foreign();
    let m = image.mount("umask=022");
    assert_eq!(owner(&m, "home/secret"), "77:88:755");
    assert!(can(&m, OTHER, "cat home/secret") && !can(&m, OTHER, "echo x >> home/secret"));
    assert!(can(&m, 77, "echo x >> home/secret && chmod 4711 home/secret"));
    assert_eq!(owner(&m, "home/secret"), "77:88:755", "set-id bits are not shown");
    m.end();
    let m = image.mount("umask=0");
    assert!(can(&m, OTHER, "umask 027; echo x > home/new; mkdir home/dir"));
    assert_eq!(owner(&m, "home/new"), "4321:4321:777");
    m.end();
    let m = image.mount("ro");
    assert_eq!(owner(&m, "home/secret"), "77:88:4711", "what was set is on the volume");
    assert_eq!(owner(&m, "home/new"), "4321:4321:640");
    assert_eq!(owner(&m, "home/dir"), "4321:4321:750");
    m.end();
}

fn maps_lead_there_and_back() {
    let image = foreign();
    for checks in ["", ",nodefault_permissions"] {
        let maps = "idmap=u:77:1234:1,idmap=g:88:1234:1 b:1000:2000:10";
        let m = image.mount(&format!("{maps}{checks}"));
        assert_eq!(owner(&m, "home/secret"), "1234:1234:600", "{checks}");
        assert_eq!(owner(&m, "system"), "4294967294:4294967294:640", "{checks}: root has no range");
        assert!(can(&m, ME, "cat home/secret && echo x > home/new && chmod 640 home/new"));
        assert!(!can(&m, ME, "cat system") && !can(&m, OTHER, "cat home/secret"), "{checks}");
        assert!(can(&m, 0, "cat system && mkdir -m 777 tmp && chown 2003:2009 tmp"), "{checks}");
        assert_eq!(owner(&m, "tmp"), "2003:2009:777", "{checks}");
        assert!(can(&m, 2009, "echo x > tmp/nine"), "{checks}");
        let denied = as_user(OTHER, &m.path(""), "LC_ALL=C mkdir tmp/four");
        let words = String::from_utf8_lossy(&denied.stderr).into_owned();
        assert!(words.contains("Value too large"), "{checks}: {words}");
        assert!(!can(&m, OTHER, "ln -s a tmp/four"), "{checks}");
        assert!(!can(&m, 0, "chown 4321 system"), "{checks}: no id on the volume");
        assert!(!can(&m, OVERFLOW, "cat system"), "{checks}: another user has that id");
        m.end();
        let m = image.mount("ro");
        assert_eq!(owner(&m, "home/new"), "77:88:640", "{checks}");
        assert_eq!(owner(&m, "tmp"), "1003:1009:777", "{checks}");
        assert_eq!(owner(&m, "tmp/nine"), "1009:1009:644", "{checks}");
        m.end();
        let m = image.mount("rw");
        assert!(can(&m, 0, "rm -r tmp home/new"));
        m.end();
    }
}

/// A list for two users and a group.
fn list(users: [u32; 2], group: u32) -> Vec<u8> {
    let own = [(1, 6, NO_ID), (2, 6, users[0]), (2, 4, users[1]), (4, 4, NO_ID)];
    access::acl(&[&own[..], &[(8, 6, group), (16, 6, NO_ID), (32, 0, NO_ID)]].concat())
}

fn access_lists_are_mapped() {
    let image = foreign();
    let m = image.mount("acls,idmap=b:0:0:1 u:77:1234:1 b:500:1600:2");
    let shown = |m: &Mnt<'_>| sys::get_xattr(&m.path("system"), ACCESS).unwrap();
    let set = |m: &Mnt<'_>, list: &[u8]| sys::set_xattr(&m.path("system"), ACCESS, list, 0);
    set(&m, &list([ME, 1600], 1601)).unwrap();
    assert_eq!(shown(&m), list([ME, 1600], 1601));
    assert!(can(&m, ME, "echo x >> system") && can(&m, 1600, "cat system"));
    assert!(can(&m, 1601, "echo x >> system") && !can(&m, OTHER, "cat system"));
    assert_eq!(errno(set(&m, &list([ME, OTHER], 1601))), libc::EINVAL, "no id on the volume");
    m.end();
    let m = image.mount("ro,acls");
    assert_eq!(shown(&m), list([77, 500], 501));
    m.end();
    let m = image.mount("acls,uid=9");
    assert_eq!(shown(&m), list([77, 500], 501), "uid is of owners");
    m.end();
    let m = image.mount("ro,acls,umask=066");
    assert!(!can(&m, 500, "cat system"), "a list does not exceed the mask");
    m.end();
}

fn a_user_mapped_to_root_is_not_root() {
    let image = foreign();
    let m = image.mount("rw");
    for (name, owner) in [("of-another", OTHER), ("of-no-id", u32::MAX - 1)] {
        fs::write(m.path(name), b"s").unwrap();
        assert!(can(&m, 0, &format!("chmod 600 {name}")));
        chown(m.path(name), Some(owner), Some(owner)).unwrap();
    }
    m.end();
    for checks in ["", ",nodefault_permissions"] {
        let m = image.mount(&format!("idmap=u:0:1234:1,idmap=u:500:500:1{checks}"));
        assert!(
            can(&m, ME, "cat system && echo x > mine && chmod 600 mine && rm mine"),
            "{checks}"
        );
        for script in ["cat of-another", "cat of-no-id", "cat home/secret", "chown 500 system"] {
            assert!(!can(&m, ME, script), "{checks}: {script}");
        }
        for id in [OTHER, u32::MAX - 1] {
            for name in ["of-another", "of-no-id"] {
                // The kernel compares the owner that it is shown.
                let is_shown = checks.is_empty() && id == u32::MAX - 1;
                assert!(!can(&m, id, &format!("cat {name}")) || is_shown, "{checks}: {id} {name}");
            }
        }
        m.end();
    }
}

fn root_stays_root() {
    let image = foreign();
    for options in ["uid=1234,gid=1234", "uid=0", "idmap=u:5000:0:1", "idmap=b:77:1:1"] {
        for checks in ["", ",nodefault_permissions"] {
            if !checks.is_empty() && !options.starts_with("idmap") {
                continue;
            }
            let m = image.mount(&format!("{options}{checks}"));
            assert!(can(&m, 0, "cat system home/secret"), "{options}{checks}");
            assert!(can(&m, 0, "chattr +i system && chattr -i system"), "{options}{checks}");
            m.end();
        }
    }
    // A whiteout is a new file, too.
    let m = image.mount("uid=1234,gid=1234");
    fs::write(m.path("home/a"), b"").unwrap();
    let (from, to) = (m.path("home/a"), m.path("home/b"));
    let whiteout = rustix::fs::RenameFlags::WHITEOUT;
    rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, whiteout).unwrap();
    m.end();
    let m = image.mount("ro");
    assert_eq!(owner(&m, "home/a"), "77:88:0");
    m.end();
}

fn set_id_bits_serve_no_other_user() {
    let image = foreign();
    let m = image.mount("uid=1234,gid=1234");
    assert!(can(&m, ME, "echo x > f && chmod 6755 f && chown 1234 f"));
    assert_eq!(owner(&m, "f"), "1234:1234:755", "as chown does it everywhere");
    assert!(can(&m, ME, "mkdir -m 777 all && chmod 4755 f"));
    let script = "python3 -c \"import os; os.open('all/g', os.O_CREAT | os.O_WRONLY, 0o6755)\"";
    if can(&m, OTHER, script) {
        assert_eq!(owner(&m, "all/g"), "1234:1234:755", "of a user whose file it is not");
    } else {
        println!("skipped: set-id bits of new files: no python3");
    }
    m.end();
    for options in ["umask=0", "umask=0,writeback"] {
        let m = image.mount("rw");
        assert!(can(&m, 0, "chmod 4777 f; echo long text > f; chmod 4777 f"));
        m.end();
        let m = image.mount(options);
        assert!(can(&m, OTHER, "printf new | dd of=f conv=notrunc 2>/dev/null; sync f"));
        m.end();
        let m = image.mount("ro");
        assert_eq!(owner(&m, "f"), "0:0:777", "{options}");
        m.end();
    }
    // As fstab mounts for root.
    let mount = image.program_as("mount.fuse.ffs");
    for (options, wanted) in [("uid=1234", true), ("rw", false), ("uid=1234,suid,dev", false)] {
        let mut command = Command::new(&mount);
        command.arg(image.path()).arg(image.mount_point()).args(["-o", options]);
        assert!(command.status().unwrap().success(), "{options}");
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = table.lines().find(|l| l.contains(image.mount_point().to_str().unwrap()));
        let found = line.is_some_and(|l| l.contains("nosuid") && l.contains("nodev"));
        assert_eq!(found, wanted, "{options}: {line:?}");
        image.unmount().unwrap();
    }
}
