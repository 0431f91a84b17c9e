//! Owners as chown(8) reads them, `OWNER`, `OWNER:GROUP`, `OWNER:`, `:GROUP`, by name or by number,
//! and the lines of `passwd` and `group`, which may be those of an image.

use std::convert::Infallible;
use std::str::FromStr;

/// Owner and group to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerChange {
    pub(crate) owner: Option<String>,
    pub(crate) group: Group,
}

/// The group to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The group does not change.
    Same,
    /// The login group of the owner.
    OfOwner,
    Named(String),
}

impl FromStr for OwnerChange {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<OwnerChange, Infallible> {
        let (owner, group) = match text.split_once(':') {
            None => (text, Group::Same),
            Some(("", "")) => ("", Group::Same),
            Some((owner, "")) => (owner, Group::OfOwner),
            Some((owner, group)) => (owner, Group::Named(group.to_owned())),
        };
        let owner = (!owner.is_empty()).then(|| owner.to_owned());
        Ok(OwnerChange { owner, group })
    }
}

/// A user or a group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: u32,
    /// The login group of a user.
    pub(crate) group: Option<u32>,
}

/// The line of `name` in a file of users or groups; by number if no line has that name.
pub(crate) fn look_up(text: &[u8], name: &str) -> Option<Named> {
    let rows = || text.split(|&byte| byte == b'\n').filter_map(row);
    let number: Option<u32> = name.strip_prefix('+').unwrap_or(name).parse().ok();
    let by_name = rows().find(|(line, _)| *line == name.as_bytes()).map(|(_, named)| named);
    if !name.starts_with('+')
        && let Some(named) = by_name
    {
        return Some(named);
    }
    // In chown(2) the largest number means: do not change.
    let id = number.filter(|id| *id != u32::MAX)?;
    let group = rows().find(|(_, named)| named.id == id).and_then(|(_, named)| named.group);
    Some(Named { id, group })
}

/// "name:password:id:group:..."; the fourth field of a group is its members.
pub(crate) fn row(line: &[u8]) -> Option<(&[u8], Named)> {
    let mut fields = line.split(|&byte| byte == b':');
    let (name, id, group) = (fields.next()?, fields.nth(1)?, fields.next());
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    // In chown(2) the largest number means: do not change.
    let id = number(id).filter(|id| *id != u32::MAX)?;
    Some((name, Named { id, group: group.and_then(number) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &[u8] = b"# comment\nroot:*:0:0:Charlie &:/root:/bin/sh\ntoor:*:0:0::/root:\n\
        www:*:80:81:World Wide Web:/nonexistent:\n1234:*:99:98:a number as a name:/:\nbroken:*\n\
        unset:*:4294967295:65534::/:\n";

    #[test]
    fn users_are_found_by_name_and_number() {
        let found = |name| look_up(USERS, name).map(|named| (named.id, named.group));
        assert_eq!(found("www"), Some((80, Some(81))));
        assert_eq!(found("toor"), Some((0, Some(0))));
        assert_eq!(found("80"), Some((80, Some(81))));
        assert_eq!(found("1234"), Some((99, Some(98))));
        assert_eq!(found("+1234"), Some((1234, None)));
        assert_eq!(found("70000"), Some((70_000, None)));
        for unknown in ["daemon", "broken", "unset", "", "-1", "4294967295", "4294967296", "w w"] {
            assert_eq!(found(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn owners_are_read() {
        let read = |text: &str| {
            let Ok(change) = OwnerChange::from_str(text);
            (change.owner, change.group)
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(read("me"), (name("me"), Group::Same));
        assert_eq!(read("me:"), (name("me"), Group::OfOwner));
        assert_eq!(read(":us"), (None, Group::Named("us".to_owned())));
        assert_eq!(read("me:us"), (name("me"), Group::Named("us".to_owned())));
        assert_eq!(read(":"), (None, Group::Same));
    }
}
