//! Compressed files that are read once, from the beginning to the end.

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;

use super::members::Members;
use super::{Decoder, damage, xz, zstd};
use crate::magic::{Format, recognise_start};

/// What follows the first four bytes of a file of bzip2: the signature of a block or, in an empty
/// file, of the end. A tar archive may begin with a name of the first three bytes.
const BZIP2: [&[u8; 6]; 2] = [b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"];

/// The content of a file.
pub enum Content<R> {
    /// The file as it is.
    Plain(R),
    /// What a compressed file has.
    Decompressed(Box<dyn Read + Send>),
}

/// The compression of the file that begins with `start`.
fn recognise_compressed(start: &[u8]) -> Option<Format> {
    let is_bzip2 = BZIP2.iter().any(|magic| start.get(4..10) == Some(&magic[..]));
    match recognise_start(start) {
        Some(Format::Bzip2) if !is_bzip2 => None,
        None if zstd::is_skippable(start) => Some(Format::Zstd),
        Some(found @ (Format::Gzip | Format::Xz | Format::Zstd | Format::Bzip2)) => Some(found),
        _ => None,
    }
}

/// Whether the file that begins with `start` is compressed.
#[must_use]
pub fn is_compressed(start: &[u8]) -> bool {
    recognise_compressed(start).is_some()
}

/// Decompresses `source` if it begins as a file of gzip, xz, zstd or bzip2. Several such files in a
/// row are one, and zeros may follow the last one. Damage is an error of the reads that need the
/// damaged part. A decoder takes at most 256 MiB of memory.
///
/// The beginning is recognised in what one call of [`BufRead::fill_buf`] returns: ten bytes
/// suffice.
///
/// # Errors
/// Those of `source`.
pub fn decompress<R: BufRead + Send + 'static>(mut source: R) -> io::Result<Content<R>> {
    Ok(match recognise_compressed(source.fill_buf()?) {
        Some(format) => Content::Decompressed(Box::new(Stream(decoder(format, source)))),
        None => Content::Plain(source),
    })
}

/// A decoder of all of `source`, which is compressed as `format`.
pub(super) fn decoder(format: Format, source: impl BufRead + Send + 'static) -> Decoder {
    match format {
        Format::Gzip => Box::new(Members::<GzDecoder<_>>::new(source)),
        Format::Bzip2 => Box::new(Members::<BzDecoder<_>>::new(source)),
        Format::Zstd => Box::new(zstd::Frames::new(source)),
        _ => Box::new(XzReader::new_mem_limit(source, true, xz::MEMORY)),
    }
}

/// Names the damage in the errors of a decoder, and passes on those of its source.
struct Stream(Decoder);

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(|error| {
            let of_source =
                error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted;
            if of_source { error } else { damage(error) }
        })
    }
}
