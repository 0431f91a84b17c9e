//! Texts that the command reads, by its own parsers: lines of `ffs shell`, modes, owners, access
//! lists, numbers, values of `ffs find`, limits, and the files of users and groups of an image.

use crate::parse::line::{self, Parsed};
use crate::parse::{accounts, acl, find, mode::ModeChange, number, printf, quota};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Words of a line that are read in every way.
const MOST: usize = 8;

/// Reads `bytes` with each parser.
///
/// # Panics
/// On a failure.
pub(crate) fn read(bytes: &[u8]) {
    for text in bytes.split(|&byte| byte == b'\n') {
        shell_line(text);
        let text = String::from_utf8_lossy(text);
        completion(&text);
        text.split(' ').take(MOST).for_each(word);
    }
    // The text is a file of users, too, and its first lines are names.
    let text = String::from_utf8_lossy(bytes);
    for name in text.lines().flat_map(|line| line.split(':').next()).take(MOST) {
        let found = accounts::look_up(bytes, name);
        assert!(found.is_none_or(|named| named.id != u32::MAX), "an owner that is none: {name:?}");
    }
}

/// The words of a line, and the same words quoted.
fn shell_line(text: &[u8]) {
    let Ok((Parsed::Words(words), _)) = line::parse(text) else { return };
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    assert!(!words.is_empty() && words.iter().all(|word| !word.contains(&0)));
    let quoted: Vec<String> = words.iter().map(|word| line::quoted(word)).collect();
    // An empty word has no quoted form, and a minus in front of a command is a mark.
    let plain = words.iter().all(|word| !word.is_empty()) && !words[0].starts_with(b"-");
    if !plain {
        return;
    }
    let again = line::parse(quoted.join(" ").as_bytes());
    let Ok((Parsed::Words(again), false)) = again else { panic!("{quoted:?}: {again:?}") };
    assert!(again.iter().map(|word| word.as_bytes()).eq(words), "{again:?}");
}

fn completion(text: &str) {
    let (done, word) = text.split_at(line::last_word(text));
    if let Some(word) = line::unquoted(word)
        && !word.is_empty()
    {
        let quoted = line::quoted(&word);
        assert_eq!(line::unquoted(&quoted), Some(word), "after {done:?}");
    }
}

fn word(text: &str) {
    if let Ok(change) = ModeChange::parse(text) {
        for (old, directory) in [(0, false), (0o644, false), (0o6755, true)] {
            assert!(change.apply(old, directory, 0o022) <= 0o7777, "{text:?}");
        }
    }
    let Ok(owner) = text.parse::<accounts::OwnerChange>();
    assert!(owner.owner.is_none_or(|name| !name.is_empty()), "{text:?}");
    let _ = acl::words(text);
    let _ = printf::parse(text);
    numbers(text);
    let (_, rest) = find::bits(text);
    assert!(text.ends_with(rest));
    for (number, unit) in [
        find::number(text).map(|number| (number, 1)),
        find::size(text).and_then(|(number, unit)| Some((number, i64::try_from(unit).ok()?))),
        find::time(text, find::DAY),
    ]
    .into_iter()
    .flatten()
    {
        let _ = number.times(unit).holds(0);
    }
    if let Ok((volume, _)) = quota::parse_edit(OsStr::new(text)) {
        assert!(text.as_bytes().starts_with(volume.as_bytes()), "{text:?}");
        assert_eq!(volume.is_empty(), text.is_empty(), "{text:?}");
    }
    let _ = quota::grace(text);
}

/// A size without a suffix is in sectors, one with a suffix is the same number in both.
fn numbers(text: &str) {
    if let Ok(size) = number::sectors(text) {
        let bytes = number::number(text);
        assert!(bytes == Ok(size) || bytes == Ok(size / number::SECTOR), "{text:?}: {size}");
    }
    let _ = number::number32(text);
    if let Ok((uid, gid)) = number::owner(text) {
        assert_eq!(number::owner(&format!("{uid}:{gid}")), Ok((uid, gid)));
    }
    assert!(number::mode(text).is_ok_and(|mode| mode <= 0o7777) || number::mode(text).is_err());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_kind_are_read() {
        read(b"ls -l 'a b' \\#1 u+rwX,go=r root:wheel u:joe:rw 64k +4k -2h /4000\nset a.img:1m:2g");
        read(b"root:*:0:0::/:\nwww:*:80:80::/:\nno:*:4294967295:1::/:\n\xff\xfe 'x");
        read(b"");
    }
}
