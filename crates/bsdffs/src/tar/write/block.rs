//! The 512-byte header of a member to write, in the form of ustar.
//!
//! **Invariant.** A value that a field cannot hold is 0 or shortened in the field, and
//! [`Fields::overflow`] adds it to the extended header.

use ffs_core::{DeviceNumber, Timespec};

use super::super::header::BLOCK;
use super::records::Records;

/// Largest numbers of fields with 7 and with 11 octal digits.
const MAX_7: u64 = 0o777_7777;
const MAX_11: u64 = 0o777_7777_7777;
/// Bytes of the fields for names.
const NAME: usize = 100;
const PREFIX: usize = 155;

/// The fields of a header.
pub(super) struct Fields<'a> {
    /// `typeflag`.
    pub kind: u8,
    /// Name of the member.
    pub name: &'a [u8],
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of data in the archive.
    pub size: u64,
    /// Modification time.
    pub mtime: Timespec,
    /// Target of a link.
    pub link: &'a [u8],
    /// Number of a device.
    pub device: DeviceNumber,
}

impl Fields<'_> {
    /// Adds the values that the header cannot hold to `records`.
    pub(super) fn overflow(&self, records: &mut Records) {
        let long_name = split(self.name).is_none();
        let long_link = self.link.len() > NAME;
        let binary = |name: &[u8]| std::str::from_utf8(name).is_err();
        if long_name && binary(self.name) || long_link && binary(self.link) {
            // Names in an extended header are UTF-8 without this.
            records.add(b"hdrcharset", b"BINARY");
        }
        if long_name {
            records.add(b"path", self.name);
        }
        if long_link {
            records.add(b"linkpath", self.link);
        }
        let numbers = [
            ("size", self.size, MAX_11),
            ("uid", self.uid.into(), MAX_7),
            ("gid", self.gid.into(), MAX_7),
            ("SCHILY.devmajor", self.device.major.into(), MAX_7),
            ("SCHILY.devminor", self.device.minor.into(), MAX_7),
        ];
        for (key, value, _) in numbers.into_iter().filter(|(_, value, max)| value > max) {
            records.number(key, value);
        }
        if self.mtime.nsec != 0 || self.seconds() != self.mtime.secs {
            records.time("mtime", self.mtime);
        }
    }

    /// The modification time that the header holds.
    fn seconds(&self) -> i64 {
        self.mtime.secs.clamp(0, MAX_11 as i64)
    }

    /// The header.
    pub(super) fn block(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let (prefix, name) = split(self.name).unwrap_or((b"", self.name));
        text(&mut block[..NAME], name);
        octal(&mut block[100..108], self.mode.into());
        octal(&mut block[108..116], self.uid.into());
        octal(&mut block[116..124], self.gid.into());
        octal(&mut block[124..136], self.size);
        octal(&mut block[136..148], self.seconds() as u64);
        block[156] = self.kind;
        text(&mut block[157..257], self.link);
        block[257..265].copy_from_slice(b"ustar\x0000");
        octal(&mut block[329..337], self.device.major.into());
        octal(&mut block[337..345], self.device.minor.into());
        text(&mut block[345..500], prefix);
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        octal(&mut block[148..155], sum);
        block
    }
}

/// Whether a header can hold the name.
pub(super) fn fits(name: &[u8]) -> bool {
    split(name).is_some()
}

/// Divides a name into the fields `prefix` and `name`; `None` if it is too long for them.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if name.len() <= NAME {
        return Some((b"", name));
    }
    // A slash at the end belongs to the last component.
    let first = name.len() - NAME - 1;
    let slash = (first.max(1)..name.len() - 1).find(|&at| name[at] == b'/')?;
    (slash <= PREFIX).then(|| (&name[..slash], &name[slash + 1..]))
}

/// Writes the beginning of `value` that fits.
fn text(field: &mut [u8], value: &[u8]) {
    let len = value.len().min(field.len());
    field[..len].copy_from_slice(&value[..len]);
}

/// Writes octal digits with a NUL at the end; 0 if the number does not fit.
fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let mut rest = if value >> (3 * digits) == 0 { value } else { 0 };
    for digit in field[..digits].iter_mut().rev() {
        *digit = b'0' + (rest & 7) as u8;
        rest >>= 3;
    }
    field[digits] = 0;
}

#[cfg(test)]
mod tests {
    use super::super::super::header::Header;
    use super::*;

    fn fields(name: &[u8]) -> Fields<'_> {
        Fields {
            kind: b'0',
            name,
            mode: 0o4755,
            uid: 7,
            gid: 8,
            size: 9,
            mtime: Timespec { secs: 10, nsec: 0 },
            link: b"",
            device: DeviceNumber { major: 0, minor: 0 },
        }
    }

    #[test]
    fn headers_are_read_back() {
        let long = [&[b'd'; 150][..], b"/", &[b'f'; 100]].concat();
        for name in [&b"./a"[..], &[b'x'; 100], &long] {
            let header = Header::parse(&fields(name).block()).unwrap();
            assert_eq!(header.path(), name);
            assert_eq!((header.mode, header.uid, header.gid), (0o4755, 7, 8));
            assert_eq!((header.size, header.mtime), (9, 10));
            let mut records = Records::default();
            fields(name).overflow(&mut records);
            assert_eq!(records.into_bytes(), None, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn what_does_not_fit_goes_to_the_extended_header() {
        for name in [vec![b'x'; 101], [&[b'd'; 156][..], b"/f"].concat()] {
            let mut records = Records::default();
            fields(&name).overflow(&mut records);
            let text = String::from_utf8(records.into_bytes().unwrap()).unwrap();
            assert!(text.contains(&format!(" path={}\n", String::from_utf8_lossy(&name))));
        }
        let mut big = fields(b"a");
        (big.size, big.uid, big.mtime.secs) = (1 << 33, 1 << 21, -1);
        let mut records = Records::default();
        big.overflow(&mut records);
        let text = String::from_utf8(records.into_bytes().unwrap()).unwrap();
        assert_eq!(text, "19 size=8589934592\n15 uid=2097152\n12 mtime=-1\n");
        let header = Header::parse(&big.block()).unwrap();
        assert_eq!((header.size, header.uid, header.mtime), (0, 0, 0));
    }
}
