//! Owners as chown(8) reads them: `OWNER`, `OWNER:GROUP`, `OWNER:`, `:GROUP`, by name or by number.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::str::FromStr;

use ffs_core::{Error, FileType, QuotaType};

use crate::fail::{Failure, show};
use crate::namei::{Last, PathError, namei};
use crate::session::Session;

/// Largest file of users or groups that is read, bytes.
const LONGEST: u64 = 64 << 20;

/// Owner and group to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerChange {
    owner: Option<String>,
    group: Group,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Group {
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

impl OwnerChange {
    /// The numbers of the owner and the group to set. Names are looked up in the image.
    ///
    /// # Errors
    /// A name is unknown.
    pub(crate) fn resolve(&self, session: &Session) -> Result<(Option<u32>, Option<u32>), Failure> {
        let owner = match &self.owner {
            Some(name) => Some(Named::of(Some(session), b"/etc/passwd", "user", name)?),
            None => None,
        };
        let gid = match (&self.group, &owner) {
            (Group::Same, _) => None,
            (Group::Named(name), _) => {
                Some(Named::of(Some(session), b"/etc/group", "group", name)?.id)
            }
            (Group::OfOwner, Some(Named { group: Some(group), .. })) => Some(*group),
            (Group::OfOwner, _) => {
                let name = self.owner.as_deref().unwrap_or_default();
                let why = "the password file has no login group for this user";
                return Err(Failure::new(show(name), why).hint("write OWNER:GROUP"));
            }
        };
        Ok((owner.map(|owner| owner.id), gid))
    }
}

/// A user or a group.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    id: u32,
    /// The login group of a user.
    group: Option<u32>,
}

impl Named {
    /// The user or group `name` in `file` of the image; of the host if the image has no such file,
    /// or without an image.
    fn of(
        session: Option<&Session>,
        file: &[u8],
        what: &str,
        name: &str,
    ) -> Result<Named, Failure> {
        let (image, text) = file_of(session, file)?;
        if let Some(named) = look_up(&text, name) {
            return Ok(named);
        }
        let file = show(file);
        let (whose, print) = match image {
            Some(image) => (image, format!("ffs cat {image}:{file}")),
            None => ("the host", format!("cat {file}")),
        };
        let failure = Failure::new(show(name), format!("no such {what} in {file} of {whose}"));
        Err(failure.hint(format!("print the names with `{print}`, or give a number")))
    }
}

/// The file of users or of groups.
fn file_name(kind: QuotaType) -> (&'static [u8], &'static str) {
    match kind {
        QuotaType::User => (b"/etc/passwd", "user"),
        QuotaType::Group => (b"/etc/group", "group"),
    }
}

/// The id of a user or group, by name or by number.
///
/// # Errors
/// The name is unknown.
pub(crate) fn id_of(
    session: Option<&Session>,
    kind: QuotaType,
    name: &str,
) -> Result<u32, Failure> {
    let (file, what) = file_name(kind);
    Named::of(session, file, what, name).map(|named| named.id)
}

/// The names of all users or groups, by number.
///
/// # Errors
/// The file in the image cannot be read.
pub(crate) fn names(
    session: Option<&Session>,
    kind: QuotaType,
) -> Result<BTreeMap<u32, String>, Failure> {
    let (_, text) = file_of(session, file_name(kind).0)?;
    let mut names = BTreeMap::new();
    for (name, named) in text.split(|&byte| byte == b'\n').filter_map(row) {
        names.entry(named.id).or_insert_with(|| show(name));
    }
    Ok(names)
}

/// The file `file` of the image, with the name of the image, or else that of the host.
fn file_of<'s>(
    session: Option<&'s Session>,
    file: &[u8],
) -> Result<(Option<&'s str>, Vec<u8>), Failure> {
    if let Some(session) = session
        && let Some(text) = read(session, file)?
    {
        return Ok((Some(session.image()), text));
    }
    // A host without such a file has no names.
    Ok((None, std::fs::read(show(file)).unwrap_or_default()))
}

/// The line of `name` in a file of users or groups; by number if no line has that name.
fn look_up(text: &[u8], name: &str) -> Option<Named> {
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
fn row(line: &[u8]) -> Option<(&[u8], Named)> {
    let mut fields = line.split(|&byte| byte == b':');
    let (name, id, group) = (fields.next()?, fields.nth(1)?, fields.next());
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    Some((name, Named { id: number(id)?, group: group.and_then(number) }))
}

/// The file at `path` of the image; `None` if there is none.
fn read(session: &Session, path: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let file = match namei(&session.ffs, &session.cred, path, Last::Follow) {
        Ok(file) => file,
        Err(PathError::Fs(Error::NotFound | Error::NotDirectory)) => return Ok(None),
        Err(error) => return Err(session.failed(path, error)),
    };
    let attr = session.ffs.getattr(&file);
    if attr.kind != FileType::Regular || attr.size > LONGEST {
        let what = format!("{}:{}", session.image(), show(path));
        let why = "is not a regular file of at most 64 MiB";
        return Err(Failure::new(what, why).hint("give numbers instead of names"));
    }
    let mut text = vec![0; attr.size as usize];
    let len = session.ffs.read(&file, 0, &mut text).map_err(|error| session.failed(path, error))?;
    text.truncate(len);
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &[u8] = b"# comment\nroot:*:0:0:Charlie &:/root:/bin/sh\ntoor:*:0:0::/root:\n\
        www:*:80:81:World Wide Web:/nonexistent:\n1234:*:99:98:a number as a name:/:\nbroken:*\n";

    #[test]
    fn users_are_found_by_name_and_number() {
        let found = |name| look_up(USERS, name).map(|named| (named.id, named.group));
        assert_eq!(found("www"), Some((80, Some(81))));
        assert_eq!(found("toor"), Some((0, Some(0))));
        assert_eq!(found("80"), Some((80, Some(81))));
        assert_eq!(found("1234"), Some((99, Some(98))));
        assert_eq!(found("+1234"), Some((1234, None)));
        assert_eq!(found("70000"), Some((70_000, None)));
        for unknown in ["daemon", "broken", "", "-1", "4294967295", "4294967296", "w w"] {
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
