//! The history, read up to the crash.
//!
//! References: `spec/fsck-and-crash.md` §11.4; `spec/soft-updates.md` §8.1.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{
    Action, CrashPoint, History, Life, Name, ObjId, ObjKind, Progress, Step, Violation,
};
use super::content::{self, Change, Content, Seen};
use super::leniency::Leniency;
use super::names::Names;
use super::traits::Traits;
use super::{FsyncScope, Promise};

/// An object, and the states that a crash may leave it in.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: ObjKind,
    pub(super) traits: Traits,
    /// The changes of its content.
    changes: Vec<Change>,
    /// How many of the changes are durable.
    durable: usize,
    /// The contents that it may have; set when the history has been read.
    pub(super) content: Content,
    /// Whether it has steps that no guarantee covers.
    pub(super) unsettled: bool,
}

/// The history, read up to the crash.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) names: Names,
    pub(super) objects: BTreeMap<ObjId, Object>,
    pub(super) lives: BTreeMap<Life, ObjId>,
    /// Objects that the workload changed.
    pub(super) touched: BTreeSet<ObjId>,
    /// The object that was created last and the operation, if the next step may be its name.
    made: Option<(ObjId, Option<u32>)>,
    /// Whether no step followed the last sync.
    pub(super) quiet: bool,
    /// The contents that files may have if more of their changes are durable (G18); made on demand.
    later: RefCell<BTreeMap<(ObjId, usize), Content>>,
}

impl Model {
    /// Reads `history` up to a crash.
    pub(super) fn new(history: &History, crash: CrashPoint, promise: Promise) -> Model {
        let mut model = Model { quiet: true, ..Model::default() };
        for (step, progress) in history.until(crash) {
            model.names.ended = step.at;
            if step.op.is_some() {
                model.touched.extend(step.what.objects());
            }
            model.step(step, progress, promise);
        }
        for (&obj, object) in &mut model.objects {
            object.content = Content::new(obj, &object.changes, object.durable);
        }
        model
    }

    fn step(&mut self, step: &Step, progress: Progress, promise: Promise) {
        let done = !Leniency::InProgress.grants(progress != Progress::Returned);
        // Names are durable when the call returns.
        let prompt = promise == Promise::SyncOrdered;
        self.made = match &step.what {
            Action::Created { obj, .. } => Some((*obj, step.op)),
            // The call that created the object names it, not a later link.
            Action::NameAdded { .. } => self.made.filter(|(_, op)| *op == step.op),
            _ => None,
        };
        match &step.what {
            Action::Fsynced { obj, data_only } if done => {
                self.fsynced(*obj, *data_only, step.began, promise);
            }
            Action::Synced if done => self.synced(),
            Action::Fsynced { .. } | Action::Synced => {}
            change => {
                self.quiet = false;
                self.change(change, progress);
                if prompt && done {
                    self.settle_names(change);
                }
            }
        }
    }

    fn change(&mut self, what: &Action, progress: Progress) {
        match what {
            Action::Created { obj, kind, attrs, life, extended } => {
                let traits = Traits::new(*attrs, extended.clone());
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
            Action::NameAdded { name, obj } => {
                let is_new = self.made.is_some_and(|(made, _)| made == *obj);
                self.names.set(name, *obj, self.changes(*obj), is_new);
            }
            Action::NameRemoved { name, .. } => self.names.clear(name),
            Action::Renamed { from, to, obj, .. } => {
                self.names.rename(from, to, *obj, self.changes(*obj));
            }
            Action::Exchanged { one, other, moved, away } => {
                let with_changes = |obj: ObjId| (obj, self.changes(obj));
                let objects = (with_changes(*moved), with_changes(*away));
                self.names.exchange((one, other), objects);
            }
            Action::Wrote { obj, bytes, version, whole } => {
                let partly = Leniency::PartialCall.grants(!whole || progress == Progress::Running);
                let change = Change::Wrote { bytes: bytes.clone(), version: *version, partly };
                self.content(*obj, change);
            }
            Action::ContentFound { obj, size, least, sectors, behind } => {
                let (size, least) = (*size, *least);
                let (sectors, behind) = (sectors.clone(), behind.clone());
                self.content(*obj, Change::Found { size, least, sectors, behind });
            }
            Action::Resized { obj, size } => self.content(*obj, Change::Resized(*size)),
            Action::Zeroed { obj, bytes } => self.content(*obj, Change::Zeroed(bytes.clone())),
            Action::AttrsChanged { obj, attrs } => {
                if let Some(object) = self.objects.get_mut(obj) {
                    object.traits.set(*attrs);
                    object.unsettled = true;
                }
            }
            Action::XattrChanged { obj, namespace, name, value } => {
                if let Some(object) = self.objects.get_mut(obj) {
                    object.traits.set_extended(*namespace, name, value.as_deref());
                    object.unsettled = true;
                }
            }
            Action::Fsynced { .. } | Action::Synced => {}
        }
    }

    /// The number of changes of the object's content so far.
    fn changes(&self, obj: ObjId) -> usize {
        self.objects.get(&obj).map_or(0, |object| object.changes.len())
    }

    fn content(&mut self, obj: ObjId, change: Change) {
        if let Some(object) = self.objects.get_mut(&obj) {
            object.changes.push(change);
            object.traits.touch();
            object.unsettled = true;
        }
    }

    /// Makes the names of a step durable, and the path to their directory.
    fn settle_names(&mut self, what: &Action) {
        let mut settle = |name: &Name| self.names.settle_name(name);
        match what {
            Action::NameAdded { name, .. } | Action::NameRemoved { name, .. } => settle(name),
            Action::Renamed { from, to, .. } => {
                settle(from);
                settle(to);
            }
            Action::Exchanged { one, other, .. } => {
                settle(one);
                settle(other);
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

    /// Applies an fsync that returned. `began` is the length of the log when it was called, in
    /// events.
    fn fsynced(&mut self, obj: ObjId, data_only: bool, began: u64, promise: Promise) {
        let spared = data_only && !self.has_metadata_to_write(obj);
        let scope = match promise {
            Promise::SoftUpdates(soft) => soft.fsync,
            Promise::SyncOrdered | Promise::Async => FsyncScope::File,
        };
        if scope == FsyncScope::All && !Leniency::MetadataUnchanged.grants(spared) {
            self.names.sync_before(began);
        }
        self.names.fsync(obj);
        if let Some(object) = self.objects.get_mut(&obj) {
            object.durable = object.changes.len();
            if !Leniency::DataOnly.grants(data_only) {
                object.traits.settle();
                object.unsettled = false;
            }
        }
    }

    /// Whether an fdatasync of the object certainly had metadata to write: a size or a name.
    fn has_metadata_to_write(&self, obj: ObjId) -> bool {
        let sized = |object: &Object| content::resizes(&object.changes, object.durable);
        self.names.has_open_names(obj) || self.objects.get(&obj).is_some_and(sized)
    }

    /// Judges `seen` as if the first `changes` changes of its content were durable (G18).
    pub(super) fn judge_from(&self, seen: &Seen<'_>, changes: usize, out: &mut Vec<Violation>) {
        let Some(object) = self.objects.get(&seen.obj).filter(|object| changes > object.durable)
        else {
            return;
        };
        let mut later = self.later.borrow_mut();
        let content = later
            .entry((seen.obj, changes))
            .or_insert_with(|| Content::new(seen.obj, &object.changes, changes));
        content.judge(seen, out);
    }
}
