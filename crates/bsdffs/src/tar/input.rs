//! The bytes of an archive, decompressed.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use ffs_image::Content;

/// Bytes of the buffer.
const BUFFER: usize = 256 << 10;

/// Bytes from which a compressed archive is recognised.
const START: u64 = 16;

/// An archive to read: plain, or compressed with gzip, xz, zstd or bzip2.
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
    /// The file cannot be read.
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
        match ffs_image::decompress(BufReader::with_capacity(BUFFER, file))? {
            Content::Plain(reader) => Ok(Input::File(reader)),
            Content::Decompressed(stream) => Ok(Input::Stream(stream)),
        }
    }

    /// The archive in a stream.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn from_stream(stream: impl Read + Send + 'static) -> io::Result<Input> {
        // A pipe may deliver single bytes.
        let mut reader = BufReader::with_capacity(BUFFER, stream);
        let mut start = Vec::with_capacity(START as usize);
        reader.by_ref().take(START).read_to_end(&mut start)?;
        match ffs_image::decompress(Cursor::new(start).chain(reader))? {
            Content::Plain(reader) => Ok(Input::Stream(Box::new(reader))),
            Content::Decompressed(stream) => Ok(Input::Stream(stream)),
        }
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
    ///
    /// # Errors
    /// The stream cannot be read, or the compressed data is damaged: some checksums come at the
    /// end.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        if let Input::Stream(stream) = self {
            io::copy(stream, &mut io::sink())?;
        }
        Ok(())
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
