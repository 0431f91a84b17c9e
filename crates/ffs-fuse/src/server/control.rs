//! The control channel: an ioctl on any file of the mount.
//!
//! Message and reply are text, padded with zeros. The reply begins with `ok` or `error`. *Owner*
//! means root or the user who mounted.
//!
//! | message | effect | permitted to |
//! | --- | --- | --- |
//! | `pid` | returns the server's process id, to wait for its end | owner |
//! | `sync` | writes everything in memory before the reply | owner |
//! | `remount ro`, `remount rw` | the server's part of `mount -o remount` | owner |
//! | `snapshot` | makes a snapshot in the file of the ioctl, which is empty | owner |
//! | `snapshots` | returns a line for each: inode, time, bytes held and shown | owner |
//! | `check`, `check force` | starts a check in the background | owner |
//! | `check-stop` | ends it, and waits for its end | owner |
//! | `check-status` | returns its progress or its result, see `checker` | owner |
//! | `is-snapshot` | returns 1 if the file of the ioctl is a snapshot, else 0 | all users |
//! | `set NAME=VALUE` | sets a switch; returns its name, its old and its new value | owner |
//! | `list N` | returns switches, counters and gauges from the `N`th on | all users |
//! | `values N` | the same, names and values only | all users |
//! | `quota ...` | quotas, see `server::quota` | owner; own quotas: all users |
//!
//! The reply to `list` and `values` is `ok M` and lines with fields separated by tabs. If `M` is
//! not 0, the list continues at `M`: another message reads it. The fields are the name, the value,
//! and for `list` also `rw`, `counter` or `gauge`, the accepted values, and the meaning.

use super::Server;
use crate::channel::MESSAGE;
use crate::checker::Checker;
use crate::wire::{Errno, LastByte, Reply, Request};
use ffs_core::{Cred, FileFlags, Nature, SnapshotInfo, Sysctl, TunableError, Vnode};
use std::sync::Arc;

impl Server {
    pub(super) fn control(
        &self,
        r: &Request<'_>,
        message: &[u8],
        out: &mut Reply,
    ) -> Result<(), Errno> {
        let end = message.iter().position(|b| *b == 0).unwrap_or(message.len());
        let text = std::str::from_utf8(&message[..end]).map_err(|_| Errno::INVAL)?;
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let is_owner = r.uid == 0 || r.uid == self.options.owner;
        if !is_owner && !matches!(verb, "list" | "values" | "quota" | "is-snapshot") {
            return Err(Errno::PERM);
        }
        let answer = match (verb, rest) {
            ("pid", "") => format!("ok {}", std::process::id()),
            ("sync", "") => done(&self.fs.sync()),
            ("remount", "ro") => self.remount(true),
            ("remount", "rw") => self.remount(false),
            ("check", "") => self.check(|checker| checker.start(false)),
            ("check", "force") => self.check(|checker| checker.start(true)),
            ("check-stop", "") => self.check(|checker| {
                checker.stop();
                Ok(())
            }),
            ("check-status", "") => match self.checker.get() {
                Some(checker) => format!("ok {}", checker.status()),
                None => "ok none".to_owned(),
            },
            ("snapshot", "") => self.snapshot(r, out)?,
            ("snapshots", "") => self.snapshots(),
            ("is-snapshot", "") => {
                let flags = self.fs.getattr(&self.node(r)?).flags;
                format!("ok {}", u8::from(flags.contains(FileFlags::SF_SNAPSHOT)))
            }
            ("set", assignment) => self.set(assignment),
            ("quota", message) => self.quota(r, message, is_owner)?,
            ("list", from) => self.list(from, describe)?,
            ("values", from) => self.list(from, |s| format!("{}\t{}\n", s.name, s.value))?,
            _ => return Err(Errno::INVAL),
        };
        let answer = &answer.as_bytes()[..answer.len().min(MESSAGE - 1)];
        out.bytes(answer);
        out.zeros(MESSAGE - answer.len());
        Ok(())
    }

    /// Makes a snapshot in the file. Returns the nanoseconds for which operations waited, the
    /// number of cylinder groups, and of those that were copied again meanwhile.
    fn snapshot(&self, r: &Request<'_>, out: &mut Reply) -> Result<String, Errno> {
        let file = self.node(r)?;
        // The owner of a mount may read everything on it.
        Ok(match self.fs.snapshot_into(&Cred::root(), &file) {
            Ok(made) => {
                out.stale = Some(r.node);
                out.longer = self.last_byte(&file, r.node).filter(|_| self.options.writeback);
                let nanos = made.suspended.as_nanos();
                format!("ok {nanos}\t{}\t{}", made.groups, made.groups_again)
            }
            Err(e) => format!("error {e}"),
        })
    }

    /// The last byte of `file`, which has the number `node` in the protocol; `None` if it has none,
    /// or cannot be read.
    fn last_byte(&self, file: &Vnode, node: u64) -> Option<LastByte> {
        let offset = self.fs.getattr(file).size.checked_sub(1)?;
        let mut byte = [0];
        let n = self.fs.read(file, offset, &mut byte).ok()?;
        (n == 1).then_some(LastByte { node, offset, byte: byte[0] })
    }

    fn snapshots(&self) -> String {
        let line = |s: SnapshotInfo| format!("\n{}\t{}\t{}\t{}", s.ino, s.made, s.held, s.image);
        let lines: String = self.fs.snapshot_list().into_iter().map(line).collect();
        format!("ok{lines}")
    }

    /// Calls `call` with what checks the volume in the background.
    fn check(
        &self,
        call: impl FnOnce(&Arc<Checker>) -> std::result::Result<(), &'static str>,
    ) -> String {
        let checker = self.checker.get().ok_or("this mount has no check in the background");
        match checker.and_then(call) {
            Ok(()) => "ok".to_owned(),
            Err(why) => format!("error {why}"),
        }
    }

    /// Changes between read-only and read-write. A check ends before, and one begins after.
    fn remount(&self, read_only: bool) -> String {
        let checker = self.checker.get();
        if let Some(checker) = checker.filter(|_| read_only) {
            checker.stop();
        }
        let changed = self.fs.remount(read_only);
        if let Some(checker) = checker.filter(|_| self.options.bgfsck) {
            checker.start_if_wanted();
        }
        done(&changed)
    }

    fn set(&self, assignment: &str) -> String {
        let Some((name, value)) = assignment.split_once('=') else {
            return "error the value is missing".to_owned();
        };
        let before = match self.fs.set_tunable(name, value) {
            Ok(before) => before,
            Err(e @ TunableError::Unknown { .. }) => {
                return match self.requests.sysctl().find(|s| s.name == name) {
                    Some(counter) => format!("error {}", TunableError::ReadOnly(counter.name)),
                    None => format!("error {e}; ffs sysctl MOUNT lists them"),
                };
            }
            Err(e) => return format!("error {e}"),
        };
        let now = self.fs.tunables().into_iter().find(|t| t.id == before.id);
        let now = now.map(|t| t.value).unwrap_or_default();
        format!("ok {}\t{}\t{now}", before.name, before.value)
    }

    /// The way of requests.
    fn transport(&self) -> Sysctl {
        Sysctl {
            name: "vfs.ffs.transport",
            nature: Nature::Gauge,
            value: if self.io_uring { "io_uring" } else { "dev" }.to_owned(),
            meaning: "The way of the kernel's requests: io_uring, or dev for /dev/fuse.",
        }
    }

    /// As many lines as fit into a message.
    fn list(&self, from: &str, line: impl Fn(&Sysctl) -> String) -> Result<String, Errno> {
        let from: usize = from.parse().map_err(|_| Errno::INVAL)?;
        let mut all = self.fs.sysctl();
        all.extend(self.requests.sysctl());
        all.push(self.transport());
        all.sort_by_key(|s| s.name);
        let (mut lines, mut next) = (String::new(), 0);
        for (i, entry) in all.iter().enumerate().skip(from) {
            let more = line(entry);
            if lines.len() + more.len() + 32 > MESSAGE {
                next = i;
                break;
            }
            lines.push_str(&more);
        }
        Ok(format!("ok {next}\n{lines}"))
    }
}

pub(super) fn done(outcome: &ffs_core::Result<()>) -> String {
    match outcome {
        Ok(()) => "ok".to_owned(),
        Err(e) => format!("error {e}"),
    }
}

fn describe(s: &Sysctl) -> String {
    let (nature, takes) = match s.nature {
        Nature::Switch(kind) => ("rw", kind.takes()),
        Nature::Counter => ("counter", String::new()),
        Nature::Gauge => ("gauge", String::new()),
    };
    format!("{}\t{}\t{nature}\t{takes}\t{}\n", s.name, s.value, s.meaning)
}
