//! The data of one inode in a stream (`spec/on-disk-format.md` §24.5).
//!
//! # Invariants
//! 1. The runs of [`Contents::next`] cover the size in the header, then the extended attributes.
//! 2. After the last run the next record of the stream is a header: records that the header
//!    announces beyond the size are skipped.

use std::collections::VecDeque;

use super::TP_BSIZE;
use super::error::StreamError;
use super::spcl::{Header, RecordKind};
use super::tape::{AddrRun, Tape};

/// Most bytes of the extended attributes of one file: UFS2 allows 128 KiB, ext2 64 KiB.
pub(super) const MAX_ATTRIBUTES: usize = 1 << 20;

/// What a run of records belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Data,
    Attributes,
}

/// Records of a file. If they are present, the caller reads or skips them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) part: Part,
    pub(super) present: bool,
    pub(super) records: u64,
}

/// The records of a file that follow.
pub(super) struct Contents {
    inumber: u32,
    runs: VecDeque<AddrRun>,
    data_left: u64,
    attributes_left: u64,
}

impl Contents {
    /// The contents after `header`, of `size` bytes of data.
    pub(super) fn new(tape: &Tape, header: &Header, size: u64) -> Result<Contents, StreamError> {
        Ok(Contents {
            inumber: header.inumber,
            runs: tape.addr_runs(header)?.into(),
            data_left: size.div_ceil(TP_BSIZE as u64),
            attributes_left: u64::from(header.extsize).div_ceil(TP_BSIZE as u64),
        })
    }

    /// Whether the first header announces all data, without holes.
    pub(super) fn is_whole(&self) -> bool {
        let present = self.runs.front().map_or(0, |(present, n)| if *present { *n } else { 0 });
        present >= self.data_left
    }

    /// Notes that the caller has read all data of a file that [`Contents::is_whole`].
    pub(super) fn data_done(&mut self) {
        if let Some((_, records)) = self.runs.front_mut() {
            *records = records.saturating_sub(self.data_left);
        }
        self.runs.retain(|(_, records)| *records > 0);
        self.data_left = 0;
    }

    /// The next run; `None` at the end.
    pub(super) fn next(&mut self, tape: &mut Tape) -> Result<Option<Run>, StreamError> {
        loop {
            let (part, left) = match (&mut self.data_left, &mut self.attributes_left) {
                (0, 0) => return self.finish(tape).map(|()| None),
                (0, left) => (Part::Attributes, left),
                (left, _) => (Part::Data, left),
            };
            let Some((present, records)) = self.runs.pop_front() else {
                self.continuation(tape)?;
                continue;
            };
            let taken = records.min(*left);
            *left -= taken;
            if taken < records {
                self.runs.push_front((present, records - taken));
            }
            return Ok(Some(Run { part, present, records: taken }));
        }
    }

    /// Reads the next `TS_ADDR` header of this inode.
    fn continuation(&mut self, tape: &mut Tape) -> Result<(), StreamError> {
        let header = tape.next_header()?;
        if header.kind == RecordKind::Addr && header.inumber == self.inumber {
            self.runs = tape.addr_runs(&header)?.into();
            return Ok(());
        }
        tape.push_back(header);
        let why = format!("the data of inode {} ends early", self.inumber);
        Err(StreamError::new(tape.position().saturating_sub(1), why))
    }

    /// Skips the records after the last run.
    fn finish(&mut self, tape: &mut Tape) -> Result<(), StreamError> {
        let rest: u64 = self.runs.drain(..).filter(|(present, _)| *present).map(|(_, n)| n).sum();
        if rest > 0 { tape.skip(rest) } else { Ok(()) }
    }

    /// Reads the next part completely, into at most `limit` bytes; `None` if it is longer, in which
    /// case its records are skipped. Holes, which only files have, give no bytes: a stream could
    /// announce many of them in few records.
    pub(super) fn read_part(
        &mut self,
        tape: &mut Tape,
        part: Part,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, StreamError> {
        let mut bytes = Vec::new();
        let left = |contents: &Contents| match part {
            Part::Data => contents.data_left,
            Part::Attributes => contents.attributes_left,
        };
        let fits = left(self) <= limit.div_ceil(TP_BSIZE) as u64;
        while left(self) > 0 {
            let Some(run) = self.next(tape)? else { break };
            if !fits || run.part != part {
                if run.present {
                    tape.skip(run.records)?;
                }
                continue;
            }
            for _ in (0..run.records).filter(|_| run.present) {
                let start = bytes.len();
                bytes.resize(start + TP_BSIZE, 0);
                tape.read(&mut bytes[start..])?;
            }
        }
        Ok(fits.then_some(bytes))
    }

    /// Skips all runs that remain.
    pub(super) fn skip(mut self, tape: &mut Tape) -> Result<(), StreamError> {
        while let Some(run) = self.next(tape)? {
            if run.present {
                tape.skip(run.records)?;
            }
        }
        Ok(())
    }
}

/// The bytes of extended attributes that Linux's dump wrote.
pub(super) fn linux_attributes(tape: &mut Tape, header: &Header) -> Result<Vec<u8>, StreamError> {
    let mut contents = match Contents::new(tape, header, header.size) {
        Ok(contents) => contents,
        Err(error) if !error.is_fatal() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let bytes = contents.read_part(tape, Part::Data, MAX_ATTRIBUTES);
    match bytes.and_then(|bytes| contents.skip(tape).map(|()| bytes)) {
        Ok(bytes) => Ok(bytes.unwrap_or_default()),
        Err(error) if !error.is_fatal() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
