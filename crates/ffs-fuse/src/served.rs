//! From requests of the protocol to the calls that a recorder receives.

use crate::recorder::{CallArgs, ServedCall};
use crate::server::inode_number;
use crate::wire::{Args, Errno, HandedOut, Reply, Request, fattr, op};
use std::time::Instant;

impl<'a> ServedCall<'a> {
    /// The request with its outcome; `None` for requests without a call of a program.
    pub(crate) fn of(
        request: &Request<'a>,
        reply: &Reply,
        outcome: Result<bool, Errno>,
        began: Instant,
    ) -> Option<ServedCall<'a>> {
        let found = match reply.handed_out {
            HandedOut::Node(node) if outcome.is_ok() => Some(inode_number(node)),
            _ => None,
        };
        Some(ServedCall {
            began,
            took: began.elapsed(),
            pid: request.pid,
            ino: inode_number(request.node),
            args: CallArgs::of(request.opcode, request.args()).ok()??,
            error: outcome.err().map(|Errno(number)| number),
            found,
        })
    }
}

impl<'a> CallArgs<'a> {
    /// Reads the arguments; `None` for requests of the kernel alone, and for later parts of a
    /// listing. A request that is too short has failed already.
    fn of(opcode: u32, mut a: Args<'a>) -> Result<Option<CallArgs<'a>>, Errno> {
        Ok(Some(match opcode {
            op::FORGET
            | op::BATCH_FORGET
            | op::FLUSH
            | op::OPENDIR
            | op::RELEASEDIR
            | op::DESTROY => return Ok(None),
            op::LOOKUP => CallArgs::Lookup(a.string()?),
            op::GETATTR | op::STATX => CallArgs::Getattr,
            op::SETATTR => CallArgs::setattr(a)?,
            op::READLINK => CallArgs::Readlink,
            op::SYMLINK => CallArgs::Symlink(a.string()?, a.string()?),
            op::MKNOD => {
                let kind = a.u32()? & libc::S_IFMT;
                a.skip(12)?;
                CallArgs::Mknod(a.string()?, kind == 0 || kind == libc::S_IFREG)
            }
            op::MKDIR => {
                a.skip(8)?;
                CallArgs::Mkdir(a.string()?)
            }
            op::UNLINK => CallArgs::Unlink(a.string()?),
            op::RMDIR => CallArgs::Rmdir(a.string()?),
            op::RENAME | op::RENAME2 => {
                let to_dir = inode_number(a.u64()?);
                let flags = if opcode == op::RENAME2 { a.u32()? } else { 0 };
                a.skip(if opcode == op::RENAME2 { 4 } else { 0 })?;
                CallArgs::Rename { name: a.string()?, to_dir, to_name: a.string()?, flags }
            }
            op::LINK => CallArgs::Link(inode_number(a.u64()?), a.string()?),
            op::OPEN => CallArgs::Open(a.u32()?),
            op::CREATE => {
                let flags = a.u32()?;
                a.skip(12)?;
                CallArgs::Create(a.string()?, flags)
            }
            op::READ | op::WRITE => {
                a.skip(8)?;
                let (offset, size) = (a.u64()?, u64::from(a.u32()?));
                match opcode {
                    op::READ => CallArgs::Read(offset, size),
                    _ => CallArgs::Write(offset, size),
                }
            }
            op::RELEASE => {
                a.skip(8)?;
                CallArgs::Release(a.u32()?)
            }
            op::FSYNC => CallArgs::Fsync,
            op::READDIR | op::READDIRPLUS => {
                a.skip(8)?;
                if a.u64()? > 0 {
                    return Ok(None);
                }
                CallArgs::List
            }
            op::SYNCFS => CallArgs::Sync,
            // Others that the server does not implement.
            _ if op::name(opcode) == "?" => return Ok(None),
            _ => CallArgs::Other(op::name(opcode)),
        }))
    }

    fn setattr(mut a: Args<'a>) -> Result<CallArgs<'a>, Errno> {
        let valid = a.u32()?;
        a.skip(4 + 8)?;
        let size = a.u64()?;
        a.skip(8 + 8)?;
        let mtime = a.u64()? as i64;
        a.skip(8 + 3 * 4)?;
        let mode = a.u32()?;
        let has = |bit: u32| valid & bit != 0;
        Ok(CallArgs::Setattr {
            size: has(fattr::SIZE).then_some(size),
            mode: has(fattr::MODE).then_some(mode),
            mtime: has(fattr::MTIME).then(|| (!has(fattr::MTIME_NOW)).then_some(mtime)),
            owner: has(fattr::UID) || has(fattr::GID),
            by_handle: has(fattr::FH),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these arguments.
    fn args(opcode: u32, body: &[u8]) -> Option<CallArgs<'static>> {
        let mut b = Vec::new();
        b.extend((40 + body.len() as u32).to_ne_bytes());
        b.extend(opcode.to_ne_bytes());
        b.resize(40, 0);
        b.extend(body);
        let request = Request::parse(Box::leak(b.into_boxed_slice())).unwrap();
        CallArgs::of(opcode, request.args()).unwrap()
    }

    #[test]
    fn arguments_are_those_of_the_protocol() {
        let (one, two) = (1u64.to_ne_bytes(), 2u32.to_ne_bytes());
        let rename = [&one[..], &two, &[0; 4], b"a\0b\0"].concat();
        let expected = CallArgs::Rename { name: b"a", to_dir: 2, to_name: b"b", flags: 2 };
        assert_eq!(args(op::RENAME2, &rename), Some(expected));
        let read = [&[0; 8][..], &7u64.to_ne_bytes(), &two, &[0; 20]].concat();
        assert_eq!(args(op::READ, &read), Some(CallArgs::Read(7, 2)));
        assert_eq!(args(op::READDIR, &read), None, "a later part of a listing");
        assert_eq!(args(op::READDIR, &[0; 40]), Some(CallArgs::List));
        let create = [&two[..], &[0; 12], b"new\0"].concat();
        assert_eq!(args(op::CREATE, &create), Some(CallArgs::Create(b"new", 2)));
        let mut set = vec![0; 88];
        set[..4].copy_from_slice(&(fattr::SIZE | fattr::MTIME | fattr::FH).to_ne_bytes());
        set[16..24].copy_from_slice(&5u64.to_ne_bytes());
        set[40..48].copy_from_slice(&9u64.to_ne_bytes());
        let expected = CallArgs::Setattr {
            size: Some(5),
            mode: None,
            mtime: Some(Some(9)),
            owner: false,
            by_handle: true,
        };
        assert_eq!(args(op::SETATTR, &set), Some(expected));
        assert_eq!(args(op::GETXATTR, b""), Some(CallArgs::Other("GETXATTR")));
    }
}
