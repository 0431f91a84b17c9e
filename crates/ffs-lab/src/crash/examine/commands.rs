//! C8: interrupted `growfs` and `tunefs`.
//!
//! | command | the state has | after the next run |
//! | --- | --- | --- |
//! | `growfs` | the old volume, the new one, or the mark of an unfinished growth | the new volume |
//! | `tunefs` | each setting old or new; sound, or unclean and repairable | the new settings |
//!
//! No file is changed at any time.

use std::sync::Arc;

use ffs_admin::fsck::FsckOptions;
use ffs_admin::growfs::is_unfinished;
use ffs_admin::tunefs::{Setting, settings};
use ffs_admin::{AdminError, Volume};
use ffs_device::record::Recorder;
use ffs_device::{BlockDevice, MemDevice};

use super::super::command::{Command, WholeSectors};
use super::super::history::{CrashPoint, Violation};
use super::super::mounting;
use super::super::oracle::{Expectation, Promise};
use super::super::overlay::Changes;
use super::super::record;
use super::super::states::{Effort, WindowStates};
use super::{Examiner, Verdict, foreign_repairs};

/// The effort on the states of an interrupted second run.
const SECOND: Effort = Effort { subsets: 8, sectors: 8, window: 48 };

impl Examiner<'_> {
    /// Examines a state of an interrupted command. `interrupt`: its next run is interrupted, too.
    pub(super) fn command(
        &mut self,
        command: &Command,
        state: &Changes,
        interrupt: bool,
        verdict: &mut Verdict,
    ) {
        let out = &mut verdict.violations;
        match command {
            Command::Growfs(size) => self.grown(*size, out),
            Command::Tunefs(_) => self.tuned(command, out),
        }
        if !out.is_empty() || !interrupt {
            return;
        }
        self.overlay.reset();
        self.overlay.apply(state);
        if matches!(command, Command::Tunefs(_)) {
            self.fsck(FsckOptions::preen());
        }
        let before = self.overlay.changes();
        let recorder = Arc::new(Recorder::new(Arc::clone(&self.overlay)));
        // The result is known: only the writes matter here.
        drop(command.run(&WholeSectors(&recorder)));
        let windows = match record::windows(&recorder.take_events(), true) {
            Ok(windows) => windows,
            Err(error) => return out.push(wrong(error.to_string())),
        };
        for (at, window) in windows.iter().enumerate() {
            let window_states = WindowStates::new(window, &self.overlay, self.setting.seed);
            for choice in window_states.choices(SECOND) {
                self.overlay.reset();
                self.overlay.apply(&before);
                for durable in windows.iter().take(at).flat_map(|window| &window.writes) {
                    self.overlay.write(durable.offset, &durable.bytes);
                }
                window_states.apply_to(&window_states.layout(choice), &self.overlay);
                verdict.interrupted += 1;
                let out = &mut verdict.violations;
                match command {
                    Command::Growfs(size) => self.grown(*size, out),
                    Command::Tunefs(_) => self.tuned(command, out),
                }
                if !out.is_empty() {
                    let note = format!(", the second run interrupted at its state {at}:{choice}");
                    return out.iter_mut().for_each(|v| v.what.push_str(&note));
                }
            }
        }
    }

    /// The volume has the old size or the new one and is sound, or the next run completes it.
    fn grown(&mut self, size: u64, out: &mut Vec<Violation>) {
        let device = Arc::clone(&self.overlay);
        let marked = match is_unfinished(&*device) {
            Ok(marked) => marked,
            Err(error) => return out.push(wrong(format!("the mark cannot be read: {error}"))),
        };
        let old = self.base.geometry.size;
        let new = size / u64::from(self.base.geometry.fsize);
        if !marked {
            match Volume::open(&*device) {
                Ok(volume) if volume.geo.size == old => {}
                Ok(volume) if volume.geo.size > old && volume.geo.size <= new => {}
                Ok(volume) => {
                    let size = volume.geo.size;
                    out.push(wrong(format!("it has {size} fragments, neither {old} nor {new}")));
                }
                Err(error) => out.push(wrong(format!("it cannot be used: {error}"))),
            }
            self.is_whole("as it was found", out);
        }
        match Command::Growfs(size).run(&*device) {
            Ok(()) => {}
            // It has the size already.
            Err(AdminError::NotLarger { .. }) if !marked => {}
            Err(error) => out.push(wrong(format!("the next run fails: {error}"))),
        }
        self.is_whole("after the next run", out);
        let grown = Volume::open(&*device).is_ok_and(|volume| volume.geo.size > old);
        if !grown {
            out.push(wrong("the next run did not enlarge it".to_owned()));
        }
    }

    /// Each setting is old or new, the volume is sound or `fsck -p` repairs it, and the next run
    /// completes it.
    fn tuned(&mut self, command: &Command, out: &mut Vec<Violation>) {
        let device = Arc::clone(&self.overlay);
        // No system checks a volume that is marked clean.
        if Volume::open(&*device).is_ok_and(|volume| volume.sb.f.clean != 0) {
            self.is_whole("marked clean", out);
        }
        let report = self.fsck(FsckOptions::preen());
        foreign_repairs(&report, "C8", out);
        if report.exit_code != 0 {
            let why = report.stopped.unwrap_or_else(|| "not everything was repaired".to_owned());
            out.push(wrong(format!("fsck -p exits {}: {why}", report.exit_code)));
        }
        self.is_whole("after fsck -p", out);
        let (old, new) = (settings_on(&self.base.device), self.new_settings(command));
        let now = settings_on(&*device);
        let mixed = now.iter().zip(old.iter().zip(&new)).find(|(now, (a, b))| now != a && now != b);
        if let Some((now, (old, new))) = mixed {
            out.push(wrong(format!("a setting is neither '{old}' nor '{new}': {now}")));
        }
        if let Err(error) = command.run(&*device) {
            out.push(wrong(format!("the next run fails: {error}")));
        }
        self.is_whole("after the next run", out);
        if settings_on(&*device) != new {
            out.push(wrong("the next run did not make the change".to_owned()));
        }
        // The kernel of another system has to mount what is on a journal of its own.
        if matches!(command, Command::Tunefs(options) if options.gjournal == Some(true)) {
            return;
        }
        let options =
            mounting::options(self.setting.ordering, self.recording.soft, &<_>::default());
        let mounted = mounting::mount(Arc::clone(&device) as _, &options, self.setting.seed);
        let unmounted = mounted
            .and_then(|(fs, _)| fs.unmount().map_err(|error| mounting::failed("unmount", &error)));
        if let Err(error) = unmounted {
            out.push(wrong(format!("afterwards: {error}")));
        }
        self.is_whole("after a mount", out);
    }

    /// The settings after a run that is not interrupted.
    fn new_settings(&self, command: &Command) -> Vec<Setting> {
        let device = MemDevice::from_bytes(&self.base.image);
        drop(command.run(&device));
        settings_on(&device)
    }

    /// A full check finds nothing, and every file is there.
    fn is_whole(&mut self, when: &str, out: &mut Vec<Violation>) {
        let before = out.len();
        self.silent("C3", out);
        let checker = &mut *self.checker;
        let found = self.overlay.with_bytes(|bytes| checker.check(&bytes));
        out.extend(found.violations.iter().cloned());
        let crash = CrashPoint { seen: u64::MAX, issued: u64::MAX };
        let expected = Expectation::new(&self.recording.history, crash, Promise::Async);
        let found = self.checker.found();
        self.overlay.with_bytes(|bytes| expected.judge_untouched(&bytes, found, out));
        for violation in out.iter_mut().skip(before) {
            let rule = violation.rule.strip_prefix("C3:").unwrap_or(&violation.rule);
            violation.rule = format!("C8:{rule}");
            violation.what.push_str(&format!(", {when}"));
        }
    }
}

fn wrong(what: String) -> Violation {
    Violation::new("C8", what)
}

/// The settings of the volume on `device`; none if it cannot be read.
fn settings_on(device: &dyn BlockDevice) -> Vec<Setting> {
    Volume::open(device).map(|volume| settings(&volume.sb)).unwrap_or_default()
}
