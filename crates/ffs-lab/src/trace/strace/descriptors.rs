//! Calls on descriptors, and calls that change processes.

use super::calls::{Parsed, Reader, descriptor, number, seconds};
use super::syntax::{Arg, SystemCall};
use crate::trace::{MOST_IO, MOST_SIZE, Op};

impl Reader {
    /// Calls on descriptors. A descriptor that the trace did not open is of no file in it.
    pub(super) fn on_descriptor(&mut self, pid: u32, time: u64, call: &SystemCall) -> Parsed<()> {
        let at = |at: usize| call.args.get(at);
        if call.error.is_some() {
            return Ok(());
        }
        let fd = at(0).and_then(descriptor);
        let result = call.result.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        match (call.name.as_str(), fd) {
            ("close", Some(fd)) => {
                let closed = self.processes.close(pid, fd);
                closed.iter().for_each(|file| self.closed(pid, time, file));
            }
            ("read" | "readv", Some(fd)) => {
                self.transfer(pid, time, call, (fd, None, result), false)
            }
            ("write" | "writev", Some(fd)) => {
                self.transfer(pid, time, call, (fd, None, result), true);
            }
            ("pread64" | "preadv" | "preadv2", Some(fd)) => {
                let offset = number(at(3))?;
                self.transfer(pid, time, call, (fd, Some(offset), result), false);
            }
            ("pwrite64" | "pwritev" | "pwritev2", Some(fd)) => {
                let offset = number(at(3))?;
                self.transfer(pid, time, call, (fd, Some(offset), result), true);
            }
            ("sendfile" | "sendfile64", Some(to)) => {
                let from = at(1).and_then(descriptor);
                self.copy(pid, time, call, (from, at(2)), (Some(to), None), result);
            }
            ("copy_file_range", Some(from)) => {
                let to = at(2).and_then(descriptor);
                self.copy(pid, time, call, (Some(from), at(1)), (to, at(3)), result);
            }
            ("lseek" | "_llseek", Some(fd)) => {
                if let Some(open) = self.processes.get(pid, fd) {
                    open.offset = result.min(MOST_SIZE);
                }
            }
            ("fsync" | "fdatasync", Some(fd)) => self.on_file(pid, time, call, fd, Op::Fsync),
            ("ftruncate" | "ftruncate64", Some(fd)) => {
                let size = number(at(1))?.min(MOST_SIZE);
                let path = self.processes.get(pid, fd).map(|open| open.path.clone());
                path.map(|path| self.sizes.insert(path, size));
                self.on_file(pid, time, call, fd, |file| Op::Ftruncate { file, size });
            }
            ("getdents64" | "getdents", Some(fd)) => self.list(pid, time, call, fd),
            ("fchmod", Some(fd)) => {
                let path = self.processes.get(pid, fd).map(|open| open.path.clone());
                if let Some(path) = path {
                    let arg = Arg::Text(path);
                    self.chmod(pid, time, call, (None, Some(&arg)), at(1))?;
                }
            }
            ("utimensat", Some(fd)) => {
                let path = self.processes.get(pid, fd).map(|open| open.path.clone());
                let seconds = seconds(at(2), time);
                if let Some(path) = path {
                    let (arg, make) = (Arg::Text(path), |path| Op::Times { path, seconds });
                    self.on_path(pid, time, call, (None, Some(&arg)), make)?;
                }
            }
            _ => self.on_process(pid, time, call, fd)?,
        }
        Ok(())
    }

    /// Calls that change processes and descriptors.
    fn on_process(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        fd: Option<i64>,
    ) -> Parsed<()> {
        let at = |at: usize| call.args.get(at);
        let result = call.result.unwrap_or(-1);
        let closed = match (call.name.as_str(), fd) {
            ("dup" | "dup2", Some(fd)) => self.processes.duplicate(pid, fd, result, false)?,
            ("dup3", Some(fd)) => {
                let cloexec = at(2).is_some_and(|flags| flags.raw().contains("O_CLOEXEC"));
                self.processes.duplicate(pid, fd, result, cloexec)?
            }
            ("fcntl" | "fcntl64", Some(fd)) => match at(1).map_or("", Arg::raw) {
                "F_DUPFD" => self.processes.duplicate(pid, fd, result, false)?,
                "F_DUPFD_CLOEXEC" => self.processes.duplicate(pid, fd, result, true)?,
                _ => None,
            },
            ("fchdir", Some(fd)) => {
                if let Some(path) = self.processes.get(pid, fd).map(|open| open.path.clone()) {
                    self.processes.set_cwd(pid, path);
                }
                None
            }
            ("chdir", _) => {
                let path = self.path(pid, None, at(0))?;
                self.processes.set_cwd(pid, path);
                None
            }
            ("clone" | "clone3" | "fork" | "vfork", _) if result > 0 => {
                let child = u32::try_from(result).map_err(|_| "expected a process".to_owned())?;
                let thread = call.args.iter().any(|arg| arg.raw().contains("CLONE_FILES"));
                if !self.processes.is_known(child) {
                    self.processes.fork(pid, child, thread)?;
                }
                None
            }
            ("execve" | "execveat", _) => {
                for file in self.processes.close_many(pid, true) {
                    self.closed(pid, time, &file);
                }
                None
            }
            _ => None,
        };
        closed.iter().for_each(|file| self.closed(pid, time, file));
        Ok(())
    }

    fn on_file(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        fd: i64,
        make: impl FnOnce(u64) -> Op,
    ) {
        if let Some(file) = self.processes.get(pid, fd).and_then(|open| open.file) {
            self.push(pid, time, Some(call), make(file));
        }
    }

    /// A read or write of so many bytes at an offset, or at that of the open file.
    fn transfer(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        (fd, at, len): (i64, Option<u64>, u64),
        is_write: bool,
    ) {
        let len = len.min(MOST_IO);
        let Some(open) = self.processes.get(pid, fd) else { return };
        let size = self.sizes.get(&open.path).copied();
        if is_write && open.append && at.is_none() {
            open.offset = size.unwrap_or(open.offset);
        }
        let offset = at.unwrap_or(open.offset).min(MOST_SIZE - MOST_IO);
        if at.is_none() {
            open.offset = offset + len;
        }
        let Some(file) = open.file else { return };
        if is_write {
            let end = (offset + len).max(size.unwrap_or(0));
            self.sizes.insert(open.path.clone(), end);
            self.push(pid, time, Some(call), Op::Write { file, offset, len });
        } else {
            self.push(pid, time, Some(call), Op::Read { file, offset, len });
        }
    }

    /// A copy in the kernel: a read and a write.
    fn copy(
        &mut self,
        pid: u32,
        time: u64,
        call: &SystemCall,
        from: (Option<i64>, Option<&Arg>),
        to: (Option<i64>, Option<&Arg>),
        len: u64,
    ) {
        let offset = |arg: Option<&Arg>| {
            let digits = arg?.raw().trim_start_matches('[');
            digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        for ((fd, at), is_write) in [(from, false), (to, true)] {
            if let Some(fd) = fd {
                self.transfer(pid, time, call, (fd, offset(at), len), is_write);
            }
        }
    }

    /// The first part of a listing: what was opened is a directory.
    fn list(&mut self, pid: u32, time: u64, call: &SystemCall, fd: i64) {
        let Some(open) = self.processes.get(pid, fd) else { return };
        if std::mem::replace(&mut open.listed, true) {
            return;
        }
        let (path, index) = (open.path.clone(), open.call);
        open.file = None;
        let Some(found) = self.inside(&path) else { return };
        if let Some(call) = self.trace.calls.get_mut(index)
            && let Op::Open { path, .. } = &call.op
        {
            call.op = Op::Stat(path.clone());
        }
        self.push(pid, time, Some(call), Op::List(found));
    }
}
