//! The records of a stream that is written.
//!
//! **Invariant.** `c_tapea` of a header is the number of its record.

use std::io::Write;

use ffs_ondisk::Endian;

use super::TP_BSIZE;
use super::error::DumpError;
use super::inomap::InodeMap;
use super::spcl::{Header, RecordKind, TP_NINDIR};

/// Writes records.
pub(super) struct Output<'a> {
    out: &'a mut dyn Write,
    /// What every header has: level, dates and names.
    base: Header,
    /// Records written.
    records: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(out: &'a mut dyn Write, base: Header) -> Output<'a> {
        Output { out, base, records: 0 }
    }

    /// Records written.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// A header of this kind for an inode.
    pub(super) fn base(&self, kind: RecordKind, inumber: u32) -> Header {
        Header { kind, inumber, ..self.base.clone() }
    }

    /// Writes a header.
    pub(super) fn header(&mut self, header: &mut Header) -> Result<(), DumpError> {
        header.tapea = self.records as i64;
        self.write(&header.encode(Endian::Little))
    }

    /// Writes data; its length is a multiple of [`TP_BSIZE`].
    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), DumpError> {
        self.out.write_all(data).map_err(DumpError::Output)?;
        self.records += (data.len() / TP_BSIZE) as u64;
        Ok(())
    }

    /// Writes data and zeros up to the end of its last record.
    pub(super) fn padded(&mut self, data: &[u8]) -> Result<(), DumpError> {
        let whole = data.len() / TP_BSIZE * TP_BSIZE;
        self.write(&data[..whole])?;
        let rest = &data[whole..];
        if !rest.is_empty() {
            let mut last = [0; TP_BSIZE];
            last[..rest.len()].copy_from_slice(rest);
            self.write(&last)?;
        }
        Ok(())
    }

    /// Writes a map (BSD's `dumpmap`).
    pub(super) fn dumpmap(
        &mut self,
        kind: RecordKind,
        map: &InodeMap,
        inumber: u32,
    ) -> Result<(), DumpError> {
        let count = map.bytes().len() / TP_BSIZE;
        let mut header = self.base(kind, inumber);
        header.count = i32::try_from(count).unwrap_or(i32::MAX);
        self.header(&mut header)?;
        self.write(map.bytes())
    }

    /// Writes `TS_END` records up to a multiple of `ntrec` records.
    pub(super) fn end(&mut self, ntrec: u32, inumber: u32) -> Result<(), DumpError> {
        let ntrec = u64::from(ntrec.max(1));
        loop {
            let mut header = self.base(RecordKind::End, inumber);
            self.header(&mut header)?;
            if self.records.is_multiple_of(ntrec) {
                return self.out.flush().map_err(DumpError::Output);
            }
        }
    }
}

/// The most records that one header describes.
pub(super) const WINDOW: u64 = TP_NINDIR as u64;
