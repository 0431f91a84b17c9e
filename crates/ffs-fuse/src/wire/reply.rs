//! A reply under construction.

use super::splice::Splice;
use super::{Errno, HEADER, MAX_IO};
use crate::options::Timeouts;
use std::time::Duration;

/// Bytes of content of the largest reply: a full read, or a listing and one more entry.
pub(super) const CONTENT: usize = MAX_IO + 4096;

/// Attributes in Linux's format.
#[derive(Clone, Copy, Default)]
pub(crate) struct WireAttr {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    /// Access, modification, change: seconds and nanoseconds.
    pub(crate) times: [(i64, u32); 3],
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// In the kernel's 32-bit encoding.
    pub(crate) rdev: u32,
    pub(crate) blksize: u32,
}

/// The node of a name.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) node: u64,
    pub(crate) generation: u64,
    pub(crate) attr: WireAttr,
}

/// A reply in a buffer: a header, filled in last, and the content after it.
pub(crate) struct Reply<'b> {
    buf: &'b mut [u8],
    len: usize,
    /// Nodes whose references the reply passes to the kernel.
    pub(crate) handed_out: HandedOut,
    /// A node whose attributes in the kernel's cache are out of date.
    pub(crate) stale: Option<u64>,
    /// A file that the server made longer, and its last byte.
    pub(crate) longer: Option<LastByte>,
    /// Content that the kernel's page cache may have in another version.
    pub(crate) stale_pages: Option<Pages>,
    /// Directories of which the kernel's cache may have another listing.
    pub(crate) stale_listings: Vec<u64>,
    /// Moves a large content without a copy, if the transport supports it.
    splice: Option<Splice<'b>>,
    /// Bytes of content that were sent already, by splice(2).
    sent: Option<usize>,
}

/// A range of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pages {
    pub(crate) node: u64,
    /// The offset of the first byte.
    pub(crate) offset: u64,
    /// The length in bytes, more than 0.
    pub(crate) len: u64,
}

/// The last byte of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastByte {
    pub(crate) node: u64,
    /// Bytes before it.
    pub(crate) offset: u64,
    pub(crate) byte: u8,
}

impl Pages {
    /// Adds a range of the same file, and what is between them.
    pub(crate) fn extend(&mut self, other: &Pages) {
        debug_assert_eq!(self.node, other.node);
        let end = |pages: &Pages| pages.offset.saturating_add(pages.len);
        let last = end(self).max(end(other));
        self.offset = self.offset.min(other.offset);
        self.len = last - self.offset;
    }
}

/// The references in a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandedOut {
    /// None.
    Nothing,
    /// One, to this node.
    Node(u64),
    /// Those in the records of a listing.
    Listing,
}

impl<'b> Reply<'b> {
    /// Bytes of an entry in a reply.
    pub(crate) const ENTRY: usize = 128;

    /// A buffer for replies.
    pub(crate) fn buffer() -> Vec<u8> {
        vec![0; HEADER + CONTENT]
    }

    /// An empty reply in `buf`, which is as long as [`Reply::buffer`].
    pub(crate) fn new(buf: &'b mut [u8]) -> Reply<'b> {
        Reply {
            buf,
            len: HEADER,
            handed_out: HandedOut::Nothing,
            stale: None,
            longer: None,
            stale_pages: None,
            stale_listings: Vec::new(),
            splice: None,
            sent: None,
        }
    }

    /// The reply to a request whose content `splice` may move.
    pub(crate) fn with_splice(self, splice: Option<Splice<'b>>) -> Reply<'b> {
        Reply { splice, ..self }
    }

    /// What can move a large content without a copy.
    pub(crate) fn splice(&mut self) -> Option<&mut Splice<'b>> {
        self.splice.as_mut()
    }

    /// Notes that [`Reply::splice`] has sent `n` bytes of content.
    pub(crate) fn set_sent(&mut self, n: usize) {
        self.sent = Some(n);
    }

    /// Whether the reply was sent already.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// Begins a new reply.
    pub(crate) fn start(&mut self) {
        self.len = HEADER;
        self.handed_out = HandedOut::Nothing;
        self.stale = None;
        self.longer = None;
        self.stale_pages = None;
        self.stale_listings.clear();
        self.sent = None;
    }

    /// The notification that removes the attributes of `node` from the kernel's cache. Sending it
    /// does not wait.
    pub(crate) fn stale_attributes(node: u64) -> [u8; HEADER + 24] {
        // A negative offset: the content stays.
        inval_inode(node, -1, 0)
    }

    /// The notification that removes `pages` and the attributes from the kernel's cache. Sending it
    /// waits for reads and writes of those pages, so the sender must not serve any of them.
    pub(crate) fn stale_content(pages: Pages) -> [u8; HEADER + 24] {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        inval_inode(pages.node, signed(pages.offset), signed(pages.len))
    }

    /// The notification that stores the last byte of a file in the kernel's cache, which makes the
    /// file longer there. With write-back caching the kernel ignores the size that the server
    /// reports for a file that it has in memory.
    pub(crate) fn last_byte(last: LastByte) -> [u8; HEADER + 25] {
        const STORE: i32 = 4;
        let mut message = [0; HEADER + 25];
        message[..4].copy_from_slice(&(HEADER as u32 + 25).to_ne_bytes());
        message[4..8].copy_from_slice(&STORE.to_ne_bytes());
        message[16..24].copy_from_slice(&last.node.to_ne_bytes());
        message[24..32].copy_from_slice(&last.offset.to_ne_bytes());
        message[32..36].copy_from_slice(&1u32.to_ne_bytes());
        message[40] = last.byte;
        message
    }

    /// The notification that removes the listing of the directory `node` and its attributes from
    /// the kernel's cache. The kernel holds those pages for moments only, during no request.
    pub(crate) fn stale_listing(node: u64) -> [u8; HEADER + 24] {
        inval_inode(node, 0, 0)
    }

    /// The notification that removes `name` in the directory `parent` from the kernel's cache.
    pub(crate) fn stale_name(parent: u64, name: &[u8]) -> Vec<u8> {
        const INVAL_ENTRY: i32 = 3;
        let len = u32::try_from(name.len()).unwrap_or(0);
        let mut message = Vec::with_capacity(HEADER + 17 + name.len());
        message.extend((HEADER as u32 + 17 + len).to_ne_bytes());
        message.extend(INVAL_ENTRY.to_ne_bytes());
        message.extend(0u64.to_ne_bytes());
        message.extend(parent.to_ne_bytes());
        message.extend(len.to_ne_bytes());
        // Flags: the name is forgotten, not deleted.
        message.extend(0u32.to_ne_bytes());
        message.extend(name);
        message.push(0);
        message
    }

    /// Bytes of content so far.
    pub(crate) fn len(&self) -> usize {
        self.sent.unwrap_or(self.len - HEADER)
    }

    /// Truncates the content to `n` bytes.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.len = self.len.min(HEADER + n);
    }

    /// The complete reply to request `unique`.
    pub(crate) fn finish(&mut self, unique: u64, outcome: Result<(), Errno>) -> &[u8] {
        let error = match outcome {
            Ok(()) => 0,
            Err(Errno(e)) => {
                self.len = HEADER;
                -e
            }
        };
        let len = self.len as u32;
        self.buf[..4].copy_from_slice(&len.to_ne_bytes());
        self.buf[4..8].copy_from_slice(&error.to_ne_bytes());
        self.buf[8..16].copy_from_slice(&unique.to_ne_bytes());
        &self.buf[..self.len]
    }

    /// The reply that [`Reply::finish`] has completed.
    pub(crate) fn message(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    pub(crate) fn bytes(&mut self, b: &[u8]) {
        self.buf[self.len..self.len + b.len()].copy_from_slice(b);
        self.len += b.len();
    }

    pub(crate) fn u16(&mut self, v: u16) {
        self.bytes(&v.to_ne_bytes());
    }

    pub(crate) fn u32(&mut self, v: u32) {
        self.bytes(&v.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.bytes(&v.to_ne_bytes());
    }

    pub(crate) fn zeros(&mut self, n: usize) {
        self.buf[self.len..self.len + n].fill(0);
        self.len += n;
    }

    /// Adds `n` bytes with unspecified content, which the caller fills.
    pub(crate) fn space(&mut self, n: usize) -> &mut [u8] {
        let at = self.len;
        self.len += n;
        &mut self.buf[at..at + n]
    }

    /// The content so far.
    #[cfg(test)]
    pub(crate) fn body(&self) -> &[u8] {
        &self.buf[HEADER..self.len]
    }

    fn duration(&mut self, d: Duration) {
        self.u64(d.as_secs());
        self.u32(d.subsec_nanos());
    }

    fn attr_body(&mut self, a: &WireAttr) {
        self.u64(a.ino);
        self.u64(a.size);
        self.u64(a.blocks);
        for (secs, _) in a.times {
            self.u64(secs as u64);
        }
        for (_, nsec) in a.times {
            self.u32(nsec);
        }
        for v in [a.mode, a.nlink, a.uid, a.gid, a.rdev, a.blksize, 0] {
            self.u32(v);
        }
    }

    /// `fuse_attr_out`.
    pub(crate) fn attr(&mut self, a: &WireAttr, t: &Timeouts) {
        self.duration(t.attr);
        self.u32(0);
        self.attr_body(a);
    }

    /// `fuse_entry_out`.
    pub(crate) fn entry(&mut self, e: &Entry, t: &Timeouts) {
        self.u64(e.node);
        self.u64(e.generation);
        self.u64(t.entry.as_secs());
        self.u64(t.attr.as_secs());
        self.u32(t.entry.subsec_nanos());
        self.u32(t.attr.subsec_nanos());
        self.attr_body(&e.attr);
    }

    /// `fuse_entry_out` for a name that does not exist, which the kernel may cache.
    pub(crate) fn no_entry(&mut self, t: &Timeouts) {
        self.u64(0);
        self.u64(0);
        self.u64(t.negative.as_secs());
        self.u64(0);
        self.u32(t.negative.subsec_nanos());
        self.zeros(Reply::ENTRY - 36);
    }

    /// `fuse_open_out`.
    pub(crate) fn open(&mut self, flags: u32) {
        self.u64(0);
        self.u32(flags);
        self.u32(0);
    }

    /// Adds an entry of a directory; with `plus`, also space for its node, which
    /// [`Reply::fill_plus`] fills. Returns `false` if it does not fit into `limit` bytes.
    pub(crate) fn dirent(&mut self, d: &Dirent<'_>, plus: bool, limit: usize) -> bool {
        let head = if plus { Reply::ENTRY } else { 0 };
        let size = (head + 24 + d.name.len()).next_multiple_of(8);
        if self.len() + size > limit {
            return false;
        }
        let end = self.len + size;
        self.zeros(head);
        self.u64(d.ino);
        self.u64(d.next);
        self.u32(d.name.len() as u32);
        self.u32(d.kind);
        self.bytes(d.name);
        self.zeros(end - self.len);
        true
    }

    /// The record at `at` of a listing made with `plus`: inode number, name, offset of the next
    /// record.
    pub(crate) fn plus_record(&self, at: usize) -> Option<(u64, &[u8], usize)> {
        let b = self.buf.get(HEADER + at..self.len)?;
        let head = b.get(Reply::ENTRY..Reply::ENTRY + 24)?;
        let ino = u64::from_ne_bytes(*head.first_chunk()?);
        let len = u32::from_ne_bytes(*head.get(16..)?.first_chunk()?) as usize;
        let name = b.get(Reply::ENTRY + 24..Reply::ENTRY + 24 + len)?;
        Some((ino, name, at + (Reply::ENTRY + 24 + len).next_multiple_of(8)))
    }

    /// The node in the record at `at`; 0 if none was filled in.
    pub(crate) fn plus_node(&self, at: usize) -> u64 {
        let field = self.buf.get(HEADER + at..).and_then(|b| b.first_chunk());
        field.map_or(0, |b| u64::from_ne_bytes(*b))
    }

    /// Fills in the node of the record at `at`.
    pub(crate) fn fill_plus(&mut self, at: usize, e: &Entry, t: &Timeouts) {
        let end = std::mem::replace(&mut self.len, HEADER + at);
        self.entry(e, t);
        self.len = end;
    }
}

/// `FUSE_NOTIFY_INVAL_INODE`.
fn inval_inode(node: u64, offset: i64, len: i64) -> [u8; HEADER + 24] {
    const INVAL_INODE: i32 = 2;
    let mut message = [0; HEADER + 24];
    message[..4].copy_from_slice(&(HEADER as u32 + 24).to_ne_bytes());
    message[4..8].copy_from_slice(&INVAL_INODE.to_ne_bytes());
    message[16..24].copy_from_slice(&node.to_ne_bytes());
    message[24..32].copy_from_slice(&offset.to_ne_bytes());
    message[32..40].copy_from_slice(&len.to_ne_bytes());
    message
}

/// A directory entry of a listing.
pub(crate) struct Dirent<'a> {
    pub(crate) ino: u64,
    /// The position of the next entry.
    pub(crate) next: u64,
    /// `DT_*`.
    pub(crate) kind: u32,
    pub(crate) name: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Timeouts = Timeouts {
        entry: Duration::from_millis(1500),
        negative: Duration::from_secs(3),
        attr: Duration::from_secs(4),
    };

    #[test]
    fn sizes_are_the_protocols() {
        let mut buf = Reply::buffer();
        let mut r = Reply::new(&mut buf);
        let e = Entry { node: 5, generation: 6, attr: WireAttr::default() };
        r.entry(&e, &T);
        assert_eq!(r.len(), Reply::ENTRY);
        r.start();
        r.no_entry(&T);
        assert_eq!(r.len(), Reply::ENTRY);
        r.start();
        r.attr(&e.attr, &T);
        assert_eq!(r.len(), 104);
        assert_eq!(r.finish(7, Ok(()))[..4], 120u32.to_ne_bytes());
        assert_eq!(r.finish(7, Err(Errno::IO))[4..8], (-5i32).to_ne_bytes());
    }

    #[test]
    fn listings_keep_within_their_limit() {
        let mut buf = Reply::buffer();
        let mut r = Reply::new(&mut buf);
        let d = |name: &'static [u8]| Dirent { ino: 3, next: 9, kind: 8, name };
        assert!(r.dirent(&d(b"12345678"), true, 160));
        assert_eq!(r.len(), 160);
        assert!(!r.dirent(&d(b"x"), true, 160 + 159));
        assert!(r.dirent(&d(b"x"), true, 160 + 160));
        let e = Entry { node: 77, generation: 1, attr: WireAttr::default() };
        r.fill_plus(160, &e, &T);
        assert_eq!(r.len(), 320);
        assert_eq!(r.plus_record(0).unwrap(), (3, &b"12345678"[..], 160));
        assert_eq!(r.plus_record(160).unwrap(), (3, &b"x"[..], 320));
        assert!(r.plus_record(320).is_none());
        assert_eq!(r.body()[160], 77);
    }
}
