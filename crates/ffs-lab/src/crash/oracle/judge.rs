//! The comparison of a tree with the history: a walk from the root.
//!
//! References: `spec/fsck-and-crash.md` §11.4.

use std::cell;
use std::collections::BTreeMap;

use ffs_ondisk::exchange::PREFIX;
use ffs_ondisk::{Ino, journal};

use super::super::history::{Allowed, Life, ObjId, ObjKind, ROOT, Violation};
use super::super::image::ImageBytes;
use super::super::raw::{Inode, Tree};
use super::cell::{Cell, Fit};
use super::content::Seen;
use super::leniency::Leniency;
use super::renames::Publication;
use super::{Condition, Expectation, Promise, SoftUpdateOptions};

/// The root directory's inode.
const ROOT_INO: Ino = Ino(2);

/// The state of the walk.
struct Walk<'a> {
    image: &'a dyn ImageBytes,
    tree: &'a Tree,
    condition: Condition,
    /// The object that each cell names in the tree.
    values: Vec<Option<ObjId>>,
    /// Cells whose names lead to no inode; the object is unknown.
    broken: Vec<usize>,
    /// Objects that have a name, with their inodes.
    found: BTreeMap<ObjId, Ino>,
    /// Directories to be read.
    open: Vec<(ObjId, Ino)>,
    /// The allowed states that only the history shows: A11, A12.
    seen: Allowed,
}

impl Expectation {
    /// Walks the tree from the root. Returns which of A11 and A12 it shows.
    pub(super) fn walk(
        &self,
        image: &dyn ImageBytes,
        tree: &Tree,
        condition: Condition,
        out: &mut Vec<Violation>,
    ) -> Allowed {
        let values = vec![None; self.model.names.cells.len()];
        let open = vec![(ROOT, ROOT_INO)];
        let (found, broken) = (BTreeMap::new(), Vec::new());
        let seen = Allowed::default();
        let mut walk = Walk { image, tree, condition, values, broken, found, open, seen };
        while let Some((dir, ino)) = walk.open.pop() {
            if walk.found.insert(dir, ino).is_none() {
                self.directory(&mut walk, dir, ino, out);
            }
        }
        self.missing(&walk, out);
        self.renames(&walk, out);
        self.exchanges(&walk, out);
        self.removals(&walk, out);
        for (obj, ino) in walk.found.clone() {
            if let Some(inode) = tree.inode(ino) {
                self.object(&mut walk, obj, inode, out);
            }
        }
        walk.seen
    }

    fn directory(&self, walk: &mut Walk<'_>, dir: ObjId, ino: Ino, out: &mut Vec<Violation>) {
        let tree = walk.tree;
        for entry in tree.entries(ino) {
            let show = || String::from_utf8_lossy(entry.name).into_owned();
            let Some(cell) = self.model.names.find(dir, entry.name) else {
                if self.is_open_exchange(walk.condition, dir, entry.name) {
                    self.exchange_record(walk, entry.ino);
                } else if !self.expected_stranger(dir, entry.name) {
                    let what = format!("{} in {dir}: the workload never created this name", show());
                    out.push(Violation::new("X5", what));
                }
                continue;
            };
            let Some(inode) = tree.inode(entry.ino) else {
                // The raw checker reports it.
                walk.broken.push(cell);
                continue;
            };
            let life = Life { ino: entry.ino, generation: inode.generation };
            let Some(&obj) = self.model.lives.get(&life) else {
                let what = format!(
                    "{} in {dir} names inode {} of generation {:#x}: no object of the workload",
                    show(),
                    entry.ino.0,
                    life.generation
                );
                out.push(Violation::new("F10", what));
                continue;
            };
            if let Some(value) = walk.values.get_mut(cell) {
                *value = Some(obj);
            }
            if self.is_directory(obj) {
                walk.open.push((obj, entry.ino));
            } else {
                walk.found.insert(obj, entry.ino);
            }
        }
    }

    /// Whether newfs, tunefs or a reconnecting fsck makes this name.
    fn expected_stranger(&self, dir: ObjId, name: &[u8]) -> bool {
        let reconnects = !matches!(self.promise, Promise::SoftUpdates(_));
        let made = name == b".snap" || name == journal::NAME;
        let expected = made || reconnects && name == b"lost+found";
        Leniency::SystemNames.grants(dir == ROOT && expected)
    }

    /// Whether the name is the record of an exchange, which a check or the next mount completes.
    fn is_open_exchange(&self, condition: Condition, dir: ObjId, name: &[u8]) -> bool {
        let ends = matches!(self.promise, Promise::SoftUpdates(_));
        let open = condition == Condition::Untouched || !ends;
        let aside = dir == ROOT && name.starts_with(PREFIX);
        Leniency::OpenExchange.grants(open && aside)
    }

    /// Counts the object that the record of an exchange names as found.
    fn exchange_record(&self, walk: &mut Walk<'_>, ino: Ino) {
        let Some(inode) = walk.tree.inode(ino) else { return };
        let Some(&obj) = self.model.lives.get(&Life { ino, generation: inode.generation }) else {
            return;
        };
        if self.is_directory(obj) {
            walk.open.push((obj, ino));
        } else {
            walk.found.insert(obj, ino);
        }
    }

    /// Reports names that must exist and do not, and names that must not exist.
    fn missing(&self, walk: &Walk<'_>, out: &mut Vec<Violation>) {
        let names = &self.model.names;
        for &dir in walk.found.keys() {
            for at in names.of_dir(dir) {
                let Some(cell) = names.cells.get(at) else { continue };
                if Leniency::NoInode.grants(walk.broken.contains(&at)) {
                    continue;
                }
                let value = walk.values.get(at).copied().flatten();
                let name = String::from_utf8_lossy(&cell.name);
                let what = match (cell.fit(value), value) {
                    (Fit::Good, _) => continue,
                    (Fit::Never, Some(obj)) => {
                        let what = format!("{name} in {dir} names {obj}, which it never did");
                        out.push(Violation::new("X3", what));
                        continue;
                    }
                    (_, None) if self.dropped_by_check(walk, at) => continue,
                    (_, Some(obj)) => format!("{name} in {dir} names {obj} again"),
                    (_, None) => format!("{name} in {dir} is missing"),
                };
                out.push(Violation::new("X4", what));
            }
        }
        let excused = |obj: ObjId| {
            let mut cells = walk.broken.iter().filter_map(|&at| names.cells.get(at));
            cells.any(|cell| cell.fit(Some(obj)) == Fit::Good)
        };
        for obj in names.survivors().filter(|obj| !walk.found.contains_key(obj) && !excused(*obj)) {
            let what = format!("{obj} has no name, but its last name was not removed");
            out.push(Violation::new("X1", what));
        }
    }

    /// Whether a check dropped the name in cell `at`: it was the second name of a directory, and
    /// had replaced an empty directory.
    fn dropped_by_check(&self, walk: &Walk<'_>, at: usize) -> bool {
        let mut takers = self.model.names.takers(at, &walk.values);
        let dropped = takers.any(|obj| self.is_directory(obj));
        Leniency::DroppedDirectory.grants(walk.condition == Condition::Recovered && dropped)
    }

    fn is_directory(&self, obj: ObjId) -> bool {
        let object = self.model.objects.get(&obj);
        object.is_some_and(|object| object.kind == ObjKind::Directory)
    }

    fn renames(&self, walk: &Walk<'_>, out: &mut Vec<Violation>) {
        let names = &self.model.names;
        let there =
            |at: usize| names.cells.get(at).is_some_and(|cell| walk.found.contains_key(&cell.dir));
        for rename in &names.renames {
            let broken = walk.broken.contains(&rename.from.0) || walk.broken.contains(&rename.to.0);
            let both = there(rename.from.0) && there(rename.to.0) && !broken;
            let owed = both && !Leniency::Unpromised.grants(!rename.promised);
            let owed = owed && !Leniency::SkippedName.grants(names.given_up(rename));
            let owed =
                owed && !Leniency::SkippedName.grants(names.never_left(rename, &walk.values));
            let owed = owed && names.must_survive(rename.obj);
            if owed && rename.lost(&names.cells, &walk.values) {
                let name = |at: usize| {
                    let cell = names.cells.get(at);
                    cell.map(|cell| String::from_utf8_lossy(&cell.name).into_owned())
                        .unwrap_or_default()
                };
                let (from, to) = (name(rename.from.0), name(rename.to.0));
                let what =
                    format!("{} has neither its old name {from} nor its new name {to}", rename.obj);
                out.push(Violation::new("X2", what));
            }
        }
    }

    /// After a check, an exchange is completed or not done at all.
    fn exchanges(&self, walk: &Walk<'_>, out: &mut Vec<Violation>) {
        let names = &self.model.names;
        let open = walk.condition == Condition::Untouched;
        if Leniency::OpenExchange.grants(open) || !matches!(self.promise, Promise::SoftUpdates(_)) {
            return;
        }
        for exchange in &names.exchanges {
            let cells = exchange.cells().map(|at| names.cells.get(at));
            let there = |cell: &&Cell| walk.found.contains_key(&cell.dir);
            let both = cells.iter().flatten().filter(|cell| there(cell)).count() == 2;
            if both && exchange.is_half(&names.cells, &walk.values) {
                let name = |cell: Option<&Cell>| {
                    cell.map(|cell| String::from_utf8_lossy(&cell.name).into_owned())
                };
                let [one, other] = cells.map(|cell| name(cell).unwrap_or_default());
                let what = format!("the exchange of {one} and {other} is half done");
                out.push(Violation::new("X7", what));
            }
        }
    }

    /// A name may be missing by its removal only if the names exist that renames and links gave
    /// before.
    fn removals(&self, walk: &Walk<'_>, out: &mut Vec<Violation>) {
        if !matches!(self.promise, Promise::SoftUpdates(_)) {
            return;
        }
        let names = &self.model.names;
        let cell_of = |at: usize| {
            let cell = names.cells.get(at).filter(|cell| walk.found.contains_key(&cell.dir));
            cell.filter(|_| !walk.broken.contains(&at))
        };
        let shown = |cell: &Cell| String::from_utf8_lossy(&cell.name).into_owned();
        for removal in names.removed.iter().filter(|r| r.is_seen(&names.cells, &walk.values)) {
            let Some(removed) = cell_of(removal.cell) else { continue };
            let Some(&since) = removed.since.get(removal.place) else { continue };
            let owed = |p: &&Publication| p.is_owed(since, &names.cells, &walk.values);
            let named = |p: &Publication| {
                let cell = cell_of(p.cell)?;
                let dropped =
                    Leniency::DroppedDirectory.grants(self.is_kept_beside(walk, p.obj, cell));
                (!dropped).then_some((p.obj, cell))
            };
            if let Some((obj, cell)) = names.published.iter().filter(owed).find_map(named) {
                let (name, removed) = (shown(cell), shown(removed));
                let what = format!(
                    "{removed} is removed, but {obj} does not have its earlier name {name}"
                );
                out.push(Violation::new("X8", what));
            }
        }
    }

    /// Whether a check kept another name of a directory than that of `cell`. Of two names in one
    /// directory it keeps one.
    fn is_kept_beside(&self, walk: &Walk<'_>, obj: ObjId, cell: &Cell) -> bool {
        let recovered = walk.condition == Condition::Recovered && self.is_directory(obj);
        let mut beside = self.model.names.cells.iter().zip(&walk.values);
        recovered && beside.any(|(c, value)| c.dir == cell.dir && *value == Some(obj))
    }

    /// Compares the type, the attributes and the content of an object.
    fn object(&self, walk: &mut Walk<'_>, obj: ObjId, inode: &Inode, out: &mut Vec<Violation>) {
        let Some(object) = self.model.objects.get(&obj) else { return };
        let (kind, name) = match object.kind {
            ObjKind::File => (0o10, "file"),
            ObjKind::Directory => (0o4, "directory"),
            ObjKind::Symlink(_) => (0o12, "symbolic link"),
            ObjKind::Fifo => (0o1, "named pipe"),
            ObjKind::Whiteout => (0o2, "whiteout"),
            ObjKind::Snapshot => (0o10, "snapshot"),
        };
        if inode.mode >> 12 != kind {
            let what = format!("{obj} (inode {}) is a {name} of mode {:o}", inode.ino, inode.mode);
            out.push(Violation::new("G5", what));
            return;
        }
        out.extend(object.traits.judge(inode));
        if object.traits.is_older(inode) {
            walk.seen.saw(12);
        }
        if object.traits.has_extended() || inode.extsize != 0 {
            let found = walk.tree.attributes(walk.image, inode);
            out.extend(object.traits.judge_extended(inode.ino, found));
        }
        let lenient = Leniency::WeakOrdering.grants(self.promise == Promise::SyncOrdered);
        match &object.kind {
            ObjKind::File => {
                let older = cell::Cell::new(false);
                let older = &older;
                let seen = Seen { image: walk.image, tree: walk.tree, inode, obj, lenient, older };
                let before = out.len();
                object.content.judge(&seen, out);
                if older.get() {
                    walk.seen.saw(11);
                }
                if out.len() == before {
                    self.published(walk, &seen, out);
                }
            }
            ObjKind::Symlink(target) => {
                let found = walk.tree.target(walk.image, inode);
                let excused = lenient && object.unsettled;
                if found.as_ref() != Some(target) && !excused {
                    let what = format!("{obj} (inode {}) has another target", inode.ino);
                    out.push(Violation::new("G7", what));
                }
            }
            // S1 and S2 are about the content of a snapshot.
            ObjKind::Directory | ObjKind::Fifo | ObjKind::Whiteout | ObjKind::Snapshot => {}
        }
    }

    /// A file with a name from a rename or a link has the content of that moment or newer (G18).
    fn published(&self, walk: &Walk<'_>, seen: &Seen<'_>, out: &mut Vec<Violation>) {
        if !matches!(
            self.promise,
            Promise::SoftUpdates(SoftUpdateOptions { replace_order: true, .. })
        ) {
            return;
        }
        let names = &self.model.names;
        let given = names.published.iter().filter(|given| given.obj == seen.obj);
        let shown = given.filter(|given| given.is_seen(&names.cells, &walk.values));
        let Some(changes) = shown.map(|given| given.changes).max() else { return };
        let mut wrong = Vec::new();
        self.model.judge_from(seen, changes, &mut wrong);
        out.extend(wrong.into_iter().map(|violation| {
            Violation::new("G18", format!("got its name too early: {}", violation.what))
        }));
    }
}
