//! `ffs lab record`.

mod calls;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_device::{FileDevice, SplitMix64, SystemClock};
use ffs_fuse::{MountError, MountRequest, UnmountRequest, mount_daemon, parse_options};
use ffs_lab::trace::resolve::Program;
use ffs_lab::trace::tree::{self, TreeSum};
use ffs_lab::trace::{Have, ReadOptions, read, text};

use crate::fail::{Failure, Outcome};
use crate::{log, output, session, signals};
use calls::CallFile;

/// Where the volume is if no image is named: in memory.
const MEMORY: &str = "/dev/shm";
/// Mount options under which every lookup and every stat reaches the server.
const SEE_ALL: &str = "entry_timeout=0,negative_timeout=0,attr_timeout=0";

/// The file system calls of a program, as a mount of ffs receives them
///
/// Mounts a new volume in memory (or --image), runs COMMAND with the mount as its working directory
/// (also in $FFS_MOUNT), unmounts, and writes the calls to TRACE: a line of JSON for each, with
/// process, time, duration, paths, offsets and sizes, but no content. The kernel caches neither
/// names nor attributes meanwhile; reads that its page cache answers are not seen. `ffs lab replay`
/// makes the calls again.
///
/// Needs /dev/fuse, and root or fusermount3. The exit code is that of COMMAND.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The trace, which must not exist
    #[arg(long, value_name = "TRACE")]
    out: PathBuf,

    /// Mount this image instead; the command changes it
    #[arg(long, value_name = "IMAGE", conflicts_with = "size")]
    image: Option<OsString>,

    /// MiB of the new volume, which takes memory only for what is written
    #[arg(long, value_name = "MIB", default_value_t = 4096,
        value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    size: u64,

    /// Mount options (`ffs mount -o help`)
    #[arg(long, value_name = "OPTIONS")]
    mount: Vec<String>,

    /// The program and its arguments, after `--`
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args) -> Outcome {
    if args.out.exists() {
        let why = "exists already; name a file that does not exist";
        return Err(Failure::new(args.out.display(), why));
    }
    let partial = beside(&args.out, ".partial");
    let memory = Path::new(MEMORY);
    let below = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let work = tempfile::Builder::new().prefix("ffs-lab-record.").tempdir_in(&below);
    let work = work.map_err(|error| Failure::new(below.display(), error))?;
    let dir = work.path().join("mnt");
    fs::create_dir(&dir).map_err(|error| Failure::new(dir.display(), error))?;
    let image = match &args.image {
        Some(image) => image.clone(),
        None => new_volume(&work.path().join("volume"), args.size << 20)?.into_os_string(),
    };
    let mounted = mount(args, image, &dir, &partial)?;
    // Nothing forks any more.
    signals::listen();
    let recorded = record(args, &mounted);
    let unmounted = unmount(&mounted);
    let result = recorded.and_then(|(before, after, status)| {
        unmounted?;
        write_trace(args, &partial, &before, &after)?;
        summarise(&args.out)?;
        Ok(status)
    });
    let _ = fs::remove_file(&partial);
    let status = result?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// A file beside another one.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn new_volume(path: &Path, bytes: u64) -> Result<PathBuf, Failure> {
    let device = FileDevice::create_sparse(path, bytes);
    let device = device.map_err(|error| Failure::unmade(path.display(), &error))?;
    let options = NewfsOptions { soft_updates: true, ..NewfsOptions::default() };
    newfs(&device, &options, &SystemClock, &SplitMix64::new(1), &mut |_, _| {})
        .map_err(|error| Failure::admin(&path.display().to_string(), &error))?;
    Ok(path.to_owned())
}

/// Mounts the image with a server in the background, which records. Returns the mount point.
fn mount(args: &Args, image: OsString, dir: &Path, calls: &Path) -> Result<PathBuf, Failure> {
    let words: Vec<String> =
        [SEE_ALL.to_owned()].into_iter().chain(args.mount.iter().cloned()).collect();
    let options = parse_options(&words)
        .map_err(|error| Failure::usage(error).hint("ffs mount -o help lists the options"))?;
    log::start_server(&options);
    let recorder = CallFile::create(calls).map_err(|e| Failure::new(calls.display(), e))?;
    let request = MountRequest {
        options,
        open: session::open_to_mount,
        recorder: Some(Arc::new(recorder)),
        ..MountRequest::new(image, dir)
    };
    match mount_daemon(&request) {
        Ok(mounted) => Ok(mounted.mount_point),
        Err(error) => {
            let _ = fs::remove_file(calls);
            Err(mount_failed(error))
        }
    }
}

fn mount_failed(error: MountError) -> Failure {
    Failure::plain(error).hint("ffs lab record needs /dev/fuse, and root or fusermount3")
}

/// What existed before and what is there after the command, and its status.
fn record(args: &Args, dir: &Path) -> Result<(Vec<Have>, TreeSum, ExitStatus), Failure> {
    let before = tree::of_directory(dir)?;
    let [program, words @ ..] = &args.command[..] else {
        return Err(Failure::usage("a command is needed after '--'"));
    };
    let mut command = Command::new(program);
    let status = command.args(words).current_dir(dir).env("FFS_MOUNT", dir).status();
    let status = status.map_err(|error| Failure::new(program.display(), error))?;
    let mut after = TreeSum::default();
    tree::of_directory(dir)?.iter().for_each(|entry| after.add(entry));
    Ok((before, after, status))
}

fn unmount(dir: &Path) -> Result<(), Failure> {
    let request = UnmountRequest { mount_point: dir.to_owned(), ..UnmountRequest::default() };
    ffs_fuse::unmount_and_wait(&request).map_err(|error| {
        // A process that the command left behind keeps its files.
        let lazy = UnmountRequest { lazy: true, force: true, ..request };
        let _ = ffs_fuse::unmount_and_wait(&lazy);
        Failure::plain(error).hint("end every process that the command has left in the mount")
    })
}

/// Joins the parts of the trace in a new file, which is complete or does not exist.
fn write_trace(args: &Args, calls: &Path, before: &[Have], after: &TreeSum) -> Result<(), Failure> {
    let new = beside(&args.out, ".new");
    let words: Vec<String> =
        args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let write = || -> io::Result<()> {
        let mut out = BufWriter::new(File::create(&new)?);
        out.write_all(text::header(&words.join(" "), true).as_bytes())?;
        for have in before {
            out.write_all(text::have(have).as_bytes())?;
        }
        io::copy(&mut File::open(calls)?, &mut out)?;
        out.write_all(text::end(after).as_bytes())?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&new, &args.out)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        Failure::new(args.out.display(), error)
    })
}

/// Reads the trace again, so that no trace is kept that cannot be replayed.
fn summarise(path: &Path) -> Result<(), Failure> {
    let trace = read(path, &ReadOptions::default())?;
    let program = Program::of(&trace)?;
    let mut out = output::stdout();
    let (calls, shown) = (program.calls(), path.display());
    writeln!(out, "{shown}: {} calls, of which a replay makes {calls}", trace.calls.len())?;
    for (why, count) in &program.left_out {
        writeln!(out, "left out: {count} {why}")?;
    }
    out.flush()?;
    Ok(())
}
