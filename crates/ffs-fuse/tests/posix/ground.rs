//! The file systems that are tested: volumes of ours in image files, mounted by a server in a
//! process of its own, or a directory that was given.

use crate::bench::Traits;
use crate::served::{self, Shape};
use crate::sys;
use ffs_ondisk::{Endian, Format};
use rustix::fs::{
    IFlags, OFlags, XattrFlags, ioctl_getflags, ioctl_setflags, removexattr, setxattr,
};
use std::path::{Path, PathBuf};
use std::process::Child;

/// A kind of volume to test, and how it is mounted.
pub(crate) struct Volume {
    pub(crate) name: &'static str,
    shape: Shape,
    options: &'static str,
}

/// Each also has another way to check permissions, to choose groups and to cache. None writes
/// synchronously: when metadata reaches the disk makes no difference to what is seen here, but to
/// the time it takes.
pub(crate) const VOLUMES: [Volume; 3] = [
    Volume {
        name: "ufs2",
        shape: (Format::Ufs2, Endian::Little, 16_384, 2048),
        options: "acls,async",
    },
    Volume {
        name: "ufs1-big-endian",
        shape: (Format::Ufs1, Endian::Big, 8192, 1024),
        options: "bsdgroups,async,nodefault_permissions",
    },
    Volume {
        name: "ufs2-writeback",
        shape: (Format::Ufs2, Endian::Little, 32_768, 4096),
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

    /// The features to test. Those of an ffs volume follow from its options; others are probed.
    pub(crate) fn traits(&self) -> Traits {
        let root = rustix::process::geteuid().is_root();
        match self.volume {
            Some(v) => {
                let new = v.shape.0 == Format::Ufs2;
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
                    writeback: served::caches_writes(v.options),
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

    /// Kills the server, even if callers wait for it.
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
    served::obstacle().or_else(|| {
        let image = Image::new(&VOLUMES[0], 4 << 20);
        Served::try_start(&image, "").map(Served::end).err()
    })
}

/// An image, and how it is mounted.
#[derive(Clone)]
pub(crate) struct Image {
    image: served::Image,
    options: &'static str,
}

impl Image {
    fn new(v: &'static Volume, bytes: u64) -> Image {
        Image { image: served::Image::of(v.shape, bytes), options: v.options }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.image.path()
    }
}

/// A mounted image and its server.
pub(crate) struct Served {
    image: served::Image,
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
        let (dir, options) = (image.image.mount_point(), format!("{},{options}", image.options));
        let started = served::start(&image.path(), &dir, &options);
        let (server, _) = started.map_err(|(words, _)| words)?;
        Ok(Served { image: image.image.clone(), dir, server, ended: false })
    }

    /// The mounted directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unmounts, waits for the server, and has the image checked.
    pub(crate) fn end(mut self) {
        self.image.unmount().unwrap();
        served::finish(&mut self.server);
        self.ended = true;
        self.image.check();
    }
}

impl Served {
    /// Ends the server by a signal, while files are open, and has the image checked.
    pub(crate) fn end_while_in_use(mut self) {
        let pid = rustix::process::Pid::from_child(&self.server);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.server.wait().unwrap().success());
        self.ended = true;
        self.image.check();
    }

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
