//! The ioctls of files: BSD's file flags as Linux's attributes, and the control channel of ffs.
//!
//! | Linux | is set if the file has | sets | clears |
//! | --- | --- | --- | --- |
//! | immutable | `uchg` or `schg` | `schg` | both |
//! | append only | `uappnd` or `sappnd` | `sappnd` | both |
//! | no dump | `nodump` | `nodump` | `nodump` |
//!
//! The kernel requires `CAP_LINUX_IMMUTABLE` to change the first two.

use super::{Server, skip_handle};
use crate::channel::CONTROL;
use crate::wire::{Args, Errno, IOCTL_UNRESTRICTED, Reply, Request};
use ffs_core::{FileFlags, SetAttr, Vnode};

const GETFLAGS: u32 = 0x8008_6601;
const SETFLAGS: u32 = 0x4008_6602;
const FSGETXATTR: u32 = 0x801c_581f;
const FSSETXATTR: u32 = 0x401c_5820;
/// Bytes of `struct fsxattr`.
const FSXATTR: usize = 28;

/// A Linux flag in its two encodings, the BSD flags that show as it, and the BSD flag that it sets.
struct Flag {
    plain: u32,
    extended: u32,
    shown: FileFlags,
    set: FileFlags,
}

const FLAGS: [Flag; 3] = [
    Flag { plain: 0x10, extended: 0x8, shown: FileFlags::IMMUTABLE, set: FileFlags::SF_IMMUTABLE },
    Flag { plain: 0x20, extended: 0x10, shown: FileFlags::APPEND, set: FileFlags::SF_APPEND },
    Flag { plain: 0x40, extended: 0x80, shown: FileFlags::UF_NODUMP, set: FileFlags::UF_NODUMP },
];

fn to_linux(flags: FileFlags, form: impl Fn(&Flag) -> u32) -> u32 {
    FLAGS.iter().filter(|f| flags.intersects(f.shown)).map(form).sum()
}

/// The BSD flags after Linux sets `wanted`. `None` if BSD has no flag for one of them.
fn from_linux(old: FileFlags, wanted: u32, form: impl Fn(&Flag) -> u32) -> Option<FileFlags> {
    let mut flags = old;
    let mut left = wanted;
    for f in &FLAGS {
        let bit = form(f);
        if wanted & bit == 0 {
            flags.remove(f.shown);
        } else if !old.intersects(f.shown) {
            flags.insert(f.set);
        }
        left &= !bit;
    }
    (left == 0).then_some(flags)
}

impl Server {
    pub(super) fn ioctl(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        skip_handle(&mut a)?;
        let (flags, command) = (a.u32()?, a.u32()?);
        a.skip(8)?;
        let (in_size, out_size) = (a.u32()? as usize, a.u32()? as usize);
        if flags & IOCTL_UNRESTRICTED != 0 {
            return Err(Errno::NOTTY);
        }
        let file = self.node(r)?;
        out.zeros(16);
        let head = out.len();
        match command {
            GETFLAGS => out.u32(to_linux(self.fs.getattr(&file).flags, |f| f.plain)),
            FSGETXATTR => {
                out.u32(to_linux(self.fs.getattr(&file).flags, |f| f.extended));
                out.zeros(FSXATTR - 4);
            }
            SETFLAGS => {
                self.set_flags(r, &file, &mut a, |f| f.plain)?;
                out.stale = Some(r.node);
            }
            FSSETXATTR => {
                self.set_flags(r, &file, &mut a, |f| f.extended)?;
                out.stale = Some(r.node);
            }
            CONTROL => self.control(r, a.bytes(in_size)?, out)?,
            _ => return Err(Errno::NOTTY),
        }
        out.truncate(head + out_size);
        Ok(())
    }

    fn set_flags(
        &self,
        r: &Request<'_>,
        file: &Vnode,
        a: &mut Args<'_>,
        form: impl Fn(&Flag) -> u32,
    ) -> Result<(), Errno> {
        let wanted = a.u32()?;
        let old = self.fs.getattr(file).flags;
        let flags = from_linux(old, wanted, form).ok_or(Errno::OPNOTSUPP)?;
        if flags != old {
            let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
            self.fs.setattr(&self.cred(r), file, &set)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_keep_their_owner_form() {
        let old = FileFlags::UF_IMMUTABLE | FileFlags::UF_ARCHIVE;
        assert_eq!(to_linux(old, |f| f.plain), 0x10);
        assert_eq!(to_linux(old, |f| f.extended), 0x8);
        assert_eq!(from_linux(old, 0x10, |f| f.plain), Some(old));
        assert_eq!(from_linux(old, 0, |f| f.plain), Some(FileFlags::UF_ARCHIVE));
        let more = from_linux(old, 0x30, |f| f.plain).unwrap();
        assert_eq!(more, old | FileFlags::SF_APPEND);
        assert_eq!(from_linux(old, 0x10 | 0x8, |f| f.plain), None, "synchronous updates");
    }
}
