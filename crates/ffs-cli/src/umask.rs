//! The umask of the process, for files that a command makes in an image.

use crate::parse::mode::ALL;

/// The umask of this process.
pub(crate) fn umask() -> u16 {
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    (umask.bits() & rustix::fs::RawMode::from(ALL)) as u16
}
