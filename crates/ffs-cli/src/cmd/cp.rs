//! `ffs cp`.

mod choose;
mod count;
mod flags;
mod images;
mod job;
mod stream;
mod survey;
mod target;
mod verify;
mod watch;

use std::ffi::OsString;
use std::fs;

use super::{Doc, EXIT};
use crate::copying::warn_of_losses;
use crate::fail::{Failure, Outcome};
use crate::output;
use crate::spec::{Place, image_path, place};
pub(crate) use flags::Flags;
use job::Job;
use watch::Watch;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs cp disk.img:/etc/fstab .", "a file out"),
        ("ffs cp notes.txt disk.img:/root/", "a file in; a new one belongs to root there"),
        ("ffs cp passwd disk.img:/etc/passwd", "a new content; mode, owner and links stay"),
        ("ffs cp --atomic rc.conf disk.img:/etc/rc.conf", "the old file until the new is complete"),
        ("ffs cp -a disk.img@2:/home /backup", "a tree out, with everything"),
        ("ffs cp -a site/. disk.img:/usr/local/www", "what is in a directory, in"),
        ("ffs cp -a old.img:/. new.img:/", "from image to image"),
        ("ffs cp disk.img:/.snap/monday:/etc/rc.conf .", "a file out of a snapshot"),
        ("ffs cp -a --continue disk.img:/. saved", "the rest of an interrupted copy"),
        ("ffs cp -a --checksum site disk.img:/srv", "and compare the copies with what was read"),
        ("ffs cp -au --exclude .git src disk.img:/usr/src", "what is newer, without some names"),
        ("ffs cp disk.img:/boot/kernel.gz - | gunzip", "to a pipe"),
        ("date | ffs cp - disk.img:/root/date", "from a pipe"),
    ],
    exit: EXIT,
    see_also: &["ffs-build(1)", "ffs-cat(1)", "ffs-chmod(1)", "ffs-chown(8)", "ffs-ls(1)"],
    section: "1",
    usage_code: 64,
};

/// Copy files into, out of and between images.
///
/// -a keeps owners, modes, times to the nanosecond, hard links, holes, symbolic links, devices,
/// extended attributes, POSIX access lists and BSD file flags (on the host in the attribute
/// user.bsd.flags). A warning counts the attributes that cannot be kept, such as owners without
/// root, and names the first file. A file that loses its access list gets a mode that grants no
/// more than the list did. NFSv4 access lists are kept between images whose volumes have them.
/// Without -a or -p, new files in an image belong to root; their mode is that of the source without
/// the bits of the umask, or follows from the default access list of the directory.
///
/// An existing file gets the new content and keeps the rest, as with cp(1): mode, owner, access
/// list, file flags, extended attributes and hard links. A symbolic link in the place of the target
/// is followed to its file; a dangling link is an error, and so is a directory. If the copy fails
/// half way, for example for lack of space, the file keeps the part that was copied, and the
/// message gives its size. With -p or -a the file gets the attributes of the source, too. With -a
/// an existing file that has several names is replaced, so that its other names keep their content.
///
/// With --atomic an existing file stays as it is until the new one is complete and replaces it. The
/// new file has the mode, owner, access list, file flags and extended attributes of the one it
/// replaces, or with -p or -a those of the source; other names of the old file keep the old
/// content, and a symbolic link is replaced, not followed.
///
/// A new file that cannot be copied completely is removed. A full volume ends the copy; files that
/// were copied before stay. If the target on the host is a pipe, a terminal or a device, the copy
/// writes to it; /dev/stdout and /dev/fd/N are descriptors of the caller, and - is standard output.
/// Without -R and -a, a source on the host that is a pipe or a terminal is read to its end; - is
/// standard input.
///
/// --preserve=LIST keeps only some attributes, by the words of GNU cp and two more: mode (with
/// access lists), ownership, timestamps, links, xattr, flags, acl, all. Set-id bits are kept only
/// with the owner.
///
/// --continue goes on after an interruption. A file is complete, and is not read, if it has the
/// size and the time of modification of its source: so use -a or --preserve=timestamps in both
/// runs. Any other existing file is compared with its source from the beginning, and written from
/// the first byte that differs. All files are compared with --checksum, and in an image without
/// soft updates, because a command that is killed may leave a wrong content under a right time
/// there. If such an image was not unmounted, check it first: ffs fsck. With --continue a copy that
/// ends early keeps its last file: on the host as .ffs-copy.NUMBER, in an image under its own name
/// with the mode 0.
///
/// --checksum reads each copied file again after a sync, from the device, and compares its SHA-256
/// hash with that of the bytes that were read from the source. A difference is an error that names
/// the file and the first byte.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Sources, then the target; a path in an image is IMAGE[@N]:/path
    #[arg(required = true, num_args = 1.., value_name = "PATH")]
    paths: Vec<OsString>,
    /// The target, a directory; then all PATHs are sources
    #[arg(short, long, value_name = "DIR", conflicts_with = "no_target_directory")]
    target_directory: Option<OsString>,
    #[command(flatten)]
    flags: Flags,
}

/// The file that `-` is as a source, and as the target.
const STDIN: &str = "/dev/fd/0";
const STDOUT: &str = "/dev/stdout";

pub(crate) fn run(args: Args) -> Outcome {
    let Args { mut paths, target_directory, flags } = args;
    if target_directory.is_none() && paths.len() < 2 {
        return Err(Failure::usage("no target; name it after the sources, or with -t"));
    }
    if let Some(first) = paths.first().and_then(|path| path.to_str())
        && let Some(option) = flags.detached_value(first)
        && fs::symlink_metadata(first).is_err()
    {
        return Err(
            Failure::usage(format!("{first}: no such file")).hint(format!("write {option}"))
        );
    }
    let mut to = target_directory;
    if let Some(dir) = &mut to
        && !dir.as_encoded_bytes().ends_with(b"/")
    {
        // A slash at the end means a directory.
        dir.push("/");
    }
    paths.extend(to);
    let last = paths.len() - 1;
    if flags.interactive && paths[..last].iter().any(|path| path == "-") {
        let why = "-i: standard input is a source, so that it has no answers; use -n or -u";
        return Err(Failure::usage(why));
    }
    let stream = |n: usize| Place::Host(if n == last { STDOUT } else { STDIN }.into());
    let places = paths.iter().enumerate();
    copy(&flags, places.map(|(n, arg)| if arg == "-" { stream(n) } else { place(arg) }).collect())
}

/// Copies all but the last of `places` to the last one.
///
/// # Errors
/// None of them is in an image, or the copy failed.
pub(crate) fn copy(flags: &Flags, mut places: Vec<Place>) -> Outcome {
    let Some(target) = places.pop() else { return Err(Failure::usage("no target")) };
    if places.iter().chain([&target]).all(|place| matches!(place, Place::Host(_))) {
        // `disk.img:etc` has a message of its own.
        for place in places.iter().chain([&target]) {
            if let Place::Host(path) = place {
                image_path(path.as_os_str())?;
            }
        }
        let why = "no argument is in an image; write IMAGE:/path for a file in an image";
        return Err(Failure::usage(why));
    }
    if flags.no_target_directory && places.len() > 1 {
        let why = "-T: the target is one name, so that there can be one source only";
        return Err(Failure::usage(why));
    }
    let options = flags.options(places.len());
    let mut watch = Watch::new(flags.verbose, flags.json, places.len());
    watch.default_modes = flags.default_modes();
    let mut job = Job { flags, options, watch, done: Vec::new(), verified: 0, named: false };
    let result = match &target {
        Place::Image(to) => job.copy_into_image(&places, to),
        Place::Host(to) => job.onto_host(&places, to),
    };
    let Job { mut watch, done, verified, .. } = job;
    let verified = flags.checksum.then_some(verified);
    watch.total(&done, verified)?;
    result?;
    drop(watch);
    let failed: u64 = done.iter().map(|report| report.failed).sum();
    let dry = if flags.dry_run { "would copy" } else { "copied" };
    for report in &done {
        warn_of_losses(report);
        if flags.verbose || report.failed > 0 {
            output::note(format!("{dry} {}", report.summary()));
        }
    }
    if let Some(files) = verified.filter(|_| flags.verbose) {
        output::note(format!("compared {} with what was read", ffs_admin::counted(files, "file")));
    }
    Ok(u8::from(failed > 0 || output::errors() > 0))
}

/// The name a source has in a directory it is copied into; `None` if only what is in it is meant.
fn own_name(path: &[u8]) -> Option<Vec<u8>> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let name = &path[start..end];
    (!matches!(name, b"" | b"." | b"..")).then(|| name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_means_what_is_in_a_directory() {
        assert_eq!(own_name(b"a/b"), Some(b"b".to_vec()));
        assert_eq!(own_name(b"a/b//"), Some(b"b".to_vec()));
        for contents in [&b"a/."[..], b".", b"/", b"..", b"a/../"] {
            assert_eq!(own_name(contents), None, "{}", contents.escape_ascii());
        }
    }
}
