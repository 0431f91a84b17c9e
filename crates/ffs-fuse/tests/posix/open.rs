//! Opening and creating: pjdfstest's `open` beyond path resolution.

use crate::bench::{ALICE, Bench, Expect, STAFF, as_user, cases, tick};
use crate::sys::{self, Errno, Kind};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::{FdFlags, fcntl_getfd};

cases! {
    "open" {
        a_new_file_has_mode_owner_and_nothing_else [Root];
        a_new_file_is_usable_with_any_mode;
        a_new_file_below_a_foreign_set_group_id_directory [Root];
        creating_what_exists_changes_nothing [Root];
        exclusive_creation_follows_no_link;
        creating_through_a_dangling_link_makes_the_target;
        truncation_on_open [Root];
        truncation_needs_the_right_to_write [Root];
        directories_cannot_be_written;
        only_directories_pass_o_directory [Root];
        links_do_not_pass_o_nofollow;
        by_path_only;
        access_modes_permit_reading_and_writing;
        appending_from_two_sides;
        synchronous_writing;
        direct_transfers;
        without_a_name;
        without_a_name_for_good;
        running_programs_are_busy;
        flags_can_be_changed_later;
        descriptors_close_on_exec_with_the_flag;
    }
}

fn a_new_file_has_mode_owner_and_nothing_else(_: &Bench) {
    sys::chmod(".", 0o777).must();
    let table = [
        (0o755, 0o000, 0o755),
        (0o151, 0o077, 0o100),
        (0o345, 0o070, 0o305),
        (0o345, 0o501, 0o244),
        (0o666, 0o022, 0o644),
        (0o6777, 0o022, 0o6755),
    ];
    for (requested, mask, got) in table {
        rustix::process::umask(Mode::from_raw_mode(mask));
        let start = tick();
        as_user(ALICE, || sys::create("f", requested).must());
        let s = sys::stat("f").must();
        // With the directory's group, as on BSD, it cannot be set-group-id: she is not in that
        // group.
        let got = if s.gid == ALICE.gid { got } else { got & !0o2000 };
        assert_eq!(s.mode, got, "open {requested:o} with umask {mask:o}");
        assert_eq!((s.kind, s.nlink, s.size, s.blocks), (Kind::Regular, 1, 0, 0));
        let here = sys::stat(".").must();
        assert!(s.uid == ALICE.uid && [ALICE.gid, here.gid].contains(&s.gid));
        for t in [s.atime, s.mtime, s.ctime, here.mtime, here.ctime] {
            assert!(t >= start, "{t:?} is before {start:?}");
        }
        sys::unlink("f").must();
    }
}

fn a_new_file_is_usable_with_any_mode(_: &Bench) {
    let f = sys::open("f", OFlags::RDWR | OFlags::CREATE, 0).must();
    assert_eq!(sys::fstat(&f).must().mode, 0);
    sys::write(&f, b"abc").must();
    assert_eq!(sys::pread(&f, 9, 0).must(), b"abc");
}

fn a_new_file_below_a_foreign_set_group_id_directory(_: &Bench) {
    sys::mkdir("d", 0o777).must();
    sys::chown("d", Some(1), Some(12)).must();
    sys::chmod("d", 0o2777).must();
    as_user(ALICE, || drop(sys::create("d/f", 0o2755).must()));
    let s = sys::stat("d/f").must();
    assert_eq!((s.gid, s.mode), (12, 0o755), "the set-group-id bit of a group she is not in");
    sys::chown("d", None, Some(STAFF)).must();
    as_user(ALICE, || drop(sys::create("d/g", 0o2755).must()));
    let s = sys::stat("d/g").must();
    assert_eq!((s.gid, s.mode), (STAFF, 0o2755));
}

fn creating_what_exists_changes_nothing(_: &Bench) {
    sys::put("f", b"content").must();
    sys::chown("f", Some(1), Some(2)).must();
    sys::chmod("f", 0o600).must();
    let (before, here) = (sys::stat("f").must(), sys::stat(".").must());
    tick();
    sys::open("f", OFlags::CREATE | OFlags::RDWR, 0o777).must();
    assert_eq!((sys::stat("f").must(), sys::stat(".").must()), (before, here));
    sys::create("f", 0o777).fails(Errno::EXIST);
    assert_eq!(sys::stat("f").must(), before);
}

fn exclusive_creation_follows_no_link(_: &Bench) {
    sys::put("f", b"").must();
    sys::symlink("f", "s").must();
    sys::symlink("nowhere", "dangling").must();
    for p in ["s", "dangling"] {
        sys::create(p, 0o644).fails_for(Errno::EXIST, p);
    }
    sys::lstat("nowhere").fails(Errno::NOENT);
}

fn creating_through_a_dangling_link_makes_the_target(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::symlink("d/target", "s").must();
    let f = sys::open("s", OFlags::CREATE | OFlags::WRONLY, 0o640).must();
    assert_eq!(sys::lstat("d/target").must(), sys::fstat(&f).must());
    assert_eq!(sys::lstat("s").must().kind, Kind::Symlink);
}

fn truncation_on_open(_: &Bench) {
    sys::put("f", b"some content").must();
    let before = sys::stat("f").must();
    tick();
    let f = sys::open("f", OFlags::WRONLY | OFlags::TRUNC, 0).must();
    let after = sys::fstat(&f).must();
    assert_eq!((after.size, after.blocks, after.ino), (0, 0, before.ino));
    assert!(after.mtime > before.mtime && after.ctime > before.ctime);
    sys::mkfifo("p", 0o600).must();
    sys::open("p", OFlags::RDONLY | OFlags::NONBLOCK | OFlags::TRUNC, 0).must();
    // The set-id bits go with the content, unless root truncates.
    sys::put("g", b"x").must();
    sys::chmod("g", 0o6777).must();
    as_user(ALICE, || drop(sys::open("g", OFlags::RDWR | OFlags::TRUNC, 0).must()));
    assert_eq!(sys::stat("g").must().mode, 0o777);
}

fn truncation_needs_the_right_to_write(_: &Bench) {
    sys::put("f", b"content").must();
    sys::chmod("f", 0o444).must();
    as_user(ALICE, || {
        sys::open("f", OFlags::RDONLY | OFlags::TRUNC, 0).fails(Errno::ACCESS);
        sys::open("f", OFlags::WRONLY | OFlags::TRUNC, 0).fails(Errno::ACCESS);
    });
    assert_eq!(sys::stat("f").must().size, 7);
}

fn directories_cannot_be_written(_: &Bench) {
    sys::mkdir("d", 0o777).must();
    for flags in [
        OFlags::WRONLY,
        OFlags::RDWR,
        OFlags::RDONLY | OFlags::TRUNC,
        OFlags::WRONLY | OFlags::TRUNC,
        OFlags::RDONLY | OFlags::CREATE,
    ] {
        sys::open("d", flags, 0o644).fails_for(Errno::ISDIR, flags);
    }
    sys::create("d", 0o644).fails(Errno::EXIST);
    let d = sys::open("d", OFlags::RDONLY, 0).must();
    sys::pread(&d, 10, 0).fails(Errno::ISDIR);
    sys::write(&d, b"x").fails(Errno::BADF);
}

fn only_directories_pass_o_directory(_: &Bench) {
    for kind in Kind::FILES {
        sys::make(kind, "n", 0o777).must();
        let refused = [Errno::NOTDIR];
        sys::open("n", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, 0)
            .fails_for(refused, kind);
        sys::unlink("n").must();
    }
    sys::symlink(".", "here").must();
    sys::open("here", OFlags::RDONLY | OFlags::DIRECTORY, 0).must();
}

fn links_do_not_pass_o_nofollow(_: &Bench) {
    sys::put("f", b"").must();
    sys::mkdir("d", 0o755).must();
    sys::put("d/g", b"").must();
    sys::symlink("f", "s").must();
    sys::symlink("d", "t").must();
    sys::open("s", OFlags::RDONLY | OFlags::NOFOLLOW, 0).fails(Errno::LOOP);
    sys::open("s", OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW, 0o644).fails(Errno::LOOP);
    sys::open("t", OFlags::RDONLY | OFlags::NOFOLLOW, 0).fails(Errno::LOOP);
    sys::open("t/g", OFlags::RDONLY | OFlags::NOFOLLOW, 0).must();
    sys::open("f", OFlags::RDONLY | OFlags::NOFOLLOW, 0).must();
}

fn by_path_only(_: &Bench) {
    sys::symlink("nowhere", "s").must();
    let s = sys::open("s", OFlags::PATH | OFlags::NOFOLLOW, 0).must();
    assert_eq!(sys::fstat(&s).must().kind, Kind::Symlink);
    sys::mkdir("d", 0).must();
    let d = sys::open("d", OFlags::PATH, 0).must();
    sys::chmod("d", 0o755).must();
    sys::openat(&d, "f", OFlags::CREATE | OFlags::WRONLY, 0o644).must();
    sys::fchmod(&d, 0).fails(Errno::BADF);
    sys::ftruncate(sys::open("d/f", OFlags::PATH, 0).must(), 1).fails([Errno::BADF, Errno::INVAL]);
}

fn access_modes_permit_reading_and_writing(_: &Bench) {
    sys::put("f", b"content").must();
    let r = sys::open("f", OFlags::RDONLY, 0).must();
    let w = sys::open("f", OFlags::WRONLY, 0).must();
    sys::write(&r, b"x").fails(Errno::BADF);
    sys::pread(&w, 1, 0).fails(Errno::BADF);
    sys::write(&w, b"C").must();
    assert_eq!(sys::pread(&r, 99, 0).must(), b"Content");
    sys::open("f", OFlags::RDONLY | OFlags::CREATE | OFlags::DIRECTORY, 0o644)
        .fails([Errno::INVAL, Errno::NOTDIR]);
}

fn appending_from_two_sides(_: &Bench) {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let (a, b) = (sys::open("f", flags, 0o644).must(), sys::open("f", flags, 0o644).must());
    let mut want = Vec::new();
    for n in 0..100 {
        let (fd, word) = if n % 3 == 0 { (&a, format!("a{n};")) } else { (&b, format!("b{n};")) };
        sys::write(fd, word.as_bytes()).must();
        want.extend(word.bytes());
    }
    // An offset does not matter: Linux appends then too.
    sys::pwrite(&a, b"end", 0).must();
    want.extend(b"end");
    assert_eq!(sys::content("f").must(), want);
    sys::truncate("f", 2).must();
    sys::write(&b, b"!").must();
    assert_eq!(sys::content("f").must(), b"a0!");
}

fn synchronous_writing(_: &Bench) {
    for flags in [OFlags::SYNC, OFlags::DSYNC] {
        let f = sys::open("f", flags | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC, 0o644).must();
        sys::write(&f, &[7; 10_000]).must();
        assert_eq!(sys::fstat(&f).must().size, 10_000);
        assert_eq!(sys::pread(&f, 20_000, 0).must(), [7; 10_000]);
    }
}

#[repr(align(4096))]
struct Aligned([u8; 16_384]);

fn direct_transfers(b: &Bench) {
    let flags = OFlags::DIRECT | OFlags::RDWR | OFlags::CREATE;
    let f = match sys::open("f", flags, 0o644) {
        Err(Errno::INVAL) if !b.ours() => b.skip("no direct transfers"),
        f => f.must(),
    };
    let mut page = Box::new(Aligned([0; 16_384]));
    for (i, byte) in page.0.iter_mut().enumerate() {
        *byte = (i / 64) as u8;
    }
    assert_eq!(sys::pwrite(&f, &page.0, 0).must(), 16_384);
    assert_eq!(sys::pwrite(&f, &page.0[..4096], 32_768).must(), 4096);
    let mut back = Box::new(Aligned([9; 16_384]));
    assert_eq!(rustix::io::pread(&f, &mut back.0[..], 0).must(), 16_384);
    assert!(back.0 == page.0);
    assert_eq!(rustix::io::pread(&f, &mut back.0[..], 16_384).must(), 16_384);
    assert!(back.0 == [0; 16_384], "the hole");
    // What went past the page cache is seen through it, and the other way round.
    let through = sys::content("f").must();
    assert!(through[..16_384] == page.0 && through.len() == 36_864);
    let g = sys::open("f", OFlags::RDWR, 0).must();
    sys::pwrite(&g, &[0xee; 4096], 4096).must();
    assert_eq!(rustix::io::pread(&f, &mut back.0[..4096], 4096).must(), 4096);
    assert!(back.0[..4096] == [0xee; 4096]);
}

fn without_a_name(b: &Bench) {
    use std::os::fd::AsRawFd;
    let f = match sys::open(".", OFlags::TMPFILE | OFlags::RDWR, 0o640) {
        // The answer that the manual page gives for file systems without the feature.
        Err(Errno::OPNOTSUPP) => b.skip("no O_TMPFILE (EOPNOTSUPP)"),
        f => f.must(),
    };
    let s = sys::fstat(&f).must();
    assert_eq!((s.kind, s.nlink, s.mode), (Kind::Regular, 0, 0o640));
    sys::write(&f, b"nameless").must();
    assert!(sys::list(".").must().is_empty());
    sys::link_following(format!("/proc/self/fd/{}", f.as_raw_fd()), "named").must();
    assert_eq!(sys::fstat(&f).must().nlink, 1);
    drop(f);
    assert_eq!(sys::content("named").must(), b"nameless");
    sys::open(".", OFlags::TMPFILE | OFlags::RDONLY, 0o640).fails(Errno::INVAL);
}

fn without_a_name_for_good(b: &Bench) {
    use std::os::fd::AsRawFd;
    let f = match sys::open(".", OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL, 0o640) {
        Err(Errno::OPNOTSUPP) => b.skip("no O_TMPFILE (EOPNOTSUPP)"),
        f => f.must(),
    };
    let by_fd = format!("/proc/self/fd/{}", f.as_raw_fd());
    rustix::fs::linkat(CWD, by_fd, CWD, "named", AtFlags::SYMLINK_FOLLOW).fails(Errno::NOENT);
}

fn running_programs_are_busy(b: &Bench) {
    use std::process::{Command, Stdio};
    let program = std::fs::read("/bin/cat").unwrap();
    sys::put("cat", &program).must();
    sys::chmod("cat", 0o755).must();
    let here = rustix::process::getcwd(Vec::new()).must().into_string().unwrap();
    let mut command = Command::new(format!("{here}/cat"));
    let running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut running = match running {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => b.skip("mounted noexec"),
        r => r.unwrap(),
    };
    let answers = [
        sys::open("cat", OFlags::WRONLY, 0).map(drop),
        sys::open("cat", OFlags::RDWR, 0).map(drop),
        sys::open("cat", OFlags::WRONLY | OFlags::TRUNC, 0).map(drop),
        sys::truncate("cat", 123),
    ];
    let read = sys::open("cat", OFlags::RDONLY, 0).map(drop);
    let renamed = sys::rename("cat", "dog").and(sys::unlink("dog"));
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
    for a in answers {
        a.fails(Errno::TXTBSY);
    }
    read.must();
    renamed.must();
    // The other way round: what is open for writing cannot be run.
    let f = sys::open("cat", OFlags::WRONLY | OFlags::CREATE, 0o755).must();
    sys::write(&f, &program[..4096]).must();
    let e = command.spawn().err().and_then(|e| e.raw_os_error());
    assert_eq!(e, Some(Errno::TXTBSY.raw_os_error()));
}

fn flags_can_be_changed_later(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::write(&f, b"12345").must();
    rustix::fs::fcntl_setfl(&f, OFlags::APPEND).must();
    assert!(rustix::fs::fcntl_getfl(&f).must().contains(OFlags::APPEND | OFlags::RDWR));
    rustix::fs::seek(&f, rustix::fs::SeekFrom::Start(0)).must();
    sys::write(&f, b"6").must();
    rustix::fs::fcntl_setfl(&f, OFlags::empty()).must();
    rustix::fs::seek(&f, rustix::fs::SeekFrom::Start(0)).must();
    sys::write(&f, b"0").must();
    assert_eq!(sys::content("f").must(), b"023456");
}

fn descriptors_close_on_exec_with_the_flag(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    assert!(fcntl_getfd(&f).must().contains(FdFlags::CLOEXEC));
    let g = rustix::fs::openat(CWD, "f", OFlags::RDONLY, Mode::empty()).must();
    assert!(!fcntl_getfd(&g).must().contains(FdFlags::CLOEXEC));
}
