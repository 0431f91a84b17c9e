//! POSIX access lists, in the form in which Linux passes them: attributes of the system.

use crate::bench::{ALICE, BOB, Bench, CAROL, Expect, STAFF, as_user, cases};
use crate::sys::{self, Errno, R};
use rustix::fs::{self, OFlags, XattrFlags};

cases! {
    "acl" {
        named_users_and_groups_have_their_own_rights [Root, Acl];
        the_mask_bounds_all_but_owner_and_others [Root, Acl];
        the_group_bits_of_the_mode_are_the_mask [Root, Acl];
        a_minimal_list_is_the_mode [Acl];
        named_users_can_be_shut_out [Root, Acl];
        default_lists_are_inherited [Root, Acl];
        default_lists_replace_the_umask [Acl];
        default_lists_are_for_directories [Acl];
        nonsense_is_einval [Acl];
        only_the_owner_sets_them [Root, Acl];
        removing_leaves_the_mode [Root, Acl];
    }
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const NO_ID: u32 = u32::MAX;

/// Tag, permissions, id.
type Entry = (u16, u16, u32);

fn blob(entries: &[Entry]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(perm.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

fn set(p: &str, which: &str, entries: &[Entry]) -> R {
    fs::setxattr(p, which, &blob(entries), XattrFlags::empty())
}

fn get(p: &str, which: &str) -> R<Vec<Entry>> {
    let mut buf = vec![0; 1000];
    let n = fs::getxattr(p, which, &mut buf[..])?;
    let entry = |e: &[u8]| {
        let half = |i| u16::from_le_bytes([e[i], e[i + 1]]);
        (half(0), half(2), u32::from_le_bytes([e[4], e[5], e[6], e[7]]))
    };
    Ok(buf[4..n].chunks(8).map(entry).collect())
}

/// Owner rw-, Alice `alice`, owning group `group`, STAFF `staff`, mask, others ---.
fn list(alice: u16, group: u16, staff: u16, mask: u16) -> Vec<Entry> {
    vec![
        (USER_OBJ, 6, NO_ID),
        (USER, alice, ALICE.uid),
        (GROUP_OBJ, group, NO_ID),
        (GROUP, staff, STAFF),
        (MASK, mask, NO_ID),
        (OTHER, 0, NO_ID),
    ]
}

fn can(p: &str) -> (bool, bool) {
    let open = |f| sys::open(p, f, 0).is_ok();
    (open(OFlags::RDONLY), open(OFlags::WRONLY))
}

fn named_users_and_groups_have_their_own_rights(_: &Bench) {
    sys::put("f", b"").must();
    sys::chmod("f", 0o600).must();
    assert_eq!(
        (as_user(ALICE, || can("f")), as_user(CAROL, || can("f"))),
        ((false, false), (false, false))
    );
    set("f", ACCESS, &list(6, 0, 4, 7)).must();
    assert_eq!(get("f", ACCESS).must(), list(6, 0, 4, 7));
    assert_eq!(as_user(ALICE, || can("f")), (true, true));
    assert_eq!(as_user(CAROL, || can("f")), (true, false), "by her group");
    assert_eq!(as_user(BOB, || can("f")), (false, false));
}

fn the_mask_bounds_all_but_owner_and_others(_: &Bench) {
    sys::put("f", b"").must();
    sys::chown("f", Some(BOB.uid), None).must();
    set("f", ACCESS, &list(6, 6, 6, 4)).must();
    assert_eq!(as_user(ALICE, || can("f")), (true, false));
    assert_eq!(as_user(CAROL, || can("f")), (true, false));
    assert_eq!(as_user(BOB, || can("f")), (true, true));
    set("f", ACCESS, &list(6, 6, 6, 0)).must();
    assert_eq!(as_user(ALICE, || can("f")), (false, false));
}

fn the_group_bits_of_the_mode_are_the_mask(_: &Bench) {
    sys::put("f", b"").must();
    set("f", ACCESS, &list(6, 4, 6, 6)).must();
    assert_eq!(sys::stat("f").must().mode, 0o660);
    sys::chmod("f", 0o640).must();
    assert_eq!(get("f", ACCESS).must(), list(6, 4, 6, 4), "only the mask has changed");
    assert_eq!(as_user(ALICE, || can("f")), (true, false));
    sys::chmod("f", 0o600).must();
    assert_eq!(as_user(ALICE, || can("f")), (false, false));
    sys::chmod("f", 0o675).must();
    let l = get("f", ACCESS).must();
    assert_eq!((l[4], l[5]), ((MASK, 7, NO_ID), (OTHER, 5, NO_ID)));
}

fn a_minimal_list_is_the_mode(_: &Bench) {
    sys::put("f", b"").must();
    let minimal = [(USER_OBJ, 6, NO_ID), (GROUP_OBJ, 4, NO_ID), (OTHER, 1, NO_ID)];
    set("f", ACCESS, &minimal).must();
    assert_eq!(sys::stat("f").must().mode, 0o641);
    get("f", ACCESS).fails(Errno::NODATA);
}

fn named_users_can_be_shut_out(_: &Bench) {
    sys::put("f", b"").must();
    let mut l = list(0, 6, 6, 7);
    l[5] = (OTHER, 6, NO_ID);
    set("f", ACCESS, &l).must();
    assert_eq!(as_user(ALICE, || can("f")), (false, false));
    assert_eq!(as_user(BOB, || can("f")), (true, true));
}

fn default_lists_are_inherited(_: &Bench) {
    sys::mkdir("d", 0o777).must();
    set("d", DEFAULT, &list(6, 0, 4, 7)).must();
    assert_eq!(get("d", DEFAULT).must(), list(6, 0, 4, 7));
    get("d", ACCESS).fails(Errno::NODATA);
    sys::create("d/f", 0o666).must();
    assert_eq!(get("d/f", ACCESS).must(), list(6, 0, 4, 6), "the mode bounds the mask");
    get("d/f", DEFAULT).fails([Errno::NODATA, Errno::ACCESS]);
    assert_eq!(as_user(ALICE, || can("d/f")), (true, true));
    sys::mkdir("d/sub", 0o777).must();
    assert_eq!(get("d/sub", DEFAULT).must(), list(6, 0, 4, 7));
    sys::mkfifo("d/sub/p", 0o640).must();
    assert_eq!(get("d/sub/p", ACCESS).must(), list(6, 0, 4, 4));
    sys::symlink("f", "d/s").must();
    fs::removexattr("d", DEFAULT).must();
    sys::create("d/g", 0o640).must();
    get("d/g", ACCESS).fails(Errno::NODATA);
}

fn default_lists_replace_the_umask(_: &Bench) {
    sys::mkdir("d", 0o777).must();
    set("d", DEFAULT, &list(6, 6, 6, 6)).must();
    rustix::process::umask(fs::Mode::from_raw_mode(0o077));
    sys::create("d/f", 0o666).must();
    sys::create("plain", 0o666).must();
    assert_eq!(sys::stat("d/f").must().mode, 0o660);
    assert_eq!(sys::stat("plain").must().mode, 0o600);
}

fn default_lists_are_for_directories(_: &Bench) {
    sys::put("f", b"").must();
    set("f", DEFAULT, &list(6, 6, 6, 6)).fails([Errno::ACCESS, Errno::INVAL]);
    sys::symlink("f", "s").must();
    let answer = fs::lsetxattr("s", ACCESS, &blob(&list(6, 6, 6, 6)), XattrFlags::empty());
    answer.fails([Errno::OPNOTSUPP, Errno::PERM, Errno::ACCESS]);
}

fn nonsense_is_einval(_: &Bench) {
    sys::put("f", b"").must();
    let good = list(6, 6, 6, 6);
    let without = |i: usize| {
        let mut l = good.clone();
        l.remove(i);
        l
    };
    for (what, l) in [
        ("no owner", without(0)),
        ("no mask", without(4)),
        ("no others", without(5)),
        ("a tag that is none", [&good[..], &[(0x40, 6, NO_ID)]].concat()),
        ("users before the owner", [&good[1..2], &good[..1], &good[2..]].concat()),
        ("more than rwx", [&[(USER_OBJ, 8, NO_ID)], &good[1..]].concat()),
    ] {
        set("f", ACCESS, &l).fails_for(Errno::INVAL, what);
    }
    let odd = &blob(&good)[..21];
    fs::setxattr("f", ACCESS, odd, XattrFlags::empty()).fails(Errno::INVAL);
    let other_version = [&9u32.to_le_bytes()[..], &blob(&good)[4..]].concat();
    fs::setxattr("f", ACCESS, &other_version, XattrFlags::empty())
        .fails([Errno::OPNOTSUPP, Errno::INVAL]);
    get("f", ACCESS).fails(Errno::NODATA);
}

fn only_the_owner_sets_them(_: &Bench) {
    sys::put("f", b"").must();
    sys::chown("f", Some(ALICE.uid), None).must();
    sys::chmod("f", 0o666).must();
    as_user(BOB, || set("f", ACCESS, &list(6, 6, 6, 6)).fails(Errno::PERM));
    as_user(ALICE, || set("f", ACCESS, &list(6, 6, 6, 6)).must());
    as_user(BOB, || fs::removexattr("f", ACCESS).fails(Errno::PERM));
}

fn removing_leaves_the_mode(_: &Bench) {
    sys::put("f", b"").must();
    set("f", ACCESS, &list(6, 4, 6, 6)).must();
    fs::removexattr("f", ACCESS).must();
    get("f", ACCESS).fails(Errno::NODATA);
    assert_eq!(sys::stat("f").must().mode, 0o660);
    assert_eq!(as_user(ALICE, || can("f")), (false, false));
}
