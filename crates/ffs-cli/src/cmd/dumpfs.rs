//! `ffs dumpfs`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use ffs_admin::AdminError;
use ffs_admin::dumpfs::{Dump, Scope};

use super::Doc;
use crate::bsd;
use crate::fail::{Failure, Outcome, show};
use crate::{output, session};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs dumpfs disk.img | less", "everything"),
        ("ffs dumpfs -s disk.img", "the superblock only"),
        ("ffs dumpfs -m disk.img", "the newfs command that makes such a file system"),
        ("ffs dumpfs --json disk.img | jq .superblock", "for programs"),
    ],
    exit: &[("0", "everything was shown"), ("1", "something could not be read")],
    see_also: &["ffs-newfs(8)", "ffs-tunefs(8)", "ffs-fsck(8)", "ffs-df(1)"],
    section: "8",
    usage_code: 1,
};

/// Show the superblock and the cylinder groups of a file system.
///
/// Works on damaged file systems as far as anything can be decoded; nothing is changed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<OsString>,
    /// List the free fragments instead
    #[arg(short = 'f', conflicts_with_all = ["command", "label"])]
    free: bool,
    /// Print the newfs command that would make such a file system
    #[arg(short = 'm', conflicts_with = "label")]
    command: bool,
    /// Print the device that FreeBSD makes for the label
    #[arg(short = 'l')]
    label: bool,
    /// The superblock only
    #[arg(short = 's')]
    superblock: bool,
    /// Use the superblock at this 512-byte sector
    #[arg(short = 'b', value_name = "SECTOR", value_parser = bsd::number)]
    sector: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut out = output::stdout();
    for image in &args.images {
        let name = show(image.as_bytes());
        output::report(show_image(&args, image, &name, &mut out))?;
    }
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

fn show_image(
    args: &Args,
    image: &OsString,
    name: &str,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let opened = session::open(image, false)?;
    let dump = match args.sector {
        Some(sector) => Dump::open_at(&*opened.device, sector.saturating_mul(bsd::SECTOR)),
        None => Dump::open(&*opened.device),
    };
    let fail = |error: AdminError| Failure::admin(name, &error);
    let dump = dump.map_err(fail)?;
    // An error of the writer, mostly a closed pipe, is no error of the volume.
    let mut guard = Guard { out, error: None };
    let scope = if args.superblock { Scope::Superblock } else { Scope::All };
    let result = if args.json {
        dump.write_json(&mut guard, scope)
    } else if args.free {
        dump.write_free(&mut guard)
    } else if args.command || args.label {
        Ok(())
    } else {
        dump.write_text(&mut guard, scope)
    };
    if let Some(error) = guard.error {
        return Err(error.into());
    }
    result.map_err(fail)?;
    if args.command && !args.json {
        let recreate = dump.recreate();
        for note in &recreate.notes {
            output::note(format!("{name}: {note}"));
        }
        writeln!(out, "{}", recreate.command(name))?;
    }
    if args.label && !args.json {
        let recreate = dump.recreate();
        let Some(label) = recreate.options.label.filter(|label| !label.is_empty()) else {
            return Err(Failure::new(name, "has no label").hint("give it one: ffs tunefs -L LABEL"));
        };
        writeln!(out, "/dev/ufs/{label}")?;
    }
    Ok(())
}

/// Keeps the error of the writer apart from those of the volume.
struct Guard<'a> {
    out: &'a mut dyn Write,
    error: Option<std::io::Error>,
}

impl Write for Guard<'_> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.out.write(buf).map_err(|error| {
            let kind = error.kind();
            self.error = Some(error);
            kind.into()
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
