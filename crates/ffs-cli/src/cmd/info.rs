//! `ffs info`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use ffs_admin::{AdminError, Volume, counted};
use ffs_device::BlockDevice;
use ffs_device::partition::{self, Partition, PartitionKind, Scheme, Window};
use ffs_image::{OpenOptions, Opened};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Endian, Format, Variant};
use serde::Serialize;

use super::{Doc, EXIT};
use crate::current;
use crate::fail::{Failure, Outcome, shell_word, show};
use crate::output::{self, human};
use crate::session::{self, holds_ufs, snapshot};
use crate::spec::disk_of;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs info disk.qcow2", "the container, the partitions, the file systems, the next step"),
        ("ffs info nbd://host/export", "the same of an export of an NBD server"),
        ("ffs info --json *.img", "for programs"),
    ],
    exit: EXIT,
    see_also: &["ffs-ls(1)", "ffs-dumpfs(8)", "ffs-fsck(8)", "ffs-mount(8)"],
    section: "1",
    usage_code: 64,
};

/// Show what is in an image: format, partitions, file systems, and what to do next.
///
/// Reads only: the image is neither mounted nor changed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<OsString>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info {
    image: String,
    container: &'static str,
    bytes: u64,
    sector_size: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    scheme: &'static str,
    /// The content of the whole disk, if it has no partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
    partitions: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    number: u32,
    name: String,
    kind: String,
    label: String,
    start: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Ufs(Ufs),
    Other { other: String },
}

#[derive(Serialize)]
struct Ufs {
    format: &'static str,
    /// The system whose rules a variant of UFS1 has; such a volume is read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'static str>,
    endian: &'static str,
    bytes: u64,
    block_size: u32,
    fragment_size: u32,
    label: String,
    last_mounted_on: String,
    clean: bool,
    flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    next: String,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (mut out, mut code) = (output::stdout(), 0);
    for image in &args.images {
        match info(&current::image(image)) {
            Ok(info) if args.json => output::json_line(&mut out, &info)?,
            Ok(info) => print(&mut out, &info)?,
            Err(failure) => {
                code = code.max(failure.code);
                output::error(failure.text);
            }
        }
    }
    out.flush()?;
    Ok(code)
}

fn open(image: &OsString) -> Result<Opened, Failure> {
    if snapshot::inside(image).is_some() {
        return session::open(image, false);
    }
    if current::in_shell() {
        return session::open(image, false);
    }
    let how = OpenOptions { probe: Some(holds_ufs), whole_disk: true, ..OpenOptions::default() };
    session::open_with(image, &how)
}

fn info(image: &OsString) -> Result<Info, Failure> {
    let name = show(image.as_bytes());
    let opened = open(image)?;
    let device = &*opened.device;
    let fail = |error| Failure::new(&name, error);
    let table = match &opened.partition {
        None => Some(partition::scan(device).map_err(fail)?),
        Some(_) => None,
    };
    let in_table = table.as_ref().and_then(|table| table.sector_size);
    let mut info = Info {
        container: opened.format().name(),
        bytes: device.len_bytes(),
        sector_size: in_table.unwrap_or(device.sector_size()),
        notes: opened.remarks(),
        scheme: "none",
        content: None,
        partitions: Vec::new(),
        image: name,
    };
    let Some(table) = table else {
        info.content = Some(content(device, &info.image));
        return Ok(info);
    };
    info.notes.extend(table.notes);
    if table.scheme == Scheme::Whole {
        info.content = Some(content(device, &info.image));
    }
    info.scheme = scheme_name(table.scheme);
    let disk = show(disk_of(image).as_bytes());
    for partition in &table.partitions {
        info.partitions.push(part(device, partition, &disk)?);
    }
    Ok(info)
}

fn scheme_name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Whole => "none",
        Scheme::Gpt => "GPT",
        Scheme::Mbr => "MBR",
        Scheme::BsdLabel => "BSD disklabel",
        Scheme::Sun => "Sun label",
    }
}

fn part(disk: &dyn BlockDevice, partition: &Partition, image: &str) -> Result<Part, Failure> {
    let window = Window::of(disk, partition, image).map_err(|error| Failure::new(image, error))?;
    let named = format!("{image}@{}", partition.index);
    let holds_others = matches!(&partition.kind, PartitionKind::Foreign(_));
    Ok(Part {
        number: partition.index,
        name: partition.name.clone(),
        kind: partition.kind.to_string(),
        label: partition.label.clone(),
        start: partition.start,
        bytes: partition.len,
        content: (!holds_others).then(|| content(&window, &named)),
    })
}

fn content(device: &dyn BlockDevice, image: &str) -> Content {
    match Volume::open(device) {
        Ok(volume) => Content::Ufs(ufs(&volume, image)),
        Err(AdminError::Format(error)) => {
            let advice = error.advice(&shell_word(image)).map(|advice| format!("; {advice}"));
            Content::Other { other: format!("{error}{}", advice.unwrap_or_default()) }
        }
        Err(error) => Content::Other { other: error.to_string() },
    }
}

const FLAGS: [(FsFlags, &str); 6] = [
    (FsFlags::SUJ, "journal of soft updates"),
    (FsFlags::DOSOFTDEP, "soft updates"),
    (FsFlags::GJOURNAL, "gjournal"),
    (FsFlags::ACLS, "access lists"),
    (FsFlags::NFS4ACLS, "NFSv4 access lists"),
    (FsFlags::MULTILABEL, "multilabel"),
];

fn ufs(volume: &Volume<'_>, image: &str) -> Ufs {
    let text = |bytes: &[u8]| show(bytes.split(|&byte| byte == 0).next().unwrap_or_default());
    let sb = &volume.sb;
    let clean = sb.is_clean();
    let variant = sb.variant();
    let next = match clean || !variant.is_writable() {
        true => format!("ffs ls {}", shell_word(image)),
        false => format!("ffs fsck {}", shell_word(image)),
    };
    Ufs {
        format: if sb.format == Format::Ufs1 { "UFS1" } else { "UFS2" },
        variant: (!variant.is_writable() || sb.old_layout).then(|| variant.system()),
        endian: if sb.endian == Endian::Little { "little" } else { "big" },
        bytes: volume.geo.size * u64::from(volume.geo.fsize),
        block_size: volume.geo.bsize,
        fragment_size: volume.geo.fsize,
        label: text(sb.volname()),
        last_mounted_on: text(sb.fsmnt()),
        clean,
        flags: FLAGS.iter().filter(|(flag, _)| sb.flags().contains(*flag)).map(|f| f.1).collect(),
        problems: volume.warnings.iter().map(ToString::to_string).collect(),
        next,
    }
}

fn print(out: &mut impl Write, info: &Info) -> Result<(), Failure> {
    let Info { image, container, bytes, scheme, .. } = info;
    let kind = if *container == "NBD" { "export of an NBD server" } else { "image" };
    let container = if *container == "NBD" { "" } else { container };
    let head = format!("{container} {kind}");
    writeln!(out, "{image}: {}, {} ({bytes} bytes)", head.trim(), human(*bytes))?;
    for note in &info.notes {
        writeln!(out, "  note: {note}")?;
    }
    if let Some(content) = &info.content {
        print_content(out, content, "  ")?;
    }
    if *scheme != "none" {
        writeln!(out, "  {scheme}, {}", counted(info.partitions.len() as u64, "partition"))?;
    }
    for part in &info.partitions {
        let Part { number, name, kind, label, start, bytes, .. } = part;
        let label = if label.is_empty() { String::new() } else { format!(", \"{label}\"") };
        writeln!(out, "  @{number}  {name}  {kind}, {} at byte {start}{label}", human(*bytes))?;
        if let Some(content) = &part.content {
            print_content(out, content, "      ")?;
        }
    }
    Ok(())
}

fn print_content(out: &mut impl Write, content: &Content, margin: &str) -> Result<(), Failure> {
    let ufs = match content {
        Content::Other { other } => {
            writeln!(out, "{margin}{other}")?;
            return Ok(());
        }
        Content::Ufs(ufs) => ufs,
    };
    let Ufs { format, endian, bytes, block_size, fragment_size, label, .. } = ufs;
    let label = if label.is_empty() { String::new() } else { format!(", label \"{label}\"") };
    let state = match ufs {
        Ufs { clean: true, .. } => ", clean",
        // These volumes have no such mark.
        Ufs { variant: Some(system), .. } if *system == Variant::Bsd43.system() => "",
        Ufs { clean: false, .. } => ", not clean",
    };
    let variant = ufs.variant.map(|system| format!(" of {system}, read-only")).unwrap_or_default();
    let flags: String = ufs.flags.iter().map(|flag| format!(", {flag}")).collect();
    writeln!(
        out,
        "{margin}{format}{variant}, {endian}-endian, {}, blocks {block_size}/{fragment_size}{label}\
         {flags}{state}",
        human(*bytes)
    )?;
    if !ufs.last_mounted_on.is_empty() {
        writeln!(out, "{margin}last mounted on {}", ufs.last_mounted_on)?;
    }
    for problem in &ufs.problems {
        writeln!(out, "{margin}problem: {problem}")?;
    }
    writeln!(out, "{margin}next: {}", ufs.next)?;
    Ok(())
}
