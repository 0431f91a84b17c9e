//! Images of directory blocks.
//!
//! # Invariants
//! 1. A record whose newest value must not be seen shows the newest that may, number and type; the
//!    lengths of records are never taken back, so every chunk is whole.
//!
//! Reference: `spec/soft-updates.md` §2 (sector clause), §5, §12.2.

use super::Engine;
use super::graph::{Cond, Id, Node, What};
use super::names::chunk_of;
use super::records::Records;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, dir};

/// Which value of each record an image shows, in the order of the records: the one on the device, or one
/// since.
type Shown = Vec<(u32, Option<usize>)>;

fn place_of(shown: &Shown, off: u32) -> Option<usize> {
    shown.binary_search_by_key(&off, |s| s.0).ok()
}

impl Engine {
    /// What an image of a directory block must not show, taken back; tells what is in it, and whether
    /// anything was taken back.
    pub(super) fn compose_directory(
        &self,
        key: BufKey,
        bytes: &mut [u8],
        seen: &mut Vec<Id>,
    ) -> bool {
        let Some(all) = self.dirs.get(&key) else { return false };
        let mut shown = Shown::new();
        let mut blocked = Vec::new();
        for (off, chain) in all.iter() {
            let ready = |v: &Id| self.nodes.get(*v).is_some_and(Node::ready);
            let k = chain.versions.iter().rposition(ready);
            if k.is_none_or(|k| k + 1 != chain.versions.len()) {
                blocked.push(off);
            }
            shown.push((off, k));
        }
        self.admit_same_sector(all, &mut shown, &mut blocked);
        let block = self.g.bsize;
        let mut undone = false;
        for ((off, chain), (_, k)) in all.iter().zip(shown) {
            let id = k.and_then(|k| chain.versions.get(k)).copied();
            seen.extend(id);
            if k.is_some_and(|k| k + 1 == chain.versions.len()) {
                continue;
            }
            undone = true;
            let (ino, dtype) = id.and_then(|id| self.value(id)).unwrap_or(chain.base());
            let at = (off % block) as usize;
            let start = at - at % DIRBLKSIZ;
            let Some(chunk) = bytes.get_mut(start..start + DIRBLKSIZ) else { continue };
            dir::set_ino(self.fmt, chunk, at - start, ino.0);
            if holds(Rule::TypeWithNumber) && ino.0 != 0 {
                dir::set_type(self.fmt, chunk, at - start, dtype);
            }
        }
        undone
    }

    /// A sector is written whole or not at all: a value that only waits for names shown in the same
    /// sector, which need nothing more to be anchored, may be shown with them.
    fn admit_same_sector(&self, all: &Records, shown: &mut Shown, blocked: &mut Vec<u32>) {
        let is_shown = |shown: &Shown, off: u32, id: Id| {
            let k = place_of(shown, off).and_then(|at| shown.get(at)?.1);
            k.and_then(|k| all.get(off)?.versions.get(k)) == Some(&id)
        };
        loop {
            let before = blocked.len();
            blocked.retain(|&off| {
                let Some(chain) = all.get(off) else { return false };
                let Some(last) = chain.versions.last() else { return false };
                let Some(n) = self.nodes.get(*last) else { return false };
                let ok = n.needs.iter().filter(|need| !need.anchor()).all(|need| {
                    let Cond::Node(on, _) = need.cond() else { return false };
                    let Some(on_node) = self.nodes.get(on) else { return false };
                    let What::Name(name) = &on_node.what else { return false };
                    let here = name.at.off.0;
                    chunk_of(name.at.off) == chunk_of(DirOff(off))
                        && is_shown(shown, here, on)
                        && on_node.needs.iter().all(|n| !n.anchor())
                        && self.way_is_free(name.at)
                });
                if ok && let Some(at) = place_of(shown, off) {
                    shown[at].1 = Some(chain.versions.len() - 1);
                }
                !ok
            });
            if blocked.len() == before {
                return;
            }
        }
    }
}
