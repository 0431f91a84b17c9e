//! Set-id bits and capabilities go with a change by somebody who may not keep them, and the kernel,
//! which trusts them when the file is run, sees it at once.

use crate::bench::{BOB, Bench, Expect, as_user, cases};
use crate::sys::{self, Errno, R};
use rustix::fs::{self, AtFlags, CWD, FallocateFlags, OFlags, StatxFlags, XattrFlags};

cases! {
    "setid" {
        a_change_by_others_takes_them [Root];
        roots_changes_leave_them [Root];
        without_group_execution_set_group_id_stays [Root];
        chown_clears_them_for_all_users [Root];
        capabilities_go_with_every_change [Root, Xattr];
    }
}

/// The mode as the kernel trusts it: it asks for no more than it has to.
fn mode(p: &str) -> u32 {
    let s = fs::statx(CWD, p, AtFlags::empty(), StatxFlags::MODE).must();
    u32::from(s.stx_mode) & 0o7777
}

/// A page at an address that direct I/O takes.
#[repr(align(4096))]
struct Page([u8; 4096]);

fn write(flags: OFlags) -> R {
    let f = sys::open("x", OFlags::WRONLY | flags, 0)?;
    let page = Box::new(Page([b'y'; 4096]));
    sys::write(&f, &page.0).map(drop)
}

fn fallocate(how: FallocateFlags) -> R {
    let f = sys::open("x", OFlags::WRONLY, 0)?;
    fs::fallocate(&f, how, 0, 4096)
}

fn copy_range() -> R {
    let (from, to) = (sys::open("y", OFlags::RDONLY, 0)?, sys::open("x", OFlags::WRONLY, 0)?);
    fs::copy_file_range(&from, None, &to, None, 100).map(drop)
}

type Change = fn() -> R;

/// Everything that changes the content of `x`.
const CHANGES: &[(&str, Change)] = &[
    ("write", || write(OFlags::empty())),
    ("append", || write(OFlags::APPEND)),
    ("direct write", || write(OFlags::DIRECT)),
    ("synchronous write", || write(OFlags::SYNC)),
    ("truncate", || sys::truncate("x", 100)),
    ("truncate to the same size", || sys::truncate("x", 8192)),
    ("ftruncate", || sys::ftruncate(&sys::open("x", OFlags::WRONLY, 0)?, 9000)),
    ("open with O_TRUNC", || sys::open("x", OFlags::WRONLY | OFlags::TRUNC, 0).map(drop)),
    ("fallocate", || fallocate(FallocateFlags::empty())),
    ("punch a hole", || fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)),
    ("copy_file_range", copy_range),
];

/// A fresh `x` of two pages with this mode, which the kernel has seen.
fn fresh(perm: u32) {
    let _ = sys::unlink("x");
    sys::put("x", &[b'x'; 8192]).must();
    sys::put("y", &[b'y'; 200]).must();
    sys::chmod("x", perm).must();
    assert_eq!(mode("x"), perm);
}

fn a_change_by_others_takes_them(_: &Bench) {
    for (what, change) in CHANGES {
        fresh(0o6777);
        as_user(BOB, || change().must_for(what));
        assert_eq!(format!("{:o}", mode("x")), "777", "{what}");
        assert_eq!(sys::stat("x").must().mode, 0o777, "{what}");
    }
}

fn roots_changes_leave_them(_: &Bench) {
    for (what, change) in CHANGES {
        fresh(0o6777);
        change().must_for(what);
        assert_eq!((mode("x"), sys::stat("x").must().mode), (0o6777, 0o6777), "{what}");
    }
}

fn without_group_execution_set_group_id_stays(_: &Bench) {
    for (what, change) in CHANGES {
        fresh(0o6767);
        sys::chown("x", Some(BOB.uid), Some(BOB.gid)).must();
        sys::chmod("x", 0o6767).must();
        as_user(BOB, || change().must_for(what));
        assert_eq!(format!("{:o}", mode("x")), "2767", "{what}");
    }
}

fn chown_clears_them_for_all_users(_: &Bench) {
    for (perm, left) in [(0o6777, 0o777), (0o4711, 0o711), (0o6744, 0o2744), (0o1777, 0o1777)] {
        fresh(perm);
        sys::chown("x", Some(7), None).must();
        assert_eq!(format!("{:o}", mode("x")), format!("{left:o}"), "owner");
        fresh(perm);
        sys::chown("x", None, Some(7)).must();
        assert_eq!(format!("{:o}", mode("x")), format!("{left:o}"), "group");
    }
}

const CAPABILITY: &str = "security.capability";

/// `cap_net_raw=ep` as Linux stores it: revision 2 with the effective bit; permitted, inheritable,
/// and both again for the upper halves.
const NET_RAW: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];

fn capability() -> R<Vec<u8>> {
    let mut buf = [0; 64];
    let n = fs::getxattr("x", CAPABILITY, &mut buf[..])?;
    Ok(buf[..n].to_vec())
}

fn capabilities_go_with_every_change(_: &Bench) {
    let value: Vec<u8> = NET_RAW.iter().flat_map(|word| word.to_le_bytes()).collect();
    let give = || {
        fresh(0o777);
        fs::setxattr("x", CAPABILITY, &value, XattrFlags::empty()).must();
        assert_eq!(capability().must(), value);
    };
    // For all users: the capability was given to the old content.
    for (what, change) in CHANGES {
        give();
        change().must_for(what);
        capability().fails_for(Errno::NODATA, (what, "by root"));
        give();
        as_user(BOB, || change().must_for(what));
        capability().fails_for(Errno::NODATA, what);
    }
    give();
    sys::chown("x", Some(5), None).must();
    capability().fails(Errno::NODATA);
    give();
    as_user(BOB, || {
        assert_eq!(capability().must(), value, "everybody may look");
        fs::setxattr("x", CAPABILITY, &value, XattrFlags::empty()).fails(Errno::PERM);
        fs::removexattr("x", CAPABILITY).fails(Errno::PERM);
    });
    sys::chmod("x", 0o700).must();
    sys::rename("x", "z").must();
    sys::rename("z", "x").must();
    assert_eq!(capability().must(), value, "what does not change the content leaves it");
}
