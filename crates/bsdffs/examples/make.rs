//! Makes an image with a small tree in it, for example for a test: `cargo run --example make --
//! IMAGE`.

use bsdffs::{OpenOptions, Permissions, Volume};
use std::io::{self, Write};

fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: make IMAGE");
    let image = std::env::args_os().nth(1).ok_or_else(usage)?;
    bsdffs::format(&image, 32 << 20)?;
    let volume = Volume::options().write(true).open(&image)?;
    volume.create_dir_all("usr/local/bin")?;
    volume.write("usr/local/bin/hello", "#!/bin/sh\necho hello\n")?;
    volume.set_permissions("usr/local/bin/hello", Permissions::from_mode(0o755))?;
    volume.symlink("usr/local/bin", "bin")?;
    let mut log = OpenOptions::new();
    log.append(true).create(true).mode(0o600);
    for line in ["first", "second"] {
        writeln!(log.open(&volume, "log")?, "{line}")?;
    }
    volume.close()
}
