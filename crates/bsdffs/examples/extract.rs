//! Copies a tree of an image to a directory of the host: `cargo run --example extract -- IMAGE
//! DIR`.

use bsdffs::Volume;
use bsdffs::copy::CopyOptions;
use std::io;

fn main() -> io::Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, to] = args.as_slice() else {
        return Err(io::Error::other("usage: extract IMAGE DIR"));
    };
    let report = Volume::open(image)?.copy_out("/", to, CopyOptions::archive())?;
    println!("{} copied, {} failed", report.summary(), report.failed);
    Ok(())
}
