//! A ring: requests and replies by FUSE over io_uring.
//!
//! **Purpose.** The kernel has a queue of requests for each processor. A ring serves some of them.
//! The kernel writes a request into the memory of an [`Entry`], and reads the reply from there; one
//! system call passes on replies and waits for requests.
//!
//! **Invariants.**
//! 1. An entry is either the kernel's or the server's. The ring has it while it is the kernel's, so
//!    that no other thread reads or changes its memory.
//! 2. Memory that the kernel may still write is never freed.
//! 3. One thread uses a ring: the one that made it.
//!
//! **References.** `include/uapi/linux/fuse.h` and `fs/fuse/dev_uring.c` of Linux 6.18;
//! io_uring_setup(2), io_uring_enter(2).

use super::reply::CONTENT;
use super::{Device, HEADER, Request, request};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

type Sqe = squeue::Entry128;

/// `FUSE_IO_URING_CMD_REGISTER` and `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// `struct fuse_uring_req_header`: the header of the request or of the reply, the structure of the
/// opcode, and `struct fuse_uring_ent_in_out`.
const STRUCTURE: usize = 128;
const ENT_IN_OUT: usize = 256;
const COMMIT_ID: usize = ENT_IN_OUT + 8;
const PAYLOAD_SIZE: usize = ENT_IN_OUT + 16;
const HEADERS: usize = ENT_IN_OUT + 32;
/// Where the payload is in the memory of an entry. The header of a reply that is built in place has
/// its bytes in front of it.
const PAYLOAD: usize = 4096;

/// User data of the read that ends a wait. Others are the numbers of entries.
const WAKE: u64 = u64::MAX;

/// The memory of a request and its reply.
pub(crate) struct Entry {
    /// Its number in its ring.
    index: usize,
    /// The kernel's queue that it belongs to.
    queue: u16,
    /// The kernel's id of the request.
    commit_id: u64,
    /// Headers, then the payload. Untouched pages take no memory.
    memory: Vec<u8>,
}

impl Entry {
    fn new(index: usize, queue: u16) -> Entry {
        Entry { index, queue, commit_id: 0, memory: vec![0; PAYLOAD + CONTENT] }
    }

    fn u32_at(&self, at: usize) -> u32 {
        self.memory[at..].first_chunk().map_or(0, |b| u32::from_ne_bytes(*b))
    }

    /// Takes over a request from the kernel.
    fn arrived(&mut self) {
        let id = self.memory[COMMIT_ID..].first_chunk();
        self.commit_id = id.map_or(0, |b| u64::from_ne_bytes(*b));
    }

    /// The request, and the space for its reply. There is none if the request has a payload, which
    /// occupies it. `None` if the request contradicts itself.
    pub(crate) fn request(&mut self) -> Option<(Request<'_>, Option<&mut [u8]>)> {
        let size = self.u32_at(PAYLOAD_SIZE) as usize;
        let (heads, rest) = self.memory.split_at_mut(PAYLOAD - HEADER);
        let head: &[u8; request::HEADER] = heads.first_chunk()?;
        let structure = &heads[STRUCTURE..ENT_IN_OUT];
        if size == 0 {
            return Some((Request::in_parts(head, structure, &[])?, Some(rest)));
        }
        let payload = rest.get(HEADER..)?.get(..size)?;
        Some((Request::in_parts(head, structure, payload)?, None))
    }

    /// The unique id of a request that contradicts itself.
    pub(crate) fn unique(&self) -> u64 {
        self.memory[8..].first_chunk().map_or(0, |b| u64::from_ne_bytes(*b))
    }

    /// Takes a complete reply of `len` bytes that was built in the space of [`Entry::request`].
    pub(crate) fn reply_in_place(&mut self, len: usize) {
        self.memory.copy_within(PAYLOAD - HEADER..PAYLOAD, 0);
        self.set_payload_size(len - HEADER);
    }

    /// Takes the complete reply `message`.
    pub(crate) fn reply(&mut self, message: &[u8]) {
        let (head, content) = message.split_at(HEADER);
        self.memory[..HEADER].copy_from_slice(head);
        self.memory[PAYLOAD..PAYLOAD + content.len()].copy_from_slice(content);
        self.set_payload_size(content.len());
    }

    fn set_payload_size(&mut self, size: usize) {
        self.memory[PAYLOAD_SIZE..PAYLOAD_SIZE + 4].copy_from_slice(&(size as u32).to_ne_bytes());
    }

    /// The kernel's argument of a command on this entry: `struct fuse_uring_cmd_req`.
    fn command(&self, fd: types::Fd, operation: u32) -> opcode::UringCmd80 {
        let mut command = [0; 80];
        command[8..16].copy_from_slice(&self.commit_id.to_ne_bytes());
        command[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        opcode::UringCmd80::new(fd, operation).cmd(command)
    }
}

/// Ends the wait of a ring's thread.
#[derive(Clone)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn wake(&self) {
        // It fails only if the counter is at its limit, and then the thread is awake.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// What ended a wait.
pub(crate) enum Event {
    /// A request arrived.
    Request(Entry),
    /// [`Waker::wake`] was called.
    Woken,
    /// The kernel returned an entry without a request, for good: the mount has ended, or the entry
    /// was refused.
    Returned(Errno),
}

/// A ring of io_uring, with entries for some of the kernel's queues.
pub(crate) struct Ring {
    uring: IoUring<Sqe>,
    /// Entries by their number. `None`: the server has it.
    entries: Vec<Option<Entry>>,
    device: Option<Arc<Device>>,
    waker: Waker,
    /// What the read of the waker's descriptor returns.
    woken: Box<[u8; 8]>,
}

impl Ring {
    /// A ring with so many entries for each of these queues. The thread that calls this must make
    /// the other calls, too.
    ///
    /// # Errors
    /// The kernel does not let this process use io_uring.
    pub(crate) fn new(queues: &[(u16, usize)]) -> io::Result<Ring> {
        let queue_of_each = queues.iter().flat_map(|(queue, n)| std::iter::repeat_n(*queue, *n));
        let entries: Vec<_> =
            queue_of_each.enumerate().map(|(i, queue)| Some(Entry::new(i, queue))).collect();
        let size = (entries.len() + 1).next_power_of_two();
        // The kernel's work for the ring runs when its thread waits. `setup_coop_taskrun`, which
        // runs it at any system call, takes 3 to 8 % longer for each request.
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(u32::try_from(size).map_err(io::Error::other)?)?;
        let waker = Waker(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?));
        Ok(Ring { uring, entries, device: None, waker, woken: Box::default() })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Whether the kernel has an entry.
    pub(crate) fn is_in_use(&self) -> bool {
        self.entries.iter().any(Option::is_some)
    }

    /// Passes all entries to the kernel, to receive the requests of the mount `device`. Requests
    /// that have arrived already are in `arrived`.
    ///
    /// # Errors
    /// The kernel refused an entry.
    pub(crate) fn register(
        &mut self,
        device: Arc<Device>,
        arrived: &mut Vec<Event>,
    ) -> io::Result<()> {
        let fd = types::Fd(device.as_fd().as_raw_fd());
        self.device = Some(device);
        let mut segments = Vec::with_capacity(self.entries.len());
        for entry in self.entries.iter_mut().flatten() {
            let (headers, payload) = entry.memory.split_at_mut(PAYLOAD);
            segments.push([
                libc::iovec { iov_base: headers.as_mut_ptr().cast(), iov_len: HEADERS },
                libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: CONTENT },
            ]);
        }
        let commands = self.entries.iter().flatten().zip(&segments).map(|(entry, segments)| {
            let address = std::ptr::from_ref(segments) as u64;
            let command = entry.command(fd, REGISTER).addr(Some(address)).build();
            with_len(command.user_data(entry.index as u64), segments.len() as u32)
        });
        let commands: Vec<Sqe> = commands.collect();
        for command in &commands {
            self.push(command)?;
        }
        self.wait_for_wake()?;
        // The kernel reads the segments during this call.
        while !self.uring.submission().is_empty() {
            unless_interrupted(self.uring.submit())?;
        }
        drop(segments);
        self.collect(arrived)?;
        match arrived.iter().find_map(|e| if let Event::Returned(e) = e { Some(*e) } else { None })
        {
            Some(refused) => Err(refused.into()),
            None => Ok(()),
        }
    }

    /// Passes a complete reply to the kernel with the next system call, and makes the entry
    /// available for another request.
    ///
    /// # Errors
    /// As [`Ring::wait`].
    pub(crate) fn commit(&mut self, entry: Entry) -> io::Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        let fd = types::Fd(device.as_fd().as_raw_fd());
        let command = entry.command(fd, COMMIT_AND_FETCH).build().user_data(entry.index as u64);
        let index = entry.index;
        self.entries[index] = Some(entry);
        self.push(&command)
    }

    /// Passes replies to the kernel now.
    ///
    /// # Errors
    /// As [`Ring::wait`].
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        unless_interrupted(self.uring.submit())
    }

    /// Passes replies to the kernel, waits for requests, and adds them to `events`.
    ///
    /// # Errors
    /// The system call failed: the process lacks memory, or may not use io_uring any more.
    pub(crate) fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        unless_interrupted(self.uring.submit_and_wait(1))?;
        self.collect(events)
    }

    fn collect(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let mut woken = false;
        for completion in self.uring.completion() {
            let done: cqueue::Entry = completion;
            if done.user_data() == WAKE {
                woken = true;
                continue;
            }
            let slot = self.entries.get_mut(done.user_data() as usize);
            let Some(mut entry) = slot.and_then(Option::take) else { continue };
            events.push(match done.result() {
                0.. => {
                    entry.arrived();
                    Event::Request(entry)
                }
                error => Event::Returned(Errno::from_raw_os_error(-error)),
            });
        }
        if woken {
            events.push(Event::Woken);
            self.wait_for_wake()?;
        }
        Ok(())
    }

    /// Begins the read that ends when the waker is used.
    fn wait_for_wake(&mut self) -> io::Result<()> {
        let fd = types::Fd(self.waker.0.as_raw_fd());
        let read = opcode::Read::new(fd, self.woken.as_mut_ptr(), 8).build().user_data(WAKE);
        self.push(&read.into())
    }

    #[allow(unsafe_code)]
    fn push(&mut self, command: &Sqe) -> io::Result<()> {
        if self.uring.submission().is_full() {
            self.submit()?;
        }
        // SAFETY: the command refers to memory of an entry, to `woken`, and to the segments of
        // `register`, which waits until the kernel has read them. Entries and `woken` have their
        // place on the heap until the kernel has returned them; see `drop`.
        let pushed = unsafe { self.uring.submission().push(command) };
        pushed.map_err(|_| io::Error::other("the ring is full"))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write a request into an entry that it has not returned.
        for entry in self.entries.drain(..).flatten() {
            std::mem::forget(entry.memory);
        }
        std::mem::forget(std::mem::take(&mut self.woken));
    }
}

/// An interrupted call succeeds: what it has not submitted stays in the queue for the next.
fn unless_interrupted(outcome: io::Result<usize>) -> io::Result<()> {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    match outcome {
        Err(e) if !matches!(e.kind(), Interrupted | ResourceBusy | WouldBlock) => Err(e),
        _ => Ok(()),
    }
}

/// Sets `len` of a command, for which the library has no function.
#[allow(unsafe_code)]
fn with_len(mut command: Sqe, len: u32) -> Sqe {
    /// The offset of `len` in `struct io_uring_sqe`.
    const LEN: usize = 24;
    const _: () = assert!(size_of::<Sqe>() == 128 && align_of::<Sqe>() >= 4);
    // SAFETY: the type is `struct io_uring_sqe` in C's layout, by the assertion with its 128 bytes.
    // The field is inside it, aligned, and any value of it is valid.
    unsafe { std::ptr::from_mut(&mut command).byte_add(LEN).cast::<u32>().write(len) };
    command
}

#[cfg(test)]
mod tests {
    use super::super::Reply;
    use super::*;

    /// An entry with a request of `len` bytes, of which `payload` are in the payload.
    fn entry(len: u32, payload: u32) -> Entry {
        let mut entry = Entry::new(3, 1);
        entry.memory[..4].copy_from_slice(&len.to_ne_bytes());
        entry.memory[8..16].copy_from_slice(&77u64.to_ne_bytes());
        entry.memory[STRUCTURE..ENT_IN_OUT].fill(5);
        entry.memory[PAYLOAD..PAYLOAD + 3].copy_from_slice(b"ab\0");
        entry.memory[PAYLOAD_SIZE..PAYLOAD_SIZE + 4].copy_from_slice(&payload.to_ne_bytes());
        entry
    }

    #[test]
    fn a_reply_is_built_where_the_kernel_reads_it() {
        // Without a payload, in place.
        let mut e = entry(40 + 8, 0);
        let (request, space) = e.request().unwrap();
        assert_eq!((request.unique, request.args().bytes(8).unwrap()), (77, &[5; 8][..]));
        let mut reply = Reply::new(space.unwrap());
        reply.bytes(b"content");
        let len = reply.finish(77, Ok(())).len();
        e.reply_in_place(len);
        let expect = |e: &Entry| {
            assert_eq!(e.memory[..4], 23u32.to_ne_bytes());
            assert_eq!(e.memory[8..16], 77u64.to_ne_bytes());
            assert_eq!(e.memory[PAYLOAD..PAYLOAD + 7], *b"content");
            assert_eq!(e.u32_at(PAYLOAD_SIZE), 7);
        };
        expect(&e);
        // With one, from another buffer.
        let mut e = entry(40 + 3, 3);
        let (request, space) = e.request().unwrap();
        assert_eq!(request.args().name(), Ok(&b"ab"[..]));
        assert!(space.is_none());
        let mut buffer = Reply::buffer();
        let mut reply = Reply::new(&mut buffer);
        reply.bytes(b"content");
        e.reply(reply.finish(77, Ok(())));
        expect(&e);
    }

    #[test]
    fn requests_that_contradict_themselves_are_none() {
        let most = CONTENT as u32;
        for (len, payload) in [
            (0, 0),
            (39, 0),
            (40 + 129, 0),
            (40, 1),
            (u32::MAX, 0),
            (u32::MAX, most),
            (40 + most, most + 1),
            (40 + most + 1, most + 1),
            (0, u32::MAX),
            (u32::MAX, u32::MAX),
        ] {
            assert!(entry(len, payload).request().is_none(), "{len} bytes, {payload} of payload");
            assert_eq!(entry(len, payload).unique(), 77);
        }
        assert!(entry(40 + most, most).request().is_some());
    }
}
