//! Setting times: pjdfstest's `utimensat` beyond path resolution.

use crate::bench::{ALICE, BOB, Bench, CAROL, Expect, STAFF, as_user, cases, now, tick};
use crate::sys::{self, Errno, Kind, Time, To};
use rustix::fs::OFlags;

cases! {
    "utimensat" {
        sets_both_times_of_every_type [Root];
        of_an_open_file;
        follows_links_or_not;
        now_is_now;
        omitted_times_stay;
        nanoseconds_are_kept;
        times_before_1970;
        times_beyond_32_bits [WideTimes];
        the_owner_sets_anything [Root];
        writers_set_only_the_present [Root];
        others_set_nothing [Root];
        ctime_changes;
        bad_nanoseconds_are_einval;
        birth_is_not_touched [Birthtime];
        birth_follows_an_earlier_modification_or_stays [Birthtime];
    }
}

const A: Time = (1_234_567_890, 123_456_789);
const M: Time = (987_654_321, 987_654_321);

fn times(p: &str) -> (Time, Time) {
    let s = sys::lstat(p).must();
    (s.atime, s.mtime)
}

fn sets_both_times_of_every_type(_: &Bench) {
    for kind in Kind::ALL {
        sys::make(kind, "n", 0o644).must();
        sys::lutimens("n", To::At(A), To::At(M)).must_for(kind);
        assert_eq!(times("n"), (A, M), "{kind:?}");
        sys::lutimens("n", To::At(M), To::At(A)).must_for(kind);
        assert_eq!(times("n"), (M, A), "{kind:?}");
        sys::remove(kind, "n").must();
    }
}

fn of_an_open_file(_: &Bench) {
    sys::put("f", b"").must();
    let f = sys::open("f", OFlags::RDONLY, 0).must();
    sys::futimens(&f, To::At(A), To::At(M)).must();
    assert_eq!(times("f"), (A, M));
    sys::unlink("f").must();
    sys::futimens(&f, To::At(M), To::Omit).must();
    assert_eq!(sys::fstat(&f).must().atime, M, "without a name");
}

fn follows_links_or_not(_: &Bench) {
    sys::put("f", b"").must();
    sys::symlink("f", "s").must();
    let link = times("s").1;
    sys::utimens("s", To::At(A), To::At(M)).must();
    assert_eq!((times("f"), times("s").1), ((A, M), link));
    sys::lutimens("s", To::At(M), To::At(A)).must();
    assert_eq!((times("f"), times("s")), ((A, M), (M, A)));
    sys::symlink("nowhere", "dangling").must();
    sys::utimens("dangling", To::Now, To::Now).fails(Errno::NOENT);
    sys::lutimens("dangling", To::At(A), To::At(M)).must();
}

fn now_is_now(_: &Bench) {
    sys::put("f", b"").must();
    for (a, m) in [(To::Now, To::Now), (To::Now, To::At(M)), (To::At(A), To::Now)] {
        sys::utimens("f", To::At((1, 0)), To::At((1, 0))).must();
        let from = tick();
        sys::utimens("f", a, m).must();
        let (got, until) = (times("f"), now());
        for (requested, got) in [(a, got.0), (m, got.1)] {
            match requested {
                To::At(t) => assert_eq!(got, t),
                _ => assert!(got >= from && got <= until, "{from:?} {got:?} {until:?}"),
            }
        }
    }
}

fn omitted_times_stay(_: &Bench) {
    sys::put("f", b"").must();
    sys::utimens("f", To::At(A), To::At(M)).must();
    sys::utimens("f", To::Omit, To::At((5, 6))).must();
    assert_eq!(times("f"), (A, (5, 6)));
    sys::utimens("f", To::At((7, 8)), To::Omit).must();
    assert_eq!(times("f"), ((7, 8), (5, 6)));
    let ctime = sys::stat("f").must().ctime;
    tick();
    sys::utimens("f", To::Omit, To::Omit).must();
    assert_eq!((times("f"), sys::stat("f").must().ctime), (((7, 8), (5, 6)), ctime));
}

fn nanoseconds_are_kept(_: &Bench) {
    sys::put("f", b"").must();
    for ns in [0, 1, 999, 1000, 1_000_000, 500_000_001, 999_999_999] {
        sys::utimens("f", To::At((1_700_000_000, ns)), To::At((1_700_000_001, ns))).must();
        assert_eq!(times("f"), ((1_700_000_000, ns), (1_700_000_001, ns)));
    }
}

fn times_before_1970(_: &Bench) {
    sys::put("f", b"").must();
    for s in [0, -1, -86_400, -2_000_000_000, i64::from(i32::MIN) + 1] {
        sys::utimens("f", To::At((s, 5)), To::At((s, 999_999_999))).must();
        assert_eq!(times("f"), ((s, 5), (s, 999_999_999)));
    }
}

fn times_beyond_32_bits(_: &Bench) {
    sys::put("f", b"").must();
    for s in [1 << 31, (1 << 32) - 1, 1 << 32, 7_258_118_400, 12_000_000_000] {
        sys::utimens("f", To::At((s, 1)), To::At((s + 1, 2))).must();
        assert_eq!(times("f"), ((s, 1), (s + 1, 2)));
    }
}

fn the_owner_sets_anything(_: &Bench) {
    for kind in Kind::WITH_MODE {
        // The mode does not matter.
        sys::make(kind, "n", 0).must();
        sys::chown("n", Some(ALICE.uid), Some(ALICE.gid)).must();
        as_user(ALICE, || {
            sys::utimens("n", To::At(A), To::At(M)).must_for(kind);
            sys::utimens("n", To::Now, To::Omit).must_for(kind);
            sys::utimens("n", To::Omit, To::Now).must_for(kind);
            sys::utimens("n", To::Now, To::Now).must_for(kind);
        });
        sys::remove(kind, "n").must();
    }
}

fn writers_set_only_the_present(_: &Bench) {
    sys::put("f", b"").must();
    sys::chown("f", Some(BOB.uid), Some(STAFF)).must();
    for mode in [0o020, 0o060] {
        sys::chmod("f", mode).must();
        as_user(CAROL, || {
            sys::utimens("f", To::Now, To::Now).must();
            sys::utimens("f", To::At(A), To::At(M)).fails(Errno::PERM);
            sys::utimens("f", To::At(A), To::Omit).fails(Errno::PERM);
            sys::utimens("f", To::Now, To::Omit).fails([Errno::PERM, Errno::ACCESS]);
            sys::utimens("f", To::Omit, To::Now).fails([Errno::PERM, Errno::ACCESS]);
            sys::utimens("f", To::Omit, To::Omit).must();
        });
    }
}

fn others_set_nothing(_: &Bench) {
    sys::put("f", b"").must();
    sys::chmod("f", 0o444).must();
    sys::utimens("f", To::At(A), To::At(M)).must();
    let before = sys::stat("f").must();
    as_user(ALICE, || {
        sys::utimens("f", To::Now, To::Now).fails(Errno::ACCESS);
        sys::utimens("f", To::At(M), To::At(A)).fails(Errno::PERM);
        sys::utimens("f", To::Omit, To::At(A)).fails(Errno::PERM);
    });
    assert_eq!(sys::stat("f").must(), before);
}

fn ctime_changes(_: &Bench) {
    sys::put("f", b"").must();
    let before = sys::stat("f").must();
    tick();
    sys::utimens("f", To::At(A), To::At(M)).must();
    assert!(sys::stat("f").must().ctime > before.ctime);
}

fn bad_nanoseconds_are_einval(_: &Bench) {
    sys::put("f", b"").must();
    let before = sys::stat("f").must();
    for ns in [1_000_000_000, -1] {
        sys::utimens("f", To::At((1, ns)), To::At((1, 0))).fails(Errno::INVAL);
        sys::utimens("f", To::At((1, 0)), To::At((1, ns))).fails(Errno::INVAL);
    }
    assert_eq!(sys::stat("f").must(), before);
}

fn birth_is_not_touched(_: &Bench) {
    let from = tick();
    for kind in Kind::FREE {
        sys::make(kind, "n", 0o644).must();
        let born = sys::birthtime("n").must().unwrap();
        assert!(born >= from && born <= now(), "{kind:?}: {from:?} {born:?}");
        tick();
        sys::lutimens("n", To::At((2_000_000_000, 0)), To::At((2_000_000_000, 0))).must();
        sys::rename("n", "m").must();
        if kind == Kind::Regular {
            sys::put("m", b"more").must();
            sys::chmod("m", 0o600).must();
        }
        assert_eq!(sys::birthtime("m").must(), Some(born), "{kind:?}");
        sys::remove(kind, "m").must();
    }
}

/// BSD keeps "born no later than modified" (pjdfstest's `utimensat/03`); Linux does not.
fn birth_follows_an_earlier_modification_or_stays(_: &Bench) {
    sys::put("f", b"").must();
    let born = sys::birthtime("f").must().unwrap();
    sys::utimens("f", To::At(A), To::At(M)).must();
    let after = sys::birthtime("f").must().unwrap();
    assert!(after == born || after == M, "{born:?} became {after:?}");
}
