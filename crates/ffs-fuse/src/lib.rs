//! A FUSE server over [`ffs_core`]: images mounted as directories of Linux.
//!
//! | module, top down | holds |
//! | --- | --- |
//! | `helper` | being called by mount(8) and umount(8) |
//! | `daemon` | mounting in the background |
//! | `control` | switches and counters of a running mount |
//! | `umount` | unmounting and waiting for the last byte; remounting |
//! | `disk` | a block device of this process as a file |
//! | `serve` | from a [`MountRequest`] to a served mount, and to its end |
//! | `log`, `trace` | the log of a server; the trace of its requests |
//! | `session` | the threads that serve a mount; `signals` and `syncer` beside them |
//! | `notifier` | answers that wait until the kernel has dropped pages |
//! | `server` | from the kernel's requests to operations of the file system |
//! | `kernel` | mount(2), `fuseblk`, `fusermount3`; `mountinfo` |
//! | `wire` | the FUSE protocol |
//! | `pressure` | whether the system is short of memory |
//! | `options` | the words behind `-o` |
//!
//! The room knows neither on-disk structures nor buffers: an operation of the core answers a request.
//!
//! References: `spec/known-failures.md` §1; `docs/dependencies.md` on why the protocol is spoken here.
#![cfg(target_os = "linux")]

mod control;
mod daemon;
mod disk;
mod error;
mod helper;
mod kernel;
mod log;
mod mountinfo;
mod notifier;
mod options;
mod pressure;
mod serve;
mod server;
mod session;
mod signals;
mod syncer;
mod trace;
mod umount;
mod wire;

pub use control::{Changed, Control, Entry, EntryKind};
pub use daemon::mount_daemon;
pub use disk::Disk;
pub use error::MountError;
pub use helper::run_as_helper;
pub use log::LogWriter;
pub use options::{OptionError, Options, describe_options, parse_options};
pub use serve::{MountRequest, Mounted, mount_foreground};
pub use umount::{UnmountRequest, remount, unmount_and_wait};
