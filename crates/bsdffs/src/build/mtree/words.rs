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
            let (part, is_continued) = without_comment(line);
            let parts = part.split(u8::is_ascii_whitespace);
            words.extend(parts.filter(|word| !word.is_empty()));
            match is_continued.then(|| self.physical()).flatten() {
                Some(next) => line = next,
                None => return Some((number, Ok(words))),
            }
        }
    }
}

/// The part of a line in front of a comment, which begins at a `#` that is not part of an escape,
/// and whether the next line continues it.
fn without_comment(line: &[u8]) -> (&[u8], bool) {
    let mut at = 0;
    while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest {
            [b'#', ..] => return (&line[..at], false),
            [b'\\'] => return (&line[..at], true),
            [b'\\', b'M', b'-' | b'^', _, ..] => 4,
            [b'\\', b'^', _, ..] => 3,
            [b'\\', ..] => 2,
            _ => 1,
        };
    }
    (line, false)
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
