//! Entries of access lists: `u:joe:rw`, `g::r-x`, `m::rwx`.

/// An entry of the command line. To remove an entry, its permissions may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) tag: Tag,
    pub(crate) name: String,
    pub(crate) perm: Option<u8>,
}

/// The class of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    User,
    Group,
    Mask,
    Other,
}

/// Reads entries that are separated by commas.
pub(crate) fn words(text: &str) -> Result<Vec<Word>, String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(word).collect()
}

fn word(text: &str) -> Result<Word, String> {
    let bad = || format!("{text:?} is not an entry such as u:joe:rw, g::r-x or m::rwx");
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let (tag, rest) = parts.split_first().ok_or_else(bad)?;
    let tag = match *tag {
        "u" | "user" => Tag::User,
        "g" | "group" => Tag::Group,
        "m" | "mask" => Tag::Mask,
        "o" | "other" => Tag::Other,
        _ => return Err(bad()),
    };
    let (name, perm) = match rest {
        [name] => (*name, None),
        [name, perm] => (*name, Some(perm_of(perm).ok_or_else(bad)?)),
        _ => return Err(bad()),
    };
    if !name.is_empty() && matches!(tag, Tag::Mask | Tag::Other) {
        return Err(bad());
    }
    Ok(Word { tag, name: name.to_owned(), perm })
}

/// `rwx` with `-` for what is missing, in any order, or a digit.
fn perm_of(text: &str) -> Option<u8> {
    if let [digit @ b'0'..=b'7'] = text.as_bytes() {
        return Some(digit - b'0');
    }
    text.chars().try_fold(0, |perm, letter| {
        Some(
            perm | match letter {
                'r' => 4,
                'w' => 2,
                'x' => 1,
                '-' => 0,
                _ => return None,
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_in_every_form() {
        let all = words("u:joe:rw, group::5,m::rwx ,o::---,g:4244").unwrap();
        let perms: Vec<Option<u8>> = all.iter().map(|word| word.perm).collect();
        assert_eq!(perms, [Some(6), Some(5), Some(7), Some(0), None]);
        assert_eq!((all[0].tag, all[0].name.as_str()), (Tag::User, "joe"));
        for bad in ["x:joe:rw", "u", "u:joe:rq", "u:a:b:c", "m:joe:r", "u:joe:8"] {
            assert!(words(bad).is_err(), "{bad}");
        }
    }
}
