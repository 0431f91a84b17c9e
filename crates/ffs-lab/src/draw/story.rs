//! The steps on a copy of the volume: a file is made and renamed, the changes are written, the
//! power fails between two writes, and `fsck -p` repairs the result.
//!
//! # Invariants
//! 1. The crash keeps all writes before it and none after it: one of the states that the crash
//!    laboratory examines.
//! 2. The crash is at the write after which `fsck -p` repairs most; the first of several.

use std::borrow::Cow;
use std::sync::Arc;

use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{Cred, Ffs, NodeKind, OrderingPolicy, RenameMode, WriteMode};
use ffs_device::record::{Event, Recorder, replay};
use ffs_device::{BlockDevice, Durability, MemDevice};
use ffs_ondisk::Geometry;

use super::map::VolumeMap;
use crate::crash::events::{Collector, OrderingEvent};
use crate::crash::explain::place_of;
use crate::crash::image::ImageBytes;
use crate::crash::mounting::{START, mount, options};
use crate::crash::op::Workload;
use crate::crash::oracle::SoftUpdateOptions;
use crate::crash::raw::journal_extents;

/// The names of the file. It exists in no volume: another number is tried then.
const NAMES: [&str; 2] = ["ffs-drawn", "ffs-renamed"];
/// Most writes between the last operation and the crash that are steps.
const WRITES: usize = 40;
/// Fragments of content of the file.
const FRAGMENTS: u64 = 3;

/// A step.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) title: String,
    pub(super) text: String,
    /// Events of the engine, or findings of the check.
    pub(super) events: Vec<String>,
    /// The written bytes: offset and length.
    pub(super) written: Vec<(u64, u64)>,
    /// The volume on the device after the step.
    pub(super) map: VolumeMap,
}

/// The steps after the volume as it is.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) steps: Vec<Step>,
}

/// The bytes of a device.
struct Bytes<'a>(&'a MemDevice);

impl ImageBytes for Bytes<'_> {
    fn len(&self) -> u64 {
        self.0.len_bytes()
    }

    fn read(&self, offset: u64, len: usize) -> Option<Cow<'_, [u8]>> {
        let end = offset.checked_add(len as u64)?;
        if end > self.0.len_bytes() {
            return None;
        }
        let mut bytes = vec![0; len];
        self.0.read_at(offset, &mut bytes).ok()?;
        Some(Cow::Owned(bytes))
    }
}

/// What was recorded: the log of the device, the events of the engine, and the geometry.
struct Recorded {
    log: Vec<Event>,
    events: Vec<OrderingEvent>,
    geometry: Geometry,
    names: [String; 2],
}

fn check(device: &Arc<MemDevice>, options: FsckOptions) -> FsckReport {
    Fsck::new(Arc::clone(device) as _, options.at(START + 60)).run()
}

impl Story {
    /// The steps on a copy of `image`.
    ///
    /// # Errors
    /// The reason why there are none, as a sentence.
    pub(super) fn on(image: &[u8]) -> Result<Story, String> {
        let copy = Arc::new(MemDevice::from_bytes(image));
        let report = check(&copy, FsckOptions::preen());
        if let Some(why) = &report.stopped {
            return Err(format!("fsck -p stops on this image ({why}): no copy of it is changed."));
        }
        if report.exit_code != 0 {
            let code = report.exit_code;
            return Err(format!("fsck -p exits {code} on this image: no copy of it is changed."));
        }
        if !journal_extents(&copy.to_vec()).is_empty() {
            return Err("The volume has a journal; the steps show soft updates alone.".to_owned());
        }
        let on = TunefsOptions { soft_updates: Some(true), now: START, ..TunefsOptions::default() };
        tunefs(&*copy, &on).map_err(|error| format!("tunefs fails on a copy: {error}."))?;
        let sentence = |error: &dyn std::fmt::Display| format!("A copy fails: {error}.");
        let recorded = record(&copy).map_err(|error| sentence(&error))?;
        Story::of(&copy, &recorded)
    }

    fn of(base: &MemDevice, recorded: &Recorded) -> Result<Story, String> {
        let mut replayer = Replayer { device: base.snapshot(), recorded, at: 0, steps: Vec::new() };
        for (mark, title, text) in texts(&recorded.names) {
            replayer.play_to_mark(mark, title, text)?;
        }
        let rest: Vec<&Event> = recorded.log.iter().skip(replayer.at).collect();
        let writes = rest.iter().filter(|event| matches!(event, Event::Write { .. })).count();
        let crash = worst(&replayer.device, &rest)?;
        for number in 1..=crash {
            replayer.play_to_write(number, writes)?;
        }
        replayer.crash(writes - crash.min(writes))?;
        replayer.repair()?;
        Ok(Story { steps: replayer.steps })
    }
}

/// The operations: the mark at their end, title and text.
fn texts(names: &[String; 2]) -> [(&'static str, String, String); 3] {
    let [old, new] = names;
    [
        (
            "mounted",
            "Mount".to_owned(),
            "The superblock no longer has the mark of a clean volume.".to_owned(),
        ),
        (
            "created",
            format!("Create /{old}"),
            format!(
                "A file with {FRAGMENTS} fragments of content. The calls return at once: the \
                 changes are in memory, and the engine keeps their dependencies."
            ),
        ),
        (
            "renamed",
            format!("Rename to /{new}"),
            "The new name and the removal of the old one wait in memory, too. The device is \
             unchanged."
                .to_owned(),
        ),
    ]
}

/// Performs the operations on a copy of the volume.
fn record(base: &MemDevice) -> crate::error::Result<Recorded> {
    let device = base.snapshot().with_durability(Durability::OnFlush);
    let recorder = Arc::new(Recorder::new(device));
    let collector = Collector::new(Arc::clone(&recorder));
    let (done, events) = collector.collect(|| {
        let soft = SoftUpdateOptions::default();
        let options = options(OrderingPolicy::SoftUpdates, soft, &Workload::default());
        let (fs, _clock) = mount(Arc::clone(&recorder) as _, &options, 1)?;
        let names = operations(&fs, &recorder)
            .map_err(|error| crate::crash::mounting::failed("the file of the steps", &error))?;
        let geometry = *fs.geometry();
        fs.unmount().map_err(|error| crate::crash::mounting::failed("unmount", &error))?;
        Ok::<_, crate::error::LabError>((geometry, names))
    });
    let (geometry, names) = done?;
    Ok(Recorded { log: recorder.take_events(), events, geometry, names })
}

fn operations(fs: &Ffs, recorder: &Recorder<MemDevice>) -> ffs_core::Result<[String; 2]> {
    let (cred, root) = (Cred::root(), fs.root()?);
    let is_new = |name: &String| fs.lookup(&cred, &root, name.as_bytes()).is_err();
    let fresh = |name: &str| {
        let numbered = (1..100).map(|n| format!("{name}-{n}"));
        std::iter::once(name.to_owned()).chain(numbered).find(is_new).unwrap_or_default()
    };
    let names = NAMES.map(fresh);
    let [old, new] = &names;
    recorder.mark("mounted");
    let file = fs.create(&cred, &root, old.as_bytes(), NodeKind::Regular, 0o644)?;
    let content = vec![b'x'; (u64::from(fs.geometry().fsize) * FRAGMENTS) as usize];
    fs.write(&cred, &file, 0, &content, WriteMode::default())?;
    drop(file);
    recorder.mark("created");
    let (from, to) = ((&root, old.as_bytes()), (&root, new.as_bytes()));
    fs.rename(&cred, from, to, RenameMode::Replace)?;
    recorder.mark("renamed");
    fs.sync()?;
    Ok(names)
}

/// The number of writes after which a check repairs most. There is at least one later write.
fn worst(device: &MemDevice, rest: &[&Event]) -> Result<usize, String> {
    let device = device.snapshot();
    let (mut best, mut done) = ((0, 1), 0);
    let writes = rest.iter().filter(|event| matches!(event, Event::Write { .. })).count();
    for event in rest {
        replay([*event], &device).map_err(|error| format!("A copy fails: {error}."))?;
        if !matches!(event, Event::Write { .. }) {
            continue;
        }
        done += 1;
        if done >= writes || done > WRITES {
            break;
        }
        let report = check(&Arc::new(device.snapshot()), FsckOptions::preen());
        let repairs = report.findings.iter().filter(|finding| finding.repaired).count();
        if repairs > best.0 && report.stopped.is_none() {
            best = (repairs, done);
        }
    }
    Ok(best.1.min(writes))
}

/// Follows the log of the device.
struct Replayer<'a> {
    device: MemDevice,
    recorded: &'a Recorded,
    /// Events of the log that were made.
    at: usize,
    steps: Vec<Step>,
}

impl Replayer<'_> {
    fn add(
        &mut self,
        title: String,
        text: String,
        events: Vec<String>,
        written: Vec<(u64, u64)>,
    ) -> Result<(), String> {
        let map = VolumeMap::of(&Bytes(&self.device))?;
        self.steps.push(Step { title, text, events, written, map });
        Ok(())
    }

    /// Makes one event. Returns the bytes of a write.
    fn make(&mut self) -> Result<Option<(u64, u64)>, String> {
        let Some(event) = self.recorded.log.get(self.at) else { return Ok(None) };
        self.at += 1;
        replay([event], &self.device).map_err(|error| format!("A copy fails: {error}."))?;
        Ok(match event {
            Event::Write { offset, bytes, .. } => Some((*offset, bytes.len() as u64)),
            _ => None,
        })
    }

    /// The engine's events while the device had made `from` to `to` events.
    fn events(&self, from: usize, to: usize) -> Vec<String> {
        let of = self.recorded.events.iter();
        let within = |event: &&OrderingEvent| (from as u64..to as u64).contains(&event.at);
        of.filter(within).map(|event| event.text.clone()).collect()
    }

    /// Up to a mark of the log: an operation.
    fn play_to_mark(&mut self, mark: &str, title: String, text: String) -> Result<(), String> {
        let (from, mut written) = (self.at, Vec::new());
        while let Some(event) = self.recorded.log.get(self.at) {
            let ends = matches!(event, Event::Mark { label, .. } if label == mark);
            written.extend(self.make()?);
            if ends {
                break;
            }
        }
        let events = self.events(from, self.at);
        self.add(title, text, events, written)
    }

    /// Up to the next write.
    fn play_to_write(&mut self, number: usize, of: usize) -> Result<(), String> {
        let from = self.at;
        while self.at < self.recorded.log.len() {
            if let Some((offset, len)) = self.make()? {
                let place = place_of(&self.recorded.geometry, offset, len);
                let events = self.events(from, self.at);
                let text = "The copy of the buffer that goes to the device has no change whose \
                            dependency is not durable: the engine rolls such a change back first."
                    .to_owned();
                let title = format!("Write {number} of {of}: {place}");
                return self.add(title, text, events, vec![(offset, len)]);
            }
        }
        Ok(())
    }

    fn crash(&mut self, lost: usize) -> Result<(), String> {
        let text = format!(
            "The power fails. The memory is lost, and with it {lost} writes that follow. The \
             volume is what the writes so far have left."
        );
        self.add("Crash".to_owned(), text, Vec::new(), Vec::new())
    }

    fn repair(&mut self) -> Result<(), String> {
        let recorder = Arc::new(Recorder::new(self.device.snapshot()));
        let device = Arc::clone(&recorder) as Arc<dyn BlockDevice>;
        let report = Fsck::new(device, FsckOptions::preen().at(START + 120)).run();
        let log = recorder.take_events();
        replay(&log, &self.device).map_err(|error| format!("A copy fails: {error}."))?;
        let written = log.iter().filter_map(|event| match event {
            Event::Write { offset, bytes, .. } => Some((*offset, bytes.len() as u64)),
            _ => None,
        });
        let findings = report.findings.iter().map(ToString::to_string).collect();
        let text = format!(
            "fsck -p exits {}. After a crash with soft updates it only has to free what no name \
             and no inode uses, and to correct counts that are too high.",
            report.exit_code
        );
        self.add("Repair: fsck -p".to_owned(), text, findings, written.collect())
    }
}
