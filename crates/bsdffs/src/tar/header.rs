//! The 512-byte header of a member.

use std::ops::Range;

use crate::text::escape;

/// Bytes in a header; data is padded to this.
pub(crate) const BLOCK: usize = 512;

/// A header of ustar or of GNU tar.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    /// `typeflag`.
    pub kind: u8,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of data in the archive.
    pub size: u64,
    /// Modification time, seconds.
    pub mtime: i64,
    /// Target of a link.
    pub link: Vec<u8>,
    /// Major device number of a device.
    pub devmajor: u32,
    /// Minor device number of a device.
    pub devminor: u32,
    /// The block, for the fields that only one of the two has.
    pub block: [u8; BLOCK],
}

impl Header {
    /// Whether the block is a header: it has the right checksum.
    pub(crate) fn is_header(block: &[u8; BLOCK]) -> bool {
        let sum = |signed: bool| -> i64 {
            let byte = |(at, &byte): (usize, &u8)| match (at, signed) {
                (148..156, _) => i64::from(b' '),
                (_, true) => i64::from(byte as i8),
                (_, false) => i64::from(byte),
            };
            block.iter().enumerate().map(byte).sum()
        };
        let stored = number(block, 148..156).unwrap_or(-1);
        stored == sum(false) || stored == sum(true)
    }

    /// Parses a header.
    ///
    /// # Errors
    /// The block is not a valid header: why.
    pub(crate) fn parse(block: &[u8; BLOCK]) -> Result<Header, String> {
        if !Header::is_header(block) {
            return Err("a header's checksum is wrong: the archive is damaged".to_owned());
        }
        let field = |name: &str, range: Range<usize>| {
            number(block, range).ok_or_else(|| format!("a header's {name} is not a number"))
        };
        let unsigned = |name: &str, range| {
            let value = field(name, range)?;
            u64::try_from(value).map_err(|_| format!("a header's {name} is negative"))
        };
        let small = |name: &str, range| {
            let value = field(name, range)?;
            u32::try_from(value).map_err(|_| {
                let member = escape(member_path(block));
                format!(
                    "{member}: the {name} {value} is out of range (0 to {}): create the archive \
                     again, for example with --owner or --group of tar",
                    u32::MAX
                )
            })
        };
        let kind = block[156];
        // Other files may have any value here.
        let device = |range| match kind {
            b'3' | b'4' => small("device number", range),
            _ => Ok(0),
        };
        Ok(Header {
            kind,
            mode: (field("mode", 100..108)? & 0o7777) as u16,
            uid: small("owner", 108..116)?,
            gid: small("group", 116..124)?,
            size: unsigned("size", 124..136)?,
            mtime: field("time", 136..148)?,
            link: text(block, 157..257),
            devmajor: device(329..337)?,
            devminor: device(337..345)?,
            block: *block,
        })
    }

    /// The name of the member.
    pub(crate) fn path(&self) -> Vec<u8> {
        member_path(&self.block)
    }
}

/// The name of the member whose header `block` is.
fn member_path(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = text(block, 0..100);
    // Only a POSIX header has a prefix.
    let posix = block[257..263] == *b"ustar\0";
    let prefix = if posix { text(block, 345..500) } else { Vec::new() };
    if prefix.is_empty() {
        return name;
    }
    [&prefix[..], b"/", &name].concat()
}

/// A text field, up to its NUL.
fn text(block: &[u8], range: Range<usize>) -> Vec<u8> {
    let field = &block[range];
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    field[..end].to_vec()
}

/// A number field: octal digits, or binary with the top bit set.
pub(crate) fn number(block: &[u8], range: Range<usize>) -> Option<i64> {
    let field = &block[range];
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // The next bit is the sign.
        let start = if first & 0x40 != 0 { first as i8 } else { (first & 0x7f) as i8 };
        let add = |value: i64, &byte: &u8| value.checked_mul(256)?.checked_add(i64::from(byte));
        return rest.iter().try_fold(i64::from(start), add);
    }
    let digits = field.iter().copied().skip_while(|&byte| byte == b' ');
    let mut value: i64 = 0;
    for byte in digits.take_while(|&byte| byte != b' ' && byte != 0) {
        let digit = i64::from(byte.checked_sub(b'0').filter(|&digit| digit < 8)?);
        value = value.checked_mul(8)?.checked_add(digit)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        let read = |field: &[u8]| number(field, 0..field.len());
        assert_eq!(read(b"0000644\0"), Some(0o644));
        assert_eq!(read(b"   644 \0"), Some(0o644));
        assert_eq!(read(b"\0\0\0\0"), Some(0));
        assert_eq!(read(b"00008\0"), None);
        assert_eq!(read(b"\x80\0\0\0\0\0\x01\0"), Some(256));
        assert_eq!(read(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"), Some(-2));
        assert_eq!(read(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }
}
