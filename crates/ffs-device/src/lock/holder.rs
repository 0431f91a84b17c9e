//! Who holds the lock on a file.
//!
//! The kernel does not say it through the lock interface. It shows the locks of an open file beside
//! the descriptor (`/proc/PID/fdinfo/N`), for processes that we may look into, and the process that
//! once took a lock in `/proc/locks`, for all: the first is exact, the second may name a parent
//! that is gone.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

/// More holders than these are not worth naming.
const MAX_HOLDERS: usize = 4;
const MAX_COMMAND: usize = 120;

/// A process that holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its command line, or its short name; empty if it cannot be seen.
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

/// All holders in a sentence.
pub(super) fn list(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "another process".to_owned();
    }
    let names: Vec<String> = holders.iter().map(Holder::to_string).collect();
    names.join(", ")
}

/// Those who hold a lock on `file`, as far as can be told.
pub(super) fn find(file: &File) -> Vec<Holder> {
    let Ok(metadata) = file.metadata() else {
        return Vec::new();
    };
    let (dev, ino) = (metadata.dev(), metadata.ino());
    let mut pids = processes_with_lock(dev, ino);
    if pids.is_empty() {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        pids = pids_in_lock_table(&locks, dev, ino);
        // The process that took the lock may have handed it to a child and left.
        pids.retain(|pid| fs::exists(format!("/proc/{pid}")).unwrap_or(false));
    }
    pids.truncate(MAX_HOLDERS);
    pids.into_iter().map(|pid| Holder { pid, command: command(pid) }).collect()
}

fn processes_with_lock(dev: u64, ino: u64) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.retain(|&pid| has_locked_descriptor(pid, dev, ino));
    pids.sort_unstable();
    pids
}

fn has_locked_descriptor(pid: u32, dev: u64, ino: u64) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| entry.file_name().into_string().ok()).any(|fd| {
        let same = fs::metadata(format!("/proc/{pid}/fd/{fd}"))
            .is_ok_and(|metadata| metadata.dev() == dev && metadata.ino() == ino);
        same && fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).is_ok_and(|info| {
            info.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
        })
    })
}

/// The processes that `/proc/locks` names for the inode, those on the very device before those on
/// any: some file systems show one device number to `stat` and another here.
fn pids_in_lock_table(locks: &str, dev: u64, ino: u64) -> Vec<u32> {
    let device = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let any_device = format!(":{ino}");
    let rows: Vec<(u32, &str)> = locks
        .lines()
        .filter_map(|line| {
            // "1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF"; waiters have "->" as their second word.
            let words: Vec<&str> = line.split_whitespace().collect();
            let (&kind, &pid, &place) = (words.get(1)?, words.get(4)?, words.get(5)?);
            (kind == "FLOCK").then_some((pid.parse().ok()?, place))
        })
        .collect();
    let matching = |wanted: &dyn Fn(&str) -> bool| -> Vec<u32> {
        rows.iter().filter(|(_, place)| wanted(place)).map(|&(pid, _)| pid).collect()
    };
    let exact = matching(&|place| place == device);
    if exact.is_empty() { matching(&|place| place.ends_with(&any_device)) } else { exact }
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
        let dev = |major, minor| rustix::fs::makedev(major, minor);
        assert_eq!(pids_in_lock_table(table, dev(0xfd, 1), 77), [100]);
        assert_eq!(pids_in_lock_table(table, dev(0, 0x2a), 77), [103]);
        assert_eq!(pids_in_lock_table(table, dev(9, 9), 77), [100, 103]);
        assert_eq!(pids_in_lock_table(table, dev(9, 9), 7), Vec::<u32>::new());
    }
}
