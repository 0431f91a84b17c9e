//! The effect of each call on the tree, and its step.

use super::names::{Found, NodeId, NodeKind, ROOT};
use super::{OpenFile, Place, Refused, Resolver, StepOp};
use crate::trace::path::{MOST_DEPTH, TracePath};
use crate::trace::{Call, FileNumber, How, MOST_SIZE, Op, line};

type Applied<T> = Result<T, Refused>;

fn place(dir: NodeId, name: &[u8]) -> Place {
    Place { dir, name: name.into() }
}

fn wrong<T>(why: String) -> Applied<T> {
    Err(Refused::Wrong(why))
}

fn left_out<T>(why: &str) -> Applied<T> {
    Err(Refused::LeftOut(why.to_owned()))
}

/// The text of a link that was there before, if no call shows it.
const UNKNOWN_TEXT: &[u8] = b"unknown";
const AT_ROOT: &str = "calls on the root of the trace";
const OUTSIDE: &str = "calls through links that lead elsewhere";

impl Resolver {
    /// The step of a call, whose effect the tree then has.
    pub(super) fn step_of(&mut self, call: &Call) -> Applied<StepOp> {
        if let Some(error) = &call.error {
            return self.failed(&call.op, error);
        }
        match &call.op {
            Op::Stat(path) => self.stat(path),
            Op::Open { path, file, how } => self.open(path, *file, *how),
            Op::Close(file) => self.close(*file),
            Op::Read { file, offset, len } => self.read(*file, *offset, *len),
            Op::Write { file, offset, len } => self.write(*file, *offset, *len),
            Op::Fsync(file) => Ok(StepOp::Fsync(self.opened(*file)?.slot)),
            Op::Ftruncate { file, size } => {
                let open = self.opened(*file)?;
                self.truncate(open.node, *size);
                Ok(StepOp::Ftruncate { slot: open.slot, size: *size })
            }
            Op::Truncate { path, size } => {
                let (at, node) = self.file(path)?;
                self.truncate(node, *size);
                Ok(StepOp::Truncate { at, size: *size })
            }
            Op::Mkdir(path) => {
                let (at, node) = self.new_name(path, NodeKind::Dir)?;
                Ok(StepOp::Mkdir { at, node })
            }
            Op::Rmdir(path) => self.rmdir(path),
            Op::Unlink(path) => self.unlink(path),
            Op::Rename { path, to } => self.rename(path, to),
            Op::Link { path, to } => self.link(path, to),
            Op::Symlink { path, text } => {
                let (at, _) = self.new_name(path, NodeKind::Link(text.clone()))?;
                Ok(StepOp::Symlink { at, text: text.as_slice().into() })
            }
            Op::Readlink(path) => {
                let text = NodeKind::Link(UNKNOWN_TEXT.to_vec());
                match self.existing(path, false, Some(text))? {
                    (at, node) if matches!(self.tree.get(node).kind, NodeKind::Link(_)) => {
                        Ok(StepOp::Readlink(at))
                    }
                    _ => wrong(format!("{path:?} is no link")),
                }
            }
            Op::List(path) if path.is_root() => Ok(StepOp::List(ROOT)),
            Op::List(path) => match self.existing(path, true, Some(NodeKind::Dir))? {
                (_, node) if self.tree.is_dir(node) => Ok(StepOp::List(node)),
                _ => wrong(format!("{path:?} is no directory")),
            },
            Op::Chmod { path, mode } => {
                let (at, _) = self.existing(path, true, None)?;
                Ok(StepOp::Chmod { at, mode: *mode })
            }
            Op::Times { path, seconds } => {
                let (at, _) = self.existing(path, false, None)?;
                Ok(StepOp::Times { at, seconds: *seconds })
            }
            Op::Sync => Ok(StepOp::Sync),
            Op::Other(name) => Err(Refused::LeftOut(format!("calls of {name}"))),
        }
    }

    /// A lookup that succeeded. One that ran beside a removal may come after it in the trace; it is
    /// a lookup then, too.
    fn stat(&mut self, path: &TracePath) -> Applied<StepOp> {
        match self.existing(path, false, None) {
            Ok((at, _)) => Ok(StepOp::Stat(at)),
            Err(refused) => match (refused, self.tree.find(path, false)) {
                (Refused::Wrong(_), Found::Nothing(dir, name, ..)) => {
                    Ok(StepOp::Stat(place(dir, name)))
                }
                (refused, _) => Err(refused),
            },
        }
    }

    /// A call that failed: a lookup of a missing name is a step.
    fn failed(&mut self, op: &Op, error: &str) -> Applied<StepOp> {
        let path = match op {
            Op::Stat(path) | Op::Readlink(path) | Op::Unlink(path) => Some(path),
            Op::Open { path, how: How::Read | How::Write, .. } => Some(path),
            _ => None,
        };
        if let (Some(path), "ENOENT") = (path, error)
            && let Found::Nothing(dir, name, ..) | Found::Node(dir, name, _) =
                self.tree.find(path, false)
        {
            return Ok(StepOp::Stat(place(dir, name)));
        }
        let word = if let Op::Other(name) = op { name } else { line::word(op) };
        Err(Refused::LeftOut(format!("calls of {word} that failed with {error}")))
    }

    /// A node that exists under a path. If the trace is not complete and nothing is known of the
    /// name, it existed before the first call, as a node of this kind, or of one that a later call
    /// determines.
    fn existing(
        &mut self,
        path: &TracePath,
        follow: bool,
        kind: Option<NodeKind>,
    ) -> Applied<(Place, NodeId)> {
        loop {
            let (dir, name, last) = match self.tree.find(path, follow) {
                Found::Root => return left_out(AT_ROOT),
                Found::Node(dir, name, node) => {
                    let at = place(dir, name);
                    kind.into_iter().for_each(|kind| self.tree.settle(node, kind));
                    return Ok((at, node));
                }
                Found::Elsewhere => return left_out(OUTSIDE),
                Found::NotDirectory(node) => {
                    self.directory(node, path)?;
                    continue;
                }
                Found::Nothing(dir, name, last, removed) => {
                    if self.is_complete || removed {
                        return wrong(format!("{path:?} does not exist"));
                    }
                    (dir, name.to_vec(), last)
                }
            };
            let known = if last { kind.clone() } else { Some(NodeKind::Dir) };
            let guessed = known.is_none();
            let node = self.exists(known.unwrap_or(NodeKind::File), dir, &name);
            self.tree.nodes[node].guessed = guessed;
        }
    }

    /// Makes a node whose kind was a guess a directory.
    fn directory(&mut self, node: NodeId, path: &TracePath) -> Applied<()> {
        self.tree.settle(node, NodeKind::Dir);
        if self.tree.is_dir(node) {
            return Ok(());
        }
        wrong(format!("a name of {path:?} is no directory"))
    }

    /// A file or an existing name of a file.
    fn file(&mut self, path: &TracePath) -> Applied<(Place, NodeId)> {
        match self.existing(path, true, Some(NodeKind::File))? {
            (at, node) if self.tree.get(node).kind == NodeKind::File => Ok((at, node)),
            _ => wrong(format!("{path:?} is no file")),
        }
    }

    /// The place of a name that does not exist; its directory does.
    fn free_name(&mut self, path: &TracePath) -> Applied<Place> {
        loop {
            let (dir, name) = match self.tree.find(path, false) {
                Found::Root | Found::Node(..) => return wrong(format!("{path:?} exists already")),
                Found::Elsewhere => return left_out(OUTSIDE),
                Found::NotDirectory(node) => {
                    self.directory(node, path)?;
                    continue;
                }
                Found::Nothing(dir, name, true, _) => return Ok(place(dir, name)),
                Found::Nothing(dir, name, false, removed) => {
                    if self.is_complete || removed {
                        return wrong(format!("the directory of {path:?} does not exist"));
                    }
                    (dir, name.to_vec())
                }
            };
            self.exists(NodeKind::Dir, dir, &name);
        }
    }

    /// A new node under a free name.
    fn new_name(&mut self, path: &TracePath, kind: NodeKind) -> Applied<(Place, NodeId)> {
        let at = self.free_name(path)?;
        if self.tree.depth(at.dir) >= MOST_DEPTH {
            return wrong(format!("{path:?} is too deep"));
        }
        let node = self.tree.make(kind, at.dir, &at.name, false);
        self.count(1);
        Ok((at, node))
    }

    fn open(&mut self, path: &TracePath, file: FileNumber, how: How) -> Applied<StepOp> {
        if self.open.contains_key(&file) {
            return wrong(format!("file {file} is open already"));
        }
        let is_there = matches!(self.tree.find(path, true), Found::Node(..));
        let (at, node) = match how {
            How::CreateNew => self.new_name(path, NodeKind::File)?,
            How::Create | How::Truncate if !is_there => self.new_name(path, NodeKind::File)?,
            _ => self.file(path)?,
        };
        if how == How::Truncate {
            self.truncate(node, 0);
        }
        let slot = self.free_slots.pop().unwrap_or(self.slots);
        self.slots = self.slots.max(slot + 1);
        self.open.insert(file, OpenFile { slot, node });
        self.tree.nodes[node].opens += 1;
        Ok(StepOp::Open { at, slot, how })
    }

    fn opened(&self, file: FileNumber) -> Applied<OpenFile> {
        match self.open.get(&file) {
            Some(open) => Ok(*open),
            None => wrong(format!("file {file} is not open")),
        }
    }

    fn close(&mut self, file: FileNumber) -> Applied<StepOp> {
        let open = self.opened(file)?;
        self.open.remove(&file);
        self.free_slots.push(open.slot);
        self.tree.nodes[open.node].opens -= 1;
        self.release(open.node);
        Ok(StepOp::Close(open.slot))
    }

    fn read(&mut self, file: FileNumber, offset: u64, len: u64) -> Applied<StepOp> {
        let OpenFile { slot, node } = self.opened(file)?;
        let of = self.tree.get(node);
        let end = offset.saturating_add(len).min(MOST_SIZE);
        // What was read from a file that no call had changed was in it before.
        if !self.is_complete && of.existed && !of.changed && end > of.size {
            self.tree.nodes[node].given = end;
            self.resize(node, end, end);
        }
        Ok(StepOp::Read { slot, offset, len })
    }

    fn write(&mut self, file: FileNumber, offset: u64, len: u64) -> Applied<StepOp> {
        let OpenFile { slot, node } = self.opened(file)?;
        let of = self.tree.get(node);
        let (size, stored) = (of.size.max(offset.saturating_add(len)), of.stored);
        self.tree.nodes[node].changed = true;
        self.resize(node, size, stored.saturating_add(len));
        Ok(StepOp::Write { slot, offset, len })
    }

    fn truncate(&mut self, node: NodeId, size: u64) {
        self.tree.nodes[node].changed = true;
        self.resize(node, size, self.tree.get(node).stored);
    }

    fn rmdir(&mut self, path: &TracePath) -> Applied<StepOp> {
        let (at, node) = self.existing(path, false, Some(NodeKind::Dir))?;
        if !self.tree.is_dir(node) {
            return wrong(format!("{path:?} is no directory"));
        }
        if self.tree.get(node).count > 0 {
            return wrong(format!("{path:?} is not empty"));
        }
        self.tree.remove(at.dir, &at.name);
        self.release(node);
        Ok(StepOp::Rmdir { at, node })
    }

    fn unlink(&mut self, path: &TracePath) -> Applied<StepOp> {
        let (at, node) = self.existing(path, false, Some(NodeKind::File))?;
        if self.tree.is_dir(node) {
            return wrong(format!("{path:?} is a directory"));
        }
        self.tree.remove(at.dir, &at.name);
        self.release(node);
        Ok(StepOp::Unlink(at))
    }

    fn rename(&mut self, path: &TracePath, to: &TracePath) -> Applied<StepOp> {
        let (from, node) = self.existing(path, false, None)?;
        let mut replaced = None;
        let found = match self.tree.find(to, false) {
            Found::Node(dir, name, other) => Some((place(dir, name), other)),
            _ => None,
        };
        let target = match found {
            Some((at, other)) => {
                if other == node {
                    return left_out("renames of a name to another of the same file");
                }
                let kind = self.tree.get(other).kind.clone();
                self.tree.settle(node, kind);
                if self.tree.is_dir(other) != self.tree.is_dir(node)
                    || self.tree.get(other).count > 0
                {
                    return wrong(format!("{to:?} cannot be replaced by {path:?}"));
                }
                replaced = Some(other);
                at
            }
            None => self.free_name(to)?,
        };
        let is_dir = self.tree.is_dir(node);
        let too_deep = is_dir && self.tree.depth(target.dir) >= MOST_DEPTH;
        if is_dir && self.tree.is_below(target.dir, node) || too_deep {
            return wrong(format!("{path:?} cannot be moved to {to:?}"));
        }
        if let Some(other) = replaced {
            self.tree.remove(target.dir, &target.name);
            self.release(other);
        }
        self.tree.remove(from.dir, &from.name);
        self.tree.enter(target.dir, &target.name, node);
        Ok(StepOp::Rename { from, to: target, moved: node, replaced })
    }

    fn link(&mut self, path: &TracePath, to: &TracePath) -> Applied<StepOp> {
        let (from, node) = self.file_or_link(path)?;
        let at = self.free_name(to)?;
        self.tree.enter(at.dir, &at.name, node);
        Ok(StepOp::Link { from, to: at })
    }

    fn file_or_link(&mut self, path: &TracePath) -> Applied<(Place, NodeId)> {
        let found = self.existing(path, false, Some(NodeKind::File))?;
        if self.tree.is_dir(found.1) {
            return wrong(format!("{path:?} is a directory"));
        }
        Ok(found)
    }
}
