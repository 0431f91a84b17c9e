//! The format of an image that a command makes.
//!
//! The end of its name decides: people and other programs take `disk.vmdk` for a VMDK image.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bsdffs::build::ImageFormat;

use crate::fail::{Failure, shell_word, show};

/// The format of the new image at `path`.
///
/// # Errors
/// Its name ends like those of images in a format that `ffs` reads and does not make.
pub(crate) fn format(path: &Path) -> Result<ImageFormat, Failure> {
    ImageFormat::of_name(path).map_err(|format| {
        let name = show(path.as_os_str().as_bytes());
        let compressed = format.decompressor();
        let raw = path.with_extension(if compressed.is_some() { "" } else { "img" });
        let raw = show(raw.as_os_str().as_bytes());
        let (raw, word) = (shell_word(&raw), shell_word(&name));
        let next = match compressed {
            Some(program) => format!("{} {raw}", program.trim_end_matches(" -dc")),
            None => {
                let qemu = format.qemu_name().unwrap_or("raw");
                format!("qemu-img convert -f raw -O {qemu} {raw} {word}")
            }
        };
        let why = format!("new images are raw or qcow2, not {}", format.name());
        Failure::new(name, why).hint(format!("make {raw}, then {next}"))
    })
}
