//! Defects of the check that fuzzing found, rebuilt by hand: one repair must suffice.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::fsck_util::{Img, KINDS};
use ffs_admin::fsck::{FsckOptions, Id, exit};
use ffs_ondisk::cg::CgFields;
use ffs_ondisk::snapshot::image_bytes;
use ffs_ondisk::superblock::{CkHash, SBLOCKSIZE, SbFields};
use ffs_ondisk::wire::Field;
use ffs_ondisk::{CgMut, CgNo, FileFlags, Format, Superblock};
use proptest::prelude::*;

/// Damages every kind of volume; after one repair there must be no findings.
fn one_repair_is_enough(damage: impl Fn(&mut Img)) {
    for kind in KINDS {
        let mut img = Img::with_tree(kind).copy();
        damage(&mut img);
        let repair = img.fsck(FsckOptions::yes());
        assert_eq!(repair.exit_code, exit::OK, "{kind:?}: {:#?}", repair.findings);
        let look = img.fsck(FsckOptions::no());
        assert!(look.is_silent(), "{kind:?}: {:#?}, first {:#?}", look.findings, repair.findings);
    }
}

/// As [`one_repair_is_enough`], and the tree must be unchanged.
fn nothing_is_lost(damage: impl Fn(&mut Img)) {
    one_repair_is_enough(|i| {
        let tree = i.tree();
        damage(i);
        let repaired = i.copy();
        repaired.fsck(FsckOptions::yes());
        assert_eq!(repaired.tree(), tree);
    });
}

/// `cg_initediblk` and the inode map agree that no inode was ever used.
#[test]
fn a_group_forgets_no_inodes_in_use() {
    nothing_is_lost(|i| {
        if i.g.format == Format::Ufs2 {
            i.edit_group(0, |g, bytes| {
                let mut h = CgFields::decode(bytes, g.endian);
                h.initediblk = 0;
                h.encode(bytes, g.endian);
                for n in 0..g.ipg {
                    CgMut::new(g, bytes).set_inode_used(n, false);
                }
            });
        }
    });
}

/// `lost+found` gets the inode of a directory that was just cleared and that the `..` of an orphan
/// still names.
#[test]
fn an_orphan_does_not_count_for_a_new_lost_and_found() {
    for kind in KINDS {
        let mut img = Img::fresh(kind);
        let parent = img.mkdir(2, "d");
        let orphan = img.mkdir(parent, "orphan");
        img.edit(parent, |d| d.size = 1 << 62);
        img.edit_group(0, |g, b| {
            let mut group = CgMut::new(g, b);
            (3..parent).for_each(|n| group.set_inode_used(n, true));
            group.set_inode_used(parent, false);
        });
        let repair = img.fsck(FsckOptions::yes());
        assert_eq!(repair.exit_code, exit::OK, "{kind:?}: {:#?}", repair.findings);
        assert_eq!(img.ino("lost+found"), parent, "the case is met");
        assert_eq!(img.inode(orphan).nlink, 2);
        let look = img.fsck(FsckOptions::no());
        assert!(look.is_silent(), "{kind:?}: {:#?}, first {:#?}", look.findings, repair.findings);
    }
}

/// The root's link count is at its limit when `lost+found` is made in it.
#[test]
fn a_count_at_its_limit_is_lowered_to_what_it_should_be() {
    one_repair_is_enough(|i| {
        let sub = i.mkdir(2, "d");
        let (at, _) = i.entry(2, "d");
        i.write(at, &[0; 4]);
        i.edit(2, |d| d.nlink = u16::MAX);
        assert!(sub > 2);
    });
}

/// A listed snapshot that has lost its name and its links is cleared, and the list no longer
/// contains it.
#[test]
fn a_cleared_snapshot_is_listed_no_more() {
    one_repair_is_enough(|i| {
        // Of the size of a snapshot that was being made.
        let ino = i.sparse(2, "snapshot", image_bytes(&i.g), &[]);
        let (at, _) = i.entry(2, "snapshot");
        i.write(at, &[0; 4]);
        i.edit(ino, |d| {
            d.flags |= FileFlags::SF_SNAPSHOT;
            d.nlink = 0;
        });
        let mut sb = Superblock::decode(&i.read(home(i), SBLOCKSIZE), home(i)).unwrap();
        sb.f.snapinum[0] = ino;
        i.write(home(i), &sb.encode());
        let repair = i.copy().fsck(FsckOptions::yes());
        assert!(repair.counts.contains_key(&Id::SbSnapshot), "the case is met: {repair:#?}");
    });
}

/// Ways to make a standard superblock unusable, or usable with changes.
const UNUSABLE: [fn(&Img); 3] = [
    |i| i.write(home(i), &[0; 8192]),
    |i| i.write(home(i) + 48, &[0; 4]),
    |i| i.write(home(i) + 8, &[0xff; 4]),
];

fn home(i: &Img) -> u64 {
    match i.g.format {
        Format::Ufs1 => 8192,
        Format::Ufs2 => 65536,
    }
}

/// Byte offset of the backup in group `c`.
fn backup(i: &Img, c: u32) -> u64 {
    i.g.frag_to_byte(i.g.cgsblock(CgNo(c)))
}

/// Changes `field` of the superblock at byte `at`, and its check hash if it has one afterwards.
fn falsify(i: &Img, at: u64, field: &Field, change: impl FnOnce(i128) -> i128) {
    let mut bytes = i.read(at, SBLOCKSIZE);
    let value = change(field.value(&bytes, 0, i.g.endian));
    field.set(&mut bytes, 0, i.g.endian, value);
    if let Ok(sb) = Superblock::decode(&bytes, at)
        && sb.ckhashes().contains(CkHash::SUPERBLOCK)
        && (0..=SBLOCKSIZE as i32).contains(&sb.f.sbsize)
    {
        bytes[..sb.encode().len()].copy_from_slice(&sb.encode());
    }
    i.write(at, &bytes);
}

/// Repairs and checks again. The second check finds nothing, or stops for the same reason. Returns
/// whether the first repaired.
fn repaired_for_good(img: &Img, what: &str) -> bool {
    let repair = img.fsck(FsckOptions::yes());
    let look = img.fsck(FsckOptions::no());
    assert_eq!(look.stopped, repair.stopped, "{what}: {repair:#?}");
    if repair.stopped.is_some() {
        return false;
    }
    assert_eq!(repair.exit_code, exit::OK, "{what}: {repair:#?}");
    assert!(look.is_silent(), "{what}: {:#?}\nafter {repair:#?}", look.findings);
    true
}

/// The standard superblock is unusable and a backup has one wrong field: its location, the flags
/// and their location, the layout, a constant. The next check must find whichever copy the repair
/// used. If the repair finds none, the next check finds none either.
#[test]
fn what_comes_from_a_wrong_backup_lasts() {
    let mut repaired = 0;
    for kind in KINDS {
        let fresh = Img::fresh(kind);
        for (n, field) in SbFields::FIELDS.iter().enumerate() {
            for (m, value) in [0, -1, 1 << 12].into_iter().enumerate() {
                let img = fresh.copy();
                falsify(&img, backup(&img, 0), field, |_| value);
                UNUSABLE[(n + m) % UNUSABLE.len()](&img);
                let what = format!("{kind:?}: {} = {value:#x}", field.name);
                repaired += usize::from(repaired_for_good(&img, &what));
            }
        }
    }
    let all = KINDS.len() * SbFields::FIELDS.len() * 3;
    assert!(repaired * 20 > all * 17, "{repaired} of {all}");
}

/// The copy in use has a wrong constant; all other copies have it right and correct it at once.
#[test]
fn a_backup_that_is_outvoted_is_corrected_with_it() {
    let field = |name| SbFields::FIELDS.iter().find(|f| f.name == name).unwrap();
    for kind in [KINDS[1], KINDS[2]] {
        let img = Img::with_tree(kind);
        assert!(img.g.ncg > 3, "{:?}", img.g);
        let tree = img.tree();
        for at in [home(&img), backup(&img, 0), backup(&img, 1)] {
            falsify(&img, at, field("bshift"), |_| 0);
        }
        falsify(&img, backup(&img, 2), field("dsize"), |was| was - 1);
        let report = img.fsck(FsckOptions::no());
        assert!(report.counts.contains_key(&Id::SbField), "{:#?}", report.findings);
        assert!(repaired_for_good(&img, "outvoted"));
        assert_eq!(img.tree(), tree);
    }
}

/// A wrong number, different from the original.
fn wrong(how: u8, was: i128) -> i128 {
    match how {
        0 => 0,
        1 => -1,
        2 => was + 1,
        3 => was / 2,
        4 => was * 2,
        _ => was ^ 1 << (how & 31),
    }
}

/// Fields that determine the location of a copy and how it is read, as often as all others.
fn any_field() -> impl Strategy<Value = &'static Field> {
    let deciding = ["sblockloc", "old_flags", "flags", "metackhash", "maxbsize", "bsize", "magic"];
    let among = |f: &&Field| deciding.contains(&f.name);
    let some: Vec<&Field> = SbFields::FIELDS.iter().filter(among).collect();
    let all: Vec<&Field> = SbFields::FIELDS.iter().collect();
    prop_oneof![prop::sample::select(some), prop::sample::select(all)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// Several copies are wrong in some fields, and the majority decides.
    #[test]
    fn whichever_copies_are_believed_they_are_believed_again(
        kind in 0..KINDS.len(),
        wrong_fields in prop::collection::vec((0u32..5, any_field(), any::<u8>()), 1..7),
    ) {
        let img = Img::fresh(KINDS[kind]);
        let mut what = format!("{:?}", KINDS[kind]);
        for (copy, field, how) in wrong_fields {
            let at = match copy {
                0 => home(&img),
                4 => backup(&img, img.g.ncg - 1),
                c => backup(&img, (c - 1).min(img.g.ncg - 1)),
            };
            what += &format!(", byte {at} {}", field.name);
            falsify(&img, at, field, |was| wrong(how, was));
        }
        repaired_for_good(&img, &what);
    }
}

/// The copy in use determines where the flags are, not the first sector of the unusable copy.
#[test]
fn a_backup_that_keeps_its_flags_elsewhere_drops_the_hashes_at_once() {
    for kind in [KINDS[0], KINDS[3]] {
        let img = Img::with_tree(kind);
        let tree = img.tree();
        for c in 0..img.g.ncg {
            img.write(img.g.frag_to_byte(img.g.cgsblock(CgNo(c))) + 211, &[0]);
        }
        img.write(home(&img) + 48, &[0; 4]);
        let repair = img.fsck(FsckOptions::yes());
        let found = |id| repair.counts.contains_key(&id);
        assert!(found(Id::SbBad) && found(Id::SbCkhash), "{:#?}", repair.findings);
        let look = img.fsck(FsckOptions::no());
        assert!(look.is_silent(), "{:#?}", look.findings);
        assert_eq!(img.tree(), tree);
    }
}

/// The superblock places a summary area of one fragment in the middle of a file's block.
#[test]
fn a_summary_area_inside_a_files_block_is_not_fought_for() {
    for kind in KINDS {
        for path in ["a/blocks", "a/b/indirect"] {
            let img = Img::with_tree(kind);
            let d = img.inode(img.ino(path));
            let block = if d.ib[0] != 0 { img.slot(d.ib[0], 0) } else { d.db[0] };
            for f in SbFields::FIELDS.iter().filter(|f| ["csaddr", "old_csaddr"].contains(&f.name))
            {
                falsify(&img, home(&img), f, |_| i128::from(block) + 3);
            }
            let sb = Superblock::decode(&img.read(home(&img), SBLOCKSIZE), home(&img)).unwrap();
            assert_eq!((sb.f.csaddr, sb.f.cssize), (block + 3, img.g.fsize as i32));
            assert!(repaired_for_good(&img, &format!("{kind:?} {path}")));
        }
    }
}

/// A volume of a related format is not changed, however many of its superblocks are valid.
#[test]
fn a_foreign_label_is_not_overruled_by_a_backup() {
    for kind in KINDS {
        for unusable in [|_: &Img| {}, UNUSABLE[0], UNUSABLE[1]] {
            let img = Img::fresh(kind);
            img.write(0, b"dlV3");
            unusable(&img);
            let before = img.bytes();
            let first = img.fsck(FsckOptions::yes());
            assert!(
                first.stopped.as_ref().is_some_and(|why| why.contains("NeXTSTEP")),
                "{first:?}"
            );
            assert_eq!(first.stopped, img.fsck(FsckOptions::yes()).stopped);
            assert!(img.bytes() == before);
        }
    }
}
