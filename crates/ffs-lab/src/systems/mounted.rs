//! The mount options of a directory, which decide what is durable when a call returns.

use std::path::Path;

use rustix::fs::Stat;

/// The kernel's table of this process's mounts (proc(5)).
const TABLE: &str = "/proc/self/mountinfo";

/// What is durable when a call on the file system of `stat` returns, by its mount options.
pub(super) fn durability(stat: &Stat) -> String {
    let table = std::fs::read_to_string(Path::new(TABLE)).unwrap_or_default();
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    match options(&table, &format!("{major}:{minor}")) {
        Some(options) if options.contains(&"sync") => {
            format!("every operation, on return (mounted {})", options.join(","))
        }
        Some(options) if options.contains(&"dirsync") => {
            format!("names, on return; content not before sync (mounted {})", options.join(","))
        }
        Some(options) => format!("nothing before sync (mounted {})", options.join(",")),
        // For example subvolumes of btrfs: their device numbers are not in the table.
        None => "as the mount has it; by default nothing before sync".to_owned(),
    }
}

/// The options of the last mount of a device: those of the mount, then those of the file system.
fn options<'a>(table: &'a str, device: &str) -> Option<Vec<&'a str>> {
    let line = table.lines().rfind(|line| line.split(' ').nth(2) == Some(device))?;
    let (mount, fs) = line.split_once(" - ")?;
    let (mount, fs) = (mount.split(' ').nth(5)?, fs.split(' ').nth(2)?);
    let mut options: Vec<&str> = Vec::new();
    for option in mount.split(',').chain(fs.split(',')) {
        // Numbers of users and descriptors do not affect durability.
        let number = option.rsplit('=').next().is_some_and(|v| v.parse::<u64>().is_ok());
        if !number && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found() {
        let table = "26 24 0:24 / /dev/pts rw,relatime - devpts devpts rw,mode=600\n\
                     40 24 7:0 / /mnt/a\\040b rw,noatime shared:1 - ext4 /dev/loop0 \
                         rw,data=journal,stripe=4\n";
        assert_eq!(options(table, "7:0").unwrap(), ["rw", "noatime", "data=journal"]);
        assert_eq!(options(table, "0:24").unwrap(), ["rw", "relatime"]);
        assert_eq!(options(table, "8:1"), None);
    }
}
