//! Finding superblocks: torn, damaged, missing, foreign and ambiguous ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

mod common;

use common::{Volume, find, reader, volume, volumes};
use ffs_ondisk::sbsearch::{self, SBLOCKSEARCH, SearchError, Source, Warning};
use ffs_ondisk::superblock::{FsFlags, MAGIC_OFFSET};
use ffs_ondisk::wire::put;
use ffs_ondisk::{CgNo, Csum, Endian, Error, Format, Superblock, Variant};
use ffs_testkit::rng::SplitMix64;

/// The volume without its primary superblock.
fn headless(v: &Volume) -> Vec<u8> {
    let at = v.found().sb.location as usize;
    let mut b = v.bytes.clone();
    b[at..at + 8192].fill(0);
    b
}

fn change_primary(v: &Volume, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let at = v.found().sb.location as usize;
    let mut b = v.bytes.clone();
    change(&mut b[at..at + 8192]);
    b
}

#[test]
fn a_missing_primary_is_replaced_by_a_backup() {
    for v in volumes() {
        let good = v.found();
        let found = find(&headless(&v)).unwrap_or_else(|e| panic!("{}: {e}", v.name));
        let first = good.geometry.frag_to_byte(good.geometry.cgsblock(CgNo(0)));
        assert_eq!(found.source, Source::Backup(first), "{}", v.name);
        assert_eq!(found.geometry, good.geometry, "{}", v.name);
        assert_eq!(found.sb.location, good.sb.location, "{}", v.name);
        assert!(!found.sb.is_clean() && found.sb.flags().contains(FsFlags::NEEDSFSCK));
        assert_eq!(found.warnings.last(), Some(&Warning::OldTotals));
        // The superblock found encodes to a primary that is found directly.
        let mut b = headless(&v);
        let bytes = found.sb.encode();
        b[found.sb.location as usize..][..bytes.len()].copy_from_slice(&bytes);
        assert_eq!(find(&b).unwrap().source, Source::Primary, "{}", v.name);
    }
}

#[test]
fn the_recovery_record_finds_backups_where_guessing_would_not() {
    for name in ["freebsd14-ufs2-le-4m", "freebsd14-ufs2-be-4m"] {
        let Some(v) = volume(name) else { return };
        let good = v.found();
        let g = good.geometry;
        let mut b = headless(&v);
        for c in [0, 1] {
            let at = g.frag_to_byte(g.cgsblock(CgNo(c))) as usize;
            b[at..at + 8192].fill(0xee);
        }
        let third = g.frag_to_byte(g.cgsblock(CgNo(2)));
        assert_eq!(find(&b).unwrap().source, Source::Backup(third), "{name}");
        let record = sbsearch::FsRecovery::of(&good.sb);
        let at = sbsearch::RECOVERY_OFFSET as usize;
        let mut again = [0; 20];
        record.encode(&mut again, g.endian);
        assert_eq!(again, b[at..at + 20], "{name}: newfs wrote the same record");
        b[at..at + 20].fill(0);
        let error = find(&b).unwrap_err();
        assert!(matches!(error, SearchError::Format(Error::NotUfs(_))), "{error}");
    }
}

#[test]
fn a_damaged_primary_names_the_backups_and_keeps_its_intact_sector() {
    for v in volumes() {
        let good = v.found();
        let b = change_primary(&v, |sb| sb[8 + 176..8 + 180].fill(0xff));
        let found = find(&b).unwrap_or_else(|e| panic!("{}: {e}", v.name));
        assert!(matches!(found.source, Source::Backup(_)), "{}", v.name);
        let named = |w: &Warning| matches!(w, Warning::Damaged(_, p) if p.field == "ipg");
        assert!(found.warnings.iter().any(named), "{}: {:?}", v.name, found.warnings);
        assert_eq!(found.geometry, good.geometry, "{}", v.name);
        assert!(!found.sb.is_clean());
        if !good.sb.old_layout {
            assert_eq!(found.sb.cstotal(), good.sb.cstotal(), "{}", v.name);
            assert_eq!(found.sb.f.snapinum, good.sb.f.snapinum, "{}", v.name);
            let want = good.sb.flags() | FsFlags::NEEDSFSCK;
            assert_eq!(found.sb.flags(), want, "{}", v.name);
        }
    }
}

/// `spec/known-failures.md` §1.8: the superblock has three sectors; a crash may write some of them.
#[test]
fn kf1_08_torn_superblock_writes_are_survived() {
    for name in ["freebsd14-ufs2-le-4m", "freebsd14-ufs2-be-4m", "freebsd-ufs1-10m-a"] {
        let Some(v) = volume(name) else { return };
        let good = v.found();
        let mut new = good.sb.clone();
        new.f.time += 100;
        new.f.clean = 0;
        new.f.fmod = 1;
        new.set_fsmnt(&[b'm'; 400]);
        let mut total = new.cstotal();
        total.add(&Csum { ndir: 1, nbfree: -3, nifree: -9, nffree: 5 });
        new.set_cstotal(total);
        let new = new.encode();
        for mask in 0..8u32 {
            let b = change_primary(&v, |sb| {
                for s in (0..3).filter(|s| mask & (1 << s) != 0) {
                    let sector = 512 * s..512 * (s + 1);
                    sb[sector.clone()].copy_from_slice(&new[sector]);
                }
            });
            let found = find(&b).unwrap_or_else(|e| panic!("{name} mask {mask}: {e}"));
            assert_eq!(found.geometry, good.geometry, "{name} mask {mask}");
            let whole = mask == 0 || mask == 7 || good.geometry.format == Format::Ufs1;
            if whole {
                assert_eq!(found.source, Source::Primary, "{name} mask {mask}");
            } else {
                assert_eq!(found.source, Source::PrimaryBadHash, "{name} mask {mask}");
                assert_eq!(found.warnings, [Warning::BadHash(65536)]);
                assert!(!found.sb.is_clean() && found.sb.flags().contains(FsFlags::NEEDSFSCK));
            }
        }
    }
}

#[test]
fn kf2_03_a_bad_check_hash_is_repairable_and_reported() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    let b = change_primary(&v, |sb| sb[1304] ^= 1);
    let found = find(&b).unwrap();
    assert_eq!(found.source, Source::PrimaryBadHash);
    // A constant field that is not hashed differs: the backup is used.
    let b = change_primary(&v, |sb| put(sb, 144, Endian::Little, 7i32));
    assert_eq!(find(&b).unwrap().source, Source::PrimaryBadHash);
    // At a given location it is a warning, too.
    let found = sbsearch::at(reader(&b), 65536, None).unwrap();
    assert_eq!(found.source, Source::PrimaryBadHash);
    assert_eq!(found.warnings, [Warning::BadHash(65536)]);
    // Without a backup the user gets a warning.
    let mut alone = b.clone();
    for c in 0..4 {
        let g = v.found().geometry;
        let at = g.frag_to_byte(g.cgsblock(CgNo(c))) as usize;
        alone[at..at + 8192].fill(0);
    }
    let found = find(&alone).unwrap();
    assert_eq!(found.warnings, [Warning::BadHash(65536), Warning::Unconfirmed]);
}

#[test]
fn a_named_backup_can_be_used() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    let found = sbsearch::at(reader(&v.bytes), 1_179_648, Some(v.bytes.len() as u64)).unwrap();
    assert_eq!(found.source, Source::Backup(1_179_648));
    assert_eq!(found.sb.location, 65536);
    assert_eq!(found.geometry, v.found().geometry);
    assert!(sbsearch::at(reader(&v.bytes), 4096, None).is_err());
    assert!(sbsearch::at(reader(&v.bytes), u64::MAX - 5, None).is_err());
}

/// With 64 KiB blocks the first backup of a UFS1 volume is at 65536, where UFS2 has its primary.
#[test]
fn kf2_01_ufs1_copy_at_64k_is_not_taken_for_the_superblock() {
    let Some(v) = volume("nb-ufs1-64k8k-le") else { return };
    let found = v.found();
    assert_eq!(found.sb.location, 8192);
    let copy = Superblock::decode(&v.bytes[65536..], 65536).unwrap();
    assert_ne!(copy.cstotal(), found.sb.cstotal(), "the copy is stale, or this tests nothing");
}

/// A UFS2 superblock that was copied does not make a volume start there.
#[test]
fn kf2_01_ufs2_superblock_must_be_at_its_location() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    let mut b = headless(&v);
    b.copy_within(98304..98304 + 8192, 8192);
    let found = find(&b).unwrap();
    assert_eq!(found.source, Source::Backup(98304));
}

#[test]
fn kf2_01_both_byte_orders_are_recognised() {
    for v in volumes() {
        let big = v.name.contains("-be") && !v.name.contains("le");
        let want = if big { Endian::Big } else { Endian::Little };
        if v.name != "openbsd28-ufs1-floppy" {
            assert_eq!(v.found().geometry.endian, want, "{}", v.name);
        }
        assert!(sbsearch::probe(reader(&v.bytes)), "{}", v.name);
    }
}

#[test]
fn unfinished_newfs_is_refused_by_name() {
    for v in volumes().filter(|v| v.bytes.len() < 12 << 20) {
        let e = v.found().geometry.endian;
        let at = v.found().sb.location;
        let b = change_primary(&v, |sb| put(sb, MAGIC_OFFSET, e, 0x1996_0408u32));
        let error = find(&b).unwrap_err();
        assert_eq!(error, SearchError::Format(Error::NewfsUnfinished(at)), "{}", v.name);
        assert!(error.to_string().contains("newfs did not finish"));
        assert!(sbsearch::probe(reader(&b)), "a partition all the same");
    }
}

#[test]
fn foreign_relatives_are_named() {
    let unsupported = |b: &[u8]| match find(b) {
        Err(SearchError::Format(Error::Unsupported(what))) => what,
        other => panic!("{other:?}"),
    };
    for magic in [0x0009_5014u32, 0x0061_2195, 0x0019_5612, 0x0523_1994] {
        let mut b = vec![0; 128 << 10];
        put(&mut b, 8192 + MAGIC_OFFSET, Endian::Big, magic);
        assert!(unsupported(&b).contains("HP-UX"));
        assert!(!sbsearch::probe(reader(&b)));
    }
    let mut b = vec![0; 128 << 10];
    put(&mut b, 65536 + MAGIC_OFFSET, Endian::Little, 0x1901_2038u32);
    assert!(unsupported(&b).contains("NetBSD"));

    let Some(v) = volume("makefs-ufs1-be") else { return };
    let mut b = v.bytes.clone();
    b[7168..7172].copy_from_slice(b"LABL");
    assert!(unsupported(&b).contains("Apple"));
    b[7168..7172].fill(0);
    b[..4].copy_from_slice(b"dlV3");
    assert!(unsupported(&b).contains("NeXT"));

    let solaris = change_primary(&v, |sb| {
        let time: u32 = ffs_ondisk::wire::get(sb, 32, Endian::Big);
        put(sb, 1336, Endian::Big, 0x7c26_9d38u32.wrapping_sub(time));
        put(sb, 1320, Endian::Big, 0i32);
    });
    let variant = |b: &[u8]| find(b).unwrap().geometry.variant;
    assert_eq!(variant(&solaris), Variant::Sun);
    let mut unknown = solaris;
    put(&mut unknown, 8192 + 1320, Endian::Big, 7i32);
    assert!(unsupported(&unknown).contains("version 7 of the UFS of Solaris"));
    let ancient = change_primary(&v, |sb| put(sb, 1356, Endian::Big, -1i32));
    assert_eq!(variant(&ancient), Variant::Bsd43);
}

/// NetBSD's journal and quota flags are FreeBSD's NFSv4-ACL and check-hash flags.
#[test]
fn kf2_15_netbsd_flags_are_not_taken_for_freebsds() {
    let Some(v) = volume("nb-ufs2-16k2k-le") else { return };
    let e = Endian::Little;
    let netbsd = change_primary(&v, |sb| {
        let flags: u32 = ffs_ondisk::wire::get(sb, 1312, e);
        put(sb, 1312, e, flags | 0x300);
        put(sb, 1308, e, 7u32);
        put(sb, 864, e, [1u8, 2]);
        put(sb, 872, e, [5000u64, 2048, 512, 9]);
        put(sb, 904, e, 0xdead_beefu32);
        put(sb, 209, e, 2u8);
    });
    let found = find(&netbsd).unwrap();
    assert!(found.sb.netbsd.wapbl && found.sb.netbsd.quota2 && found.sb.has_dirty_wapbl());
    assert!(!found.sb.flags().intersects(FsFlags::NFS4ACLS | FsFlags::METACKHASH));
    assert!(found.sb.ckhashes().is_empty() && found.geometry.ckhash.is_empty());
    assert_eq!(found.geometry.metaspace, 0);
    assert_eq!(found.warnings, []);
    let mut sb = found.sb.clone();
    sb.set_flags(sb.flags() | FsFlags::DOSOFTDEP);
    assert_eq!(sb.f.flags & 0x302, 0x302, "NetBSD's bits survive");
    let at = sb.location as usize;
    assert_eq!(found.sb.encode(), netbsd[at..at + sb.f.sbsize as usize]);
    // The same flags on a FreeBSD volume have FreeBSD's meaning.
    let freebsd = change_primary(&v, |sb| put(sb, 1312, e, 0x300u32));
    let found = find(&freebsd).unwrap();
    assert!(found.sb.flags().contains(FsFlags::NFS4ACLS | FsFlags::METACKHASH));
}

/// OpenBSD 2006: tools must preserve fields that are unknown to them.
#[test]
fn kf2_16_unknown_bytes_survive_a_write() {
    for v in volumes() {
        let known: Vec<_> = ffs_ondisk::superblock::SbFields::FIELDS
            .iter()
            .flat_map(|f| f.offset..f.offset + f.size)
            .collect();
        let len = v.found().sb.f.sbsize as usize;
        let unknown: Vec<_> = (0..len).filter(|i| !known.contains(i)).collect();
        // Noise in marks of other systems would change the meaning of fields.
        let harmless = |i: &&usize| !(888..928).contains(*i);
        let b = change_primary(&v, |sb| {
            unknown.iter().filter(harmless).for_each(|&i| sb[i] = (i * 7) as u8 | 1);
        });
        let found = find(&b).unwrap_or_else(|e| panic!("{}: {e}", v.name));
        let at = found.sb.location as usize;
        let mut sb = found.sb;
        sb.f.time += 1;
        let out = sb.encode();
        for i in unknown {
            assert_eq!(out[i], b[at + i], "{}: byte {i}", v.name);
        }
    }
}

/// The flags of old volumes are in byte 211, and stay there.
#[test]
fn old_flag_bytes_are_read_and_written() {
    let Some(v) = volume("openbsd28-ufs1-floppy") else { return };
    let mut sb = v.found().sb;
    assert!(sb.old_layout && sb.f.old_flags & 0x80 == 0);
    sb.set_flags(FsFlags::DOSOFTDEP);
    sb.f.clean = 0;
    let out = sb.encode();
    let again = Superblock::decode(&out, sb.location).unwrap();
    assert_eq!(again.f.old_flags, 2);
    assert_eq!(again.flags(), FsFlags::DOSOFTDEP);
    let at = sb.location as usize;
    let changed: Vec<_> = (0..out.len()).filter(|&i| out[i] != v.bytes[at + i]).collect();
    let allowed = |i: &usize| (208..212).contains(i) || (192..208).contains(i);
    assert!(changed.iter().all(allowed), "{changed:?}");
}

#[test]
fn a_read_error_does_not_hide_a_backup_nor_itself() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    let broken = |at: u64| at == 65536;
    let mut good = reader(&v.bytes);
    let found = sbsearch::find(
        |at, len| if broken(at) { Err(format!("EIO at {at}")) } else { good(at, len) },
        Some(v.bytes.len() as u64),
    );
    assert_eq!(found.unwrap().source, Source::Backup(98304));
    let error = sbsearch::find(|at, _| Err::<Vec<u8>, _>(format!("EIO at {at}")), None);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("byte 65536") && text.contains("EIO"), "{text}");
}

#[test]
fn empty_short_and_random_devices_are_refused_quickly() {
    let seed = 3;
    let mut rng = SplitMix64::new(seed);
    for len in [0usize, 1, 512, 8192, 9567, 9568, 65536, 66912] {
        let b = vec![0; len];
        assert!(matches!(find(&b), Err(SearchError::Format(Error::NotUfs(_)))), "{len}");
        assert!(!sbsearch::probe(reader(&b)));
    }
    for round in 0..300 {
        let mut b = rng.bytes(400 << 10);
        for at in SBLOCKSEARCH {
            let magic = *rng.pick(&[0x0001_1954u32, 0x1954_0119]).unwrap();
            put(&mut b, at as usize + MAGIC_OFFSET, Endian::Little, magic);
        }
        assert!(find(&b).is_err(), "seed {seed} round {round}");
        let _ = sbsearch::probe(reader(&b));
    }
}

/// A damaged primary may have any number of groups: the number of reads stays bounded.
#[test]
fn hostile_hints_cost_a_bounded_number_of_reads() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    let b = change_primary(&v, |sb| {
        put(sb, 44, Endian::Little, u32::MAX);
        put(sb, 188, Endian::Little, 64i32);
        put(sb, 8, Endian::Little, 1i32);
        put(sb, 184, Endian::Little, 0u32);
    });
    let b = {
        let mut b = b;
        b[98304..98304 + 8192].fill(0);
        b[65516..65536].fill(0);
        b
    };
    let mut reads = 0u32;
    let mut inner = reader(&b);
    let found = sbsearch::find(
        |at, len| {
            reads += 1;
            assert!(len <= 8192);
            inner(at, len)
        },
        None,
    );
    assert!(found.is_err());
    assert!(reads <= sbsearch::MAX_BACKUPS + 32, "{reads}");
}
