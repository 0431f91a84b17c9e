//! Names of users and groups: those of the image, or of the host.

use std::collections::BTreeMap;

use ffs_core::{Error, FileType, QuotaType};

use crate::fail::{Failure, shell_word, show};
use crate::namei::{Last, PathError, namei};
use crate::parse::accounts::{Group, look_up, row};
pub(crate) use crate::parse::accounts::{Named, OwnerChange};
use crate::session::Session;

/// Largest file of users or groups that is read, bytes.
const LONGEST: u64 = 64 << 20;

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
            Some(image) => (image, format!("ffs cat {}", shell_word(&format!("{image}:{file}")))),
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
    Ok(names_of(&text))
}

/// The file of users or groups of the image; `None` if it has none.
///
/// # Errors
/// It cannot be read.
pub(crate) fn file_inside(session: &Session, kind: QuotaType) -> Result<Option<Vec<u8>>, Failure> {
    read(session, file_name(kind).0)
}

/// The name of the file of users or groups, and what it names.
pub(crate) fn place(kind: QuotaType) -> (String, &'static str) {
    let (file, what) = file_name(kind);
    (show(file), what)
}

/// The names in the text of a file of users or groups, by number.
pub(crate) fn names_of(text: &[u8]) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    for (name, named) in text.split(|&byte| byte == b'\n').filter_map(row) {
        names.entry(named.id).or_insert_with(|| show(name));
    }
    names
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
