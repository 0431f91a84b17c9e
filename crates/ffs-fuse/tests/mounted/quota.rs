//! Quotas of a mount: what programs of users get, and the control channel.

use crate::Test;
use crate::harness::{Image, as_user, caches_writes};
use ffs_core::{Cred, Dqblk, Env, Ffs, Grace, MountOptions, QuotaType};
use ffs_fuse::{Control, MountError};
use std::fs;
use std::os::unix::fs::PermissionsExt;

pub(crate) const TESTS: &[Test] = &[
    ("quotas_stop_users_and_not_root", quotas_stop_users_and_not_root),
    ("a_cached_write_over_a_limit_fails", a_cached_write_over_a_limit_fails),
    ("a_cached_write_on_a_full_volume_fails", a_cached_write_on_a_full_volume_fails),
    ("limits_that_are_set_are_on_the_device", limits_that_are_set_are_on_the_device),
    ("quotas_are_turned_on_and_off", quotas_are_turned_on_and_off),
    ("a_mount_with_quotas_needs_the_files", a_mount_with_quotas_needs_the_files),
];

const USER: u32 = 4711;

/// An image with both quota files.
fn image() -> Image {
    let image = Image::new();
    let fs = Ffs::mount(image.device(true), &MountOptions::default(), Env::system()).unwrap();
    for kind in QuotaType::ALL {
        fs.create_quota_file(kind).unwrap();
    }
    let (root, cred) = (fs.root().unwrap(), Cred::root());
    let open = ffs_core::SetAttr { perm: Some(0o777), ..Default::default() };
    fs.setattr(&cred, &root, &open).unwrap();
    drop(root);
    fs.unmount().unwrap();
    image
}

fn quotas_stop_users_and_not_root() {
    for options in ["quota", "userquota,groupquota,writeback", "quota,softdep"] {
        let image = image();
        let m = image.mount(options);
        fs::set_permissions(m.path(""), PermissionsExt::from_mode(0o777)).unwrap();
        let control = Control::open(&image.mount_point()).unwrap();
        let limits = Dqblk { bhardlimit: 2001, ihardlimit: 4, ..Dqblk::default() };
        control.set_quota(QuotaType::User, USER, &limits).unwrap();
        let user = |script: &str| as_user(USER, &image.mount_point(), script);
        let write = "dd if=/dev/zero of=a bs=64k count=20 conv=fsync 2>&1";
        let out = String::from_utf8_lossy(&user(write).stdout).into_owned();
        assert!(out.contains("Disk quota exceeded"), "{options}: {out}");
        let files = user("touch b c d; ls");
        let words = String::from_utf8_lossy(&files.stderr).into_owned();
        assert!(words.contains("'d': Disk quota exceeded"), "{options}: {words}");
        let record = control.quota(QuotaType::User, USER).unwrap();
        assert!((1500..=2000).contains(&record.curblocks), "{options}: {record:?}");
        assert_eq!(record.curinodes, 3, "{options}");
        // Root writes to the user's file. With `writeback` the kernel does not say who wrote.
        fs::write(m.path("c"), vec![1; 3 << 20]).unwrap();
        let synced = fs::File::open(m.path("c")).unwrap().sync_all();
        let over = control.quota(QuotaType::User, USER).unwrap();
        let root_is_known = !caches_writes(options);
        assert_eq!(synced.is_ok(), root_is_known, "{options}");
        assert_eq!(over.curblocks > 2000 + 3000, root_is_known, "{options}: {over:?}");
        // The user sees the own record only.
        let program = image.program_as("asker").display().to_string();
        let at = image.mount_point().display().to_string();
        assert!(user(&format!("{program} ask {at} quota {USER}")).status.success());
        assert!(!user(&format!("{program} ask {at} quota 0")).status.success());
        assert!(user("rm a b c").status.success());
        assert!(user("echo x > a").status.success());
        m.end();
    }
}

/// The kernel sends one cached write of 1 MiB, of which the limit admits a part. The kernel ignores
/// a short reply to such a write, so the server must answer with the error.
fn a_cached_write_over_a_limit_fails() {
    let image = image();
    let m = image.mount("userquota,writeback");
    let control = Control::open(&image.mount_point()).unwrap();
    let limits = Dqblk { bhardlimit: 2001, ..Dqblk::default() };
    control.set_quota(QuotaType::User, USER, &limits).unwrap();
    let write = "dd if=/dev/zero of=a bs=1M count=1 conv=fsync 2>&1";
    let out = as_user(USER, &image.mount_point(), write);
    let words = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(words.contains("Disk quota exceeded"), "{words}");
    // To a close the kernel reports any error but a full volume as EIO.
    let write = "rm a; dd if=/dev/zero of=a bs=1M count=1 2>&1";
    let out = as_user(USER, &image.mount_point(), write);
    let words = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(!out.status.success() && words.contains("Input/output error"), "{words}");
    m.end();
}

/// As above, on a volume that has space for a part of the write.
fn a_cached_write_on_a_full_volume_fails() {
    let image = image();
    let m = image.mount("writeback");
    fs::set_permissions(m.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    let free = rustix::fs::statvfs(m.path("")).unwrap();
    // A user may use what is not reserved; 400 KiB of it stay free.
    let used = free.f_bavail * free.f_frsize - (400 << 10);
    let fill = format!("fallocate -l {used} full && dd if=/dev/zero of=a bs=1M count=1 conv=fsync");
    let out = as_user(USER, &image.mount_point(), &fill);
    let words = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && words.contains("No space left on device"), "{words}");
    let left = fs::metadata(m.path("a")).unwrap().len();
    // With space again the file can be written.
    let again = "rm full && dd if=/dev/zero of=a bs=1M count=1 conv=fsync";
    let out = as_user(USER, &image.mount_point(), again);
    assert!(out.status.success(), "{}: {left} {out:?}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(fs::read(m.path("a")).unwrap(), vec![0; 1 << 20]);
    m.end();
}

/// After [`Control::sync_quotas`] a server that is killed loses no limit.
fn limits_that_are_set_are_on_the_device() {
    let image = image();
    let m = image.mount("userquota");
    let control = Control::open(&image.mount_point()).unwrap();
    let limits = Dqblk { bhardlimit: 2001, ..Dqblk::default() };
    control.set_quota(QuotaType::User, 70_000, &limits).unwrap();
    control.sync_quotas().unwrap();
    drop(control);
    m.signal(rustix::process::Signal::KILL);
    let _ = image.unmount();
    image.repair();
    let m = image.mount("userquota");
    let control = Control::open(&image.mount_point()).unwrap();
    assert_eq!(control.quota(QuotaType::User, 70_000).unwrap().bhardlimit, 2001);
    drop(control);
    m.end();
}

fn quotas_are_turned_on_and_off() {
    let image = image();
    let m = image.mount("rw");
    let control = Control::open(&image.mount_point()).unwrap();
    let words = |r: Result<(), MountError>| match r {
        Err(MountError::Server(words)) => words,
        other => panic!("{other:?}"),
    };
    let none = Dqblk::default();
    assert!(words(control.set_quota(QuotaType::User, 1, &none)).contains("quotas are off"));
    for n in 0..100 {
        let path = m.path(&format!("f{n}"));
        fs::write(&path, b"x").unwrap();
        std::os::unix::fs::chown(&path, Some(1000 + n), None).unwrap();
    }
    control.quotaon(None).unwrap();
    assert!(words(control.quotaon(Some(QuotaType::Group))).contains("on already"));
    // More records than one reply has.
    let all = control.quotas(QuotaType::User).unwrap();
    let ids: Vec<u32> = all.iter().map(|(id, _)| *id).filter(|id| *id >= 1000).collect();
    assert_eq!(ids, (1000..1100).collect::<Vec<u32>>());
    assert!(all.iter().filter(|(id, _)| *id >= 1000).all(|(_, r)| r.curblocks == 4));
    control.set_quota_grace(QuotaType::Group, Grace { blocks: 60, inodes: 0 }).unwrap();
    let grace = control.quota_grace(QuotaType::Group).unwrap();
    assert_eq!(grace, Grace { blocks: 60, inodes: 604_800 });
    control.quotaoff(QuotaType::User).unwrap();
    assert!(control.quotas(QuotaType::User).is_err());
    assert!(words(control.quotaoff(QuotaType::User)).contains("quotaon"));
    m.end();
}

fn a_mount_with_quotas_needs_the_files() {
    let plain = Image::new();
    let refused = plain.try_mount("quota").err().unwrap();
    assert!(refused.contains("no quota file (quota.user, quota.group)"), "{refused}");
    plain.check();
    let image = image();
    let m = image.mount("rw");
    fs::write(m.path("quota.group"), b"not a quota file").unwrap();
    m.end();
    let refused = image.try_mount("quota").err().unwrap();
    assert!(refused.contains("quota file") && refused.contains("size is 16"), "{refused}");
    image.check();
    image.mount("userquota").end();
}
