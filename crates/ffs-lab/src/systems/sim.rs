//! The library on the simulated machine of 2002, in virtual time.
//!
//! **Invariants.**
//! 1. Each [`Target::begin`] makes a new machine with a clone of the aged volume of its seed.
//!    Nothing of an earlier round remains on the disk or in memory.
//! 2. The syncer runs each virtual second. The buffer daemon runs when three quarters of the
//!    allowed buffers are dirty. Both are separate processes.
//! 3. Every call costs the time of the preset.
//! 4. With a journal, `sync`, `fsync` and, if the mount is `stable`, each change of names or
//!    attributes end with a commit.

use std::sync::Arc;
use std::time::Duration;

use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{Env, Ffs, OrderingPolicy};
use ffs_device::{BlockDevice, Rng, SplitMix64};

use super::sim_journal::Committer;
use super::sim_spec::SimSpec;
use super::volume::{CONTENT, PIECE, Volume};
use super::{Demand, DirId, Facts, FileId, Forgotten, Kind, Open, Stat, Target, Usage};
use crate::error::{LabError, Result};
use crate::machine::{
    AgedVolumes, Call, ForeignVolume, JournaledDisk, Machine, MachineCounters, SimDisk,
    mark_foreign, workplace,
};

/// The directory of a workload.
const LAB: &[u8] = b"lab";

/// The library on a simulated machine.
pub(crate) struct SimTarget {
    label: String,
    spec: SimSpec,
    seed: u64,
    /// Time and work of earlier machines: the clock of a target never goes back.
    before: (Duration, Usage),
    running: Option<Running>,
    /// Whether the volume has the laboratory's own magic.
    foreign: bool,
}

struct Running {
    machine: Arc<Machine>,
    disk: Arc<dyn BlockDevice>,
    volume: Volume,
    journal: Option<Committer>,
    next_tick: Duration,
    /// Blocks whose buffer headers were restored.
    from_pages: u64,
}

impl Running {
    /// Runs the background work between two operations.
    fn after(&mut self, spec: &SimSpec) {
        self.machine.settle();
        let stats = self.volume.fs().cache_stats();
        let classes = [stats.directories, stats.data, stats.inodes, stats.groups, stats.indirect];
        let found: u64 = classes.iter().map(|class| class.tier2_hits).sum();
        if found > self.from_pages {
            self.machine.page_headers(found - self.from_pages);
            self.from_pages = found;
        }
        let host = &spec.preset.host;
        let now = self.machine.now();
        if now >= self.next_tick {
            self.next_tick = now + Duration::from_secs(host.syncer_seconds.into());
            let fs = self.volume.fs();
            // Blocks that cannot be written stay dirty; sync reports the error.
            drop(self.machine.background(|| fs.tick()));
        }
        let fs = self.volume.fs();
        if fs.buf_daemon_due() {
            drop(self.machine.background(|| fs.write_oldest()));
        }
        if let Some(journal) = &mut self.journal {
            journal.run(&self.machine, self.volume.fs());
        }
        self.machine.wait_for_background(host.dirty_buffers as usize);
    }
}

impl SimTarget {
    /// A target on the machine of `spec`.
    #[must_use]
    pub(crate) fn new(label: &str, spec: SimSpec, seed: u64) -> SimTarget {
        let seed = spec.seed.unwrap_or(seed);
        let before = (Duration::ZERO, Usage::default());
        SimTarget { label: label.to_owned(), spec, seed, before, running: None, foreign: false }
    }

    fn unusable(&self, why: impl std::fmt::Display) -> LabError {
        LabError::unusable(&self.label, why)
    }

    /// The machine, from [`Target::begin`] to [`Target::end`].
    #[must_use]
    #[cfg(test)]
    pub(crate) fn machine(&self) -> Option<&Machine> {
        self.running.as_ref().map(|running| &*running.machine)
    }

    /// The totals of the journal, if there is one.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn journal(&self) -> Option<crate::machine::JournalCounters> {
        Some(self.running.as_ref()?.journal.as_ref()?.done())
    }

    fn mounted(&self) -> Result<Running> {
        let preset = &self.spec.preset;
        let store = AgedVolumes::get(&preset.volume, self.seed);
        let mut store = store.map_err(|why| self.unusable(why))?;
        if self.spec.core.options.ordering == OrderingPolicy::Journaled {
            let volume = SimDisk::timeless(store);
            let journal = TunefsOptions { journal: Some(true), ..TunefsOptions::default() };
            tunefs(&volume, &journal).map_err(|why| self.unusable(why))?;
            store = volume.snapshot();
        }
        let phase = SplitMix64::new(self.seed ^ 0x7068_6173).next_u64();
        let machine = Arc::new(Machine::new(preset, phase >> 16));
        let offset = preset.volume.offset_mb << 20;
        let mark = self.foreign.then(|| mark_foreign(&mut store)).transpose();
        let mark = mark.map_err(|why| self.unusable(why))?;
        let disk = SimDisk::new(store, Arc::clone(&machine), offset);
        let mut journal = None;
        let disk: Arc<dyn BlockDevice> = match (mark, self.spec.journal) {
            (None, None) => Arc::new(disk),
            (Some(mark), None) => Arc::new(ForeignVolume::new(disk, mark)),
            (None, Some(settings)) => {
                let clock = Arc::clone(&machine);
                let disk = JournaledDisk::new(disk, clock, settings, CONTENT, offset);
                let disk = Arc::new(disk.map_err(|why| self.unusable(why))?);
                journal = Some(Committer::new(Arc::clone(&disk), machine.now()));
                disk
            }
            (Some(_), Some(_)) => {
                return Err(self.unusable("a journal and directories of the laboratory"));
            }
        };
        let volume = self.mount(&disk, &machine)?;
        let next_tick = machine.now() + Duration::from_secs(1);
        Ok(Running { machine, disk, volume, journal, next_tick, from_pages: 0 })
    }

    fn mount(&self, disk: &Arc<dyn BlockDevice>, machine: &Arc<Machine>) -> Result<Volume> {
        let env = Env::seeded(Arc::clone(machine) as _, self.seed);
        let mut options = self.spec.core.options.clone();
        // A commit makes changes durable, not the file system.
        options.stable &= self.spec.journal.is_none();
        let fs = Ffs::mount(Arc::clone(disk), &options, env);
        let fs = fs.map_err(|error| self.unusable(error))?;
        if let Some(why) = fs.read_only_reason() {
            return Err(self.unusable(why));
        }
        let counters = fs.clone();
        let (volume, _) = Volume::new(&self.label, fs)?;
        machine.watch(Some(Box::new(move || counters.counters())));
        Ok(volume)
    }

    /// Unmounts the volume and mounts it again: nothing of it is in memory afterwards. Returns the
    /// directory of [`Target::begin`].
    ///
    /// # Errors
    /// The volume cannot be unmounted or mounted.
    pub(crate) fn remount(&mut self) -> Result<DirId> {
        let unmounted = self.call(Call::Close, None, |v, _| {
            v.fs().unmount().map_err(|error| LabError::unusable("sim", error))
        });
        unmounted?;
        self.commit();
        let Some(running) = self.running.take() else {
            return Err(self.unusable("has no volume yet"));
        };
        let Running { machine, disk, volume, journal, next_tick, .. } = running;
        machine.watch(None);
        drop(volume);
        let volume = self.mount(&disk, &machine)?;
        self.running = Some(Running { machine, disk, volume, journal, next_tick, from_pages: 0 });
        let place = self.workplace()?;
        self.open_dir(place, LAB)
    }

    /// The directory in which [`Target::begin`] makes its own.
    fn workplace(&mut self) -> Result<DirId> {
        let [top, second] = workplace(self.seed);
        self.call(Call::Open, None, |v, _| {
            let root = v.root()?;
            let top = v.open_dir(root, top.as_bytes())?;
            v.open_dir(top, second.as_bytes())
        })
    }

    /// Marks the volume as one of the laboratory's own formats, from the next [`Target::begin`] on.
    pub(crate) fn set_foreign(&mut self) {
        self.foreign = true;
    }

    /// The totals of the machine, from [`Target::begin`] to [`Target::end`].
    pub(crate) fn done(&self) -> MachineCounters {
        self.running.as_ref().map(|running| running.machine.done()).unwrap_or_default()
    }

    /// Performs a call: charges its time, and runs the background work.
    ///
    /// # Errors
    /// No volume is mounted; those of `work`.
    pub(crate) fn call<T>(
        &mut self,
        call: Call,
        at: Option<DirId>,
        work: impl FnOnce(&mut Volume, &Machine) -> Result<T>,
    ) -> Result<T> {
        let label = &self.label;
        let running = self.running.as_mut();
        let running = running.ok_or_else(|| LabError::unusable(label, "has no volume yet"))?;
        if let Some(at) = at {
            running.machine.in_directory(running.volume.bytes_of(at));
        }
        running.machine.call(call);
        let result = work(&mut running.volume, &running.machine);
        running.after(&self.spec);
        result
    }

    /// As [`SimTarget::call`], for a call that changes names or attributes.
    fn change<T>(
        &mut self,
        call: Call,
        at: Option<DirId>,
        work: impl FnOnce(&mut Volume, &Machine) -> Result<T>,
    ) -> Result<T> {
        let result = self.call(call, at, work)?;
        if self.spec.core.options.stable {
            self.commit();
        }
        Ok(result)
    }

    /// Waits for a commit, if there is a journal.
    fn commit(&mut self) {
        if let Some(running) = &mut self.running
            && let Some(journal) = &mut running.journal
        {
            journal.commit_now(&running.machine, running.volume.fs());
        }
    }

    fn now_and_used(&self) -> (Duration, Usage) {
        let (time, used) = self.before;
        let Some(running) = &self.running else { return self.before };
        let done = running.machine.done();
        let used = Usage {
            cpu_ns: used.cpu_ns + done.cpu,
            search_ns: used.search_ns + done.search,
            disk_busy_ns: used.disk_busy_ns + done.busy,
            reads: used.reads + done.reads,
            writes: used.writes + done.writes,
            sectors: used.sectors + done.sectors_read + done.sectors_written,
            seeks: used.seeks + done.seeks,
        };
        (time + running.machine.now(), used)
    }
}

impl Target for SimTarget {
    fn label(&self) -> &str {
        &self.label
    }

    fn facts(&self) -> Facts {
        let fs = format!("ffs on {}", self.spec.preset.name);
        Facts { fs, durability: self.spec.durability(), computes: true }
    }

    fn now(&self) -> Duration {
        self.now_and_used().0
    }

    fn cpu(&self) -> Duration {
        Duration::from_nanos(self.now_and_used().1.cpu_ns)
    }

    fn begin(&mut self, demand: Demand) -> Result<DirId> {
        self.end()?;
        let running = self.mounted()?;
        let space = running.volume.fs().statfs();
        let free = space.frags_avail.max(0).unsigned_abs() * u64::from(space.fsize);
        if demand.bytes > free || demand.files > space.inodes_free {
            let why = format!(
                "{} files of {} bytes do not fit: {} files, {free} bytes free",
                demand.files, demand.bytes, space.inodes_free
            );
            return Err(self.unusable(why));
        }
        self.running = Some(running);
        let place = self.workplace()?;
        self.mkdir(place, LAB)
    }

    fn end(&mut self) -> Result<()> {
        self.before = self.now_and_used();
        if let Some(running) = self.running.take() {
            // The disk refers to the machine: dropping the counters breaks the cycle.
            running.machine.watch(None);
        }
        Ok(())
    }

    fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        self.change(Call::Mkdir, Some(at), |v, _| v.mkdir(at, name))
    }

    fn open_dir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        self.call(Call::Open, Some(at), |v, _| v.open_dir(at, name))
    }

    fn close_dir(&mut self, dir: DirId) -> Result<()> {
        self.call(Call::Close, None, |v, _| v.close_dir(dir))
    }

    fn rmdir(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        self.change(Call::Rmdir, Some(at), |v, _| v.rmdir(at, name))
    }

    fn create(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        self.change(Call::Create, Some(at), |v, m| {
            m.call(Call::Close);
            v.create(at, name)
        })
    }

    fn stat(&mut self, at: DirId, name: &[u8]) -> Result<Option<Stat>> {
        self.call(Call::Stat, Some(at), |v, _| v.stat(at, name))
    }

    fn rename(&mut self, at: DirId, from: &[u8], to: &[u8]) -> Result<()> {
        self.rename_to((at, from), (at, to))
    }

    fn rename_to(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
        self.change(Call::Rename, Some(to.0), |v, _| v.rename(from, to))
    }

    fn link(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
        self.change(Call::Link, Some(to.0), |v, _| v.link(from, to))
    }

    fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        self.change(Call::Remove, Some(at), |v, _| v.unlink(at, name))
    }

    fn list(&mut self, at: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.list_kinds(at, &mut |name, _| each(name))
    }

    fn list_kinds(&mut self, at: DirId, each: &mut dyn FnMut(&[u8], Kind)) -> Result<()> {
        self.call(Call::List, Some(at), |v, m| {
            let mut names = 0;
            let listed = v.list_kinds(at, &mut |name, kind| {
                names += 1;
                each(name, kind);
            });
            m.call(Call::Entries(names));
            listed
        })
    }

    fn open(&mut self, at: DirId, name: &[u8], how: Open) -> Result<FileId> {
        let call = match how {
            Open::Read | Open::Write | Open::Append => Call::Open,
            Open::Create | Open::CreateNew | Open::Truncate => Call::Create,
        };
        match call {
            Call::Create => self.change(call, Some(at), |v, _| v.open(at, name, how)),
            _ => self.call(call, Some(at), |v, _| v.open(at, name, how)),
        }
    }

    fn read(&mut self, file: FileId, offset: u64, len: usize) -> Result<usize> {
        self.call(Call::Read(len), None, |v, _| v.read(file, offset, len))
    }

    fn write(&mut self, file: FileId, offset: u64, len: usize) -> Result<()> {
        let mut done = 0;
        // In pieces, so that the background work runs in between.
        while done < len {
            let n = (len - done).min(PIECE);
            let at = offset.saturating_add(done as u64);
            self.call(Call::Write(n), None, |v, _| v.write(file, at, n))?;
            done += n;
        }
        Ok(())
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        self.call(Call::Close, None, |v, _| v.close(file))
    }

    fn fsync(&mut self, file: FileId) -> Result<()> {
        self.call(Call::Fsync, None, |v, _| v.fsync(file))?;
        self.commit();
        Ok(())
    }

    fn chmod(&mut self, at: DirId, name: &[u8], mode: u16) -> Result<()> {
        self.change(Call::SetAttributes, Some(at), |v, _| v.chmod(at, name, mode))
    }

    fn set_times(&mut self, at: DirId, name: &[u8], seconds: u32) -> Result<()> {
        self.change(Call::SetAttributes, Some(at), |v, _| v.set_times(at, name, seconds))
    }

    fn truncate(&mut self, file: FileId, size: u64) -> Result<()> {
        self.change(Call::SetAttributes, None, |v, _| v.truncate(file, size))
    }

    fn symlink(&mut self, at: DirId, name: &[u8], text: &[u8]) -> Result<()> {
        self.change(Call::Create, Some(at), |v, _| v.symlink(at, name, text))
    }

    fn readlink(&mut self, at: DirId, name: &[u8]) -> Result<Vec<u8>> {
        self.call(Call::Stat, Some(at), |v, _| v.readlink(at, name))
    }

    fn compute(&mut self, work: Duration) {
        if let Some(running) = &mut self.running {
            // A second at a time, so that the syncer runs in between.
            let mut left = work;
            while !left.is_zero() {
                let now = left.min(Duration::from_secs(1));
                running.machine.compute(now);
                running.after(&self.spec);
                left -= now;
            }
        }
    }

    fn usage(&self) -> Usage {
        self.now_and_used().1
    }

    fn set_tunable(&mut self, name: &str, value: &str) -> Result<Option<String>> {
        self.call(Call::Close, None, |v, _| v.set_tunable(name, value))
    }

    fn sync(&mut self) -> Result<()> {
        self.call(Call::Fsync, None, |v, _| v.sync())?;
        self.commit();
        Ok(())
    }

    fn forget(&mut self) -> Result<Forgotten> {
        self.call(Call::Close, None, |v, _| {
            v.fs().purge_names();
            Ok(Forgotten::Done("names dropped; inodes and blocks stay"))
        })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.running.as_ref().map(|running| running.volume.counters()).unwrap_or_default()
    }
}

impl Drop for SimTarget {
    fn drop(&mut self) {
        // Never fails.
        let _ = self.end();
    }
}
