//! Mounting, unmounting, signals, locks, remounting.

use crate::harness::{self, Image, as_user, errno, pattern};
use crate::served::finish;
use crate::{Test, sys};
use ffs_admin::fsck::quick_check;
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_device::{BlockDevice, FileDevice};
use ffs_fuse::{Control, MountError};
use rustix::mount::{MountFlags, mount, mount_remount};
use rustix::process::Signal;
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

pub(crate) const TESTS: &[Test] = &[
    ("a_tree_survives_remounting", a_tree_survives_remounting),
    ("sigterm_leaves_a_clean_image", sigterm_leaves_a_clean_image),
    ("sigterm_ends_a_mount_that_is_in_use", sigterm_ends_a_mount_that_is_in_use),
    ("a_killed_server_leaves_what_fsck_repairs", a_killed_server_leaves_what_fsck_repairs),
    ("a_crashed_volume_is_mounted_at_once", a_crashed_volume_is_mounted_at_once),
    ("a_second_mount_names_the_holder", a_second_mount_names_the_holder),
    ("the_background_server_is_waited_for", the_background_server_is_waited_for),
    ("errors_reach_who_mounts", errors_reach_who_mounts),
    ("busy_mounts_say_so", busy_mounts_say_so),
    ("what_cannot_be_written_is_not_given_up", what_cannot_be_written_is_not_given_up),
    ("places_without_a_mount_say_what_they_are", places_without_a_mount_say_what_they_are),
    ("remounting_passes_through_the_helper", remounting_passes_through_the_helper),
    ("helpers_mount_and_unmount", helpers_mount_and_unmount),
    ("mount_and_umount_by_fstab", mount_and_umount_by_fstab),
    ("users_mount_with_fusermount", users_mount_with_fusermount),
    ("block_devices_are_fuseblk", block_devices_are_fuseblk),
];

fn a_tree_survives_remounting() {
    let image = Image::new();
    let m = image.mount("rw");
    fs::create_dir_all(m.path("a/b/c")).unwrap();
    fs::write(m.path("a/b/file"), b"contents").unwrap();
    fs::hard_link(m.path("a/b/file"), m.path("a/other")).unwrap();
    std::os::unix::fs::symlink("b/file", m.path("a/link")).unwrap();
    fs::rename(m.path("a/b/c"), m.path("a/d")).unwrap();
    m.end();
    let m = image.mount("rw");
    assert_eq!(fs::read(m.path("a/link")).unwrap(), b"contents");
    assert_eq!(fs::read(m.path("a/other")).unwrap(), b"contents");
    assert_eq!(fs::read_link(m.path("a/link")).unwrap().to_str(), Some("b/file"));
    assert!(m.path("a/d").is_dir() && !m.path("a/b/c").exists());
    fs::remove_dir_all(m.path("a")).unwrap();
    assert_eq!(fs::read_dir(m.path("")).unwrap().count(), 1, "only .snap");
    m.end();
}

fn sigterm_leaves_a_clean_image() {
    let image = Image::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let m = image.mount("writeback");
        let name = format!("by {signal:?}");
        fs::write(m.path(&name), vec![7; 300_000]).unwrap();
        assert_eq!(m.signal(signal), Some(0));
        image.check();
        let m = image.mount("ro");
        assert_eq!(fs::read(m.path(&name)).unwrap(), vec![7; 300_000]);
        m.end();
    }
}

fn sigterm_ends_a_mount_that_is_in_use() {
    let image = Image::new();
    let m = image.mount("rw");
    let mut f = fs::File::create(m.path("open")).unwrap();
    f.write_all(b"before").unwrap();
    assert_eq!(m.signal(Signal::TERM), Some(0));
    assert!(harness::lost_server(&f.sync_all().unwrap_err()));
    drop(f);
    image.check();
    let m = image.mount("ro");
    assert_eq!(fs::read(m.path("open")).unwrap(), b"before");
    m.end();
}

fn a_killed_server_leaves_what_fsck_repairs() {
    for options in ["sync", "async"] {
        let image = Image::new();
        let m = image.mount(options);
        fs::write(m.path("durable"), b"kept").unwrap();
        fs::File::open(m.path("durable")).unwrap().sync_all().unwrap();
        fs::File::open(m.path("")).unwrap().sync_all().unwrap();
        for i in 0..300 {
            fs::write(m.path(&format!("f{i}")), vec![i as u8; i * 50]).unwrap();
            if i % 3 == 0 {
                fs::remove_file(m.path(&format!("f{}", i / 2))).unwrap_or(());
            }
        }
        assert_eq!(m.signal(Signal::KILL), None);
        // The dead mount is taken away like any other; the lock has fallen with the server.
        image.unmount().unwrap();
        let m = image.mount("rw");
        assert!(m.notes.contains("not unmounted cleanly"), "{}", m.notes);
        assert_eq!(errno(fs::write(m.path("new"), b"")), libc::EROFS);
        assert!(fs::read_dir(m.path("")).unwrap().count() > 0);
        image.unmount().unwrap();
        image.repair();
        let m = image.mount("rw");
        assert_eq!(fs::read(m.path("durable")).unwrap(), b"kept");
        m.end();
    }
}

/// With soft updates a volume that was not unmounted can be mounted. The server prints that it was
/// not checked, until it is checked. It may crash and be mounted again.
fn a_crashed_volume_is_mounted_at_once() {
    const NOTE: &str = "mounted without a check";
    let image = Image::new();
    let soft = TunefsOptions { soft_updates: Some(true), ..TunefsOptions::default() };
    tunefs(&*image.device(true), &soft).unwrap();
    for round in 0..3 {
        let m = image.mount("rw");
        assert_eq!(m.notes.contains(NOTE), round > 0, "{}", m.notes);
        fs::write(m.path(&format!("f{round}")), b"kept").unwrap();
        fs::File::open(m.path(&format!("f{round}"))).unwrap().sync_all().unwrap();
        assert_eq!(m.signal(Signal::KILL), None);
        image.unmount().unwrap();
    }
    let mut m = image.mount("rw");
    assert!(m.notes.contains(NOTE), "{}", m.notes);
    image.unmount().unwrap();
    finish(m.server.as_mut().unwrap());
    let mut m = image.mount("rw");
    assert!(m.notes.contains(NOTE), "unmounting is no check: {}", m.notes);
    image.unmount().unwrap();
    finish(m.server.as_mut().unwrap());
    image.repair();
    let m = image.mount("rw");
    assert!(!m.notes.contains(NOTE), "{}", m.notes);
    for round in 0..3 {
        assert_eq!(fs::read(m.path(&format!("f{round}"))).unwrap(), b"kept");
    }
    m.end();
}

fn a_second_mount_names_the_holder() {
    let image = Image::new();
    let m = image.mount("rw");
    let other = Image::new();
    let pid = m.server.as_ref().unwrap().id().to_string();
    // The lock is waited for, in case its holder is just ending.
    let words = other.serve(&image.path(), "ro").err().unwrap();
    assert!(words.contains("in use by") && words.contains(&pid), "{words}");
    m.end();
    // Readers share it.
    let one = image.mount("ro");
    other.serve(&image.path(), "ro").unwrap();
    other.unmount().unwrap();
    one.end();
}

fn the_background_server_is_waited_for() {
    let image = Image::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["serve", "-d"]).args([image.path(), image.mount_point()]).arg("async");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = image.mount_point().join("big");
    fs::write(&file, vec![3; 20 << 20]).unwrap();
    image.unmount().unwrap();
    // No waiting for the lock: the server has ended.
    image.check();
}

fn errors_reach_who_mounts() {
    let image = Image::new();
    fs::write(image.path(), vec![0; 1 << 20]).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["serve", "-d"]).args([image.path(), image.mount_point()]).arg("rw");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(32));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("cannot mount") && words.contains("superblock"), "{words}");
    let words = image.serve(std::path::Path::new("/nonexistent"), "rw").err().unwrap();
    assert!(words.contains("/nonexistent") && words.contains("check the path"), "{words}");
}

fn busy_mounts_say_so() {
    let image = Image::new();
    let m = image.mount("rw");
    let f = fs::File::create(m.path("f")).unwrap();
    let words = image.unmount().unwrap_err().to_string();
    assert!(words.contains("is in use"), "{words}");
    drop(f);
    m.end();
    let words = image.unmount().unwrap_err().to_string();
    assert!(words.contains("nothing is mounted there"), "{words}");
}

/// A sparse image on a disk that is fuller than the image thinks.
fn what_cannot_be_written_is_not_given_up() {
    for options in ["async", "sync", "async,writeback"] {
        let image = Image::new();
        let disk = Tmpfs::new(3);
        let path = disk.0.path().join("img");
        harness::make(&path, 64 << 20);
        let mut m = image.serve(&path, options).unwrap();
        let content = pattern(3, 6 << 20);
        fs::write(m.path("f"), &content).unwrap();
        for _ in 0..2 {
            match image.unmount() {
                Err(e @ MountError::NotWritten { .. }) => {
                    assert!(e.to_string().contains("No space left on device; put that"), "{e}");
                }
                other => panic!("{options}: {other:?}"),
            }
            assert!(fs::read(m.path("f")).unwrap() == content, "{options}");
        }
        disk.grow(64);
        image.unmount().unwrap();
        finish(m.server.as_mut().unwrap());
        let dev: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(&path, false).unwrap());
        assert_eq!(quick_check(&dev), [], "{options}");
        let mut m = image.serve(&path, "ro").unwrap();
        assert!(fs::read(m.path("f")).unwrap() == content, "{options}");
        image.unmount().unwrap();
        finish(m.server.as_mut().unwrap());
    }
}

/// A small disk in memory.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(mib: u32) -> Tmpfs {
        let disk = Tmpfs(tempfile::tempdir().unwrap());
        let (none, size) = (MountFlags::empty(), Tmpfs::size(mib));
        mount("none", disk.0.path(), "tmpfs", none, size.as_c_str()).unwrap();
        disk
    }

    fn grow(&self, mib: u32) {
        mount_remount(self.0.path(), MountFlags::empty(), Tmpfs::size(mib)).unwrap();
    }

    fn size(mib: u32) -> CString {
        CString::new(format!("size={mib}m")).unwrap()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

fn places_without_a_mount_say_what_they_are() {
    let image = Image::new();
    let m = image.mount("rw");
    fs::create_dir(m.path("inside")).unwrap();
    let words = |path: &Path| Control::open(path).unwrap_err().to_string();
    let (inside, above) = (m.path("inside"), image.mount_point());
    let here = format!(
        "{}: nothing is mounted there; the mount is on {}",
        inside.display(),
        above.display()
    );
    assert_eq!(words(&inside), here);
    assert!(words(&image.path()).ends_with("not a directory that an image is mounted on"));
    assert!(words(&m.path("nowhere")).ends_with("No such file or directory"));
    assert!(
        words("/proc".as_ref()).ends_with("the file system mounted there is proc, not one of ffs")
    );
    m.end();
    assert!(words(&image.mount_point()).ends_with("nothing is mounted there"));
}

fn remounting_passes_through_the_helper() {
    let image = Image::new();
    let m = image.mount("rw");
    fs::write(m.path("f"), b"1").unwrap();
    let helper = image.program_as("mount.fuse.ffs");
    let remount = |how: &str| {
        let mut c = Command::new(&helper);
        c.args([image.path(), image.mount_point()]).args(["-o", how]);
        c.output().unwrap()
    };
    let open = fs::File::create(m.path("writing")).unwrap();
    assert_eq!(remount("remount,ro").status.code(), Some(32), "a file is open for writing");
    drop(open);
    let done = remount("remount,ro");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(errno(fs::write(m.path("g"), b"")), libc::EROFS);
    image.check();
    assert!(remount("remount,rw").status.success());
    fs::write(m.path("g"), b"2").unwrap();
    m.end();
}

fn helpers_mount_and_unmount() {
    let image = Image::new();
    let mount = image.program_as("mount.fuse.ffs");
    let umount = image.program_as("umount.fuse.ffs");
    let mut c = Command::new(mount);
    c.args([image.path(), image.mount_point()]).args([
        "-n",
        "-o",
        "rw,noatime,x-systemd.automount",
    ]);
    let done = c.stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::write(image.mount_point().join("f"), b"1").unwrap();
    let done = Command::new(umount).arg(image.mount_point()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    image.check();
}

/// With the helpers installed, mount(8) and umount(8) work by fstab. The test writes to `/sbin`, so
/// it runs only on request.
fn mount_and_umount_by_fstab() {
    let (mount, umount) = ("/sbin/mount.fuse.ffs", "/sbin/umount.fuse.ffs");
    if std::env::var_os("FFS_TEST_SBIN").is_none() || fs::exists(mount).unwrap() {
        println!("skipped: mount -t fuse.ffs: FFS_TEST_SBIN is not set");
        return;
    }
    let image = Image::new();
    for helper in [mount, umount] {
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), helper).unwrap();
    }
    let run = |program: &str, arguments: &[&str]| {
        let mut c = Command::new(program);
        let path = image.path();
        let point = image.mount_point();
        c.args(arguments.iter().map(|a| match *a {
            "IMAGE" => path.as_os_str(),
            "DIR" => point.as_os_str(),
            other => other.as_ref(),
        }));
        let done = c.output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let fstab = image.path().with_extension("fstab");
    let line = format!(
        "{} {} fuse.ffs defaults,async 0 0\n",
        image.path().display(),
        image.mount_point().display()
    );
    fs::write(&fstab, line).unwrap();
    let fstab = fstab.to_str().unwrap();
    let results = [
        run("mount", &["-T", fstab, "DIR"]),
        run("mount", &["-o", "remount,ro", "DIR"]),
        run("umount", &["DIR"]),
    ];
    for helper in [mount, umount] {
        fs::remove_file(helper).unwrap();
    }
    for (ok, words) in results {
        assert!(ok, "{words}");
    }
    image.check();
}

/// Without root, libfuse's set-user-id program mounts.
fn users_mount_with_fusermount() {
    const UNPRIVILEGED: u32 = 65534;
    let device = fs::metadata("/dev/fuse").unwrap().mode();
    if Command::new("fusermount3").arg("-V").output().is_err() || device & 0o006 != 0o006 {
        println!("skipped: mounting without root: no fusermount3, or /dev/fuse is for root only");
        return;
    }
    let image = Image::new();
    let owned = [image.path(), image.mount_point(), image.path().parent().unwrap().into()];
    for path in owned {
        chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
    }
    // The program may lie where others cannot see it.
    let program = image.path().with_extension("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let (path, point) = (image.path(), image.mount_point());
    let user = |script: &str| as_user(UNPRIVILEGED, std::path::Path::new("/"), script);
    let must = |script: &str| {
        let done = user(script);
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let serve = |options: &str| {
        let (image, point) = (path.display(), point.display());
        must(&format!("{} serve -d {image} {point} {options}", program.display()))
    };
    serve("async");
    let listed =
        as_user(UNPRIVILEGED, std::path::Path::new("/"), &format!("ls -a {}", point.display()));
    assert!(String::from_utf8_lossy(&listed.stdout).contains(".snap"));
    assert_eq!(errno(fs::read_dir(&point)), libc::EACCES, "not even root may look");
    let umount = image.program_as("umount.fuse.ffs");
    fs::remove_file(&umount).unwrap();
    std::os::unix::fs::symlink(&program, &umount).unwrap();
    let unmount = format!("{} {}", umount.display(), point.display());
    let at = |name: &str| point.join(name).display().to_string();
    // The root directory belongs to root.
    assert!(!user(&format!("touch {}", at("denied"))).status.success());
    must(&unmount);
    image.check();

    serve("async,fakeroot");
    let (file, dir) = (at("file"), at("dir"));
    must(&format!("echo text > {file}; chown 1001:1002 {file}; chmod 600 {file}"));
    must(&format!("mkdir -m 700 {dir}; touch {dir}/new; chown 5:6 {dir}; mv {file} {dir}/moved"));
    assert_eq!(
        must(&format!("cat {dir}/moved; stat -c %u:%g:%a {dir}/moved {dir}/new {dir}")),
        "text\n1001:1002:600\n0:0:644\n5:6:700\n"
    );
    must(&format!("test -w {dir}/moved && test -x {dir}"));
    make_devices(UNPRIVILEGED, &at("nodes"));
    must(&unmount);
    image.check();
    serve("async");
    assert!(!user(&format!("cat {dir}/moved")).status.success(), "the modes are as set");
    must(&unmount);
}

/// The kernel permits device nodes only to a process with the capability `CAP_MKNOD`; then the user
/// who mounts with `fakeroot` makes them where only root may write.
fn make_devices(user: u32, dir: &str) {
    let denied =
        as_user(user, std::path::Path::new("/"), &format!("mkdir {dir}; mknod {dir}/n c 1 3"));
    assert!(!denied.status.success(), "without the capability");
    let script =
        format!("mknod -m 640 {dir}/null c 1 3 && mknod {dir}/disk b 7 300 && mkfifo {dir}/p");
    let id = user.to_string();
    let made = Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .args(["--inh-caps", "+mknod", "--ambient-caps", "+mknod", "sh", "-c", &script])
        .output();
    let Ok(made) = made else {
        println!("skipped: device nodes: no setpriv");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let shown = format!("cd {dir} && stat -c '%F %t:%T %u:%g %a' null disk");
    let shown = as_user(user, std::path::Path::new("/"), &shown);
    assert_eq!(
        String::from_utf8_lossy(&shown.stdout),
        "character special file 1:3 0:0 640\nblock special file 7:12c 0:0 644\n"
    );
}

fn block_devices_are_fuseblk() {
    let image = Image::new();
    let made = Command::new("losetup").args(["-f", "--show"]).arg(image.path()).output();
    let device = match made {
        Ok(o) if o.status.success() => String::from_utf8(o.stdout).unwrap().trim().to_owned(),
        _ => {
            println!("skipped: fuseblk: no loop device");
            return;
        }
    };
    let m = image.serve(std::path::Path::new(&device), "async").unwrap();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|l| l.contains(image.mount_point().to_str().unwrap())).unwrap();
    assert!(line.contains(" fuseblk.ffs "), "{line}");
    fs::write(m.path("f"), vec![9; 10 << 20]).unwrap();
    // sync reaches the server: the file is on the device without an fsync.
    let root = fs::File::open(m.path("")).unwrap();
    rustix::fs::syncfs(&root).unwrap();
    drop(root);
    // And the kernel's own umount waits for the server's last write.
    sys::drop_caches();
    let flags = rustix::mount::UnmountFlags::empty();
    rustix::mount::unmount(image.mount_point(), flags).unwrap();
    image.check();
    let mut m = m;
    assert_eq!(m.server.take().unwrap().wait().unwrap().code(), Some(0));
    assert!(Command::new("losetup").args(["-d", &device]).status().unwrap().success());
}
