//! Images: what of a block may be written, and what follows when it was.
//!
//! # Invariants
//! 1. An image shows a change only if all it needs is durable, or lies in the same sector of the same
//!    image (image law, `spec/soft-updates.md` §2).
//! 2. What an image shows is noted before it is written and counts as durable only when the write is,
//!    by itself or by a flush that began after it ended (durability law). A write that failed leaves
//!    what it showed neither on the device nor off it.
//!
//! Reference: `spec/soft-updates.md` §5, §10, §12.2.

use super::Engine;
use super::graph::{Id, State, What};
use super::inodes::Init;
use super::memory::heap;
use crate::buf::{BufKey, BufKind, Image};
use crate::ordering::Readiness;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::{Dinode, Ino};
use smallvec::SmallVec;

/// What an image under way shows.
#[derive(Debug)]
pub(super) struct Manifest {
    key: BufKey,
    /// The block's reasons to be written that it answers.
    seq: u64,
    nodes: Vec<Id>,
    /// Which state of an inode, and with what size.
    inodes: SmallVec<[(Ino, u64, u64); 2]>,
}

impl Manifest {
    pub(super) fn bytes(&self) -> usize {
        size_of::<Manifest>() + self.nodes.capacity() * size_of::<Id>() + heap(&self.inodes)
    }
}

impl Engine {
    /// See [`crate::buf::WriteHooks::make_image`].
    pub(super) fn make_image(
        &mut self,
        key: BufKey,
        kind: BufKind,
        copy: Option<&mut [u8]>,
    ) -> Image {
        if kind == BufKind::CylinderGroup && self.is_held(key) {
            return Image::Held;
        }
        let seq = self.blocks.get_mut(&key).map_or(0, |rec| {
            rec.issued = rec.seq;
            rec.seq
        });
        let mut m = Manifest { key, seq, nodes: Vec::new(), inodes: SmallVec::new() };
        let undone = match (kind, copy) {
            (BufKind::Inodes, Some(bytes)) => self.inode_image(key, bytes, &mut m),
            (BufKind::Directory, Some(bytes)) => self.compose_directory(key, bytes, &mut m.nodes),
            (BufKind::Indirect, Some(bytes)) => self.compose_indirect(key, bytes, &mut m.nodes),
            _ => false,
        };
        for &id in &m.nodes {
            if let Some(n) = self.nodes.get_mut(id)
                && n.state == State::Never
            {
                n.state = State::Issued;
            }
        }
        if seq > 0 || !m.nodes.is_empty() || !m.inodes.is_empty() {
            self.flying.insert(key, m);
        }
        if undone { Image::Undone } else { Image::Whole }
    }

    /// First inode of an inode block.
    fn first_inode(&self, key: BufKey) -> Option<Ino> {
        let BufKey::Meta(at) = key else { return None };
        let g = &self.g;
        let c = g.dtog(at);
        let block = at.0.checked_sub(g.cgimin(c).0)? / u64::from(g.frag);
        let i = u32::try_from(block).ok()?.checked_mul(g.inopb)?;
        Some(Ino(c.0 * g.ipg + i))
    }

    fn inode_image(&mut self, key: BufKey, bytes: &mut [u8], m: &mut Manifest) -> bool {
        let Some(first) = self.first_inode(key) else { return false };
        let (g, size) = (self.g, self.g.format.dinode_size());
        let mut undone = false;
        for (i, slot) in (0..g.inopb).zip(bytes.chunks_exact_mut(size)) {
            let ino = Ino(first.0.saturating_add(i));
            let Some(rec) = self.inodes.get_mut(&ino) else { continue };
            if rec.is_hidden() {
                let d = Dinode::decode(&g, slot);
                if d.mode != 0 {
                    undone = true;
                    let (generation, freelink) = (d.generation, d.freelink);
                    Dinode { generation, freelink, ..Dinode::default() }.encode(&g, slot);
                }
                continue;
            }
            if let Init::New { issued, .. } = &mut rec.init {
                *issued = true;
            }
            let version = rec.version;
            let Some(mut more) = rec.more.take() else {
                m.inodes.push((ino, version, 0));
                continue;
            };
            let mut d = Dinode::decode(&g, slot);
            if self.compose(&mut d, &more, &mut m.nodes) {
                undone = true;
                d.encode(&g, slot);
            }
            if let Some(reach) = &mut more.reach {
                (reach.durable, reach.issued) = (reach.durable.min(d.size), d.size);
            }
            m.inodes.push((ino, version, d.size));
            if let Some(rec) = self.inodes.get_mut(&ino) {
                rec.more = Some(more);
            }
        }
        undone
    }

    /// See [`crate::buf::WriteHooks::written`].
    pub(super) fn written(&mut self, key: BufKey, ok: bool, durable: bool) -> bool {
        let Some(m) = self.flying.remove(&key) else { return false };
        if !ok {
            return true;
        }
        let again = self.blocks.get(&key).is_some_and(|rec| rec.seq > m.seq);
        if durable || !holds(Rule::FlushBeforeDurable) {
            self.complete(m);
        } else {
            self.stamp += 1;
            self.landed.push_back((self.stamp, m));
        }
        again
    }

    /// See [`crate::buf::WriteHooks::flushed`].
    pub(super) fn flushed(&mut self, began: u64) {
        while self.landed.front().is_some_and(|(stamp, _)| *stamp <= began) {
            if let Some((_, m)) = self.landed.pop_front() {
                self.complete(m);
            }
        }
    }

    /// What the image shows is durable.
    fn complete(&mut self, m: Manifest) {
        self.block_durable(m.key, m.seq);
        for id in m.nodes {
            match self.nodes.get(id).map(|n| &n.what) {
                Some(What::Name(_)) => self.name_written(id),
                Some(What::Claim(_)) => self.claim_durable(id),
                Some(What::Ceiling { .. } | What::Floor(_)) => self.bound_over(id),
                Some(What::Ext(_)) => self.ext_durable(id),
                _ => {}
            }
        }
        self.drain();
        for (ino, version, size) in m.inodes {
            self.inode_durable(ino, version, size);
        }
        self.drain();
    }

    /// See [`crate::ordering::Ordering::readiness`].
    pub(super) fn readiness(&self, key: BufKey, kind: BufKind) -> Readiness {
        let part = |yes: bool| if yes { Readiness::Partial } else { Readiness::Whole };
        match kind {
            BufKind::CylinderGroup if self.is_held(key) => Readiness::Held,
            BufKind::Indirect if self.awaits_last(key) => Readiness::Held,
            BufKind::Inodes => part(self.inodes_held_back(key)),
            BufKind::Directory => part(self.dirs.get(&key).is_some_and(|all| {
                all.iter().any(|(_, c)| self.held_back(c.versions.last().copied()))
            })),
            BufKind::Indirect => part(self.indirects.get(&key).is_some_and(|all| {
                all.iter().any(|(&i, c)| {
                    self.held_back(c.versions.last().copied()) || !self.reaches_to(key, i)
                })
            })),
            BufKind::CylinderGroup | BufKind::Data => Readiness::Whole,
        }
    }

    fn held_back(&self, id: Option<Id>) -> bool {
        id.and_then(|id| self.nodes.get(id)).is_some_and(|n| !n.ready())
    }

    fn inodes_held_back(&self, key: BufKey) -> bool {
        let Some(first) = self.first_inode(key) else { return false };
        (first.0..first.0.saturating_add(self.g.inopb)).any(|i| {
            let Some(rec) = self.inodes.get(&Ino(i)) else { return false };
            let more = |m: &super::inodes::More| {
                m.slots.iter().any(|(_, c)| self.held_back(c.versions.last().copied()))
                    || m.bounds().chain(&m.ext).any(|&id| self.held_back(Some(id)))
            };
            rec.is_hidden() || rec.more.as_deref().is_some_and(more)
        })
    }
}
