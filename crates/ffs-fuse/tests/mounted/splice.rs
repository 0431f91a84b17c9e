//! Large writes whose content arrives by splice(2), where they fail: limits, and servers that lose
//! their pipes.

use crate::Test;
use crate::harness::{Image, Mnt, as_user, pattern};
use crate::sys::FORBID;
use ffs_core::{Cred, Dqblk, Env, Ffs, MountOptions, QuotaType, SetAttr};
use ffs_fuse::Control;
use std::fs;

pub(crate) const TESTS: &[Test] = &[
    ("a_limit_within_a_large_write", a_limit_within_a_large_write),
    ("a_full_volume_within_a_large_write", a_full_volume_within_a_large_write),
    ("a_server_without_pipes_copies", a_server_without_pipes_copies),
];

const USER: u32 = 4711;
/// Bytes of a write: one request.
const LARGE: u64 = 900 << 10;

/// Has a user write 10 times [`LARGE`] to a new file until it fails with `error`: what fits is in
/// the file, and each request counts once, also one that is tried again. Returns the bytes.
fn write_until(m: &Mnt<'_>, error: &str) -> u64 {
    let content = pattern(7, 10 * LARGE as usize);
    let source = m.image.home().join("source");
    fs::write(&source, &content).unwrap();
    let command = format!("dd if={} of=f bs={LARGE} 2>&1", source.display());
    let out = as_user(USER, &m.path(""), &command);
    let words = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(words.contains(error), "{words}");
    let got = fs::read(m.path("f")).unwrap();
    assert!(content.starts_with(&got), "the content is not that of the writes");
    let (size, writes) = (got.len() as u64, m.counter("vfs.fusefs.requests.WRITE"));
    // The last of them found no space for any of its bytes.
    assert_eq!(writes, size.div_ceil(LARGE) + 1, "{size} bytes");
    if m.counter("vfs.fusefs.writes_spliced") > 0 {
        // The first comes before large writes are expected. The last is not counted: it failed.
        assert_eq!(m.counter("vfs.fusefs.writes_spliced"), writes - 2);
    } else {
        let values = Control::open(&m.image.mount_point()).unwrap().values().unwrap();
        assert!(values.contains(&("vfs.ffs.transport".to_owned(), "io_uring".to_owned())));
    }
    size
}

/// A volume on which everyone may write.
fn open_to_all() -> Image {
    let image = Image::new();
    let fs = Ffs::mount(image.device(true), &MountOptions::default(), Env::system()).unwrap();
    fs.create_quota_file(QuotaType::User).unwrap();
    let open = SetAttr { perm: Some(0o777), ..SetAttr::default() };
    fs.setattr(&Cred::root(), &fs.root().unwrap(), &open).unwrap();
    fs.unmount().unwrap();
    image
}

fn a_limit_within_a_large_write() {
    let image = open_to_all();
    let m = image.mount("async,userquota,nowriteback");
    let control = Control::open(&image.mount_point()).unwrap();
    // In units of 512 bytes: 4.4 writes, and not a whole number of blocks.
    let limits = Dqblk { bhardlimit: 8001, ..Dqblk::default() };
    control.set_quota(QuotaType::User, USER, &limits).unwrap();
    let size = write_until(&m, "Disk quota exceeded");
    assert!(size > 4 * LARGE && size < 5 * LARGE, "{size} bytes");
    let used = control.quota(QuotaType::User, USER).unwrap().curblocks;
    // The rest is less than a block.
    assert!((8000 - 32..=8000).contains(&used), "{used} of 8000");
    drop(control);
    m.end();
}

fn a_full_volume_within_a_large_write() {
    let image = open_to_all();
    let m = image.mount("async,nowriteback");
    let free = rustix::fs::statvfs(m.path("")).unwrap();
    let used = free.f_bavail * free.f_frsize - 4 * LARGE - (500 << 10);
    assert!(as_user(USER, &m.path(""), &format!("fallocate -l {used} full")).status.success());
    let size = write_until(&m, "No space left on device");
    assert!(size > 4 * LARGE && size < 5 * LARGE, "{size} bytes");
    m.end();
}

/// The kernel refuses a pipe, or a transfer: each worker goes on by copying.
fn a_server_without_pipes_copies() {
    for call in ["pipe2", "splice"] {
        for threads in [1, 3] {
            let image = Image::new();
            let m = image.mount(&format!("async,io_uring=off,threads={threads},{FORBID}{call}"));
            let content = pattern(8, 9 << 20);
            std::thread::scope(|s| {
                for name in ["a", "b", "c"] {
                    let (m, content) = (&m, &content);
                    s.spawn(move || fs::write(m.path(name), content).unwrap());
                }
            });
            crate::sys::drop_caches();
            for name in ["a", "b", "c"] {
                assert!(fs::read(m.path(name)).unwrap() == content, "{call}, {threads}: {name}");
            }
            assert_eq!(m.counter("vfs.fusefs.writes_spliced"), 0, "{call}");
            assert_eq!(m.counter("vfs.fusefs.reads_spliced"), 0, "{call}");
            m.end();
        }
    }
}
