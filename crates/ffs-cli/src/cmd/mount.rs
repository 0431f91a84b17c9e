//! `ffs mount`.

mod all;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ffs_fuse::{
    MountError, MountRequest, Mounted, mount_daemon, mount_foreground, parse_options, remount,
};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::Doc;
use crate::fail::{Failure, Outcome, shell_word, show};
use crate::session::snapshot;
use crate::{bgfsck, expand, log, output, session, signals, stdin};

/// mount(8): failure.
const FAILED: u8 = MountError::EXIT_CODE as u8;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs mount disk.img /mnt", "read-write; returns when mounted"),
        ("ffs mount -o ro disk.img@2 /mnt", "read-only, partition 2"),
        ("ffs mount --all disk.img /mnt", "each volume of a disk, on /mnt/LABEL"),
        ("ffs mount disk.img:/.snap/monday /mnt", "a snapshot, read-only"),
        ("ffs mount -o help", "every option"),
        ("ffs mount -o debug disk.img /mnt", "print each request of the kernel"),
        ("ffs mount -u -o ro /mnt", "from read-write to read-only"),
        (
            "mount -t fuse.ffs /disk.img /mnt",
            "with ffs installed as /sbin/mount.fuse.ffs; so fstab",
        ),
    ],
    exit: &[
        ("0", "mounted"),
        ("32", "not mounted"),
        ("64", "of the volumes of --all, some are mounted"),
    ],
    see_also: &["ffs-umount(8)", "ffs-fsck(8)", "mount(8)", "fstab(5)"],
    section: "8",
    usage_code: 1,
};

/// Mount an image by FUSE.
///
/// Needs /dev/fuse, and root or the program fusermount3. Returns when the file system is mounted; a
/// process in the background serves it until `ffs umount DIR` or `fusermount3 -u DIR`. While it is
/// mounted the image is locked: no other tool can change it. The lock is on the whole file: of a
/// disk image with several partitions one can be mounted at a time, or all with --all. Each is then
/// mounted on a directory in DIR, which has the label of the partition, or else its name, such as
/// p2, and is made if it does not exist. A snapshot is mounted read-only.
///
/// Access lists are enforced if the volume has them enabled (tunefs -a); -o acls and -o noacls
/// override the flag. With -o softdep on a volume without the flag of soft updates, the flag is set
/// until the unmount, or until the check after a crash. On UFS2 setcap(8) works, and the mount may
/// be the upper layer of overlayfs.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N] or IMAGE:/.snap/NAME, then the directory; with -u the directory alone
    #[arg(value_name = "IMAGE DIR")]
    words: Vec<OsString>,
    /// Mount options, separated by commas; `-o help` lists them
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Mount every volume of a disk image, each on a directory in DIR
    #[arg(long, conflicts_with_all = ["foreground", "update"])]
    all: bool,
    /// Stay in the foreground
    #[arg(short = 'f')]
    foreground: bool,
    /// Read-only: -o ro
    #[arg(short = 'r', overrides_with = "read_write")]
    read_only: bool,
    /// Read-write: -o rw
    #[arg(short = 'w', overrides_with = "read_only")]
    read_write: bool,
    /// Change an existing mount to read-only (-o ro) or read-write (-o rw)
    #[arg(short = 'u')]
    update: bool,
}

impl Args {
    /// The arguments that mount a snapshot on `dir`.
    pub(super) fn of_snapshot(
        snapshot: OsString,
        dir: PathBuf,
        options: Vec<String>,
        foreground: bool,
    ) -> Args {
        let words = vec![snapshot, dir.into_os_string()];
        let (all, read_only, read_write, update) = (false, true, false, false);
        Args { words, options, all, foreground, read_only, read_write, update }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut words = args.options.clone();
    if words.iter().flat_map(|list| list.split(',')).any(|word| word == "help") {
        return list_options();
    }
    if args.read_only {
        words.push("ro".to_owned());
    }
    if args.read_write {
        words.push("rw".to_owned());
    }
    let mut options =
        parse_options(&words).map_err(|error| Failure::usage(error).hint("-o help lists them"))?;
    if args.update || options.remount {
        let Some(dir) = args.words.last() else { return Err(usage()) };
        remount(dir.as_ref(), options.core.read_only)
            .map_err(|error| Failure::plain(error).code(FAILED))?;
        return Ok(0);
    }
    let [image, dir] = &args.words[..] else { return Err(usage()) };
    if Path::new(image).is_dir() && Path::new(dir).exists() && !Path::new(dir).is_dir() {
        let [image, dir] = [image, dir].map(|word| show(word.as_bytes()));
        let failure = Failure::usage(format!("{dir}: not a directory; the image comes first"));
        let form = format!("{} {}", shell_word(&dir), shell_word(&image));
        return Err(failure.hint(format!("write: ffs mount {form}")));
    }
    options.core.read_only |= snapshot::inside(image).is_some();
    if stdin::names(image) {
        let failure = Failure::usage("a mount outlasts standard input");
        return Err(failure.hint("store the image in a file, and mount that"));
    }
    let image = &match options.core.read_only {
        true => image.clone(),
        false => expand::to_mount(image).map_err(|error| Failure::plain(error).code(FAILED))?,
    };
    // The server has its own handlers. A second signal must not end it while it unmounts.
    signals::check()?;
    signals::unregister_shutdowns();
    log::start_server(&options);
    if args.all {
        return all::mount_all(&options, image, dir.as_ref());
    }
    let foreground = args.foreground || options.debug;
    let (name, dir) = (show(image.as_bytes()), PathBuf::from(dir));
    let open = session::open_to_mount;
    let check = Some(bgfsck::of_mount as _);
    let request = MountRequest { options, open, check, ..MountRequest::new(image.clone(), dir) };
    let print_notes = |mounted: &Mounted| print_mounted(&name, mounted);
    let result = if foreground {
        mount_foreground(&request, print_notes)
    } else {
        mount_daemon(&request).map(|mounted| {
            print_notes(&mounted);
            print_rights(&mounted);
        })
    };
    result.map_err(|error| Failure::plain(error).code(FAILED))?;
    Ok(0)
}

/// Prints where the volume `name` is mounted, and what a user should know about that.
fn print_mounted(name: &str, mounted: &Mounted) {
    for note in &mounted.notes {
        output::note(format!("{name}: {note}"));
    }
    let point = show(mounted.mount_point.as_os_str().as_bytes());
    let how = if mounted.read_only { "read-only" } else { "read-write" };
    output::note(format!("{name} is mounted on {point}, {how}; to unmount it: ffs umount {point}"));
}

/// Prints how a user who may not write to the volume's root can mount it otherwise. The server must
/// be another process, because it answers.
fn print_rights(mounted: &Mounted) {
    let point = &mounted.mount_point;
    if !mounted.read_only && access(point, Access::WRITE_OK) == Err(Errno::ACCESS) {
        output::note(format!(
            "{}: this user may not write to the root directory of the volume; -o fakeroot gives \
             the rights of its root, and -o uid=$(id -u) shows every file as this user's",
            show(point.as_os_str().as_bytes())
        ));
    }
}

fn usage() -> Failure {
    Failure::usage("an image and a directory are needed: ffs mount IMAGE DIR")
}

fn list_options() -> Outcome {
    let mut out = output::stdout();
    for (word, help) in ffs_fuse::describe_options() {
        writeln!(out, "{word}\n      {help}")?;
    }
    out.flush()?;
    Ok(0)
}
