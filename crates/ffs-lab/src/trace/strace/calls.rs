//! From system calls to calls of a trace.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::process::{OpenFile, Processes};
use super::syntax::{Arg, SystemCall};
use crate::trace::path::TracePath;
use crate::trace::{Call, How, MOST_SIZE, Op, ReadOptions, Trace};

/// Calls that change files and that no replay makes.
const UNSUPPORTED: [&str; 18] = [
    "mknod",
    "mknodat",
    "fallocate",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "splice",
    "io_uring_enter",
    "io_submit",
    "open_by_handle_at",
    "renameat2 with flags",
];
const OUTSIDE: &str = "calls on paths outside of the root of the trace";
const CANNOT: &str = "calls on paths that no trace can have";

pub(super) type Parsed<T> = Result<T, String>;

/// Reads the lines of strace.
pub(super) struct Reader {
    pub(super) trace: Trace,
    /// The absolute path of the root, without a slash at its end.
    below: Vec<u8>,
    cwd: Vec<u8>,
    pub(super) processes: Processes,
    /// Calls that began: name, text so far, time.
    pub(super) pending: HashMap<u32, (String, String, u64), FixedState>,
    /// The sizes of files by path, as far as they are known.
    pub(super) sizes: HashMap<Vec<u8>, u64, FixedState>,
    files: u64,
    /// The time of the first line, nanoseconds.
    start: Option<u64>,
    line: usize,
}

/// The absolute path of `path` from `base`, without `.` and `..`.
fn absolute(base: &[u8], path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    let base = if path.first() == Some(&b'/') { &b""[..] } else { base };
    for name in base.split(|b| *b == b'/').chain(path.split(|b| *b == b'/')) {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.iter().flat_map(|name| [b"/", *name].concat()).collect()
}

impl Reader {
    pub(super) fn new(options: &ReadOptions) -> Parsed<Reader> {
        let directory = |option: &Option<String>| match option {
            Some(path) if !path.starts_with('/') => {
                Err(format!("'{path}': expected an absolute path"))
            }
            Some(path) => Ok(Some(absolute(b"", path.as_bytes()))),
            None => Ok(None),
        };
        let cwd = directory(&options.cwd)?.unwrap_or_default();
        let below = directory(&options.below)?.unwrap_or_else(|| cwd.clone());
        Ok(Reader {
            trace: Trace::default(),
            below,
            cwd,
            processes: Processes::default(),
            pending: HashMap::default(),
            sizes: HashMap::default(),
            files: 0,
            start: None,
            line: 0,
        })
    }

    pub(super) fn finish(self) -> Trace {
        self.trace
    }

    /// Notes the line, and its process if that is new.
    pub(super) fn begin_line(&mut self, line: usize, pid: u32, time: u64) -> Parsed<()> {
        self.line = line;
        self.start.get_or_insert(time);
        if self.processes.is_known(pid) {
            return Ok(());
        }
        // The child of a call that has not ended yet.
        let is_fork = |name: &str| matches!(name, "clone" | "clone3" | "fork" | "vfork");
        let parent = self.pending.iter().filter(|(_, (name, ..))| is_fork(name));
        let parent = parent.min_by_key(|(pid, _)| **pid);
        match parent.map(|(pid, (_, args, _))| (*pid, args.contains("CLONE_FILES"))) {
            Some((parent, thread)) => self.processes.fork(parent, pid, thread),
            None => self.processes.first(pid, &self.cwd),
        }
    }

    pub(super) fn exit(&mut self, pid: u32, time: u64) -> Parsed<()> {
        for file in self.processes.exit(pid) {
            self.closed(pid, time, &file);
        }
        Ok(())
    }

    /// Adds a call to the trace.
    pub(super) fn push(&mut self, pid: u32, time: u64, of: Option<&SystemCall>, op: Op) -> usize {
        let at = time.saturating_sub(self.start.unwrap_or(0));
        let (took, error) = of.map_or((0, None), |call| (call.took, call.error.clone()));
        self.trace.calls.push(Call { line: self.line, at, took, pid, op, error });
        self.trace.calls.len() - 1
    }

    pub(super) fn closed(&mut self, pid: u32, time: u64, file: &OpenFile) {
        if let Some(number) = file.file {
            self.push(pid, time, None, Op::Close(number));
        }
    }

    /// The absolute path of an argument, relative to the directory of `dirfd`.
    pub(super) fn path(
        &mut self,
        pid: u32,
        dirfd: Option<&Arg>,
        path: Option<&Arg>,
    ) -> Parsed<Vec<u8>> {
        let text = path.and_then(Arg::text).ok_or("expected a path as an argument")?;
        let base = match dirfd.map(descriptor) {
            Some(Some(fd)) if text.first() != Some(&b'/') => {
                // A directory that was opened before the trace began is taken for the current one.
                let path = self.processes.get(pid, fd).map(|open| open.path.clone());
                path.unwrap_or_else(|| self.processes.cwd(pid).to_vec())
            }
            _ => self.processes.cwd(pid).to_vec(),
        };
        Ok(absolute(&base, text))
    }

    /// The path in the trace of an absolute path; `None`, counted, if it is not below the root.
    pub(super) fn inside(&mut self, path: &[u8]) -> Option<TracePath> {
        let rest = path.strip_prefix(&*self.below);
        let rest = rest.and_then(|rest| match rest.first() {
            None => Some(rest),
            Some(b'/') => Some(&rest[1..]),
            Some(_) => None,
        });
        let Some(rest) = rest else {
            self.trace.leave_out(OUTSIDE);
            return None;
        };
        let found = TracePath::parse(rest).ok();
        if found.is_none() {
            self.trace.leave_out(CANNOT);
        }
        found
    }

    /// Takes a complete call.
    pub(super) fn call(&mut self, pid: u32, time: u64, call: &SystemCall) -> Parsed<()> {
        let (args, at) = (&call.args, |at: usize| call.args.get(at));
        let dir = Some(Arg::Raw("AT_FDCWD".to_owned()));
        let cwd = dir.as_ref();
        if call.result.is_none() && call.error.is_some() || call.result.is_none() && args.is_empty()
        {
            return Ok(());
        }
        match call.name.as_str() {
            "open" => self.open(pid, time, call, (cwd, at(0)), at(1).map_or("", Arg::raw)),
            "creat" => self.open(pid, time, call, (cwd, at(0)), "O_WRONLY|O_CREAT|O_TRUNC"),
            "openat" | "openat2" => {
                self.open(pid, time, call, (at(0), at(1)), at(2).map_or("", Arg::raw))
            }
            "stat" | "lstat" | "stat64" | "lstat64" | "access" => {
                self.stat(pid, time, call, cwd, at(0))
            }
            "newfstatat" | "fstatat64" | "statx" | "faccessat" | "faccessat2" => {
                self.stat(pid, time, call, at(0), at(1))
            }
            "readlink" => self.on_path(pid, time, call, (cwd, at(0)), Op::Readlink),
            "readlinkat" => self.on_path(pid, time, call, (at(0), at(1)), Op::Readlink),
            "mkdir" => self.on_path(pid, time, call, (cwd, at(0)), Op::Mkdir),
            "mkdirat" => self.on_path(pid, time, call, (at(0), at(1)), Op::Mkdir),
            "rmdir" => self.on_path(pid, time, call, (cwd, at(0)), Op::Rmdir),
            "unlink" => self.on_path(pid, time, call, (cwd, at(0)), Op::Unlink),
            "unlinkat" if at(2).is_some_and(|flags| flags.raw().contains("AT_REMOVEDIR")) => {
                self.on_path(pid, time, call, (at(0), at(1)), Op::Rmdir)
            }
            "unlinkat" => self.on_path(pid, time, call, (at(0), at(1)), Op::Unlink),
            "rename" => self.on_paths(pid, time, call, (cwd, at(0)), (cwd, at(1))),
            "link" => self.on_paths(pid, time, call, (cwd, at(0)), (cwd, at(1))),
            "renameat2" if at(4).is_some_and(|f| !matches!(f.raw(), "0" | "RENAME_NOREPLACE")) => {
                self.unsupported("renameat2 with flags")
            }
            "renameat" | "renameat2" | "linkat" => {
                self.on_paths(pid, time, call, (at(0), at(1)), (at(2), at(3)))
            }
            "symlink" => self.symlink(pid, time, call, at(0), (cwd, at(1))),
            "symlinkat" => self.symlink(pid, time, call, at(0), (at(1), at(2))),
            "chmod" => self.chmod(pid, time, call, (cwd, at(0)), at(1)),
            "fchmodat" | "fchmodat2" => self.chmod(pid, time, call, (at(0), at(1)), at(2)),
            "truncate" | "truncate64" => {
                let size = number(at(1))?.min(MOST_SIZE);
                self.on_path(pid, time, call, (cwd, at(0)), |path| Op::Truncate { path, size })
            }
            "utimensat" if at(1).is_some_and(|path| path.text().is_some()) => {
                let seconds = seconds(at(2), time);
                let make = |path| Op::Times { path, seconds };
                self.on_path(pid, time, call, (at(0), at(1)), make)
            }
            "sync" | "syncfs" => {
                self.push(pid, time, Some(call), Op::Sync);
                Ok(())
            }
            name if UNSUPPORTED.contains(&name) => self.unsupported(name),
            _ => self.on_descriptor(pid, time, call),
        }
    }

    pub(super) fn unsupported(&mut self, name: &str) -> Parsed<()> {
        self.trace.leave_out(format!("calls of {name}"));
        Ok(())
    }

    fn open(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        (dirfd, path): (Option<&Arg>, Option<&Arg>),
        flags: &str,
    ) -> Parsed<()> {
        let has = |flag: &str| flags.split(['|', ',', '=', '{', '}']).any(|f| f.trim() == flag);
        let path = self.path(pid, dirfd, path)?;
        let found = self.inside(&path).filter(|path| !path.is_root());
        let writes = has("O_WRONLY") || has("O_RDWR");
        let how = match (has("O_CREAT"), has("O_EXCL"), has("O_TRUNC")) {
            (true, true, _) => How::CreateNew,
            (_, false, true) if writes => How::Truncate,
            (true, false, _) => How::Create,
            _ if writes => How::Write,
            _ => How::Read,
        };
        if has("O_TMPFILE") {
            return self.unsupported("open with O_TMPFILE");
        }
        let is_file = !has("O_DIRECTORY") && !has("O_PATH");
        let (mut file, mut index) = (None, usize::MAX);
        if let Some(path) = found {
            let op = if is_file {
                self.files += 1;
                file = Some(self.files);
                Op::Open { path, file: self.files, how }
            } else {
                Op::Stat(path)
            };
            index = self.push(pid, time, Some(call), op);
        }
        let Some(fd) = call.result.filter(|fd| *fd >= 0) else { return Ok(()) };
        if how == How::Truncate {
            self.sizes.insert(path.clone(), 0);
        }
        let open = OpenFile::new(path, file, index, has("O_APPEND"));
        if let Some(closed) = self.processes.open(pid, fd, open, has("O_CLOEXEC"))? {
            self.closed(pid, time, &closed);
        }
        Ok(())
    }

    fn stat(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        dirfd: Option<&Arg>,
        path: Option<&Arg>,
    ) -> Parsed<()> {
        // An empty path means the descriptor.
        if path.and_then(Arg::text).is_none_or(<[u8]>::is_empty) {
            return Ok(());
        }
        let name = self.path(pid, dirfd, path)?;
        let size = call.args.iter().find_map(|arg| {
            let digits = arg.raw().split("st_size=").nth(1)?;
            digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        if let (Some(size), None) = (size, self.sizes.get(&name)) {
            self.sizes.insert(name, size);
        }
        self.on_path(pid, time, call, (dirfd, path), Op::Stat)
    }

    pub(super) fn on_path(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        (dirfd, path): (Option<&Arg>, Option<&Arg>),
        make: impl FnOnce(TracePath) -> Op,
    ) -> Parsed<()> {
        let path = self.path(pid, dirfd, path)?;
        if let Some(found) = self.inside(&path) {
            let op = make(found);
            if call.error.is_none() {
                match &op {
                    Op::Unlink(_) => drop(self.sizes.remove(&path)),
                    Op::Truncate { size, .. } => drop(self.sizes.insert(path, *size)),
                    _ => {}
                }
            }
            self.push(pid, time, Some(call), op);
        }
        Ok(())
    }

    fn on_paths(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        from: (Option<&Arg>, Option<&Arg>),
        to: (Option<&Arg>, Option<&Arg>),
    ) -> Parsed<()> {
        let (from, to) = (self.path(pid, from.0, from.1)?, self.path(pid, to.0, to.1)?);
        let (Some(path), Some(target)) = (self.inside(&from), self.inside(&to)) else {
            return Ok(());
        };
        let is_rename = call.name.starts_with("rename");
        if is_rename && call.error.is_none() {
            match self.sizes.remove(&from) {
                Some(size) => drop(self.sizes.insert(to, size)),
                None => drop(self.sizes.remove(&to)),
            }
        }
        let op = match is_rename {
            true => Op::Rename { path, to: target },
            false => Op::Link { path, to: target },
        };
        self.push(pid, time, Some(call), op);
        Ok(())
    }

    fn symlink(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        text: Option<&Arg>,
        path: (Option<&Arg>, Option<&Arg>),
    ) -> Parsed<()> {
        let text = text.and_then(Arg::text).ok_or("expected a text as an argument")?.to_vec();
        self.on_path(pid, time, call, path, |path| Op::Symlink { path, text })
    }

    pub(super) fn chmod(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        path: (Option<&Arg>, Option<&Arg>),
        mode: Option<&Arg>,
    ) -> Parsed<()> {
        let mode = mode.map_or("", Arg::raw);
        let bits = u16::from_str_radix(mode, 8).ok().filter(|bits| *bits <= 0o7777);
        let mode = bits.ok_or_else(|| format!("mode '{mode}': expected octal digits"))?;
        self.on_path(pid, time, call, path, |path| Op::Chmod { path, mode })
    }
}

/// A descriptor as an argument: `3`, or `3<path>`.
pub(super) fn descriptor(arg: &Arg) -> Option<i64> {
    arg.raw().split('<').next()?.trim().parse().ok()
}

/// A number as an argument.
pub(super) fn number(arg: Option<&Arg>) -> Parsed<u64> {
    let text = arg.map_or("", Arg::raw);
    text.parse().map_err(|_| format!("argument '{text}': expected a number"))
}

/// The modification time of `utimensat`; the time of the call if it sets the current one.
pub(super) fn seconds(times: Option<&Arg>, time: u64) -> u32 {
    let given = times.and_then(|times| {
        let digits = times.raw().rsplit("tv_sec=").next()?;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    });
    given.unwrap_or_else(|| u32::try_from(time / 1_000_000_000).unwrap_or(0))
}
