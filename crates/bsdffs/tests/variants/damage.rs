//! Damaged volumes of other systems: errors that name the place, no panic.

use super::convert::{Image, System};
use super::{listing, open, volume};
use ffs_device::MemDevice;
use ffs_ondisk::Endian;
use ffs_testkit::rng::SplitMix64;

fn converted(endian: Endian, system: System) -> Image {
    let (made, _) = volume(endian);
    let mut image = Image::new(made);
    image.convert(system);
    image
}

/// The first chunk of `/many`, and its inode number.
fn chunk(image: &Image) -> (usize, u64) {
    let ino = open(image).unwrap().metadata("/many").unwrap().ino();
    (image.chunks(ino as usize)[0], ino)
}

#[test]
fn lengths_of_entries_that_lie_are_named() {
    for endian in [Endian::Little, Endian::Big] {
        for system in [System::Bsd43, System::Bsd42, System::Solaris] {
            let good = converted(endian, system);
            let (chunk, ino) = chunk(&good);
            for (off, value, what) in [
                (24 + 6, 0, "name length is 0"),
                (24 + 6, 256, "name length is 256"),
                (24 + 6, 0x0a00, "name length is 2560"),
                (24 + 4, 0, "record length is 0"),
                (24 + 4, 7, "record length is 7"),
                (24 + 4, 1024, "record length is 1024"),
            ] {
                let mut image = Image { bytes: good.bytes.clone(), big: good.big };
                image.put(chunk + off, 2, value);
                let volume = open(&image).unwrap();
                let entries: Vec<_> = volume.read_dir("/many").unwrap().collect();
                let error = entries.into_iter().find_map(Result::err).unwrap().to_string();
                let place = format!("directory {ino} at offset");
                assert!(error.contains(what) && error.contains(&place), "{system:?}: {error}");
            }
        }
    }
}

#[test]
fn superblocks_that_lie_are_refused_with_the_field() {
    for endian in [Endian::Little, Endian::Big] {
        for (system, off, value, field) in [
            (System::Bsd42, 180, 33, "old_cpg"),
            (System::Bsd42, 184, 4096, "ipg"),
            (System::Bsd43, 100, 9, "fsbtodb"),
            (System::Bsd43, 160, 300, "cgsize"),
            (System::Solaris, 24, 0xffff_ffff, "old_cgoffset"),
            (System::Solaris, 48, 0, "bsize"),
            (System::Mtb, 1320, 2, "fs_version"),
            (System::Solaris, 1320, 9, "fs_version"),
        ] {
            let mut image = converted(endian, system);
            image.set_sb(off, value);
            image.copy_superblock();
            let error = match open(&image) {
                Ok(_) => panic!("{system:?} {endian:?} {field}: accepted"),
                Err(error) => error.to_string(),
            };
            assert!(error.contains(field), "{system:?} {field}: {error}");
        }
    }
}

/// A wrong `fs_inodefmt` makes a volume of 4.4BSD one of 4.3BSD, which is read-only.
#[test]
fn a_wrong_inode_format_is_never_written() {
    let (made, want) = volume(Endian::Little);
    for value in [0, 1, 0xffff_ffff, 0x8000_0000] {
        let mut image = Image::new(made.clone());
        image.set_sb(1324, value);
        let device = std::sync::Arc::new(MemDevice::from_bytes(&image.bytes));
        let error = bsdffs::Volume::options().write(true).mount(device).unwrap_err();
        assert!(error.to_string().contains("4.3BSD"), "{error}");
        assert_eq!(listing(&open(&image).unwrap()).len(), want.len());
    }
}

/// `fallocate` of Solaris leaves negative addresses, which read as zeros.
#[test]
fn reserved_blocks_of_solaris_are_holes() {
    let mut image = converted(Endian::Big, System::Solaris);
    let ino = open(&image).unwrap().metadata("/file7").unwrap().ino() as usize;
    let at = image.inode(ino);
    let frag = image.get(at + 40, 4);
    image.put(at + 40, 4, u64::from((frag as u32).wrapping_neg()));
    image.put(at + 100, 4, 2);
    let volume = open(&image).unwrap();
    let content = volume.read("/file7").unwrap();
    assert!(content[..4096].iter().all(|&b| b == 0) && content[4096..8192].iter().any(|&b| b != 0));
    image.put(at + 40, 4, u64::from((frag as u32 + 1).wrapping_neg()));
    let error = open(&image).unwrap().read("/file7").unwrap_err().to_string();
    assert!(error.contains(&format!("inode {ino}")) && error.contains("block pointer"), "{error}");
}

/// Shadow inodes (access lists) and directories of attributes have no names.
#[test]
fn inodes_of_access_lists_are_not_files() {
    let mut image = converted(Endian::Little, System::Solaris);
    let inode_of = |image: &Image, path: &str| open(image).unwrap().metadata(path).unwrap().ino();
    let (file, other) = (inode_of(&image, "/file1"), inode_of(&image, "/file2"));
    let (file, other) = (image.inode(file as usize), image.inode(other as usize));
    image.put(file + 112, 4, 99);
    image.put(file + 124, 4, 98);
    assert_eq!(open(&image).unwrap().read("/file1").unwrap().len(), 1);
    for kind in [0o130_600, 0o160_700] {
        image.put(other, 2, kind);
        let error = open(&image).unwrap().read("/file2").unwrap_err().to_string();
        assert!(error.contains("mode") && error.contains("a known file type"), "{error}");
    }
}

/// Noise in superblock, groups, inodes and directories: every outcome but a panic.
#[test]
fn noise_is_survived() {
    for (endian, system) in [
        (Endian::Little, System::Bsd42),
        (Endian::Big, System::Bsd43),
        (Endian::Little, System::Solaris),
        (Endian::Big, System::Mtb),
    ] {
        let good = converted(endian, system);
        let (chunk, _) = chunk(&good);
        let places = [(8192, 1376), (good.group(0), 1024), (good.inode(2), 4096), (chunk, 512)];
        let mut rng = SplitMix64::new(7);
        for round in 0..160 {
            let mut image = Image { bytes: good.bytes.clone(), big: good.big };
            let (start, len) = places[round % places.len()];
            for _ in 0..=round % 3 {
                let at = start + rng.below(len as u64) as usize;
                image.bytes[at] = rng.below(256) as u8;
            }
            let Ok(volume) = open(&image) else { continue };
            for entry in volume.walk("/").unwrap().flatten() {
                let _ = (volume.read_link(entry.path()), entry.metadata());
                let small = |m: bsdffs::Metadata| m.is_file() && m.len() < 64 << 10;
                if entry.metadata().is_ok_and(small) {
                    let _ = volume.read(entry.path());
                }
            }
            let device = MemDevice::from_bytes(&image.bytes);
            if let Ok(dump) = ffs_admin::dumpfs::Dump::open(&device) {
                dump.groups().for_each(drop);
            }
        }
    }
}
