//! The blocks of an xz file, from the index at its end.
//!
//! **Reference.** "The .xz File Format", version 1.2.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use ffs_device::BlockDevice;
use lzma_rust2::XzReader;

use super::{Decoder, MAX_UNITS, Source, Unit};
use crate::bytes::le32;
use crate::image::Refused;

const HEADER: u64 = 12;
const HEADER_MAGIC: &[u8] = b"\xfd7zXZ\0";
const FOOTER_MAGIC: &[u8] = b"YZ";
/// Most memory of a decoder, KiB.
pub(super) const MEMORY: u32 = 256 << 10;

fn damaged<T>(why: &str) -> Result<T, Refused> {
    Err(Refused::Damaged(format!("{why}; the file is damaged or truncated")))
}

/// The units of the file: its blocks, in all its streams.
pub(super) fn units(file: &Arc<dyn BlockDevice>) -> Result<Vec<Unit>, Refused> {
    // Streams are found from the end; each list of blocks is in the order of the file.
    let mut streams: Vec<Vec<Unit>> = Vec::new();
    let mut count = 0;
    let mut end = file.len_bytes();
    while end > 0 {
        let mut last = [0; 4];
        if !end.is_multiple_of(4) || end < 2 * HEADER {
            return damaged("no footer at the end");
        }
        file.read_at(end - 4, &mut last)?;
        if last == [0; 4] {
            // Padding between streams.
            end -= 4;
            continue;
        }
        let (start, blocks) = stream(file, end, MAX_UNITS - count)?;
        count += blocks.len();
        streams.push(blocks);
        end = start;
    }
    let mut units: Vec<Unit> = streams.into_iter().rev().flatten().collect();
    let mut start = 0u64;
    for unit in &mut units {
        unit.start = start;
        start = match start.checked_add(unit.len.unwrap_or(0)) {
            Some(next) if i64::try_from(next).is_ok() => next,
            _ => return damaged("the sizes in the index are too large"),
        };
    }
    Ok(units)
}

/// The stream that ends at byte `end`: its start, and its blocks, at most `most`.
fn stream(file: &Arc<dyn BlockDevice>, end: u64, most: usize) -> Result<(u64, Vec<Unit>), Refused> {
    let mut footer = [0; 12];
    file.read_at(end - HEADER, &mut footer)?;
    let size = (u64::from(le32(&footer, 4)) + 1) * 4;
    if footer[10..] != *FOOTER_MAGIC || size > end - 2 * HEADER {
        return damaged("no footer at the end");
    }
    let index = end - HEADER - size;
    let mut reader = io::BufReader::new(Source::new(file, index, size));
    let mut units = Vec::new();
    let mut total = 0u64;
    if byte(&mut reader)? != 0 {
        return damaged("the index is not at its place by the footer");
    }
    let records = number(&mut reader)?;
    for _ in 0..records {
        if units.len() == most {
            return damaged("more than a million blocks");
        }
        let (unpadded, len) = (number(&mut reader)?, number(&mut reader)?);
        let packed = unpadded.checked_next_multiple_of(4).filter(|&packed| packed >= 8);
        let Some(packed) = packed else { return damaged("a length in the index is too large") };
        // Relative to the first block for now.
        units.push(Unit { at: total, packed: unpadded, start: 0, len: Some(len), header: 0 });
        total = match total.checked_add(packed) {
            Some(sum) if sum <= index => sum,
            _ => return damaged("a length in the index is too large"),
        };
    }
    let Some(start) = (index - total).checked_sub(HEADER) else {
        return damaged("the lengths in the index are too large");
    };
    let mut header = [0; 6];
    file.read_at(start, &mut header)?;
    if header != *HEADER_MAGIC {
        return damaged("no header in front of the blocks");
    }
    for unit in &mut units {
        unit.at += start + HEADER;
        unit.header = start;
    }
    Ok((start, units))
}

fn byte(reader: &mut impl Read) -> Result<u8, Refused> {
    let mut byte = [0];
    match reader.read_exact(&mut byte) {
        Ok(()) => Ok(byte[0]),
        Err(_) => damaged("the index is truncated"),
    }
}

/// A number of variable length.
fn number(reader: &mut impl Read) -> Result<u64, Refused> {
    let mut value = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = byte(reader)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    damaged("a number in the index is too long")
}

/// A decoder of one block: of a stream that has only this block, with an index made for it.
pub(super) fn decoder(file: &Arc<dyn BlockDevice>, unit: &Unit) -> io::Result<Decoder> {
    let mut header = [0; HEADER as usize];
    file.read_at(unit.header, &mut header)?;
    let packed = unit.packed.next_multiple_of(4);
    let block = Source::new(file, unit.at, packed);
    let tail = tail(&header, unit.packed, unit.len.unwrap_or(0));
    let stream = Cursor::new(header).chain(block).chain(Cursor::new(tail));
    let stream = io::BufReader::with_capacity(super::PIECE, stream);
    Ok(Box::new(XzReader::new_mem_limit(stream, false, MEMORY)))
}

/// The index and the footer of a stream of one block.
fn tail(header: &[u8; 12], unpadded: u64, len: u64) -> Vec<u8> {
    let mut index = vec![0, 1];
    for mut number in [unpadded, len] {
        while number >= 0x80 {
            index.push(number as u8 | 0x80);
            number >>= 7;
        }
        index.push(number as u8);
    }
    index.resize(index.len().next_multiple_of(4), 0);
    index.extend(crc(&index).to_le_bytes());
    // The length of the index counts words, less one.
    let mut footer = ((index.len() / 4 - 1) as u32).to_le_bytes().to_vec();
    footer.extend(&header[6..8]);
    index.extend(crc(&footer).to_le_bytes());
    index.extend(footer);
    index.extend(FOOTER_MAGIC);
    index
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
