//! A request from the kernel.

use super::Errno;

const HEADER: usize = 40;
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
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a request. `None` if it is shorter than its header or than its length field.
    pub(crate) fn parse(b: &'a [u8]) -> Option<Request<'a>> {
        let mut a = Args { rest: b };
        let len = a.u32().ok()? as usize;
        let opcode = a.u32().ok()?;
        let unique = a.u64().ok()?;
        let node = a.u64().ok()?;
        let (uid, gid, pid) = (a.u32().ok()?, a.u32().ok()?, a.u32().ok()?);
        let body = b.get(HEADER..len)?;
        Some(Request { opcode, unique, node, uid, gid, pid, body })
    }

    /// The arguments, to be read in the protocol's order.
    pub(crate) fn args(&self) -> Args<'a> {
        Args { rest: self.body }
    }
}

/// The arguments of a request, read from the front.
pub(crate) struct Args<'a> {
    rest: &'a [u8],
}

impl<'a> Args<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or(Errno::IO)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Errno> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Errno> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    /// The size of a READ in bytes.
    pub(crate) fn read_size(mut self) -> Result<usize, Errno> {
        self.skip(16)?;
        Ok(self.u32()? as usize)
    }

    /// Skips `n` bytes.
    pub(crate) fn skip(&mut self, n: usize) -> Result<(), Errno> {
        self.bytes(n).map(drop)
    }

    /// The next `n` bytes.
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], Errno> {
        let (first, rest) = self.rest.split_at_checked(n).ok_or(Errno::IO)?;
        self.rest = rest;
        Ok(first)
    }

    /// The next NUL-terminated string.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.rest.iter().position(|&b| b == 0).ok_or(Errno::IO)?;
        let s = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
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
}
