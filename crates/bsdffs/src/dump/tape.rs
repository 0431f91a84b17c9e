//! The records of a stream that is read (`spec/on-disk-format.md` §24.1, §24.3).
//!
//! # Invariants
//! 1. A record that is expected to be a header and is none ends the stream with an error that has
//!    its number. With [`Tape::skip_damage`] reading continues at the next header instead, and a
//!    note has the number of records skipped.
//! 2. Headers of another dump are not accepted: date and magic number are those of the first.

use std::io::Read;

use ffs_ondisk::Endian;

use super::TP_BSIZE;
use super::error::StreamError;
use super::inomap::InodeMap;
use super::spcl::{
    DR_COMPRESSED, DR_EXTATTRIBUTES, Header, NotAHeader, Record, RecordKind, TP_NINDIR,
};
use crate::tar::Input;

/// A stream and the position in it.
pub(super) struct Tape {
    input: Input,
    pub(super) endian: Endian,
    /// Records read.
    records: u64,
    /// The first header.
    pub(super) first: Header,
    /// Whether Linux's dump wrote the stream.
    pub(super) linux: bool,
    /// A header that the next call of [`Tape::next_header`] returns.
    pushed: Option<Header>,
    /// Continue after a damaged record.
    skip_damage: bool,
    /// Damage that was skipped.
    notes: Vec<String>,
}

/// A range of the records of a file: whether they follow in the stream, and their number.
pub(super) type AddrRun = (bool, u64);

impl Tape {
    /// Opens the dump `number`, counted from 1, of a file with several dumps.
    pub(super) fn open(
        mut input: Input,
        number: u32,
        skip_damage: bool,
    ) -> Result<Tape, StreamError> {
        let mut record = [0; TP_BSIZE];
        input.read_exact(&mut record).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => StreamError::fatal(0, "the file is not a dump"),
            _ => StreamError::io(0, &error),
        })?;
        let endian = Header::endian_of(&record)
            .map_err(|why| StreamError::fatal(0, format!("the file is not a dump: {why}")))?;
        let first = decode(&record, endian, 0)?;
        let linux = is_linux(&record, endian);
        let pushed = None;
        let notes = Vec::new();
        let mut tape = Tape { input, endian, records: 1, first, linux, pushed, skip_damage, notes };
        for dump in 1..number.max(1) {
            tape.skip_dump(dump + 1)?;
        }
        tape.check_first()?;
        Ok(tape)
    }

    fn check_first(&self) -> Result<(), StreamError> {
        let fail = |why: String| Err(StreamError::fatal(self.records - 1, why));
        if self.first.kind != RecordKind::Tape {
            return fail("the dump does not begin with a volume header".to_owned());
        }
        if self.first.volume != 1 {
            let volume = self.first.volume;
            return fail(format!("this is volume {volume} of a dump; only volume 1 can be read"));
        }
        if self.first.flags & DR_COMPRESSED != 0 && !self.first.ufs2 {
            return fail(
                "Linux's dump compressed the records (-z or -j), which is not supported".to_owned(),
            );
        }
        Ok(())
    }

    /// Reads on to the first header of the next dump, which has this number in the file.
    fn skip_dump(&mut self, number: u32) -> Result<(), StreamError> {
        loop {
            let header = self.next_header()?;
            match header.kind {
                RecordKind::End => break,
                _ => self.skip_data(&header)?,
            }
        }
        loop {
            let mut record = [0; TP_BSIZE];
            if let Err(error) = self.input.read_exact(&mut record) {
                let why = format!("the file has no dump number {number}: {error}");
                return Err(StreamError::fatal(self.records, why));
            }
            self.records += 1;
            let Ok(header) = Header::decode(&record, self.endian) else { continue };
            if header.kind == RecordKind::Tape {
                self.linux = is_linux(&record, self.endian);
                self.first = header;
                return Ok(());
            }
        }
    }

    /// The number of the next record.
    pub(super) fn position(&self) -> u64 {
        self.records
    }

    /// Notes about damage that was skipped since the last call.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Reads records; the length of `buf` is a multiple of [`TP_BSIZE`].
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Result<(), StreamError> {
        self.input.read_exact(buf).map_err(|error| StreamError::io(self.records, &error))?;
        self.records += (buf.len() / TP_BSIZE) as u64;
        Ok(())
    }

    /// Skips records.
    pub(super) fn skip(&mut self, records: u64) -> Result<(), StreamError> {
        let bytes = records.saturating_mul(TP_BSIZE as u64);
        self.input.skip(bytes).map_err(|error| StreamError::io(self.records, &error))?;
        self.records += records;
        Ok(())
    }

    /// Reads what follows the end of the dump: the checksums of a compressed one, and the rest of a
    /// pipe, whose writer must not get SIGPIPE.
    pub(super) fn drain(&mut self) -> Result<(), StreamError> {
        self.input.drain().map_err(|error| StreamError::io(self.records, &error))
    }

    /// The next header.
    pub(super) fn next_header(&mut self) -> Result<Header, StreamError> {
        if let Some(header) = self.pushed.take() {
            return Ok(header);
        }
        let mut skipped = 0u64;
        let at = self.records;
        loop {
            let mut record = [0; TP_BSIZE];
            self.read(&mut record)?;
            let why = match decode(&record, self.endian, self.records - 1) {
                Ok(header) if self.is_of_this_dump(&header) => {
                    if skipped > 0 {
                        self.notes.push(format!("record {at}: {skipped} records skipped"));
                    }
                    return Ok(self.with_old_ids(header, &record));
                }
                Ok(_) => StreamError::fatal(self.records - 1, "the header is that of another dump"),
                Err(why) => why,
            };
            if !self.skip_damage {
                return Err(why);
            }
            if skipped == 0 {
                self.notes.push(why.to_string());
            }
            skipped += 1;
        }
    }

    fn is_of_this_dump(&self, header: &Header) -> bool {
        header.date == self.first.date && header.ufs2 == self.first.ufs2
    }

    fn with_old_ids(&self, header: Header, record: &Record) -> Header {
        if !self.first.old_inodes() {
            return header;
        }
        let (uid, gid) = Header::old_ids(record, self.endian);
        Header { uid, gid, ..header }
    }

    /// Makes `header` the next header.
    pub(super) fn push_back(&mut self, header: Header) {
        self.pushed = Some(header);
    }

    /// The records that `c_addr` of a header describes.
    pub(super) fn addr_runs(&self, header: &Header) -> Result<Vec<AddrRun>, StreamError> {
        let Some(count) = usize::try_from(header.count).ok().filter(|&n| n <= TP_NINDIR) else {
            let why =
                format!("the header of inode {} has {} records", header.inumber, header.count);
            return Err(StreamError::new(self.records.saturating_sub(1), why));
        };
        let mut runs: Vec<AddrRun> = Vec::new();
        let mut bytes = header.addr[..count].iter();
        while let Some(&byte) = bytes.next() {
            // Linux's dump 0.4b49 and later packs runs; 0 and 1 mean the same in both forms.
            let (present, records) = match (header.ufs2, byte) {
                (true, _) => (byte != 0, 1),
                (false, 0..0x80) => (byte & 1 != 0, u64::from(byte >> 1) + 1),
                (false, _) => {
                    let high = u64::from(bytes.next().copied().unwrap_or(0));
                    (byte & 1 != 0, high * 64 + u64::from(byte >> 1 & 0x3f) + 65)
                }
            };
            match runs.last_mut() {
                Some((last, total)) if *last == present => *total += records,
                _ => runs.push((present, records)),
            }
        }
        Ok(runs)
    }

    /// Skips the records that belong to one header.
    pub(super) fn skip_data(&mut self, header: &Header) -> Result<(), StreamError> {
        let records = match header.kind {
            RecordKind::Tape | RecordKind::End => 0,
            RecordKind::Clri | RecordKind::Bits => map_records(header),
            RecordKind::Inode | RecordKind::Addr => match self.addr_runs(header) {
                Ok(runs) => runs.iter().filter(|(present, _)| *present).map(|(_, n)| n).sum(),
                Err(why) => {
                    self.notes.push(why.to_string());
                    0
                }
            },
        };
        self.skip(records)
    }

    /// Reads the map of `header`.
    pub(super) fn map(&mut self, header: &Header) -> Result<InodeMap, StreamError> {
        let mut bytes = Vec::new();
        // The map grows with the records that exist, not with the number in the header.
        for _ in 0..map_records(header) {
            let start = bytes.len();
            bytes.resize(start + TP_BSIZE, 0);
            self.read(&mut bytes[start..])?;
        }
        Ok(InodeMap::from_bytes(bytes))
    }
}

/// Whether `header` describes extended attributes that Linux's dump wrote.
pub(super) fn is_linux_attributes(header: &Header) -> bool {
    header.kind == RecordKind::Inode && !header.ufs2 && header.flags & DR_EXTATTRIBUTES != 0
}

/// Records of a map. An inode number has 32 bits, so a map has at most 2^29 bytes.
fn map_records(header: &Header) -> u64 {
    u64::try_from(header.count).unwrap_or(0).min((1 << 29) / TP_BSIZE as u64)
}

fn decode(record: &Record, endian: Endian, number: u64) -> Result<Header, StreamError> {
    Header::decode(record, endian).map_err(|why: NotAHeader| StreamError::fatal(number, why))
}

/// Whether Linux's dump wrote the header: it stores the records of a write where BSD has zero or
/// the low half of a date.
fn is_linux(record: &Record, endian: Endian) -> bool {
    const NTREC_OFFSET: usize = 896;
    let ntrec: i32 = ffs_ondisk::wire::get(record, NTREC_OFFSET, endian);
    let ufs2 = Header::decode(record, endian).is_ok_and(|header| header.ufs2);
    !ufs2 && (1..=4096).contains(&ntrec)
}
