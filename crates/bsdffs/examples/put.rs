//! Copies a file of the host into an image: `cargo run --example put -- FILE IMAGE PATH`.

use bsdffs::Volume;
use std::fs::File;
use std::io;

fn main() -> io::Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [file, image, path] = args.as_slice() else {
        return Err(io::Error::other("usage: put FILE IMAGE PATH"));
    };
    let mut from = File::open(file)?;
    let volume = Volume::options().write(true).open(image)?;
    let mut to = volume.create_file(path)?;
    let bytes = io::copy(&mut from, &mut to)?;
    // An error of the device shows here, not where the volume is dropped.
    volume.close()?;
    println!("{bytes} bytes");
    Ok(())
}
