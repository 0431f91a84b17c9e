//! `ffs edit`.
//!
//! # Invariants
//! 1. The image is not open while the editor runs, except in a shell, which holds it open.
//! 2. A file that changed meanwhile is not overwritten.
//! 3. If the new content cannot be written, the old one is back, and the new one is kept on the
//!    host.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use bsdffs::copy::READ_SIZE;
use ffs_core::{Attr, Error, FileType, SetAttr, Vnode, WriteMode};
use ffs_device::process::signal_all;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use super::{Doc, EXIT};
use crate::changes::Changes;
use crate::fail::{Failure, INTERRUPTED, Outcome, show};
use crate::namei::{Last, basename};
use crate::output;
use crate::session::{self, Session};
use crate::signals;
use crate::spec::{ImagePath, image_path};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs edit disk.img:/etc/rc.conf", "change a file in your editor"),
        ("EDITOR='sed -i s/dhcp/static/' ffs edit disk.img:/etc/rc.conf", "in a script"),
        ("ffs edit -e nano disk.img:/etc/motd", "with another editor; a missing file is made"),
    ],
    exit: EXIT,
    see_also: &["ffs-cat(1)", "ffs-cp(1)", "ffs-mount(8)"],
    section: "1",
    usage_code: 64,
};

/// Change a file of an image in an editor.
///
/// The editor is -e, or $VISUAL, or $EDITOR, or vi. It gets a copy of the file. When it exits
/// with status 0 and the copy has changed, the content is written back in place: owner, mode,
/// flags, attributes and other names of the file stay. The image is not locked meanwhile; if
/// the file has changed in the image, your text is kept on the host instead. In a script of
/// `ffs shell` on standard input, the editor reads from the terminal, if there is one, and not the
/// script.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The editor, with its options
    #[arg(short = 'e', value_name = "EDITOR")]
    editor: Option<OsString>,
    /// Print JSON, one object: the file before and after
    #[arg(long)]
    json: bool,
    /// IMAGE[@N]:/path
    #[arg(value_name = "IMAGE:/PATH")]
    path: OsString,
}

/// The largest file that is edited, bytes: it is in memory twice.
const LARGEST: u64 = 256 << 20;

/// The file before it was edited.
struct Before {
    /// `None` if it does not exist.
    attr: Option<Attr>,
    content: Vec<u8>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let spec = image_path(&args.path)?;
    let session = Session::read(&spec.image)?;
    let result = read(&session, &spec.path);
    let before = session.finish_with(result)?;
    // An image that cannot be opened for writing is an error before the work in the editor.
    session::open(&spec.image, true)?;
    let dir = TempDir::with_prefix("ffs-edit-").map_err(|e| Failure::host(&env::temp_dir(), &e))?;
    let name = basename(&spec.path).unwrap_or(b"file");
    let copy = dir.path().join(OsStr::from_bytes(name));
    fs::write(&copy, &before.content).map_err(|e| Failure::host(&copy, &e))?;
    if let Err(failure) = edit(&args, &copy) {
        let edited = read_copy(&copy).is_ok_and(|content| content != before.content);
        let ended = failure.code == INTERRUPTED;
        return Err(if ended && edited { keep(dir, &copy, failure) } else { failure });
    }
    signals::forget_in_shell();
    let content = read_copy(&copy).map_err(|e| Failure::host(&copy, &e))?;
    if content == before.content {
        output::note(format!("{spec}: not changed"));
        print(&args, &spec, before.attr.as_ref(), before.attr.as_ref())?;
        return Ok(0);
    }
    match store(&spec, &before, &content) {
        Ok(after) => print(&args, &spec, before.attr.as_ref(), Some(&after))?,
        Err(failure) => return Err(keep(dir, &copy, failure)),
    }
    Ok(0)
}

/// The file that the editor left. It may have put another file in its place, and reading a pipe
/// would wait for ever.
fn read_copy(copy: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::open(copy, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// Prints the file before and after, with `--json`.
fn print(
    args: &Args,
    spec: &ImagePath,
    before: Option<&Attr>,
    after: Option<&Attr>,
) -> Result<(), Failure> {
    let mut changes = Changes::new(args.json, false);
    changes.file(&spec.path, before, after)?;
    changes.flush()
}

/// The file at `path`.
fn read(session: &Session, path: &[u8]) -> Result<Before, Failure> {
    let Some(file) = session.find_opt(path, Last::Follow)? else {
        // Its directory must exist, or the work in the editor would be in vain.
        session.find_target(path)?;
        return Ok(Before { attr: None, content: Vec::new() });
    };
    let attr = session.ffs.getattr(&file);
    let failed = |error| session.failed(path, error);
    match attr.kind {
        FileType::Regular => {}
        FileType::Directory => return Err(failed(Error::IsDirectory)),
        _ => return Err(failed(Error::Invalid("not a regular file"))),
    }
    if attr.size > LARGEST {
        let why = format!("has {} bytes; at most {LARGEST} are edited", attr.size);
        let name = format!("{}:{}", session.image(), show(path));
        return Err(Failure::new(name, why).hint("copy it out with ffs cp, and back"));
    }
    let (mut content, mut part) = (Vec::new(), vec![0; READ_SIZE]);
    loop {
        let len = session.ffs.read(&file, content.len() as u64, &mut part).map_err(failed)?;
        match part.get(..len) {
            Some(bytes) if len > 0 => content.extend_from_slice(bytes),
            _ => return Ok(Before { attr: Some(attr), content }),
        }
    }
}

/// Runs the editor on `copy` and waits for its end.
fn edit(args: &Args, copy: &Path) -> Result<(), Failure> {
    let set = |name| env::var_os(name).filter(|editor| !editor.is_empty());
    let named = || ["VISUAL", "EDITOR"].into_iter().find_map(set);
    let editor = args.editor.clone().or_else(named).unwrap_or_else(|| "vi".into());
    // As git does: the editor may have options, and is then a command of the shell.
    let mut command = editor.clone();
    command.push(" \"$@\"");
    // ^C and ^\ are for the editor. A handler, unlike a signal that is ignored, is not inherited.
    let ended = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]).and_then(|signals| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).arg(&editor).arg(copy).stdin(input());
        wait(shell.spawn()?, signals)
    });
    let (status, interrupted) = ended.map_err(|error| Failure::host(Path::new("sh"), &error))?;
    if interrupted {
        return Err(Failure::interrupted());
    }
    if status.success() {
        return Ok(());
    }
    let failure = Failure::new(show(editor.as_bytes()), format!("ended with {status}"));
    Err(failure.hint("nothing was changed"))
}

/// Standard input of the editor: that of `ffs`, or the terminal if that is a script of `ffs shell`,
/// whose commands are not for the editor.
fn input() -> Stdio {
    if !super::shell::script_is_on_stdin() {
        return Stdio::inherit();
    }
    // Without a terminal the editor has no input.
    fs::File::open("/dev/tty").map_or_else(|_| Stdio::null(), Stdio::from)
}

/// Waits for the editor, in another thread: the caller may have blocked SIGCHLD. SIGTERM and SIGHUP
/// end it, too; the second value is whether one arrived.
fn wait(mut editor: Child, mut signals: Signals) -> io::Result<(ExitStatus, bool)> {
    let (shell, handle) = (Pid::from_child(&editor), signals.handle());
    let waiter = std::thread::Builder::new().spawn(move || {
        let status = editor.wait();
        handle.close();
        status
    })?;
    let mut interrupted = false;
    // It ends when it is closed.
    for signal in &mut signals {
        if matches!(signal, SIGTERM | SIGHUP) {
            if !interrupted {
                // The editor is a child of the shell in some shells.
                signal_all(shell, Signal::TERM);
            }
            interrupted = true;
        }
    }
    let status = waiter.join().unwrap_or_else(|_| Err(io::Error::other("a thread has ended")))?;
    Ok((status, interrupted))
}

/// Writes the new content, unless the file has changed meanwhile. Returns the attributes that it
/// has then.
fn store(spec: &ImagePath, before: &Before, content: &[u8]) -> Result<Attr, Failure> {
    let session = Session::write(&spec.image)?;
    let result = session.find_opt(&spec.path, Last::Follow).and_then(|file| {
        let now = file.as_ref().map(|file| session.ffs.getattr(file));
        if !is_same(now.as_ref(), before.attr.as_ref()) {
            return Err(Failure::new(spec, "has changed in the image since it was read"));
        }
        let Some(file) = session.find_or_create(&spec.path, true)? else {
            return Err(session.failed(&spec.path, Error::NotFound));
        };
        replace(&session, &file, &before.content, content)
            .map_err(|error| session.failed(&spec.path, error))?;
        Ok(session.ffs.getattr(&file))
    });
    session.finish_with(result)
}

/// Whether it is the same file with the same content and attributes.
fn is_same(now: Option<&Attr>, before: Option<&Attr>) -> bool {
    let of = |a: &Attr| (a.ino, a.generation, a.size, a.mtime, a.ctime);
    now.map(of) == before.map(of)
}

/// Replaces the content `old` of the file by `new`. If that fails, writes `old` again: its blocks
/// are still those of the file.
fn replace(session: &Session, file: &Vnode, old: &[u8], new: &[u8]) -> ffs_core::Result<()> {
    let (fs, cred) = (&session.ffs, &session.cred);
    let write = |content: &[u8]| {
        let mut at = 0;
        for part in content.chunks(READ_SIZE) {
            fs.write(cred, file, at, part, WriteMode::default())?;
            at += part.len() as u64;
        }
        let size = SetAttr { size: Some(content.len() as u64), ..SetAttr::default() };
        fs.setattr(cred, file, &size).map(|_| ())
    };
    write(new).inspect_err(|_| {
        // The first error is the one to report.
        let _ = write(old);
    })
}

/// Keeps the edited copy, and adds its name to the failure.
fn keep(dir: TempDir, copy: &Path, failure: Failure) -> Failure {
    let name = copy.file_name().map_or_else(PathBuf::new, PathBuf::from);
    let kept = dir.keep().join(name);
    failure.hint(format!("your text is in {}", kept.display()))
}
