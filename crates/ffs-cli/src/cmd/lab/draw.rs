//! `ffs lab draw`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ffs_lab::LabError;
use ffs_lab::draw::{Drawing, LARGEST};

use crate::fail::{Failure, Outcome, show};
use crate::output;
use crate::session;

/// A volume drawn block by block
///
/// Reads a volume and shows what its blocks are used for: superblocks, groups, inodes, directories,
/// files, free space. The terminal gets a line a group. With --html a page shows each block and
/// each inode, and steps through a create, a rename, the writes that follow, a crash and a repair,
/// with the events of soft updates. The steps are made on a copy in memory; the image is only read.
/// Volumes of at most 256 MB are drawn; the steps need at most 64 MB and a volume that `fsck -p`
/// accepts, without a journal.
#[derive(clap::Args)]
pub(super) struct Args {
    /// IMAGE[@N]
    #[arg(value_name = "IMAGE")]
    image: OsString,

    /// A page for a browser instead of the table; it needs no network
    #[arg(long)]
    html: bool,

    /// Where the page or the table goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let name = show(args.image.as_bytes());
    let drawing = {
        let opened = session::open(&args.image, false)?;
        let len = opened.device.len_bytes();
        if len > LARGEST {
            let why = format!("{len} bytes are too many to draw; at most {LARGEST} are drawn");
            return Err(Failure::new(&name, why));
        }
        let mut image = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = opened.device.read_at(0, &mut image);
        read.map_err(|error| Failure::new(&name, error))?;
        Drawing::of(&name, &image)?
    };
    let text = if args.html { drawing.html()? } else { drawing.text() };
    match &args.out {
        None => {
            let mut out = output::stdout();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
        Some(path) => {
            let unusable = |error| LabError::Unusable {
                target: path.display().to_string(),
                why: format!("{error}"),
            };
            std::fs::write(path, text).map_err(unusable)?;
        }
    }
    Ok(0)
}
