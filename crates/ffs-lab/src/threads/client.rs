//! Operations that several threads may call at once: on the library in process, or by system calls.

use std::os::fd::OwnedFd;

use ffs_core::{Cred, Ffs, NodeKind, Vnode, WriteMode};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::{BYTES, Phase, Sharing};
use crate::error::{LabError, Result};
use crate::systems::{Context, Demand, Shared, TargetSpec};

/// A target, with the directory below which the threads work.
pub(super) struct Place {
    label: String,
    shared: Shared,
}

/// What one thread works with.
pub(super) struct Client {
    label: String,
    me: u32,
    dir: Dir,
}

/// A directory in use.
enum Dir {
    Library(Ffs, Vnode),
    System(OwnedFd),
}

impl Place {
    pub(super) fn open(spec: &TargetSpec, context: &Context, files: u64) -> Result<Place> {
        let bytes = files.saturating_mul(BYTES as u64);
        let shared = spec.open_shared(context, Demand { files: files + 64, bytes })?;
        Ok(Place { label: spec.label.clone(), shared })
    }

    /// A client for each thread.
    pub(super) fn clients(&mut self, sharing: Sharing, threads: u32) -> Result<Vec<Client>> {
        (0..threads)
            .map(|me| {
                let name = match sharing {
                    Sharing::Different => format!("d{me}"),
                    Sharing::Same => "d".to_owned(),
                };
                let dir = self.directory(&name, me == 0 || sharing == Sharing::Different);
                let dir = dir.map_err(|why| failed(&self.label, "mkdir", &why))?;
                Ok(Client { label: self.label.clone(), me, dir })
            })
            .collect()
    }

    /// Opens the directory, after making it if it is `new`.
    fn directory(&self, name: &str, new: bool) -> std::result::Result<Dir, String> {
        match &self.shared {
            Shared::Library(target) => {
                let fs = target.fs().ok_or("it has no volume")?.clone();
                let (cred, root) = (Cred::root(), fs.root().map_err(words)?);
                let dir = match new {
                    true => fs.mkdir(&cred, &root, name.as_bytes(), 0o755),
                    false => fs.lookup(&cred, &root, name.as_bytes()),
                };
                Ok(Dir::Library(fs, dir.map_err(words)?))
            }
            Shared::System(target) => {
                let top = target.top().ok_or("it has no directory")?;
                if new {
                    rustix::fs::mkdirat(top, name, Mode::RWXU).map_err(words)?;
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let dir = rustix::fs::openat(top, name, flags, Mode::empty());
                Ok(Dir::System(dir.map_err(words)?))
            }
        }
    }

    /// Removes everything.
    pub(super) fn close(self) -> Result<()> {
        self.shared.end()
    }
}

impl Client {
    /// The names of its files, which no other thread uses.
    pub(super) fn names(&self, files: u32) -> Vec<String> {
        (0..files).map(|k| format!("t{}-{k:08}", self.me)).collect()
    }

    pub(super) fn perform(&self, phase: Phase, name: &str) -> Result<()> {
        let done = match &self.dir {
            Dir::Library(fs, dir) => in_library(fs, dir, phase, name.as_bytes()).map_err(words),
            Dir::System(dir) => by_calls(dir, phase, name).map_err(words),
        };
        done.map_err(|why| failed(&self.label, &format!("{} {name}", phase.name()), &why))
    }
}

fn in_library(fs: &Ffs, dir: &Vnode, phase: Phase, name: &[u8]) -> ffs_core::Result<()> {
    let cred = Cred::root();
    match phase {
        Phase::Create => fs.create(&cred, dir, name, NodeKind::Regular, 0o644).map(drop),
        Phase::Unlink => fs.unlink(&cred, dir, name),
        Phase::Stat => {
            let file = fs.lookup(&cred, dir, name)?;
            std::hint::black_box(fs.getattr(&file));
            Ok(())
        }
        Phase::Write => {
            let file = fs.lookup(&cred, dir, name)?;
            fs.write(&cred, &file, 0, &[b'F'; BYTES], WriteMode::default()).map(drop)
        }
        Phase::Read => {
            let file = fs.lookup(&cred, dir, name)?;
            fs.read(&file, 0, &mut [0; BYTES]).map(drop)
        }
    }
}

fn by_calls(dir: &OwnedFd, phase: Phase, name: &str) -> rustix::io::Result<()> {
    let open = |flags: OFlags| {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        rustix::fs::openat(dir, name, flags | OFlags::CLOEXEC, mode)
    };
    match phase {
        Phase::Create => open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL).map(drop),
        Phase::Unlink => rustix::fs::unlinkat(dir, name, AtFlags::empty()),
        Phase::Stat => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(drop),
        Phase::Write => rustix::io::pwrite(open(OFlags::WRONLY)?, &[b'F'; BYTES], 0).map(drop),
        Phase::Read => rustix::io::pread(open(OFlags::RDONLY)?, &mut [0; BYTES], 0).map(drop),
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn failed(target: &str, what: &str, why: &str) -> LabError {
    LabError::Failed {
        target: target.to_owned(),
        what: what.to_owned(),
        why: why.to_owned(),
        full: false,
    }
}
