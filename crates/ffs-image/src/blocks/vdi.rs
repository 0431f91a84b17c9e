//! VDI: VirtualBox's format, dynamic and static. Little-endian.
//!
//! A header, a table with the number of each block in the data area, and the data area.
//!
//! **Reference.** VirtualBox, `VDICore.h`.

use ffs_device::{BlockDevice, DeviceError, FileDevice};

use super::{Layout, New, Place, Refused, Shape, bad_table, damaged, le32, le64, read};

const HEADER: usize = 512;
const VERSION: u32 = 0x0001_0001;
const DYNAMIC: u32 = 1;
const STATIC: u32 = 2;
/// Entries of the table from here on have no place: never written, or discarded.
const ABSENT: u32 = 0xffff_fffe;
/// The number of blocks in the data area, in the header.
const ALLOCATED: u64 = 388;

struct Vdi {
    shape: Shape,
    table: u64,
    data: u64,
    /// Bytes between two blocks.
    extra: u64,
    allocated: u32,
    /// Whether `allocated` is above every entry of the table.
    counted: bool,
}

pub(super) fn open(file: &FileDevice) -> Result<Box<dyn Layout>, Refused> {
    if file.len_bytes() < HEADER as u64 {
        return damaged("the header is truncated");
    }
    let header: [u8; HEADER] = read(file, 0)?;
    let field = |at: usize| le32(&header, at);
    if field(68) != VERSION {
        return Err(Refused::Unsupported(format!("version {:#x}", field(68))));
    }
    if field(76) != DYNAMIC && field(76) != STATIC {
        return Err(Refused::Unsupported(format!(
            "type {}, such as a differencing image",
            field(76)
        )));
    }
    let (table, data) = (u64::from(field(340)), u64::from(field(344)));
    let (len, block, extra) = (le64(&header, 368), u64::from(field(376)), u64::from(field(380)));
    let (blocks, allocated) = (field(384), field(ALLOCATED as usize));
    if block == 0 || len.div_ceil(block) > blocks.into() || allocated > blocks {
        return damaged(format!("{blocks} blocks of {block} bytes for a disk of {len}"));
    }
    if table < HEADER as u64 || table + 4 * u64::from(blocks) > data || data > file.len_bytes() {
        return damaged(format!("a table of {blocks} entries does not fit"));
    }
    Ok(Box::new(Vdi { shape: Shape { len, block }, table, data, extra, allocated, counted: false }))
}

impl Vdi {
    /// Makes the counter of blocks larger than every entry of the table. After a loss of power the
    /// file may have entries that its counter does not include.
    fn count(&mut self, file: &FileDevice) -> Result<(), DeviceError> {
        if self.counted {
            return Ok(());
        }
        let mut left = 4 * self.shape.len.div_ceil(self.shape.block);
        let (mut at, mut chunk) = (self.table, vec![0; 64 << 10]);
        while left > 0 {
            let take = left.min(chunk.len() as u64);
            let part = &mut chunk[..take as usize];
            file.read_at(at, part)?;
            for entry in part.chunks_exact(4).map(|entry| le32(entry, 0)) {
                if entry < ABSENT {
                    self.allocated = self.allocated.max(entry.saturating_add(1));
                }
            }
            (at, left) = (at + take, left - take);
        }
        self.counted = true;
        Ok(())
    }

    fn at(&self, number: u32) -> u64 {
        // 32 bits times at most 33 bits.
        let unit = self.shape.block + self.extra;
        self.data.saturating_add(u64::from(number).saturating_mul(unit)) + self.extra
    }
}

impl Layout for Vdi {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn lookup(&self, file: &FileDevice, block: u64) -> Result<Place, DeviceError> {
        let number = le32(&read::<4>(file, self.table + 4 * block)?, 0);
        if number >= ABSENT {
            return Ok(Place::Absent);
        }
        let at = self.at(number);
        let rest = (self.shape.len - block * self.shape.block).min(self.shape.block);
        if at.checked_add(rest).is_none_or(|end| end > file.len_bytes()) {
            return Err(bad_table(block, at));
        }
        Ok(Place::At(at))
    }

    fn allocate(&mut self, file: &FileDevice) -> Result<u64, DeviceError> {
        self.count(file)?;
        let at = self.at(self.allocated);
        let end = at.saturating_add(self.shape.block);
        // A crash may have left old content behind the last block.
        let old = file.len_bytes().min(end).saturating_sub(at);
        let zeros = vec![0; 64 << 10];
        let mut done = 0;
        while done < old {
            let take = (old - done).min(zeros.len() as u64);
            file.write_at(at + done, &zeros[..take as usize])?;
            done += take;
        }
        if file.len_bytes() < end {
            file.set_len(end)?;
        }
        self.allocated += 1;
        Ok(at)
    }

    fn enter(&mut self, file: &FileDevice, new: &New) -> Result<(), DeviceError> {
        let unit = self.shape.block + self.extra;
        for (&block, &at) in new {
            let number = u32::try_from((at - self.data) / unit).unwrap_or(u32::MAX);
            file.write_at(self.table + 4 * block, &number.to_le_bytes())?;
        }
        file.write_at(ALLOCATED, &self.allocated.to_le_bytes())
    }
}
