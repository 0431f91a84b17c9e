//! Copies directories and regular files of an image to the host, and goes on after an unreadable one:
//! `cargo run --example extract -- IMAGE DIR`.

use bsdffs::Volume;
use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, to] = args.as_slice() else {
        return Err(io::Error::other("usage: extract IMAGE DIR"));
    };
    let volume = Volume::open(image)?;
    let (mut copied, mut failed) = (0, 0);
    for entry in volume.walk("")? {
        let result = entry.and_then(|entry| {
            let (path, kind) = (entry.path(), entry.file_type()?);
            copy(&volume, kind, &path, &Path::new(to).join(&path)).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        });
        match result {
            Ok(()) => copied += 1,
            Err(error) => {
                eprintln!("{error}");
                failed += 1;
            }
        }
    }
    println!("{copied} copied, {failed} failed");
    Ok(())
}

fn copy(volume: &Volume, kind: bsdffs::FileType, from: &Path, to: &Path) -> io::Result<()> {
    match kind {
        bsdffs::FileType::Directory => fs::create_dir_all(to),
        bsdffs::FileType::Regular => {
            io::copy(&mut volume.open_file(from)?, &mut fs::File::create(to)?).map(drop)
        }
        _ => Ok(()),
    }
}
