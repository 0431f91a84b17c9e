//! The description of one state: the operations around the crash, the writes, which of them the
//! state keeps, and the findings of fsck.

use std::sync::Arc;

use ffs_admin::fsck::FsckReport;
use ffs_ondisk::{Format, FragNo, Geometry};

use super::events;
use super::geometry::BaseVolume;
use super::history::Progress;
use super::op::Workload;
use super::record::{Recording, Window, Write};
use super::states::{Layout, WindowStates};

/// Most operations in the description: the last ones.
const MOST_OPS: usize = 12;

/// A state and everything that its description needs.
pub(super) struct StateReport<'a> {
    pub(super) base: &'a Arc<BaseVolume>,
    pub(super) workload: &'a Workload,
    pub(super) recording: &'a Recording,
    pub(super) window: &'a Window,
    pub(super) window_states: &'a WindowStates<'a>,
    pub(super) layout: &'a Layout,
    pub(super) preen: &'a FsckReport,
    /// Most log events of soft updates: the last ones.
    pub(super) most_events: usize,
}

impl StateReport<'_> {
    /// The lines of the description.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = self.operations();
        let seen = self.layout.crash.seen;
        lines.extend(events::lines(&self.recording.ordering_events, seen, self.most_events));
        let begin = self.window.begin;
        lines
            .push(format!("the device had seen {seen} events, {begin} of them durable; the rest:"));
        let g = &self.base.geometry;
        for (number, write) in self.window.writes.iter().enumerate() {
            let kept = self.window_states.kept(self.layout, number);
            lines.push(format!("  write {number}: {}: {kept}", place(g, write)));
        }
        lines.push(format!("fsck -p exits {}:", self.preen.exit_code));
        lines.extend(self.preen.findings.iter().map(|finding| format!("  {finding}")));
        lines.extend(self.preen.stopped.iter().map(|why| format!("  {why}")));
        lines
    }

    /// The last operations before the crash, and those in progress.
    fn operations(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut last = None;
        for (step, progress) in self.recording.history.until(self.layout.crash) {
            let Some(number) = step.op.filter(|number| last != Some(*number)) else { continue };
            last = Some(number);
            let progress = match progress {
                Progress::Returned => "returned",
                _ => "under way",
            };
            let op = self.workload.ops.get(number as usize);
            let op = op.map(ToString::to_string).unwrap_or_default();
            lines.push(format!(
                "  {}: {op} ({progress}, events {} to {})",
                number + 1,
                step.began,
                step.at
            ));
        }
        let skipped = lines.len().saturating_sub(MOST_OPS);
        lines.drain(..skipped);
        let head = if skipped == 0 {
            "operations:".to_owned()
        } else {
            format!("operations, {skipped} before them:")
        };
        lines.insert(0, head);
        lines
    }
}

/// Describes the place of a write on the volume.
fn place(g: &Geometry, write: &Write) -> String {
    place_of(g, write.offset, write.bytes.len() as u64)
}

/// Describes the place of `len` bytes at byte `offset` of the volume.
pub(crate) fn place_of(g: &Geometry, offset: u64, len: u64) -> String {
    let at = FragNo(offset / u64::from(g.fsize));
    let frags = len / u64::from(g.fsize).max(1);
    let superblock = match g.format {
        Format::Ufs1 => 8192,
        Format::Ufs2 => 65536,
    };
    let cg = g.dtog(at);
    let what = if offset == superblock {
        "superblock".to_owned()
    } else if at == g.csaddr {
        "summaries of the groups".to_owned()
    } else if at == g.cgtod(cg) {
        format!("group {}", cg.0)
    } else if g.cgimin(cg) <= at && at < g.cgdmin(cg) {
        let first = (at.0 - g.cgimin(cg).0) / u64::from(g.frag) * u64::from(g.inopb);
        let first = u64::from(cg.0) * u64::from(g.ipg) + first;
        format!("inodes {first} to {}", first + u64::from(g.inopb) - 1)
    } else {
        format!("fragments {} to {}", at.0, at.0 + frags.saturating_sub(1))
    };
    format!("{what} (byte {offset}, {} sectors)", len / 512)
}
