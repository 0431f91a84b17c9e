//! The history, read up to the crash.
//!
//! References: `spec/fsck-and-crash.md` §11.4; `spec/soft-updates.md` §8.1.

use std::collections::BTreeMap;

use super::super::history::{Cut, Happening, History, Life, Name, ObjId, ObjKind, Stage};
use super::content::{Change, Content};
use super::names::Names;
use super::traits::Traits;

/// An object and what it may look like.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: ObjKind,
    pub(super) traits: Traits,
    /// What its content went through.
    changes: Vec<Change>,
    /// How many of the changes are durable.
    durable: usize,
    /// What it may hold; made when the history has been read.
    pub(super) content: Content,
    /// It has steps that no promise covers.
    pub(super) unsettled: bool,
}

/// The history, read up to the crash.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) names: Names,
    pub(super) objects: BTreeMap<ObjId, Object>,
    pub(super) lives: BTreeMap<Life, ObjId>,
    /// Nothing happened after the last sync.
    pub(super) quiet: bool,
}

impl Model {
    /// Reads `history` up to a crash at `cut`. `prompt`: names are durable when the call returns.
    pub(super) fn new(history: &History, cut: Cut, prompt: bool) -> Model {
        let mut model = Model { quiet: true, ..Model::default() };
        for (step, stage) in history.until(cut) {
            model.step(&step.what, stage, prompt);
        }
        for (&obj, object) in &mut model.objects {
            object.content = Content::new(obj, &object.changes, object.durable);
        }
        model
    }

    fn step(&mut self, what: &Happening, stage: Stage, prompt: bool) {
        let done = stage == Stage::Done;
        match what {
            Happening::Fsynced { obj, data_only } if done => self.fsynced(*obj, *data_only),
            Happening::Synced if done => self.synced(),
            Happening::Fsynced { .. } | Happening::Synced => {}
            change => {
                self.quiet = false;
                self.change(change, stage);
                if prompt && done {
                    self.prompt(change);
                }
            }
        }
    }

    fn change(&mut self, what: &Happening, stage: Stage) {
        match what {
            Happening::Made { obj, kind, attrs, life } => {
                let traits = Traits::new(*attrs);
                let object = Object {
                    kind: kind.clone(),
                    traits,
                    changes: Vec::new(),
                    durable: 0,
                    content: Content::default(),
                    unsettled: true,
                };
                self.objects.insert(*obj, object);
                self.lives.insert(*life, *obj);
            }
            Happening::NameSet { name, obj } => self.names.set(name, *obj),
            Happening::NameGone { name, .. } => self.names.clear(name),
            Happening::Renamed { from, to, obj, .. } => {
                let changes = self.objects.get(obj).map_or(0, |object| object.changes.len());
                self.names.rename(from, to, *obj, changes);
            }
            Happening::Wrote { obj, bytes, version, whole } => {
                let partly = !whole || stage == Stage::UnderWay;
                let change = Change::Wrote { bytes: bytes.clone(), version: *version, partly };
                self.content(*obj, change);
            }
            Happening::Resized { obj, size } => self.content(*obj, Change::Resized(*size)),
            Happening::Zeroed { obj, bytes } => self.content(*obj, Change::Zeroed(bytes.clone())),
            Happening::Attr { obj, attrs } => {
                if let Some(object) = self.objects.get_mut(obj) {
                    object.traits.set(*attrs);
                    object.unsettled = true;
                }
            }
            Happening::Xattr { obj, name, value } => {
                if let Some(object) = self.objects.get_mut(obj) {
                    object.traits.set_extended(name, value.as_deref());
                    object.unsettled = true;
                }
            }
            Happening::Fsynced { .. } | Happening::Synced => {}
        }
    }

    fn content(&mut self, obj: ObjId, change: Change) {
        if let Some(object) = self.objects.get_mut(&obj) {
            object.changes.push(change);
            object.traits.touch();
            object.unsettled = true;
        }
    }

    /// Names are durable at once: the value they have, and where their directory is.
    fn prompt(&mut self, what: &Happening) {
        let mut settle = |name: &Name| self.names.settle_name(name);
        match what {
            Happening::NameSet { name, .. } | Happening::NameGone { name, .. } => settle(name),
            Happening::Renamed { from, to, .. } => {
                settle(from);
                settle(to);
            }
            _ => {}
        }
    }

    fn synced(&mut self) {
        self.quiet = true;
        self.names.sync();
        for object in self.objects.values_mut() {
            object.durable = object.changes.len();
            object.traits.settle();
            object.unsettled = false;
        }
    }

    fn fsynced(&mut self, obj: ObjId, data_only: bool) {
        self.names.fsync(obj);
        if let Some(object) = self.objects.get_mut(&obj) {
            object.durable = object.changes.len();
            if !data_only {
                object.traits.settle();
                object.unsettled = false;
            }
        }
    }

    /// What `obj` may hold if its first `changes` changes are durable (G18).
    pub(super) fn content_from(&self, obj: ObjId, changes: usize) -> Option<Content> {
        let object = self.objects.get(&obj)?;
        (changes > object.durable).then(|| Content::new(obj, &object.changes, changes))
    }
}
