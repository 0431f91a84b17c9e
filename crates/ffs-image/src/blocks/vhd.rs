//! VHD: Microsoft's older format, fixed and dynamic. Big-endian.
//!
//! A fixed image is the disk and a footer of 512 bytes behind it. A dynamic one begins with a copy
//! of the footer, has a header with the place of the table (BAT), and blocks with a bitmap of their
//! sectors in front of each.
//!
//! **Reference.** Microsoft, "Virtual Hard Disk Image Format Specification", 2006.

use std::collections::BTreeSet;

use ffs_device::{BlockDevice, DeviceError, FileDevice};

use super::{Layout, MAX_BLOCK, New, Place, Refused, Shape, bad_table, damaged, read};
use crate::bytes::{be16, be32, be64};

const COOKIE: &[u8] = b"conectix";
const SECTOR: u64 = 512;
const FIXED: u32 = 2;
const DYNAMIC: u32 = 3;
const DIFFERENCING: u32 = 4;
const ABSENT: u32 = u32::MAX;
/// The geometry of a disk that is too large for one.
const LARGEST_GEOMETRY: (u64, u64, u64) = (65535, 16, 255);

pub(super) fn open(file: &FileDevice) -> Result<Box<dyn Layout>, Refused> {
    let end = file.len_bytes().checked_sub(SECTOR).ok_or_else(|| truncated(file))?;
    let mut footer: [u8; 512] = read(file, end)?;
    let sealed = is_footer(&footer);
    if !sealed {
        // After a crash the copy at the start may be the only one.
        footer = read(file, 0)?;
    }
    if !is_footer(&footer) {
        return damaged("neither the footer nor its copy has the right checksum");
    }
    let len = size(&footer);
    match be32(&footer, 60) {
        FIXED if len <= end => Ok(Box::new(Fixed { len })),
        FIXED => damaged(format!("the disk has {len} bytes, of which the file has {end}")),
        DYNAMIC => open_dynamic(file, footer, sealed, len),
        DIFFERENCING => Err(Refused::Unsupported("it is a differencing image".to_owned())),
        other => damaged(format!("disk type {other}")),
    }
}

fn truncated(file: &FileDevice) -> Refused {
    Refused::Damaged(format!("the file has only {} bytes", file.len_bytes()))
}

/// The sum of a structure whose own field for it is at `at`.
fn checksum(bytes: &[u8], at: usize) -> u32 {
    let others = bytes.iter().enumerate().filter(|(place, _)| !(at..at + 4).contains(place));
    !others.fold(0u32, |sum, (_, &byte)| sum.wrapping_add(byte.into()))
}

fn is_footer(bytes: &[u8; 512]) -> bool {
    bytes.starts_with(COOKIE) && be32(bytes, 64) == checksum(bytes, 64)
}

/// The size of the disk. Old programs round it to the geometry.
fn size(footer: &[u8]) -> u64 {
    let bytes = be64(footer, 48);
    let geometry = (u64::from(be16(footer, 56)), u64::from(footer[58]), u64::from(footer[59]));
    let by_geometry = matches!(&footer[28..32], b"vpc " | b"qemu");
    if by_geometry && geometry != LARGEST_GEOMETRY {
        return geometry.0 * geometry.1 * geometry.2 * SECTOR;
    }
    bytes
}

/// The disk as it is.
struct Fixed {
    len: u64,
}

impl Layout for Fixed {
    fn shape(&self) -> Shape {
        Shape { len: self.len, block: MAX_BLOCK }
    }

    fn lookup(&self, _: &FileDevice, block: u64) -> Result<Place, DeviceError> {
        Ok(Place::At(block * self.shape().block))
    }

    fn allocate(&mut self, file: &FileDevice) -> Result<u64, DeviceError> {
        // Every block has a place.
        Ok(file.len_bytes())
    }

    fn enter(&mut self, _: &FileDevice, _: &New) -> Result<(), DeviceError> {
        Ok(())
    }
}

struct Dynamic {
    shape: Shape,
    footer: [u8; 512],
    table: u64,
    /// Bytes of the bitmap in front of a block.
    bitmap: u64,
    /// Blocks whose bitmap has all bits.
    touched: BTreeSet<u64>,
    /// Whether the footer is at the end of the file.
    sealed: bool,
}

fn open_dynamic(
    file: &FileDevice,
    footer: [u8; 512],
    sealed: bool,
    len: u64,
) -> Result<Box<dyn Layout>, Refused> {
    let at = be64(&footer, 16);
    let inside = |at: u64, len: u64| at.checked_add(len).is_some_and(|end| end <= file.len_bytes());
    if !inside(at, 1024) {
        return damaged("the header is beyond the end of the file");
    }
    let header: [u8; 1024] = read(file, at)?;
    if !header.starts_with(b"cxsparse") || be32(&header, 36) != checksum(&header, 36) {
        return damaged("the header has a wrong checksum");
    }
    let (table, entries) = (be64(&header, 16), be32(&header, 28));
    let block = u64::from(be32(&header, 32));
    if block == 0 || !block.is_multiple_of(SECTOR) {
        return damaged(format!("blocks of {block} bytes"));
    }
    if len.div_ceil(block) > entries.into() || !inside(table, u64::from(entries) * 4) {
        return damaged(format!("a table of {entries} entries does not fit"));
    }
    let bitmap = (block / SECTOR).div_ceil(8).next_multiple_of(SECTOR);
    let shape = Shape { len, block };
    Ok(Box::new(Dynamic { shape, footer, table, bitmap, touched: BTreeSet::new(), sealed }))
}

impl Layout for Dynamic {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn lookup(&self, file: &FileDevice, block: u64) -> Result<Place, DeviceError> {
        let sector = be32(&read::<4>(file, self.table + 4 * block)?, 0);
        if sector == ABSENT {
            return Ok(Place::Absent);
        }
        let at = u64::from(sector) * SECTOR + self.bitmap;
        // A block at the end of the disk may be incomplete in the file.
        let rest = (self.shape.len - block * self.shape.block).min(self.shape.block);
        if at + rest > file.len_bytes() {
            return Err(bad_table(block, at));
        }
        Ok(Place::At(at))
    }

    fn allocate(&mut self, file: &FileDevice) -> Result<u64, DeviceError> {
        let len = file.len_bytes();
        // The new block takes the place of the footer, which `seal` writes behind it.
        let end = if self.sealed { len.saturating_sub(SECTOR) } else { len };
        let start = end.next_multiple_of(SECTOR);
        self.sealed = false;
        file.set_len(start + self.bitmap + self.shape.block)?;
        file.write_at(start, &vec![0xff; self.bitmap as usize])?;
        let at = start + self.bitmap;
        self.touched.insert(at);
        Ok(at)
    }

    fn touch(&mut self, file: &FileDevice, at: u64) -> Result<(), DeviceError> {
        if self.touched.insert(at) {
            file.write_at(at - self.bitmap, &vec![0xff; self.bitmap as usize])?;
        }
        Ok(())
    }

    fn seal(&mut self, file: &FileDevice) -> Result<(), DeviceError> {
        let end = file.len_bytes();
        file.set_len(end + SECTOR)?;
        file.write_at(end, &self.footer)?;
        self.sealed = true;
        Ok(())
    }

    fn enter(&mut self, file: &FileDevice, new: &New) -> Result<(), DeviceError> {
        for (&block, &at) in new {
            let sector = u32::try_from((at - self.bitmap) / SECTOR).unwrap_or(ABSENT);
            file.write_at(self.table + 4 * block, &sector.to_be_bytes())?;
        }
        Ok(())
    }
}
