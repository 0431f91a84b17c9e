//! The command as a helper of mount(8) and umount(8).
//!
//! | program name | caller | arguments |
//! | --- | --- | --- |
//! | `mount.fuse.ffs` | `mount -t fuse.ffs` | `IMAGE DIR [-sfnv] [-o OPTIONS] [-t TYPE]` |
//! | `mount.fuseblk.ffs` | `mount -o remount`, if a block device is mounted | the same |
//! | `mount.ffs`, `mount.ufs` | `mount -t ffs`, `mount -t ufs` | the same |
//! | `ffs` | libfuse's `mount.fuse`, if there is no `mount.fuse.ffs` | `IMAGE DIR -o OPTIONS` |
//! | `umount.fuse.ffs`, `umount.ffs`, `umount.fuseblk.ffs` | `umount` | `DIR [-flnrv] [-t TYPE]` |
//!
//! Where the last one is installed, `umount -c` waits for the server. Without `-c`, it takes the
//! type from statfs(2), which is `fuse`, and calls no helper.
//!
//! `ffs NAME`, with the name of a helper as the first argument, is a call by that name: packages
//! install scripts that make it.
//!
//! **References.** mount(8) "External helpers", umount(8), mount.fuse(8).

use crate::daemon::mount_daemon;
use crate::error::MountError;
use crate::options::{Options, parse_options};
use crate::params::{CheckFn, MountRequest, Opener, UnmountRequest};
use crate::umount::{remount, unmount_and_wait};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The exit code of mount(8) for wrong usage.
const USAGE: i32 = 1;

/// A request of mount(8) or umount(8).
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Mount { image: OsString, dir: PathBuf, options: Vec<String>, fake: bool },
    Umount(UnmountRequest),
}

/// Serves a request of mount(8) or umount(8), and returns the exit code. Returns `None` if
/// `arguments`, which begin with the program's name, are an ordinary command line. `hooks`: what
/// opens images and checks volumes in the background. `start_log` runs before a mount begins.
pub fn run_as_helper(
    arguments: impl IntoIterator<Item = OsString>,
    hooks: Option<(Opener, CheckFn)>,
    start_log: fn(&Options),
) -> Option<i32> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    Some(match recognise(&arguments)? {
        Ok(call) => report(run(call, hooks, start_log)),
        Err(words) => {
            eprintln!("ffs: {words}");
            USAGE
        }
    })
}

fn report(outcome: Result<(), String>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(words) => {
            eprintln!("ffs: {words}");
            MountError::EXIT_CODE
        }
    }
}

/// Parses the program name and the arguments. `None`: this is no call as a helper.
fn recognise(arguments: &[OsString]) -> Option<Result<Call, String>> {
    let (program, rest) = arguments.split_first()?;
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or("");
    by_name(name, rest)
        .or_else(|| {
            // The scripts of a package run `ffs mount.ufs ...`. Links to other commands take any
            // file name as an argument.
            let (helper, rest) = rest.split_first().filter(|_| name.starts_with("ffs"))?;
            by_name(helper.to_str()?, rest)
        })
        .or_else(|| {
            // mount.fuse runs the type's name as a command, always with absolute paths and -o.
            let path = |i: usize| rest.get(i).is_some_and(|a| Path::new(a).is_absolute());
            let called = rest.len() == 4 && path(0) && path(1) && rest[2] == "-o";
            called.then(|| parse_mount(rest))
        })
}

/// The call of the helper `name`. `None`: no helper has this name.
fn by_name(name: &str, rest: &[OsString]) -> Option<Result<Call, String>> {
    match name {
        "mount.fuse.ffs" | "mount.fuseblk.ffs" | "mount.ffs" | "mount.ufs" => {
            Some(parse_mount(rest))
        }
        "umount.fuse.ffs" | "umount.fuseblk.ffs" | "umount.ffs" => Some(parse_umount(rest)),
        _ => None,
    }
}

/// Calls `option` for each single-letter option. Returns the other arguments.
fn split<'a>(
    rest: &'a [OsString],
    takes_value: &str,
    mut option: impl FnMut(char, Option<&'a OsString>) -> Result<(), String>,
) -> Result<Vec<&'a OsString>, String> {
    let mut words = Vec::new();
    let mut arguments = rest.iter();
    while let Some(a) = arguments.next() {
        let letters = a.to_str().and_then(|s| s.strip_prefix('-')).filter(|s| !s.is_empty());
        let Some(letters) = letters else {
            words.push(a);
            continue;
        };
        for c in letters.chars() {
            let value = if takes_value.contains(c) {
                Some(arguments.next().ok_or_else(|| format!("option -{c} needs a value"))?)
            } else {
                None
            };
            option(c, value)?;
        }
    }
    Ok(words)
}

fn parse_mount(rest: &[OsString]) -> Result<Call, String> {
    let mut options = Vec::new();
    let mut fake = false;
    let words = split(rest, "oNt", |c, value| {
        match c {
            'o' => options.extend(value.and_then(|v| v.to_str()).map(str::to_owned)),
            'f' => fake = true,
            // Sloppy, no mtab, verbose, namespace, type: these need no action.
            's' | 'n' | 'v' | 'N' | 't' => {}
            _ => return Err(format!("unknown option -{c}")),
        }
        Ok(())
    })?;
    let [image, dir] = words[..] else {
        return Err("usage: mount.fuse.ffs IMAGE DIR [-o OPTIONS]".to_owned());
    };
    Ok(Call::Mount { image: image.clone(), dir: dir.into(), options, fake })
}

fn parse_umount(rest: &[OsString]) -> Result<Call, String> {
    let mut request = UnmountRequest::default();
    let words = split(rest, "Nt", |c, _| {
        match c {
            'l' => request.lazy = true,
            'f' => request.force = true,
            'n' | 'r' | 'v' | 'N' | 't' | 'i' => {}
            _ => return Err(format!("unknown option -{c}")),
        }
        Ok(())
    })?;
    let [dir] = words[..] else {
        return Err("usage: umount.fuse.ffs DIR [-lf]".to_owned());
    };
    request.mount_point = dir.into();
    Ok(Call::Umount(request))
}

fn run(
    call: Call,
    hooks: Option<(Opener, CheckFn)>,
    start_log: fn(&Options),
) -> Result<(), String> {
    match call {
        Call::Umount(request) => unmount_and_wait(&request).map_err(|e| e.to_string()),
        Call::Mount { image, dir, options, fake } => {
            let options = parse_options(&options).map_err(|e| e.to_string())?;
            if fake {
                return Ok(());
            }
            if options.remount {
                return remount(&dir, options.core.read_only).map_err(|e| e.to_string());
            }
            start_log(&options);
            let request = MountRequest::new(image, dir);
            let (open, check) = match hooks {
                Some((open, check)) => (open, Some(check)),
                None => (request.open, None),
            };
            let request = MountRequest { options, open, check, like_mount: true, ..request };
            let mounted = mount_daemon(&request).map_err(|e| e.to_string())?;
            for note in mounted.notes {
                eprintln!("ffs: {note}");
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Option<Result<Call, String>> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        recognise(&words)
    }

    fn mount(options: &[&str], fake: bool) -> Call {
        let options = options.iter().map(|o| (*o).to_owned()).collect();
        Call::Mount { image: "/a.img".into(), dir: "/mnt".into(), options, fake }
    }

    #[test]
    fn calls_of_mount_are_recognised() {
        let got = call("/sbin/mount.fuse.ffs /a.img /mnt -n -o ro,noatime").unwrap();
        assert_eq!(got, Ok(mount(&["ro,noatime"], false)));
        let got = call("mount.ffs /a.img /mnt -sfv -o rw -t fuse.ffs").unwrap();
        assert_eq!(got, Ok(mount(&["rw"], true)));
        let got = call("/sbin/mount.ufs /a.img /mnt -o ro -n -v -s").unwrap();
        assert_eq!(got, Ok(mount(&["ro"], false)));
        let got = call("/usr/bin/ffs mount.ufs /a.img /mnt -o ro -f").unwrap();
        assert_eq!(got, Ok(mount(&["ro"], true)));
        let got = call("ffs umount.fuseblk.ffs /mnt").unwrap();
        let plain = UnmountRequest { mount_point: "/mnt".into(), lazy: false, force: false };
        assert_eq!(got, Ok(Call::Umount(plain)));
        let got = call("ffs /a.img /mnt -o rw,dev,suid").unwrap();
        assert_eq!(got, Ok(mount(&["rw,dev,suid"], false)));
        let got = call("umount.fuse.ffs /mnt -l -t fuse.ffs").unwrap();
        let lazy = UnmountRequest { mount_point: "/mnt".into(), lazy: true, force: false };
        assert_eq!(got, Ok(Call::Umount(lazy)));
    }

    #[test]
    fn other_command_lines_are_left_alone() {
        for line in [
            "ffs",
            "ffs mount /a.img /mnt",
            "ffs ls /a.img",
            "newfs /a.img /mnt",
            "newfs mount.ufs /mnt",
            "ffs /sbin/mount.ufs /a.img /mnt",
        ] {
            assert_eq!(call(line), None, "{line}");
        }
        assert!(call("mount.ffs /a.img").unwrap().is_err());
        assert!(call("mount.ffs /a.img /mnt -o").unwrap().is_err());
        assert!(call("mount.ffs /a.img /mnt -x").unwrap().is_err());
    }
}
