//! The file into which the server of a recorded mount writes the calls.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ffs_core::Ino;
use ffs_fuse::{CallArgs, CallRecorder, ServedCall};
use ffs_lab::trace::record::{Changes, Moment, Recorder};
use ffs_lab::trace::text;
use rustix::fs::OFlags;
use rustix::io::Errno;

const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;

/// Receives the requests of the server and writes the calls.
#[derive(Debug)]
pub(super) struct CallFile {
    start: Instant,
    state: Mutex<Recorder>,
    file: &'static Mutex<BufWriter<File>>,
}

impl CallFile {
    /// Creates the file. Requests of this process are not recorded.
    pub(super) fn create(path: &Path) -> io::Result<CallFile> {
        let file = BufWriter::new(File::create_new(path)?);
        // One recording in the life of the process; the server writes until it ends.
        let file: &'static Mutex<BufWriter<File>> = Box::leak(Box::new(Mutex::new(file)));
        let out = move |call: &_| {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // A full disk leaves an incomplete line, which the reader of the trace finds.
            let _ = file.write_all(text::call(call).as_bytes());
        };
        let recorder = Recorder::new(u64::from(Ino::ROOT.0), std::process::id(), Box::new(out));
        Ok(CallFile { start: Instant::now(), state: Mutex::new(recorder), file })
    }

    fn state(&self) -> MutexGuard<'_, Recorder> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self, call: &ServedCall<'_>) -> Moment {
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Moment {
            at: nanos(call.began.saturating_duration_since(self.start)),
            took: nanos(call.took),
            pid: call.pid,
            error: call.error.map(error_name),
        }
    }
}

/// The name of an error number.
fn error_name(number: i32) -> String {
    let name = match Errno::from_raw_os_error(number) {
        Errno::PERM => "EPERM",
        Errno::NOENT => "ENOENT",
        Errno::IO => "EIO",
        Errno::ACCESS => "EACCES",
        Errno::EXIST => "EEXIST",
        Errno::XDEV => "EXDEV",
        Errno::NOTDIR => "ENOTDIR",
        Errno::ISDIR => "EISDIR",
        Errno::INVAL => "EINVAL",
        Errno::NOTTY => "ENOTTY",
        Errno::FBIG => "EFBIG",
        Errno::NOSPC => "ENOSPC",
        Errno::ROFS => "EROFS",
        Errno::MLINK => "EMLINK",
        Errno::RANGE => "ERANGE",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NOSYS => "ENOSYS",
        Errno::NOTEMPTY => "ENOTEMPTY",
        #[cfg(target_os = "linux")]
        Errno::NODATA => "ENODATA",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::STALE => "ESTALE",
        Errno::DQUOT => "EDQUOT",
        _ => return format!("E{number}"),
    };
    name.to_owned()
}

fn has(flags: u32, flag: OFlags) -> bool {
    OFlags::from_bits_retain(flags).contains(flag)
}

fn writes(flags: u32) -> bool {
    has(flags, OFlags::WRONLY) || has(flags, OFlags::RDWR)
}

/// Seconds since 1970 as a trace has them.
fn seconds(time: Option<i64>) -> u32 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    match time {
        Some(time) => u32::try_from(time.max(0)).unwrap_or(u32::MAX),
        None => u32::try_from(now()).unwrap_or(u32::MAX),
    }
}

impl CallRecorder for CallFile {
    fn call(&self, call: &ServedCall<'_>) {
        let (at, ino, found) = (&self.moment(call), call.ino, call.found);
        let mut to = self.state();
        match call.args {
            CallArgs::Lookup(name) => to.lookup(at, ino, name, found),
            CallArgs::Getattr => to.getattr(at, ino),
            CallArgs::Setattr { size, mode, mtime, owner, by_handle } => {
                let mode = mode.map(|mode| (mode & 0o7777) as u16);
                let changes = Changes { size, mode, seconds: mtime.map(seconds), owner, by_handle };
                to.setattr(at, ino, changes);
            }
            CallArgs::Readlink => to.readlink(at, ino),
            CallArgs::Symlink(name, text) => to.symlink(at, ino, name, text, found),
            CallArgs::Mknod(name, true) => to.mknod(at, ino, name, found),
            CallArgs::Mknod(_, false) => to.other(at, "mknod"),
            CallArgs::Mkdir(name) => to.mkdir(at, ino, name, found),
            CallArgs::Unlink(name) => to.remove(at, ino, name, false),
            CallArgs::Rmdir(name) => to.remove(at, ino, name, true),
            CallArgs::Rename { name, to_dir, to_name, flags } => match flags {
                0 | RENAME_NOREPLACE => to.rename(at, (ino, name), (to_dir, to_name)),
                RENAME_EXCHANGE => to.exchange(at, (ino, name), (to_dir, to_name)),
                _ => to.other(at, "rename with flags"),
            },
            CallArgs::Link(file, name) => to.link(at, file, ino, name),
            CallArgs::Open(flags) => {
                to.open(at, ino, writes(flags), has(flags, OFlags::TRUNC));
            }
            CallArgs::Create(name, flags) => {
                let how = (has(flags, OFlags::EXCL), has(flags, OFlags::TRUNC));
                to.create(at, (ino, name), found, how);
            }
            CallArgs::Read(offset, len) => to.transfer(at, ino, (offset, len), false),
            CallArgs::Write(offset, len) => to.transfer(at, ino, (offset, len), true),
            CallArgs::Release(flags) => to.release(at, ino, writes(flags)),
            CallArgs::Fsync => to.fsync(at, ino),
            CallArgs::List => to.list(at, ino),
            CallArgs::Sync => to.sync(at),
            CallArgs::Other(name) => to.other(at, &name.to_ascii_lowercase()),
        }
    }

    fn end(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // As for a line.
        let _ = file.flush();
    }
}
