//! What a copy of several sources has to do in all, for the progress bar, and how it reads trees.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use bsdffs::copy::{FileData, HostSourceOptions, ImageSourceOptions};
use ffs_core::FileType;

use super::choose::Excludes;
use super::images::Images;
use super::job::Job;
use super::survey::{Counted, Survey};
use super::{STDIN, own_name};
use crate::namei::Last;
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::spec::{ImagePath, Place};

impl Job<'_> {
    /// Counts all sources for the progress bar: those on the host, in the open `images`, and in
    /// the image that is copied to, `target`.
    pub(super) fn count_all(
        &mut self,
        from: &[Place],
        images: &Images<'_>,
        target: Option<&Session>,
    ) {
        if from.len() < 2 || !self.watch.progress.is_wanted() {
            return;
        }
        let trees: Option<Vec<Vec<Counted>>> = from
            .iter()
            .map(|source| match source {
                Place::Host(path) => self.counted_host(path),
                Place::Image(path) => match images.of(path, target) {
                    Some((session, _)) => self.counted_image(session, path),
                    None => Some(Vec::new()),
                },
            })
            .collect();
        if let Some(trees) = trees {
            let trees = trees.into_iter().flatten().collect();
            let excludes = Excludes(self.flags.exclude.clone());
            self.watch.count_all(Survey::new(trees, Arc::new(excludes)));
        }
    }

    /// The trees of a source on the host: one, or none if it is not copied; `None` if its size is
    /// not known before the copy.
    fn counted_host(&self, path: &Path) -> Option<Vec<Counted>> {
        if path == Path::new(STDIN) {
            return None;
        }
        let found = match self.flags.follows_top() {
            true => fs::metadata(path),
            false => fs::symlink_metadata(path),
        };
        let Ok(found) = found else { return Some(Vec::new()) };
        let name = own_name(path.as_os_str().as_bytes());
        if name.is_some_and(|name| self.is_excluded(&name, found.is_dir())) {
            return Some(Vec::new());
        }
        let regular = found.is_file() || found.is_dir() || found.is_symlink();
        regular.then(|| vec![Counted::Host(path.to_owned(), self.host_options(false))])
    }

    /// The trees of a source in the image of `session`, likewise.
    fn counted_image(&self, session: &Session, from: &ImagePath) -> Option<Vec<Counted>> {
        if !matches!(session.snapshot_at(from, AtEnd::File), Ok(None)) {
            return None;
        }
        let Ok(root) = session.find(&from.path, self.last()) else { return Some(Vec::new()) };
        let directory = session.ffs.getattr(&root).kind == FileType::Directory;
        if own_name(&from.path).is_some_and(|name| self.is_excluded(&name, directory)) {
            return Some(Vec::new());
        }
        let (ffs, cred) = (session.ffs.clone(), session.cred.clone());
        Some(vec![Counted::Image(ffs, cred, root, self.image_options())])
    }

    pub(super) fn host_options(&self, stdin: bool) -> HostSourceOptions {
        HostSourceOptions {
            xattrs: self.options.kept().need_xattrs() && self.options.preserve,
            hard_links: self.options.hard_links,
            identities: false,
            data: !self.flags.dry_run,
            follow: self.flags.follows_top() || stdin,
            follow_all: self.flags.follows_all(),
            one_file_system: self.flags.one_file_system,
            stream: !self.flags.recursive() || stdin,
            skip: Vec::new(),
        }
    }

    pub(super) fn image_options(&self) -> ImageSourceOptions {
        ImageSourceOptions {
            hard_links: self.options.hard_links,
            xattrs: self.options.kept().need_xattrs() && self.options.preserve,
            follow_all: self.flags.follows_all(),
            data: if self.flags.dry_run { FileData::Nothing } else { FileData::Bytes },
            ..Default::default()
        }
    }

    /// Whether a link as a source means its file.
    pub(super) fn last(&self) -> Last {
        if self.flags.follows_top() { Last::Follow } else { Last::Keep }
    }
}
