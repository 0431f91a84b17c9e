//! Whether the kernel has mounted an image: from its device, from a device built on that, or
//! through a loop device.
//!
//! Only Linux reports this. On other systems, and without `/proc` and `/sys`, nothing is found.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A disk has about a dozen partitions and holders; this limit bounds an unusual `/sys`.
const MAX_DEVICES: usize = 1024;

/// A file system that the kernel has mounted from the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelMount {
    /// The device, as in the mount table.
    pub device: String,
    /// Its mount point.
    pub mount_point: PathBuf,
    /// Whether the kernel may write to it.
    pub writable: bool,
}

impl fmt::Display for KernelMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.writable { "read-write" } else { "read-only" };
        write!(f, "{} on {}, {how}", self.device, self.mount_point.display())
    }
}

/// A mount of `file`, preferably a writable one.
pub(super) fn mount_of(file: &File) -> Option<KernelMount> {
    let metadata = file.metadata().ok()?;
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let sys = Path::new("/sys");
    let roots = if metadata.file_type().is_block_device() {
        let (major, minor) = super::device_number(metadata.rdev());
        vec![sys.join("dev/block").join(format!("{major}:{minor}"))]
    } else {
        loops_over(&sys.join("block"), &mountinfo, (metadata.dev(), metadata.ino()))
    };
    let devices = with_dependents(sys, roots);
    let mut mounts: Vec<KernelMount> = mounts_of(&mountinfo, &devices).collect();
    mounts.sort_by_key(|mount| !mount.writable);
    mounts.into_iter().next()
}

/// Directories of the loop devices whose backing file has this device and inode number.
///
/// The kernel reports only the name of the file. A file on a network file system is skipped, unless
/// the image is on the same file system: a server that does not respond would stop the command for
/// ever.
fn loops_over(block: &Path, mountinfo: &str, (dev, ino): (u64, u64)) -> Vec<PathBuf> {
    let entries = fs::read_dir(block).into_iter().flatten().flatten();
    let directories = entries.map(|entry| entry.path());
    directories
        .filter(|directory| {
            let backing =
                fs::read_to_string(directory.join("loop/backing_file")).unwrap_or_default();
            let backing = Path::new(backing.trim_end_matches('\n'));
            is_local(mountinfo, backing, dev)
                && fs::metadata(backing).is_ok_and(|file| file.dev() == dev && file.ino() == ino)
        })
        .collect()
}

/// File systems whose files are on another machine.
const REMOTE: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "coda", "lustre"];

/// Whether the attributes of `path` can be read without a server, or it is on the device `dev`.
fn is_local(mountinfo: &str, path: &Path, dev: u64) -> bool {
    let (major, minor) = super::device_number(dev);
    let own = format!("{major}:{minor}");
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, superblock) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let point = PathBuf::from(unescape(mount.get(4)?));
        let kind = superblock.split(' ').next()?;
        let number = *mount.get(2)?;
        path.starts_with(&point).then(|| (point.components().count(), number, kind))
    });
    // Of several mounts on one directory the last one is visible.
    let seen = mounts.max_by_key(|(depth, ..): &(usize, &str, &str)| *depth);
    seen.is_none_or(|(_, number, kind)| {
        number == own || !(kind.starts_with("fuse") || REMOTE.contains(&kind))
    })
}

/// Numbers ("7:0") of the devices with these directories, their partitions, and all devices built
/// on them.
fn with_dependents(sys: &Path, roots: Vec<PathBuf>) -> BTreeSet<String> {
    let mut numbers = BTreeSet::new();
    let mut queue: VecDeque<PathBuf> = roots.into();
    while let Some(directory) = queue.pop_front() {
        let Ok(number) = fs::read_to_string(directory.join("dev")) else { continue };
        let number = number.trim().to_owned();
        if numbers.len() == MAX_DEVICES || !numbers.insert(number) {
            continue;
        }
        let children = |of: PathBuf| fs::read_dir(of).into_iter().flatten().flatten();
        let is_partition = |path: &PathBuf| path.join("partition").exists();
        queue.extend(children(directory.clone()).map(|entry| entry.path()).filter(is_partition));
        let holders = children(directory.join("holders")).map(|entry| entry.file_name());
        queue.extend(holders.map(|name| sys.join("class/block").join(name)));
    }
    numbers
}

fn mounts_of<'a>(
    mountinfo: &'a str,
    devices: &'a BTreeSet<String>,
) -> impl Iterator<Item = KernelMount> + 'a {
    mountinfo.lines().filter_map(|line| {
        // "36 35 7:0 / /mnt rw,noatime master:1 - ext4 /dev/loop0 rw,errors=continue"
        let (mount, superblock) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let superblock: Vec<&str> = superblock.split(' ').collect();
        let (&number, &point) = (mount.get(2)?, mount.get(4)?);
        let (&device, &options) = (superblock.get(1)?, superblock.get(2)?);
        devices.contains(number).then(|| KernelMount {
            device: unescape(device),
            mount_point: PathBuf::from(unescape(point)),
            writable: options.split(',').next() != Some("ro"),
        })
    })
}

/// The mount table encodes blank, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_is_read() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     36 22 7:3 / /mnt/a\\040b rw,noatime master:1 - ufs /dev/loop3 \
                     ro,ufstype=ufs2\n\
                     37 22 7:30 / /x rw - ext4 /dev/loop30 rw\nbroken line - x\n";
        let devices = BTreeSet::from(["7:3".to_owned()]);
        let mounts: Vec<_> = mounts_of(table, &devices).collect();
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].to_string(), "/dev/loop3 on /mnt/a b, read-only");
    }

    #[test]
    fn loops_partitions_and_holders_are_followed() {
        let sys = tempfile::tempdir().unwrap();
        let image = tempfile::NamedTempFile::new().unwrap();
        let put = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("block/loop0/dev", "7:0\n");
        put("block/loop0/loop/backing_file", "/somewhere/else\n");
        put("block/loop1/dev", "7:1\n");
        put("block/loop1/loop/backing_file", &format!("{}\n", image.path().display()));
        put("block/loop1/loop1p2/dev", "259:4\n");
        put("block/loop1/loop1p2/partition", "2\n");
        put("block/loop1/loop1p2/holders/dm-0/x", "");
        put("class/block/dm-0/dev", "253:0\n");
        // A device that is its own holder must not cause an endless loop.
        put("class/block/dm-0/holders/dm-0/x", "");
        let metadata = image.as_file().metadata().unwrap();
        let image = (metadata.dev(), metadata.ino());
        let loops = loops_over(&sys.path().join("block"), "", image);
        assert_eq!(loops, [sys.path().join("block/loop1")]);
        let numbers = with_dependents(sys.path(), loops);
        assert_eq!(numbers, ["253:0", "259:4", "7:1"].map(str::to_owned).into());
    }

    #[test]
    fn files_of_other_servers_are_not_touched() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     36 22 0:50 / /mnt/a\\040b rw shared:1 - fuse.ffs disk.img rw\n\
                     37 22 0:51 / /net rw - nfs4 host:/x rw\n\
                     38 37 8:2 / /net/local rw - xfs /dev/sda2 rw\nbroken line - x\n";
        let on =
            |path: &str, minor| is_local(table, Path::new(path), rustix::fs::makedev(0, minor));
        assert!(on("/var/disk.img", 9) && on("/net/local/disk.img", 9));
        assert!(!on("/mnt/a b/disk.img", 9) && !on("/net/disk.img", 9));
        assert!(on("/mnt/a b/disk.img", 50), "the image is there itself");
        assert!(on("/mnt/a bc/disk.img", 9), "another name");
    }

    #[test]
    fn an_ordinary_file_is_not_mounted() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(mount_of(&file), None);
    }
}
