//! POSIX through a mount: what pjdfstest covers, and what it leaves out.
//!
//! | areas | modules |
//! | --- | --- |
//! | the path resolution of all calls that take a path | `calls` (the table), `paths`, `readonly` |
//! | `chmod`, `chown`, `link`, `open`, `rename`, `symlink`, `unlink` | of the same names |
//! | `truncate`, `ftruncate` | `truncate` |
//! | `mkdir`, `rmdir` | `dirs` |
//! | `mkfifo`, `mknod` | `mknod` |
//! | `utimensat` | `utimens` |
//! | `posix_fallocate`, and `lseek` | `fallocate` |
//! | times of files and directories, in each area | `times` |
//! | sticky directories, in each area; pjdfstest's `chflags` cases | `sticky`; `flags` |
//! | full file systems | `full` |
//! | beyond pjdfstest: `access`, `acl`, `names`, `readdir`, `xattr` | of the same names |
//! | `write`, `mmap`, `copy`, `lock`, `statfs` | `data` |
//! | set-id bits and capabilities, `O_TMPFILE`, direct I/O | `setid`, `tmpfile`, `direct` |
//! | whiteouts, overlayfs above a volume | `overlay` |
//! | `remount` | `ours` |
//!
//! An area with the name of a system call is pjdfstest's directory of that name, where there is
//! one.
//!
//! The cases run on volumes of ffs. This program mounts them when called with `serve`. At the end
//! each volume is unmounted, and fsck must find nothing. With `FFS_POSIX_DIR=DIR` the same cases
//! run in that directory instead: on an established file system they test the suite itself.
//!
//! `cargo test -p bsdffs-fuse --test posix [WORD...]` runs the cases whose names contain a word.
//! Cases that need root or what a file system lacks are reported as ignored; if nothing can be
//! mounted, all are.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests stop at surprises, and some system calls are only reached through pointers"
)]
#![cfg(target_os = "linux")]

mod access;
mod acl;
mod bench;
mod calls;
mod chmod;
mod chown;
mod data;
mod direct;
mod dirs;
mod fallocate;
mod flags;
mod full;
mod ground;
mod link;
mod mknod;
mod names;
mod open;
mod ours;
mod overlay;
mod paths;
mod readdir;
mod readonly;
mod rename;
mod runner;
#[path = "../common/served.rs"]
mod served;
mod setid;
mod sticky;
mod symlink;
mod sys;
mod times;
mod tmpfile;
mod truncate;
mod unlink;
mod utimens;
mod xattr;

use bench::Case;
use ground::{Ground, VOLUMES};
use runner::Runner;
use std::ffi::OsString;
use std::path::Path;

fn cases() -> Vec<Case> {
    let mut all: Vec<Case> = [
        paths::cases,
        chmod::cases,
        chown::cases,
        link::cases,
        dirs::cases,
        mknod::cases,
        open::cases,
        access::cases,
        truncate::cases,
        rename::cases,
        sticky::cases,
        symlink::cases,
        unlink::cases,
        utimens::cases,
        fallocate::cases,
        times::cases,
        flags::cases,
        xattr::cases,
        acl::cases,
        names::cases,
        readdir::cases,
        data::cases,
        setid::cases,
        tmpfile::cases,
        overlay::cases,
        direct::cases,
        readonly::cases,
        full::cases,
        ours::cases,
    ]
    .into_iter()
    .flat_map(|module| module())
    .collect();
    all.sort_by_key(|c| c.area);
    all
}

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|a| a == "serve") {
        std::process::exit(served::serve(&arguments[2..]));
    }
    let mut runner = Runner::new(&arguments[1..]);
    let cases = cases();
    if let Some(dir) = std::env::var_os("FFS_POSIX_DIR") {
        runner.run("given", &cases, || Ground::given(Path::new(&dir)));
    } else if let Some(why) = ground::obstacle() {
        println!("skipped: all cases of POSIX conformance: {why}");
    } else {
        for volume in &VOLUMES {
            runner.run(volume.name, &cases, || Ground::image(volume));
        }
    }
    std::process::exit(runner.finish());
}
