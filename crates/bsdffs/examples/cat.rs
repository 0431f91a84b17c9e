//! Writes a file of an image to standard output: `cargo run --example cat -- IMAGE FILE`.

use bsdffs::Volume;
use std::io;

fn main() -> io::Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, file] = args.as_slice() else {
        return Err(io::Error::other("usage: cat IMAGE FILE"));
    };
    let volume = Volume::open(image)?;
    let mut file = volume.open_file(file)?;
    io::copy(&mut file, &mut io::stdout().lock())?;
    Ok(())
}
