//! The kernel's mount table, `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `major:minor`.
    pub(crate) device: String,
    pub(crate) mount_point: PathBuf,
    /// Options of the mount (`rw`, `nosuid`...).
    pub(crate) options: String,
    pub(crate) fs_type: String,
    /// What is mounted.
    pub(crate) source: PathBuf,
    /// Options of the file system.
    pub(crate) fs_options: String,
}

impl Mount {
    /// Whether a server of ffs serves it.
    pub(crate) fn is_ours(&self) -> bool {
        self.fs_type == "fuse.ffs" || self.fs_type == "fuseblk.ffs"
    }

    /// The user id of the user who mounted it. `None` if it is no FUSE mount.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.fs_options.split(',').find_map(|w| w.strip_prefix("user_id="))
    }

    /// Whether `word` is among the options of the mount or of the file system.
    pub(crate) fn has_option(&self, word: &str) -> bool {
        self.options.split(',').chain(self.fs_options.split(',')).any(|w| w == word)
    }
}

/// The topmost mount on `mount_point`. On systems other than Linux, where ffs mounts nothing, there
/// is none.
pub(crate) fn find(mount_point: &Path) -> io::Result<Option<Mount>> {
    let table = read()?;
    Ok(mounts(&table).find(|m| m.mount_point == mount_point))
}

/// The directories of the mounts of ffs that the user `uid` made, the last one first, because it
/// may be inside of an earlier one. On systems other than Linux there is none.
///
/// # Errors
/// The mount table cannot be read.
pub fn mounts_of_user(uid: u32) -> io::Result<Vec<PathBuf>> {
    Ok(of_user(&read()?, uid))
}

fn read() -> io::Result<Vec<u8>> {
    match cfg!(target_os = "linux") {
        true => std::fs::read("/proc/self/mountinfo"),
        false => Ok(Vec::new()),
    }
}

/// The mounts of a table, the last one first.
fn mounts(table: &[u8]) -> impl Iterator<Item = Mount> {
    table.split(|b| *b == b'\n').rev().filter_map(parse)
}

fn of_user(table: &[u8], uid: u32) -> Vec<PathBuf> {
    let uid = uid.to_string();
    let made = mounts(table).filter(|m| m.is_ours() && m.owner() == Some(&uid));
    made.map(|m| m.mount_point).collect()
}

/// `ID PARENT MAJ:MIN ROOT MOUNTPOINT OPTIONS [TAGS...] - TYPE SOURCE FSOPTIONS`
fn parse(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|b| *b == b' ').map(unescape);
    let text = |w: Vec<u8>| String::from_utf8_lossy(&w).into_owned();
    let device = text(words.nth(2)?);
    let mount_point = PathBuf::from(OsString::from_vec(words.nth(1)?));
    let options = text(words.next()?);
    words.find(|w| w == b"-")?;
    let fs_type = text(words.next()?);
    let source = PathBuf::from(OsString::from_vec(words.next()?));
    let fs_options = text(words.next()?);
    Some(Mount { device, mount_point, options, fs_type, source, fs_options })
}

/// Decodes the kernel's octal escapes.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let value = octal.and_then(|o| {
            let o = std::str::from_utf8(o).ok()?;
            u8::from_str_radix(o, 8).ok()
        });
        match value {
            Some(v) => {
                out.push(v);
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line =
            br"62 30 0:48 / /mnt/a\040b\134 rw,nosuid shared:1 - fuse.ffs /x.img rw,user_id=0";
        let m = parse(line).unwrap();
        assert_eq!(m.mount_point, Path::new(r"/mnt/a b\"));
        assert_eq!((m.device.as_str(), m.fs_type.as_str()), ("0:48", "fuse.ffs"));
        assert!(m.is_ours() && m.has_option("nosuid") && m.has_option("user_id=0"));
        assert_eq!((m.owner(), m.source.as_path()), (Some("0"), Path::new("/x.img")));
        assert_eq!(parse(b"62 30 0:48 / /mnt rw"), None);
        assert!(find(Path::new("/proc")).unwrap().is_some());
    }

    #[test]
    fn only_the_mounts_of_the_user_are_found_and_the_last_one_is_first() {
        let table = br"20 1 0:2 / / rw - ext4 /dev/a rw
62 30 0:48 / /mnt/a\040b\134 rw,nosuid shared:1 - fuse.ffs /x.img rw,user_id=7,group_id=7
63 30 0:49 / /mnt/other rw - fuse.ffs /y.img rw,user_id=70,group_id=7
64 30 0:50 / /mnt/sshfs rw - fuse.sshfs host: rw,user_id=7
65 62 0:51 / /mnt/a\040b\134/c rw shared:2 master:1 - fuseblk.ffs /dev/b rw,user_id=7
";
        let found = of_user(table, 7);
        assert_eq!(found, [PathBuf::from(r"/mnt/a b\/c"), PathBuf::from(r"/mnt/a b\")]);
        assert!(of_user(b"", 7).is_empty() && of_user(b"1 2 3 4", 7).is_empty());
    }
}
