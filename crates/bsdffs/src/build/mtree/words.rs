//! The lines of a specification, and the encoding of names in it.

/// The lines of a text: each with its number, divided into words. A backslash at the end of a line
/// continues it; a `#` begins a comment.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
    longest: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8], longest: usize) -> Lines<'a> {
        Lines { rest: text, number: 0, longest }
    }

    /// The next line of the text, without its end.
    fn physical(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|&byte| byte == b'\n');
        let line = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
        self.number += 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, Result<Vec<&'a [u8]>, &'static str>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = self.physical()?;
        let (number, mut words, mut length) = (self.number, Vec::new(), 0);
        loop {
            length += line.len();
            if length > self.longest {
                return Some((number, Err("the line is too long")));
            }
            let continued = line.strip_suffix(b"\\");
            let part = continued.unwrap_or(line);
            let end = comment(part);
            let (part, continued) = end.map_or((part, continued), |end| (&part[..end], None));
            let parts = part.split(u8::is_ascii_whitespace);
            words.extend(parts.filter(|word| !word.is_empty()));
            match continued {
                None => return Some((number, Ok(words))),
                Some(_) => match self.physical() {
                    Some(next) => line = next,
                    None => return Some((number, Ok(words))),
                },
            }
        }
    }
}

/// Where a comment begins: at a `#` without a backslash in front of it.
fn comment(line: &[u8]) -> Option<usize> {
    let mut escaped = false;
    line.iter().position(|&byte| {
        let begins = byte == b'#' && !escaped;
        escaped = byte == b'\\' && !escaped;
        begins
    })
}

/// The byte that vis(3) writes as `^` and this character.
fn control(letter: u8) -> Option<u8> {
    matches!(letter, b'?'..=b'_').then_some(letter ^ 0x40)
}

/// The byte that follows a backslash as in C, or for itself.
fn c_escape(code: u8) -> Option<u8> {
    Some(match code {
        b'0' => 0,
        b's' => b' ',
        b't' => b'\t',
        b'n' => b'\n',
        b'r' => b'\r',
        b'a' => 7,
        b'b' => 8,
        b'v' => 11,
        b'f' => 12,
        b'E' => 0x1b,
        b'\\' | b'#' | b'*' | b'?' | b'[' | b'"' => code,
        _ => return None,
    })
}

/// Decodes a name as strsvis(3) encodes it, in octal, as in C, or with `M` and `^`.
pub(super) fn decode(name: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let octal = rest.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(*byte)).count();
        let (decoded, used) = match rest {
            _ if octal == 3 => {
                let value = rest[..3].iter().fold(0_u32, |v, byte| v * 8 + u32::from(byte - b'0'));
                (u8::try_from(value).ok(), 3)
            }
            [b'M', b'-', meta, ..] if meta.is_ascii_graphic() => (Some(meta | 0x80), 3),
            [b'M', b'^', meta, ..] => (control(*meta).map(|byte| byte | 0x80), 3),
            [b'^', letter, ..] => (control(*letter), 2),
            [code, ..] => (c_escape(*code), 1),
            [] => (None, 0),
        };
        match decoded {
            Some(0) | None => {
                let shown = String::from_utf8_lossy(name);
                return Err(format!("the name {shown} has an encoding that is not understood"));
            }
            Some(byte) => out.push(byte),
        }
        rest = &rest[used..];
    }
    Ok(out)
}
