//! The command `ffs`: BSD's file-system tools and offline work on UFS images.
//!
//! | module | holds |
//! | --- | --- |
//! | `app` | the command line as a whole, BSD's names as multicall |
//! | `cmd` | one file a command: parse, call, print |
//! | `copy`, `tar` | trees from and to hosts, images and archives |
//! | `session`, `namei`, `spec` | an image opened and mounted; paths inside it; `IMAGE@N:/path` |
//! | `mode`, `owner` | modes and owners as chmod(1) and chown(8) read them |
//! | `log` | which events are logged, and where |
//! | `output`, `progress`, `fail`, `signals`, `bsd`, `memory` | messages, bars, errors, SIGINT, BSD's numbers, memory |
//!
//! File-system logic is elsewhere: `ffs-core` mounts, `ffs-admin` makes and checks.
#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "the comments of arguments are help texts, where IMAGE[@N] is no link"
)]

mod app;
mod bsd;
mod cmd;
mod compare;
mod copy;
mod fail;
mod hugepages;
mod log;
mod memory;
mod mode;
mod namei;
mod output;
mod owner;
mod progress;
mod session;
mod signals;
mod sizing;
mod spec;
mod tar;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(app::run(std::env::args_os().collect()))
}
