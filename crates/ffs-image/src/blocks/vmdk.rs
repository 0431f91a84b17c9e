//! VMDK: a disk of VMware in one sparse file, also with compressed grains (streamOptimized). It is
//! read here and written by `qemu-nbd`. Little-endian.
//!
//! The grain directory has the places of grain tables, and these have the places of grains.
//!
//! **Reference.** VMware, "Virtual Disk Format 5.0".

use std::io::Read;
use std::sync::Arc;

use ffs_device::{BlockDevice, DeviceError, FileDevice, Operation};
use flate2::read::ZlibDecoder;

use super::{Layout, New, Place, Refused, Shape, bad_table, damaged, le32, le64, read};

const SECTOR: u64 = 512;
const COMPRESSED: u32 = 1 << 16;
const AT_END: u64 = u64::MAX;
/// Longest descriptor.
const MAX_DESCRIPTOR: u64 = 64 << 10;
/// Largest grain: the usual one is 64 KiB.
const MAX_GRAIN: u64 = 16 << 20;

struct Vmdk {
    shape: Shape,
    directory: u64,
    /// Entries of a grain table.
    per_table: u64,
    compressed: bool,
}

/// The text that describes the disk of an image in one file or of a description; empty if there is
/// none.
pub(crate) fn vmdk_descriptor(file: &dyn BlockDevice) -> Result<Vec<u8>, DeviceError> {
    let mut head = vec![0; file.len_bytes().min(MAX_DESCRIPTOR) as usize];
    file.read_at(0, &mut head)?;
    match head.starts_with(b"KDMV") && head.len() >= 512 {
        true => Ok(descriptor(file, &head)?.unwrap_or_default()),
        false => Ok(head),
    }
}

/// The text that describes the disk; `None` if the file has none.
fn descriptor(file: &dyn BlockDevice, header: &[u8]) -> Result<Option<Vec<u8>>, DeviceError> {
    let at = le64(header, 28).saturating_mul(SECTOR);
    let len = le64(header, 36).saturating_mul(SECTOR).min(MAX_DESCRIPTOR);
    if at == 0 || at.checked_add(len).is_none_or(|end| end > file.len_bytes()) {
        return Ok(None);
    }
    let mut text = vec![0; len as usize];
    file.read_at(at, &mut text)?;
    Ok(Some(text))
}

pub(super) fn open(file: &FileDevice) -> Result<Box<dyn Layout>, Refused> {
    if file.len_bytes() < SECTOR {
        return damaged("the header is truncated");
    }
    let mut header: [u8; 512] = read(file, 0)?;
    check_descriptor(file, &header)?;
    if !file.is_read_only() {
        // QEMU opens it for writing, and the first write that changes a block fails.
        return Err(match le32(&header, 8) & COMPRESSED {
            0 => Refused::Unsupported("VMDK is written by qemu-nbd".to_owned()),
            _ => Refused::ReadOnly("a streamOptimized image can only be read".to_owned()),
        });
    }
    if le64(&header, 56) == AT_END {
        // The footer, before the marker of the end.
        let at = file.len_bytes().checked_sub(2 * SECTOR);
        let at = at.ok_or_else(|| Refused::Damaged("the footer is missing".to_owned()))?;
        header = read(file, at)?;
        if !header.starts_with(b"KDMV") {
            return damaged("the footer is missing: the file is truncated");
        }
    }
    let (version, flags) = (le32(&header, 4), le32(&header, 8));
    if !(1..=3).contains(&version) {
        return Err(Refused::Unsupported(format!("version {version}")));
    }
    let (capacity, grain) = (le64(&header, 12), le64(&header, 20));
    let (per_table, directory) = (u64::from(le32(&header, 44)), le64(&header, 56));
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR);
    let (Some(len), Some(block), Some(directory)) =
        (bytes(capacity), bytes(grain), bytes(directory))
    else {
        return damaged("a size beyond 64 bits");
    };
    if !(SECTOR..=MAX_GRAIN).contains(&block) || !(1..=1 << 16).contains(&per_table) {
        return damaged(format!("grains of {block} bytes in tables of {per_table}"));
    }
    let tables = len.div_ceil(block).div_ceil(per_table);
    if directory.checked_add(4 * tables).is_none_or(|end| end > file.len_bytes()) {
        return damaged("the grain directory is beyond the end of the file");
    }
    let compressed = flags & COMPRESSED != 0;
    Ok(Box::new(Vmdk { shape: Shape { len, block }, directory, per_table, compressed }))
}

/// Leaves disks with a parent or with several files to QEMU.
fn check_descriptor(file: &FileDevice, header: &[u8]) -> Result<(), Refused> {
    let Some(text) = descriptor(file, header)? else {
        return Err(Refused::Unsupported("it is one of several files of a disk".to_owned()));
    };
    let text = String::from_utf8_lossy(&text);
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
        line.map(|value| value.trim().trim_start_matches('=').trim().trim_matches('"'))
    };
    if !matches!(value("createType"), Some("monolithicSparse" | "streamOptimized")) {
        return Err(Refused::Unsupported("it is one of several files of a disk".to_owned()));
    }
    match value("parentCID") {
        None | Some("ffffffff") => Ok(()),
        Some(_) => Err(Refused::Unsupported("it has a parent".to_owned())),
    }
}

impl Layout for Vmdk {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn lookup(&self, file: &FileDevice, block: u64) -> Result<Place, DeviceError> {
        let (table, entry) = (block / self.per_table, block % self.per_table);
        let table = le32(&read::<4>(file, self.directory + 4 * table)?, 0);
        if table == 0 {
            return Ok(Place::Absent);
        }
        let at = u64::from(table) * SECTOR + 4 * entry;
        if at + 4 > file.len_bytes() {
            return Err(bad_table(block, at));
        }
        let grain = u64::from(le32(&read::<4>(file, at)?, 0)) * SECTOR;
        // Sector 1 means zeros.
        if grain <= SECTOR {
            return Ok(Place::Absent);
        }
        if self.compressed {
            return Ok(Place::Packed(grain));
        }
        let rest = (self.shape.len - block * self.shape.block).min(self.shape.block);
        if grain + rest > file.len_bytes() {
            return Err(bad_table(block, grain));
        }
        Ok(Place::At(grain))
    }

    fn unpack(&self, file: &FileDevice, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let failed = |why: &str| {
            let source = std::io::Error::other(why.to_owned());
            DeviceError::new(&Arc::from("image"), Operation::Read, source)
        };
        // The number of the sector, the length, and the content.
        let head: [u8; 12] = read(file, at)?;
        let len = u64::from(le32(&head, 8));
        if len > 2 * self.shape.block + SECTOR {
            return Err(failed("a compressed grain has a wrong length"));
        }
        let mut packed = vec![0; len as usize];
        file.read_at(at + 12, &mut packed)?;
        let mut decoder = ZlibDecoder::new(packed.as_slice());
        let mut done = 0;
        while done < into.len() {
            match decoder.read(&mut into[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(_) => return Err(failed("a compressed grain is damaged")),
            }
        }
        // The last grain of a disk may be shorter.
        into[done..].fill(0);
        Ok(())
    }

    fn allocate(&mut self, file: &FileDevice) -> Result<u64, DeviceError> {
        // Never called: the file is open for reading.
        Ok(file.len_bytes())
    }

    fn enter(&mut self, _: &FileDevice, _: &New) -> Result<(), DeviceError> {
        Ok(())
    }
}
