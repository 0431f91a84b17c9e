//! Where `ffs restore` writes: a directory of the host, or one in an image.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use bsdffs::copy::{
    CopyOptions, CopyReport, Entry, HostSink, ImageSink, PartialFile, Sink, SinkResult,
};
use bsdffs::dump::{HostTarget, ImageTarget, Target};
use bsdffs::namei::join;
use ffs_core::{FileType, Vnode};

use super::Args;
use crate::compare::{Compare, HostCompare};
use crate::fail::{Failure, Outcome, show};
use crate::namei::Last;
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::spec::{self, ImagePath};

/// The target of the command line.
pub(super) enum Place {
    Host(PathBuf),
    Image(ImagePath),
}

impl Place {
    /// The target: -D, or with -r and -C the only argument, or the current directory.
    pub(super) fn of(args: &Args) -> Result<Place, Failure> {
        let positional = args.action.rebuild || args.action.compare;
        let arg = match (&args.target, &args.paths[..]) {
            (target, _) if !positional => target.as_deref(),
            (Some(target), []) => Some(target.as_os_str()),
            (None, [target]) => Some(target.as_os_str()),
            (None, []) => None,
            _ => return Err(Failure::plain("more than one target; -x restores single files")),
        };
        Ok(match spec::place(arg.unwrap_or(OsStr::new("."))) {
            spec::Place::Host(path) => Place::Host(path),
            spec::Place::Image(path) => Place::Image(path),
        })
    }

    /// Calls `copy` with a sink that compares.
    pub(super) fn compare(
        &self,
        copy: impl FnOnce(&mut dyn Sink) -> Result<CopyReport, Failure>,
    ) -> Result<CopyReport, Failure> {
        match self {
            Place::Host(path) => {
                directory_exists(path)?;
                copy(&mut HostCompare::new(path.clone()))
            }
            Place::Image(to) => {
                let (session, to) = Session::read_at(to, AtEnd::Root)?;
                let dir = find_directory(&session, &to);
                let result = dir.and_then(|_| {
                    let compare = Compare::new(&session.ffs, &session.cred);
                    copy(&mut compare.below(&to.path))
                });
                session.finish_with(result)
            }
        }
    }
}

fn directory_exists(path: &Path) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Failure::new(path.display(), "is not a directory")
            .hint(format!("for an image write {}:/", path.display()))),
        Err(error) => Err(Failure::host(path, &error)),
    }
}

fn find_directory(session: &Session, to: &ImagePath) -> Result<Vnode, Failure> {
    let dir = session.find(&to.path, Last::Follow)?;
    match session.ffs.getattr(&dir).kind {
        FileType::Directory => Ok(dir),
        _ => Err(session.failed(&to.path, ffs_core::Error::NotDirectory)),
    }
}

/// An open target.
pub(super) enum Opened {
    Host(PathBuf),
    Image { session: Box<Session>, root: Vnode, path: Vec<u8> },
}

impl Opened {
    pub(super) fn open(place: &Place) -> Result<Opened, Failure> {
        match place {
            Place::Host(path) => {
                directory_exists(path)?;
                Ok(Opened::Host(path.clone()))
            }
            Place::Image(to) => {
                let session = Session::write(&to.image)?;
                match find_directory(&session, to) {
                    Ok(root) => {
                        let (session, path) = (Box::new(session), to.path.clone());
                        Ok(Opened::Image { session, root, path })
                    }
                    Err(failure) => session.finish_with(Err(failure)),
                }
            }
        }
    }

    /// Unmounts an image.
    pub(super) fn finish_with(self, result: Outcome) -> Outcome {
        match self {
            Opened::Host(_) => result,
            Opened::Image { session, root, .. } => {
                drop(root);
                session.finish_with(result)
            }
        }
    }

    /// The name of a file in the target, for messages.
    pub(super) fn shown(&self, name: &[u8]) -> String {
        use std::os::unix::ffi::OsStrExt;
        match self {
            Opened::Host(path) => show(join(path.as_os_str().as_bytes(), name)),
            Opened::Image { session, path, .. } => {
                format!("{}:{}", session.image(), show(join(path, name)))
            }
        }
    }

    pub(super) fn sink(&self, options: CopyOptions) -> Result<Box<dyn Sink + '_>, Failure> {
        Ok(match self {
            Opened::Host(path) => Box::new(HostSink::new(path, options, Vec::new())?),
            Opened::Image { session, root, .. } => {
                Box::new(ImageSink::new(session.image_ref(), root.clone(), options))
            }
        })
    }

    pub(super) fn names(&self) -> Result<Box<dyn Target + '_>, Failure> {
        Ok(match self {
            Opened::Host(path) => Box::new(HostTarget::open(path).map_err(Failure::plain)?),
            Opened::Image { session, root, .. } => {
                Box::new(ImageTarget::new(session.image_ref(), root.clone()))
            }
        })
    }
}

/// A sink that creates nothing.
pub(super) struct Nothing;

impl Sink for Nothing {
    fn entry(&mut self, _: &Entry, _: &mut CopyReport) -> SinkResult {
        Ok(())
    }

    fn data(&mut self, _: u64, _: &[u8]) -> SinkResult {
        Ok(())
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        Ok(())
    }

    fn abort(&mut self) -> Option<PartialFile> {
        None
    }
}

/// A target in which nothing is changed.
pub(super) struct DryTarget<'a>(pub Box<dyn Target + 'a>);

impl Target for DryTarget<'_> {
    fn mkdir(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn rename(&mut self, _: &[u8], _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn link(&mut self, _: &[u8], _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn unlink(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn rmdir(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn unprotect(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn clear_xattrs(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn read(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.0.read(name)
    }

    fn write(&mut self, _: &[u8], _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}
