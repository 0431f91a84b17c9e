//! The images that have the sources of a copy. Each is opened once, before the first source is
//! copied, so that a total of all of them can be counted.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::fail::Failure;
use crate::output;
use crate::session::{Beside, Session};
use crate::spec::{ImagePath, Place};

/// The most images that are open at a time: a process may have 1024 open files.
const MOST: usize = 64;

/// An image that has a source.
enum Open {
    /// It is the image that is copied to.
    Target,
    Other(Box<Session>),
}

/// The open images, by their names.
pub(super) struct Images<'a>(Vec<(&'a OsStr, Open)>);

/// `from` in parts that have at most [`MOST`] images each.
pub(super) fn parts(mut from: &[Place]) -> Vec<&[Place]> {
    let mut parts = Vec::new();
    while !from.is_empty() {
        let mut names = BTreeSet::new();
        let fits = from.iter().take_while(|place| {
            names.extend(image_of(place).map(OsStr::to_owned));
            names.len() <= MOST
        });
        let end = fits.count();
        let (part, rest) = from.split_at(end);
        parts.push(part);
        from = rest;
    }
    parts
}

impl<'a> Images<'a> {
    /// Opens the images of `from`. Reports those that cannot be opened. `target` is the image that
    /// is copied to, and its name.
    pub(super) fn open(
        from: &'a [Place],
        target: Option<(&Session, &OsStr)>,
    ) -> Result<Images<'a>, Failure> {
        let (mut images, mut seen) = (Images(Vec::new()), BTreeSet::new());
        for name in from.iter().filter_map(image_of) {
            if !seen.insert(name) {
                continue;
            }
            match open(name, target) {
                Ok(open) => images.0.push((name, open)),
                Err(failure) => refuse(failure)?,
            }
        }
        Ok(images)
    }

    /// The session of the source `from`, and whether it is `target`, the one that is copied to;
    /// `None` if its image could not be opened.
    pub(super) fn of<'s>(
        &'s self,
        from: &ImagePath,
        target: Option<&'s Session>,
    ) -> Option<(&'s Session, bool)> {
        match &self.0.iter().find(|(name, _)| *name == from.image)?.1 {
            Open::Target => target.map(|session| (session, true)),
            Open::Other(session) => Some((session, false)),
        }
    }

    /// Unmounts all. An error in `result` has precedence.
    pub(super) fn finish_with(self, result: Result<(), Failure>) -> Result<(), Failure> {
        self.0.into_iter().fold(result, |result, (_, open)| match open {
            Open::Target => result,
            Open::Other(session) => session.finish_with(result),
        })
    }
}

fn open(name: &OsStr, target: Option<(&Session, &OsStr)>) -> Result<Open, Failure> {
    if let Some((session, image)) = target {
        if name == image {
            return Ok(Open::Target);
        }
        match session.beside(name)? {
            Beside::Same => return Ok(Open::Target),
            Beside::Partition(other) => return Ok(Open::Other(other)),
            Beside::No => {}
        }
    }
    Session::read(name).map(|session| Open::Other(Box::new(session)))
}

/// The image that has a source.
pub(super) fn image_of(source: &Place) -> Option<&OsStr> {
    match source {
        Place::Image(path) => Some(&path.image),
        Place::Host(_) => None,
    }
}

/// Reports that one source cannot be copied, and goes on with the others.
pub(super) fn refuse(failure: Failure) -> Result<(), Failure> {
    output::error(failure.text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_a_limited_number_of_images() {
        let place = |n: usize| {
            let image = format!("{n}.img").into();
            Place::Image(ImagePath { image, path: b"/".to_vec() })
        };
        // Each image twice, and a file of the host.
        let mut from: Vec<Place> = (0..2 * (MOST + 6)).map(|n| place(n / 2)).collect();
        from.insert(1, Place::Host("file".into()));
        let lens: Vec<usize> = parts(&from).iter().map(|part| part.len()).collect();
        assert_eq!(lens, [2 * MOST + 1, 12]);
        assert_eq!(parts(&from).concat(), from);
        assert!(parts(&[]).is_empty());
    }
}
