//! `--boot`: both stages of FreeBSD's boot code in one option.

use std::path::PathBuf;

use super::Create;
use crate::fail::Failure;

impl Create {
    /// Replaces `--boot` by `--pmbr` and `--gptboot`.
    pub(super) fn resolve_boot(&mut self) -> Result<(), Failure> {
        let (pmbr, gptboot): (PathBuf, PathBuf) = match self.boot.as_slice() {
            [] => return Ok(()),
            [dir] if dir.is_dir() => (dir.join("pmbr"), dir.join("gptboot")),
            [pmbr, gptboot] => (pmbr.clone(), gptboot.clone()),
            _ => {
                let what = "--boot is a directory with the files pmbr and gptboot, or PMBR,GPTBOOT";
                return Err(
                    Failure::usage(what).hint("--pmbr FILE or --gptboot FILE gives one of them")
                );
            }
        };
        self.pmbr = Some(pmbr);
        self.gptboot = Some(gptboot);
        Ok(())
    }
}
