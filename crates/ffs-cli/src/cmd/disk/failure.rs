//! Errors of `ffs disk`, with what to do.

use bsdffs::disk::{DiskError, MAX_PMBR};
use ffs_ondisk::geometry::DEV_BSIZE;

use crate::cmd::build::build_failure;
use crate::fail::Failure;

/// The failure of `ffs disk create` for `error`, with what to do.
pub(super) fn failure(name: &str, error: &DiskError) -> Failure {
    let failure = Failure::new(name, error);
    match error.inner() {
        DiskError::Build(inner) => match error {
            DiskError::Partition { label, .. } => {
                build_failure(&format!("{name}: partition {label}"), inner)
            }
            _ => build_failure(name, inner),
        },
        DiskError::Cancelled => Failure::interrupted(),
        DiskError::FatTooLarge { .. } => failure.hint("give a smaller --efi-size, or omit it"),
        DiskError::TooSmall { .. } | DiskError::TooLong { .. } => {
            failure.hint("give a larger --size, or omit it to make the disk fit")
        }
        DiskError::FatTooSmall { .. } => failure.hint("give a larger --efi-size, or omit it"),
        DiskError::BootCodeTooLong { most, .. } if *most == MAX_PMBR as u64 => {
            failure.hint("--pmbr is for the first sector; a longer program is one for --gptboot")
        }
        DiskError::BadLabel(_) | DiskError::SameLabel(_) => {
            Failure::usage(failure.text).hint("choose another LABEL")
        }
        DiskError::NotWholeSectors { size, sector } => {
            let next = whole_sectors(*size, *sector);
            Failure::usage(failure.text).hint(format!("such as {next}, in blocks of 512 bytes"))
        }
        DiskError::ContentTooLong { .. } => failure.hint("give a larger SIZE, or omit it"),
        _ => failure,
    }
}

/// The next size of whole sectors as an argument has it: in blocks of 512 bytes.
pub(super) fn whole_sectors(size: u64, sector: u64) -> u64 {
    size.max(1).next_multiple_of(sector) / DEV_BSIZE
}
