//! Lists a directory of an image: `cargo run --example ls -- IMAGE [DIR]`.

use bsdffs::Volume;
use std::io;

fn main() -> io::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let usage = || io::Error::other("usage: ls IMAGE [DIR]");
    let image = args.next().ok_or_else(usage)?;
    let dir = args.next().unwrap_or_else(|| "/".into());
    let volume = Volume::open(image)?;
    for entry in volume.read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        let mode = meta.permissions().mode();
        println!("{mode:04o} {:>10} {}", meta.len(), entry.file_name().display());
    }
    Ok(())
}
