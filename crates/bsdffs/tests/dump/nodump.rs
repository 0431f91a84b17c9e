//! Which files a dump has.

use std::collections::BTreeSet;

use crate::{Image, VOLUMES, open};
use bsdffs::dump::DumpOptions;
use ffs_core::{Cred, FileFlags, NodeKind, SetAttr};

fn names(image: &Image, options: &DumpOptions) -> BTreeSet<String> {
    let (stream, _) = image.dump(options);
    let dump = open(&stream);
    dump.names().map(|name| String::from_utf8(name.path).unwrap()).collect()
}

/// A tree in which the directory `hidden` and the file `tmp` have the flag.
fn image() -> Image {
    let image = Image::new(VOLUMES[0]);
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        let flags = Some(FileFlags::UF_NODUMP);
        let hidden = ffs.mkdir(&cred, &root, b"hidden", 0o755).unwrap();
        let sub = ffs.mkdir(&cred, &hidden, b"sub", 0o755).unwrap();
        ffs.create(&cred, &sub, b"file", NodeKind::Regular, 0o644).unwrap();
        let tmp = ffs.create(&cred, &root, b"tmp", NodeKind::Regular, 0o644).unwrap();
        ffs.create(&cred, &root, b"kept", NodeKind::Regular, 0o644).unwrap();
        for file in [&hidden, &tmp] {
            ffs.setattr(&cred, file, &SetAttr { flags, ..SetAttr::default() }).unwrap();
        }
    });
    image
}

#[test]
fn nodump_is_honoured_from_a_level_on_and_by_everything_below() {
    let image = image();
    let all = names(&image, &DumpOptions::default());
    assert!(all.contains("hidden/sub/file") && all.contains("tmp"), "{all:?}");
    for options in [
        DumpOptions { honor_level: 0, ..DumpOptions::default() },
        DumpOptions { level: 1, ..DumpOptions::default() },
    ] {
        let some: Vec<_> = names(&image, &options).into_iter().collect();
        assert_eq!(some, ["", ".snap", "kept"]);
    }
}

#[test]
fn an_incremental_dump_has_what_changed_and_the_way_to_it() {
    use std::time::Duration;
    let image = Image::new(VOLUMES[3]);
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        let mut dir = root.clone();
        for name in [b"a", b"b", b"c"] {
            dir = ffs.mkdir(&cred, &dir, name, 0o755).unwrap();
            ffs.create(&cred, &dir, b"old", NodeKind::Regular, 0o644).unwrap();
        }
        ffs.create(&cred, &dir, b"changed", NodeKind::Regular, 0o644).unwrap();
        ffs.mkdir(&cred, &root, b"other", 0o755).unwrap();
    });
    image.clock.advance(Duration::from_secs(100));
    let ddate = ffs_device::Clock::now(&*image.clock).secs - 50;
    image.write(|ffs| {
        let cred = Cred::root();
        let mut file = ffs.root().unwrap();
        for name in [&b"a"[..], b"b", b"c", b"changed"] {
            file = ffs.lookup(&cred, &file, name).unwrap();
        }
        let perm = Some(0o600);
        ffs.setattr(&cred, &file, &SetAttr { perm, ..SetAttr::default() }).unwrap();
    });
    let options = DumpOptions { level: 1, date: ddate + 60, ddate, ..DumpOptions::default() };
    let names: Vec<_> = names(&image, &options).into_iter().collect();
    assert_eq!(names, ["", "a", "a/b", "a/b/c", "a/b/c/changed"]);
}
