//! What works on Linux alone: a list of the files with such code, each with its reason.
//!
//! Everything but mounts also builds on macOS and FreeBSD (`docs/guide/installing.md`). A file with
//! a call, a path or a `cfg` of one system has to be on the list, and the list has no others.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at surprises")]

use ffs_testkit::repository::{self, read};
use std::collections::BTreeSet;

/// How a file differs between systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// A module, or a folder of modules, that only some systems compile.
    Gated,
    /// It has a branch for each system.
    Branch,
    /// It reads a file that other systems do not have, and does without.
    Optional,
}
use How::{Branch, Gated, Optional};

/// File or folder, how it differs, and the reason.
const LIST: &[(&str, How, &str)] = &[
    ("bsdffs/src/build/partial.rs", Branch, "renameat2 keeps an existing file"),
    ("bsdffs/src/copy/host/mod.rs", Branch, "posix_fadvise, syncfs"),
    ("bsdffs/src/copy/host/sink.rs", Branch, "macOS has no mknodat"),
    ("bsdffs/src/copy/host/source.rs", Branch, "O_NOATIME"),
    ("bsdffs/src/copy/host/xattrs.rs", Branch, "extended attributes and O_PATH"),
    ("ffs-cli/src/cmd/cp/stream.rs", Branch, "/dev/fd is opened anew, not duplicated"),
    ("ffs-cli/src/cmd/lab/apps.rs", Optional, "memory as a directory, for mounts"),
    ("ffs-cli/src/cmd/lab/mod.rs", Branch, "`ffs lab stress`"),
    ("ffs-cli/src/cmd/lab/record.rs", Optional, "memory as a directory, for a mount"),
    ("ffs-cli/src/cmd/lab/record/calls.rs", Branch, "FreeBSD has no ENODATA"),
    ("ffs-cli/src/cmd/lab/stress.rs", Gated, "stress of mounts"),
    ("ffs-cli/src/cmd/umount.rs", Optional, "the mount table, in a message"),
    ("ffs-cli/src/hugepages.rs", Branch, "a setting of glibc"),
    ("ffs-cli/src/memory.rs", Optional, "available memory"),
    ("ffs-cli/src/output.rs", Branch, "the size of a pipe"),
    ("ffs-cli/src/signals.rs", Optional, "signals that the caller ignores"),
    ("ffs-core/src/error.rs", Branch, "FreeBSD has no ENODATA"),
    ("ffs-device/src/file.rs", Branch, "sectors, holes and their removal"),
    ("ffs-device/src/lock/holder.rs", Optional, "the processes with a lock"),
    ("ffs-device/src/lock/kernel.rs", Optional, "mounts and loop devices of the kernel"),
    ("ffs-device/src/lock/mod.rs", Branch, "O_EXCL reserves a block device"),
    ("ffs-device/src/process.rs", Optional, "the processes below one"),
    ("ffs-fuse/src/channel.rs", Branch, "an ioctl on a mount"),
    ("ffs-fuse/src/checker.rs", Gated, "the server of a mount"),
    ("ffs-fuse/src/daemon.rs", Gated, "the server of a mount"),
    ("ffs-fuse/src/disk.rs", Gated, "a mount of one file"),
    ("ffs-fuse/src/elsewhere.rs", Gated, "in place of the server of a mount"),
    ("ffs-fuse/src/helper.rs", Gated, "calls of mount(8) of Linux"),
    ("ffs-fuse/src/kernel.rs", Gated, "mount(2), /dev/fuse"),
    ("ffs-fuse/src/lib.rs", Branch, "the modules of the server"),
    ("ffs-fuse/src/mountinfo.rs", Branch, "the mount table"),
    ("ffs-fuse/src/notifier.rs", Gated, "the server of a mount"),
    ("ffs-fuse/src/pressure.rs", Optional, "shortage of memory"),
    ("ffs-fuse/src/serve.rs", Gated, "the server of a mount"),
    ("ffs-fuse/src/served.rs", Gated, "the server of a mount"),
    ("ffs-fuse/src/server/", Gated, "the server of a mount"),
    ("ffs-fuse/src/session/", Gated, "/dev/fuse, io_uring"),
    ("ffs-fuse/src/signals.rs", Gated, "the server of a mount"),
    ("ffs-fuse/src/trace.rs", Gated, "the server of a mount"),
    ("ffs-fuse/src/umount.rs", Gated, "umount(2), pidfd_open"),
    ("ffs-fuse/src/wire/", Gated, "the protocol of FUSE on Linux, io_uring"),
    ("ffs-image/src/disk.rs", Branch, "qcow2"),
    ("ffs-image/src/lib.rs", Branch, "qcow2"),
    ("ffs-image/src/nbd/client.rs", Branch, "macOS has no MSG_NOSIGNAL"),
    ("ffs-image/src/qcow2/", Gated, "the crate imago builds on no BSD"),
    ("ffs-image/src/qcow2_by_qemu.rs", Gated, "in place of the crate imago"),
    ("ffs-image/src/qemu.rs", Branch, "pidfd_open"),
    ("ffs-lab/src/lib.rs", Branch, "the stress of mounts"),
    ("ffs-lab/src/stress/", Gated, "calls that only mounts of Linux serve"),
    ("ffs-lab/src/systems/dir.rs", Optional, "vm.drop_caches"),
    ("ffs-lab/src/systems/host.rs", Branch, "getdents64, syncfs, numbers of file systems"),
    ("ffs-lab/src/systems/mounted.rs", Optional, "the mount table"),
];

/// Words of code that compiles or works on some systems only.
const MARKS: &[&str] = &[
    "target_os",
    "target_vendor",
    "std::os::linux",
    "io_uring::",
    "rustix::mount",
    "\"/proc/",
    "\"/sys/",
    "\"/dev/fuse",
    "\"/dev/shm",
    "pidfd_",
    "syncfs(",
    "RawDir",
    "FallocateFlags",
    "copy_file_range(",
    "rustix::fs::fgetxattr",
    "rustix::fs::flistxattr",
    "rustix::fs::fremovexattr",
    "rustix::fs::fsetxattr",
    "rustix::fs::getxattr",
    "rustix::fs::listxattr",
    "OFlags::PATH",
    "OFlags::NOATIME",
    "Errno::NODATA",
    "libc::ENODATA",
    "RenameFlags",
    "fadvise(",
    "NOSIGNAL",
    "rustix::fs::ioctl_",
];

/// The source files of the published crates, without those of tests.
fn sources() -> Vec<String> {
    let crates = repository::crates().into_iter().filter(|name| name != "ffs-testkit");
    let files = crates.flat_map(|name| {
        let folder = format!("crates/{name}");
        let has = repository::files(&folder).iter().any(|path| path.contains("/src/"));
        if has { repository::files_with(&format!("{folder}/src"), &["rs"]) } else { Vec::new() }
    });
    files.filter(|path| !path.contains("/tests")).collect()
}

/// The code of a file: without comments, and without its own tests.
fn code(path: &str) -> String {
    let text = read(path);
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

fn is_marked(code: &str) -> bool {
    MARKS.iter().any(|mark| code.contains(mark))
}

fn short(path: &str) -> &str {
    path.trim_start_matches("crates/")
}

/// The entry of a file: its own, or that of its folder.
fn entry(path: &str) -> Option<How> {
    let path = short(path);
    let own = |place: &str| place == path || place.ends_with('/') && path.starts_with(place);
    LIST.iter().find(|(place, ..)| own(place)).map(|(_, how, _)| *how)
}

/// The modules that a file declares for some systems only.
fn gated_modules(code: &str) -> Vec<String> {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let gated = lines.windows(2).filter(|pair| {
        pair[0].starts_with("#[cfg(") && pair[0].contains("target_os") && pair[1].ends_with(';')
    });
    let name = |line: &str| {
        let (_, name) = line.split_once("mod ")?;
        Some(name.trim_end_matches(';').to_owned())
    };
    gated.filter_map(|pair| name(pair[1])).collect()
}

#[test]
fn code_of_one_system_is_on_the_list() {
    let missing: Vec<String> = sources()
        .into_iter()
        .filter(|path| entry(path).is_none() && is_marked(&code(path)))
        .collect();
    assert!(
        missing.is_empty(),
        "code for one system; give it another branch or a cfg, and add it to LIST: {missing:?}"
    );
}

#[test]
fn every_entry_is_needed() {
    let sources = sources();
    for (place, how, reason) in LIST {
        assert!(!reason.is_empty(), "{place}");
        let own = |path: &&String| short(path) == *place || short(path).starts_with(place);
        let files: Vec<&String> = sources.iter().filter(own).collect();
        assert!(!files.is_empty(), "{place} does not exist");
        if *how != Gated {
            assert!(files.iter().any(|path| is_marked(&code(path))), "{place} runs everywhere");
        }
    }
    let sorted: BTreeSet<&str> = LIST.iter().map(|(place, ..)| *place).collect();
    assert!(LIST.iter().map(|(place, ..)| *place).eq(sorted), "the list is sorted");
}

#[test]
fn modules_of_one_system_are_those_of_the_list() {
    let mut found = BTreeSet::new();
    for path in sources() {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for module in gated_modules(&code(&path)) {
            let place = format!("{}/{module}", short(folder));
            let is_folder = repository::root().join("crates").join(&place).is_dir();
            found.insert(if is_folder { format!("{place}/") } else { format!("{place}.rs") });
        }
    }
    let listed: BTreeSet<String> = LIST
        .iter()
        .filter(|(_, how, _)| *how == Gated)
        .map(|(place, ..)| (*place).to_owned())
        .collect();
    assert_eq!(found, listed);
}

#[test]
fn modules_of_one_system_are_found() {
    let code = "#[cfg(target_os = \"linux\")]\npub mod a;\nmod b;\n\
                #[cfg(not(target_os = \"linux\"))]\nmod c;\n#[cfg(test)]\nmod d;\n\
                #[cfg(target_os = \"linux\")]\nmod inline {\n";
    assert_eq!(gated_modules(code), ["a", "c"]);
    assert!(is_marked("let fd = pidfd_open(pid)"));
    assert!(!is_marked("let fd = open(path)"));
    assert_eq!(entry("crates/ffs-fuse/src/wire/ring.rs"), Some(Gated));
    assert_eq!(entry("crates/ffs-fuse/src/options.rs"), None);
}
