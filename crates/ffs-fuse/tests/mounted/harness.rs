//! Mounts for the tests, and what they ask of them.

use crate::served::{self, fail, finish, start};
pub(crate) use crate::served::{Image, caches_writes};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::QuotaType;
use ffs_fuse::{Control, MountError};
use ffs_ondisk::{Endian, Format};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

/// Why nothing can be mounted here.
pub(crate) fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    served::obstacle()
}

/// `ask DIR list`, `ask DIR set NAME VALUE` or `ask DIR quota UID`.
pub(crate) fn control(arguments: &[OsString]) -> i32 {
    let words: Vec<&str> = arguments[1..].iter().map(|a| a.to_str().unwrap()).collect();
    let outcome = Control::open(arguments[0].as_ref()).and_then(|control| match words[..] {
        ["set", name, value] => control.set(name, value).map(drop),
        ["quota", uid] => control.quota(QuotaType::User, uid.parse().unwrap()).map(drop),
        _ => control.list().map(drop),
    });
    outcome.map_or_else(|e| fail(&e), |()| 0)
}

/// Makes an image of UFS2 in a new file.
pub(crate) fn make(path: &Path, bytes: u64) {
    served::make(path, (Format::Ufs2, Endian::Little, 16384, 2048), bytes);
}

impl Image {
    /// 64 MiB of UFS2.
    pub(crate) fn new() -> Image {
        Image::of_bytes(64 << 20)
    }

    /// UFS2 of this many bytes, in a sparse file.
    pub(crate) fn of_bytes(bytes: u64) -> Image {
        Image::of((Format::Ufs2, Endian::Little, 16384, 2048), bytes)
    }

    /// Another name for this program.
    pub(crate) fn program_as(&self, name: &str) -> PathBuf {
        let link = self.home().join(name);
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
        link
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

    /// Starts a server in the foreground. Returns its error message if it fails.
    pub(crate) fn try_mount(&self, options: &str) -> Result<Mnt<'_>, String> {
        self.serve(&self.path(), options)
    }

    /// Starts a server of `source` on this image's mount point.
    pub(crate) fn serve(&self, source: &Path, options: &str) -> Result<Mnt<'_>, String> {
        match start(source, &self.mount_point(), options) {
            Ok((server, notes)) => Ok(Mnt { image: self, server: Some(server), notes }),
            Err((words, code)) => {
                assert_eq!(code, Some(MountError::EXIT_CODE));
                Err(words)
            }
        }
    }
}

/// A mounted image and its server.
pub(crate) struct Mnt<'i> {
    pub(crate) image: &'i Image,
    pub(crate) server: Option<Child>,
    /// The server's remarks.
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

    /// A counter of the server.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let values = Control::open(&self.image.mount_point()).unwrap().values().unwrap();
        let found = values.into_iter().find(|(n, _)| n == name);
        found.unwrap().1.parse().unwrap()
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
        finish(self.server.as_mut().unwrap());
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

/// Appends `bytes`, so that the server has them. `cached`: the kernel caches writes, and reports
/// what they lack only when it passes them on.
pub(crate) fn write_through(
    mut file: &fs::File,
    bytes: &[u8],
    cached: bool,
) -> std::io::Result<()> {
    file.write_all(bytes)?;
    if cached { file.sync_data() } else { Ok(()) }
}

/// Runs a shell script as another user, in `dir`.
pub(crate) fn as_user(id: u32, dir: &Path, script: &str) -> Output {
    Command::new("sh").arg("-c").arg(script).current_dir(dir).uid(id).gid(id).output().unwrap()
}

/// The error number of a failed call.
pub(crate) fn errno<T: std::fmt::Debug>(outcome: std::io::Result<T>) -> i32 {
    outcome.unwrap_err().raw_os_error().unwrap()
}

/// Whether a call failed because the server has ended. With io_uring the kernel cancels requests
/// until it has noticed that all of the server's threads have ended.
pub(crate) fn lost_server(e: &std::io::Error) -> bool {
    let expected = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED];
    e.raw_os_error().is_some_and(|errno| expected.contains(&errno))
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
