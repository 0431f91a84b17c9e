//! The members of a file of gzip or bzip2, one after the other. Zeros may follow the last one, as
//! on a tape.

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;

/// A decoder of one member.
pub(super) trait Member: Read + Sized {
    type Source: BufRead;

    /// The first byte of a member.
    const FIRST: u8;

    fn new(source: Self::Source) -> Self;

    /// The source, behind the member.
    fn into_source(self) -> Self::Source;
}

impl<R: BufRead> Member for GzDecoder<R> {
    type Source = R;

    const FIRST: u8 = 0x1f;

    fn new(source: R) -> Self {
        GzDecoder::new(source)
    }

    fn into_source(self) -> R {
        self.into_inner()
    }
}

impl<R: BufRead> Member for BzDecoder<R> {
    type Source = R;

    const FIRST: u8 = b'B';

    fn new(source: R) -> Self {
        BzDecoder::new(source)
    }

    fn into_source(self) -> R {
        self.into_inner()
    }
}

/// The content of all members. `None` at the end.
pub(super) struct Members<M>(Option<M>);

impl<M: Member> Members<M> {
    pub(super) fn new(source: M::Source) -> Members<M> {
        Members(Some(M::new(source)))
    }
}

impl<M: Member> Read for Members<M> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(buf)?;
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            let Some(mut source) = self.0.take().map(M::into_source) else { break };
            if goes_on(&mut source, M::FIRST)? {
                self.0 = Some(M::new(source));
            }
        }
        Ok(0)
    }
}

/// Whether another member follows, which begins with the byte `first`. Skips zeros at the end.
///
/// # Errors
/// Other data follows; or those of the source.
fn goes_on(source: &mut impl BufRead, first: u8) -> io::Result<bool> {
    if source.fill_buf()?.first() == Some(&first) {
        return Ok(true);
    }
    loop {
        let rest = source.fill_buf()?;
        if rest.is_empty() {
            return Ok(false);
        }
        if rest.iter().any(|&byte| byte != 0) {
            return Err(io::Error::other("other data follows it"));
        }
        let count = rest.len();
        source.consume(count);
    }
}
