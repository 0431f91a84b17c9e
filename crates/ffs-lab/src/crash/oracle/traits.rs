//! The attributes and extended attributes that a crash may leave.
//!
//! References: `spec/fsck-and-crash.md` §9 G1, G20.

use super::super::history::{Attrs, Extended, Violation};
use super::super::raw::{Attribute, Inode};
use super::leniency::Leniency;

/// The attributes of an object over time. The floors are the positions of the durable sets.
#[derive(Debug)]
pub(super) struct Traits {
    attrs: Vec<Attrs>,
    attrs_floor: usize,
    extended: Vec<Extended>,
    extended_floor: usize,
    /// Whether a call changed the modification time since the attributes were set.
    touched: bool,
}

impl Traits {
    /// The attributes of a new object.
    pub(super) fn new(attrs: Attrs, extended: Extended) -> Traits {
        Traits {
            attrs: vec![attrs],
            attrs_floor: 0,
            extended: vec![extended],
            extended_floor: 0,
            touched: false,
        }
    }

    /// Records that a call set the attributes.
    pub(super) fn set(&mut self, attrs: Attrs) {
        self.attrs.push(attrs);
        self.touched = false;
    }

    /// Records that a call changed the modification time.
    pub(super) fn touch(&mut self) {
        self.touched = true;
    }

    /// Records that a call set or removed an extended attribute.
    pub(super) fn set_extended(&mut self, namespace: u8, name: &[u8], value: Option<&[u8]>) {
        let mut now = self.extended.last().cloned().unwrap_or_default();
        let key = (namespace, name.to_vec());
        match value {
            Some(value) => now.insert(key, value.to_vec()),
            None => now.remove(&key),
        };
        self.extended.push(now);
    }

    /// Makes the current attributes durable.
    pub(super) fn settle(&mut self) {
        self.attrs_floor = self.attrs.len() - 1;
        self.extended_floor = self.extended.len() - 1;
    }

    /// Checks mode, owner and group together, and the modification time.
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

    /// Whether the inode has other attributes than the last call set (A12).
    pub(super) fn is_older(&self, inode: &Inode) -> bool {
        let now = (inode.mode & 0o7777, inode.uid, inode.gid);
        self.attrs.last().is_some_and(|attrs| (attrs.mode, attrs.uid, attrs.gid) != now)
    }

    /// Whether the object ever had an extended attribute.
    pub(super) fn has_extended(&self) -> bool {
        self.extended.iter().any(|set| !set.is_empty())
    }

    /// Checks the extended attributes that were found; `None` if they cannot be decoded.
    pub(super) fn judge_extended(
        &self,
        ino: u32,
        found: Option<Vec<Attribute>>,
    ) -> Option<Violation> {
        let Some(found) = found else {
            let what = format!("inode {ino} has extended attributes that cannot be decoded");
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
