//! Machine files.
//!
//! A preset is TOML with the sections `[disk]`, `[cpu]`, `[host]`, `[volume]` and `[switches]`. A
//! file of the user may omit sections and values; the machine of the paper has the defaults.
//!
//! # Invariants
//! 1. A preset in use is complete and within bounds. The error for an unknown name or an impossible
//!    value has its place in the file and the expected values.
//!
//! Reference: `docs/spec/benchmarks.md` §6.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::parameters::{CpuPreset, DiskPreset, HostPreset, VolumePreset};
use crate::error::{LabError, Result};

/// The built-in presets: name and text.
pub(super) const BUILT_IN: [(&str, &str); 9] = [
    ("p4-1600", include_str!("presets/p4-1600.toml")),
    ("ide2001-5400", include_str!("presets/ide2001-5400.toml")),
    ("ide2001-7200", include_str!("presets/ide2001-7200.toml")),
    ("scsi2002-15k", include_str!("presets/scsi2002-15k.toml")),
    ("sata2016-7200", include_str!("presets/sata2016-7200.toml")),
    ("smr2014-5900", include_str!("presets/smr2014-5900.toml")),
    ("ssd2009", include_str!("presets/ssd2009.toml")),
    ("nvme2019", include_str!("presets/nvme2019.toml")),
    ("nvme2019-queue32", include_str!("presets/nvme2019-queue32.toml")),
];

/// The presets that form the machine of the paper.
const PAPER: [usize; 2] = [0, 1];

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preset {
    /// The name or path that the user gave.
    pub(crate) name: String,
    /// The drive.
    pub(crate) disk: DiskPreset,
    /// The processor.
    pub(crate) cpu: CpuPreset,
    /// The kernel.
    pub(crate) host: HostPreset,
    /// The volume.
    pub(crate) volume: VolumePreset,
    /// Mount options: name and value. Options without a value come first.
    pub(crate) switches: Vec<(String, String)>,
}

/// The content of a preset file.
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
    /// None: a test reads the built-in text.
    pub(crate) fn paper() -> Result<Preset> {
        Preset::from_text("paper", "")
    }

    /// A machine by its name, or from the file at that path.
    ///
    /// # Errors
    /// [`LabError::Plan`] if there is no such name or file, or if the file is invalid.
    pub(crate) fn find(name: &str) -> Result<Preset> {
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

    /// The machine of the paper with the values in `text` replaced.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the place in the text and the expected values.
    pub(crate) fn from_text(name: &str, text: &str) -> Result<Preset> {
        let wrong = |why: &dyn std::fmt::Display| {
            LabError::Plan(format!("machine '{name}': {}", why.to_string().trim_end()))
        };
        let mut all = Table::new();
        for at in PAPER {
            let (_, text) = BUILT_IN[at];
            merge(&mut all, text.parse().map_err(|error| wrong(&error))?);
        }
        // The user's text is parsed alone first, so that an error has its place in that text.
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
        bounds("turns_per_minute", d.turns_per_minute.into(), 600.0, 60_000.0)?;
        bounds("heads", d.heads.into(), 1.0, 64.0)?;
        bounds("cylinders", d.cylinders.into(), 16.0, 1e6)?;
        bounds("zones", d.zones.into(), 1.0, f64::from(d.cylinders.min(1000)))?;
        bounds("inner_sectors", d.inner_sectors.into(), 16.0, f64::from(d.outer_sectors))?;
        bounds("outer_sectors", d.outer_sectors.into(), 16.0, 100_000.0)?;
        // With a smaller mean the shortest seek would take no time.
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
        check_kind(d)?;
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
        bounds("avgfilesize", v.avgfilesize.into(), 1.0, 2e9)?;
        bounds("avgfpdir", v.avgfpdir.into(), 1.0, 2e9)?;
        bounds("group_mb", v.group_mb.into(), 2.0, 4096.0)?;
        bounds("size_mb", v.size_mb as f64, 16.0, 1e6)?;
        let sectors = super::geometry::Geometry::new(d).sectors();
        let end = v.offset_mb.saturating_add(v.size_mb);
        let log = d.smr.as_ref().map_or(0, |smr| u64::from(smr.persistent_cache_mb));
        let has = ((sectors * super::geometry::SECTOR) >> 20).saturating_sub(log);
        if end > has {
            return Err(format!("the volume ends at {end} MB, the disk has {has} MB"));
        }
        Ok(())
    }
}

fn bounds(name: &str, value: f64, least: f64, most: f64) -> std::result::Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} = {value}: expected {least} to {most}"))
    }
}

/// Checks the values that only flash memory, or a drive with overlapping tracks, has.
fn check_kind(d: &DiskPreset) -> std::result::Result<(), String> {
    if let Some(flash) = &d.flash {
        bounds("read_us", flash.read_us, 0.0, 1e6)?;
        bounds("write_us", flash.write_us, 0.0, 1e6)?;
        bounds("flush_us", flash.flush_us, 0.0, 1e6)?;
        bounds("program_mb_s", flash.program_mb_s, 0.5, 1e5)?;
        bounds("commands", flash.commands.into(), 1.0, 1024.0)?;
        bounds("command_us", flash.command_us, 0.0, 1e6)?;
    }
    if let Some(smr) = &d.smr {
        // The log takes all that the buffer holds.
        let least = 2.0 * f64::from(d.buffer_kb) / 1024.0;
        bounds("persistent_cache_mb", smr.persistent_cache_mb.into(), least, 1e6)?;
        bounds("map_entries", smr.map_entries.into(), 16.0, 1e8)?;
        bounds("band_mb", smr.band_mb.into(), 1.0, 1024.0)?;
        bounds("idle_ms", smr.idle_ms, 0.0, 1e6)?;
    }
    Ok(())
}

/// Replaces the values of `into` by those of `from`.
fn merge(into: &mut Table, from: Table) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            // A float may be given as an integer.
            (Some(old @ Value::Float(_)), Value::Integer(n)) => *old = Value::Float(n as f64),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}
