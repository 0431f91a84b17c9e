//! `ffs debug`.

mod blocks;
mod body;
mod dir;
mod inode;
mod owner;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ffs_admin::AdminError;
use ffs_admin::inspect::Inspector;
use ffs_core::Ino;
use ffs_device::BlockDevice;
use ffs_image::Opened;

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome, show};
use crate::namei::Last;
use crate::output;
use crate::session::{self, Session};
use crate::spec::{ImagePath, image_path};

pub(crate) use dir::type_name;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs debug inode disk.img:/etc/rc.conf", "the inode of a file, field by field"),
        ("ffs debug inode disk.img:#1234", "inode 1234, also if no file has it"),
        ("ffs debug blocks disk.img:/var/db/big", "where the data of a file is"),
        ("ffs debug owner disk.img 40960", "which file has fragment 40960"),
        ("ffs debug dir disk.img:/home", "the records of a directory, also of removed names"),
        ("ffs debug body disk.img > body; mactime -b body", "a timeline, by The Sleuth Kit"),
    ],
    exit: EXIT,
    see_also: &["ffs-undelete(8)", "ffs-dumpfs(8)", "ffs-fsck(8)", "ffs-stat(1)", "ffs-find(1)"],
    section: "8",
    usage_code: 64,
};

/// Show what is below the tree of a volume: inodes, blocks, directory records.
///
/// Nothing is changed. A file is named by its path or by its inode number, IMAGE:#1234. With a
/// number the tree is not read, so damage to it does not matter. Fragments are counted from the
/// start of the volume; their size is shown by `ffs dumpfs -s` (fsize).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Inode(inode::Args),
    Blocks(blocks::Args),
    Owner(owner::Args),
    Dir(dir::Args),
    Body(body::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Inode(args) => each(&args.files, |place, out| inode::show(&args, place, out)),
        Command::Blocks(args) => each(&args.files, |place, out| blocks::show(&args, place, out)),
        Command::Owner(args) => owner::run(&args),
        Command::Dir(args) => each(&args.files, |place, out| dir::show(&args, place, out)),
        Command::Body(args) => body::run(&args),
    }
}

/// A volume that is inspected.
pub(crate) struct Inspected {
    image: OsString,
    opened: Opened,
}

impl Inspected {
    /// Opens `image` to read it.
    pub(crate) fn open(image: OsString) -> Result<Inspected, Failure> {
        let opened = session::open(&image, false)?;
        Ok(Inspected { image, opened })
    }

    /// The device of the volume.
    pub(crate) fn device(&self) -> &dyn BlockDevice {
        &*self.opened.device
    }

    /// A failure of the inspection.
    pub(crate) fn failed(&self, error: &AdminError) -> Failure {
        Failure::admin(&self.name(), error)
    }

    /// The image as its user named it.
    pub(crate) fn name(&self) -> String {
        show(self.image.as_bytes())
    }

    /// A session on the volume.
    pub(crate) fn session(&self) -> Result<Session, Failure> {
        Session::on(&self.image, Arc::clone(&self.opened.device))
    }

    /// The inode number of the file at `path`. A number is taken as it is.
    fn number(&self, path: &[u8]) -> Result<Ino, Failure> {
        let digits = path.strip_prefix(b"#").and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(number) = digits.and_then(|digits| digits.parse().ok()) {
            return Ok(Ino(number));
        }
        let session = self.session()?;
        let found = session.find(path, Last::Keep).map(|file| session.ffs.getattr(&file).ino);
        session.finish_with(found)
    }
}

/// A file that is shown.
struct Shown<'a> {
    inspector: Inspector<'a>,
    volume: &'a Inspected,
    ino: Ino,
}

impl Shown<'_> {
    fn failed(&self, error: &AdminError) -> Failure {
        self.volume.failed(error)
    }
}

/// Shows each of the files.
fn each(
    files: &[OsString],
    mut show_one: impl FnMut(&Shown<'_>, &mut dyn Write) -> Result<(), Failure>,
) -> Outcome {
    let mut out = output::stdout();
    for arg in files {
        let ImagePath { image, path } = image_path(arg)?;
        let shown = Inspected::open(image).and_then(|volume| {
            let inspector = Inspector::open(volume.device()).map_err(|e| volume.failed(&e))?;
            let ino = volume.number(&path)?;
            show_one(&Shown { inspector, volume: &volume, ino }, &mut out)
        });
        match shown {
            Ok(()) => {}
            Err(failure) if failure.text.is_empty() => return Err(failure),
            Err(failure) => output::error(failure.text),
        }
    }
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}
