//! Images, servers and mounts for the tests.

use ffs_admin::fsck::{Fsck, FsckOptions, quick_check};
use ffs_device::{BlockDevice, FileDevice, SplitMix64, SystemClock};
use ffs_fuse::{
    Control, MountError, MountRequest, Mounted, UnmountRequest, mount_daemon, mount_foreground,
    parse_options, unmount_and_wait,
};
use ffs_ondisk::{Endian, Format};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Why nothing can be mounted here.
pub(crate) fn obstacle() -> Option<&'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse");
    }
    if !rustix::process::geteuid().is_root() {
        return Some("not root");
    }
    let dir = TempDir::new().unwrap();
    let probe =
        rustix::mount::mount("none", dir.path(), "tmpfs", rustix::mount::MountFlags::empty(), None);
    match probe {
        Ok(()) => {
            rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::empty()).unwrap();
            None
        }
        Err(_) => Some("may not mount"),
    }
}

/// `serve [-d] IMAGE DIR OPTIONS`: the server; says `ready` when it is mounted.
pub(crate) fn serve(arguments: &[OsString]) -> i32 {
    let background = arguments[0] == "-d";
    let [image, dir, options] = &arguments[usize::from(background)..] else { return 2 };
    let mut request = MountRequest::new(image, dir);
    request.like_mount = true;
    request.options = match parse_options(&[options.to_str().unwrap()]) {
        Ok(o) => o,
        Err(e) => return fail(&e),
    };
    let say = |m: &Mounted| {
        println!("ready {}", m.notes.join("; "));
    };
    let outcome = if background {
        mount_daemon(&request).map(|m| say(&m))
    } else {
        mount_foreground(&request, say)
    };
    match outcome {
        Ok(()) => 0,
        Err(e) => fail(&e),
    }
}

/// `ask DIR list` or `ask DIR set NAME VALUE`.
pub(crate) fn control(arguments: &[OsString]) -> i32 {
    let words: Vec<&str> = arguments[1..].iter().map(|a| a.to_str().unwrap()).collect();
    let outcome = Control::open(arguments[0].as_ref()).and_then(|control| match words[..] {
        ["set", name, value] => control.set(name, value).map(drop),
        _ => control.list().map(drop),
    });
    outcome.map_or_else(|e| fail(&e), |()| 0)
}

fn fail(e: &dyn std::error::Error) -> i32 {
    eprintln!("{e}");
    MountError::EXIT_CODE
}

/// Makes an image in a new file.
pub(crate) fn make(path: &Path, format: Format, bsize: u32, fsize: u32, bytes: u64) {
    use ffs_admin::newfs::{NewfsOptions, newfs};
    let dev = FileDevice::create_sparse(path, bytes).unwrap();
    let options = NewfsOptions {
        endian: Endian::Little,
        format: Some(format),
        bsize: Some(bsize),
        fsize: Some(fsize),
        ..NewfsOptions::default()
    };
    let rng = SplitMix64::new(1);
    newfs(&dev, &options, &SystemClock, &rng, &mut |_, _| {}).unwrap();
}

/// An image in a directory of its own, in which it is also mounted.
pub(crate) struct Image {
    dir: TempDir,
}

impl Image {
    /// 64 MiB of UFS2.
    pub(crate) fn new() -> Image {
        Image::of(Format::Ufs2, 16384, 2048, 64 << 20)
    }

    pub(crate) fn of(format: Format, bsize: u32, fsize: u32, bytes: u64) -> Image {
        let dir = TempDir::new().unwrap();
        // Other users go through it.
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("mnt")).unwrap();
        make(&dir.path().join("img"), format, bsize, fsize, bytes);
        Image { dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("img")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// Another name for this program.
    pub(crate) fn program_as(&self, name: &str) -> PathBuf {
        let link = self.dir.path().join(name);
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
        link
    }

    fn device(&self, write: bool) -> Arc<dyn BlockDevice> {
        Arc::new(FileDevice::open(&self.path(), write).unwrap())
    }

    /// The checker finds nothing at all.
    pub(crate) fn check(&self) {
        let findings = quick_check(&self.device(false));
        assert!(findings.is_empty(), "{findings:#?}");
    }

    /// `fsck -y`, and then nothing is left to find.
    pub(crate) fn repair(&self) {
        let report = Fsck::new(self.device(true), FsckOptions::yes()).run();
        assert!(report.clean, "{report:#?}");
        self.check();
    }

    /// Starts a server in the foreground.
    pub(crate) fn mount(&self, options: &str) -> Mnt<'_> {
        self.try_mount(options).unwrap()
    }

    /// Starts a server in the foreground; what it says if it cannot.
    pub(crate) fn try_mount(&self, options: &str) -> Result<Mnt<'_>, String> {
        self.serve(&self.path(), options)
    }

    /// Starts a server of `source` on this image's mount point.
    pub(crate) fn serve(&self, source: &Path, options: &str) -> Result<Mnt<'_>, String> {
        let mut server = Command::new(std::env::current_exe().unwrap())
            .arg("serve")
            .args([source, &self.mount_point()])
            .arg(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if let Some(notes) = line.strip_prefix("ready") {
            let notes = notes.trim().to_owned();
            return Ok(Mnt { image: self, server: Some(server), notes });
        }
        let mut words = String::new();
        server.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!(server.wait().unwrap().code(), Some(MountError::EXIT_CODE));
        Err(words.trim().to_owned())
    }

    pub(crate) fn unmount(&self) -> Result<(), MountError> {
        let mount_point = self.mount_point();
        unmount_and_wait(&UnmountRequest { mount_point, ..UnmountRequest::default() })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // A failed test may leave it mounted.
        let flags = rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(self.mount_point(), flags);
    }
}

/// A mounted image and its server.
pub(crate) struct Mnt<'i> {
    pub(crate) image: &'i Image,
    pub(crate) server: Option<Child>,
    /// What the user was told.
    pub(crate) notes: String,
}

impl Mnt<'_> {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.image.mount_point().join(name)
    }

    /// A new file, open for reading and writing.
    pub(crate) fn create(&self, name: &str) -> fs::File {
        let mut options = fs::File::options();
        options.read(true).write(true).create(true).truncate(true);
        options.open(self.path(name)).unwrap()
    }

    /// Sends the server a signal and waits for its end; its exit code, if it had one.
    pub(crate) fn signal(mut self, signal: rustix::process::Signal) -> Option<i32> {
        let mut server = self.server.take().unwrap();
        let pid = rustix::process::Pid::from_child(&server);
        rustix::process::kill_process(pid, signal).unwrap();
        server.wait().unwrap().code()
    }

    /// Unmounts, waits, and has the image checked.
    pub(crate) fn end(mut self) {
        self.image.unmount().unwrap();
        let mut server = self.server.take().unwrap();
        assert_eq!(server.wait().unwrap().code(), Some(0));
        let mut words = String::new();
        server.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!(words, "", "the server complained");
        self.image.check();
    }
}

impl Drop for Mnt<'_> {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Runs a shell script as another user, in `dir`.
pub(crate) fn as_user(id: u32, dir: &Path, script: &str) -> Output {
    Command::new("sh").arg("-c").arg(script).current_dir(dir).uid(id).gid(id).output().unwrap()
}

/// The error number of a failed call.
pub(crate) fn errno<T: std::fmt::Debug>(outcome: std::io::Result<T>) -> i32 {
    outcome.unwrap_err().raw_os_error().unwrap()
}

/// Bytes that depend on `seed`, none of them zero.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as u8 | 1
        })
        .collect()
}
