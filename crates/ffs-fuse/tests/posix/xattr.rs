//! Extended attributes of users.

use crate::bench::{ALICE, BOB, Bench, Expect, as_user, cases, tick};
use crate::sys::{self, Errno, Kind, R};
use rustix::fs::{self, XattrFlags};

cases! {
    "xattr" {
        set_get_list_remove [Xattr];
        create_and_replace [Xattr];
        values_of_every_size_and_byte [Xattr];
        values_shrink_and_grow [Xattr];
        many_at_once [Xattr];
        names_of_255_bytes_work_256_are_erange [Xattr];
        a_short_buffer_is_erange [Xattr];
        foreign_name_spaces_are_not_supported [Xattr];
        permissions [Root, Xattr];
        special_files_and_links_have_none [Root, Xattr];
        links_are_followed_or_not [Xattr];
        they_go_with_the_file [Xattr];
        ctime_changes_and_mtime_does_not [Xattr];
        a_value_beyond_64_kib_is_e2big [Xattr];
        trusted_ones_are_for_root [Root, Xattr];
        every_type_has_those_of_root [Root, Xattr];
        security_ones_are_for_all_to_see [Root, Xattr];
    }
}

const ANY: XattrFlags = XattrFlags::empty();

fn set(p: &str, name: &str, value: &[u8]) -> R {
    fs::setxattr(p, name, value, ANY)
}

fn get(p: &str, name: &str) -> R<Vec<u8>> {
    let mut buf = vec![0; 65_536];
    let n = fs::getxattr(p, name, &mut buf[..])?;
    buf.truncate(n);
    Ok(buf)
}

/// Names that belong to users, sorted.
fn list(p: &str) -> Vec<String> {
    let mut buf = vec![0u8; 65_536];
    let n = fs::listxattr(p, &mut buf[..]).must();
    let names = buf[..n].split(|b| *b == 0).filter(|s| s.starts_with(b"user."));
    let mut names: Vec<_> = names.map(|s| String::from_utf8(s.to_vec()).unwrap()).collect();
    names.sort();
    names
}

fn set_get_list_remove(_: &Bench) {
    sys::put("f", b"").must();
    sys::mkdir("d", 0o755).must();
    for p in ["f", "d"] {
        assert!(list(p).is_empty());
        get(p, "user.one").fails(Errno::NODATA);
        set(p, "user.one", b"first").must();
        set(p, "user.two", b"second").must();
        assert_eq!(list(p), ["user.one", "user.two"]);
        assert_eq!(get(p, "user.one").must(), b"first");
        fs::removexattr(p, "user.one").must();
        fs::removexattr(p, "user.one").fails(Errno::NODATA);
        assert_eq!(list(p), ["user.two"]);
        assert_eq!(get(p, "user.two").must(), b"second");
        fs::removexattr(p, "user.two").must();
        assert!(list(p).is_empty());
    }
}

fn create_and_replace(_: &Bench) {
    sys::put("f", b"").must();
    fs::setxattr("f", "user.a", b"1", XattrFlags::REPLACE).fails(Errno::NODATA);
    fs::setxattr("f", "user.a", b"1", XattrFlags::CREATE).must();
    fs::setxattr("f", "user.a", b"2", XattrFlags::CREATE).fails(Errno::EXIST);
    assert_eq!(get("f", "user.a").must(), b"1");
    fs::setxattr("f", "user.a", b"3", XattrFlags::REPLACE).must();
    assert_eq!(get("f", "user.a").must(), b"3");
}

fn values_of_every_size_and_byte(_: &Bench) {
    sys::put("f", b"").must();
    for size in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 100, 255, 256, 257, 1000, 2000, 3000] {
        let value: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
        set("f", "user.value", &value).must_for(size);
        assert_eq!(get("f", "user.value").must(), value);
        assert_eq!(fs::getxattr_query("f", "user.value").must(), size);
    }
}

fn values_shrink_and_grow(_: &Bench) {
    sys::put("f", b"").must();
    set("f", "user.before", b"before").must();
    set("f", "user.middle", b"").must();
    set("f", "user.after", b"after").must();
    for size in [500, 3, 1500, 0, 64, 63, 65, 8, 1] {
        set("f", "user.middle", &vec![size as u8; size]).must_for(size);
        assert_eq!(get("f", "user.middle").must(), vec![size as u8; size]);
        assert_eq!(get("f", "user.before").must(), b"before");
        assert_eq!(get("f", "user.after").must(), b"after");
    }
}

fn many_at_once(_: &Bench) {
    sys::put("f", b"content").must();
    let name = |n: usize| format!("user.attribute {n:02}");
    let value = |n: usize| vec![n as u8; n];
    for n in 0..40 {
        set("f", &name(n), &value(n)).must();
    }
    for n in (0..40).step_by(2) {
        fs::removexattr("f", name(n)).must();
    }
    let left: Vec<_> = (0..40).filter(|n| n % 2 == 1).collect();
    assert_eq!(list("f"), left.iter().map(|n| name(*n)).collect::<Vec<_>>());
    for n in left {
        assert_eq!(get("f", &name(n)).must(), value(n));
    }
    assert_eq!(sys::content("f").must(), b"content");
}

fn names_of_255_bytes_work_256_are_erange(_: &Bench) {
    sys::put("f", b"").must();
    let longest = format!("user.{}", "n".repeat(250));
    set("f", &longest, b"v").must();
    assert_eq!((get("f", &longest).must(), list("f")), (b"v".into(), vec![longest.clone()]));
    fs::removexattr("f", &longest).must();
    set("f", &format!("{longest}n"), b"v").fails(Errno::RANGE);
    set("f", "", b"v").fails(Errno::RANGE);
    set("f", "user.", b"v").fails(Errno::INVAL);
}

fn a_short_buffer_is_erange(_: &Bench) {
    sys::put("f", b"").must();
    set("f", "user.a", b"0123456789").must();
    let mut small = [0; 5];
    fs::getxattr("f", "user.a", &mut small[..]).fails(Errno::RANGE);
    fs::listxattr("f", &mut small[..]).fails(Errno::RANGE);
    let mut exact = [0; 10];
    assert_eq!(fs::getxattr("f", "user.a", &mut exact[..]).must(), 10);
    assert!(fs::listxattr_query("f").must() > "user.a".len());
}

fn foreign_name_spaces_are_not_supported(_: &Bench) {
    sys::put("f", b"").must();
    for name in ["nonsense.a", "users.a", "user", "system.nonsense"] {
        set("f", name, b"v").fails_for([Errno::OPNOTSUPP, Errno::INVAL], name);
    }
    assert!(list("f").is_empty());
}

fn permissions(_: &Bench) {
    sys::put("f", b"").must();
    sys::chown("f", Some(BOB.uid), Some(BOB.gid)).must();
    set("f", "user.a", b"1").must();
    for (mode, reads, writes) in [(0o604, true, false), (0o602, false, true), (0o606, true, true)] {
        sys::chmod("f", mode).must();
        as_user(ALICE, || {
            let (r, w) = (get("f", "user.a"), set("f", "user.a", b"2"));
            let outcome = fs::removexattr("f", "user.none");
            if reads {
                drop(r.must_for(mode))
            } else {
                r.fails_for(Errno::ACCESS, mode)
            }
            if writes {
                w.must_for(mode)
            } else {
                w.fails_for(Errno::ACCESS, mode)
            }
            outcome.fails(if writes { Errno::NODATA } else { Errno::ACCESS });
            assert_eq!(list("f"), ["user.a"], "names are for everybody");
        });
    }
    sys::mkdir("d", 0o777).must();
    sys::chmod("d", 0o1777).must();
    as_user(ALICE, || set("d", "user.a", b"1").fails(Errno::PERM));
}

fn special_files_and_links_have_none(_: &Bench) {
    for kind in [Kind::Fifo, Kind::Char, Kind::Block, Kind::Socket, Kind::Symlink] {
        sys::make(kind, "n", 0o777).must();
        fs::lsetxattr("n", "user.a", b"1", ANY).fails_for(Errno::PERM, kind);
        let mut buf = [0; 100];
        fs::lgetxattr("n", "user.a", &mut buf[..]).fails_for([Errno::NODATA, Errno::PERM], kind);
        sys::unlink("n").must();
    }
}

fn links_are_followed_or_not(_: &Bench) {
    sys::put("f", b"").must();
    sys::symlink("f", "s").must();
    set("s", "user.a", b"through").must();
    assert_eq!((get("f", "user.a").must(), get("s", "user.a").must()).0, b"through");
    fs::lremovexattr("s", "user.a").fails([Errno::PERM, Errno::NODATA]);
    assert_eq!(get("f", "user.a").must(), b"through");
}

fn they_go_with_the_file(_: &Bench) {
    sys::put("f", b"").must();
    set("f", "user.a", b"1").must();
    sys::link("f", "g").must();
    sys::rename("f", "h").must();
    for p in ["g", "h"] {
        assert_eq!(get(p, "user.a").must(), b"1");
    }
    sys::truncate("g", 0).must();
    sys::put("g", b"new content").must();
    assert_eq!(get("h", "user.a").must(), b"1");
    sys::unlink("g").must();
    sys::unlink("h").must();
    sys::put("f", b"").must();
    assert!(list("f").is_empty(), "a new file starts without");
    let f = sys::open("f", rustix::fs::OFlags::RDWR, 0).must();
    sys::unlink("f").must();
    fs::fsetxattr(&f, "user.b", b"2", ANY).must();
    let mut buf = [0; 10];
    assert_eq!(fs::fgetxattr(&f, "user.b", &mut buf[..]).must(), 1);
}

fn ctime_changes_and_mtime_does_not(_: &Bench) {
    sys::put("f", b"").must();
    let mut last = sys::stat("f").must();
    let steps: [fn() -> R; 3] = [
        || set("f", "user.a", b"1"),
        || set("f", "user.a", b"2"),
        || fs::removexattr("f", "user.a"),
    ];
    for step in steps {
        tick();
        step().must();
        let s = sys::stat("f").must();
        assert!(s.ctime > last.ctime && s.mtime == last.mtime && s.size == 0);
        last = s;
    }
    tick();
    assert!(get("f", "user.a").is_err() && list("f").is_empty());
    assert_eq!(sys::stat("f").must(), last);
}

fn a_value_beyond_64_kib_is_e2big(_: &Bench) {
    sys::put("f", b"").must();
    set("f", "user.a", b"small").must();
    set("f", "user.a", &vec![1; 65_537]).fails([Errno::TOOBIG, Errno::RANGE]);
    // The largest that the kernel passes on may be too much for the format.
    match set("f", "user.a", &vec![1; 65_536]) {
        Ok(()) => assert_eq!(get("f", "user.a").must().len(), 65_536),
        e => {
            e.fails([Errno::NOSPC, Errno::TOOBIG, Errno::RANGE]);
            assert_eq!(get("f", "user.a").must(), b"small");
        }
    }
}

fn trusted_ones_are_for_root(b: &Bench) {
    sys::put("f", b"").must();
    sys::chmod("f", 0o666).must();
    match set("f", "trusted.a", b"1") {
        Err(Errno::OPNOTSUPP) => b.skip("no trusted.* attributes"),
        r => r.must(),
    }
    assert_eq!(get("f", "trusted.a").must(), b"1");
    as_user(ALICE, || {
        get("f", "trusted.a").fails([Errno::NODATA, Errno::PERM]);
        set("f", "trusted.a", b"2").fails(Errno::PERM);
    });
    fs::removexattr("f", "trusted.a").must();
}

/// Also devices, pipes and sockets, which have none of users.
fn every_type_has_those_of_root(_: &Bench) {
    let all = |p: &str| -> Vec<Vec<u8>> {
        let mut buf = vec![0u8; 4096];
        let n = fs::llistxattr(p, &mut buf[..]).must();
        let names = buf[..n].split(|b| *b == 0).filter(|s| !s.is_empty());
        let mut names: Vec<_> = names.map(<[u8]>::to_vec).collect();
        names.sort();
        names
    };
    for kind in Kind::ALL {
        sys::make(kind, "n", 0o644).must();
        for name in ["trusted.t", "security.s"] {
            fs::lsetxattr("n", name, name.as_bytes(), ANY).must_for((kind, name));
            let mut buf = [0; 100];
            let n = fs::lgetxattr("n", name, &mut buf[..]).must_for((kind, name));
            assert_eq!(&buf[..n], name.as_bytes(), "{kind:?}");
        }
        assert_eq!(all("n"), [&b"security.s"[..], b"trusted.t"], "{kind:?}");
        let before = sys::lstat("n").must();
        fs::lremovexattr("n", "trusted.t").must_for(kind);
        assert_eq!(all("n"), [b"security.s"], "{kind:?}");
        let after = sys::lstat("n").must();
        assert_eq!((after.rdev, after.size, after.kind), (before.rdev, before.size, kind));
        sys::remove(kind, "n").must();
    }
}

fn security_ones_are_for_all_to_see(_: &Bench) {
    sys::put("f", b"").must();
    sys::chmod("f", 0o666).must();
    set("f", "security.x", b"1").must();
    as_user(BOB, || {
        assert_eq!(get("f", "security.x").must(), b"1");
        set("f", "security.x", b"2").fails(Errno::PERM);
        fs::removexattr("f", "security.x").fails(Errno::PERM);
    });
    fs::removexattr("f", "security.x").must();
    get("f", "security.x").fails(Errno::NODATA);
}
