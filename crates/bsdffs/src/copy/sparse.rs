//! Holes: a sink that makes or fills them.

use std::sync::LazyLock;

use super::entry::{Entry, EntryKind};
use super::error::{PartialFile, SinkError, SinkResult};
use super::report::CopyReport;
use super::sink::Sink;

/// Length and alignment of the zeros that become a hole, bytes.
const HOLE: u64 = 4096;
/// Zeros, on the heap: the file of the program would contain an array.
pub(crate) static ZEROS: LazyLock<Box<[u8]>> =
    LazyLock::new(|| vec![0; 128 << 10].into_boxed_slice());

/// What becomes of zeros and holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sparse {
    /// Holes of the source stay holes, and zeros stay zeros.
    #[default]
    Auto,
    /// Aligned runs of 4096 zeros become holes, too.
    Always,
    /// Holes are filled with zeros.
    Never,
}

/// Passes files to another sink, with more or fewer holes.
pub struct SparseSink<'a> {
    sink: &'a mut dyn Sink,
    sparse: Sparse,
    /// Size of the open file.
    size: u64,
    /// End of what the source sent of it, and of what the other sink received.
    sent: u64,
    passed: u64,
}

impl<'a> SparseSink<'a> {
    /// A sink in front of `sink`.
    pub fn new(sink: &'a mut dyn Sink, sparse: Sparse) -> SparseSink<'a> {
        SparseSink { sink, sparse, size: 0, sent: 0, passed: 0 }
    }

    fn pass(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        self.passed = offset + bytes.len() as u64;
        self.sink.data(offset, bytes)
    }

    fn zeros_to(&mut self, end: u64) -> SinkResult {
        while self.passed < end {
            let (at, len) = (self.passed, (end - self.passed).min(ZEROS.len() as u64));
            self.pass(at, &ZEROS[..len as usize])?;
        }
        Ok(())
    }

    /// Passes `bytes` without aligned runs of zeros.
    fn without_zeros(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() {
            let place = offset + at as u64;
            let len = ((HOLE - place % HOLE) as usize).min(bytes.len() - at);
            let zeros = bytes[at..at + len].iter().all(|byte| *byte == 0);
            if zeros && (len as u64 == HOLE || place + len as u64 == self.size) {
                if start < at {
                    self.pass(offset + start as u64, &bytes[start..at])?;
                }
                start = at + len;
            }
            at += len;
        }
        if start < at { self.pass(offset + start as u64, &bytes[start..at]) } else { Ok(()) }
    }
}

impl Sink for SparseSink<'_> {
    fn inner(&mut self) -> Option<&mut dyn Sink> {
        Some(self.sink)
    }

    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        if let EntryKind::File(size) = entry.kind {
            (self.size, self.sent, self.passed) = (size, 0, 0);
        }
        self.sink.entry(entry, report)
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        self.sent = offset + bytes.len() as u64;
        match self.sparse {
            Sparse::Auto => self.sink.data(offset, bytes),
            Sparse::Always => self.without_zeros(offset, bytes),
            Sparse::Never => {
                self.zeros_to(offset)?;
                self.pass(offset, bytes)
            }
        }
    }

    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        let filled = match self.sparse {
            Sparse::Auto => Ok(()),
            // The size of a pipe is not known before its end.
            Sparse::Always if self.sent > self.size && self.sent > self.passed => {
                let last = self.sent - 1;
                self.pass(last, &ZEROS[..1])
            }
            Sparse::Always => Ok(()),
            Sparse::Never => {
                let size = self.size;
                self.zeros_to(size)
            }
        };
        match filled {
            Ok(()) => self.sink.end(report),
            Err(error) => {
                let partial = self.sink.abort();
                Err(match error {
                    SinkError::Stop(mut stop) => {
                        stop.set_partial(partial);
                        SinkError::Stop(stop)
                    }
                    other => other,
                })
            }
        }
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.sink.abort()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::copy::EntryMeta;

    #[derive(Default)]
    struct Ranges(Vec<(u64, u64)>);

    impl Sink for Ranges {
        fn entry(&mut self, _: &Entry, _: &mut CopyReport) -> SinkResult {
            Ok(())
        }

        fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
            self.0.push((offset, offset + bytes.len() as u64));
            Ok(())
        }

        fn end(&mut self, _: &mut CopyReport) -> SinkResult {
            Ok(())
        }

        fn abort(&mut self) -> Option<PartialFile> {
            None
        }
    }

    /// What a sink receives of `pieces` of a file that has `size` bytes.
    fn ranges(sparse: Sparse, size: u64, pieces: &[(u64, &[u8])]) -> Vec<(u64, u64)> {
        let (mut ranges, mut report) = (Ranges::default(), CopyReport::default());
        let mut sink = SparseSink::new(&mut ranges, sparse);
        let (path, kind) = (b"f".to_vec(), EntryKind::File(size));
        let entry = Entry { path, kind, meta: EntryMeta::default(), identity: None };
        sink.entry(&entry, &mut report).unwrap();
        for (offset, bytes) in pieces {
            sink.data(*offset, bytes).unwrap();
        }
        sink.end(&mut report).unwrap();
        ranges.0
    }

    #[test]
    fn aligned_zeros_become_holes_and_holes_are_filled() {
        let mut content = vec![1; 20_000];
        content[4000..13_000].fill(0);
        content[17_000..].fill(0);
        let all = [(0, &content[..])];
        assert_eq!(ranges(Sparse::Auto, 20_000, &all), [(0, 20_000)]);
        assert_eq!(ranges(Sparse::Always, 20_000, &all), [(0, 4096), (12_288, 20_000)]);
        content[16_384..].fill(0);
        let all = [(0, &content[..])];
        assert_eq!(ranges(Sparse::Always, 20_000, &all), [(0, 4096), (12_288, 16_384)]);
        // A pipe: its size is not known, and its last byte is written.
        let sent = ranges(Sparse::Always, 0, &[(0, &content[..12_288]), (12_288, &[0; 4096])]);
        assert_eq!(sent, [(0, 4096), (16_383, 16_384)]);
        let pieces = [(100, &content[..50]), (400, &content[..10])];
        let filled = ranges(Sparse::Never, 500, &pieces);
        assert_eq!(filled, [(0, 100), (100, 150), (150, 400), (400, 410), (410, 500)]);
    }
}
