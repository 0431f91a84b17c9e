//! Attributes and extended attributes an object may have.
//!
//! References: `spec/fsck-and-crash.md` §9 G1, G20.

use super::super::history::{Attrs, Extended, Violation};
use super::super::raw::{Attribute, Inode};
use super::leniency::Leniency;

/// What an object's attributes were, and from where on they may still be there.
#[derive(Debug)]
pub(super) struct Traits {
    attrs: Vec<Attrs>,
    attrs_floor: usize,
    extended: Vec<Extended>,
    extended_floor: usize,
    /// A call moved the modification time since the attributes were set.
    touched: bool,
}

impl Traits {
    /// Those of a new object.
    pub(super) fn new(attrs: Attrs, extended: Extended) -> Traits {
        Traits {
            attrs: vec![attrs],
            attrs_floor: 0,
            extended: vec![extended],
            extended_floor: 0,
            touched: false,
        }
    }

    /// All attributes were set.
    pub(super) fn set(&mut self, attrs: Attrs) {
        self.attrs.push(attrs);
        self.touched = false;
    }

    /// A call moved the modification time.
    pub(super) fn touch(&mut self) {
        self.touched = true;
    }

    /// An extended attribute was set or removed.
    pub(super) fn set_extended(&mut self, namespace: u8, name: &[u8], value: Option<&[u8]>) {
        let mut now = self.extended.last().cloned().unwrap_or_default();
        let key = (namespace, name.to_vec());
        match value {
            Some(value) => now.insert(key, value.to_vec()),
            None => now.remove(&key),
        };
        self.extended.push(now);
    }

    /// The present ones are durable.
    pub(super) fn settle(&mut self) {
        self.attrs_floor = self.attrs.len() - 1;
        self.extended_floor = self.extended.len() - 1;
    }

    /// Whether the inode has attributes that it may have: mode, owner and group together.
    pub(super) fn judge(&self, inode: &Inode) -> Option<Violation> {
        let open = self.attrs.get(self.attrs_floor..).unwrap_or(&[]);
        let same = |attrs: &&Attrs| {
            (attrs.mode, attrs.uid, attrs.gid) == (inode.mode & 0o7777, inode.uid, inode.gid)
        };
        let Some(attrs) = open.iter().find(same) else {
            let what = format!(
                "inode {} has mode {:o}, owner {}, group {}; it had {open:?}",
                inode.ino,
                inode.mode & 0o7777,
                inode.uid,
                inode.gid
            );
            return Some(Violation::new("G20", what));
        };
        let settled = open.len() == 1 && !Leniency::TimeMoved.grants(self.touched);
        let time = attrs.mtime.filter(|&time| settled && time != inode.mtime)?;
        let what = format!("inode {} was modified at {}, not {time}", inode.ino, inode.mtime);
        Some(Violation::new("G1", what))
    }

    /// Whether the inode has attributes that a call has changed since (A12).
    pub(super) fn is_older(&self, inode: &Inode) -> bool {
        let now = (inode.mode & 0o7777, inode.uid, inode.gid);
        self.attrs.last().is_some_and(|attrs| (attrs.mode, attrs.uid, attrs.gid) != now)
    }

    /// Whether there ever was an extended attribute.
    pub(super) fn has_extended(&self) -> bool {
        self.extended.iter().any(|set| !set.is_empty())
    }

    /// Whether these are extended attributes that the object may have.
    pub(super) fn judge_extended(
        &self,
        ino: u32,
        found: Option<Vec<Attribute>>,
    ) -> Option<Violation> {
        let Some(found) = found else {
            let what = format!("inode {ino} has extended attributes that make no sense");
            return Some(Violation::new("G20", what));
        };
        let found = found.into_iter().map(|a| ((a.namespace, a.name), a.value));
        let found: Extended = found.collect();
        let open = self.extended.get(self.extended_floor..).unwrap_or(&[]);
        if open.contains(&found) {
            return None;
        }
        let shown = |set: &Extended| -> Vec<String> {
            let names = set.iter();
            names
                .map(|((_, n), v)| format!("{}: {} bytes", String::from_utf8_lossy(n), v.len()))
                .collect()
        };
        let had: Vec<Vec<String>> = open.iter().map(shown).collect();
        let what = format!("inode {ino} has the attributes {:?}; it had {had:?}", shown(&found));
        Some(Violation::new("G20", what))
    }
}
