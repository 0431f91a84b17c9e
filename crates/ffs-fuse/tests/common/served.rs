//! Images, each in a directory of its own, and their servers, each in a process of its own.
//!
//! A server is the test program, called with `serve`. The tests can kill it, and it forks while it
//! has one thread. It prints `ready` and its remarks on standard output, and errors on standard
//! error.
//!
//! `FFS_FUSE_TRANSPORT=io_uring` makes all requests pass over io_uring, `dev` over `/dev/fuse`, in
//! mounts whose options do not decide it. Without it the server decides. `FFS_FUSE_OPTIONS` has
//! more options for every mount, such as `writeback`.
#![allow(dead_code, reason = "each program of tests uses a part")]

use ffs_admin::fsck::quick_check;
use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_device::{BlockDevice, FileDevice, SplitMix64, SystemClock};
use ffs_fuse::{
    MountError, MountRequest, Mounted, UnmountRequest, mount_daemon, mount_foreground,
    parse_options, unmount_and_wait,
};
use ffs_ondisk::{Endian, Format};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Format, byte order, bytes of a block and of a fragment.
pub(crate) type Shape = (Format, Endian, u32, u32);

/// The way of requests over io_uring, as `FFS_FUSE_TRANSPORT` has it.
const IO_URING: &str = "io_uring";
/// The remark on such a mount.
pub(crate) const OVER_IO_URING: &str = "requests pass over io_uring";

/// Whether the kernel offers FUSE over io_uring.
pub(crate) fn offers_io_uring() -> bool {
    let switch = fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    switch.is_ok_and(|value| value.trim() == "Y")
}

/// Options for every mount, before those of the test, which override them.
fn more_options() -> String {
    std::env::var("FFS_FUSE_OPTIONS").unwrap_or_default()
}

/// Whether the kernel caches writes on a mount with these options of a test.
pub(crate) fn caches_writes(options: &str) -> bool {
    let more = more_options();
    let mut words = more.split(',').chain(options.split(',')).rev();
    words.find(|word| word.ends_with("writeback")) == Some("writeback")
}

/// The value of `FFS_FUSE_TRANSPORT`.
fn transport() -> Option<String> {
    let name = std::env::var("FFS_FUSE_TRANSPORT").ok()?;
    assert!(name == IO_URING || name == "dev", "FFS_FUSE_TRANSPORT: io_uring or dev");
    Some(name)
}

/// Why root can mount nothing here; others may, with `fusermount3`.
pub(crate) fn obstacle() -> Option<String> {
    if transport().is_some_and(|t| t == IO_URING) && !offers_io_uring() {
        return Some("the kernel does not offer FUSE over io_uring".to_owned());
    }
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let dir = TempDir::new().unwrap();
    match rustix::mount::mount("none", dir.path(), "tmpfs", MountFlags::empty(), None) {
        Ok(()) => {
            rustix::mount::unmount(dir.path(), UnmountFlags::empty()).unwrap();
            None
        }
        Err(e) => Some(format!("root may not mount: {e}")),
    }
}

/// Makes an image in a new file.
pub(crate) fn make(path: &Path, (format, endian, bsize, fsize): Shape, bytes: u64) {
    let dev = FileDevice::create_sparse(path, bytes).unwrap();
    let options = NewfsOptions {
        endian,
        format: Some(format),
        bsize: Some(bsize),
        fsize: Some(fsize),
        ..NewfsOptions::default()
    };
    newfs(&dev, &options, &SystemClock, &SplitMix64::new(1), &mut |_, _| {}).unwrap();
}

/// An image, and a directory to mount it on.
#[derive(Clone)]
pub(crate) struct Image(Arc<Home>);

struct Home(TempDir);

impl Image {
    pub(crate) fn of(shape: Shape, bytes: u64) -> Image {
        let home = Home(TempDir::new().unwrap());
        // Other users go through it.
        fs::set_permissions(home.0.path(), PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(home.mount_point()).unwrap();
        let image = Image(Arc::new(home));
        make(&image.path(), shape, bytes);
        image
    }

    /// The directory that both are in.
    pub(crate) fn home(&self) -> &Path {
        self.0.0.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.home().join("img")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.0.mount_point()
    }

    pub(crate) fn device(&self, write: bool) -> Arc<dyn BlockDevice> {
        Arc::new(FileDevice::open(&self.path(), write).unwrap())
    }

    /// The checker finds nothing at all.
    pub(crate) fn check(&self) {
        let findings = quick_check(&self.device(false));
        assert!(findings.is_empty(), "{findings:#?}");
    }

    pub(crate) fn unmount(&self) -> Result<(), MountError> {
        let mount_point = self.mount_point();
        unmount_and_wait(&UnmountRequest { mount_point, ..UnmountRequest::default() })
    }
}

impl Home {
    fn mount_point(&self) -> PathBuf {
        self.0.path().join("mnt")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A failed test may leave it mounted.
        let _ = rustix::mount::unmount(self.mount_point(), UnmountFlags::DETACH);
    }
}

/// Starts a server in the foreground. Returns it and its remarks, or its error message and exit
/// code.
pub(crate) fn start(
    image: &Path,
    dir: &Path,
    options: &str,
) -> Result<(Child, String), (String, Option<i32>)> {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .args([image, dir])
        .arg(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if let Some(notes) = line.strip_prefix("ready") {
        return Ok((server, notes.trim().to_owned()));
    }
    let words = complaints(&mut server);
    Err((words.trim().to_owned(), server.wait().unwrap().code()))
}

/// Waits for the end of a server that has nothing to complain of.
pub(crate) fn finish(server: &mut Child) {
    let words = complaints(server);
    let status = server.wait().unwrap();
    assert!(status.success() && words.is_empty(), "{status}: {words}");
}

fn complaints(server: &mut Child) -> String {
    let mut words = String::new();
    server.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    words
}

/// `serve [-d] IMAGE DIR OPTIONS`: the server, with `-d` in the background. Its exit code.
pub(crate) fn serve(arguments: &[OsString]) -> i32 {
    let background = arguments.first().is_some_and(|a| a == "-d");
    let [image, dir, options] = &arguments[usize::from(background)..] else { return 2 };
    let mut request = MountRequest::new(image, dir);
    request.like_mount = true;
    let words = options.to_str().unwrap();
    let chosen = transport().filter(|_| !words.contains(IO_URING));
    let way = match chosen.as_deref() {
        Some(IO_URING) => "io_uring=on",
        Some(_) => "io_uring=off",
        None => "",
    };
    request.options = match parse_options(&[&more_options(), words, way]) {
        Ok(o) => o,
        Err(e) => return fail(&e),
    };
    let say = |m: &Mounted| {
        let mut notes = m.notes.clone();
        if chosen.is_some() {
            notes.retain(|note| note != OVER_IO_URING);
        }
        println!("ready {}", notes.join("; "));
    };
    let outcome = if background {
        mount_daemon(&request).map(|m| say(&m))
    } else {
        mount_foreground(&request, say)
    };
    outcome.map_or_else(|e| fail(&e), |()| 0)
}

/// Prints the error, and returns the exit code.
pub(crate) fn fail(e: &dyn std::error::Error) -> i32 {
    eprintln!("{e}");
    MountError::EXIT_CODE
}
