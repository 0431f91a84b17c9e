//! The client of the check that a mount's server makes in the background.

use crate::control::{Control, version_mismatch};
use crate::error::MountError;
use crate::params::CheckResult;
use ffs_core::CheckProgress;
use std::path::Path;
use std::time::Duration;

/// How long to wait between two requests for the progress of a check.
const PERIOD: Duration = Duration::from_millis(200);

/// Has the server of the ffs mount on `path` check its volume, and waits for the result. If a check
/// runs already, waits for that. `each` is called with the progress; if it returns false, the check
/// is ended.
///
/// # Errors
/// No ffs file system is mounted there; the server refuses. [`MountError::NotAllowed`]: the caller
/// is neither root nor the user who mounted.
pub fn background_check(
    path: &Path,
    force: bool,
    mut each: impl FnMut(CheckProgress) -> bool,
) -> Result<CheckResult, MountError> {
    let control = Control::open(path)?;
    let message = if force { "check force" } else { "check" };
    control.command(message)?;
    let mut stopped = false;
    loop {
        let status = control.command("check-status")?;
        let words: Vec<&str> = status.split('\t').collect();
        match words[..] {
            ["running", phase, done, total] => {
                let read = |word: &str| word.parse().map_err(|_| version_mismatch());
                let (phase, done, total) = (read(phase)?, read(done)?, read(total)?);
                if !each(CheckProgress { running: true, phase, done, total }) && !stopped {
                    stopped = true;
                    control.command("check-stop")?;
                }
            }
            ["done", code, text] => {
                let code = code.parse().map_err(|_| version_mismatch())?;
                return Ok(CheckResult { code, text: text.to_owned() });
            }
            _ => return Err(version_mismatch()),
        }
        std::thread::sleep(PERIOD);
    }
}
