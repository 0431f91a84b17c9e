//! Text that messages contain: escaped names and sizes.

/// Whether a character changes the order of the letters around it, or ends the line: a name with it
/// can look like another one.
#[must_use]
pub fn changes_the_line(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `name` in a form that is safe to print: control characters, those that change the line, and
/// bytes that are not UTF-8 become `\xNN`.
pub fn escape(name: impl AsRef<[u8]>) -> String {
    let mut out = String::new();
    for piece in name.as_ref().utf8_chunks() {
        for c in piece.valid().chars() {
            if c.is_control() || changes_the_line(c) {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                out.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
            } else {
                out.push(c);
            }
        }
        out.extend(piece.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

/// `bytes` in the largest binary unit that leaves at least one digit before the point: `1.5 MiB`.
#[must_use]
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A size as ls(1) and du(1) print it with `-h`, and as `sort -h` reads it: `17B`, `4.0K`.
pub fn short_size(bytes: u64) -> String {
    human_size(bytes).replace(' ', "").replace("iB", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_to_print() {
        assert_eq!(escape(b"plain name"), "plain name");
        assert_eq!(escape("gr\u{fc}n\n\x1b[31m"), "gr\u{fc}n\\x0a\\x1b[31m");
        assert_eq!(escape(b"a\xff\xc3"), "a\\xff\\xc3");
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(human_size(1023), "1023 B");
        assert_eq!(human_size(1536), "1.5 KiB");
        assert_eq!(human_size(u64::MAX), "16384.0 PiB");
        assert_eq!((short_size(0), short_size(4096)), ("0B".into(), "4.0K".into()));
    }
}
