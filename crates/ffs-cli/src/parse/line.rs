//! A line of `ffs shell`: its words, and the word that completion replaces.
//!
//! Words are split as in sh. `$'...'` is a quote with the escapes of bash, which are those of
//! POSIX.1-2024 and more, for names with control characters and bytes that are not UTF-8.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use bsdffs::text::changes_the_line;

/// A line of the shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Nothing, or a comment.
    Empty,
    /// `!COMMAND`: a command of the host's shell.
    Host(OsString),
    /// The words of a command; the first one is its name.
    Words(Vec<OsString>),
}

/// Parses a line. The second value is true if a failure of the command does not end a script.
pub(crate) fn parse(line: &[u8]) -> Result<(Parsed, bool), &'static str> {
    // A space at the end may belong to a name, behind a backslash.
    let line = line.trim_ascii_start();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (ignored, line) = match line.strip_prefix(b"-") {
        Some(rest) => (true, rest.trim_ascii_start()),
        None => (false, line),
    };
    if let Some(command) = line.strip_prefix(b"!") {
        return Ok((Parsed::Host(OsString::from_vec(command.to_vec())), ignored));
    }
    let Some(words) = split(line) else {
        return Err("a quote is not closed, or the line ends in a backslash");
    };
    if words.iter().any(|word| word.contains(&0)) {
        return Err("the line has a NUL");
    }
    // A variable without a value must not be the current directory. A value may be empty.
    let takes_values = words.first().is_some_and(|name| name == b"xattr");
    if !takes_values && words.iter().any(Vec::is_empty) {
        return Err("an empty argument; the current directory is .");
    }
    if let Some(why) = unquoted_sign(line, &words) {
        return Err(why);
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
    Ok((if words.is_empty() { Parsed::Empty } else { Parsed::Words(words) }, ignored))
}

/// The words of `line`; `None` if a quote is not closed, or an escape is not complete.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    shlex::bytes::split(&without_escapes(line)?)
}

/// Why `line` means more in a host's shell than it does here. `words` are those of the line.
///
/// The expression of find and the value of an option may have patterns.
fn unquoted_sign(line: &[u8], words: &[Vec<u8>]) -> Option<&'static str> {
    let (mut quote, mut word, mut in_word) = (None, 0, false);
    let text = without_escapes(line)?;
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        let separates = quote.is_none() && matches!(byte, b' ' | b'\t' | b'\n');
        word += usize::from(in_word && separates);
        in_word = !separates;
        match (byte, quote) {
            (b'\\', None | Some(b'"')) => {
                bytes.next();
            }
            (b'\'' | b'"', None) => quote = Some(byte),
            (_, Some(open)) if byte == open => quote = None,
            (b';' | b'&' | b'|' | b'<' | b'>', None) => {
                return Some(
                    "unquoted ;, &, |, < or >: put a name with it in quotes, and each command on \
                     a line of its own; !COMMAND runs a command of the host",
                );
            }
            (b'*' | b'?' | b'[', None) => {
                let takes_pattern = |word: &Vec<u8>| word.starts_with(b"--") || word == b"-x";
                let of_option = words.get(word.wrapping_sub(1)).is_some_and(takes_pattern);
                let may_have = words.first().is_some_and(|name| name == b"find");
                let own = words.get(word).is_some_and(|word| word.starts_with(b"--"));
                if !may_have && !own && !of_option {
                    return Some(
                        "unquoted *, ? or [: there are no patterns of names; put a name with it \
                         in quotes, or use find -name",
                    );
                }
            }
            _ => {}
        }
    }
    None
}

/// `line` with `'...'` in place of each `$'...'`, and without comments.
fn without_escapes(line: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(line.len());
    let (mut quote, mut in_word, mut rest) = (None, false, line);
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let separates = quote.is_none() && matches!(first, b' ' | b'\t' | b'\n');
        match (first, quote) {
            (b'$', None) if after.starts_with(b"'") => {
                rest = &after[1..];
                out.push(b'\'');
                while escaped(&mut rest, &mut out)? {}
                out.push(b'\'');
            }
            (b'#', None) if !in_word => {
                let end = after.iter().position(|&byte| byte == b'\n').unwrap_or(after.len());
                rest = &after[end..];
                continue;
            }
            (b'\\', None | Some(b'"')) => {
                out.push(first);
                if let Some((&next, after)) = rest.split_first() {
                    rest = after;
                    out.push(next);
                }
            }
            _ => {
                quote = match quote {
                    None if matches!(first, b'\'' | b'"') => Some(first),
                    Some(open) if first == open => None,
                    quote => quote,
                };
                out.push(first);
            }
        }
        in_word = !separates;
    }
    Some(out)
}

/// Appends the next piece of the text of `$'...'` to `out`, which is in single quotes. Returns
/// false at the end of the text; `None` if that is missing.
///
/// The escapes are those of bash. A backslash in front of any other letter is itself.
fn escaped(rest: &mut &[u8], out: &mut Vec<u8>) -> Option<bool> {
    let (&first, after) = rest.split_first()?;
    *rest = after;
    let byte = match first {
        b'\'' => return Some(false),
        b'\\' => {
            let (&letter, after) = rest.split_first()?;
            *rest = after;
            match letter {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'a' => 0x07,
                b'b' => 0x08,
                b'e' | b'E' => 0x1b,
                b'f' => 0x0c,
                b'v' => 0x0b,
                b'\\' | b'\'' | b'"' | b'?' => letter,
                b'0'..=b'7' => {
                    let (more, digits) = number(rest, 8, 2).unwrap_or_default();
                    let above = u32::from(letter - b'0') << (3 * digits);
                    ((above | more) & 0xff) as u8
                }
                b'c' if !rest.starts_with(b"'") => control(rest, out)?,
                b'x' | b'u' | b'U' => {
                    numbered(letter, rest, out);
                    return Some(true);
                }
                _ => {
                    out.push(b'\\');
                    letter
                }
            }
        }
        byte => byte,
    };
    quote(out, &[byte]);
    Some(true)
}

/// The control character that `\c` and a letter stand for. A backslash is a letter as `\\`.
fn control(rest: &mut &[u8], out: &mut Vec<u8>) -> Option<u8> {
    let (&letter, after) = rest.split_first()?;
    *rest = after;
    match letter {
        b'?' => Some(0x7f),
        b'\\' => {
            let (&next, after) = rest.split_first()?;
            *rest = after;
            if next == b'\\' {
                return Some(0x1c);
            }
            out.push(0x1c);
            Some(next)
        }
        letter => Some(letter & 0x1f),
    }
}

/// Appends what `\x` and a byte, or `\u` or `\U` and a letter's number, stand for.
fn numbered(letter: u8, rest: &mut &[u8], out: &mut Vec<u8>) {
    let most = match letter {
        b'x' => 2,
        b'u' => 4,
        _ => 8,
    };
    match number(rest, 16, most) {
        None => out.extend([b'\\', letter]),
        Some((byte, _)) if letter == b'x' => quote(out, &[byte as u8]),
        Some((number, _)) => quote(out, &encoded(number)),
    }
}

/// The bytes of the letter with this number, as bash writes them: those of UTF-8, in its scheme
/// also for the numbers that it leaves out, and none for a number of 32 bits.
fn encoded(number: u32) -> Vec<u8> {
    if number < 0x80 {
        return vec![number as u8];
    }
    // A sequence of 2 bytes has 11 bits of the number, and each further byte has 5 more.
    let Some(len) = (2..=6).find(|len| number >> (5 * len + 1) == 0) else { return Vec::new() };
    let bits = |place: u32| (number >> (6 * place)) as u8;
    let first = (0xff00_u32 >> len) as u8 | bits(len - 1);
    let others = (0..len - 1).rev().map(|place| 0x80 | bits(place) & 0x3f);
    std::iter::once(first).chain(others).collect()
}

/// A number of at most `most` digits at the beginning of `rest`, and how many it has.
fn number(rest: &mut &[u8], radix: u32, most: usize) -> Option<(u32, usize)> {
    let digit = |byte: &u8| char::from(*byte).to_digit(radix);
    let digits: Vec<u32> = rest.iter().take(most).map_while(digit).collect();
    *rest = &rest[digits.len()..];
    let value = digits.iter().fold(0, |sum, digit| sum * radix + digit);
    (!digits.is_empty()).then_some((value, digits.len()))
}

/// Appends bytes to a text in single quotes.
fn quote(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\'' => out.extend(br"'\''"),
            byte => out.push(*byte),
        }
    }
}

/// Where the last word of `text` begins; the end, if a space precedes it.
pub(crate) fn last_word(text: &str) -> usize {
    let (mut start, mut quote, mut escaped, mut dollar) = (None, None, false, false);
    for (at, &byte) in text.as_bytes().iter().enumerate() {
        let space = matches!(byte, b' ' | b'\t') && !escaped && quote.is_none();
        start = if space { None } else { start.or(Some(at)) };
        let was_escaped = escaped;
        match (byte, quote) {
            _ if escaped => escaped = false,
            (b'\\', None | Some(b'"' | b'$')) => escaped = true,
            (b'\'', None) if dollar => quote = Some(b'$'),
            (b'\'' | b'"', None) => quote = Some(byte),
            (b'\'', Some(b'$')) => quote = None,
            (_, Some(open)) if byte == open && open != b'$' => quote = None,
            _ => {}
        }
        dollar = byte == b'$' && quote.is_none() && !was_escaped;
    }
    start.unwrap_or(text.len())
}

/// The word that `text` begins: the end of a quote may be missing.
pub(crate) fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut closed = ["", "'", "\""].into_iter().map(|end| format!("{text}{end}"));
    let mut words = closed.find_map(|text| split(text.as_bytes()))?;
    Some(words.pop().unwrap_or_default())
}

/// `word` with backslashes, or as `$'...'` if it has control characters or is not UTF-8.
pub(crate) fn quoted(word: &[u8]) -> String {
    let hidden = |letter: char| letter.is_control() || changes_the_line(letter);
    let mut out = String::with_capacity(word.len());
    match std::str::from_utf8(word) {
        Ok(text) if !text.contains(hidden) => {
            for letter in text.chars() {
                let plain = letter.is_alphanumeric() || "/._-+,:@%=~^".contains(letter);
                out.extend((!plain).then_some('\\'));
                out.push(letter);
            }
            return out;
        }
        _ => {}
    }
    out.push_str("$'");
    for piece in word.utf8_chunks() {
        for letter in piece.valid().chars() {
            match letter {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\\' | '\'' => out.extend(['\\', letter]),
                letter if hidden(letter) => {
                    let bytes = letter.encode_utf8(&mut [0; 4]).bytes().collect::<Vec<u8>>();
                    out.extend(bytes.iter().map(|byte| format!("\\x{byte:02x}")));
                }
                letter => out.push(letter),
            }
        }
        out.extend(piece.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn lines_are_split_as_in_a_shell() {
        let words = |line: &str| match parse(line.as_bytes()).unwrap() {
            (Parsed::Words(words), ignored) => {
                let words = words.into_iter().map(|word| word.into_string().unwrap());
                (words.collect::<Vec<_>>().join("|"), ignored)
            }
            (other, ignored) => (format!("{other:?}"), ignored),
        };
        for (line, expected) in [
            ("ls -l  /etc", ("ls|-l|/etc", false)),
            ("  -rm 'a b' \"c d\" e\\ f # end", ("rm|a b|c d|e f", true)),
            ("- rm x", ("rm|x", true)),
            ("stat '#12' a#b", ("stat|#12|a#b", false)),
            ("# only a comment", ("Empty", false)),
            ("", ("Empty", false)),
            ("!ls 'x", ("Host(\"ls 'x\")", false)),
            ("-!false", ("Host(\"false\")", true)),
            ("xattr x ''", ("xattr|x|", false)),
            ("rm a\\ ", ("rm|a ", false)),
            ("ls /etc\r", ("ls|/etc", false)),
            ("rm 'a*' \"b;c\" d\\?e $'f|g'", ("rm|a*|b;c|d?e|f|g", false)),
            ("find / -name *.c", ("find|/|-name|*.c", false)),
            ("diff -x *.o a b", ("diff|-x|*.o|a|b", false)),
            (
                "cp -a --exclude *.o --exclude=[ab] x y",
                ("cp|-a|--exclude|*.o|--exclude=[ab]|x|y", false),
            ),
        ] {
            assert_eq!(words(line), (expected.0.to_owned(), expected.1), "{line}");
        }
        for bad in [&b"ls 'x"[..], b"ls \"x", b"ls x\\", b"ls x\0y", b"rm ''"] {
            assert!(parse(bad).is_err(), "{}", bad.escape_ascii());
        }
        for (bad, why) in [
            ("rm -rf /t; ls", ";"),
            ("mkdir /q && ls /q", "&"),
            ("cat x|wc", "|"),
            ("cat 'x' >y", ">"),
            ("rm -rf /t/*", "*"),
            ("ls 'a b'?", "*"),
            ("ls [ab]", "*"),
        ] {
            let error = parse(bad.as_bytes()).unwrap_err();
            assert!(error.starts_with("unquoted") && error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn the_last_word_is_found_and_unquoted() {
        for (text, start, word) in [
            ("", 0, ""),
            ("ls", 0, "ls"),
            ("ls ", 3, ""),
            ("ls a\\ b", 3, "a b"),
            ("ls 'a b", 3, "a b"),
            ("ls \"a b\" 'c'd", 9, "cd"),
            ("ls \"a\\\" b", 3, "a\" b"),
            ("ls $'a b $x", 3, "a b $x"),
            ("ls $'it\\'s' b$'c d", 12, "bc d"),
        ] {
            assert_eq!(last_word(text), start, "{text}");
            assert_eq!(unquoted(&text[start..]).unwrap(), word.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_quoted_word_reads_back() {
        for word in ["plain", "a b", "it's", "\"x\"", "back\\slash", "#1", "star*", "é ü", "$x;|&"]
        {
            let text = quoted(word.as_bytes());
            assert_eq!(shlex::bytes::split(text.as_bytes()).unwrap(), [word.as_bytes()], "{text}");
        }
        assert_eq!(quoted(b"it's a\nnew\\line"), r"$'it\'s a\nnew\\line'");
        assert_eq!(quoted(b"\xff\t\x1b"), r"$'\xff\t\x1b'");
        for word in
            [&b"it's\na \"new\\line"[..], b"\xff\xfe", b"\x1b[0m", "\u{202e}x".as_bytes(), b"\x01"]
        {
            let text = quoted(word);
            assert!(text.is_ascii() || word.is_ascii(), "{text}");
            assert_eq!(split(text.as_bytes()).unwrap(), [word], "{text}");
            assert_eq!(last_word(&format!("ls {text}")), 3, "{text}");
            assert_eq!(unquoted(&text).unwrap(), word, "{text}");
            assert_eq!(
                unquoted(&text[..text.len() - 1]).unwrap(),
                word,
                "a quote not closed: {text}"
            );
        }
    }

    #[test]
    fn a_dollar_begins_a_quote_only_where_it_does_in_a_shell() {
        for (line, words) in [
            (&br"ls a$'\n'b $'x y'z"[..], &[&b"ls"[..], b"a\nb", b"x yz"][..]),
            (br#"ls "$'a'" \$'b' '$'c"#, &[b"ls", b"$'a'", b"$b", b"$c"]),
            (br"ls # it is $'not", &[b"ls"]),
            (br"ls a#$'b' $ $x", &[b"ls", b"a#b", b"$", b"$x"]),
            (br"ls a\ #b ''#c", &[b"ls", b"a #b", b"#c"]),
            (b"ls # a comment\n b", &[b"ls", b"b"]),
            (br"ls $'\x41\x0a\'\\'", &[b"ls", b"A\n'\\"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{}", line.escape_ascii());
        }
        for bad in [&br"ls $'a"[..], br"ls $'\", br"ls $'\c", br"ls $'\x"] {
            assert_eq!(split(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn escapes_are_those_of_bash() {
        for (quoted, word) in [
            (&br"\141\60\7a\1411"[..], &b"a0\x07aa1"[..]),
            (br"\777\400x\8", b"\xff\0x\\8"),
            (br"\x61\x6g\x616\xg", b"a\x06ga6\\xg"),
            (br"\u00e9\ue9\u20ac1\U0001f600\u", "\u{e9}\u{e9}\u{20ac}1\u{1f600}\\u".as_bytes()),
            (br"\uD800\U00110000", b"\xed\xa0\x80\xf4\x90\x80\x80"),
            (br"\U04000000\U7fffffff", b"\xfc\x84\x80\x80\x80\x80\xfd\xbf\xbf\xbf\xbf\xbf"),
            (br"a\U80000000\Uffffffffb", b"ab"),
            (br"\c\\1\c\'2\c", b"\x1c1\x1c'2\\c"),
            (br"\e\E\cA\c?\q\'\x27\u27", b"\x1b\x1b\x01\x7f\\q'''"),
        ] {
            let line = [b"$'", quoted, b"'"].concat();
            assert_eq!(split(&line).unwrap(), [word], "{}", line.escape_ascii());
        }
        // A name of a file has no NUL.
        for bad in [&br"ls $'\0'"[..], br"ls $'\x00'", br"ls $'\u0'", br"ls $'a\400'"] {
            assert_eq!(parse(bad), Err("the line has a NUL"), "{}", bad.escape_ascii());
        }
    }
}
