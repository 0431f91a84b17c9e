//! Machines described in files.
//!
//! A preset is TOML with the sections `[disk]`, `[cpu]`, `[host]`, `[volume]` and `[switches]`. A file given by
//! the user may leave out sections and values: what it does not say is as in the machine of the paper.
//!
//! **Invariants.**
//! 1. A preset in use is complete and within bounds; unknown names and impossible values are refused with the
//!    place and what would be right.
//!
//! Reference: `spec/benchmarks.md` §6.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use crate::error::{LabError, Result};

/// Presets that come with the program: name and text.
const BUILT_IN: [(&str, &str); 3] = [
    ("p4-1600", include_str!("presets/p4-1600.toml")),
    ("ide2001-5400", include_str!("presets/ide2001-5400.toml")),
    ("ide2001-7200", include_str!("presets/ide2001-7200.toml")),
];

/// Those that make the machine of the paper.
const PAPER: [usize; 2] = [0, 1];

/// What a drive does with writes before they are on the platters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteCache {
    /// It writes them first.
    Off,
    /// It takes them into its buffer and writes them in their order.
    Fifo,
    /// It takes them into its buffer, writes them as they lie, and the same sectors once.
    Merge,
}

/// A drive.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskPreset {
    /// Turns of the platters a minute.
    pub turns_per_minute: u32,
    /// Surfaces.
    pub heads: u32,
    /// Tracks of a surface.
    pub cylinders: u32,
    /// Rings of cylinders with the same number of sectors.
    pub zones: u32,
    /// Sectors of a track in the first zone.
    pub outer_sectors: u32,
    /// Sectors of a track in the last zone.
    pub inner_sectors: u32,
    /// Mean seek between random places.
    pub average_seek_ms: f64,
    /// Seek over all cylinders.
    pub full_seek_ms: f64,
    /// What a seek for writing takes longer.
    pub write_settle_ms: f64,
    /// To the other surface.
    pub head_switch_ms: f64,
    /// To the next cylinder in the middle of a transfer.
    pub cylinder_switch_ms: f64,
    /// Of a command that reads from the platters.
    pub read_overhead_ms: f64,
    /// Of a command answered from the buffer.
    pub hit_overhead_ms: f64,
    /// Of a command that writes.
    pub write_overhead_ms: f64,
    /// The buffer.
    pub buffer_kb: u32,
    /// Streams that are read ahead.
    pub segments: u32,
    /// Bytes of one of them.
    pub segment_kb: u32,
    /// Rate of the cable.
    pub bus_mb_s: f64,
    /// What is done with writes.
    pub write_cache: WriteCache,
    /// Writes in the buffer at most.
    pub write_cache_segments: u32,
}

macro_rules! costs {
    ($($name:ident: $what:literal,)*) => {
        /// What the processor's work costs, in microseconds.
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct CpuPreset {
            $(#[doc = $what] pub $name: f64,)*
        }

        impl CpuPreset {
            fn each(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

costs! {
    stat: "The call `stat`.",
    create: "Making a file.",
    open: "Opening a file.",
    close: "Closing it.",
    remove: "Removing a file's name.",
    rename: "Renaming.",
    mkdir: "Making a directory.",
    rmdir: "Removing one.",
    link: "Making a link.",
    read: "A read call.",
    write: "A write call.",
    set_attributes: "Changing mode or times.",
    list: "A call that reads a directory.",
    list_entry: "A name in it.",
    fsync: "Waiting for a file.",
    kb_copied: "1024 bytes between the caller and the cache.",
    buffer_found: "A block found with its header.",
    buffer_from_pages: "A block found in pages only.",
    buffer_filled: "A block that has to be read.",
    name_found: "A name found in the name cache.",
    linear_lookup: "A name looked for in the directory without a hash.",
    chunk_scanned: "512 bytes of a directory looked at, however many records are in them.",
    chunk_scanned_far: "The same in a directory larger than `near_directory_kb`.",
    entry_scanned: "A record in them.",
    entry_scanned_far: "The same in a directory larger than `near_directory_kb`.",
    near_directory_kb: "Kilobytes of a directory that stay in the second-level cache.",
    hash_lookup: "A lookup in a hash.",
    hash_entry_inspected: "A record a hash pointed to.",
    hash_entry_built: "An entry entered while a hash is built.",
    inode_loaded: "An inode read from its block, a vnode made.",
    inode_recycled: "A vnode taken from another inode.",
    dependency_undone: "An image of a block from which changes were taken back.",
    disk_request: "Issue and interrupt of a request.",
}

/// What the kernel around the file system does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPreset {
    /// Writes under way before who writes has to wait.
    pub running_kb: u32,
    /// Until so much is left.
    pub running_low_kb: u32,
    /// Largest request.
    pub request_kb: u32,
    /// Blocks that wait to be written before who changes things has to wait.
    pub dirty_buffers: u32,
    /// Seconds between two runs of the syncer.
    pub syncer_seconds: u32,
}

/// The volume and how it aged.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumePreset {
    /// Where it begins on the disk.
    pub offset_mb: u64,
    /// Its size.
    pub size_mb: u64,
    /// Block size, bytes.
    pub block: u32,
    /// Fragment size, bytes.
    pub fragment: u32,
    /// Size of a cylinder group at most.
    pub group_mb: u32,
    /// Bytes of space for each inode.
    pub bytes_per_inode: u32,
    /// Share of the space in use, percent.
    pub used_percent: u32,
    /// How often its capacity was written.
    pub turnover: f64,
}

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// As it was asked for.
    pub name: String,
    /// The drive.
    pub disk: DiskPreset,
    /// The processor.
    pub cpu: CpuPreset,
    /// The kernel.
    pub host: HostPreset,
    /// The volume.
    pub volume: VolumePreset,
    /// Switches of the mount: name and value, a name without a value first of all.
    pub switches: Vec<(String, String)>,
}

/// A preset as it is in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetFile {
    disk: DiskPreset,
    cpu: CpuPreset,
    host: HostPreset,
    volume: VolumePreset,
    switches: std::collections::BTreeMap<String, String>,
}

impl Preset {
    /// The machine of the paper.
    ///
    /// # Errors
    /// None that a test does not find: the text comes with the program.
    pub fn paper() -> Result<Preset> {
        Preset::from_text("paper", "")
    }

    /// A machine by name, or from the file with that name.
    ///
    /// # Errors
    /// [`LabError::Plan`]: no such name or file, or what is wrong in it and where.
    pub fn find(name: &str) -> Result<Preset> {
        if name == "paper" {
            return Preset::paper();
        }
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Preset::from_text(name, text);
        }
        let names: Vec<&str> = BUILT_IN.iter().map(|(known, _)| *known).collect();
        let text = std::fs::read_to_string(Path::new(name)).map_err(|error| {
            let near = ffs_core::nearest(name, names.iter().copied().chain(["paper"]));
            let hint = near.map_or_else(
                || format!("; not one of paper, {} either", names.join(", ")),
                |near| ffs_core::suggestion(Some(near)),
            );
            LabError::Plan(format!("machine '{name}': {error}{hint}"))
        })?;
        Preset::from_text(name, &text)
    }

    /// A machine that is the paper's but for what `text` says.
    ///
    /// # Errors
    /// [`LabError::Plan`], with the place and what would be right.
    pub fn from_text(name: &str, text: &str) -> Result<Preset> {
        let wrong = |why: &dyn std::fmt::Display| {
            LabError::Plan(format!("machine '{name}': {}", why.to_string().trim_end()))
        };
        let mut all = Table::new();
        for at in PAPER {
            let (_, text) = BUILT_IN[at];
            merge(&mut all, text.parse().map_err(|error| wrong(&error))?);
        }
        // Understood alone first: only so has a mistake a place in the user's file.
        let own: Table = text.parse().map_err(|error| wrong(&error))?;
        merge(&mut all, own);
        let form: PresetFile = Value::Table(all).try_into().map_err(|error| wrong(&error))?;
        let PresetFile { disk, cpu, host, volume, switches } = form;
        let switches = switches.into_iter().collect();
        let preset = Preset { name: name.to_owned(), disk, cpu, host, volume, switches };
        preset.check().map_err(|why| wrong(&why))?;
        Ok(preset)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let (d, v) = (&self.disk, &self.volume);
        let bounds = |name: &str, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} = {value}: expected {least} to {most}"))
            }
        };
        bounds("turns_per_minute", d.turns_per_minute.into(), 600.0, 60_000.0)?;
        bounds("heads", d.heads.into(), 1.0, 64.0)?;
        bounds("cylinders", d.cylinders.into(), 16.0, 1e6)?;
        bounds("zones", d.zones.into(), 1.0, f64::from(d.cylinders.min(1000)))?;
        bounds("inner_sectors", d.inner_sectors.into(), 16.0, f64::from(d.outer_sectors))?;
        bounds("outer_sectors", d.outer_sectors.into(), 16.0, 100_000.0)?;
        // The mean must leave something for the shortest seek.
        let least = d.full_seek_ms * 8.0 / 15.0;
        bounds("full_seek_ms", d.full_seek_ms, 0.1, 1000.0)?;
        bounds("average_seek_ms", d.average_seek_ms, least, d.full_seek_ms)?;
        for (name, ms) in [
            ("write_settle_ms", d.write_settle_ms),
            ("head_switch_ms", d.head_switch_ms),
            ("cylinder_switch_ms", d.cylinder_switch_ms),
            ("read_overhead_ms", d.read_overhead_ms),
            ("hit_overhead_ms", d.hit_overhead_ms),
            ("write_overhead_ms", d.write_overhead_ms),
        ] {
            bounds(name, ms, 0.0, 100.0)?;
        }
        bounds("bus_mb_s", d.bus_mb_s, 0.5, 1e5)?;
        bounds("segments", d.segments.into(), 0.0, 1000.0)?;
        bounds("segment_kb", d.segment_kb.into(), 1.0, 65536.0)?;
        bounds("buffer_kb", d.buffer_kb.into(), 64.0, 4e6)?;
        bounds("write_cache_segments", d.write_cache_segments.into(), 1.0, 1e5)?;
        for (name, us) in self.cpu.each() {
            bounds(name, us, 0.0, 1e6)?;
        }
        let h = &self.host;
        bounds("request_kb", h.request_kb.into(), 1.0, 1024.0)?;
        bounds("running_kb", h.running_kb.into(), f64::from(h.request_kb), 1e6)?;
        bounds("running_low_kb", h.running_low_kb.into(), 0.0, f64::from(h.running_kb))?;
        bounds("dirty_buffers", h.dirty_buffers.into(), 16.0, 1e6)?;
        bounds("syncer_seconds", h.syncer_seconds.into(), 1.0, 60.0)?;
        bounds("used_percent", v.used_percent.into(), 0.0, 85.0)?;
        bounds("turnover", v.turnover, 0.0, 100.0)?;
        bounds("group_mb", v.group_mb.into(), 2.0, 4096.0)?;
        bounds("size_mb", v.size_mb as f64, 16.0, 1e6)?;
        let sectors = super::geometry::Geometry::new(d).sectors();
        let end = v.offset_mb.saturating_add(v.size_mb).saturating_mul(1 << 20);
        if end > sectors * super::geometry::SECTOR {
            let has = (sectors * super::geometry::SECTOR) >> 20;
            return Err(format!("the volume ends at {} MB, the disk has {has} MB", end >> 20));
        }
        Ok(())
    }
}

/// Enters what `from` says over what `into` has, value by value.
fn merge(into: &mut Table, from: Table) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            // A whole number is as good where a fraction is wanted.
            (Some(old @ Value::Float(_)), Value::Integer(n)) => *old = Value::Float(n as f64),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}
