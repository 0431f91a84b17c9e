//! The command `ffs`: BSD's file-system tools and offline work on UFS images.
//!
//! | module | content |
//! | --- | --- |
//! | `app` | the command line; names of BSD programs |
//! | `cmd` | one file for each command: arguments, calls, output |
//! | `archive_file` | archives and dumps in files, and on standard input and output |
//! | `copying`, `compare` | progress and messages of copies; comparing trees |
//! | `session`, `namei`, `spec` | mounted images; paths in them; the notation `IMAGE@N:/path` |
//! | `new_image` | the format of an image that a command makes |
//! | `current` | the image and the current directory of a shell |
//! | `walk` | a walk over a tree of an image |
//! | `mode`, `owner`, `acl` | arguments of chmod(1), chown(8) and setfacl(1) |
//! | `pattern` | patterns of `cp --exclude` and `diff -x` |
//! | `quotas` | volumes with quotas, for the quota commands |
//! | `changes` | what the commands that change files print of each |
//! | `bsd_args`, `other_names` | command lines of BSD; commands of other programs |
//! | `log` | which events are logged, and where |
//! | `output`, `progress`, `fail`, `signals` | messages, progress bars, errors, SIGINT |
//! | `bgfsck` | the check in the background |
//! | `lab_program` | the laboratory as a program of its own, `ffs-lab` |
//! | `bsd`, `memory` | numbers in BSD's notation; available memory |
//!
//! The libraries do the work: `ffs-core` mounts, `ffs-admin` creates and checks, `bsdffs` copies
//! trees and builds images.
#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "the comments of arguments are help texts, where IMAGE[@N] is no link"
)]

mod acl;
mod app;
mod archive_file;
mod bgfsck;
mod bsd;
mod bsd_args;
mod changes;
mod cmd;
mod compare;
mod copying;
mod current;
mod expand;
mod fail;
#[cfg(feature = "lab")]
mod hugepages;
#[cfg_attr(feature = "lab", allow(dead_code, reason = "this program has the laboratory itself"))]
mod lab_program;
mod log;
#[cfg(feature = "lab")]
mod memory;
mod namei;
mod new_image;
mod other_names;
mod output;
mod owner;
mod parse;
mod progress;
mod quotas;
mod session;
mod signals;
mod source_date;
mod spec;
mod stdin;
mod umask;
mod walk;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(app::run(std::env::args_os().collect()))
}
