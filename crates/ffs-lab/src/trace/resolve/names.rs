//! The tree as the calls of a trace change it.
//!
//! # Invariants
//! 1. A node is a file, directory or link that was there at some time. Its number stays the same
//!    when it is renamed.
//! 2. A directory remembers the names that calls removed, so that a later call cannot take one for
//!    a name that existed before the trace.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::trace::path::{MOST_DEPTH, TracePath};

/// The number of a node. The root is 0.
pub(crate) type NodeId = usize;

/// The number of the root.
pub(crate) const ROOT: NodeId = 0;
/// The most links that a path follows, as in the kernel.
const MOST_LINKS: usize = 40;

/// The kind of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeKind {
    Dir,
    File,
    /// With its text.
    Link(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    /// The directory; meaningless for a file with several names.
    pub(super) parent: NodeId,
    /// Whether it existed before the first call.
    pub(super) existed: bool,
    /// Whether its kind is a guess: nothing but its existence follows from the calls so far.
    pub(super) guessed: bool,
    /// Whether a call changed its content.
    pub(super) changed: bool,
    /// Its names.
    pub(super) names: u32,
    /// How often it is open.
    pub(super) opens: u32,
    /// The size before the first call, bytes.
    pub(super) given: u64,
    /// The size, bytes.
    pub(super) size: u64,
    /// The bytes written, at most the size.
    pub(super) stored: u64,
    /// The entries of a directory; `None` for a name that a call removed.
    entries: HashMap<Box<[u8]>, Option<NodeId>, FixedState>,
    /// The entries that exist.
    pub(super) count: usize,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// The root of the trace.
    Root,
    /// A node with its directory and its name in it.
    Node(NodeId, &'a [u8], NodeId),
    /// No node: the directory, the name, and whether it is the last of the path. `true` at the end
    /// if a call removed it.
    Nothing(NodeId, &'a [u8], bool, bool),
    /// A name on the way is this node, which is no directory.
    NotDirectory(NodeId),
    /// A link leads out of the root.
    Elsewhere,
}

/// The tree.
#[derive(Debug)]
pub(super) struct NameTree {
    pub(super) nodes: Vec<Node>,
}

impl NameTree {
    pub(super) fn new() -> NameTree {
        let mut tree = NameTree { nodes: Vec::new() };
        tree.node(NodeKind::Dir, ROOT, true);
        tree
    }

    fn node(&mut self, kind: NodeKind, parent: NodeId, existed: bool) -> NodeId {
        let (entries, count) = (HashMap::default(), 0);
        self.nodes.push(Node {
            kind,
            parent,
            existed,
            guessed: false,
            changed: false,
            names: 0,
            opens: 0,
            given: 0,
            size: 0,
            stored: 0,
            entries,
            count,
        });
        self.nodes.len() - 1
    }

    pub(super) fn get(&self, node: NodeId) -> &Node {
        &self.nodes[node]
    }

    pub(super) fn is_dir(&self, node: NodeId) -> bool {
        self.nodes[node].kind == NodeKind::Dir
    }

    /// A new node under a name.
    pub(super) fn make(
        &mut self,
        kind: NodeKind,
        dir: NodeId,
        name: &[u8],
        existed: bool,
    ) -> NodeId {
        let node = self.node(kind, dir, existed);
        self.enter(dir, name, node);
        node
    }

    /// Gives a node a name that is free.
    pub(super) fn enter(&mut self, dir: NodeId, name: &[u8], node: NodeId) {
        self.nodes[dir].entries.insert(name.into(), Some(node));
        self.nodes[dir].count += 1;
        self.nodes[node].names += 1;
        self.nodes[node].parent = dir;
    }

    /// Takes a name from its node.
    pub(super) fn remove(&mut self, dir: NodeId, name: &[u8]) {
        if let Some(Some(node)) = self.nodes[dir].entries.insert(name.into(), None) {
            self.nodes[dir].count -= 1;
            self.nodes[node].names -= 1;
        }
    }

    /// Sets the kind of a node whose kind was a guess.
    pub(super) fn settle(&mut self, node: NodeId, kind: NodeKind) {
        if std::mem::take(&mut self.nodes[node].guessed) {
            self.nodes[node].kind = kind;
        }
    }

    /// Whether `dir` is `node` or below it.
    pub(super) fn is_below(&self, dir: NodeId, node: NodeId) -> bool {
        let mut at = dir;
        for _ in 0..=MOST_DEPTH {
            if at == node {
                return true;
            }
            if at == ROOT {
                return false;
            }
            at = self.nodes[at].parent;
        }
        true
    }

    /// The number of directories above a node.
    pub(super) fn depth(&self, node: NodeId) -> usize {
        let (mut at, mut depth) = (node, 0);
        while at != ROOT && depth <= MOST_DEPTH {
            (at, depth) = (self.nodes[at].parent, depth + 1);
        }
        depth
    }

    /// What a path leads to. A link at its end is followed if `follow`.
    pub(super) fn find<'a>(&'a self, path: &'a TracePath, follow: bool) -> Found<'a> {
        // Names that are still to come, the last one first.
        let mut rest: Vec<&[u8]> = path.names().collect();
        rest.reverse();
        let (mut at, mut links, mut found) = (ROOT, 0, Found::Root);
        while let Some(name) = rest.pop() {
            if !self.is_dir(at) {
                return Found::NotDirectory(at);
            }
            match name {
                b"" | b"." => continue,
                b".." if at == ROOT => return Found::Elsewhere,
                b".." => {
                    at = self.nodes[at].parent;
                    // A path that ends here has no name for its directory.
                    found = if at == ROOT { Found::Root } else { Found::Elsewhere };
                    continue;
                }
                _ => {}
            }
            let node = match self.nodes[at].entries.get(name) {
                Some(Some(node)) => *node,
                entry => return Found::Nothing(at, name, rest.is_empty(), entry.is_some()),
            };
            found = Found::Node(at, name, node);
            match &self.nodes[node].kind {
                NodeKind::Link(text) if follow || !rest.is_empty() => {
                    links += 1;
                    if links > MOST_LINKS || text.first() == Some(&b'/') {
                        return Found::Elsewhere;
                    }
                    let names: Vec<&[u8]> = text.split(|byte| *byte == b'/').collect();
                    rest.extend(names.into_iter().rev());
                    if rest.len() > 2 * MOST_DEPTH {
                        return Found::Elsewhere;
                    }
                }
                _ => at = node,
            }
        }
        found
    }
}
