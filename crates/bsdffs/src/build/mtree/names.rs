//! The numbers of users and groups.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The numbers of the names of users and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserNames {
    users: BTreeMap<String, u32>,
    groups: BTreeMap<String, u32>,
}

impl UserNames {
    /// Reads `master.passwd` or `passwd`, and `group`, in a directory such as `etc` of the tree. A
    /// file that does not exist has no names.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(dir: &Path) -> io::Result<UserNames> {
        let read = |name: &str| match fs::read(dir.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let users = match read("master.passwd")? {
            Some(users) => Some(users),
            None => read("passwd")?,
        };
        let groups = read("group")?;
        let [users, groups] = [users, groups].map(|text| numbers(&text.unwrap_or_default()));
        Ok(UserNames { users, groups })
    }

    /// The number of a user: of the name, or the name itself if it is a number.
    pub(super) fn user(&self, name: &str) -> Option<u32> {
        self.users.get(name).copied().or_else(|| name.parse().ok())
    }

    /// The number of a group.
    pub(super) fn group(&self, name: &str) -> Option<u32> {
        self.groups.get(name).copied().or_else(|| name.parse().ok())
    }
}

/// The first and the third field of each line.
fn numbers(text: &[u8]) -> BTreeMap<String, u32> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut all = BTreeMap::new();
    for line in lines {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(id))) = (fields.next(), fields.nth(1).map(str::parse)) {
            all.entry(name.to_owned()).or_insert(id);
        }
    }
    all
}
