//! The bytes of an archive, decompressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// Bytes of the buffer.
const BUFFER: usize = 256 << 10;

/// An archive to read: plain, or compressed with gzip.
pub enum Input {
    /// A plain file, in which data can be skipped.
    #[doc(hidden)]
    File(BufReader<File>),
    /// A stream.
    #[doc(hidden)]
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// The archive in the file `path`.
    ///
    /// # Errors
    /// The file cannot be read; [`io::ErrorKind::Unsupported`] if it has another compression.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Input> {
        Input::from_file(File::open(path)?)
    }

    /// The archive in an open file, from its beginning.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn from_file(mut file: File) -> io::Result<Input> {
        // A pipe is at its beginning.
        match file.seek(SeekFrom::Start(0)) {
            Err(error) if error.kind() != io::ErrorKind::NotSeekable => return Err(error),
            Err(_) => return Input::from_stream(file),
            Ok(_) => {}
        }
        let mut reader = BufReader::with_capacity(BUFFER, file);
        if is_gzip(reader.fill_buf()?)? {
            return Ok(Input::Stream(Box::new(MultiGzDecoder::new(reader))));
        }
        Ok(Input::File(reader))
    }

    /// The archive in a stream.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn from_stream(stream: impl Read + Send + 'static) -> io::Result<Input> {
        let mut reader = BufReader::with_capacity(BUFFER, stream);
        if is_gzip(reader.fill_buf()?)? {
            return Ok(Input::Stream(Box::new(MultiGzDecoder::new(reader))));
        }
        Ok(Input::Stream(Box::new(reader)))
    }

    /// Skips `n` bytes.
    pub(crate) fn skip(&mut self, n: u64) -> io::Result<()> {
        if let Input::File(reader) = self {
            let len = reader.get_ref().metadata()?.len();
            let at = reader.stream_position()?;
            if at.checked_add(n).is_none_or(|end| end > len) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            return reader.seek_relative(i64::try_from(n).map_err(io::Error::other)?);
        }
        let skipped = io::copy(&mut self.by_ref().take(n), &mut io::sink())?;
        if skipped < n { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Reads until `buf` is full or the archive ends; returns the bytes read.
    pub(super) fn read_or_end(&mut self, buf: &mut [u8]) -> io::Result<usize> {
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

    /// Reads a stream to its end.
    pub(crate) fn drain(&mut self) {
        if let Input::Stream(stream) = self {
            // Only padding follows the archive, so an error loses nothing.
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

/// Whether the archive that begins with `start` is compressed with gzip.
///
/// # Errors
/// It has another compression.
fn is_gzip(start: &[u8]) -> io::Result<bool> {
    let others: [(&[u8], &str); 3] =
        [(b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2")];
    for (magic, program) in others {
        if start.starts_with(magic) {
            let why = format!(
                "the archive is compressed with {program}, and only gzip is supported; \
                 decompress it first: {program} -dc ARCHIVE"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
    }
    Ok(start.starts_with(b"\x1f\x8b"))
}
