//! Access lists as text: `user:joe:rw-`, as getfacl(1) and setfacl(1) of FreeBSD have them.

use ffs_core::QuotaType;
use ffs_core::acl::{Entry, Who};

use crate::fail::Failure;
use crate::owner::id_of;
use crate::session::Session;

/// An entry as text; `name` gives the name of a user or a group.
pub(crate) fn show(entry: &Entry, name: impl Fn(QuotaType, u32) -> String) -> String {
    let bit = |bit: u8, letter: char| if entry.perm & bit != 0 { letter } else { '-' };
    let perm: String = [bit(4, 'r'), bit(2, 'w'), bit(1, 'x')].into_iter().collect();
    match entry.who {
        Who::UserObj => format!("user::{perm}"),
        Who::User(id) => format!("user:{}:{perm}", name(QuotaType::User, id)),
        Who::GroupObj => format!("group::{perm}"),
        Who::Group(id) => format!("group:{}:{perm}", name(QuotaType::Group, id)),
        Who::Mask => format!("mask::{perm}"),
        Who::Other => format!("other::{perm}"),
    }
}

/// An entry of the command line. To remove an entry, its permissions may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    tag: Tag,
    name: String,
    perm: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
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

impl Word {
    /// The user or group class of the entry. Names are those of the image.
    ///
    /// # Errors
    /// The name is unknown.
    pub(crate) fn who(&self, session: &Session) -> Result<Who, Failure> {
        Ok(match (self.tag, self.name.as_str()) {
            (Tag::User, "") => Who::UserObj,
            (Tag::User, name) => Who::User(id_of(Some(session), QuotaType::User, name)?),
            (Tag::Group, "") => Who::GroupObj,
            (Tag::Group, name) => Who::Group(id_of(Some(session), QuotaType::Group, name)?),
            (Tag::Mask, _) => Who::Mask,
            (Tag::Other, _) => Who::Other,
        })
    }

    /// The permissions.
    ///
    /// # Errors
    /// They are missing.
    pub(crate) fn perm(&self) -> Result<u8, Failure> {
        self.perm
            .ok_or_else(|| Failure::usage("an entry without permissions can only be removed (-x)"))
    }
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

    #[test]
    fn entries_are_shown_as_getfacl_shows_them() {
        let name = |_, id: u32| format!("#{id}");
        let show = |who, perm| show(&Entry { who, perm }, name);
        assert_eq!(show(Who::User(7), 5), "user:#7:r-x");
        assert_eq!(show(Who::GroupObj, 0), "group::---");
        assert_eq!(show(Who::Mask, 7), "mask::rwx");
    }
}
