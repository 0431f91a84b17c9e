//! Available memory.

use std::fs;
use std::path::Path;

/// Bytes of available memory: `MemAvailable` of the system, or the rest of the limit of the control
/// group (a container), whichever is less. `None` if the system reports neither.
pub(crate) fn available() -> Option<u64> {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| group_available(Path::new("/sys/fs/cgroup"), &text));
    match (system, group) {
        (Some(system), Some(group)) => Some(system.min(group)),
        (system, group) => system.or(group),
    }
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

/// The least memory that is left in the control group of this process and the groups above it.
fn group_available(root: &Path, own: &str) -> Option<u64> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number =
        |file: &Path| -> Option<u64> { fs::read_to_string(file).ok()?.trim().parse().ok() };
    let available = |dir: &Path| {
        let (most, used) = (number(&dir.join("memory.max"))?, number(&dir.join("memory.current"))?);
        Some(most.saturating_sub(used))
    };
    let dir = root.join(path);
    dir.ancestors().take_while(|dir| dir.starts_with(root)).filter_map(available).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_counts() {
        assert_eq!(meminfo("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(meminfo("MemTotal: 9 kB\n"), None);
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let set = |at: &Path, most: &str, used: &str| {
            fs::write(at.join("memory.max"), most).unwrap();
            fs::write(at.join("memory.current"), used).unwrap();
        };
        set(&inner, "max\n", "5\n");
        assert_eq!(group_available(dir.path(), "0::/a/b\n"), None);
        set(&dir.path().join("a"), "100\n", "30\n");
        assert_eq!(group_available(dir.path(), "0::/a/b\n"), Some(70));
        set(&inner, "20\n", "30\n");
        assert_eq!(group_available(dir.path(), "0::/a/b\n"), Some(0));
        assert_eq!(group_available(dir.path(), "1:name=x:/\n"), None);
    }
}
