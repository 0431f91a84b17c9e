//! Headers, whole and damaged.
#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;

#[test]
fn headers_come_back_as_they_were_in_both_byte_orders() {
    let time = |secs| Timespec { secs, nsec: 999_999_999 };
    for endian in [Endian::Little, Endian::Big] {
        let header = Header {
            kind: RecordKind::Inode,
            inumber: u32::MAX,
            mode: 0o100_644,
            size: 1 << 40,
            atime: time(-5),
            mtime: time(1 << 40),
            birthtime: time(7),
            extsize: 700,
            file_flags: 0xffff_0001,
            count: 3,
            addr: std::array::from_fn(|n| n as u8),
            label: b"none".to_vec(),
            host: vec![b'h'; 63],
            ..Header::new(9, 1 << 33, 5)
        };
        let record = header.encode(endian);
        assert_eq!(Header::endian_of(&record), Ok(endian));
        assert_eq!(Header::decode(&record, endian).unwrap(), header);
    }
}

#[test]
fn old_headers_have_times_of_32_bits_and_no_attributes() {
    let mut header = Header { ufs2: false, ..Header::new(0, 1000, 10) };
    header.mtime.secs = -3;
    header.extsize = 5;
    header.birthtime.secs = 4;
    let read = Header::decode(&header.encode(Endian::Big), Endian::Big).unwrap();
    assert_eq!((read.date, read.ddate, read.mtime.secs), (1000, 10, -3));
    assert_eq!((read.extsize, read.birthtime.secs), (0, 0));
}

#[test]
fn what_is_not_a_header_is_refused_with_a_reason() {
    let good = Header::new(0, 1, 0).encode(Endian::Little);
    let decode = |record: &Record| Header::decode(record, Endian::Little).unwrap_err();
    for at in 0..TP_BSIZE {
        let mut bad = good;
        bad[at] ^= 0x55;
        let wanted = if (24..28).contains(&at) { NotAHeader::Magic } else { NotAHeader::Checksum };
        assert_eq!(decode(&bad), wanted, "byte {at}");
    }
    let mut old = good;
    put(&mut old, 24, Endian::Little, OFS_MAGIC);
    assert_eq!(decode(&old), NotAHeader::Old);
    assert_eq!(Header::endian_of(&old), Err(NotAHeader::Old));
    let mut unknown = good;
    put(&mut unknown, 0, Endian::Little, 7i32);
    put(&mut unknown, 28, Endian::Little, 0i32);
    let rest = CHECKSUM.wrapping_sub(sum(&unknown, Endian::Little));
    put(&mut unknown, 28, Endian::Little, rest);
    assert_eq!(decode(&unknown), NotAHeader::Type(7));
}
