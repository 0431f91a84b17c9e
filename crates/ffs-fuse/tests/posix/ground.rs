//! The file systems that are tested: volumes of ours in image files, mounted by a server in a process of its
//! own, or a directory that was given.

use crate::bench::Traits;
use crate::sys;
use ffs_admin::fsck::quick_check;
use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_device::{BlockDevice, FileDevice, SplitMix64, SystemClock};
use ffs_fuse::{MountRequest, UnmountRequest, mount_foreground, parse_options, unmount_and_wait};
use ffs_ondisk::{Endian, Format};
use rustix::fs::{
    IFlags, OFlags, XattrFlags, ioctl_getflags, ioctl_setflags, removexattr, setxattr,
};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// A kind of volume to test, and how it is mounted.
pub(crate) struct Volume {
    pub(crate) name: &'static str,
    format: Format,
    endian: Endian,
    bsize: u32,
    fsize: u32,
    options: &'static str,
}

/// Each also has another way to check permissions, to choose groups and to cache. None writes synchronously:
/// when metadata reaches the disk makes no difference to what is seen here, but to the time it takes.
pub(crate) const VOLUMES: [Volume; 3] = [
    Volume {
        name: "ufs2",
        format: Format::Ufs2,
        endian: Endian::Little,
        bsize: 16_384,
        fsize: 2048,
        options: "acls,async",
    },
    Volume {
        name: "ufs1-big-endian",
        format: Format::Ufs1,
        endian: Endian::Big,
        bsize: 8192,
        fsize: 1024,
        options: "bsdgroups,async,nodefault_permissions",
    },
    Volume {
        name: "ufs2-writeback",
        format: Format::Ufs2,
        endian: Endian::Little,
        bsize: 32_768,
        fsize: 4096,
        options: "acls,writeback,async,threads=4",
    },
];

/// Where cases run.
pub(crate) struct Ground {
    volume: Option<&'static Volume>,
    served: Option<Served>,
    dir: PathBuf,
}

impl Ground {
    /// A directory on any file system.
    pub(crate) fn given(dir: &Path) -> Ground {
        Ground { volume: None, served: None, dir: dir.to_owned() }
    }

    /// A fresh volume of ours.
    pub(crate) fn image(volume: &'static Volume) -> Ground {
        let image = Image::new(volume, 160 << 20);
        let served = Served::start(&image, "");
        Ground { volume: Some(volume), dir: served.dir().to_owned(), served: Some(served) }
    }

    pub(crate) fn ours(&self) -> bool {
        self.volume.is_some()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Another image of the same kind.
    pub(crate) fn another(&self, bytes: u64) -> Image {
        Image::new(self.volume.unwrap(), bytes)
    }

    /// What can be tested here. What a volume of ours must offer is not asked for but known.
    pub(crate) fn traits(&self) -> Traits {
        let root = rustix::process::geteuid().is_root();
        match self.volume {
            Some(v) => {
                let new = v.format == Format::Ufs2;
                let acl = new && v.options.contains("acls");
                Traits {
                    root,
                    xattr: new,
                    acl,
                    flags: true,
                    wide_times: new,
                    birthtime: new,
                    kernel_checks: !v.options.contains("nodefault_permissions"),
                    narrow_devices: !new,
                    writeback: v.options.contains("writeback"),
                }
            }
            None => probe(&self.dir, root),
        }
    }

    /// Unmounts, and has the image checked.
    pub(crate) fn end(self) {
        if let Some(served) = self.served {
            served.end();
        }
    }

    /// Ends the server at once, whoever waits for it.
    pub(crate) fn abandon(&self) {
        if let Some(served) = &self.served {
            served.kill();
        }
    }
}

fn probe(dir: &Path, root: bool) -> Traits {
    let at = dir.join("probe");
    std::fs::write(&at, b"").unwrap();
    let user = setxattr(&at, "user.probe", b"1", XattrFlags::empty()).is_ok();
    let acl = removexattr(&at, "system.posix_acl_access");
    let f = sys::open(&at, OFlags::RDONLY, 0).unwrap();
    let flags = ioctl_getflags(&f).is_ok_and(|old| {
        root && ioctl_setflags(&f, IFlags::IMMUTABLE).is_ok() && ioctl_setflags(&f, old).is_ok()
    });
    let wide = sys::To::At((1 << 33, 5));
    let wide_times =
        sys::utimens(&at, wide, wide).is_ok() && sys::stat(&at).is_ok_and(|s| s.mtime.0 == 1 << 33);
    let birthtime = sys::birthtime(&at).is_ok_and(|t| t.is_some());
    std::fs::remove_file(&at).unwrap();
    let acl = matches!(acl, Ok(()) | Err(sys::Errno::NODATA));
    Traits {
        root,
        xattr: user,
        acl,
        flags,
        wide_times,
        birthtime,
        kernel_checks: true,
        narrow_devices: false,
        writeback: false,
    }
}

/// Why nothing can be mounted here.
pub(crate) fn obstacle() -> Option<String> {
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse".to_owned());
    }
    if rustix::process::geteuid().is_root() {
        let dir = TempDir::new().unwrap();
        let flags = rustix::mount::MountFlags::empty();
        let Err(e) = rustix::mount::mount("none", dir.path(), "tmpfs", flags, None) else {
            rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::empty()).unwrap();
            return None;
        };
        return Some(format!("root may not mount: {e}"));
    }
    let image = Image::new(&VOLUMES[0], 4 << 20);
    Served::try_start(&image, "").map(Served::end).err()
}

/// An image file.
#[derive(Clone)]
pub(crate) struct Image {
    home: Arc<TempDir>,
    options: &'static str,
}

impl Image {
    fn new(v: &'static Volume, bytes: u64) -> Image {
        let home = TempDir::new().unwrap();
        // Everybody goes through it.
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::create_dir(home.path().join("mnt")).unwrap();
        let image = Image { home: Arc::new(home), options: v.options };
        let dev = FileDevice::create_sparse(&image.path(), bytes).unwrap();
        let options = NewfsOptions {
            format: Some(v.format),
            endian: v.endian,
            bsize: Some(v.bsize),
            fsize: Some(v.fsize),
            ..NewfsOptions::default()
        };
        newfs(&dev, &options, &SystemClock, &SplitMix64::new(1), &mut |_, _| {}).unwrap();
        image
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.home.path().join("image")
    }

    fn mount_point(&self) -> PathBuf {
        self.home.path().join("mnt")
    }

    /// The checker finds nothing at all.
    fn check(&self) {
        let dev: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(&self.path(), false).unwrap());
        let findings = quick_check(&dev);
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

/// A mounted image and its server.
pub(crate) struct Served {
    image: Image,
    dir: PathBuf,
    server: Child,
    ended: bool,
}

impl Served {
    /// Mounts an image, with further options.
    pub(crate) fn start(image: &Image, options: &str) -> Served {
        Served::try_start(image, options).unwrap()
    }

    fn try_start(image: &Image, options: &str) -> Result<Served, String> {
        let dir = image.mount_point();
        let mut server = Command::new(std::env::current_exe().unwrap())
            .arg("--serve")
            .args([image.path(), dir.clone()])
            .arg(format!("{},{options}", image.options))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut words = String::new();
            server.stderr.take().unwrap().read_to_string(&mut words).unwrap();
            server.wait().unwrap();
            return Err(words.trim().to_owned());
        }
        Ok(Served { image: image.clone(), dir, server, ended: false })
    }

    /// The mounted directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unmounts, waits for the server, and has the image checked.
    pub(crate) fn end(mut self) {
        let request = UnmountRequest { mount_point: self.dir.clone(), ..UnmountRequest::default() };
        unmount_and_wait(&request).unwrap();
        let mut words = String::new();
        self.server.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        let status = self.server.wait().unwrap();
        self.ended = true;
        assert!(status.success() && words.is_empty(), "{status}: {words}");
        self.image.check();
    }
}

impl Served {
    fn kill(&self) {
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
            let _ = self.server.wait();
        }
    }
}

/// The server: `--serve IMAGE DIR OPTIONS`; says `ready` when it is mounted. Its exit code.
pub(crate) fn serve(arguments: &[OsString]) -> i32 {
    let [image, dir, options] = arguments else { return 2 };
    let mut request = MountRequest::new(image, dir);
    request.like_mount = true;
    let options = parse_options(&[options.to_str().unwrap()]);
    let done = options.map_err(|e| e.to_string()).and_then(|options| {
        request.options = options;
        mount_foreground(&request, |_| println!("ready")).map_err(|e| e.to_string())
    });
    match done {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("{e}");
            1
        }
    }
}
