//! The worked example of `docs/architecture.md`: a new file renamed over another one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use crate::common::{World, mount_recorded, root, soft_updates, soft_volume};
use ffs_core::{RenameMode, Vnode, WriteMode};
use ffs_device::Durability;
use ffs_device::record::{Event, Level};
use ffs_ondisk::FragNo;
use ffs_ondisk::{Endian, Format};

/// The writes since the last call, a pass a word: `d` for data or a directory, `i` for an inode
/// block, `g` for another block of a cylinder group; each kind once, sorted.
fn passes(w: &World) -> String {
    let g = *w.fs.geometry();
    let kind = |offset: u64| {
        let at = FragNo(offset / u64::from(g.fsize));
        let c = g.dtog(at);
        match at {
            at if at >= g.cgimin(c) && at < g.cgdmin(c) => 'i',
            at if g.in_metadata(c, at) => 'g',
            _ => 'd',
        }
    };
    let (mut all, mut pass) = (Vec::new(), Vec::new());
    for event in w.dev.take_events() {
        match event {
            Event::Write { offset, .. } => pass.push(kind(offset)),
            Event::Flush { .. } => {
                pass.sort_unstable();
                pass.dedup();
                all.extend((!pass.is_empty()).then(|| pass.drain(..).collect::<String>()));
            }
            _ => {}
        }
    }
    all.join(" ")
}

fn write(w: &World, file: &Vnode, byte: u8) {
    w.fs.write(&root(), file, 0, &[byte; 9000], WriteMode::default()).unwrap();
}

#[test]
fn a_rename_is_durable_after_three_passes_and_its_freed_space_after_five() {
    let dev = soft_volume((Endian::Little, Format::Ufs2, 8192, 1024), 16 << 20);
    let dev = dev.with_durability(Durability::OnFlush);
    let w = mount_recorded(dev, &soft_updates(), Level::Log);
    let (a, b) = (w.dir(&w.root, "a"), w.dir(&w.root, "b"));
    write(&w, &w.file(&b, "conf"), 1);
    w.fs.sync().unwrap();
    let new = w.file(&a, "conf.tmp");
    write(&w, &new, 2);
    w.dev.take_events();
    let (from, to) = ((&a, b"conf.tmp".as_slice()), (&b, b"conf".as_slice()));
    w.fs.rename(&root(), from, to, RenameMode::Replace).unwrap();
    assert_eq!(passes(&w), "", "a rename writes nothing");
    w.fs.fsync(&new).unwrap();
    assert_eq!(passes(&w), "dg i d", "content and groups, inode, name");
    w.fs.sync().unwrap();
    let why = "the replaced file's inode and the old directory, then the freed space";
    assert_eq!(passes(&w), "di g", "{why}");
}
