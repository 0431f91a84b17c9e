//! The page of a drawing: data and template. The table for a terminal.

use std::fmt::Write;

use askama::Template;
use serde::Serialize;

use super::Drawing;
use super::map::{InodeUse, KINDS, VolumeMap};
use super::story::Step;
use crate::error::{LabError, Result};
use crate::plot::style;

const CSS: &str =
    concat!(include_str!("../../templates/report.css"), include_str!("../../templates/draw.css"));
const SCRIPT: &str = include_str!("../../templates/draw.js");
/// Most inodes of the page.
const INODES: usize = 20_000;
/// Most events of a step.
const EVENTS: usize = 400;

#[derive(Template)]
#[template(path = "draw.html")]
struct Page<'a> {
    name: &'a str,
    style: String,
    about: String,
    violations: &'a [String],
    why: &'a str,
    heads: Vec<&'static str>,
    groups: Vec<Vec<String>>,
    data: String,
    script: &'static str,
    version: &'static str,
}

/// A run of fragments: how many, kind, owner.
type Run = (u64, usize, u32);

#[derive(Serialize)]
struct PageData {
    kinds: Vec<&'static str>,
    fragment: u64,
    /// Fragments of a block, of a group, and of the volume.
    block: u64,
    group: u64,
    size: u64,
    /// Inodes of a group.
    inodes_of_group: u32,
    runs: Vec<Run>,
    inodes: Vec<InodeData>,
    /// Inodes that the page leaves out.
    more_inodes: usize,
    steps: Vec<StepData>,
}

/// Number, kind, bytes, links, path.
type InodeData = (u32, usize, u64, u16, String);

#[derive(Serialize)]
struct StepData {
    title: String,
    text: String,
    events: Vec<String>,
    /// Events that the page leaves out.
    more_events: usize,
    /// Written fragments: first and number.
    written: Vec<(u64, u64)>,
    /// Fragments with another use than before: first, and the run.
    changed: Vec<(u64, Run)>,
    /// Inodes that are new or other than before.
    inodes: Vec<InodeData>,
    /// Inodes that are no longer in use.
    freed: Vec<u32>,
}

fn inode((ino, inode): (&u32, &InodeUse)) -> InodeData {
    (*ino, inode.kind, inode.size, inode.links, inode.path.clone())
}

fn runs(map: &VolumeMap) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (found, owner) in &map.uses {
        let kind = super::map::kind(*found);
        match runs.last_mut() {
            Some(run) if (run.1, run.2) == (kind, *owner) => run.0 += 1,
            _ => runs.push((1, kind, *owner)),
        }
    }
    runs
}

impl StepData {
    fn of(before: &VolumeMap, step: &Step) -> StepData {
        let map = &step.map;
        let mut changed: Vec<(u64, Run)> = Vec::new();
        for (at, (old, new)) in (0..).zip(before.uses.iter().zip(&map.uses)) {
            if old == new {
                continue;
            }
            let kind = super::map::kind(new.0);
            match changed.last_mut() {
                Some((from, run)) if *from + run.0 == at && (run.1, run.2) == (kind, new.1) => {
                    run.0 += 1;
                }
                _ => changed.push((at, (1, kind, new.1))),
            }
        }
        let other = |(ino, inode): &(&u32, &InodeUse)| before.inodes.get(*ino) != Some(*inode);
        let fsize = map.shape.fsize.max(1);
        let fragments = |(offset, len): &(u64, u64)| (offset / fsize, len.div_ceil(fsize).max(1));
        StepData {
            title: step.title.clone(),
            text: step.text.clone(),
            events: step.events.iter().take(EVENTS).cloned().collect(),
            more_events: step.events.len().saturating_sub(EVENTS),
            written: step.written.iter().map(fragments).collect(),
            changed,
            inodes: map.inodes.iter().filter(other).take(INODES).map(inode).collect(),
            freed: before
                .inodes
                .keys()
                .filter(|ino| !map.inodes.contains_key(ino))
                .copied()
                .collect(),
        }
    }
}

impl PageData {
    fn of(drawing: &Drawing) -> PageData {
        let map = &drawing.map;
        let mut before = map;
        let mut steps = Vec::new();
        for step in drawing.story.iter().flat_map(|story| &story.steps) {
            steps.push(StepData::of(before, step));
            before = &step.map;
        }
        PageData {
            kinds: KINDS.iter().map(|(_, name)| *name).collect(),
            fragment: map.shape.fsize,
            block: map.shape.frag,
            group: map.shape.fpg,
            size: map.shape.size,
            inodes_of_group: map.shape.ipg,
            runs: runs(map),
            inodes: map.inodes.iter().take(INODES).map(inode).collect(),
            more_inodes: map.inodes.len().saturating_sub(INODES),
            steps,
        }
    }
}

/// The heads of the table of groups.
fn heads() -> Vec<&'static str> {
    let kinds = KINDS.iter().map(|(_, name)| *name);
    ["group", "inodes", "directories"].into_iter().chain(kinds).collect()
}

fn rows(map: &VolumeMap) -> Vec<Vec<String>> {
    let row = |group: u32| {
        let (inodes, directories) = map.inodes_of(group);
        let mut row = vec![group.to_string(), inodes.to_string(), directories.to_string()];
        row.extend(map.counts(group).iter().map(u64::to_string));
        row
    };
    (0..map.shape.groups).map(row).collect()
}

fn about(map: &VolumeMap) -> String {
    let shape = &map.shape;
    let format = if shape.ufs2 { "UFS2" } else { "UFS1" };
    format!(
        "{format}: {} groups, {} fragments of {} bytes, {} fragments in a block, {} inodes in a \
         group; {} inodes are in use.",
        shape.groups,
        shape.size,
        shape.fsize,
        shape.frag,
        shape.ipg,
        map.inodes.len()
    )
}

/// The page.
pub(super) fn render(drawing: &Drawing) -> Result<String> {
    let failed = |why: &dyn std::fmt::Display| LabError::Plan(format!("draw.html: {why}"));
    let data = serde_json::to_string(&PageData::of(drawing)).map_err(|error| failed(&error))?;
    let page = Page {
        name: &drawing.name,
        style: format!("{}{}{CSS}", style::COLOURS, style::SHAPES),
        about: about(&drawing.map),
        violations: &drawing.map.violations,
        why: drawing.story.as_ref().err().map_or("", String::as_str),
        heads: heads(),
        groups: rows(&drawing.map),
        // The data ends no script: it has none of these characters.
        data: data.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"),
        script: SCRIPT,
        version: env!("CARGO_PKG_VERSION"),
    };
    page.render().map_err(|error| failed(&error))
}

/// The table for a terminal: a line for each group.
pub(super) fn text(drawing: &Drawing) -> String {
    let map = &drawing.map;
    let mut out = format!("{}: {}\n", drawing.name, about(map));
    let mut table = tabled::builder::Builder::default();
    table.push_record(heads());
    rows(map).into_iter().for_each(|row| table.push_record(row));
    let mut table = table.build();
    table.with(tabled::settings::Style::blank());
    table.with(tabled::settings::Alignment::right());
    // A write to a string does not fail.
    let _ = writeln!(out, "{table}");
    for violation in &map.violations {
        let _ = writeln!(out, "{violation}");
    }
    out
}
