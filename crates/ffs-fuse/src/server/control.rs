//! The control channel: an ioctl on any file of the mount, by root or by who mounted it.
//!
//! A message is a line of text padded with zeros, there and back. The answer begins with `ok` or `error`.
//!
//! | message | does |
//! | --- | --- |
//! | `pid` | tells the server's process, to wait for its end |
//! | `remount ro`, `remount rw` | the server's part of `mount -o remount` |

use super::Server;
use crate::wire::{Errno, Reply, Request};

/// Bytes of a message.
pub(crate) const MESSAGE: usize = 512;
/// `_IOWR(0xf5, 1, char[512])`.
pub(crate) const COMMAND: u32 = 0xc200_f501;

impl Server {
    pub(super) fn control(
        &self,
        r: &Request<'_>,
        message: &[u8],
        out: &mut Reply,
    ) -> Result<(), Errno> {
        if r.uid != 0 && r.uid != self.rules.owner {
            return Err(Errno::PERM);
        }
        let end = message.iter().position(|b| *b == 0).unwrap_or(message.len());
        let answer = match &message[..end] {
            b"pid" => format!("ok {}", std::process::id()),
            b"remount ro" => self.remount(true),
            b"remount rw" => self.remount(false),
            _ => return Err(Errno::INVAL),
        };
        let answer = &answer.as_bytes()[..answer.len().min(MESSAGE - 1)];
        out.bytes(answer);
        out.zeros(MESSAGE - answer.len());
        Ok(())
    }

    fn remount(&self, read_only: bool) -> String {
        match self.fs.remount(read_only) {
            Ok(()) => "ok".to_owned(),
            Err(e) => format!("error {e}"),
        }
    }
}
