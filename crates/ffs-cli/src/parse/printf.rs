//! The format of `-printf` in an expression of find(1), with the directives of GNU's that have a
//! meaning for a file of an image.

use super::find::Which;

/// The widest field and the largest precision: a longer one is a mistake.
const WIDEST: usize = 10_000;

/// A part of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Vec<u8>),
    Field(What, Padding),
    /// `\c`: nothing more is printed for this file.
    End,
}

/// What a directive prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Path,
    /// The path below the one where the search began.
    Below,
    /// The path where the search began.
    Start,
    /// The last name of the path, and the path before it.
    Name,
    Directory,
    Depth,
    Size,
    /// The space that the file uses, in blocks of 512 and of 1024 bytes.
    Blocks,
    Kibibytes,
    /// The permissions in octal, and as `ls -l` prints them.
    Mode,
    Permissions,
    User,
    Uid,
    Group,
    Gid,
    Inode,
    Links,
    /// The text of a symbolic link.
    Target,
    Type,
    /// That of what a symbolic link leads to.
    OtherType,
    Time(Which, Form),
}

/// How a time is printed, in UTC. Fractions of a second have ten digits, as GNU prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// That of ctime(3), with the fraction.
    Ctime,
    /// Seconds since 1970, with the fraction.
    Seconds,
    /// `YYYY-MM-DD+HH:MM:SS` and the fraction.
    Plus,
    /// `HH:MM:SS` and the fraction.
    Clock,
    /// The second and the fraction.
    Second,
    /// A directive of strftime(3).
    Strftime(u8),
}

/// The flags, width and precision of a directive, as those of printf(3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Padding {
    left: bool,
    zeros: bool,
    alternate: bool,
    plus: bool,
    space: bool,
    width: usize,
    precision: Option<usize>,
}

/// Directives of strftime(3) that GNU's find has, too.
const STRFTIME: &[u8] = b"aAbBcCdDeFgGhHIjklmMpPrRsuUVwWxyYzZ";

/// Reads a format.
///
/// # Errors
/// A directive or an escape is unknown, or not complete; the reason.
pub(crate) fn parse(text: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut plain, mut rest) = (Vec::new(), Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let piece = match first {
            b'\\' => match escape(&mut rest)? {
                Some(byte) => {
                    plain.push(byte);
                    continue;
                }
                None => Piece::End,
            },
            b'%' if rest.starts_with(b"%") => {
                rest = &rest[1..];
                plain.push(b'%');
                continue;
            }
            b'%' => directive(&mut rest)?,
            byte => {
                plain.push(byte);
                continue;
            }
        };
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        let ends = piece == Piece::End;
        pieces.push(piece);
        if ends {
            return Ok(pieces);
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

/// The byte of an escape, behind its backslash; `None` for `\c`.
fn escape(rest: &mut &[u8]) -> Result<Option<u8>, String> {
    let (letter, after) = rest.split_first().ok_or("a backslash is at its end")?;
    let digits = rest.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    if digits > 0 {
        let (octal, after) = rest.split_at(digits);
        *rest = after;
        let value = octal.iter().fold(0, |sum, byte| sum * 8 + u32::from(byte - b'0'));
        return Ok(Some((value & 0xff) as u8));
    }
    *rest = after;
    Ok(Some(match letter {
        b'a' => 0x07,
        b'b' => 0x08,
        b'c' => return Ok(None),
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        _ => return Err(format!("\\{}: no such escape", first_letter(letter, after))),
    }))
}

/// The letter whose first byte is `first`; the other bytes are the beginning of `after`.
fn first_letter(first: &u8, after: &[u8]) -> String {
    let more = after.iter().take_while(|byte| matches!(byte, 0x80..=0xbf)).take(3);
    let bytes: Vec<u8> = std::iter::once(first).chain(more).copied().collect();
    String::from_utf8_lossy(&bytes).escape_default().to_string()
}

/// A directive, behind its percent sign.
fn directive(rest: &mut &[u8]) -> Result<Piece, String> {
    let padding = padding(rest)?;
    let (letter, after) = rest.split_first().ok_or("a % is at its end; write %% for one")?;
    *rest = after;
    let what = match letter {
        b'p' => What::Path,
        b'P' => What::Below,
        b'H' => What::Start,
        b'f' => What::Name,
        b'h' => What::Directory,
        b'd' => What::Depth,
        b's' => What::Size,
        b'b' => What::Blocks,
        b'k' => What::Kibibytes,
        b'm' => What::Mode,
        b'M' => What::Permissions,
        b'u' => What::User,
        b'U' => What::Uid,
        b'g' => What::Group,
        b'G' => What::Gid,
        b'i' => What::Inode,
        b'n' => What::Links,
        b'l' => What::Target,
        b'y' => What::Type,
        b'Y' => What::OtherType,
        b'a' => What::Time(Which::Access, Form::Ctime),
        b'c' => What::Time(Which::Change, Form::Ctime),
        b't' => What::Time(Which::Modification, Form::Ctime),
        b'A' => What::Time(Which::Access, form(b'A', rest)?),
        b'B' => What::Time(Which::Birth, form(b'B', rest)?),
        b'C' => What::Time(Which::Change, form(b'C', rest)?),
        b'T' => What::Time(Which::Modification, form(b'T', rest)?),
        _ => return Err(format!("%{}: no such directive", first_letter(letter, after))),
    };
    Ok(Piece::Field(what, padding))
}

/// The letter of a time, behind `%A`, `%B`, `%C` or `%T`.
fn form(which: u8, rest: &mut &[u8]) -> Result<Form, String> {
    let which = char::from(which);
    let Some((letter, after)) = rest.split_first() else {
        return Err(format!("%{which}: a letter for the form of the time is missing, as in %T@"));
    };
    *rest = after;
    Ok(match letter {
        b'@' => Form::Seconds,
        b'+' => Form::Plus,
        b'T' | b'X' => Form::Clock,
        b'S' => Form::Second,
        letter if STRFTIME.contains(letter) => Form::Strftime(*letter),
        _ => return Err(format!("%{which}{}: no such directive", first_letter(letter, after))),
    })
}

/// Flags, width and precision.
fn padding(rest: &mut &[u8]) -> Result<Padding, String> {
    let mut padding = Padding::default();
    while let Some((flag, after)) = rest.split_first() {
        match flag {
            b'-' => padding.left = true,
            b'0' => padding.zeros = true,
            b'#' => padding.alternate = true,
            b'+' => padding.plus = true,
            b' ' => padding.space = true,
            _ => break,
        }
        *rest = after;
    }
    padding.width = digits(rest)?.unwrap_or(0);
    if let Some(after) = rest.strip_prefix(b".") {
        *rest = after;
        padding.precision = Some(digits(rest)?.unwrap_or(0));
    }
    Ok(padding)
}

fn digits(rest: &mut &[u8]) -> Result<Option<usize>, String> {
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, after) = rest.split_at(count);
    *rest = after;
    if count == 0 {
        return Ok(None);
    }
    let value = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
    match value.filter(|value| *value <= WIDEST) {
        Some(value) => Ok(Some(value)),
        None => Err(format!("a width or precision is larger than {WIDEST}")),
    }
}

impl Padding {
    /// Appends a text, which the precision truncates.
    pub(crate) fn text(&self, out: &mut Vec<u8>, text: &[u8]) {
        let end = self.precision.unwrap_or(text.len()).min(text.len());
        self.field(out, b"", &text[..end], false);
    }

    /// Appends a number, which has at least as many digits as the precision.
    pub(crate) fn number(&self, out: &mut Vec<u8>, number: usize) {
        let sign: &[u8] = match (self.plus, self.space) {
            (true, _) => b"+",
            (false, true) => b" ",
            (false, false) => b"",
        };
        let least = self.precision.unwrap_or(1);
        let digits = format!("{number:0least$}");
        self.field(out, sign, digits.as_bytes(), self.precision.is_none());
    }

    /// Appends permissions in octal; `#` adds a zero in front.
    pub(crate) fn octal(&self, out: &mut Vec<u8>, mode: u16) {
        let least = self.precision.unwrap_or(1);
        let mut digits = format!("{mode:0least$o}");
        if self.alternate && !digits.starts_with('0') {
            digits.insert(0, '0');
        }
        self.field(out, b"", digits.as_bytes(), self.precision.is_none());
    }

    /// Appends `text` with spaces up to the width, or with zeros if these are possible.
    fn field(&self, out: &mut Vec<u8>, sign: &[u8], text: &[u8], zeros: bool) {
        let missing = self.width.saturating_sub(sign.len() + text.len());
        let (before, zeros, after) = match (self.left, self.zeros && zeros) {
            (true, _) => (0, 0, missing),
            (false, true) => (0, missing, 0),
            (false, false) => (missing, 0, 0),
        };
        let repeat = |byte, count| std::iter::repeat_n(byte, count);
        out.extend(repeat(b' ', before));
        out.extend_from_slice(sign);
        out.extend(repeat(b'0', zeros));
        out.extend_from_slice(text);
        out.extend(repeat(b' ', after));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn formats_are_read() {
        let text = |text: &[u8]| Piece::Text(text.to_vec());
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(parse(r"100%%\n\t\0\101\\").unwrap(), [text(b"100%\n\t\0A\\")]);
        let plain = Padding::default();
        assert_eq!(
            parse(r"%p %T@\0").unwrap(),
            [
                Piece::Field(What::Path, plain),
                text(b" "),
                Piece::Field(What::Time(Which::Modification, Form::Seconds), plain),
                text(b"\0"),
            ]
        );
        assert_eq!(parse(r"a\c%Q").unwrap(), [text(b"a"), Piece::End]);
        for (bad, why) in [
            ("%Q", "%Q: no such directive"),
            ("%5Q", "%Q: no such directive"),
            ("%é", "%\\u{e9}: no such directive"),
            ("%Tq", "%Tq: no such directive"),
            ("%T", "%T: a letter"),
            ("a%", "a % is at its end"),
            ("%5", "a % is at its end"),
            ("\\q", "\\q: no such escape"),
            ("a\\", "a backslash is at its end"),
            ("%10001p", "is larger than 10000"),
            ("%.99999999999999999999p", "is larger than 10000"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn fields_are_padded_as_by_printf() {
        let made = |format: &str, print: &dyn Fn(&Padding, &mut Vec<u8>)| {
            let pieces = parse(format).unwrap();
            let [Piece::Field(_, padding)] = &pieces[..] else { panic!("{format}") };
            let mut out = Vec::new();
            print(padding, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (format, expected) in [
            ("%5s", "  abc"),
            ("%-5s", "abc  "),
            ("%05s", "  abc"),
            ("%.2s", "ab"),
            ("%4.1s", "   a"),
        ] {
            assert_eq!(made(format, &|padding, out| padding.text(out, b"abc")), expected);
        }
        for (format, expected) in [
            ("%d", "7"),
            ("%03d", "007"),
            ("%+d", "+7"),
            ("% d", " 7"),
            ("%.2d", "07"),
            ("%-3d", "7  "),
        ] {
            assert_eq!(made(format, &|padding, out| padding.number(out, 7)), expected);
        }
        for (format, expected) in [("%m", "644"), ("%#m", "0644"), ("%06m", "000644")] {
            assert_eq!(made(format, &|padding, out| padding.octal(out, 0o644)), expected);
        }
    }
}
