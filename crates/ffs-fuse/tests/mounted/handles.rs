//! File handles, as an NFS server uses them.

use crate::harness::{Image, errno};
use crate::{Test, sys};
use std::fs::{self, File};
use std::io::Read;

pub(crate) const TESTS: &[Test] = &[
    ("handles_outlive_the_cache", handles_outlive_the_cache),
    ("handles_of_removed_files_are_stale", handles_of_removed_files_are_stale),
];

fn read(mount: &File, h: &sys::Handle) -> std::io::Result<String> {
    let mut text = String::new();
    sys::open_by_handle(mount, h, libc::O_RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

fn handles_outlive_the_cache() {
    let image = Image::new();
    let m = image.mount("rw");
    fs::create_dir_all(m.path("a/b")).unwrap();
    fs::write(m.path("a/b/f"), b"text").unwrap();
    let f = sys::name_to_handle(&m.path("a/b/f")).unwrap();
    let b = sys::name_to_handle(&m.path("a/b")).unwrap();
    m.end();
    // The kernel's cache is empty, and the server is another process.
    let m = image.mount("rw");
    let root = File::open(m.path("")).unwrap();
    assert_eq!(read(&root, &f).unwrap(), "text");
    sys::drop_caches();
    // Opening a directory makes the kernel find its parents by "..".
    let dir = sys::open_by_handle(&root, &b, libc::O_RDONLY | libc::O_DIRECTORY).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&dir));
    assert_eq!(fs::read_link(path).unwrap(), m.path("a/b"));
    fs::rename(m.path("a/b/f"), m.path("moved")).unwrap();
    assert_eq!(read(&root, &f).unwrap(), "text");
    drop((dir, root));
    m.end();
}

fn handles_of_removed_files_are_stale() {
    let image = Image::new();
    let m = image.mount("rw");
    let root = File::open(m.path("")).unwrap();
    fs::write(m.path("f"), b"text").unwrap();
    let h = sys::name_to_handle(&m.path("f")).unwrap();
    fs::remove_file(m.path("f")).unwrap();
    assert_eq!(errno(read(&root, &h)), libc::ESTALE);
    // Another file with the same inode: the generation differs.
    fs::write(m.path("g"), b"other").unwrap();
    sys::drop_caches();
    assert_eq!(errno(read(&root, &h)), libc::ESTALE);
    drop(root);
    m.end();
}
