//! `ffs debug`.

mod blocks;
mod body;
mod dir;
mod inode;
mod owner;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ffs_admin::AdminError;
use ffs_admin::inspect::{Inspector, RawInode};
use ffs_core::Ino;
use ffs_device::BlockDevice;
use ffs_image::Opened;

use super::{Doc, EXIT};
use crate::current;
use crate::fail::{Failure, Outcome, show};
use crate::namei::{Last, split_number};
use crate::output;
use crate::session::snapshot::AtEnd;
use crate::session::{self, Session};
use crate::spec::image_path;

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

/// The files that a command shows, and how.
#[derive(clap::Args)]
struct ShownArgs {
    /// IMAGE[@N]:/path or IMAGE[@N]:#INODE
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    files: Vec<OsString>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
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
        Command::Inode(args) => {
            each(&args.shown.files, |place, out| inode::show(&args, place, out))
        }
        Command::Blocks(args) => {
            each(&args.shown.files, |place, out| blocks::show(&args, place, out))
        }
        Command::Owner(args) => owner::run(&args),
        Command::Dir(args) => each(&args.shown.files, |place, out| dir::show(&args, place, out)),
        Command::Body(args) => body::run(&args),
    }
}

/// A volume that is inspected.
pub(crate) struct Inspected {
    name: String,
    device: Arc<dyn BlockDevice>,
    /// Keeps the lock of the image.
    _lock: Lock,
}

enum Lock {
    Image(#[expect(dead_code, reason = "it holds the lock")] Opened),
    Session(#[expect(dead_code, reason = "it holds the lock")] Session),
}

impl Inspected {
    /// Opens `image`, which may be a snapshot in an image, to read it.
    pub(crate) fn open(image: &OsStr) -> Result<Inspected, Failure> {
        let image = &current::image(image);
        let opened = session::open(image, false)?;
        let (name, device) = (show(image.as_bytes()), Arc::clone(&opened.device));
        Ok(Inspected { name, device, _lock: Lock::Image(opened) })
    }

    /// Opens the volume of a file, which `arg` names by its path or its number.
    fn with_file(arg: &OsStr) -> Result<(Inspected, Ino), Failure> {
        if let Some((image, ino)) = by_number(arg) {
            return Ok((Inspected::open(&image)?, ino));
        }
        let (session, place) = Session::read_at(&image_path(arg)?, AtEnd::File)?;
        // A shell may have changes in memory; any other session is to be read.
        session.ffs.sync().map_err(|error| session.failed(&place.path, error))?;
        let ino = session.ffs.getattr(&session.find(&place.path, Last::Keep)?).ino;
        let (name, device) = (show(place.image.as_bytes()), Arc::clone(&session.device));
        Ok((Inspected { name, device, _lock: Lock::Session(session) }, ino))
    }

    /// The device of the volume.
    pub(crate) fn device(&self) -> &dyn BlockDevice {
        &*self.device
    }

    /// A failure of the inspection.
    pub(crate) fn failed(&self, error: &AdminError) -> Failure {
        Failure::admin(&self.name, error)
    }

    /// The failure of an inspection that prints.
    pub(crate) fn stopped(&self, why: Stopped) -> Failure {
        match why {
            Stopped::Volume(error) => self.failed(&error),
            Stopped::Output(failure) => failure,
        }
    }

    /// The image as its user named it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A session on the volume.
    fn session(&self) -> Result<Session, Failure> {
        Session::on(OsStr::new(&self.name), Arc::clone(&self.device))
    }
}

/// Why an inspection that prints has ended.
pub(crate) enum Stopped {
    /// The volume could not be read.
    Volume(AdminError),
    /// What was found could not be printed.
    Output(Failure),
}

impl From<AdminError> for Stopped {
    fn from(error: AdminError) -> Stopped {
        Stopped::Volume(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Output(failure)
    }
}

/// The image and the number of `IMAGE:#NUMBER`; in a shell of `#NUMBER`.
fn by_number(arg: &OsStr) -> Option<(OsString, Ino)> {
    if let Some((image, path)) = current::inside(arg) {
        let (number, rest) = split_number(&path)?;
        return Some((image, number.filter(|_| rest.is_empty())?));
    }
    let bytes = arg.as_bytes();
    let at = bytes.windows(2).rposition(|two| two == b":#").filter(|&at| at > 0)?;
    let (number, rest) = split_number(bytes.get(at + 1..)?)?;
    let ino = number.filter(|_| rest.is_empty())?;
    Some((OsStr::from_bytes(bytes.get(..at)?).to_owned(), ino))
}

/// A file that is shown.
struct Shown<'a> {
    inspector: Inspector<'a>,
    volume: &'a Inspected,
    ino: Ino,
}

impl Shown<'_> {
    fn inode(&self) -> Result<RawInode, Failure> {
        self.inspector.inode(self.ino).map_err(|error| self.volume.failed(&error))
    }
}

/// Shows each of the files.
fn each(
    files: &[OsString],
    mut show_one: impl FnMut(&Shown<'_>, &mut dyn Write) -> Result<(), Failure>,
) -> Outcome {
    let mut out = output::stdout();
    for arg in files {
        let shown = Inspected::with_file(arg).and_then(|(volume, ino)| {
            let inspector = Inspector::open(volume.device()).map_err(|e| volume.failed(&e))?;
            let shown = Shown { inspector, volume: &volume, ino };
            let result = show_one(&shown, &mut out);
            warn_of_problems(&volume, &shown.inspector);
            result
        });
        output::report(shown)?;
    }
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

/// Prints what was wrong with the volume and did not end the inspection.
pub(crate) fn warn_of_problems(volume: &Inspected, inspector: &Inspector<'_>) {
    for problem in inspector.problems() {
        output::warn(format!("{}: {problem}", volume.name()));
    }
}
