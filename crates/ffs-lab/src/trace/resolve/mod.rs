//! From calls on paths to steps on directories and files that exist.
//!
//! # Invariants
//! 1. A step names a directory and a name in it, or an open file: what [`super::replay`] needs.
//! 2. Each step succeeds on a target that begins with the program's setup, however the steps of
//!    several processes were mixed. A call that cannot succeed is an error with its line if the
//!    trace is complete. Otherwise it is left out and counted.
//! 3. A failed lookup is a step. Other failed calls are left out and counted.

mod apply;
mod names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use super::{Call, Have, How, Trace};
use crate::error::{LabError, Result};
use crate::systems::Demand;
use crate::trace::tree::TreeSum;
use names::{Found, NameTree, NodeKind};
pub(crate) use names::{NodeId, ROOT};

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) dir: NodeId,
    pub(crate) name: Box<[u8]>,
}

/// A step of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepOp {
    Stat(Place),
    Open { at: Place, slot: usize, how: How },
    Close(usize),
    Read { slot: usize, offset: u64, len: u64 },
    Write { slot: usize, offset: u64, len: u64 },
    Fsync(usize),
    Ftruncate { slot: usize, size: u64 },
    Truncate { at: Place, size: u64 },
    Mkdir { at: Place, node: NodeId },
    Rmdir { at: Place, node: NodeId },
    Unlink(Place),
    Rename { from: Place, to: Place, moved: NodeId, replaced: Option<NodeId> },
    Link { from: Place, to: Place },
    Symlink { at: Place, text: Box<[u8]> },
    Readlink(Place),
    List(NodeId),
    Chmod { at: Place, mode: u16 },
    Times { at: Place, seconds: u32 },
    Sync,
}

/// A step with the time of its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Nanoseconds between the end of the call before and its beginning.
    pub(crate) gap: u64,
    pub(crate) op: StepOp,
}

/// Something that is made before the steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    Dir(NodeId, Place),
    File(Place, u64),
    Link(Place, Box<[u8]>),
}

/// A trace that can be replayed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Program {
    /// Where the trace is from.
    pub source: String,
    pub(crate) given: Vec<Given>,
    pub(crate) steps: Vec<Step>,
    /// The largest number of files open at a time.
    pub(crate) slots: usize,
    /// The files and bytes at the largest.
    pub(crate) demand: Demand,
    /// The tree at the end, if the trace has it.
    pub tree: Option<TreeSum>,
    /// Calls and lines that were left out, by the reason.
    pub left_out: BTreeMap<String, u64>,
}

impl Program {
    /// The number of calls that a replay makes.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.steps.len()
    }

    /// The program of a trace.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the source and the line of a call that cannot succeed.
    pub fn of(trace: &Trace) -> Result<Program> {
        let mut resolver = Resolver::new(trace);
        let wrong = |line: usize, why: String| {
            let place = if line == 0 { String::new() } else { format!("line {line}: ") };
            let name = if trace.name.is_empty() { &trace.source } else { &trace.name };
            LabError::Plan(format!("{name}: {place}{why}"))
        };
        for have in &trace.have {
            resolver.take_have(have).map_err(|why| wrong(0, why))?;
        }
        for call in &trace.calls {
            resolver.take(call).map_err(|why| wrong(call.line, why))?;
        }
        Ok(resolver.finish(trace))
    }
}

/// Why a call has no step.
enum Refused {
    /// The trace contradicts itself.
    Wrong(String),
    /// Left out, with the reason.
    LeftOut(String),
}

/// An open file.
#[derive(Clone, Copy)]
struct OpenFile {
    slot: usize,
    node: NodeId,
}

struct Resolver {
    tree: NameTree,
    is_complete: bool,
    steps: Vec<Step>,
    open: HashMap<u64, OpenFile, FixedState>,
    free_slots: Vec<usize>,
    slots: usize,
    /// The nodes that existed, with their first place: parents come first.
    existed: Vec<(NodeId, Place)>,
    left_out: BTreeMap<String, u64>,
    /// The end of the call before, nanoseconds.
    ended: u64,
    now: Demand,
    most: Demand,
}

impl Resolver {
    fn new(trace: &Trace) -> Resolver {
        Resolver {
            tree: NameTree::new(),
            is_complete: trace.is_complete,
            steps: Vec::new(),
            open: HashMap::default(),
            free_slots: Vec::new(),
            slots: 0,
            existed: Vec::new(),
            left_out: trace.left_out.clone(),
            ended: 0,
            now: Demand::default(),
            most: Demand::default(),
        }
    }

    /// Makes what a line `have` names.
    fn take_have(&mut self, have: &Have) -> std::result::Result<(), String> {
        let (path, kind) = match have {
            Have::Dir(path) => (path, NodeKind::Dir),
            Have::File(path, _) => (path, NodeKind::File),
            Have::Link(path, text) => (path, NodeKind::Link(text.clone())),
        };
        let (dir, name) = match self.tree.find(path, false) {
            Found::Nothing(dir, name, true, _) => (dir, name.to_vec()),
            Found::Nothing(..) | Found::NotDirectory(_) | Found::Elsewhere => {
                return Err(format!("{path:?} exists, but its directory does not"));
            }
            Found::Root | Found::Node(..) => return Err(format!("{path:?} exists twice")),
        };
        let node = self.exists(kind, dir, &name);
        if let Have::File(_, size) = have {
            self.tree.nodes[node].given = *size;
            self.resize(node, *size, *size);
        }
        Ok(())
    }

    /// A node that existed before the first call.
    fn exists(&mut self, kind: NodeKind, dir: NodeId, name: &[u8]) -> NodeId {
        let node = self.tree.make(kind, dir, name, true);
        self.existed.push((node, Place { dir, name: name.into() }));
        self.count(1);
        node
    }

    fn count(&mut self, files: u64) {
        self.now.files += files;
        self.most.files = self.most.files.max(self.now.files);
    }

    /// Sets the size of a file, of which so many bytes are stored.
    fn resize(&mut self, node: NodeId, size: u64, stored: u64) {
        let of = &mut self.tree.nodes[node];
        let before = std::mem::replace(&mut of.stored, stored.min(size));
        of.size = size;
        self.now.bytes = self.now.bytes - before + of.stored;
        self.most.bytes = self.most.bytes.max(self.now.bytes);
    }

    /// Forgets the space of a node without a name that no one has open.
    fn release(&mut self, node: NodeId) {
        let of = self.tree.get(node);
        if of.names == 0 && of.opens == 0 {
            self.now.files -= 1;
            self.now.bytes -= std::mem::take(&mut self.tree.nodes[node].stored);
        }
    }

    /// Adds the step of a call, or counts the call as left out.
    fn take(&mut self, call: &Call) -> std::result::Result<(), String> {
        let gap = call.at.saturating_sub(self.ended);
        self.ended = self.ended.max(call.at.saturating_add(call.took));
        match self.step_of(call) {
            Ok(op) => self.steps.push(Step { gap, op }),
            Err(Refused::LeftOut(why)) => *self.left_out.entry(why).or_default() += 1,
            Err(Refused::Wrong(why)) if self.is_complete => return Err(why),
            Err(Refused::Wrong(_)) => {
                let why = "calls on names that came from elsewhere".to_owned();
                *self.left_out.entry(why).or_default() += 1;
            }
        }
        Ok(())
    }

    fn finish(self, trace: &Trace) -> Program {
        let tree = &self.tree;
        let given = self.existed.into_iter().map(|(node, at)| match &tree.get(node).kind {
            NodeKind::Dir => Given::Dir(node, at),
            NodeKind::File => Given::File(at, tree.get(node).given),
            NodeKind::Link(text) => Given::Link(at, text.as_slice().into()),
        });
        Program {
            source: trace.source.clone(),
            given: given.collect(),
            steps: self.steps,
            slots: self.slots,
            demand: self.most,
            tree: trace.tree.clone(),
            left_out: self.left_out,
        }
    }
}
