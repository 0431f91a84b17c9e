//! Examines the states of a recording: mounts each one and runs the program's check.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_device::Durability;

use super::draw::{Draw, StateId};
use super::driver::{Answer, Checker};
use super::failed;
use super::record::Recording;
use super::side::{Host, Side, View};
use crate::crash::overlay::OverlayDevice;
use crate::crash::record::{Window, windows};
use crate::crash::states::WindowStates;
use crate::error::{LabError, Result};
use crate::watch::Watch;

/// Bytes of a piece of an image; a piece of zeros is not written.
const PIECE: usize = 16 << 10;

/// The result for a state that was mounted in one way.
#[derive(Clone, Debug)]
pub struct StateResult {
    /// The state.
    pub state: StateId,
    /// How it was mounted.
    pub view: View,
    /// The number of steps that the state must have.
    pub acked: usize,
    /// The result of the program's check, or the error of the mount.
    pub answer: Answer,
}

/// A recording, window by window.
pub(crate) struct States<'a> {
    recording: &'a Recording,
    windows: Vec<Window>,
    overlay: OverlayDevice,
    seed: u64,
}

/// The environment in which states are examined.
pub(crate) struct Environment<'a> {
    /// The commands of the host.
    pub host: &'a Host,
    /// The file system.
    pub side: &'a Side,
    /// The check of the program.
    pub checker: &'a mut Checker,
    /// A directory for images and mounts.
    pub work: &'a Path,
}

impl<'a> States<'a> {
    /// Splits the recording into windows.
    ///
    /// # Errors
    /// [`LabError::Failed`] for a write of partial sectors.
    pub(crate) fn new(recording: &'a Recording, seed: u64) -> Result<States<'a>> {
        let windows = windows(&recording.events, true)?;
        let overlay = OverlayDevice::new(Arc::clone(&recording.base), Durability::OnFlush);
        Ok(States { recording, windows, overlay, seed })
    }

    /// Examines up to `most` states and calls `take` with each result.
    ///
    /// # Errors
    /// [`LabError::Failed`] if this machine cannot examine a state, or [`LabError::Interrupted`].
    pub(crate) fn examine(
        &self,
        most: usize,
        environment: &mut Environment<'_>,
        watch: &mut dyn Watch,
        mut take: impl FnMut(StateResult),
    ) -> Result<usize> {
        let draw = Draw::new(&self.windows, most, self.seed);
        let mut states = 0;
        self.visit(|number, window, window_states| {
            for choice in draw.of(number, window_states) {
                window_states.apply_to(&window_states.layout(choice), &self.overlay);
                let state = StateId { window: number, choice };
                for result in self.mount_and_check(state, window, environment)? {
                    take(result);
                }
                states += 1;
                if !watch.done(1) {
                    return Err(LabError::Interrupted);
                }
                self.overlay.reset();
            }
            Ok(())
        })?;
        Ok(states)
    }

    /// Examines one state; its unrepaired image stays at `keep`.
    ///
    /// # Errors
    /// [`LabError::Plan`] if there is no such state, or [`LabError::Failed`].
    pub(crate) fn examine_one(
        &self,
        state: StateId,
        environment: &mut Environment<'_>,
        keep: &Path,
    ) -> Result<Vec<StateResult>> {
        let mut results = None;
        self.visit(|number, window, window_states| {
            if number == state.window && window_states.has(state.choice) {
                window_states.apply_to(&window_states.layout(state.choice), &self.overlay);
                self.write_image(keep)?;
                results = Some(self.mount_and_check(state, window, environment)?);
                self.overlay.reset();
            }
            Ok(())
        })?;
        results.ok_or_else(|| {
            let windows = self.windows.len();
            LabError::Plan(format!("the recording of {windows} windows has no state {state}"))
        })
    }

    /// Calls `visit` for each window. The overlay has the content that is durable before the
    /// window.
    fn visit(
        &self,
        mut visit: impl FnMut(usize, &Window, &WindowStates<'_>) -> Result<()>,
    ) -> Result<()> {
        self.overlay.rewind();
        for (number, window) in self.windows.iter().enumerate() {
            visit(number, window, &WindowStates::new(window, &self.overlay, self.seed))?;
            for write in &window.writes {
                self.overlay.commit(write.offset, &write.bytes);
            }
        }
        Ok(())
    }

    /// Mounts the content of the overlay in every way, and runs the program's check.
    fn mount_and_check(
        &self,
        state: StateId,
        window: &Window,
        environment: &mut Environment<'_>,
    ) -> Result<Vec<StateResult>> {
        let acked = self.recording.acked(window.end);
        let mut results = Vec::new();
        for &view in environment.side.views() {
            let image = environment.work.join("state");
            self.write_image(&image)?;
            let answer = environment.answer(&image, view, acked)?;
            fs::remove_file(&image).map_err(|e| failed("apps", "state", e))?;
            results.push(StateResult { state, view, acked, answer });
        }
        Ok(results)
    }

    fn write_image(&self, path: &Path) -> Result<()> {
        let written = self.overlay.with_bytes(|bytes| write_sparse(path, bytes));
        written.map_err(|e| failed("apps", &path.display().to_string(), e))
    }
}

impl Environment<'_> {
    /// Mounts `image` and runs the check. A volume that cannot be unmounted counts as one that
    /// cannot be mounted.
    fn answer(&mut self, image: &Path, view: View, acked: usize) -> Result<Answer> {
        let unmountable = |error: LabError| Answer {
            lost: 0,
            broken: Some(error.to_string()),
            unmountable: true,
            read_only: false,
        };
        if view == View::Repaired
            && let Err(error) = self.host.preen(self.side, image)
        {
            return Ok(unmountable(error));
        }
        let mnt: PathBuf = self.work.join("mnt");
        fs::create_dir_all(&mnt).map_err(|e| failed("apps", "mnt", e))?;
        let mounted = match self.host.mount(self.side, image, &mnt) {
            Ok(mounted) => mounted,
            Err(error) => return Ok(unmountable(error)),
        };
        if is_read_only(&mnt) {
            return Ok(match mounted.end() {
                Err(error) => unmountable(error),
                Ok(()) => Answer {
                    lost: 0,
                    broken: Some("mounted read-only".to_owned()),
                    unmountable: false,
                    read_only: true,
                },
            });
        }
        let answer = self.checker.check(&mnt, acked)?;
        match mounted.end() {
            Ok(()) => Ok(answer),
            Err(error) if answer.broken.is_none() => Ok(unmountable(error)),
            Err(_) => Ok(answer),
        }
    }
}

/// Whether a volume is mounted read-only, for example because its superblock is torn.
fn is_read_only(mnt: &Path) -> bool {
    let flags = rustix::fs::statvfs(mnt).map(|found| found.f_flag);
    flags.is_ok_and(|flags| flags.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Writes `bytes` to a file with holes where they are zero.
pub(super) fn write_sparse(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    let zero = [0; PIECE];
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        if zero.get(..piece.len()) != Some(piece) {
            file.write_all_at(piece, (number * PIECE) as u64)?;
        }
    }
    Ok(())
}
