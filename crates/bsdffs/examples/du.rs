//! Space below each directory at the top of an image, largest first: `cargo run --example du --
//! IMAGE`.

use bsdffs::Volume;
use std::collections::BTreeMap;
use std::io;

fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: du IMAGE");
    let volume = Volume::open(std::env::args_os().nth(1).ok_or_else(usage)?)?;
    let mut space: BTreeMap<String, u64> = BTreeMap::new();
    for entry in volume.walk("")? {
        let entry = entry?;
        let path = entry.path();
        let top = path.components().next().map(|name| name.as_os_str().display().to_string());
        *space.entry(top.unwrap_or_default()).or_default() += entry.metadata()?.blocks();
    }
    let mut rows: Vec<_> = space.into_iter().collect();
    rows.sort_by_key(|(_, sectors)| std::cmp::Reverse(*sectors));
    for (name, sectors) in rows {
        println!("{:>10} KiB {name}", sectors / 2);
    }
    Ok(())
}
