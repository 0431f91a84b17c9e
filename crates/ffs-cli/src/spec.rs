//! Path arguments: `IMAGE[@N]:/path` for a file in an image, or a path of the host. IMAGE is a
//! file, a block device or a URI. The path inside may lead through snapshots: see `snapshot`. It
//! may begin with an inode number, `IMAGE:#1234`, instead of `/`. In `ffs shell` an argument is a
//! path in the image that the shell holds open.
//!
//! # Invariants
//! 1. `:/` or `:#` separates the image from the path inside. The first one that follows the name of
//!    an existing file separates; a host name may therefore contain colons.
//! 2. If no such file exists, an argument with `:/` means an image, so that the error message names
//!    the missing image.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use ffs_device::FileDevice;
use ffs_image::{is_uri, split_uri};

use crate::fail::{Failure, shell_word, show};
use crate::{current, stdin};

/// A path inside an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImagePath {
    /// `IMAGE` or `IMAGE@N`.
    pub image: OsString,
    /// Absolute path inside, or one that begins with an inode number (`#1234`).
    pub path: Vec<u8>,
}

impl ImagePath {
    /// The path as its user writes it.
    pub(crate) fn shown(&self) -> Vec<u8> {
        [self.image.as_bytes(), b":", &self.path].concat()
    }
}

impl fmt::Display for ImagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", show(self.image.as_bytes()), show(&self.path))
    }
}

/// The source or the target of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the host.
    Host(PathBuf),
    /// In an image.
    Image(ImagePath),
}

/// Reads an argument that is on the host or in an image. In a shell it is in the image.
pub(crate) fn place(arg: &OsStr) -> Place {
    match current::inside(arg) {
        Some((image, path)) => Place::Image(ImagePath { image, path }),
        None => outside(arg),
    }
}

/// Reads an argument that is on the host or in an image, also in a shell.
pub(crate) fn outside(arg: &OsStr) -> Place {
    if is_uri(arg) {
        return match split_uri(arg) {
            Some((uri, path)) => {
                Place::Image(ImagePath { image: uri.to_owned(), path: path.to_vec() })
            }
            None => Place::Host(PathBuf::from(arg)),
        };
    }
    let bytes = arg.as_bytes();
    let starts = |two: &[u8]| two == b":/" || two == b":#";
    let splits = || bytes.windows(2).enumerate().filter(move |(at, two)| *at > 0 && starts(two));
    for (at, _) in splits() {
        if is_image(&bytes[..at]) {
            return Place::Image(split(bytes, at));
        }
    }
    if let Some(name) = bytes.strip_suffix(b":")
        && is_image(name)
        && fs::symlink_metadata(arg).is_err()
    {
        return Place::Image(ImagePath { image: os(name), path: b"/".to_vec() });
    }
    match splits().next() {
        Some((at, b":/")) if !could_be_on_host(arg) => Place::Image(split(bytes, at)),
        _ => Place::Host(PathBuf::from(arg)),
    }
}

/// Reads an argument that must be in an image; the bare image is its root directory.
///
/// # Errors
/// It looks like an image with a path that does not begin with `/`.
pub(crate) fn image_path(arg: &OsStr) -> Result<ImagePath, Failure> {
    if let Place::Image(path) = place(arg) {
        return Ok(path);
    }
    let bytes = arg.as_bytes();
    if !is_uri(arg) && !is_image(bytes) {
        if let Some(at) = bytes.windows(2).position(|two| two == b":/").filter(|&at| at > 0) {
            return Ok(split(bytes, at));
        }
        let colon = bytes.iter().position(|&byte| byte == b':');
        if let Some(at) = colon.filter(|&at| is_image(&bytes[..at])) {
            let (image, path) = (show(&bytes[..at]), show(&bytes[at + 1..]));
            return Err(Failure::usage(format!(
                "{image}:{path}: a path inside an image begins with '/'; write {image}:/{path}"
            )));
        }
        if let Some(failure) = slash_for_colon(bytes) {
            return Err(failure);
        }
    }
    Ok(ImagePath { image: arg.to_owned(), path: b"/".to_vec() })
}

/// The error for `IMAGE/path` in place of `IMAGE:/path`.
fn slash_for_colon(bytes: &[u8]) -> Option<Failure> {
    let slashes = bytes.iter().enumerate().filter(|(at, byte)| *at > 0 && **byte == b'/');
    let at = slashes.map(|(at, _)| at).find(|&at| is_image(&bytes[..at]))?;
    let (image, path) = (&bytes[..at], &bytes[at..]);
    let kind = fs::metadata(os(image)).ok()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return None;
    }
    let (name, right) = (show(bytes), show([image, b":", path].concat()));
    let failure = Failure::usage(format!("{name}: {} is a file, not a directory", show(image)));
    Some(failure.hint(format!("a path inside an image follows a colon: {}", shell_word(&right))))
}

/// Whether `image` names something that exists, or that no command can create: a file, an export
/// of a server, or a partition, such as `FILE@2` or `FILE@p2`.
pub(crate) fn is_not_new(image: &OsStr) -> bool {
    Path::new(image).exists() || is_uri(image) || names_partition(image)
}

/// Whether `image` is a file in a format of disk images that is not raw.
pub(crate) fn is_container(image: &OsStr) -> bool {
    let file = FileDevice::open(Path::new(image), false);
    let format = file.ok().and_then(|file| ffs_image::recognise(&file).ok());
    format.is_some_and(|format| format != ffs_image::Format::Raw)
}

/// Whether `image` names a partition, such as `FILE@2` or `FILE@p2`, and no file has this name.
pub(crate) fn names_partition(image: &OsStr) -> bool {
    disk_of(image) != image
}

/// The name of the disk: `FILE` if `image` is `FILE@2`, and no file has that name.
pub(crate) fn disk_of(image: &OsStr) -> &OsStr {
    let bytes = image.as_bytes();
    let Some(at) = bytes.iter().rposition(|&byte| byte == b'@').filter(|&at| at > 0) else {
        return image;
    };
    let (disk, suffix) = (OsStr::from_bytes(&bytes[..at]), &bytes[at + 1..]);
    let short = !suffix.is_empty() && suffix.iter().all(u8::is_ascii_alphanumeric);
    if short && fs::symlink_metadata(image).is_err() { disk } else { image }
}

/// The host's metadata of the file `image`, of the disk `FILE` if `image` is `FILE@N`, or of the
/// image with the snapshot that it names.
pub(crate) fn file_of(image: &OsStr) -> Option<fs::Metadata> {
    if let Place::Image(inside) = outside(image) {
        return file_of(&inside.image);
    }
    let bytes = image.as_bytes();
    let whole = || {
        let at = bytes.iter().rposition(|&byte| byte == b'@')?;
        fs::metadata(OsStr::from_bytes(&bytes[..at])).ok()
    };
    fs::metadata(image).ok().or_else(whole)
}

fn split(bytes: &[u8], at: usize) -> ImagePath {
    ImagePath { image: os(&bytes[..at]), path: bytes[at + 1..].to_vec() }
}

fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Whether `name`, or what precedes its `@N`, is an existing file that may be an image, or standard
/// input.
fn is_image(name: &[u8]) -> bool {
    if stdin::names(OsStr::from_bytes(name)) {
        return true;
    }
    let is_file = |name: &[u8]| {
        !name.is_empty() && fs::metadata(OsStr::from_bytes(name)).is_ok_and(|m| !m.is_dir())
    };
    let before_at = || name.iter().rposition(|&byte| byte == b'@').map(|at| &name[..at]);
    is_file(name) || before_at().is_some_and(is_file)
}

/// Whether `arg` exists on the host, or its directory does.
fn could_be_on_host(arg: &OsStr) -> bool {
    let bytes = arg.as_bytes();
    let parent = bytes.iter().rposition(|&byte| byte == b'/').map(|at| &bytes[..at.max(1)]);
    fs::symlink_metadata(arg).is_ok()
        || parent.is_some_and(|parent| Path::new(OsStr::from_bytes(parent)).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dir(tempfile::TempDir);

    impl Dir {
        fn new() -> Dir {
            Dir(tempfile::tempdir().unwrap())
        }
        fn file(&self, name: &str) -> &Dir {
            fs::write(self.0.path().join(name), b"").unwrap();
            self
        }
        fn dir(&self, name: &str) -> &Dir {
            fs::create_dir(self.0.path().join(name)).unwrap();
            self
        }
        fn arg(&self, rest: &str) -> OsString {
            self.0.path().join(rest).into_os_string()
        }
        fn image(&self, image: &str, path: &str) -> Place {
            Place::Image(ImagePath { image: self.arg(image), path: path.as_bytes().to_vec() })
        }
        fn host(&self, path: &str) -> Place {
            Place::Host(PathBuf::from(self.arg(path)))
        }
        fn place(&self, arg: &str) -> Place {
            // `join` would drop the directory in front of a path that begins with `/`.
            let mut whole = self.0.path().as_os_str().to_owned();
            whole.push("/");
            whole.push(arg);
            place(&whole)
        }
    }

    #[test]
    fn an_existing_file_before_the_colon_is_an_image() {
        let d = Dir::new();
        d.file("a.img").file("with space.img").file("x:y.img").dir("sub");
        assert_eq!(d.place("a.img:/"), d.image("a.img", "/"));
        assert_eq!(d.place("a.img:/etc/rc"), d.image("a.img", "/etc/rc"));
        assert_eq!(d.place("a.img@2:/etc"), d.image("a.img@2", "/etc"));
        assert_eq!(d.place("a.img:"), d.image("a.img", "/"));
        assert_eq!(d.place("with space.img:/a b"), d.image("with space.img", "/a b"));
        assert_eq!(d.place("x:y.img:/z:/w"), d.image("x:y.img", "/z:/w"));
        assert_eq!(d.place("a.img:#1234"), d.image("a.img", "#1234"));
        assert_eq!(d.place("a.img:#12/x:/y"), d.image("a.img", "#12/x:/y"));
        assert_eq!(d.place("a.img:/x:#1"), d.image("a.img", "/x:#1"));
        assert_eq!(d.place("none:#1"), d.host("none:#1"));
    }

    #[test]
    fn host_names_may_hold_colons() {
        let d = Dir::new();
        d.file("a:b").dir("odd:").file("odd:/f").file("a.img");
        assert_eq!(d.place("a:b"), d.host("a:b"));
        assert_eq!(d.place("odd:/f"), d.host("odd:/f"));
        assert_eq!(d.place("odd:/new"), d.host("odd:/new"));
        assert_eq!(d.place("a.img"), d.host("a.img"));
        assert_eq!(place(OsStr::new("./a:b")), Place::Host(PathBuf::from("./a:b")));
    }

    #[test]
    fn a_missing_image_is_still_an_image() {
        let d = Dir::new();
        assert_eq!(d.place("typo.img:/"), d.image("typo.img", "/"));
        assert_eq!(d.place("typo.img:/etc/rc"), d.image("typo.img", "/etc/rc"));
        let only = image_path(OsStr::new("typo.img")).unwrap();
        assert_eq!((only.image, only.path), (OsString::from("typo.img"), b"/".to_vec()));
    }

    #[test]
    fn partitions_are_short_words_behind_an_at() {
        let d = Dir::new();
        d.file("is@file");
        let names = |name: &str| names_partition(&d.arg(name));
        assert!(names("disk.img@2") && names("disk.img@s1a"));
        assert!(!names("is@file") && !names("at@sign.img") && !names("disk@"));
    }

    #[test]
    fn relative_paths_inside_are_refused_with_the_right_spelling() {
        let d = Dir::new();
        d.file("a.img");
        let failure = image_path(&d.arg("a.img:etc")).unwrap_err();
        assert!(failure.text.ends_with("a.img:/etc"), "{}", failure.text);
    }
}
