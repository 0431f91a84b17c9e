//! Opening, reading and writing files, and fsync.

use super::{Server, skip_handle};
use crate::wire::splice::Splice;
use crate::wire::{
    Args, Errno, FSYNC_FDATASYNC, IO_LOCKOWNER, MAX_IO, OPEN_KILL_SUIDGID, Pages, Reply, Request,
    WRITE_CACHE, WRITE_KILL_SUIDGID, fopen,
};
use ffs_core::{
    Access, Atime, Attr, Cred, Fallocate, Ffs, FileFlags, FileType, SetIdBits, Vnode, WriteMode,
    WriteSource,
};
use ffs_device::HostRange;

const O_ACCMODE: u32 = libc::O_ACCMODE as u32;
const O_RDONLY: u32 = libc::O_RDONLY as u32;
const O_APPEND: u32 = libc::O_APPEND as u32;
const O_TRUNC: u32 = libc::O_TRUNC as u32;
const O_DIRECT: u32 = libc::O_DIRECT as u32;
const O_DSYNC: u32 = libc::O_DSYNC as u32;
/// A flag of the kernel: opened to be executed.
const FMODE_EXEC: u32 = 0x20;
const FALLOC_KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
const FALLOC_PUNCH_HOLE: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32;
const FALLOC_ZERO_RANGE: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;

/// The arguments of a request to write, before its content.
#[derive(Clone, Copy)]
struct WriteArgs {
    offset: u64,
    /// Bytes of content.
    size: usize,
    write_flags: u32,
    /// The flags of the open file.
    flags: u32,
}

impl WriteArgs {
    fn of(a: &mut Args<'_>) -> Result<WriteArgs, Errno> {
        skip_handle(a)?;
        let (offset, size, write_flags) = (a.u64()?, a.u32()? as usize, a.u32()?);
        a.skip(8)?;
        let flags = a.u32()?;
        a.skip(4)?;
        Ok(WriteArgs { offset, size, write_flags, flags })
    }

    fn has(&self, flag: u32) -> bool {
        self.write_flags & flag != 0
    }

    /// Whether the content must be durable. The kernel sends FSYNC after cached writes that must.
    fn sync(&self) -> bool {
        let both = O_DIRECT | O_DSYNC;
        !self.has(WRITE_CACHE) && self.flags & both == both
    }
}

impl Server {
    /// Opens a file. An open file needs no handle, only its node. The request checks BSD's file
    /// flags, truncates, and decides whether the kernel may use cached pages.
    pub(super) fn open(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let (flags, open_flags) = (a.u32()?, a.u32()?);
        let file = self.node(r)?;
        if flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0 {
            check_flags(&self.fs.getattr(&file), flags)?;
        }
        self.check_open(r, &file, flags)?;
        if flags & O_TRUNC != 0 {
            self.truncate(r, &file, open_flags & OPEN_KILL_SUIDGID != 0, out)?;
        }
        let reply = if flags & O_ACCMODE == libc::O_WRONLY as u32 {
            fopen::KEEP_CACHE
        } else {
            self.open_reply(&file)
        };
        out.open(reply);
        Ok(())
    }

    pub(super) fn opendir(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let file = self.node(r)?;
        self.check_open(r, &file, r.args().u32()?)?;
        let reply = self.open_reply(&file);
        out.open(if reply == 0 { 0 } else { reply | fopen::CACHE_DIR });
        Ok(())
    }

    /// Checks the caller's permission, unless the kernel checks permissions itself.
    fn check_open(&self, r: &Request<'_>, file: &Vnode, flags: u32) -> Result<(), Errno> {
        if self.options.default_permissions {
            return Ok(());
        }
        let mut want = match (flags & O_ACCMODE) as i32 {
            libc::O_RDONLY if flags & FMODE_EXEC != 0 => Access::EXEC,
            libc::O_RDONLY => Access::READ,
            libc::O_WRONLY => Access::WRITE,
            _ => Access::READ.and(Access::WRITE),
        };
        if flags & O_TRUNC != 0 {
            want = want.and(Access::WRITE);
        }
        Ok(self.fs.access(&self.cred(r), file, want)?)
    }

    /// The flags of an open: whether the kernel may use cached pages. It may not if the access time
    /// is due, because the server does not see reads from the kernel's cache.
    pub(super) fn open_reply(&self, file: &Vnode) -> u32 {
        let due = match self.options.atime {
            _ if self.fs.is_read_only() => false,
            Atime::Never => false,
            Atime::Always => true,
            Atime::Relative => {
                let a = self.fs.getattr(file);
                // An empty file has no content whose read would set the access time.
                a.size > 0 && (a.atime <= a.mtime || a.atime <= a.ctime)
            }
        };
        if due { 0 } else { fopen::KEEP_CACHE }
    }

    pub(super) fn read(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        skip_handle(&mut a)?;
        let offset = a.u64()?;
        let size = (a.u32()? as usize).min(MAX_IO);
        let cached = a.u32()? & IO_LOCKOWNER == 0;
        let file = self.nodes.get_for_io(r.node, cached)?;
        if size as u64 >= Ffs::LEAST_IN_PLACE
            && let Some(splice) = out.splice()
        {
            // While the file is locked: its blocks must not get another content before.
            let send = |ranges: &[HostRange<'_>]| {
                let n = ranges.iter().map(|range| range.length).sum::<u64>();
                splice.send(ranges).then_some(n as usize)
            };
            if let Some(n) = self.fs.read_in_place(&file, offset, size as u64, send)? {
                self.requests.count_spliced_read();
                out.set_sent(n);
                return Ok(());
            }
        }
        let n = self.fs.read(&file, offset, out.space(size))?;
        out.truncate(n);
        Ok(())
    }

    pub(super) fn write(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        let args = WriteArgs::of(&mut a)?;
        let outcome = self.write_content(r, args, &mut a, out);
        if outcome == Err(Errno::PERM) && !args.has(IO_LOCKOWNER) && args.size > 0 {
            // Programs see the content already: in the kernel's cache, by read or by a mapping.
            let (offset, len) = (args.offset, args.size as u64);
            out.stale_pages = Some(Pages { node: r.node, offset, len });
        }
        outcome
    }

    fn write_content(
        &self,
        r: &Request<'_>,
        args: WriteArgs,
        a: &mut Args<'_>,
        out: &mut Reply,
    ) -> Result<(), Errno> {
        let WriteArgs { offset, size, .. } = args;
        let (cached, direct) = (args.has(WRITE_CACHE), args.has(IO_LOCKOWNER));
        let file = self.nodes.get_for_io(r.node, !direct)?;
        if self.no_open && !cached {
            // What the open would have checked.
            check_flags(&self.fs.getattr(&file), args.flags)?;
        }
        let mut bytes: &[u8];
        let mut piped;
        let (spliced, content): (bool, &mut dyn WriteSource) =
            match out.splice().and_then(Splice::content) {
                Some(content) => {
                    piped = content;
                    (true, &mut piped)
                }
                None => {
                    bytes = a.bytes(size)?;
                    (false, &mut bytes)
                }
            };
        // A request that is tried again may have written a part of a piped content.
        let mut n = size.checked_sub(content.left()).ok_or(Errno::IO)?;
        let set_id = self.set_id(args.has(WRITE_KILL_SUIDGID));
        let kills = set_id == SetIdBits::Drop && self.has_set_id(&file);
        let old = if cached { self.old_part(&file, offset, size) } else { 0 };
        let mode = WriteMode {
            // The kernel has already computed the offset of an append.
            append: false,
            sync: args.sync(),
            set_id,
        };
        let cred = if cached { self.owner_of(&file) } else { self.cred(r) };
        if old > n {
            self.check_old_part(&file, offset + n as u64, content, old - n)?;
            n = old;
        }
        if n < size || size == 0 {
            n += self.fs.write_from(&cred, &file, offset + n as u64, content, mode)?;
        }
        while cached && n < size {
            n += self.write_more(&cred, &file, (offset + n as u64, size - n), content, mode)?;
        }
        if spliced {
            // Only now: a write that failed is tried again.
            self.requests.count_spliced_write();
        }
        out.u32(n as u32);
        out.u32(0);
        if kills {
            out.stale = Some(r.node);
        }
        if direct && n > 0 && self.nodes.may_be_cached(r.node) {
            out.stale_pages = Some(Pages { node: r.node, offset, len: n as u64 });
        }
        Ok(())
    }

    /// Bytes at the start of a cached write that an append-only file already has: the kernel writes
    /// whole pages, and only their end can be new.
    fn old_part(&self, file: &Vnode, offset: u64, size: usize) -> usize {
        let a = self.fs.getattr(file);
        if !a.flags.intersects(FileFlags::APPEND) {
            return 0;
        }
        usize::try_from(a.size.saturating_sub(offset)).map_or(size, |old| old.min(size))
    }

    /// Writes after a short write. The kernel takes a short reply to a cached write as success and
    /// drops the rest. The error that made it short must reach the fsync, so the rest is tried.
    fn write_more(
        &self,
        cred: &Cred,
        file: &Vnode,
        (offset, left): (u64, usize),
        content: &mut dyn WriteSource,
        mode: WriteMode,
    ) -> Result<usize, Errno> {
        if content.left() != left {
            return Err(Errno::IO);
        }
        match self.fs.write_from(cred, file, offset, content, mode)? {
            0 => Err(Errno::IO),
            more => Ok(more),
        }
    }

    /// Takes `len` bytes of content that an append-only file already has at `offset`. They differ
    /// if a program changed them by a mapping.
    fn check_old_part(
        &self,
        file: &Vnode,
        offset: u64,
        content: &mut dyn WriteSource,
        len: usize,
    ) -> Result<(), Errno> {
        let (mut new, mut old) = (vec![0; len], vec![0; len]);
        content.take(&mut new).map_err(|_| Errno::IO)?;
        let n = self.fs.read(file, offset, &mut old)?;
        if n == len && new == old { Ok(()) } else { Err(Errno::PERM) }
    }

    /// The credentials of the file's owner. The kernel does not record which user wrote a cached
    /// page, so the space is charged to the owner.
    fn owner_of(&self, file: &Vnode) -> Cred {
        let a = self.fs.getattr(file);
        Cred { checks: ffs_core::Checks::Done, ..Cred::user(a.uid, a.gid) }
    }

    pub(super) fn fallocate(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        skip_handle(&mut a)?;
        let (offset, mut len, mode) = (a.u64()?, a.u64()?, a.u32()?);
        let file = self.node(r)?;
        let keep = mode & FALLOC_KEEP_SIZE != 0;
        let how = match mode & !FALLOC_KEEP_SIZE {
            0 if keep => Fallocate::AllocateKeepSize,
            0 => Fallocate::Allocate,
            FALLOC_PUNCH_HOLE if keep => Fallocate::PunchHole,
            FALLOC_ZERO_RANGE => Fallocate::ZeroRange,
            _ => return Err(Errno::OPNOTSUPP),
        };
        if how == Fallocate::ZeroRange && keep {
            len = len.min(self.fs.getattr(&file).size.saturating_sub(offset));
            if len == 0 {
                return Ok(());
            }
        }
        let cred = self.cred(r);
        let kills = !cred.is_root && self.has_set_id(&file);
        self.fs.fallocate(&cred, &file, offset, len, how)?;
        if kills {
            out.stale = Some(r.node);
        }
        Ok(())
    }

    /// SEEK_DATA and SEEK_HOLE. With `writeback` the kernel may hold data that the server has not
    /// received and cannot request. `ENOSYS` makes the kernel report the whole file as data, which
    /// is always correct.
    pub(super) fn lseek(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        if self.options.writeback {
            return Err(Errno::NOSYS);
        }
        let mut a = r.args();
        skip_handle(&mut a)?;
        let (offset, whence) = (a.u64()?, a.u32()?);
        let file = self.node(r)?;
        let at = match whence as i32 {
            libc::SEEK_DATA => self.fs.seek_data(&file, offset)?,
            libc::SEEK_HOLE => self.fs.seek_hole(&file, offset)?,
            _ => return Err(Errno::INVAL),
        };
        out.u64(at);
        Ok(())
    }

    pub(super) fn fsync(&self, r: &Request<'_>) -> Result<(), Errno> {
        let mut a = r.args();
        skip_handle(&mut a)?;
        let data_only = a.u32()? & FSYNC_FDATASYNC != 0;
        let node = self.node(r)?;
        let done = if data_only { self.fs.fdatasync(&node) } else { self.fs.fsync(&node) };
        Ok(done?)
    }
}

/// Checks whether BSD's file flags permit opening the file for writing.
fn check_flags(a: &Attr, flags: u32) -> Result<(), Errno> {
    let appends = flags & O_APPEND != 0 && flags & O_TRUNC == 0;
    if a.kind != FileType::Regular {
        return Ok(());
    }
    if a.flags.intersects(FileFlags::IMMUTABLE)
        || (a.flags.intersects(FileFlags::APPEND) && !appends)
    {
        return Err(Errno::PERM);
    }
    Ok(())
}
