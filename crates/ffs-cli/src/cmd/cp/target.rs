//! Where copies go: a directory, and a name in it or each source's own.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ffs_core::{FileType, Vnode};

use crate::fail::Failure;
use crate::namei::{Last, basename, namei};
use crate::session::Session;
use crate::spec::ImagePath;

/// Where copies go, below the directory that is open in a sink.
#[derive(Default)]
pub(super) struct Target {
    /// The name there, unless each copy keeps its own.
    name: Option<Vec<u8>>,
    /// The name was written with a slash at its end: only a directory can have it.
    slash: Option<String>,
}

impl Target {
    /// The path below the sink for a source called `name`.
    pub(super) fn path(&self, name: Option<Vec<u8>>) -> Vec<u8> {
        self.name.clone().or(name).unwrap_or_default()
    }

    /// Whether the target has a name of its own, so that copies do not keep theirs.
    pub(super) fn is_name(&self) -> bool {
        self.name.is_some()
    }

    /// Fails for a source that is not a directory, if the name is for one.
    pub(super) fn takes(&self, directory: bool) -> Result<(), Failure> {
        match &self.slash {
            Some(shown) if !directory => {
                Err(Failure::new(shown, "is not a directory").hint("make it first"))
            }
            _ => Ok(()),
        }
    }

    /// The directory in the image of `session`, and the target below it. `as_name`: `to` is a name
    /// even if a directory has it.
    pub(super) fn in_image(
        session: &Session,
        to: &ImagePath,
        as_name: bool,
        several: bool,
    ) -> Result<(Vnode, Target), Failure> {
        if !as_name || basename(&to.path).is_none() {
            match namei(&session.ffs, &session.cred, &to.path, Last::Follow) {
                Ok(dir) if session.ffs.getattr(&dir).kind == FileType::Directory => {
                    return Ok((dir, Target::default()));
                }
                Ok(_) if !several => {}
                Ok(_) => return Err(session.failed(&to.path, ffs_core::Error::NotDirectory)),
                Err(error) if error.is_not_found() && !several => {}
                Err(error) => return Err(session.failed(&to.path, error)),
            }
        }
        let (dir, name) = session.find_parent(&to.path)?;
        let slash = to.path.ends_with(b"/").then(|| to.to_string());
        Ok((dir, Target { name: Some(name), slash }))
    }

    /// As [`Target::in_image`], on the host.
    pub(super) fn on_host(
        to: &Path,
        as_name: bool,
        several: bool,
    ) -> Result<(PathBuf, Target), Failure> {
        let is_dir = to.is_dir();
        if is_dir && !as_name {
            return Ok((to.to_owned(), Target::default()));
        }
        let slash = to.as_os_str().as_bytes().ends_with(b"/");
        if several || (slash && fs::symlink_metadata(to).is_ok() && !is_dir) {
            return Err(Failure::new(to.display(), "is not a directory").hint("make it first"));
        }
        let Some(name) = to.file_name() else {
            return Err(Failure::new(to.display(), "does not end in a name"));
        };
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
        let slash = slash.then(|| to.display().to_string());
        Ok((parent, Target { name: Some(name.as_bytes().to_vec()), slash }))
    }
}
