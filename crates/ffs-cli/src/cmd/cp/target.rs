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
    /// Only a directory can go there.
    takes: Takes,
}

/// Why only a directory can go to the target, which is shown so.
#[derive(Default)]
enum Takes {
    #[default]
    All,
    /// The name was written with a slash at its end.
    Slash(String),
    /// With -T it is a directory that has no name of its own, such as the root.
    Itself(String),
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
        match &self.takes {
            _ if directory => Ok(()),
            Takes::All => Ok(()),
            Takes::Slash(shown) => {
                Err(Failure::new(shown, "is not a directory").hint("make it first"))
            }
            Takes::Itself(shown) => Err(Failure::new(shown, "is a directory")
                .hint("without -T the copy goes into it, with its own name")),
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
        if as_name && basename(&to.path).is_none() {
            let dir = session.find(&to.path, Last::Follow)?;
            return Ok((dir, Target::itself(to)));
        }
        if !as_name {
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
        let (dir, name) = session.find_parent_of_new(&to.path)?;
        let slash = to.path.ends_with(b"/").then(|| to.to_string());
        Ok((dir, Target { name: Some(name), takes: slash.map_or(Takes::All, Takes::Slash) }))
    }

    /// A directory that gets what is in the source.
    fn itself(to: impl std::fmt::Display) -> Target {
        Target { name: Some(Vec::new()), takes: Takes::Itself(to.to_string()) }
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
            if is_dir {
                return Ok((to.to_owned(), Target::itself(to.display())));
            }
            return Err(Failure::new(to.display(), "does not end in a name"));
        };
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
        let takes = if slash { Takes::Slash(to.display().to_string()) } else { Takes::All };
        Ok((parent, Target { name: Some(name.as_bytes().to_vec()), takes }))
    }
}
