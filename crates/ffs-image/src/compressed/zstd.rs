//! The frames of a zstd file, by a walk over the headers of its blocks.
//!
//! **Reference.** RFC 8878.

use std::io::{self, Read};
use std::sync::Arc;

use ffs_device::BlockDevice;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{MAX_UNITS, Unit};
use crate::bytes::{le32, le64};
use crate::image::Refused;

const MAGIC: u32 = 0xfd2f_b528;
const SKIPPABLE: u32 = 0x184d_2a50;
/// Small frames are joined to units of about this size.
const JOIN: u64 = 1 << 20;
/// Largest sector of a server, which may add zeros to complete the last one.
const SECTOR: u64 = 4096;
/// Largest window of a decoder.
const WINDOW: u64 = 128 << 20;

/// The units of the file, or `None` if a frame does not have its size in its header.
pub(super) fn units(file: &Arc<dyn BlockDevice>) -> Result<Option<Vec<Unit>>, Refused> {
    let mut units: Vec<Unit> = Vec::new();
    let (mut at, mut start) = (0u64, 0u64);
    while at < file.len_bytes() && !only_zeros(file, at)? {
        let Some((packed, len)) = frame(&**file, at)? else { return Ok(None) };
        let full = units.len() == MAX_UNITS;
        match units.last_mut() {
            Some(Unit { packed: all, len: Some(size), .. }) if size.saturating_add(len) <= JOIN => {
                *all += packed;
                *size += len;
            }
            _ if full => {
                return Err(Refused::Damaged("more than a million frames".to_owned()));
            }
            _ => units.push(Unit { at, packed, start, len: Some(len), header: 0 }),
        }
        at += packed;
        start = match start.checked_add(len).filter(|&start| i64::try_from(start).is_ok()) {
            Some(next) => next,
            None => {
                return Err(Refused::Damaged("the sizes of the frames are too large".to_owned()));
            }
        };
    }
    Ok(Some(units))
}

/// Whether only the zeros follow that a server with sectors adds.
fn only_zeros(file: &Arc<dyn BlockDevice>, at: u64) -> Result<bool, Refused> {
    let left = file.len_bytes() - at;
    if left >= SECTOR {
        return Ok(false);
    }
    let mut rest = [0; SECTOR as usize];
    file.read_at(at, &mut rest[..left as usize])?;
    Ok(rest[..left as usize].iter().all(|&byte| byte == 0))
}

/// The length of the frame at byte `at` in the file and decompressed; `None` if it has no size.
fn frame(file: &dyn BlockDevice, at: u64) -> Result<Option<(u64, u64)>, Refused> {
    let truncated = || Refused::Damaged("the file is truncated or damaged".to_owned());
    let left = file.len_bytes() - at;
    let mut head = [0; 18];
    let have = head.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    file.read_at(at, &mut head[..have])?;
    let magic = le32(&head, 0);
    if magic & 0xffff_fff0 == SKIPPABLE {
        let len = 8 + u64::from(le32(&head, 4));
        return if len <= left { Ok(Some((len, 0))) } else { Err(truncated()) };
    }
    if magic != MAGIC {
        return Err(truncated());
    }
    let flags = head[4];
    let (single, checksum) = (flags & 0x20 != 0, flags & 4 != 0);
    let dictionary = [0, 1, 2, 4][usize::from(flags & 3)];
    let size_at = 5 + usize::from(!single) + dictionary;
    let size = match (flags >> 6, single) {
        (0, false) => return Ok(None),
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let mut number = [0; 8];
    number[..size].copy_from_slice(&head[size_at..size_at + size]);
    let len = le64(&number, 0) + if size == 2 { 256 } else { 0 };
    let mut end = at + (size_at + size) as u64;
    loop {
        let mut block = [0; 4];
        if end + 3 > file.len_bytes() {
            return Err(truncated());
        }
        file.read_at(end, &mut block[..3])?;
        let block = le32(&block, 0);
        let content = if block >> 1 & 3 == 1 { 1 } else { u64::from(block >> 3) };
        end += 3 + content;
        if block & 1 == 1 {
            break;
        }
    }
    end += if checksum { 4 } else { 0 };
    if end > file.len_bytes() { Err(truncated()) } else { Ok(Some((end - at, len))) }
}

/// Whether a file begins with a frame that is skipped.
pub(super) fn is_skippable(start: &[u8]) -> bool {
    start.len() >= 4 && le32(start, 0) & 0xffff_fff0 == SKIPPABLE
}

/// The content of consecutive frames.
pub(super) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: io::BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Frames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        Frames { source, decoder, within: false }
    }

    /// Passes over zeros up to the end. Returns false, as [`Frames::begin`] does there.
    fn skip_zeros(&mut self) -> io::Result<bool> {
        loop {
            let rest = self.source.fill_buf()?;
            if rest.is_empty() {
                return Ok(false);
            }
            if rest.iter().any(|&byte| byte != 0) {
                return Err(io::Error::other("other data follows it"));
            }
            let count = rest.len();
            self.source.consume(count);
        }
    }

    /// Begins the next frame. Returns false at the end.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            let rest = self.source.fill_buf()?;
            if rest.is_empty() {
                return Ok(false);
            }
            if rest[0] == 0 {
                // No frame begins with 0.
                return self.skip_zeros();
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error @ FrameDecoderError::WindowSizeTooBig { .. }) => {
                    return Err(io::Error::new(io::ErrorKind::OutOfMemory, error.to_string()));
                }
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
    }
}

impl<R: io::BufRead> Read for Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.within {
                if self.decoder.can_collect() > 0 {
                    return self.decoder.read(buf);
                }
                if !self.decoder.is_finished() {
                    let one = BlockDecodingStrategy::UptoBlocks(1);
                    let decoded = self.decoder.decode_blocks(&mut self.source, one);
                    decoded.map_err(|error| io::Error::other(error.to_string()))?;
                    continue;
                }
                let stored = self.decoder.get_checksum_from_data();
                if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
                    return Err(io::Error::other("a checksum is wrong"));
                }
                self.within = false;
            }
            self.within = self.begin()?;
            if !self.within {
                return Ok(0);
            }
        }
    }
}
