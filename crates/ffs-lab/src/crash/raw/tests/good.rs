//! Images as they should be, and states that a crash may leave.

use ffs_ondisk::{Endian, Format, Ino};

use super::image::{Image, SHAPES, bytes, empty, furnished};
use crate::crash::raw::{Attribute, Checker};

fn all(check: impl Fn(Vec<u8>, Format)) {
    for shape in SHAPES {
        for endian in [Endian::Little, Endian::Big] {
            check(furnished(shape, endian), shape.0);
        }
    }
}

/// The states seen in `image`.
fn seen(image: &[u8]) -> Vec<u8> {
    let mut checker = Checker::new();
    let found = checker.check(&image);
    assert_eq!(found.violations, []);
    found.seen.iter().collect()
}

#[test]
fn good_images_are_silent() {
    for shape in SHAPES {
        let image = bytes(&empty(shape, Endian::Little));
        assert_eq!(seen(&image), [0; 0], "{shape:?}");
    }
    all(|image, _| assert_eq!(seen(&image), [0; 0]));
}

#[test]
fn the_tree_is_read_without_mounting() {
    all(|image, format| {
        let mut checker = Checker::new();
        let tree = &checker.check(&image).tree;
        let mut names: Vec<&[u8]> = tree.entries(Ino(2)).map(|entry| entry.name).collect();
        names.retain(|name| *name != b".snap");
        names.sort_unstable();
        assert_eq!(names, [&b"a"[..], b"b", b"bar", b"big", b"foo", b"long", b"short"]);
        let inode = |path: &str| *tree.inode(tree.resolve(path.as_bytes()).unwrap()).unwrap();
        assert_eq!(inode("b/link").ino, inode("foo").ino);
        assert_eq!(inode("foo").nlink, 2);
        assert_eq!(tree.target(&image, &inode("short")).unwrap(), b"b/d");
        assert_eq!(tree.target(&image, &inode("long")).unwrap(), [b'x'; 200]);
        let big = inode("big");
        let mut expected = 0;
        for extent in tree.extents(&big) {
            assert_eq!(extent.sector * 512, expected);
            let from = extent.at as usize;
            for (i, byte) in (expected..).zip(&image[from..from + extent.len]) {
                assert_eq!(*byte, i as u8 | 1);
            }
            expected += extent.len as u64;
        }
        assert_eq!(expected, big.size);
        assert_eq!(tree.attributes(&image, &inode("bar")), Some(vec![]));
        if format == Format::Ufs2 {
            let blue =
                Attribute { namespace: 1, name: b"colour".to_vec(), value: b"blue".to_vec() };
            assert_eq!(tree.attributes(&image, &inode("foo")), Some(vec![blue]));
        }
    });
}

#[test]
fn what_a_crash_may_leave_is_noted_but_not_blamed() {
    let spoiled = |spoil: fn(&mut Image)| {
        let mut image = Image::new(furnished(SHAPES[1], Endian::Little));
        spoil(&mut image);
        seen(&image.bytes)
    };
    // The last fragment of the volume is free: leaked.
    let leak = spoiled(|image| {
        let (byte, bit) = image.fragment_bit(image.v.size - 1);
        image.bytes[byte] &= !bit;
    });
    assert!(leak.contains(&1) && leak.contains(&7), "{leak:?}");
    let bit = spoiled(|image| {
        let (byte, bit) = image.inode_bit(Ino(image.v.ipg - 1));
        image.bytes[byte] |= bit;
    });
    assert!(bit.contains(&2), "{bit:?}");
    let nameless = spoiled(|image| {
        let at = image.record("a", b"empty");
        image.put32(at, 0);
    });
    assert!(nameless.contains(&3) && nameless.contains(&14), "{nameless:?}");
    assert_eq!(spoiled(|image| image.put_nlink("bar", 2)), [4]);
    let open = spoiled(|image| {
        let at = image.record("a", b"empty");
        image.put32(at, 0);
        image.put_nlink("a/empty", 0);
    });
    assert!(open.contains(&13), "{open:?}");
    let moved = spoiled(|image| {
        let (at, a) = (image.record("b/d", b".."), image.inode("a").ino);
        image.put32(at, a);
        image.put_nlink("a", 3);
    });
    assert_eq!(moved, [4, 6]);
    let short = spoiled(|image| image.put_size("big", 20 * 4096));
    assert_eq!(short, [9]);
    let blocks = spoiled(|image| {
        let at = image.dinode("foo") + 24;
        image.put64(at, 77);
    });
    assert_eq!(blocks, [8]);
}
