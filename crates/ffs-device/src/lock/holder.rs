//! The processes that hold the lock on a file.
//!
//! The lock interface of the kernel does not return them. For processes that we may inspect, the
//! kernel lists the locks of each open file (`/proc/PID/fdinfo/N`), which is exact. For all
//! processes, `/proc/locks` lists the process that took a lock; it may be a parent that has exited.
//!
//! **Invariant.** No file of another process is accessed, not even its attributes. On a file system
//! that does not respond such an access would wait for ever, and not even SIGKILL would end it. The
//! kernel serves a read of `fdinfo` and the target of the link `/proc/PID/fd/N` by itself.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most holders that are listed.
const MAX_HOLDERS: usize = 4;
const MAX_COMMAND: usize = 120;

/// A process that holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its command line, or its short name; empty if neither is readable.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = if self.pid == std::process::id() { " (this process)" } else { "" };
        write!(f, "process {}{own}", self.pid)?;
        if !self.command.is_empty() {
            write!(f, " \"{}\"", self.command)?;
        }
        Ok(())
    }
}

/// All holders as text.
pub(super) fn list(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "another process".to_owned();
    }
    let names: Vec<String> = holders.iter().map(Holder::to_string).collect();
    names.join(", ")
}

/// The processes that hold a lock on `file`, as far as they can be found.
pub(super) fn find(file: &File) -> Vec<Holder> {
    let Some(image) = Image::of(file) else {
        return Vec::new();
    };
    let mut pids = processes_with_lock(&image);
    if pids.is_empty() {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        pids = pids_in_lock_table(&locks, &image);
        // The process that took the lock may have passed it to a child and exited.
        pids.retain(|pid| fs::exists(format!("/proc/{pid}")).unwrap_or(false));
    }
    pids.truncate(MAX_HOLDERS);
    pids.into_iter().map(|pid| Holder { pid, command: command(pid) }).collect()
}

/// The file whose lock is searched.
struct Image {
    /// Device and inode as in the kernel's lock tables: `fd:01:5678`.
    place: String,
    /// `:5678`. On some file systems (btrfs) the device number of `stat` differs from that of the
    /// tables.
    inode: String,
    /// The kernel's path of the file.
    link: Option<PathBuf>,
}

impl Image {
    fn of(file: &File) -> Option<Image> {
        let metadata = file.metadata().ok()?;
        let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        Some(Image::at(metadata.dev(), metadata.ino(), link))
    }

    fn at(dev: u64, ino: u64, link: Option<PathBuf>) -> Image {
        let (major, minor) = super::device_number(dev);
        Image { place: format!("{major:02x}:{minor:02x}:{ino}"), inode: format!(":{ino}"), link }
    }
}

fn processes_with_lock(image: &Image) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.retain(|&pid| has_locked_descriptor(pid, image));
    pids.sort_unstable();
    pids
}

fn has_locked_descriptor(pid: u32, image: &Image) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| entry.file_name().into_string().ok()).any(|fd| {
        let Ok(link) = fs::read_link(format!("/proc/{pid}/fd/{fd}")) else { return false };
        // Sockets, pipes and the like have no path.
        if !link.is_absolute() {
            return false;
        }
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        info_has_lock(&info, &link, image)
    })
}

/// Whether `info`, the text of `fdinfo` for a descriptor of the file `link`, has a lock on the
/// image.
fn info_has_lock(info: &str, link: &Path, image: &Image) -> bool {
    let locks = info.lines().filter_map(|line| flock_row(line.strip_prefix("lock:")?));
    locks.into_iter().any(|(_, place)| {
        let same_name = image.link.as_deref() == Some(link);
        place == image.place || same_name && place.ends_with(&image.inode)
    })
}

/// Process and file of a lock by `flock`, from a line of `/proc/locks` or the text after `lock:` in
/// `fdinfo`: "1: FLOCK ADVISORY WRITE 1234 fd:01:5678 0 EOF". The second word of a waiter is "->".
fn flock_row(line: &str) -> Option<(u32, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (&kind, &pid, &place) = (words.get(1)?, words.get(4)?, words.get(5)?);
    (kind == "FLOCK").then_some((pid.parse().ok()?, place))
}

/// The processes that `/proc/locks` lists for the inode, those on the same device before those on
/// any device.
fn pids_in_lock_table(locks: &str, image: &Image) -> Vec<u32> {
    let rows: Vec<(u32, &str)> = locks.lines().filter_map(flock_row).collect();
    let matching = |wanted: &dyn Fn(&str) -> bool| -> Vec<u32> {
        rows.iter().filter(|(_, place)| wanted(place)).map(|&(pid, _)| pid).collect()
    };
    let exact = matching(&|place| place == image.place);
    if exact.is_empty() { matching(&|place| place.ends_with(&image.inode)) } else { exact }
}

fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|&byte| byte == 0).filter(|word| !word.is_empty()).collect();
    let text = match words.as_slice() {
        [] => fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default(),
        words => String::from_utf8_lossy(&words.join(&b' ')).into_owned(),
    };
    text.trim().chars().filter(|c| !c.is_control()).take(MAX_COMMAND).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_table_is_read() {
        let table = "1: FLOCK  ADVISORY  WRITE 100 fd:01:77 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 101 fd:01:77 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 102 fd:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 103 00:2a:77 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 104 00:2a:177 0 EOF\n\
                     nonsense\n5: FLOCK\n";
        let pids = |major, minor, ino| {
            let image = Image::at(rustix::fs::makedev(major, minor), ino, None);
            pids_in_lock_table(table, &image)
        };
        assert_eq!(pids(0xfd, 1, 77), [100]);
        assert_eq!(pids(0, 0x2a, 77), [103]);
        assert_eq!(pids(9, 9, 77), [100, 103]);
        assert_eq!(pids(9, 9, 7), Vec::<u32>::new());
    }

    #[test]
    fn the_locks_of_a_descriptor_are_read() {
        let info = "pos:\t0\nflags:\t0100002\nmnt_id:\t28\nino:\t77\n\
                    lock:\t1: FLOCK  ADVISORY  WRITE 100 fd:01:77 0 EOF\n";
        let (name, other) = (Path::new("/a/disk.img"), Path::new("/a/other.img"));
        let has = |text: &str, link, major, ino| {
            let image = Image::at(rustix::fs::makedev(major, 1), ino, Some(name.to_owned()));
            info_has_lock(text, link, &image)
        };
        assert!(has(info, other, 0xfd, 77), "another name of the file");
        assert!(has(info, name, 0x2a, 77), "another device number of the file");
        assert!(!has(info, other, 0x2a, 77), "a file of another volume");
        assert!(!has(info, name, 0xfd, 7));
        assert!(!has(&info.replace("FLOCK", "POSIX"), name, 0xfd, 77));
    }
}
