//! The members of a file of gzip or bzip2, one after the other. Zeros may follow the last one, as
//! on a tape.

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;

/// A decoder of one member.
pub(super) trait Member<R>: Read {
    /// The first byte of a member.
    const FIRST: u8;

    fn new(source: R) -> Self;

    /// The source, behind the member.
    fn into_source(self) -> R;
}

impl<R: BufRead> Member<R> for GzDecoder<R> {
    const FIRST: u8 = 0x1f;

    fn new(source: R) -> Self {
        GzDecoder::new(source)
    }

    fn into_source(self) -> R {
        self.into_inner()
    }
}

impl<R: BufRead> Member<R> for BzDecoder<R> {
    const FIRST: u8 = b'B';

    fn new(source: R) -> Self {
        BzDecoder::new(source)
    }

    fn into_source(self) -> R {
        self.into_inner()
    }
}

/// The content of all members. `None` at the end.
pub(super) struct Members<D>(Option<D>);

impl<D> Members<D> {
    pub(super) fn new<R>(source: R) -> Members<D>
    where
        D: Member<R>,
    {
        Members(Some(D::new(source)))
    }
}

/// Goes to the next member. Returns false at the end.
fn next_member(source: &mut impl BufRead, first: u8) -> io::Result<bool> {
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

macro_rules! read_members {
    ($decoder:ident) => {
        impl<R: BufRead> Read for Members<$decoder<R>> {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                while let Some(member) = &mut self.0 {
                    let count = member.read(buf)?;
                    if count > 0 || buf.is_empty() {
                        return Ok(count);
                    }
                    let Some(mut source) = self.0.take().map(Member::into_source) else { break };
                    if next_member(&mut source, <$decoder<R> as Member<R>>::FIRST)? {
                        self.0 = Some(Member::new(source));
                    }
                }
                Ok(0)
            }
        }
    };
}

read_members!(GzDecoder);
read_members!(BzDecoder);
