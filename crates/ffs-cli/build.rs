//! Packs the relocations of a static program, which takes half a megabyte from its file.
//!
//! A static program relocates itself, by the start code of the C library that is linked. That code
//! reads packed relocations since glibc 2.36 and musl 1.2.4; Rust has a newer musl since 1.93.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let features = of("CARGO_CFG_TARGET_FEATURE");
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    if of("CARGO_CFG_TARGET_OS") != "linux" || !is_static {
        return;
    }
    let packed = match of("CARGO_CFG_TARGET_ENV").as_str() {
        "musl" => version(&of("RUSTC"), "--version") >= (1, 93),
        "gnu" => version("getconf", "GNU_LIBC_VERSION") >= (2, 36),
        _ => false,
    };
    if packed {
        // A linker that does not know the word prints a warning.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The first two numbers that a program prints behind a word; zeros if it prints none.
fn version(program: &str, arg: &str) -> (u32, u32) {
    let output = Command::new(program).arg(arg).output().map(|output| output.stdout);
    let text = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
    let mut numbers = text.split_whitespace().nth(1).unwrap_or_default().split('.');
    let mut next = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    (next(), next())
}
