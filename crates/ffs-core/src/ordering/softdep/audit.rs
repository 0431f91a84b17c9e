//! Checks of the engine's invariants, as the `KASSERT`s of `ffs_softdep.c` are.
//!
//! Debug builds check all of them after calls of the engine, as often as costs no more than the calls
//! themselves: once for as many calls as there are nodes and needs. Tests check more often.

use super::Engine;
use super::graph::{Cond, Id, Node, What};
use std::collections::BTreeMap;

/// Calls between two audits, besides the size of what is audited.
const REST: u64 = 32;

impl Engine {
    /// Checks the invariants if it is time to.
    pub(super) fn audit_sometimes(&mut self) {
        self.unaudited += 1;
        let size = self.nodes.len() + self.inodes.len() + self.blocks.len();
        if self.unaudited > REST + size as u64 + self.edges {
            self.unaudited = 0;
            let found = self.audit();
            assert!(found.is_ok(), "soft updates: {found:?}");
        }
    }

    /// Checks the invariants of the graph ([`super::graph`]).
    ///
    /// # Errors
    /// The first that does not hold, in words.
    pub(super) fn audit(&self) -> Result<(), String> {
        let mut edges = 0;
        for (id, n) in self.nodes.iter() {
            edges += n.needs.len() as u64;
            self.audit_needs(id, n)?;
            self.audit_dependents(id, n)?;
        }
        self.audit_waiters()?;
        edges += self.blocks.values().map(|rec| rec.new_inodes.len() as u64).sum::<u64>();
        if edges != self.edges {
            return Err(format!("{edges} edges, counted {}", self.edges));
        }
        self.audit_order()
    }

    /// What a node needs has the node among its dependents or waiters.
    fn audit_needs(&self, id: Id, n: &Node) -> Result<(), String> {
        for need in n.needs.iter() {
            let known = match need.cond() {
                Cond::Node(on, _) => {
                    self.nodes.get(on).is_some_and(|on| on.dependents.contains(&id))
                }
                Cond::Block(key) => self.blocks.get(&key).is_some_and(|b| b.waiters.has(id)),
                Cond::Inode(ino) => self.inodes.get(&ino).is_some_and(|i| i.waiters.has(id)),
            };
            if !known {
                return Err(format!("{id:?} {:?} needs {need:?}, which does not list it", n.what));
            }
        }
        let due =
            matches!(n.what, What::Unlink { .. } | What::Free { .. } | What::FreeInode { .. });
        if due && n.needs.is_empty() && !self.met.contains(&id) {
            return Err(format!("{id:?} {:?} needs nothing and is not done", n.what));
        }
        Ok(())
    }

    fn audit_dependents(&self, id: Id, n: &Node) -> Result<(), String> {
        for &dep in n.dependents.iter() {
            if self.nodes.get(dep).is_none_or(|d| d.needs_of(id).is_empty()) {
                return Err(format!("{dep:?} is a dependent of {id:?} {:?} for nothing", n.what));
            }
        }
        Ok(())
    }

    /// Who waits for a block or an inode needs it, as it was after the last durable image.
    fn audit_waiters(&self) -> Result<(), String> {
        let needs = |id: Id, cond: Cond| self.nodes.get(id).is_some_and(|n| n.needs(cond));
        for (key, rec) in &self.blocks {
            for w in rec.waiters.iter() {
                if !needs(w.id, Cond::Block(*key)) || w.since <= rec.durable || w.since > rec.seq {
                    let (durable, seq) = (rec.durable, rec.seq);
                    return Err(format!("{w:?} waits for {key:?}, of which {durable} to {seq}"));
                }
            }
        }
        for (ino, rec) in self.inodes.iter() {
            for w in rec.waiters.iter() {
                if !needs(w.id, Cond::Inode(ino)) || w.since <= rec.durable {
                    return Err(format!("{w:?} waits for {ino:?}, of which {}", rec.durable));
                }
            }
        }
        Ok(())
    }

    /// The graph has no circle: its nodes can be put in an order in which each comes after what it needs.
    fn audit_order(&self) -> Result<(), String> {
        let on = |n: &Node| {
            let nodes = n.needs.iter().filter(|need| matches!(need.cond(), Cond::Node(..)));
            nodes.count()
        };
        let mut open: BTreeMap<Id, usize> = self.nodes.iter().map(|(id, n)| (id, on(n))).collect();
        let mut free: Vec<Id> = open.iter().filter(|(_, n)| **n == 0).map(|(id, _)| *id).collect();
        while let Some(id) = free.pop() {
            open.remove(&id);
            let dependents = self.nodes.get(id).map(|n| n.dependents.iter());
            for &dep in dependents.into_iter().flatten() {
                let of_id = self.nodes.get(dep).map_or(0, |d| d.needs_of(id).len());
                if let Some(left) = open.get_mut(&dep) {
                    *left = left.saturating_sub(of_id);
                    if *left == 0 {
                        free.push(dep);
                    }
                }
            }
        }
        match open.keys().next() {
            Some(id) => {
                let what = self.nodes.get(*id).map(|n| &n.what);
                Err(format!("{} nodes wait for each other, among them {what:?}", open.len()))
            }
            None => Ok(()),
        }
    }
}
