//! Extended attributes and access lists.

use ffs_core::acl::{Acl, Entry, Who};
use ffs_core::{Error, Vnode, XattrNamespace, XattrSet};

use super::super::history::{Action, Attrs, Extended};
use super::super::op::{List, Path};
use super::{ActionResult, Executor};

/// The prefix of attributes in the system name space.
const SYSTEM: &str = "system:";

/// The value of an extended attribute of `len` bytes in version `version`.
fn xattr_value(version: u32, len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(7) ^ version.wrapping_mul(31)) as u8).collect()
}

/// The number of a name space on disk.
fn number(namespace: XattrNamespace) -> u8 {
    match namespace {
        XattrNamespace::User => 1,
        XattrNamespace::System => 2,
    }
}

/// An access list that grants `perm` to `user`, everything to the owner, and nothing to others.
fn list_for(user: u32, perm: u8) -> Result<Acl, Error> {
    let entry = |who, perm| Entry { who, perm };
    Acl::new(vec![
        entry(Who::UserObj, 7),
        entry(Who::User(user), perm),
        entry(Who::GroupObj, 0),
        entry(Who::Mask, 7),
        entry(Who::Other, 0),
    ])
}

impl Executor {
    pub(super) fn set_xattr(&mut self, path: &Path, name: &str, len: Option<u32>) -> ActionResult {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let (space, key) = match name.strip_prefix(SYSTEM) {
            Some(key) => (XattrNamespace::System, key.as_bytes()),
            None => (XattrNamespace::User, name.as_bytes()),
        };
        let value = len.map(|len| {
            self.tree.version += 1;
            xattr_value(self.tree.version, len)
        });
        match &value {
            Some(value) => self.fs.setxattr(&self.cred, &file, space, key, value, XattrSet::Any)?,
            None => self.fs.removexattr(&self.cred, &file, space, key)?,
        }
        Ok(vec![Action::XattrChanged { obj, namespace: number(space), name: key.to_vec(), value }])
    }

    pub(super) fn set_acl(
        &mut self,
        path: &Path,
        list: List,
        grant: Option<(u32, u8)>,
    ) -> ActionResult {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let acl = grant.map(|(user, perm)| list_for(user, perm)).transpose()?;
        let before = self.extended(&file)?;
        match list {
            List::Access => self.fs.set_access_acl(&self.cred, &file, acl.as_ref(), false)?,
            List::Default => self.fs.set_default_acl(&self.cred, &file, acl.as_ref())?,
        }
        let after = self.extended(&file)?;
        let names = before.keys().chain(after.keys());
        let changed = names.filter(|key| before.get(*key) != after.get(*key));
        let mut done: Vec<Action> = changed
            .map(|key @ (namespace, name)| Action::XattrChanged {
                obj,
                namespace: *namespace,
                name: name.clone(),
                value: after.get(key).cloned(),
            })
            .collect();
        done.dedup();
        let attr = self.fs.getattr(&file);
        if let Some(known) = self.tree.attrs.get_mut(obj.0 as usize) {
            let attrs = Attrs { mode: attr.perm, uid: attr.uid, gid: attr.gid, mtime: known.mtime };
            if std::mem::replace(known, attrs) != attrs {
                done.push(Action::AttrsChanged { obj, attrs });
            }
        }
        Ok(done)
    }

    /// All extended attributes of a file.
    pub(super) fn extended(&self, file: &Vnode) -> Result<Extended, Error> {
        let root = ffs_core::Cred::root();
        let names = match self.fs.listxattr(&root, file) {
            Err(Error::NotSupported(_)) => Vec::new(),
            names => names?,
        };
        let value = |(space, name): (XattrNamespace, Vec<u8>)| {
            let value = self.fs.getxattr(&root, file, space, &name)?;
            Ok(((number(space), name), value))
        };
        names.into_iter().map(value).collect()
    }
}
