//! The name of the image that `ffs shell` holds open, and the current directory in it.
//!
//! # Invariants
//! 1. Without a shell there is no current image, and no function here changes what a command does.
//! 2. With a shell each argument that a command takes for a path in an image is in the current
//!    image: an absolute path, a path from the current directory, or an inode number (`#1234`). The
//!    empty argument is the current directory.
//! 3. The path of the current directory has no symbolic link, so `..` at the beginning of a path
//!    removes its last name.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path;

use bsdffs::namei::join;
use ffs_image::is_uri;

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

struct Current {
    image: OsString,
    /// The snapshot of the current directory with a colon, `/.snap/NAME:`, or nothing.
    snapshot: Vec<u8>,
    /// The current directory in the volume or in the snapshot.
    dir: Vec<u8>,
}

fn with<T>(get: impl FnOnce(&mut Current) -> T) -> Option<T> {
    CURRENT.with_borrow_mut(|current| current.as_mut().map(get))
}

/// Makes `image` the current image, and its root the current directory.
pub(crate) fn set(image: OsString) {
    CURRENT.set(Some(Current { image, snapshot: Vec::new(), dir: b"/".to_vec() }));
}

/// After this call no image is the current one.
pub(crate) fn unset() {
    CURRENT.set(None);
}

/// Whether there is a current image: the command runs in a shell.
pub(crate) fn in_shell() -> bool {
    with(|_| ()).is_some()
}

/// Whether `image` is the current one.
pub(crate) fn is(image: &OsStr) -> bool {
    with(|current| current.image == image).unwrap_or(false)
}

/// The current image; without a shell `arg`, which names an image.
pub(crate) fn image(arg: &OsStr) -> OsString {
    with(|current| current.image.clone()).unwrap_or_else(|| arg.to_owned())
}

/// The current image, and `arg` as a path in it; `None` without a shell.
pub(crate) fn inside(arg: &OsStr) -> Option<(OsString, Vec<u8>)> {
    with(|current| (current.image.clone(), current.path(arg.as_bytes())))
}

/// The current directory as a path of the image.
pub(crate) fn directory() -> Vec<u8> {
    with(|current| current.path(b"")).unwrap_or_default()
}

/// Makes `dir` the current directory. It has no symbolic link, and is in the `snapshot` of this
/// path with a colon, or in the volume.
pub(crate) fn set_directory(snapshot: Vec<u8>, dir: Vec<u8>) {
    with(|current| (current.snapshot, current.dir) = (snapshot, dir));
}

/// Makes the name of the current image independent of the working directory of the process.
///
/// # Errors
/// The working directory has no path.
pub(crate) fn make_name_absolute() -> io::Result<()> {
    let Some(image) = with(|current| current.image.clone()).filter(|image| !is_uri(image)) else {
        return Ok(());
    };
    let absolute = path::absolute(image)?;
    with(|current| current.image = absolute.into_os_string());
    Ok(())
}

impl Current {
    /// `arg` as a path of the image.
    fn path(&self, arg: &[u8]) -> Vec<u8> {
        if arg.starts_with(b"#") {
            return [&self.snapshot, arg].concat();
        }
        if arg.starts_with(b"/") {
            return arg.to_vec();
        }
        let (mut dir, mut rest) = (&self.dir[..], arg);
        loop {
            let (name, after) = match rest.iter().position(|&byte| byte == b'/') {
                Some(slash) => rest.split_at(slash),
                None => (rest, &b""[..]),
            };
            let next = &after[after.iter().take_while(|&&byte| byte == b'/').count()..];
            match name {
                b"." if !next.is_empty() => {}
                b".." => dir = above(dir),
                _ => break,
            }
            rest = next;
        }
        let mut path = self.snapshot.clone();
        match rest {
            b"" => path.extend_from_slice(dir),
            _ => path.extend_from_slice(&join(dir, rest)),
        }
        path
    }
}

/// The directory above `dir`, which has no symbolic link.
pub(crate) fn above(dir: &[u8]) -> &[u8] {
    match dir.iter().rposition(|&byte| byte == b'/') {
        Some(slash) if slash > 0 => &dir[..slash],
        _ => b"/",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn arguments_are_paths_from_the_current_directory() {
        assert_eq!(inside(OsStr::new("x")), None);
        assert_eq!(image(OsStr::new("x")), "x");
        set("a.img".into());
        set_directory(Vec::new(), b"/usr/local".to_vec());
        let path = |arg: &str| String::from_utf8(inside(OsStr::new(arg)).unwrap().1).unwrap();
        for (arg, expected) in [
            ("", "/usr/local"),
            ("etc", "/usr/local/etc"),
            ("etc/", "/usr/local/etc/"),
            ("./etc//rc", "/usr/local/etc//rc"),
            (".", "/usr/local/."),
            ("etc/../x", "/usr/local/etc/../x"),
            ("..", "/usr"),
            ("../", "/usr"),
            ("../..//bin", "/bin"),
            ("../../../../bin", "/bin"),
            ("...", "/usr/local/..."),
            ("..x", "/usr/local/..x"),
            ("/etc", "/etc"),
            ("#12", "#12"),
            ("./#12", "/usr/local/#12"),
            ("a b:/c", "/usr/local/a b:/c"),
        ] {
            assert_eq!(path(arg), expected, "{arg}");
        }
        set_directory(b"/.snap/monday:".to_vec(), b"/usr/local".to_vec());
        assert_eq!(path("../../../etc"), "/.snap/monday:/etc");
        assert_eq!(path("/etc"), "/etc");
        assert_eq!(path("#12"), "/.snap/monday:#12");
        assert!(is(OsStr::new("a.img")) && !is(OsStr::new("b.img")));
        unset();
        assert!(!in_shell());
    }
}
