//! `ffs disk`.

mod boot;
mod failure;
mod grow;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bsdffs::build::ImageBuilder;
use bsdffs::copy::FileId;
use bsdffs::disk::{
    BuiltDisk, DiskBuilder, FileContent, NewContent, PartitionType, SectorSize, VolumeLabel,
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ffs_admin::newfs::label_problem;
use serde::Serialize;

use self::failure::failure;
use super::build::{ContentArgs, check_replaceable, open_trees, warn_of_left_out};
use super::newfs::How;
use super::{Doc, EXIT};
use crate::bsd;
use crate::copying::{CopyProgress, JsonCounts, warn_of_losses};
use crate::fail::{Failure, Outcome, show};
use crate::output::{self, human};
use crate::progress::Progress;
use crate::source_date::source_date_epoch;
use crate::spec::names_partition;
use crate::{new_image, signals, stdin};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        (
            "ffs disk create disk.img --efi esp/ --swap 1g --ufs rootfs=base.txz",
            "a disk for UEFI: a table, an EFI system partition, swap, and a volume",
        ),
        (
            "ffs disk create vm.qcow2 --size 20g --pmbr boot/pmbr --gptboot boot/gptboot \
             --ufs rootfs=base.txz --ufs rootfs=kernel.txz",
            "for a BIOS: boot code, and a volume of two archives that fills the disk",
        ),
        (
            "ffs disk create disk.img --efi boot/loader.efi --ufs rootfs:2g=root --ufs data:8g=d/",
            "an EFI program as the one that firmware starts; two volumes of given sizes",
        ),
        (
            "ffs disk create disk.img --part data:linux-data:64m=data.ext4 --ufs rootfs=base.txz",
            "a partition of another system, with the content of a file, before the volume",
        ),
        ("ffs info disk.img", "the partitions, and what is in them"),
        (
            "ffs disk grow -s 40g vm.qcow2 && ffs growfs vm.qcow2@3",
            "a larger disk, its last partition with it, then the volume in that",
        ),
    ],
    exit: EXIT,
    see_also: &["ffs-build(1)", "ffs-info(1)", "ffs-newfs(8)", "gpart(8)", "mkimg(1)"],
    section: "1",
    usage_code: 64,
};

/// Make and enlarge images of whole disks.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Create(Box<Create>),
    Grow(grow::Args),
}

/// Make an image of a disk: a GUID partition table with partitions.
///
/// The partitions are, in this order: boot code (--gptboot, labelled bootfs), an EFI system
/// partition (--efi, efiboot0), swap (--swap, swapfs), other partitions in the order of --part, and
/// the UFS volumes in the order of --ufs. Labels are those of FreeBSD's own images; /etc/fstab
/// finds a volume as /dev/gpt/LABEL, and as /dev/ufs/LABEL if a volume can have that label.
///
/// A volume fits its files, with --free more, unless it has a size. With --size, the last volume
/// fills the disk, unless it has a size of its own. The files of a volume are those that `ffs
/// build` would make.
///
/// The EFI system partition is FAT32, of at least 33 MiB (with sectors of 4096 bytes, 257 MiB). The
/// same input gives the same bytes, GUIDs included.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Create {
    /// The image to make: a new file, in the format qcow2 if its name ends in .qcow2
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// Make a GUID partition table: the default, and the only kind
    #[arg(long)]
    gpt: bool,
    /// Size of the disk: a number with a suffix, or sectors of 512 bytes [default: fits]
    #[arg(long, value_name = "SIZE", value_parser = bsd::sectors)]
    size: Option<u64>,
    /// Bytes of a sector
    #[arg(long, value_name = "512|4096", value_parser = sectors_of(), default_value = "512")]
    sector: SectorSize,
    /// Boot code of FreeBSD: a directory with pmbr and gptboot, such as boot, or both files
    #[arg(
        long,
        value_name = "DIR|PMBR,GPTBOOT",
        value_delimiter = ',',
        conflicts_with_all = ["pmbr", "gptboot"]
    )]
    boot: Vec<PathBuf>,
    /// Boot code for the first sector, such as FreeBSD's boot/pmbr
    #[arg(long, value_name = "FILE")]
    pmbr: Option<PathBuf>,
    /// Boot code for a partition of its own, such as FreeBSD's boot/gptboot
    #[arg(long, value_name = "FILE")]
    gptboot: Option<PathBuf>,
    /// Directory with the files of the EFI system partition, or an EFI program, which becomes
    /// EFI/BOOT/BOOT*.EFI
    #[arg(long, value_name = "TREE|PROGRAM")]
    efi: Option<PathBuf>,
    /// Size of the EFI system partition [default: fits]
    #[arg(long, value_name = "SIZE", value_parser = bsd::sectors, requires = "efi")]
    efi_size: Option<u64>,
    /// Label of the FAT volume in it: at most 11 upper-case letters, digits and signs
    #[arg(long, value_name = "LABEL", requires = "efi")]
    esp_label: Option<VolumeLabel>,
    /// Space to swap
    #[arg(long, value_name = "SIZE", value_parser = bsd::sectors)]
    swap: Option<u64>,
    /// A partition of another type, such as freebsd-zfs, linux-data, ms-basic-data, or a GUID, with
    /// the content of a file (or - for standard input), or with zeros
    #[arg(long, value_name = "LABEL:TYPE[:SIZE][=FILE]", value_parser = PartArg::parse)]
    part: Vec<PartArg>,
    /// A UFS volume of a directory or archive. Given again with the same LABEL, it adds another
    /// source to the volume, as `ffs build` does
    #[arg(long, value_name = "LABEL[:SIZE]=TREE|ARCHIVE|-", value_parser = UfsArg::parse)]
    ufs: Vec<UfsArg>,
    /// Space to leave free in a volume that fits its files
    #[arg(long, value_name = "BYTES", value_parser = bsd::number)]
    free: Option<u64>,
    #[command(flatten)]
    content: ContentArgs,
    /// Replace an existing image
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    how: How,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Reads the value of `--sector`.
fn sectors_of() -> impl TypedValueParser<Value = SectorSize> {
    PossibleValuesParser::new(["512", "4096"]).map(|bytes| match &*bytes {
        "4096" => SectorSize::B4096,
        _ => SectorSize::B512,
    })
}

/// A value of `--ufs`.
#[derive(Clone)]
struct UfsArg {
    label: String,
    size: Option<u64>,
    source: PathBuf,
}

impl UfsArg {
    fn parse(text: &str) -> Result<UfsArg, String> {
        let (what, source) = text
            .split_once('=')
            .filter(|(_, source)| !source.is_empty())
            .ok_or("no source; expected LABEL=SOURCE, such as rootfs=base.txz")?;
        let (label, size) = match what.split_once(':') {
            Some((label, size)) => (label, Some(bsd::sectors(size)?)),
            None => (what, None),
        };
        if label.is_empty() {
            return Err("no label; expected LABEL=SOURCE, such as rootfs=base.txz".to_owned());
        }
        Ok(UfsArg { label: label.to_owned(), size, source: source.into() })
    }
}

/// A value of `--part`.
#[derive(Clone)]
struct PartArg {
    label: String,
    kind: PartitionType,
    size: Option<u64>,
    content: Option<PathBuf>,
}

impl PartArg {
    fn parse(text: &str) -> Result<PartArg, String> {
        let (what, content) = match text.split_once('=') {
            Some((_, "")) => return Err("no FILE after =".to_owned()),
            Some((what, content)) => (what, Some(PathBuf::from(content))),
            None => (text, None),
        };
        let mut words = what.split(':');
        let (label, kind) = (words.next().unwrap_or_default(), words.next());
        let form = "expected LABEL:TYPE[:SIZE][=FILE], such as data:linux-data:1g";
        let Some(kind) = kind.filter(|_| !label.is_empty()) else { return Err(form.to_owned()) };
        let kind = kind.parse().map_err(|error: bsdffs::disk::UnknownType| error.to_string())?;
        let size = words.next().map(bsd::sectors).transpose()?;
        if words.next().is_some() {
            return Err(form.to_owned());
        }
        if size.is_none() && content.is_none() {
            return Err(
                "neither a SIZE nor a FILE; expected LABEL:TYPE:SIZE or ...=FILE".to_owned()
            );
        }
        Ok(PartArg { label: label.to_owned(), kind, size, content })
    }

    /// The content of the partition.
    fn new_content(&self) -> Result<NewContent, Failure> {
        let (kind, size) = (self.kind, self.size);
        let content = self.content.as_deref().map(content).transpose()?;
        Ok(NewContent::Other { kind, size, content })
    }
}

/// The content of a file; `-` is standard input, which is stored in a temporary file first.
fn content(path: &Path) -> Result<FileContent, Failure> {
    let name = show(path.as_os_str().as_bytes());
    let file = match path == Path::new("-") {
        true => stdin::temporary()?,
        // A pipe is refused, and not waited for.
        false => signals::open(path).map_err(|error| Failure::new(&name, error))?.into_file(),
    };
    FileContent::new(file, path.to_owned()).map_err(|error| Failure::new(name, error))
}

/// A UFS volume to make.
struct UfsVolume {
    label: String,
    size: Option<u64>,
    sources: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Json {
    image: String,
    size: u64,
    sector_size: u64,
    partitions: Vec<JsonPartition>,
}

#[derive(Serialize)]
struct JsonPartition {
    number: usize,
    label: String,
    kind: String,
    start: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copied: Option<JsonCounts>,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Create(mut args) => {
            args.resolve_boot()?;
            create(&args)
        }
        Command::Grow(args) => grow::run(&args),
    }
}

fn create(args: &Create) -> Outcome {
    signals::listen();
    let started = Instant::now();
    let (name, path) = (show(args.image.as_bytes()), Path::new(&args.image));
    if names_partition(&args.image) {
        return Err(Failure::usage(format!("{name}: a disk is a file of its own"))
            .hint("ffs build --into IMAGE@N makes a volume in a partition"));
    }
    stdin::refuse_new_image(&args.image)?;
    check_partitions(args)?;
    let volumes = volumes(&args.ufs)?;
    warn_of_boot(args);
    let old = check_replaceable(path, args.force)?;
    let disk = described(args, path, &volumes, old)?;
    let mut progress = CopyProgress(Progress::items("measure", None));
    let built = disk.build_file(path, &mut progress);
    drop(progress);
    let built = built.map_err(|error| failure(&name, &error))?;
    for volume in built.partitions.iter().filter_map(|part| part.volume.as_ref()) {
        warn_of_losses(&volume.report);
        warn_of_left_out(&volume.left_out);
    }
    print_result(args, &name, &built, started)?;
    Ok(0)
}

/// Fails if the disk would have no partition. With `--size` that is a disk with an empty table.
fn check_partitions(args: &Create) -> Result<(), Failure> {
    let boot = args.gptboot.is_some() || args.efi.is_some() || args.swap.is_some();
    let given = args.size.is_some() || args.pmbr.is_some();
    if given || boot || !args.part.is_empty() || !args.ufs.is_empty() {
        return Ok(());
    }
    let failure = Failure::usage("the disk would have no partition");
    Err(failure.hint(
        "give one or more of --ufs LABEL[:SIZE]=SOURCE, --swap SIZE, --efi DIR, --boot DIR and \
         --part LABEL:TYPE:SIZE",
    ))
}

/// The volumes of `--ufs`, each with all its sources.
fn volumes(args: &[UfsArg]) -> Result<Vec<UfsVolume>, Failure> {
    let mut volumes: Vec<UfsVolume> = Vec::new();
    for UfsArg { label, size, source } in args.iter().cloned() {
        let Some(volume) = volumes.iter_mut().find(|volume| volume.label == label) else {
            volumes.push(UfsVolume { label, size, sources: vec![source] });
            continue;
        };
        if volume.size.is_some() && size.is_some() && volume.size != size {
            return Err(Failure::usage(format!("--ufs gives {label} two sizes")));
        }
        volume.size = volume.size.or(size);
        volume.sources.push(source);
    }
    Ok(volumes)
}

/// The disk that the arguments describe. The file `old`, which it replaces, is not copied.
fn described(
    args: &Create,
    path: &Path,
    volumes: &[UfsVolume],
    old: Option<FileId>,
) -> Result<DiskBuilder, Failure> {
    if args.content.has_mtree() && volumes.len() != 1 {
        return Err(Failure::usage("--mtree is for a disk with one UFS volume"));
    }
    let latest = source_date_epoch()?;
    let mut disk = DiskBuilder::new()
        .size(args.size)
        .sector(args.sector)
        .source_date_epoch(latest)
        .format(new_image::format(path)?);
    if let Some(old) = old {
        disk = disk.skip(old);
    }
    if let Some(code) = &args.pmbr {
        disk = disk.pmbr(read(code)?);
    }
    if let Some(code) = &args.gptboot {
        disk = disk.partition("bootfs", NewContent::Boot(read(code)?));
    }
    if let Some(source) = args.efi.clone() {
        let (size, label) = (args.efi_size, args.esp_label.clone());
        disk = disk.partition("efiboot0", NewContent::Efi { source, size, label });
    }
    if let Some(size) = args.swap {
        disk = disk.partition("swapfs", NewContent::Swap(size));
    }
    for part in &args.part {
        disk = disk.partition(&part.label, part.new_content()?);
    }
    for UfsVolume { label, size, sources } in volumes {
        let last = volumes.last().is_some_and(|last| last.label == *label);
        let given = size.or(args.size.filter(|_| last));
        let tree = open_trees(sources, given)?;
        let builder = Box::new(args.builder(label, sources, latest)?);
        disk = disk.partition(label, NewContent::Ufs { builder, size: *size, tree });
    }
    Ok(disk)
}

impl Create {
    /// The options of the volume in the partition `label`.
    fn builder(
        &self,
        label: &str,
        sources: &[PathBuf],
        latest: Option<i64>,
    ) -> Result<ImageBuilder, Failure> {
        let mut how = self.how.options();
        match label_problem(label) {
            _ if how.label.is_some() => {}
            None => how.label = Some(label.to_owned()),
            Some(why) => {
                let label = show(label.as_bytes());
                output::warn(format!("the volume in {label} has no label of its own: {why}"));
            }
        }
        let builder = self.content.builder(sources, latest)?;
        Ok(builder.newfs_options(how).free(self.free.unwrap_or(0)))
    }
}

/// The content of a file with boot code.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let code = stdin::read_file(path, bsdffs::disk::MAX_BOOT + 1)?;
    if code.len() as u64 > bsdffs::disk::MAX_BOOT {
        let (name, most) = (show(path.as_os_str().as_bytes()), human(bsdffs::disk::MAX_BOOT));
        return Err(Failure::new(name, format!("is too long for boot code ({most} at most)")));
    }
    Ok(code)
}

/// Warns of boot code that cannot work alone.
fn warn_of_boot(args: &Create) {
    let both = args.pmbr.is_some() && args.gptboot.is_some();
    if args.pmbr.is_some() != args.gptboot.is_some() {
        output::warn("a BIOS needs both: --pmbr, which loads the partition of --gptboot");
    }
    if both && args.sector == SectorSize::B4096 {
        output::warn("FreeBSD's pmbr reads sectors of 512 bytes, not of 4096");
    }
}

/// Prints the partitions.
fn print_result(
    args: &Create,
    name: &str,
    built: &BuiltDisk,
    started: Instant,
) -> Result<(), Failure> {
    if args.json {
        let part = |(number, part): (usize, &bsdffs::disk::BuiltPartition)| JsonPartition {
            number,
            label: part.label.clone(),
            kind: part.kind.to_string(),
            start: part.start,
            bytes: part.len,
            free: part.volume.as_ref().map(|volume| volume.free),
            copied: part.volume.as_ref().map(|volume| JsonCounts::from(&volume.report)),
        };
        return output::json(&Json {
            image: name.to_owned(),
            size: built.size,
            sector_size: args.sector.bytes(),
            partitions: (1..).zip(&built.partitions).map(part).collect(),
        });
    }
    let mut rows =
        vec![["", "start", "size", "type", "label", "content"].map(str::to_owned).to_vec()];
    for (n, part) in (1..).zip(&built.partitions) {
        let content = part.volume.as_ref().map_or(String::new(), |volume| {
            let free = human(u64::try_from(volume.free).unwrap_or(0));
            format!("{}, {free} free", volume.report.summary())
        });
        rows.push(vec![
            format!("@{n}"),
            part.start.to_string(),
            human(part.len),
            part.kind.to_string(),
            part.label.clone(),
            content,
        ]);
    }
    let mut out = output::stdout();
    out.write_all(output::table(rows, &[1, 2]).as_bytes())?;
    out.flush()?;
    let seconds = started.elapsed().as_secs_f64();
    output::note(format!("{name}: {} in all, {seconds:.1} s", human(built.size)));
    Ok(())
}
