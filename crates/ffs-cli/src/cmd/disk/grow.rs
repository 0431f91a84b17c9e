//! `ffs disk grow`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use bsdffs::disk::{DiskError, Grown, Growth};
use ffs_image::OpenOptions;
use serde::Serialize;

use crate::bsd;
use crate::fail::{Failure, Outcome, shell_word, show};
use crate::output::{self, human};
use crate::session::open_with;
use crate::spec::names_partition;

/// Enlarge a disk and its last partition.
///
/// Fits the partition table (GPT) to the size of the disk, as `gpart recover` and `gpart resize`
/// do: the backup of the table moves to the end, and the last partition reaches up to it. With -s
/// the image becomes longer first. The kernel reads the new table of a block device after
/// `blockdev --rereadpt`. The volume in the partition is enlarged by `ffs growfs`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The image of a whole disk, or a block device
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// Size of the disk afterwards: sectors of 512 bytes, or bytes with a suffix [default: its size
    /// now, of which the table may use only a part]
    #[arg(short = 's', value_name = "SIZE", value_parser = bsd::sectors)]
    size: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct JsonGrown {
    image: String,
    size: u64,
    number: u32,
    label: String,
    start: u64,
    before: u64,
    bytes: u64,
}

pub(super) fn run(args: &Args) -> Outcome {
    let name = show(args.image.as_bytes());
    if names_partition(&args.image) {
        return Err(Failure::usage(format!("{name}: a partition grows with its disk"))
            .hint("give the image of the whole disk, without @N"));
    }
    let how = OpenOptions { write: true, whole_disk: true, ..OpenOptions::default() };
    let opened = open_with(&args.image, &how)?;
    let failed = |error: DiskError| {
        let failure = Failure::new(&name, &error);
        match error {
            DiskError::Table(_) => failure.hint("`ffs info` shows the table; gdisk(8) repairs one"),
            DiskError::NotWholeSectors { size, sector } => {
                let next = super::failure::whole_sectors(size, sector);
                Failure::usage(failure.text).hint(format!("such as -s {next}"))
            }
            _ => failure,
        }
    };
    let before = opened.device.len_bytes();
    let size = args.size.unwrap_or(before);
    if size < before {
        let why = format!("has {} already", human(before));
        return Err(Failure::new(name, why).hint("a disk is not made smaller"));
    }
    if i64::try_from(size).is_err() {
        return Err(failed(DiskError::TooLarge { size }));
    }
    let growth = Growth::plan(&opened.device, size).map_err(failed)?;
    if size > before {
        opened.set_len(size).map_err(|error| {
            let why = ffs_device::host_words(&error.source);
            Failure::new(&name, format!("cannot be made longer: {why}"))
        })?;
    }
    growth.apply(&opened.device).map_err(failed)?;
    let Grown { number, label, start, before, len } = growth.grown;
    if args.json {
        let image = name;
        let grown = JsonGrown { image, size, number, label, start, before, bytes: len };
        output::json(&grown)?;
        return Ok(0);
    }
    let (old, new, label) = (human(before), human(len), show(label.as_bytes()));
    output::note(match len == before {
        true => format!("{name}: partition {number} ({label}) already fills the disk, {old}"),
        false => format!(
            "{name}: {}; partition {number} ({label}) grew from {old} to {new}; for the volume in \
             it: ffs growfs {}",
            human(size),
            shell_word(&format!("{name}@{number}"))
        ),
    });
    Ok(0)
}
