//! `ffs serve`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use ffs_device::BlockDevice;
use ffs_image::OpenOptions;
use ffs_image::nbd::Server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Doc;
use crate::fail::{Failure, Outcome, show};
use crate::spec::names_partition;
use crate::{output, session, signals};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs serve nbd disk.img@2 --unix /run/disk.sock", "export partition 2, to be read"),
        ("ffs serve nbd disk.img:/.snap/monday --port 10809", "export a snapshot to this host"),
        ("qemu-img convert nbd+unix:///?socket=/run/disk.sock copy.qcow2", "a client"),
    ],
    exit: &[
        ("0", "the server was ended by SIGINT or SIGTERM, and everything is written"),
        ("1", "it could not start, or not everything could be written"),
    ],
    see_also: &["ffs-snapshot(8)", "ffs-mount(8)", "ffs-info(1)"],
    section: "8",
    usage_code: 64,
};

/// Export an image to other programs.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    protocol: Protocol,
}

#[derive(clap::Subcommand)]
enum Protocol {
    Nbd(Nbd),
}

/// Export a partition, a whole disk or a snapshot as a block device (NBD).
///
/// The one export has an empty name. The image stays locked while the server runs; SIGINT or
/// SIGTERM ends it. The protocol has no passwords: every program that reaches the socket or the
/// port reads the image, so by default only those of this host do.
#[derive(clap::Args)]
struct Nbd {
    /// IMAGE[@N] (@0 for the whole disk), or IMAGE:/.snap/NAME for a snapshot
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// Listen at this socket, which must not exist
    #[arg(long, value_name = "SOCKET", conflicts_with = "port")]
    unix: Option<PathBuf>,
    /// Listen at this port; 0 chooses one
    #[arg(long, value_name = "PORT", default_value_t = 10809)]
    port: u16,
    /// Listen at this address of the host; 0.0.0.0 or :: is every one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: String,
    /// Let clients change the image
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let Protocol::Nbd(args) = args.protocol;
    signals::listen();
    let name = show(args.image.as_bytes());
    if let (None, Some((address, port))) = (&args.unix, address_with_port(&args.bind)) {
        return Err(Failure::usage(format!("--bind {}: it names a port, too", args.bind))
            .hint(format!("--bind {address} --port {port}")));
    }
    let opened =
        session::open(&args.image, args.write).map_err(|failure| or_whole_disk(failure, &args))?;
    let device = Arc::clone(&opened.device);
    let server = match &args.unix {
        Some(path) => Server::at_socket(path, Arc::clone(&device)),
        None => {
            let host = match args.bind.contains(':') {
                true => format!("[{}]", args.bind.trim_matches(['[', ']'])),
                false => args.bind.clone(),
            };
            Server::at_address(&format!("{host}:{}", args.port), Arc::clone(&device))
        }
    };
    let server = server.map_err(|error| cannot_listen(&args, &error))?;
    let mut out = output::stdout();
    let how = if device.is_read_only() { "read-only" } else { "for writing" };
    writeln!(out, "{name}: exported {how} at {}", server.uri())?;
    out.flush()?;
    drop(out);
    serve(&server)?;
    // Clients that are still connected get no more answers when the process ends.
    device.flush().map_err(|error| Failure::new(&name, error))?;
    Ok(0)
}

/// The address and the port of a `--bind` that has both; the port of an IPv6 address follows a
/// bracket.
fn address_with_port(bind: &str) -> Option<(&str, &str)> {
    let (address, port) = bind.rsplit_once(':')?;
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let whole = address.starts_with('[') && address.ends_with(']') || !address.contains(':');
    (is_port && whole).then(|| (address.trim_matches(['[', ']']), port))
}

/// Adds a hint to the failure if the image can be opened as a whole: no partition of it has a file
/// system, or several have one.
fn or_whole_disk(failure: Failure, args: &Nbd) -> Failure {
    let mut whole = args.image.clone();
    whole.push("@0");
    let options = OpenOptions { no_helper: true, ..OpenOptions::default() };
    match ffs_image::open(&whole, &options) {
        Ok(_) if !names_partition(&args.image) => {
            failure.hint(format!("{} exports the whole disk", show(whole.as_bytes())))
        }
        _ => failure,
    }
}

fn cannot_listen(args: &Nbd, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let place = match &args.unix {
        Some(path) => show(path.as_os_str().as_bytes()),
        None => format!("address {} port {}", args.bind, args.port),
    };
    let failure = Failure::new(place, format!("cannot listen: {}", show_error(error)));
    match (error.kind(), &args.unix) {
        (ErrorKind::AddrInUse, Some(_)) => {
            failure.hint("remove an old socket, or choose another name")
        }
        (ErrorKind::AddrInUse, None) => failure.hint("choose another --port; 0 takes a free one"),
        (ErrorKind::NotFound, Some(_)) => failure.hint("make the directory of the socket first"),
        (_, None) => failure.hint(
            "--bind is an address of this host, such as 127.0.0.1, ::1, or 0.0.0.0 for all of them",
        ),
        _ => failure,
    }
}

fn show_error(error: &std::io::Error) -> String {
    ffs_device::host_words(error)
}

/// Accepts clients until a signal arrives.
fn serve(server: &Server) -> Result<(), Failure> {
    let patience = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    while !signals::interrupted() {
        let socket = server.as_fd();
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => {
                if let Err(error) = server.accept() {
                    output::warn(format!("a client was not accepted: {}", show_error(&error)));
                }
            }
            Err(error) => return Err(Failure::new("the socket", error)),
        }
    }
    Ok(())
}
