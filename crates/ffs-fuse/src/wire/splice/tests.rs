//! Replies and requests through pipes, which give and take what a device does, but for the limits
//! of a message.
#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;
use rustix::fd::AsFd;
use std::io::{Read, Seek, Write};

/// The header and the content arrive. A pipe takes what the device takes.
#[test]
fn a_reply_has_its_header_and_its_ranges_in_order() {
    let mut file = tempfile::tempfile().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i / 7) as u8).collect();
    file.write_all(&bytes).unwrap();
    let range = |offset, length| HostRange { file: file.as_fd(), offset, length };
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).unwrap();
    let mut pipe = SplicePipe::Closed;
    for unique in [77u64, 78] {
        let ranges = [range(100_001, 65_536), range(5, 20_000)];
        assert!(Splice::new(writer.as_fd(), &mut pipe, unique).send(&ranges));
        let mut got = vec![0; HEADER + 85_536];
        std::fs::File::from(reader.try_clone().unwrap()).read_exact(&mut got).unwrap();
        assert_eq!(got[..4], (got.len() as u32).to_ne_bytes());
        assert_eq!(got[4..8], [0; 4]);
        assert_eq!(got[8..16], unique.to_ne_bytes());
        assert!(got[16..].iter().eq(bytes[100_001..165_537].iter().chain(&bytes[5..20_005])));
    }
}

#[test]
fn a_range_past_the_end_or_too_large_is_left_to_the_copy() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[1; 8192]).unwrap();
    let range = |offset, length| HostRange { file: file.as_fd(), offset, length };
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut pipe = SplicePipe::Closed;
    assert!(!Splice::new(writer.as_fd(), &mut pipe, 1).send(&[range(4096, 100_000)]));
    // The pipe with a part of the reply is closed: the next reply does not begin with it.
    assert!(matches!(pipe, SplicePipe::Closed));
    assert!(Splice::new(writer.as_fd(), &mut pipe, 2).send(&[range(0, 100)]));
    let mut got = vec![0; HEADER + 100];
    std::fs::File::from(reader).read_exact(&mut got).unwrap();
    assert_eq!(got[8..16], 2u64.to_ne_bytes());
    let huge = [range(0, 1 << 30)];
    assert!(!Splice::new(writer.as_fd(), &mut pipe, 3).send(&huge));
    assert!(matches!(pipe, SplicePipe::Open(_)), "nothing was begun");
}

/// A pipe gives what a device gives, but for the limits of a message.
fn request(opcode: u32, content: &[u8]) -> Vec<u8> {
    let mut message = vec![0; WRITE_START];
    let length = (WRITE_START + content.len()) as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..8].copy_from_slice(&opcode.to_ne_bytes());
    message.extend(content);
    message
}

/// Sends `message` and receives it. Returns the bytes that were received into the buffer.
fn receive(pipe: &mut SplicePipe, message: &[u8]) -> Vec<u8> {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).unwrap();
    rustix::io::write(&writer, message).unwrap();
    let mut buf = vec![0xee; MAX_IO + 4096];
    let n = pipe.receive(reader.as_fd(), &mut buf).unwrap();
    buf.truncate(n);
    buf
}

#[test]
fn only_the_content_of_a_large_write_stays_in_the_pipe() {
    let mut pipe = SplicePipe::Closed;
    let content: Vec<u8> = (0..200_000u32).map(|i| (i / 3) as u8).collect();
    for (opcode, content) in
        [(op::LOOKUP, &content[..]), (op::WRITE, &content[..65_535]), (op::READ, &[])]
    {
        let message = request(opcode, content);
        assert!(receive(&mut pipe, &message) == message);
        assert_eq!(pipe.content(), 0);
    }
    let message = request(op::WRITE, &content);
    assert!(receive(&mut pipe, &message) == message[..WRITE_START]);
    assert_eq!(pipe.content(), content.len());
    let device = tempfile::tempfile().unwrap();
    let mut splice = Splice::new(device.as_fd(), &mut pipe, 1);
    let mut piped = splice.content().unwrap();
    let mut first = vec![0; 1000];
    piped.take(&mut first).unwrap();
    assert!(first == content[..1000]);
    let file = tempfile::tempfile().unwrap();
    let range = HostRange { file: file.as_fd(), offset: 4097, length: 150_000 };
    piped.put(range).unwrap();
    assert_eq!(piped.left(), 49_000);
    let mut rest = vec![0; 49_000];
    piped.take(&mut rest).unwrap();
    assert!(rest == content[151_000..]);
    let mut written = Vec::new();
    (&file).seek(std::io::SeekFrom::Start(4097)).unwrap();
    (&file).read_to_end(&mut written).unwrap();
    assert!(written == content[1000..151_000]);
    pipe.clear();
    assert!(matches!(pipe, SplicePipe::Open(_)), "an empty pipe is used again");
}

#[test]
fn content_that_is_not_written_stays() {
    let mut pipe = SplicePipe::Closed;
    let content: Vec<u8> = (0..100_000u32).map(|i| (i / 3) as u8).collect();
    receive(&mut pipe, &request(op::WRITE, &content));
    let device = tempfile::tempfile().unwrap();
    let mut splice = Splice::new(device.as_fd(), &mut pipe, 1);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let range = HostRange { file: full.as_fd(), offset: 0, length: 70_000 };
    let errno = |e: std::io::Error| e.raw_os_error();
    let mut piped = splice.content().unwrap();
    let error = piped.put(range).map_err(errno);
    assert_eq!((error, piped.left()), (Err(Some(libc::ENOSPC)), content.len()));
    // What was not written can still be taken, in any parts.
    let mut back = vec![0; content.len()];
    let (first, rest) = back.split_at_mut(50_001);
    piped.take(first).unwrap();
    piped.take(rest).unwrap();
    assert!(back == content && piped.left() == 0);
    pipe.clear();
    assert!(matches!(pipe, SplicePipe::Open(_)));
    // In parts: a second refusal keeps the order.
    receive(&mut pipe, &request(op::WRITE, &content));
    let mut splice = Splice::new(device.as_fd(), &mut pipe, 1);
    let mut piped = splice.content().unwrap();
    for length in [70_000, 10_000] {
        let range = HostRange { file: full.as_fd(), offset: 0, length };
        assert!(piped.put(range).is_err());
    }
    piped.take(&mut back).unwrap();
    assert!(back == content);
    // A call for more than the content does not wait.
    receive(&mut pipe, &request(op::WRITE, &[1; 100_000]));
    let mut splice = Splice::new(device.as_fd(), &mut pipe, 2);
    assert!(splice.content().unwrap().take(&mut vec![0; 100_001]).is_err());
    pipe.clear();
    receive(&mut pipe, &request(op::WRITE, &[1; 100_000]));
    pipe.clear();
    assert!(matches!(pipe, SplicePipe::Closed), "content that was not used is dropped");
}

/// A request that a pipe lost is known by its id, if that was read. Later ones are copied.
#[test]
fn a_worker_that_loses_its_pipe_copies() {
    let message = request(op::WRITE, &[5; 100_000]);
    let gives = |content: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        OwnedFd::from(file)
    };
    let cannot_read = || std::fs::File::options().write(true).open("/dev/null").unwrap();
    let mut with_id = message.clone();
    with_id[8..16].copy_from_slice(&77u64.to_ne_bytes());
    for (reader, id) in [
        (cannot_read().into(), None),
        (gives(&with_id[..15]), None),
        (gives(&with_id[..16]), Some(77)),
        (gives(&with_id[..WRITE_START - 1]), Some(77)),
    ] {
        // Its reader stays open: a pipe without one takes nothing.
        let whole = Ends::new().unwrap();
        let mut pipe = SplicePipe::Open(Ends { reader, ..whole });
        let (device, kernel) = rustix::pipe::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&kernel, 1 << 20).unwrap();
        rustix::io::write(&kernel, &message).unwrap();
        let mut buf = vec![0; MAX_IO + 4096];
        assert_eq!(pipe.receive(device.as_fd(), &mut buf), Err(ReceiveError::Lost(id)));
        assert!(matches!(pipe, SplicePipe::Unusable) && pipe.content() == 0);
        assert!(receive(&mut pipe, &message) == message);
    }
    // A transfer that fails before it took a request is made up for by a read.
    let whole = Ends::new().unwrap();
    let writer = std::fs::File::open("/dev/null").unwrap().into();
    let mut pipe = SplicePipe::Open(Ends { writer, ..whole });
    assert!(receive(&mut pipe, &message) == message);
    assert!(matches!(pipe, SplicePipe::Unusable));
}

/// The caller of a lost request does not wait for ever.
#[test]
fn the_caller_of_a_lost_request_gets_an_error() {
    use crate::wire::Device;
    use crate::wire::device::Received;
    use std::os::unix::net::UnixStream;
    let (device, mut kernel) = UnixStream::pair().unwrap();
    let device = Device::new(device.into());
    let mut message = request(op::LOOKUP, b"name\0");
    message[8..16].copy_from_slice(&78u64.to_ne_bytes());
    let mut reader = tempfile::tempfile().unwrap();
    reader.write_all(&message[..20]).unwrap();
    reader.rewind().unwrap();
    let whole = Ends::new().unwrap();
    let mut pipe = SplicePipe::Open(Ends { reader: reader.into(), ..whole });
    kernel.write_all(&message).unwrap();
    let mut buf = vec![0; MAX_IO + 4096];
    let received = device.receive_spliced(&mut buf, &mut pipe).unwrap();
    assert!(matches!(received, Received::Again));
    let mut reply = [0; HEADER];
    kernel.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..8], (-libc::EIO).to_ne_bytes());
    assert_eq!(reply[8..16], 78u64.to_ne_bytes());
    // Without an id there is no one to answer: the session ends, and with it all requests.
    let nothing = std::fs::File::open("/dev/null").unwrap().into();
    let mut pipe = SplicePipe::Open(Ends { reader: nothing, ..Ends::new().unwrap() });
    kernel.write_all(&message).unwrap();
    assert!(device.receive_spliced(&mut buf, &mut pipe).is_err());
}
