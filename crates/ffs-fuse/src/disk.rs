//! A block device as a file: a FUSE mount with one file, `disk`, whose bytes are the device's.
//!
//! **Purpose.** Gives programs that need a path access to a [`BlockDevice`] of this process (a
//! recorder, a fault injector): `ffs mount`, or a loop device with another file system on it. Each
//! write of the file is one write of the device, and each fsync is one flush.
//!
//! **Invariants.**
//! 1. A write returns after the device's write has returned: the kernel does not cache writes.
//! 2. An fsync returns after a flush of the device that began after the call of fsync.
//!
//! **References.** `include/uapi/linux/fuse.h` of Linux 6.18.

use crate::error::MountError;
use crate::kernel::{self, Force, MountParams};
use crate::log::LOG;
use crate::options::Timeouts;
use crate::wire::device::Received;
use crate::wire::reply::WireAttr;
use crate::wire::{Device, Entry, Errno, Features, MAX_IO, ROOT, Reply, Request, op};
use ffs_device::BlockDevice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The name of the file.
const NAME: &[u8] = b"disk";
/// The node of the file.
const FILE: u64 = 2;
/// Worker threads: a flush must not delay reads and writes.
const THREADS: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(3600);

/// A device that is served as a file. Dropping it unmounts.
pub struct Disk {
    mount_point: PathBuf,
    threads: Vec<JoinHandle<()>>,
}

/// The state that the threads share.
struct Served {
    kernel: Device,
    device: Arc<dyn BlockDevice>,
}

impl Disk {
    /// Serves `device` as the file `disk` of `mount_point`, an empty directory.
    ///
    /// # Errors
    /// FUSE is not available, or `mount_point` is no directory.
    pub fn serve(device: Arc<dyn BlockDevice>, mount_point: &Path) -> Result<Disk, MountError> {
        let mount_point = kernel::mount_point(mount_point)?;
        let params = MountParams {
            source: PathBuf::from("ffs-disk"),
            mount_point: mount_point.clone(),
            block_device: false,
            read_only: device.is_read_only(),
            allow_other: false,
            default_permissions: true,
            suid: false,
            dev: false,
            exec: false,
        };
        let kernel = Device::new(kernel::mount(&params)?);
        // From here on, dropping `disk` unmounts.
        let mut disk = Disk { mount_point, threads: Vec::new() };
        let wanted = Features::BIG_WRITES.with(Features::MAX_PAGES).with(Features::ASYNC_READ);
        kernel.handshake(|_| wanted).map_err(MountError::Session)?;
        let served = Arc::new(Served { kernel, device });
        for number in 0..THREADS {
            let served = Arc::clone(&served);
            let thread = std::thread::Builder::new().name(format!("disk {number}"));
            let started = thread.spawn(move || served.work()).map_err(MountError::Session)?;
            disk.threads.push(started);
        }
        Ok(disk)
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.mount_point.join("disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let lazy = Force { lazy: true, force: false };
        match kernel::unmount(&self.mount_point, lazy) {
            // The message of a panic has been printed already.
            Ok(()) => self.threads.drain(..).for_each(|thread| drop(thread.join())),
            Err(error) => {
                let mount_point = self.mount_point.display();
                tracing::error!(target: LOG, %mount_point, %error, "unmounting failed");
            }
        }
    }
}

impl Served {
    /// Answers requests until the file system is unmounted.
    fn work(&self) {
        let (mut buffer, mut space) = (Device::buffer(), Reply::buffer());
        let mut reply = Reply::new(&mut space);
        loop {
            match self.kernel.receive(&mut buffer) {
                Ok(Received::Again) => {}
                Ok(Received::Unmounted) => return,
                Ok(Received::Request(len)) => {
                    let Some(request) = Request::parse(&buffer[..len]) else { return };
                    if matches!(request.opcode, op::FORGET | op::BATCH_FORGET) {
                        continue;
                    }
                    reply.start();
                    let outcome = self.answer(&request, &mut reply);
                    self.kernel.send(reply.finish(request.unique, outcome));
                    if request.opcode == op::DESTROY {
                        return;
                    }
                }
                Err(error) => {
                    tracing::error!(target: LOG, %error, "the FUSE device failed");
                    return;
                }
            }
        }
    }

    fn answer(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let timeouts = Timeouts { entry: TIMEOUT, negative: TIMEOUT, attr: TIMEOUT };
        match (r.opcode, r.node) {
            (op::LOOKUP, ROOT) if r.args().name()? == NAME => {
                out.entry(&Entry { node: FILE, generation: 0, attr: self.attr(FILE) }, &timeouts);
            }
            (op::LOOKUP, ROOT) => out.no_entry(&timeouts),
            (op::GETATTR, node @ (ROOT | FILE)) => out.attr(&self.attr(node), &timeouts),
            // Times and modes are not stored. The size is that of the device.
            (op::SETATTR, node @ (ROOT | FILE)) => out.attr(&self.attr(node), &timeouts),
            (op::OPEN, FILE) | (op::OPENDIR, ROOT) => out.open(0),
            (op::READDIR, ROOT) | (op::RELEASE | op::RELEASEDIR | op::FSYNCDIR, _) => {}
            (op::READ, FILE) => self.read(r, out)?,
            (op::WRITE, FILE) => self.write(r, out)?,
            (op::FSYNC, FILE) => self.device.flush().map_err(|e| Errno(e.errno()))?,
            (op::DESTROY, _) => {}
            _ => return Err(Errno::NOSYS),
        }
        Ok(())
    }

    fn attr(&self, node: u64) -> WireAttr {
        let (mode, nlink, size) = match node {
            FILE => (libc::S_IFREG | 0o600, 1, self.device.len_bytes()),
            _ => (libc::S_IFDIR | 0o700, 2, 0),
        };
        let blocks = size.div_ceil(512);
        let blksize = self.device.sector_size().max(4096);
        WireAttr { ino: node, size, blocks, mode, nlink, blksize, ..WireAttr::default() }
    }

    /// The length of the part of the range of `len` bytes at `offset` that is on the device.
    fn within(&self, offset: u64, len: usize) -> usize {
        let left = self.device.len_bytes().saturating_sub(offset);
        usize::try_from(left).map_or(len, |left| len.min(left))
    }

    fn read(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        a.skip(8)?;
        let offset = a.u64()?;
        let len = self.within(offset, (a.u32()? as usize).min(MAX_IO));
        self.device.read_at(offset, out.space(len)).map_err(|e| Errno(e.errno()))
    }

    fn write(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let mut a = r.args();
        a.skip(8)?;
        let (offset, size) = (a.u64()?, a.u32()?);
        a.skip(20)?;
        let data = a.bytes(size as usize)?;
        if self.within(offset, data.len()) < data.len() {
            return Err(Errno::NOSPC);
        }
        self.device.write_at(offset, data).map_err(|e| Errno(e.errno()))?;
        out.u32(size);
        out.u32(0);
        Ok(())
    }
}
