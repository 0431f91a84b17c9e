//! Talking to the server of a mount from outside: switches, counters, remounting.

use crate::error::MountError;
use crate::mountinfo::{self, Mount};
use crate::server::{CONTROL, MESSAGE};
use ffs_device::host_words;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use std::io;
use std::path::{Path, PathBuf};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A switch.
    Switch,
    /// Counts since the mount.
    Counter,
    /// How much there is now.
    Gauge,
}

/// A switch, counter or gauge of a running mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// BSD's name.
    pub name: String,
    /// Its value; a number or a word.
    pub value: String,
    /// What it stands for.
    pub kind: EntryKind,
    /// What can be set, in words; empty if nothing can.
    pub takes: String,
    /// One sentence.
    pub meaning: String,
}

/// A switch that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// BSD's name.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// Its value now.
    pub now: String,
}

/// A running mount to talk to.
#[derive(Debug)]
pub struct Control {
    mount_point: PathBuf,
}

impl Control {
    /// The mount on `path`.
    ///
    /// # Errors
    /// Nothing of ours is mounted there.
    pub fn open(path: &Path) -> Result<Control, MountError> {
        Ok(Control { mount_point: ours(path)?.mount_point })
    }

    /// Every switch, counter and gauge, sorted by name.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn list(&self) -> Result<Vec<Entry>, MountError> {
        let entry = |line: &str| {
            let [name, value, kind, takes, meaning] = words(line)?;
            let kind = match kind.as_str() {
                "rw" => EntryKind::Switch,
                "counter" => EntryKind::Counter,
                "gauge" => EntryKind::Gauge,
                _ => return None,
            };
            Some(Entry { name, value, kind, takes, meaning })
        };
        self.pages("list", entry)
    }

    /// Names and values alone, in the same order: a sample.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn values(&self) -> Result<Vec<(String, String)>, MountError> {
        self.pages("values", |line| words(line).map(|[name, value]| (name, value)))
    }

    /// Sets a switch.
    ///
    /// # Errors
    /// [`MountError::Server`] with the reason; the caller is neither root nor who mounted.
    pub fn set(&self, name: &str, value: &str) -> Result<Changed, MountError> {
        let answer = command(&self.mount_point, &format!("set {name}={value}"))?;
        let [name, before, now] = words(&answer).ok_or_else(garbled)?;
        Ok(Changed { name, before, now })
    }

    fn pages<T>(&self, verb: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, MountError> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let page = command(&self.mount_point, &format!("{verb} {from}"))?;
            let (next, lines) = page.split_once('\n').ok_or_else(garbled)?;
            for line in lines.lines() {
                all.push(read(line).ok_or_else(garbled)?);
            }
            match next.parse() {
                Ok(0) => return Ok(all),
                Ok(next) if next > from => from = next,
                _ => return Err(garbled()),
            }
        }
    }
}

fn words<const N: usize>(line: &str) -> Option<[String; N]> {
    let words: Vec<String> = line.split('\t').map(str::to_owned).collect();
    words.try_into().ok()
}

fn garbled() -> MountError {
    MountError::Server(
        "the mount's server is of another version: its answer is not understood".to_owned(),
    )
}

/// The mount of ours on `path`.
pub(crate) fn ours(path: &Path) -> Result<Mount, MountError> {
    let not = |found| MountError::NotMounted { path: path.to_owned(), found };
    let real = real_name(path).map_err(|e| not(host_words(e)))?;
    let found = mountinfo::find(&real).map_err(|e| MountError::kernel("mountinfo", e))?;
    match found {
        None => Err(not(instead(&real)?)),
        Some(m) if !m.is_ours() => {
            Err(not(format!("the file system mounted there is {}, not one of ffs", m.fs_type)))
        }
        Some(m) => Ok(m),
    }
}

/// The real name of `path`. What is mounted there may let nobody look: a dead server, or a private mount.
fn real_name(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|error| {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Err(error) };
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        Ok(dir.canonicalize().map_err(|_| error)?.join(name))
    })
}

/// What is at `path`, where nothing is mounted.
fn instead(path: &Path) -> Result<String, MountError> {
    match path.metadata() {
        Err(e) => return Ok(host_words(e)),
        Ok(m) if !m.is_dir() => {
            return Ok("not a directory that an image is mounted on".to_owned());
        }
        Ok(_) => {}
    }
    for above in path.ancestors().skip(1) {
        let found = mountinfo::find(above).map_err(|e| MountError::kernel("mountinfo", e))?;
        if found.is_some_and(|m| m.is_ours()) {
            return Ok(format!("nothing is mounted there, but on {}", above.display()));
        }
    }
    Ok("nothing is mounted there".to_owned())
}

/// Why the server of `mount_point` cannot be asked.
fn unasked(mount_point: &Path, error: Errno, what: &'static str) -> MountError {
    let path = mount_point.to_owned();
    let owner = || Some(mountinfo::find(mount_point).ok()??.owner()?.to_owned());
    match (error, owner()) {
        (Errno::ACCESS, Some(owner)) => MountError::Private { path, owner },
        (Errno::PERM, Some(owner)) => MountError::NotAllowed { path, owner },
        _ => MountError::kernel(what, error),
    }
}

/// Sends a message on the control channel; the words after `ok`.
pub(crate) fn command(mount_point: &Path, message: &str) -> Result<String, MountError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(mount_point, flags, Mode::empty())
        .map_err(|e| unasked(mount_point, e, "the mount's server does not answer"))?;
    let mut text = [0; MESSAGE];
    if message.len() >= MESSAGE || message.contains('\0') {
        return Err(MountError::Server("names and values are short words".to_owned()));
    }
    text[..message.len()].copy_from_slice(message.as_bytes());
    ask(&dir, &mut text).map_err(|e| unasked(mount_point, e, "the mount's server refused"))?;
    let end = text.iter().position(|b| *b == 0).unwrap_or(MESSAGE);
    let answer = String::from_utf8_lossy(&text[..end]);
    match answer.strip_prefix("ok") {
        Some(rest) => Ok(rest.trim_start().to_owned()),
        None => Err(MountError::Server(answer.trim_start_matches("error ").to_owned())),
    }
}

/// The control ioctl.
struct Message<'a>(&'a mut [u8; MESSAGE]);

#[allow(unsafe_code)]
// SAFETY: the command number says that the kernel copies `MESSAGE` bytes in and out, and the pointer is
// to as many bytes, borrowed for the call.
unsafe impl Ioctl for Message<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        CONTROL
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(
        _: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<Self::Output> {
        Ok(())
    }
}

#[allow(unsafe_code)]
fn ask(fd: &OwnedFd, text: &mut [u8; MESSAGE]) -> rustix::io::Result<()> {
    // SAFETY: see `Message`.
    unsafe { rustix::ioctl::ioctl(fd, Message(text)) }
}
