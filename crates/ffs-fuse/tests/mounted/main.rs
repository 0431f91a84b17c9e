//! What users and the kernel do to a mounted volume, tried on real mounts.
//!
//! The servers are this program again ([`served`]). `make IMAGE BYTES` makes an image, to try
//! things by hand. Where nothing can be mounted every test is reported as skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod access;
mod control;
mod data;
mod durable;
#[path = "../../../ffs-core/tests/common/examine.rs"]
mod examine;
mod handles;
mod harness;
mod judges;
mod killed;
mod life;
mod names;
mod no_open;
mod owners;
mod placement;
mod quota;
mod requests;
mod rings;
#[path = "../common/served.rs"]
mod served;
mod splice;
mod sys;
mod writeback;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Test = (&'static str, fn());

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = ffs_fuse::run_as_helper(arguments.clone(), None, |_| ()) {
        std::process::exit(code);
    }
    sys::forbid_as_wanted(&arguments);
    if arguments.get(1).is_some_and(|a| a == "serve") {
        std::process::exit(served::serve(&arguments[2..]));
    }
    if arguments.get(1).is_some_and(|a| a == "ask") {
        std::process::exit(harness::control(&arguments[2..]));
    }
    if arguments.get(1).is_some_and(|a| a == "make") {
        let size: u64 = arguments[3].to_str().and_then(|s| s.parse().ok()).expect("bytes");
        harness::make(arguments[2].as_ref(), size);
        return;
    }
    std::process::exit(run(&arguments[1..]));
}

/// Runs the tests whose names contain one of the words, as cargo's own harness would.
fn run(arguments: &[OsString]) -> i32 {
    let words: Vec<String> = arguments
        .iter()
        .map(|a| a.to_string_lossy().into_owned())
        .filter(|a| !a.starts_with('-'))
        .collect();
    if arguments.iter().any(|a| a == "--list") {
        return 0;
    }
    if let Some(why) = harness::obstacle() {
        println!("skipped: all tests of mounts: {why}");
        return 0;
    }
    let all: [&[Test]; 17] = [
        control::TESTS,
        life::TESTS,
        names::TESTS,
        data::TESTS,
        access::TESTS,
        owners::TESTS,
        judges::TESTS,
        handles::TESTS,
        durable::TESTS,
        quota::TESTS,
        requests::TESTS,
        no_open::TESTS,
        splice::TESTS,
        writeback::TESTS,
        rings::TESTS,
        placement::TESTS,
        killed::TESTS,
    ];
    let mut failed = Vec::new();
    for (name, test) in all.into_iter().flatten() {
        if !words.is_empty() && !words.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        let ok = catch_unwind(AssertUnwindSafe(test)).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        if !ok {
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    i32::from(!failed.is_empty())
}
