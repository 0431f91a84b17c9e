//! A request from the kernel.
//!
//! **Invariants.** No length in a request is trusted: a request that contradicts itself is refused,
//! and arguments that are missing fail with `EIO`.

use super::Errno;

/// Bytes of `fuse_in_header`.
pub(super) const HEADER: usize = 40;
/// Bytes of a WRITE before its content: the header and `fuse_write_in`.
pub(super) const WRITE_START: usize = HEADER + 40;
/// UFS names have at most 255 bytes. The kernel passes up to 1024.
const NAME_MAX: usize = 255;

/// A request: opcode, node, caller and arguments.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) opcode: u32,
    /// The id that pairs the reply with the request.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// 0 for a request of the kernel itself.
    pub(crate) pid: u32,
    body: [&'a [u8]; 2],
}

impl<'a> Request<'a> {
    /// Parses a request. `None` if it is shorter than its header or than its length field.
    pub(crate) fn parse(b: &'a [u8]) -> Option<Request<'a>> {
        Request::parse_start(b, 0)
    }

    /// Parses the start of a request, of which `elsewhere` bytes of content are not in `b`.
    pub(crate) fn parse_start(b: &'a [u8], elsewhere: usize) -> Option<Request<'a>> {
        let (head, _) = b.split_first_chunk()?;
        let (len, request) = Request::of(head)?;
        Some(Request { body: [b.get(HEADER..len.checked_sub(elsewhere)?)?, &[]], ..request })
    }

    /// Parses a request in three parts: its header, the structure that the opcode has at the start
    /// of its arguments, and the other arguments. `structure` may have bytes after the structure.
    /// `None` if the parts are shorter than the length field.
    pub(crate) fn in_parts(
        head: &'a [u8; HEADER],
        structure: &'a [u8],
        payload: &'a [u8],
    ) -> Option<Request<'a>> {
        let (len, request) = Request::of(head)?;
        let structure = structure.get(..len.checked_sub(HEADER + payload.len())?)?;
        Some(Request { body: [structure, payload], ..request })
    }

    /// The request of a header without arguments, and its length field.
    fn of(head: &'a [u8; HEADER]) -> Option<(usize, Request<'a>)> {
        let mut a = Args { rest: head, after: &[] };
        let len = a.u32().ok()? as usize;
        let opcode = a.u32().ok()?;
        let unique = a.u64().ok()?;
        let node = a.u64().ok()?;
        let (uid, gid, pid) = (a.u32().ok()?, a.u32().ok()?, a.u32().ok()?);
        Some((len, Request { opcode, unique, node, uid, gid, pid, body: [&[], &[]] }))
    }

    /// The arguments, to be read in the protocol's order.
    pub(crate) fn args(&self) -> Args<'a> {
        let [rest, after] = self.body;
        Args { rest, after }
    }
}

/// The arguments of a request, read from the front. They are in two pieces, of which one may be
/// empty; no argument is in both.
pub(crate) struct Args<'a> {
    rest: &'a [u8],
    after: &'a [u8],
}

impl<'a> Args<'a> {
    /// What is left of the piece that the next argument is in.
    fn piece(&mut self) -> &mut &'a [u8] {
        if self.rest.is_empty() {
            self.rest = std::mem::take(&mut self.after);
        }
        &mut self.rest
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let piece = self.piece();
        let (first, rest) = piece.split_first_chunk::<N>().ok_or(Errno::IO)?;
        *piece = rest;
        Ok(*first)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Errno> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Errno> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    /// The size of a READ or a WRITE in bytes.
    pub(crate) fn io_size(mut self) -> Result<usize, Errno> {
        self.skip(16)?;
        Ok(self.u32()? as usize)
    }

    /// Skips `n` bytes.
    pub(crate) fn skip(&mut self, n: usize) -> Result<(), Errno> {
        self.bytes(n).map(drop)
    }

    /// The next `n` bytes.
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], Errno> {
        let piece = self.piece();
        let (first, rest) = piece.split_at_checked(n).ok_or(Errno::IO)?;
        *piece = rest;
        Ok(first)
    }

    /// The next NUL-terminated string.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Errno> {
        let piece = self.piece();
        let end = piece.iter().position(|&b| b == 0).ok_or(Errno::IO)?;
        let s = &piece[..end];
        *piece = &piece[end + 1..];
        Ok(s)
    }

    /// The next string, the name of a directory entry.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], Errno> {
        let name = self.string()?;
        if name.len() > NAME_MAX { Err(Errno::NAMETOOLONG) } else { Ok(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(len: u32) -> Vec<u8> {
        let mut b = Vec::new();
        b.extend(len.to_ne_bytes());
        b.extend(7u32.to_ne_bytes());
        b.extend(9u64.to_ne_bytes());
        b.extend(11u64.to_ne_bytes());
        for v in [1u32, 2, 3, 0] {
            b.extend(v.to_ne_bytes());
        }
        b
    }

    #[test]
    fn requests_are_taken_apart_and_short_ones_refused() {
        let mut b = header(46);
        b.extend(b"abc\0x\0");
        let r = Request::parse(&b).unwrap();
        assert_eq!((r.opcode, r.unique, r.node), (7, 9, 11));
        assert_eq!((r.uid, r.gid, r.pid), (1, 2, 3));
        let mut a = r.args();
        assert_eq!(a.name().unwrap(), b"abc");
        assert_eq!(a.string().unwrap(), b"x");
        assert_eq!(a.u32(), Err(Errno::IO));
        for n in 0..46 {
            assert!(Request::parse(&b[..n]).is_none(), "{n} bytes");
        }
        assert!(Request::parse(&header(39)).is_none());
    }

    #[test]
    fn names_have_at_most_255_bytes_and_an_end() {
        let mut b = header(40 + 257);
        b.extend([b'n'; 256]);
        b.push(0);
        let r = Request::parse(&b).unwrap();
        assert_eq!(r.args().name(), Err(Errno::NAMETOOLONG));
        let mut a = r.args();
        a.skip(1).unwrap();
        assert_eq!(a.name().unwrap().len(), 255);
        let last = b.len() - 1;
        b[last] = b'n';
        assert_eq!(Request::parse(&b).unwrap().args().name(), Err(Errno::IO));
    }

    fn parts<'a>(head: &'a [u8], structure: &'a [u8], payload: &'a [u8]) -> Option<Request<'a>> {
        Request::in_parts(head.first_chunk().unwrap(), structure, payload)
    }

    #[test]
    fn arguments_in_two_pieces_are_read_as_in_one() {
        // RENAME2: a structure of 16 bytes, of which the buffer has more, then two names.
        let structure: Vec<u8> = (0..128).collect();
        let b = header(40 + 16 + 6);
        let r = parts(&b, &structure, b"old\0n\0").unwrap();
        assert_eq!((r.opcode, r.unique, r.node), (7, 9, 11));
        let mut a = r.args();
        assert_eq!(a.bytes(8).unwrap(), &structure[..8]);
        assert_eq!(a.u64().unwrap().to_ne_bytes(), structure[8..16]);
        assert_eq!((a.name(), a.string()), (Ok(&b"old"[..]), Ok(&b"n"[..])));
        assert_eq!(a.bytes(1), Err(Errno::IO));
        // LOOKUP has no structure, GETATTR nothing else.
        let b = header(40 + 3);
        let names = parts(&b, &[1; 128], b"ab\0").unwrap();
        assert_eq!(names.args().name(), Ok(&b"ab"[..]));
        let b = header(40 + 16);
        let mut a = parts(&b, &structure, &[]).unwrap().args();
        assert_eq!((a.skip(16), a.skip(0), a.u32()), (Ok(()), Ok(()), Err(Errno::IO)));
    }

    #[test]
    fn pieces_that_contradict_the_length_are_refused() {
        let structure = [7; 128];
        for (len, payload, fits) in [
            (0, 0, false),
            (39, 0, false),
            (40, 0, true),
            (40, 1, false),
            (40 + 128, 0, true),
            (40 + 129, 0, false),
            (40 + 129, 1, true),
            (40 + 5, 6, false),
            (u32::MAX, 9, false),
        ] {
            let (b, payload) = (header(len), vec![b'n'; payload]);
            let request = parts(&b, &structure, &payload);
            assert_eq!(request.is_some(), fits, "{len} bytes, {} of payload", payload.len());
            if let Some(r) = request {
                // No argument may be partly in each piece, and each call ends.
                let mut a = r.args();
                assert_eq!(a.name(), Err(Errno::IO));
                assert_eq!(a.bytes(usize::MAX), Err(Errno::IO));
                while a.bytes(3).is_ok() {}
            }
        }
        let b = header(40 + 12 + 8);
        let mut a = parts(&b, &structure, &[1; 8]).unwrap().args();
        assert_eq!((a.u64().is_ok(), a.u64()), (true, Err(Errno::IO)), "4 bytes of each piece");
    }
}
