//! Direct I/O beside reads through the page cache: what a finished direct write has written is what
//! everybody reads.

use crate::bench::{Bench, Expect, cases};
use crate::sys::{self, R};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use std::sync::atomic::{AtomicBool, Ordering};

cases! {
    "direct" {
        asynchronous_writes_are_read_at_once;
        synchronous_writes_are_read_at_once;
    }
}

/// Bytes of a transfer.
const LEN: usize = 64 << 10;
const ROUNDS: u8 = 250;

/// A buffer at an address that direct I/O takes.
#[repr(align(4096))]
struct Pages([u8; LEN]);

/// The kernel's queue of asynchronous I/O.
struct Queue(u64);

impl Queue {
    fn new() -> Queue {
        let mut context = 0u64;
        // SAFETY: the kernel writes the number of a new context to where it may.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
        assert_eq!(made, 0, "io_setup: {}", std::io::Error::last_os_error());
        Queue(context)
    }

    /// Writes, and waits until it is done.
    fn write(&self, f: BorrowedFd<'_>, bytes: &[u8], at: i64) -> R<i64> {
        const PWRITE: u16 = 1;
        // SAFETY: all fields are numbers.
        let mut block: libc::iocb = unsafe { std::mem::zeroed() };
        block.aio_lio_opcode = PWRITE;
        block.aio_fildes = f.as_raw_fd() as u32;
        block.aio_buf = bytes.as_ptr() as u64;
        block.aio_nbytes = bytes.len() as u64;
        block.aio_offset = at;
        let mut blocks = [&raw mut block];
        // Data, block, result, second result.
        let mut event = [0i64; 4];
        // SAFETY: block and buffer live until the write has ended, for which this waits.
        let (sent, got) = unsafe {
            let sent = libc::syscall(libc::SYS_io_submit, self.0, 1, blocks.as_mut_ptr());
            let none = std::ptr::null::<libc::timespec>();
            let got = if sent == 1 {
                libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, event.as_mut_ptr(), none)
            } else {
                0
            };
            (sent, got)
        };
        assert_eq!((sent, got), (1, 1), "{}", std::io::Error::last_os_error());
        if event[2] < 0 {
            return Err(sys::Errno::from_raw_os_error(-event[2] as i32));
        }
        Ok(event[2])
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: nothing is under way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// Rounds of direct writes by `write`, while others read the same range through the page cache.
fn beside_readers(write: impl Fn(&OwnedFd, &[u8]) -> usize) {
    sys::put("f", &[0; LEN]).must();
    let direct = sys::open("f", OFlags::RDWR | OFlags::DIRECT, 0).must();
    let cached = sys::open("f", OFlags::RDONLY, 0).must();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    sys::pread(&cached, LEN, 0).must();
                }
            });
        }
        let stale = (1..=ROUNDS).find(|round| {
            let pages = Box::new(Pages([*round; LEN]));
            assert_eq!(write(&direct, &pages.0), LEN);
            sys::pread(&cached, LEN, 0).must().iter().any(|byte| byte != round)
        });
        done.store(true, Ordering::Relaxed);
        assert_eq!(stale, None, "the round of which old content was read");
    });
}

fn asynchronous_writes_are_read_at_once(_: &Bench) {
    let queue = Queue::new();
    beside_readers(|f, bytes| {
        use rustix::fd::AsFd;
        queue.write(f.as_fd(), bytes, 0).must() as usize
    });
}

fn synchronous_writes_are_read_at_once(_: &Bench) {
    beside_readers(|f, bytes| sys::pwrite(f, bytes, 0).must());
}
