//! The states of a recording: each mounted, and the program asked.

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

/// Bytes that are left out of an image if all of them are zero.
const PIECE: usize = 16 << 10;

/// One look at a state.
#[derive(Clone, Debug)]
pub struct Look {
    /// The state.
    pub state: StateId,
    /// How it was mounted.
    pub view: View,
    /// Steps that must be there.
    pub acked: usize,
    /// What the program said, or the mount.
    pub answer: Answer,
}

/// A recording, window by window.
pub struct States<'a> {
    recording: &'a Recording,
    windows: Vec<Window>,
    overlay: OverlayDevice,
    seed: u64,
}

/// Where and with what states are looked at.
pub struct Place<'a> {
    /// The commands.
    pub host: &'a Host,
    /// The file system.
    pub side: &'a Side,
    /// The program's answers.
    pub checker: &'a mut Checker,
    /// A directory for images and mounts.
    pub work: &'a Path,
}

impl<'a> States<'a> {
    /// Cuts the recording into windows.
    ///
    /// # Errors
    /// It has a write of broken sectors.
    pub fn new(recording: &'a Recording, seed: u64) -> Result<States<'a>> {
        let windows = windows(&recording.events, true)?;
        let overlay = OverlayDevice::new(Arc::clone(&recording.base), Durability::OnFlush);
        Ok(States { recording, windows, overlay, seed })
    }

    /// Looks at up to `most` states and gives each look to `take`.
    ///
    /// # Errors
    /// The machine cannot do it, or [`LabError::Interrupted`].
    pub fn examine(
        &self,
        most: usize,
        place: &mut Place<'_>,
        watch: &mut dyn Watch,
        mut take: impl FnMut(Look),
    ) -> Result<usize> {
        let draw = Draw::new(&self.windows, most, self.seed);
        let mut states = 0;
        self.visit(|number, window, window_states| {
            for choice in draw.of(number, window_states) {
                window_states.apply_to(&window_states.layout(choice), &self.overlay);
                let state = StateId { window: number, choice };
                for look in self.look(state, window, place)? {
                    take(look);
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

    /// Looks at one state; its image stays at `keep` as the power cut left it.
    ///
    /// # Errors
    /// There is no such state, or the machine cannot do it.
    pub fn examine_one(
        &self,
        state: StateId,
        place: &mut Place<'_>,
        keep: &Path,
    ) -> Result<Vec<Look>> {
        let mut looks = None;
        self.visit(|number, window, window_states| {
            if number == state.window && window_states.has(state.choice) {
                window_states.apply_to(&window_states.layout(state.choice), &self.overlay);
                self.write_image(keep)?;
                looks = Some(self.look(state, window, place)?);
                self.overlay.reset();
            }
            Ok(())
        })?;
        looks.ok_or_else(|| {
            let windows = self.windows.len();
            LabError::Plan(format!("the recording of {windows} windows has no state {state}"))
        })
    }

    /// Calls `visit` for each window, with all that was durable before it on the overlay.
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

    /// Mounts what is on the overlay in every way, and asks the program.
    fn look(&self, state: StateId, window: &Window, place: &mut Place<'_>) -> Result<Vec<Look>> {
        let acked = self.recording.acked(window.end);
        let mut looks = Vec::new();
        for &view in place.side.views() {
            let image = place.work.join("state");
            self.write_image(&image)?;
            let answer = place.answer(&image, view, acked)?;
            fs::remove_file(&image).map_err(|e| failed("apps", "state", e))?;
            looks.push(Look { state, view, acked, answer });
        }
        Ok(looks)
    }

    fn write_image(&self, path: &Path) -> Result<()> {
        let written = self.overlay.with_bytes(|bytes| write_sparse(path, bytes));
        written.map_err(|e| failed("apps", &path.display().to_string(), e))
    }
}

impl Place<'_> {
    /// What the program finds on `image`. A volume that cannot be unmounted counts as one that
    /// cannot be mounted.
    fn answer(&mut self, image: &Path, view: View, acked: usize) -> Result<Answer> {
        let unmountable = |error: LabError| Answer {
            lost: 0,
            broken: Some(error.to_string()),
            unmountable: true,
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
            let why = failed(&self.side.to_string(), "mount", "mounted read-only");
            return mounted
                .end()
                .map_or_else(|error| Ok(unmountable(error)), |()| Ok(unmountable(why)));
        }
        let answer = self.checker.ask(&mnt, acked)?;
        match mounted.end() {
            Ok(()) => Ok(answer),
            Err(error) if answer.broken.is_none() => Ok(unmountable(error)),
            Err(_) => Ok(answer),
        }
    }
}

/// Whether a volume can only be read, as one whose superblock is torn.
fn is_read_only(mnt: &Path) -> bool {
    let flags = rustix::fs::statvfs(mnt).map(|found| found.f_flag);
    flags.is_ok_and(|flags| flags.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Writes a file that has no blocks where `bytes` are zero.
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
