//! Direct I/O beside reads through the page cache: what a finished direct write has written is what
//! everybody reads.

use crate::bench::{Bench, Expect, cases};
use crate::sys::{self, R};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::mount::{UnmountFlags, unmount};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

cases! {
    "direct" {
        asynchronous_writes_are_read_at_once;
        many_asynchronous_writes_hold_up_no_reader;
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
    /// For this many writes at a time.
    fn new(depth: usize) -> Queue {
        let mut context = 0u64;
        // SAFETY: the kernel writes the number of a new context to where it may.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
        assert_eq!(made, 0, "io_setup: {}", std::io::Error::last_os_error());
        Queue(context)
    }

    /// Begins a write. `bytes` must stay until it has ended.
    fn begin(&self, f: BorrowedFd<'_>, bytes: &[u8], at: i64) {
        const PWRITE: u16 = 1;
        // SAFETY: all fields are numbers.
        let mut block: libc::iocb = unsafe { std::mem::zeroed() };
        block.aio_lio_opcode = PWRITE;
        block.aio_fildes = f.as_raw_fd() as u32;
        block.aio_buf = bytes.as_ptr() as u64;
        block.aio_nbytes = bytes.len() as u64;
        block.aio_offset = at;
        let mut blocks = [&raw mut block];
        // SAFETY: the block is read by this call, and the buffer stays.
        let sent = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, blocks.as_mut_ptr()) };
        assert_eq!(sent, 1, "{}", std::io::Error::last_os_error());
    }

    /// Waits until a write has ended, and returns the number of its bytes.
    fn end(&self) -> R<i64> {
        // Data, block, result, second result.
        let mut event = [0i64; 4];
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the kernel writes one event to where it may.
        let got = unsafe {
            libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, event.as_mut_ptr(), none)
        };
        assert_eq!(got, 1, "{}", std::io::Error::last_os_error());
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
    let queue = Queue::new(1);
    beside_readers(|f, bytes| {
        queue.begin(f.as_fd(), bytes, 0);
        queue.end().must() as usize
    });
}

/// Many writes that no one waits for, while others read the same file through the page cache. Each
/// of them needs requests that the kernel may have under way at a time.
fn many_asynchronous_writes_hold_up_no_reader(_: &Bench) {
    const DEPTH: usize = 64;
    const WRITES: usize = 4000;
    const BLOCK: usize = 4096;
    const BLOCKS: usize = 1024;
    sys::put("f", &vec![0; BLOCKS * BLOCK]).must();
    let direct = sys::open("f", OFlags::RDWR | OFlags::DIRECT, 0).must();
    let cached = sys::open("f", OFlags::RDONLY, 0).must();
    let path = std::fs::read_link(format!("/proc/self/fd/{}", cached.as_raw_fd())).unwrap();
    let page = Box::new(Pages([7; LEN]));
    let done = AtomicBool::new(false);
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|s| {
        s.spawn(move || {
            // Without this a mount that is stuck would hold up the tests without end.
            if watched.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
                let how = UnmountFlags::FORCE | UnmountFlags::DETACH;
                let ended = path.ancestors().find(|dir| unmount(*dir, how).is_ok());
                eprintln!("the mount was stuck, and is ended: {ended:?}");
            }
        });
        for reader in 0..3 {
            let (done, cached) = (&done, &cached);
            s.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    if reader == 0 {
                        let all = rustix::fs::Advice::DontNeed;
                        rustix::fs::fadvise(cached, 0, None, all).unwrap();
                    }
                    for at in 0..BLOCKS * BLOCK / LEN {
                        sys::pread(cached, LEN, (at * LEN) as u64).must();
                    }
                }
            });
        }
        let queue = Queue::new(DEPTH);
        let mut random = 1u64;
        for i in 0..WRITES + DEPTH {
            if i >= DEPTH {
                assert_eq!(queue.end().must(), BLOCK as i64);
            }
            if i < WRITES {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                let at = (random >> 33) as usize % BLOCKS;
                queue.begin(direct.as_fd(), &page.0[..BLOCK], (at * BLOCK) as i64);
            }
        }
        done.store(true, Ordering::Relaxed);
        drop(ended);
    });
}

fn synchronous_writes_are_read_at_once(_: &Bench) {
    beside_readers(|f, bytes| sys::pwrite(f, bytes, 0).must());
}
