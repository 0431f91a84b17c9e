//! One broken rule at a time, in every geometry and byte order.

use ffs_ondisk::{Endian, Ino};

use super::image::{Image, SHAPES, furnished};

/// Spoils a good image of every kind; `rule` and no other must be broken then.
fn breaks(rule: &str, spoil: impl Fn(&mut Image)) {
    for shape in SHAPES {
        for endian in [Endian::Little, Endian::Big] {
            let mut image = Image::new(furnished(shape, endian));
            spoil(&mut image);
            let broken = image.broken();
            assert!(!broken.is_empty(), "{shape:?} {endian:?}: nothing found");
            assert!(broken.iter().all(|found| found == rule), "{shape:?} {endian:?}: {broken:?}");
        }
    }
}

#[test]
fn f1_a_name_of_an_empty_inode() {
    breaks("F1", |image| {
        let at = image.dinode("bar");
        image.bytes[at..at + 128].fill(0);
        if image.v.ufs2 {
            image.bytes[at + 128..at + 256].fill(0);
        }
    });
}

#[test]
fn f1_a_name_of_an_inode_that_cannot_be() {
    breaks("F1", |image| {
        let at = image.record("a", b"empty");
        image.put32(at, image.v.inodes());
    });
}

#[test]
fn f1_a_name_of_an_inode_that_was_never_written() {
    let mut image = Image::new(furnished(SHAPES[1], Endian::Little));
    let header = image.v.header(0) as usize;
    let uninitialised = image.order().u32(&image.bytes, header + 120);
    assert!(uninitialised < image.v.ipg);
    let at = image.record("a", b"empty");
    image.put32(at, uninitialised);
    assert_eq!(image.broken(), ["F1"]);
}

#[test]
fn f2_a_name_of_an_inode_marked_free() {
    breaks("F2", |image| {
        let (byte, bit) = image.inode_bit(Ino(image.inode("bar").ino));
        image.bytes[byte] &= !bit;
    });
}

#[test]
fn f3_a_pointer_to_a_free_fragment() {
    for (path, lbn) in [("bar", 0), ("big", 12), ("b/d", 0)] {
        breaks("F3", |image| {
            let (byte, bit) = image.fragment_bit(image.block(path, lbn));
            image.bytes[byte] |= bit;
        });
    }
}

#[test]
fn f3_a_pointer_to_metadata_or_out_of_range() {
    breaks("F3", |image| {
        let metadata = image.v.metadata(1);
        image.put_pointer("bar", 0, metadata.end - 1);
    });
    breaks("F3", |image| {
        let summary = image.v.summary();
        image.put_pointer("bar", 0, summary.start);
    });
    breaks("F3", |image| {
        let beyond = image.v.size;
        image.put_pointer("bar", 0, beyond);
    });
    breaks("F3", |image| image.put_pointer("big", 12, u64::MAX));
}

#[test]
fn f3_a_pointer_across_blocks() {
    breaks("F3", |image| {
        let at = image.block("big", 3);
        image.put_pointer("big", 3, at + 1);
    });
}

#[test]
fn f4_two_owners() {
    breaks("F4", |image| {
        let at = image.block("foo", 0);
        image.put_pointer("bar", 0, at);
    });
    breaks("F4", |image| {
        let at = image.block("big", 2);
        image.put_pointer("big", 3, at);
    });
    breaks("F4", |image| {
        let at = image.block("big", 2);
        image.put_pointer("big", 12, at);
    });
}

#[test]
fn f5_more_names_than_the_link_count() {
    breaks("F5", |image| image.put_nlink("foo", 1));
    breaks("F5", |image| image.put_nlink("b", 2));
    breaks("F5", |image| image.put_nlink("b/d", 1));
    breaks("F5", |image| {
        let nlink = image.inode("").nlink;
        image.put_nlink("", nlink - 1);
    });
}

#[test]
fn f7_garbage_in_an_indirect_block() {
    for garbage in [0xdbdb_dbdb, 5] {
        breaks("F7", |image| {
            // The indirect block follows from the inode, at address word 12.
            let text = image.inode("big").text as usize;
            let (order, fsize) = (image.order(), image.v.fsize as usize);
            if image.v.ufs2 {
                let at = order.u64(&image.bytes, text + 8 * 12) as usize * fsize;
                image.put64(at + 8 * 7, garbage);
            } else {
                let at = order.u32(&image.bytes, text + 4 * 12) as usize * fsize;
                image.put32(at + 4 * 7, garbage as u32);
            }
        });
    }
}

#[test]
fn f8_a_directory_without_its_dots() {
    breaks("F8", |image| {
        let at = image.record("b/d", b".");
        image.put32(at, 2);
    });
    breaks("F8", |image| {
        let (at, foo) = (image.record("a", b".."), image.inode("foo").ino);
        image.put32(at, foo);
    });
    breaks("F8", |image| {
        let at = image.record("a", b".");
        image.bytes[at + 8] = b'x';
    });
    breaks("F8", |image| {
        let at = image.record("a", b"..");
        image.put32(at, 0);
    });
}

#[test]
fn f8_records_that_do_not_add_up() {
    breaks("F8", |image| {
        let at = image.record("b/d", b"..");
        image.put16(at + 4, 504);
    });
    breaks("F8", |image| {
        let at = image.record("b/d", b"..");
        image.put16(at + 4, 0);
    });
}

#[test]
fn f8_a_directory_of_no_or_half_a_chunk_or_with_a_hole() {
    breaks("F8", |image| {
        image.put_size("b/d", 0);
        image.put_pointer("b/d", 0, 0);
    });
    breaks("F8", |image| image.put_size("b/d", 500));
    breaks("F8", |image| image.put_pointer("b/d", 0, 0));
    breaks("F8", |image| {
        let size = image.v.bsize + 512;
        image.put_size("b/d", size);
        // Only one fragment is there.
        let at = image.block("b/d", 0);
        image.put_pointer("b/d", 0, 0);
        image.put_pointer("b/d", 1, at);
    });
}

#[test]
fn f11_a_name_of_the_wrong_type() {
    breaks("F11", |image| {
        let at = image.record("a", b"empty");
        image.bytes[at + 6] = 4;
    });
}

#[test]
fn f12_pointers_beyond_the_size() {
    breaks("F12", |image| image.put_pointer("bar", 5, 77));
    breaks("F12", |image| image.put_pointer("bar", 13, 77));
    breaks("F12", |image| image.put_pointer("short", 4, 77));
    breaks("F12", |image| {
        let size = 12 * image.v.bsize;
        image.put_size("big", size);
    });
}

#[test]
fn f12_an_empty_inode_that_holds_something() {
    breaks("F12", |image| {
        // The inode after the last one in use of group 0 is free and initialised.
        let free = (3..).find(|&ino| {
            let (byte, bit) = image.inode_bit(Ino(ino));
            image.bytes[byte] & bit == 0
        });
        let at = image.v.first_inode(0) + u64::from(free.unwrap()) * image.v.isize();
        image.put64(at as usize + if image.v.ufs2 { 16 } else { 8 }, 512);
    });
}

#[test]
fn f14_one_name_twice() {
    breaks("F14", |image| {
        let at = image.record("", b"bar");
        image.bytes[at + 8..at + 11].copy_from_slice(b"foo");
    });
    breaks("F14", |image| {
        let at = image.record("b", b"d");
        image.bytes[at + 8] = b'.';
    });
}

#[test]
fn f15_a_count_that_would_have_to_grow() {
    breaks("F15", |image| {
        // `d` moved from `a` to `b`: its `..` still names `a`, and `b` does not count it yet.
        let (at, a) = (image.record("b/d", b".."), image.inode("a").ino);
        image.put32(at, a);
        image.put_nlink("a", 3);
        image.put_nlink("b", 2);
    });
}
