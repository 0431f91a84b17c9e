//! Damaged and hostile streams.

use crate::random::Changes;
use crate::stream::{headers, seal};
use crate::{Image, VOLUMES, copy_into, open_with};
use bsdffs::dump::{RestoreOptions, TP_BSIZE};
use ffs_core::{Cred, NodeKind, WriteMode};
use ffs_ondisk::Endian;
use ffs_ondisk::wire::put;

/// Restores a stream; returns every problem. Nothing may panic or take long.
fn problems(stream: &[u8], skip_damage: bool) -> Vec<String> {
    let options = RestoreOptions { number: 1, skip_damage };
    let mut dump = match open_with(stream, options) {
        Ok(dump) => dump,
        Err(error) => return vec![error.to_string()],
    };
    let mut all = dump.take_notes();
    let target = Image::new(VOLUMES[0]);
    all.extend(target.write(|ffs| copy_into(ffs, dump.source(false)).1));
    target.fsck();
    all
}

fn small() -> Vec<u8> {
    let image = Image::new(VOLUMES[0]);
    image.write(|ffs| Changes::new(ffs, 8).make(25));
    image.full_dump()
}

/// Every field of every kind of header, with extreme values.
#[test]
fn each_field_of_a_header_may_be_anything() {
    let stream = small();
    let all = headers(&stream);
    let mut tried = std::collections::BTreeMap::new();
    for &at in &all {
        let kind = stream[at];
        // The first three headers of each type.
        let count: &mut u32 = tried.entry(kind).or_default();
        *count += 1;
        if *count > 3 {
            continue;
        }
        let fields = (0..184).step_by(4).chain((676..TP_BSIZE).step_by(4));
        for field in fields.filter(|field| *field != 28) {
            for value in [0u32, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                let mut bad = stream.clone();
                let record = &mut bad[at..at + TP_BSIZE];
                put(record, field, Endian::Little, value);
                seal(record, Endian::Little);
                problems(&bad, value % 2 == 1);
            }
        }
    }
}

#[test]
fn random_damage_is_reported_or_harmless() {
    let stream = small();
    let mut rng = ffs_testkit::rng::SplitMix64::new(1);
    for round in 0..300 {
        let mut bad = stream.clone();
        for _ in 0..rng.between(1, 20) {
            let at = rng.below(bad.len() as u64) as usize;
            bad[at] = rng.next_u64() as u8;
        }
        problems(&bad, round % 2 == 0);
    }
}

#[test]
fn a_truncated_stream_names_the_record() {
    let stream = small();
    assert_eq!(problems(&stream, false), [""; 0]);
    for records in [0, 1, 2, 5, 9, stream.len() / TP_BSIZE - 12] {
        for extra in [0, 1, 700] {
            let found = problems(&stream[..records * TP_BSIZE + extra], true).join("\n");
            let named = found.contains("record ") && found.contains("truncated");
            assert!(named || found.contains("not a dump"), "{records}: {found}");
        }
    }
}

#[test]
fn damage_ends_a_restore_or_is_skipped_up_to_the_next_file() {
    let image = Image::new(VOLUMES[0]);
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        for name in ["a", "b", "c", "d"] {
            let file = ffs.create(&cred, &root, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
            ffs.write(&cred, &file, 0, name.as_bytes(), WriteMode::default()).unwrap();
        }
    });
    let mut stream = image.full_dump();
    let files: Vec<usize> = headers(&stream).into_iter().filter(|at| stream[*at] == 2).collect();
    let b = files[files.len() - 3];
    stream[b + 40] ^= 1;
    let strict = problems(&stream, false).join("\n");
    let record = format!("record {}: the checksum", b / TP_BSIZE);
    assert!(strict.contains(&record), "{strict}");
    let skipping = problems(&stream, true).join("\n");
    assert!(skipping.contains(&record) && skipping.contains("2 records skipped"), "{skipping}");
    assert!(skipping.contains("b: its directory has the name"), "{skipping}");
    assert!(!skipping.contains("c: ") && !skipping.contains("d: "), "{skipping}");
}

/// Directory entries that lead out of the target are not restored.
#[test]
fn hostile_names_stay_inside() {
    let image = Image::new(VOLUMES[0]);
    let names = [&b"xx-evil"[..], b"/x-evil", b"..-evil"];
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        ffs.create(&cred, &root, b"xx-evil", NodeKind::Regular, 0o644).unwrap();
        ffs.create(&cred, &root, b"kept", NodeKind::Regular, 0o644).unwrap();
    });
    let stream = image.full_dump();
    let at = stream.windows(7).position(|bytes| bytes == b"xx-evil").unwrap();
    for (name, new) in
        [(&names[0], &b"a/../.."[..]), (&names[0], b"..\0\0\0\0\0"), (&names[0], b"../evil")]
    {
        let mut bad = stream.clone();
        bad[at..at + name.len()].copy_from_slice(new);
        if new.starts_with(b"..\0") {
            bad[at - 1] = 2;
        }
        let dump = open_with(&bad, RestoreOptions::default());
        let found: Vec<_> = dump.unwrap().names().map(|name| name.path).collect();
        assert!(found.iter().all(|path| !path.windows(2).any(|two| two == b"..")), "{found:?}");
        problems(&bad, false);
    }
}

#[test]
fn maps_and_sizes_of_the_header_allocate_nothing() {
    let stream = small();
    for (kind, field, value) in [(6, 160, i32::MAX), (3, 160, i32::MAX), (2, 44, 0x0fff_ffff)] {
        let at = headers(&stream).into_iter().find(|at| stream[*at] == kind).unwrap();
        let mut bad = stream.clone();
        put(&mut bad[at..], field, Endian::Little, value);
        seal(&mut bad[at..at + TP_BSIZE], Endian::Little);
        assert!(!problems(&bad, false).is_empty());
    }
}

#[test]
fn what_is_not_supported_is_refused_with_its_name() {
    let stream = small();
    let changed = |field: usize, value: i32| {
        let mut bad = stream.clone();
        put(&mut bad, field, Endian::Little, value);
        seal(&mut bad[..TP_BSIZE], Endian::Little);
        problems(&bad, false).join("\n")
    };
    assert!(changed(24, 60011).contains("60011"), "the old format");
    assert!(changed(12, 2).contains("volume 2"), "a later volume");
    assert!(changed(0, 2).contains("volume header"), "another first record");
    assert!(problems(b"text", false).join("").contains("not a dump"));
    assert!(problems(&[0; 4096], false).join("").contains("not a dump"));
}

/// An earlier dump may have restored anything in the place of the table of names.
#[test]
fn a_table_of_names_that_is_none_is_refused() {
    use bsdffs::dump::{HostTarget, SymTable, Target};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(std::str::from_utf8(SymTable::NAME).unwrap());
    let read = || HostTarget::open(dir.path()).unwrap().read(SymTable::NAME);
    assert_eq!(read(), Ok(None));
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert!(read().is_err());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(read().unwrap_err().contains("not a regular file"));
    std::fs::remove_dir(&path).unwrap();
    std::fs::File::create(&path).unwrap().set_len(2 << 30).unwrap();
    assert!(read().unwrap_err().contains("longer than"));
    let image = Image::new(VOLUMES[0]);
    image.write(|ffs| {
        let (cred, root) = (Cred::root(), ffs.root().unwrap());
        let file = ffs.create(&cred, &root, SymTable::NAME, NodeKind::Regular, 0o644).unwrap();
        let size = ffs_core::SetAttr { size: Some(2 << 30), ..ffs_core::SetAttr::default() };
        ffs.setattr(&cred, &file, &size).unwrap();
        let image = bsdffs::copy::ImageRef { ffs, cred: &cred, name: "image" };
        let mut target = bsdffs::dump::ImageTarget::new(image, root);
        assert!(target.read(SymTable::NAME).unwrap_err().contains("longer than"));
    });
}
