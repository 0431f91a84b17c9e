//! Snapshots as images: `IMAGE:/.snap/NAME`, and paths inside, `IMAGE:/.snap/NAME:/path`.
//!
//! # Invariants
//! 1. The first `:/` in a path inside an image that follows the name of a snapshot separates: the
//!    rest is a path in the volume that the snapshot shows. A `:` at the end counts as `:/`. Other
//!    names may therefore contain colons.
//! 2. A snapshot is opened for reading. Nothing is changed in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use bsdffs::namei::{Last, components, join, namei};
use bsdffs::snapshot::{SnapshotDevice, is_snapshot};
use ffs_device::BlockDevice;
use ffs_image::Opened;

use super::Session;
use crate::fail::{Failure, shell_word, show};
use crate::spec::{ImagePath, Place, image_path, outside};
use crate::{current, output};

/// The meaning of a path that ends at a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// The root directory of the volume that it shows.
    Root,
    /// The file.
    File,
}

/// The volume that a snapshot shows, and a place in it.
pub(crate) type Inner = (Arc<dyn BlockDevice>, ImagePath);

/// The file in an image that `image` names in place of an image.
pub(crate) fn inside(image: &OsStr) -> Option<ImagePath> {
    match outside(image) {
        Place::Image(inside) if components(&inside.path).next().is_some() => Some(inside),
        Place::Image(_) | Place::Host(_) => None,
    }
}

/// Replaces the device of `opened`, the image of `inside`, by the snapshot that `inside` names.
pub(crate) fn open(mut opened: Opened, inside: ImagePath) -> Result<Opened, Failure> {
    let (len, mut place) = (inside.image.len(), inside);
    loop {
        let session = Session::on(&place.image, Arc::clone(&opened.device))?;
        let Some((device, rest)) = session.snapshot_at(&place, AtEnd::Root)? else {
            session.find(&place.path, Last::Follow)?;
            return Err(Failure::new(place, "not a snapshot, so it cannot be used as an image"));
        };
        opened.device = device;
        place = rest;
        if components(&place.path).next().is_none() {
            break;
        }
    }
    // The source of a mount: with the whole path of the image.
    let image = fs::canonicalize(&opened.path).unwrap_or(opened.path);
    let mut name = image.into_os_string();
    name.push(OsStr::from_bytes(&place.image.as_bytes()[len..]));
    opened.path = name.into();
    Ok(opened)
}

/// The failure of a command that would change `inside`, which it takes for an image.
pub(crate) fn refusal(inside: &ImagePath) -> Failure {
    Failure::new(
        inside,
        "a file in an image is an image only if it is a snapshot, and a snapshot \
                          never changes",
    )
    .hint("copy it to a file of its own and change that: ffs cp IMAGE:/SNAPSHOT FILE")
}

impl Session {
    /// Mounts the volume that `place` leads to, through each snapshot on the way, to read it.
    /// Returns the place in that volume.
    pub(crate) fn read_at(place: &ImagePath, end: AtEnd) -> Result<(Session, ImagePath), Failure> {
        Session::read(&place.image)?.through(place.clone(), end)
    }

    /// Calls `work` for each of `args`, IMAGE:/PATH, with the volume as [`Session::read_at`] mounts
    /// it. A failure is printed, and the next one follows.
    ///
    /// # Errors
    /// As [`output::report`].
    pub(crate) fn read_each(
        args: &[OsString],
        end: AtEnd,
        mut work: impl FnMut(&Session, &ImagePath) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        args.iter().try_for_each(|arg| {
            let place = image_path(arg)?;
            let result = Session::read_at(&place, end).and_then(|(session, place)| {
                let result = work(&session, &place);
                session.finish_with(result)
            });
            output::report(result)
        })
    }

    /// The volume that `place` in this one leads to, through each snapshot on the way.
    pub(crate) fn through(
        self,
        mut place: ImagePath,
        end: AtEnd,
    ) -> Result<(Session, ImagePath), Failure> {
        let mut session = self;
        while let Some((device, rest)) = session.snapshot_at(&place, end)? {
            session = Session::on(&rest.image, device)?;
            place = rest;
        }
        Ok((session, place))
    }

    /// The snapshot at the beginning of `place.path`, as a device, and the place in it; `None` if
    /// there is none.
    ///
    /// # Errors
    /// The snapshot cannot be opened.
    pub(crate) fn snapshot_at(
        &self,
        place: &ImagePath,
        end: AtEnd,
    ) -> Result<Option<Inner>, Failure> {
        let path = &place.path;
        let colon = |at: &usize| path[*at] == b':' && matches!(path.get(at + 1), None | Some(b'/'));
        let whole = Some(path.len()).filter(|_| end == AtEnd::Root);
        for at in (1..path.len()).filter(colon).chain(whole) {
            let Ok(file) = namei(&self.ffs, &self.cred, &path[..at], Last::Follow) else {
                continue;
            };
            if !is_snapshot(&self.ffs.getattr(&file)) {
                continue;
            }
            let mut name = place.image.as_bytes().to_vec();
            name.push(b':');
            name.extend_from_slice(&path[..at]);
            let shown = show(&name);
            let device = SnapshotDevice::open(&*self.device, &self.ffs, &file, &shown);
            let device = device.map_err(|error| {
                let check = format!("check the volume: ffs fsck -n {}", self.word());
                Failure::new(shown, error).hint(check)
            })?;
            let rest = path.get(at + 1..).filter(|rest| !rest.is_empty()).unwrap_or(b"/");
            let rest = ImagePath { image: OsString::from_vec(name), path: rest.to_vec() };
            return Ok(Some((Arc::new(device), rest)));
        }
        Ok(None)
    }

    /// The failure of a lookup of `path` that was meant to pass through a snapshot: that of a
    /// command that changes an image, or one with the wrong name of a snapshot.
    pub(crate) fn missed_snapshot(&self, path: &[u8]) -> Option<Failure> {
        let at = path.windows(2).position(|two| two == b":/").filter(|&at| at > 0)?;
        let image = OsString::from(self.image());
        let place = ImagePath { image, path: path.to_vec() };
        if let Ok(Some(_)) = self.snapshot_at(&place, AtEnd::File) {
            return Some(refusal(&place));
        }
        if self.is_image_in_shell(&path[..at]) {
            let failure = Failure::new(show(path), "no such file");
            let inside = shell_word(&show(&path[at + 1..])).into_owned();
            return Some(failure.hint(format!("in the shell a path has no image: {inside}")));
        }
        let why = format!("no snapshot is {} in this volume", show(&path[..at]));
        Some(self.propose(Failure::new(place, why), "list them", "snapshot list", b""))
    }

    /// Whether `path` is the name of the image that the shell has open, typed as part of a path:
    /// the whole name, or the last part of it, which then is in the current directory.
    fn is_image_in_shell(&self, path: &[u8]) -> bool {
        let image = Path::new(self.image());
        let last = image.file_name().unwrap_or_default();
        let here = join(&current::directory(), last.as_bytes());
        current::is(image.as_os_str())
            && [self.image().as_bytes(), &here]
                .iter()
                .any(|image| components(image).eq(components(path)))
    }
}
