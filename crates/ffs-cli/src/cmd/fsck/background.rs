//! `ffs fsck -F` and `-B`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bsdffs::bgfsck::{CheckOptions, run};
use ffs_admin::fsck::exit;
use ffs_admin::{AdminError, Volume};
use ffs_core::{CheckProgress, Env};
use ffs_fuse::MountError;
use ffs_ondisk::superblock::{FSMAXSNAP, FsFlags};
use ffs_ondisk::upkeep::NotKept;

use super::{phase_of, status};
use crate::bgfsck::{NO_BACKGROUND, NO_SOFTDEP, code, summary};
use crate::fail::{Failure, show};
use crate::progress::Progress;
use crate::session::{self, Session};
use crate::{output, signals};

/// `-F`: the volume must be checked before it is mounted.
const FOREGROUND: u8 = 4;
/// `-F`: the volume is clean.
const CLEAN: u8 = 7;

/// The exit code of `-F`: 0 if the volume needs a check, and can be mounted first.
pub(super) fn decide(image: &OsStr) -> Result<u8, Failure> {
    let opened = session::open(image, false).map_err(|failure| failure.code(exit::ERROR))?;
    let volume = match Volume::open(&*opened.device) {
        Ok(volume) => volume,
        Err(AdminError::Device(error)) => return Err(Failure::plain(error).code(exit::ERROR)),
        Err(_) => return Ok(exit::SUPERBLOCK),
    };
    let flags = volume.sb.flags();
    let all_used = volume.sb.f.snapinum.iter().filter(|ino| **ino != 0).count() >= FSMAXSNAP;
    Ok(if volume.sb.is_clean() && !flags.contains(FsFlags::NEEDSFSCK) {
        CLEAN
    } else if flags.intersects(FsFlags::NEEDSFSCK | FsFlags::SUJ | FsFlags::GJOURNAL) {
        FOREGROUND
    } else if !flags.contains(FsFlags::DOSOFTDEP) {
        NO_SOFTDEP
    } else if all_used || NotKept::of(&volume.sb, &volume.geo).is_some() {
        NO_BACKGROUND
    } else {
        exit::OK
    })
}

/// `-B`: checks the volume that is mounted on `place`, or the one in the image `place`.
pub(super) fn check(place: &OsString, force: bool, max_memory: Option<u64>) -> Result<u8, Failure> {
    if Path::new(place).is_dir() {
        check_mount(place, force)
    } else {
        in_image(place, force, max_memory)
    }
}

fn check_mount(dir: &OsStr, force: bool) -> Result<u8, Failure> {
    let name = show(dir.as_bytes());
    let (mut progress, mut shown) = (Progress::items(&name, None), None);
    let result = ffs_fuse::background_check(Path::new(dir), force, |at| {
        if shown.replace(at.phase) != Some(at.phase) {
            progress.begin(describe(&at));
        }
        progress.set(at.done, Some(at.total));
        if signals::take_status_request() {
            let CheckProgress { done, total, .. } = at;
            output::note(format!("{name}: {}: {done} of {total}", describe(&at)));
        }
        !signals::interrupted()
    });
    drop(progress);
    let result = result.map_err(|error| {
        let code = match error {
            MountError::NotMounted { .. } => exit::USAGE,
            _ => exit::ERROR,
        };
        Failure::plain(error).code(code)
    })?;
    report(&name, result.code, &result.text);
    Ok(result.code)
}

fn describe(at: &CheckProgress) -> String {
    match at.phase {
        6 => "Corrections".to_owned(),
        phase => format!("Phase {phase}"),
    }
}

fn report(name: &str, code: u8, text: &str) {
    match code {
        exit::OK => output::note(format!("{name}: {text}")),
        _ => output::error(format!("{name}: {text}")),
    }
}

/// Mounts the volume in `image`, which is called `name`.
fn mount(image: &OsString, name: &str) -> Result<Session, Failure> {
    let opened = session::open(image, true)?;
    if let Some(note) = session::recover(&opened.device) {
        output::note(format!("{name}: {note}"));
    }
    Session::mount(name.to_owned(), opened.device, &session::offline(), Env::system())
}

/// Mounts the volume for the check alone.
fn in_image(image: &OsString, force: bool, max_memory: Option<u64>) -> Result<u8, Failure> {
    let name = show(image.as_bytes());
    signals::listen();
    let session = mount(image, &name).map_err(|failure| failure.code(exit::ERROR))?;
    let mut progress = Progress::items(&name, None);
    let shown = name.clone();
    let found = run(
        &session.ffs,
        CheckOptions {
            force,
            paced: false,
            interrupt: signals::flag().unwrap_or_default(),
            max_memory,
            changed: &mut |_| {},
            progress: &mut |at| {
                if at.done == 0 {
                    progress.begin(phase_of(&at));
                }
                progress.set(at.done, Some(at.total));
                if signals::take_status_request() {
                    output::note(format!("{shown}: {}", status(&at)));
                }
            },
        },
    );
    drop(progress);
    let code = code(&session.ffs, &found);
    for finding in &found.findings {
        output::note(format!("{name}: {finding}"));
    }
    session.finish().map_err(|failure| failure.code(exit::ERROR))?;
    report(&name, code, &summary(&found));
    Ok(code)
}
