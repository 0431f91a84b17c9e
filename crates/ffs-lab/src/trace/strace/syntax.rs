//! The syntax of a line of `strace -f -ttt`.
//!
//! # Invariants
//! A line is split without a look at what its call means. Texts are given back as the bytes that
//! the program passed.

/// A line without its process and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A complete call.
    Call(SystemCall),
    /// The begin of a call: its name and the text of the arguments so far.
    Begin(String, String),
    /// The end of a call that began before: its name and the rest of the text.
    Resume(String, String),
    /// The process ended.
    Exit,
    /// A signal, or another remark.
    Remark,
}

/// A system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SystemCall {
    pub(super) name: String,
    pub(super) args: Vec<Arg>,
    /// The result; `None` if strace shows none.
    pub(super) result: Option<i64>,
    /// The name of the error.
    pub(super) error: Option<String>,
    /// The duration in nanoseconds (`-T`); 0 without.
    pub(super) took: u64,
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Arg {
    /// A text in quotation marks.
    Text(Vec<u8>),
    /// Anything else, as it is shown.
    Raw(String),
}

type Parsed<T> = Result<T, String>;

/// Splits a line: the process (0 without `-f`), the time in nanoseconds, and the event.
pub(super) fn line(text: &str) -> Parsed<(u32, u64, Event)> {
    let text = text.trim_end();
    let (pid, rest) = process(text)?;
    let (time, rest) = rest.split_once(' ').ok_or(NO_TIME)?;
    let time = nanoseconds(time).ok_or(NO_TIME)?;
    Ok((pid, time, event(rest.trim_start())?))
}

const NO_TIME: &str = "expected a time in seconds with a fraction (strace -f -ttt)";

fn process(text: &str) -> Parsed<(u32, &str)> {
    let number = |digits: &str| digits.trim().parse::<u32>().map_err(|_| NO_PROCESS.to_owned());
    if let Some(rest) = text.strip_prefix("[pid") {
        let (digits, rest) = rest.split_once(']').ok_or(NO_PROCESS)?;
        return Ok((number(digits)?, rest.trim_start()));
    }
    match text.split_once(' ') {
        Some((digits, rest)) if !digits.contains('.') => Ok((number(digits)?, rest.trim_start())),
        _ => Ok((0, text)),
    }
}

const NO_PROCESS: &str = "expected the number of a process or a time (strace -f -ttt)";

fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = fraction.len();
    if digits == 0 || digits > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - u32::try_from(digits).ok()?);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

fn event(text: &str) -> Parsed<Event> {
    if text.starts_with("+++") {
        return Ok(Event::Exit);
    }
    if text.starts_with("---") {
        return Ok(Event::Remark);
    }
    if let Some(rest) = text.strip_prefix("<... ") {
        let (name, rest) = rest.split_once(" resumed>").ok_or("expected '<... CALL resumed>'")?;
        return Ok(Event::Resume(name.to_owned(), rest.to_owned()));
    }
    let (name, rest) = text.split_once('(').ok_or("expected 'CALL(ARGUMENTS) = RESULT'")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("'{}' is no name of a call", name.escape_debug()));
    }
    match rest.strip_suffix("<unfinished ...>") {
        Some(front) => Ok(Event::Begin(name.to_owned(), front.to_owned())),
        None => Ok(Event::Call(call(name, rest)?)),
    }
}

/// Parses what follows the opening parenthesis of a call.
pub(super) fn call(name: &str, text: &str) -> Parsed<SystemCall> {
    let (args, rest) = arguments(text)?;
    let rest = rest.trim_start().strip_prefix('=').ok_or("expected '= RESULT' after a call")?;
    let (rest, took) = match rest.trim().strip_suffix('>').and_then(|r| r.rsplit_once('<')) {
        Some((front, seconds)) if nanoseconds(seconds).is_some() => {
            (front.trim(), nanoseconds(seconds).unwrap_or(0))
        }
        _ => (rest.trim(), 0),
    };
    let mut words = rest.split_ascii_whitespace();
    let shown = words.next().ok_or("expected a result after '='")?;
    let result = match shown.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => shown.split('<').next().and_then(|digits| digits.parse().ok()),
    };
    if result.is_none() && shown != "?" && !shown.starts_with("0x") {
        return Err(format!("result '{}': expected a number", shown.escape_debug()));
    }
    let is_error = |word: &&str| word.starts_with('E') && word.len() > 2;
    let error = words.next().filter(is_error).filter(|_| result.is_none_or(|n| n < 0));
    let error = error.map(|word| word.to_owned());
    Ok(SystemCall { name: name.to_owned(), args, result, error, took })
}

/// Splits arguments at commas, up to the closing parenthesis. Returns the rest of the line, too.
fn arguments(text: &str) -> Parsed<(Vec<Arg>, &str)> {
    let bytes = text.as_bytes();
    let (mut args, mut begin, mut at, mut depth) = (Vec::new(), 0, 0, 0_u32);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = text_end(bytes, at)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                if !text[begin..at].trim().is_empty() {
                    args.push(argument(&text[begin..at])?);
                }
                return Ok((args, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                args.push(argument(&text[begin..at])?);
                begin = at + 1;
            }
            b'/' if bytes[at..].starts_with(b"/*") => {
                let rest = text[at..].find("*/").ok_or("a comment has no end")?;
                at += rest + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Err("expected ')' after the arguments".to_owned())
}

/// The index of the closing quotation mark of the text that begins at `at`.
fn text_end(bytes: &[u8], at: usize) -> Parsed<usize> {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => return Ok(end),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    Err("a text has no closing quotation mark".to_owned())
}

fn argument(text: &str) -> Parsed<Arg> {
    let text = text.trim();
    let Some(inside) = text.strip_prefix('"') else { return Ok(Arg::Raw(text.to_owned())) };
    let end = text_end(text.as_bytes(), 0)?;
    unescape(&inside[..end - 1]).map(Arg::Text)
}

/// The bytes of a text with the escapes of C.
fn unescape(text: &str) -> Parsed<Vec<u8>> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let escaped = bytes.get(at).ok_or("a text ends in a backslash")?;
        at += 1;
        out.push(match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'a' => 0x07,
            b'b' => 0x08,
            b'x' => {
                let byte = digits(bytes, at, 2, 16).ok_or("expected two digits after \\x")?;
                at += 2;
                byte
            }
            b'0'..=b'7' => {
                let from = at - 1;
                let octal = |b: &&u8| (b'0'..=b'7').contains(*b);
                let count = bytes[from..].iter().take(3).take_while(octal).count();
                at = from + count;
                digits(bytes, from, count, 8).ok_or("a byte in octal digits is above 377")?
            }
            other => *other,
        });
    }
    Ok(out)
}

fn digits(bytes: &[u8], at: usize, count: usize, radix: u32) -> Option<u8> {
    let digits = std::str::from_utf8(bytes.get(at..at + count)?).ok()?;
    if digits.starts_with('+') {
        return None;
    }
    u8::from_str_radix(digits, radix).ok()
}

impl Arg {
    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&[u8]> {
        match self {
            Arg::Text(text) => Some(text),
            Arg::Raw(_) => None,
        }
    }

    /// What is shown, if it is no text.
    pub(super) fn raw(&self) -> &str {
        match self {
            Arg::Text(_) => "",
            Arg::Raw(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_of(text: &str) -> SystemCall {
        match line(text).unwrap().2 {
            Event::Call(call) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_taken_apart() {
        let text = concat!(
            r#"17 1700000000.000250 openat(AT_FDCWD, "a\"b\303\274,)", "#,
            "O_RDWR|O_CREAT, 0644) = 3 <0.000012>"
        );
        let (pid, time, _) = line(text).unwrap();
        assert_eq!((pid, time), (17, 1_700_000_000_000_250_000));
        let call = call_of(text);
        assert_eq!((call.name.as_str(), call.args.len(), call.took), ("openat", 4, 12_000));
        assert_eq!(call.args[1].text().unwrap(), "a\"b\u{fc},)".as_bytes());
        assert_eq!((call.args[2].raw(), call.result), ("O_RDWR|O_CREAT", Some(3)));
        let failed = call_of(r#"1.5 stat("x", 0x7ffe) = -1 ENOENT (No such file or directory)"#);
        assert_eq!((failed.result, failed.error.as_deref()), (Some(-1), Some("ENOENT")));
        let times =
            call_of("[pid  9] 1.5 utimensat(3, NULL, [{tv_sec=1} /* a, ) */, {tv_sec=3}], 0) = 0");
        assert_eq!(times.args.len(), 4);
        assert!(times.args[2].raw().contains("tv_sec=3"));
        assert!(matches!(line("5 1.5 +++ exited with 0 +++").unwrap().2, Event::Exit));
        assert!(matches!(line("5 1.5 --- SIGCHLD {si=1} ---").unwrap().2, Event::Remark));
        let begin = line(r#"5 1.5 read(3,  <unfinished ...>"#).unwrap().2;
        assert_eq!(begin, Event::Begin("read".to_owned(), "3,  ".to_owned()));
        let end = line(r#"5 1.6 <... read resumed>"", 10) = 0"#).unwrap().2;
        assert_eq!(end, Event::Resume("read".to_owned(), "\"\", 10) = 0".to_owned()));
    }

    #[test]
    fn lines_that_are_none_are_refused() {
        for wrong in [
            "",
            "17",
            "x 1.5 close(3) = 0",
            "17 15 close(3) = 0",
            "1.5 close 3",
            "1.5 close(3 = 0",
            "1.5 close(3)",
            "1.5 close(3) = zero",
            r#"1.5 open("a) = 3"#,
            r#"1.5 open("\x4", 0) = 3"#,
            r#"1.5 open("\777", 0) = 3"#,
            "1.5 cl ose(3) = 0",
            "1.5 f(/* x) = 0",
            "1.5 <... read = 0",
        ] {
            assert!(line(wrong).is_err(), "{wrong}");
        }
    }
}
