//! Where an archive's bytes come from, decompressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::fail::Failure;
use crate::signals::Stdin;

const BUFFER: usize = 256 << 10;

/// An archive being read.
pub(crate) enum Input {
    /// A plain file: what is not wanted is passed over.
    File(BufReader<File>),
    /// Anything else.
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// An archive in the file `path`, compressed with gzip or not.
    pub(crate) fn open(path: &Path) -> Result<Input, Failure> {
        let file = File::open(path).map_err(|error| Failure::new(path.display(), error))?;
        Self::from_file(file).map_err(|error| Failure::new(path.display(), error))
    }

    /// An archive in an open file, read from its beginning.
    pub(crate) fn from_file(mut file: File) -> io::Result<Input> {
        file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::with_capacity(BUFFER, file);
        if is_gzip(reader.fill_buf()?)? {
            return Ok(Input::Stream(Box::new(MultiGzDecoder::new(reader))));
        }
        Ok(Input::File(reader))
    }

    /// An archive on standard input.
    pub(crate) fn stdin() -> io::Result<Input> {
        let mut reader = BufReader::with_capacity(BUFFER, Stdin);
        if is_gzip(reader.fill_buf()?)? {
            return Ok(Input::Stream(Box::new(MultiGzDecoder::new(reader))));
        }
        Ok(Input::Stream(Box::new(reader)))
    }

    /// Passes over `n` bytes.
    pub(crate) fn skip(&mut self, n: u64) -> io::Result<()> {
        if let Input::File(reader) = self {
            let len = reader.get_ref().metadata()?.len();
            let at = reader.stream_position()?;
            if at.checked_add(n).is_none_or(|end| end > len) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            return reader.seek_relative(i64::try_from(n).map_err(io::Error::other)?);
        }
        let passed = io::copy(&mut self.by_ref().take(n), &mut io::sink())?;
        if passed < n { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Fills `buf`, or as much of it as there is.
    pub(crate) fn read_or_end(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read(&mut buf[done..]) {
                Ok(0) => break,
                Ok(len) => done += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Reads what follows the end of the archive.
    pub(crate) fn drain(&mut self) {
        if let Input::Stream(stream) = self {
            // Padding: if it cannot be read nothing is lost.
            let _ = io::copy(stream, &mut io::sink());
        }
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::File(reader) => reader.read(buf),
            Input::Stream(reader) => reader.read(buf),
        }
    }
}

/// Whether this is gzip.
///
/// # Errors
/// It is compressed in another way: how to read it.
fn is_gzip(start: &[u8]) -> io::Result<bool> {
    let others: [(&[u8], &str); 3] =
        [(b"\x28\xb5\x2f\xfd", "zstd -dc"), (b"\xfd7zXZ\0", "xz -dc"), (b"BZh", "bzip2 -dc")];
    for (magic, tool) in others {
        if start.starts_with(magic) {
            let what =
                format!("compressed otherwise than with gzip; {tool} ARCHIVE | ffs build IMAGE -");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
    }
    Ok(start.starts_with(b"\x1f\x8b"))
}
