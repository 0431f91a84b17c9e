//! Streams a large file into or out of an image through the library and prints the rates.
//!
//! `stream write|read IMAGE NAME MIB`. `bench/stream.sh` compares it with `dd` on the same file
//! system.

use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, WriteMode};
use ffs_device::{BlockDevice, FileDevice};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// Bytes in one call.
const CHUNK: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, mode, image, name, mib] = args.as_slice() else {
        return Err("usage: stream write|read IMAGE NAME MIB".into());
    };
    let mib: u64 = mib.parse()?;
    let write = mode == "write";
    let dev: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(image.as_ref(), write)?);
    let opts = MountOptions {
        read_only: !write,
        ordering: OrderingPolicy::None,
        ..MountOptions::default()
    };
    let fs = Ffs::mount(dev, &opts, Env::system())?;
    let cred = Cred::root();
    let mut chunk = vec![0x5a_u8; CHUNK];
    let start = Instant::now();
    if write {
        let root = fs.root()?;
        let file = fs.create(&cred, &root, name.as_bytes(), NodeKind::Regular, 0o644)?;
        for i in 0..mib {
            fs.write(&cred, &file, i * CHUNK as u64, &chunk, WriteMode::default())?;
        }
        fs.fsync(&file)?;
    } else {
        let file = fs.lookup(&cred, &fs.root()?, name.as_bytes())?;
        for i in 0..mib {
            if fs.read(&file, i * CHUNK as u64, &mut chunk)? != CHUNK {
                return Err("the file is too short".into());
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    fs.unmount()?;
    println!("ffs {mode} {mib} MiB {seconds:.3} s {:.0} MiB/s", mib as f64 / seconds);
    Ok(())
}
