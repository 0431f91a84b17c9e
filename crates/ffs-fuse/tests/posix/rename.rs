//! Renaming: pjdfstest's `rename` beyond path resolution and sticky directories, and what
//! `renameat2` adds.

use crate::bench::{ALICE, BOB, Bench, Expect, as_user, cases, tick};
use crate::sys::{self, Errno, Kind};
use rustix::fs::{OFlags, RenameFlags};

cases! {
    "rename" {
        every_type_keeps_everything [Root];
        every_type_moves_to_another_directory [Root];
        files_replace_files [Root];
        directories_replace_empty_directories;
        full_directories_are_not_replaced [Root];
        directories_do_not_replace_files [Root];
        files_do_not_replace_directories [Root];
        to_itself_does_nothing [Root];
        between_links_of_one_file_does_nothing;
        a_directory_into_itself_is_einval;
        an_ancestor_is_not_replaced;
        dots_are_refused;
        moving_a_directory_moves_its_dot_dot;
        a_directory_that_cannot_be_written_stays_where_it_is [Root];
        an_open_file_that_is_replaced_stays_usable;
        a_whole_tree_moves;
        slashes_may_follow_directories;
        symbolic_links_are_not_followed;
        failing_leaves_both_alone [Root];
        back_and_forth_many_times;
        noreplace_takes_only_free_names [Root];
        exchange_of_every_pair_of_types [Root];
        exchange_across_directories_counts_links;
        exchange_refuses_loops_and_missing_names;
        contradictory_flags_are_einval;
    }
}

fn every_type_keeps_everything(_: &Bench) {
    for kind in Kind::ALL {
        sys::make(kind, "a", 0o641).must();
        sys::lchown("a", Some(3), Some(4)).must();
        let before = sys::lstat("a").must();
        let here = sys::stat(".").must();
        tick();
        sys::rename("a", "b").must_for(kind);
        sys::lstat("a").fails(Errno::NOENT);
        let mut after = sys::lstat("b").must();
        assert!(after.ctime >= before.ctime);
        after.ctime = before.ctime;
        assert_eq!(after, before);
        let parent = sys::stat(".").must();
        assert!(parent.mtime > here.mtime && parent.ctime > here.ctime);
        assert_eq!(parent.nlink, here.nlink);
        sys::remove(kind, "b").must();
    }
}

fn every_type_moves_to_another_directory(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    for kind in Kind::ALL {
        sys::make(kind, "a", 0o641).must();
        let before = sys::lstat("a").must();
        let (here, there) = (sys::stat(".").must(), sys::stat("d").must());
        tick();
        sys::rename("a", "d/b").must_for(kind);
        let after = sys::lstat("d/b").must();
        assert_eq!((after.ino, after.nlink, after.mode), (before.ino, before.nlink, before.mode));
        let (here2, there2) = (sys::stat(".").must(), sys::stat("d").must());
        for (old, new) in [(here, here2), (there, there2)] {
            assert!(new.mtime > old.mtime && new.ctime > old.ctime, "{kind:?}");
        }
        let moved = u64::from(kind == Kind::Directory);
        assert_eq!((here2.nlink, there2.nlink), (here.nlink - moved, there.nlink + moved));
        sys::remove(kind, "d/b").must();
    }
}

fn files_replace_files(_: &Bench) {
    for from in Kind::FILES {
        for to in Kind::FILES {
            sys::make(from, "a", 0o644).must();
            sys::make(to, "b", 0o644).must();
            sys::link("b", "other").must();
            let (a, b) = (sys::lstat("a").must(), sys::lstat("b").must());
            tick();
            sys::rename("a", "b").must_for((from, to));
            sys::lstat("a").fails(Errno::NOENT);
            let s = sys::lstat("b").must();
            assert_eq!((s.ino, s.kind, s.nlink), (a.ino, from, 1));
            let other = sys::lstat("other").must();
            assert_eq!((other.ino, other.nlink), (b.ino, 1), "{from:?} over {to:?}");
            assert!(other.ctime > b.ctime);
            sys::unlink("b").must();
            sys::unlink("other").must();
        }
    }
}

fn directories_replace_empty_directories(_: &Bench) {
    sys::mkdir("a", 0o755).must();
    sys::put("a/f", b"inside").must();
    sys::mkdir("b", 0o700).must();
    let (a, here) = (sys::stat("a").must(), sys::stat(".").must());
    sys::rename("a", "b").must();
    assert_eq!(sys::stat("b").must().ino, a.ino);
    assert_eq!(sys::content("b/f").must(), b"inside");
    assert_eq!(sys::stat(".").must().nlink, here.nlink - 1);
    sys::mkdir("p", 0o755).must();
    sys::mkdir("p/c", 0o755).must();
    sys::rename("b", "p/c").must();
    assert_eq!(sys::stat("p/c").must().ino, a.ino);
    assert_eq!(sys::stat("p/c/..").must().ino, sys::stat("p").must().ino);
    assert_eq!(sys::stat("p").must().nlink, 3);
    assert_eq!(sys::stat(".").must().nlink, here.nlink - 1);
}

fn full_directories_are_not_replaced(_: &Bench) {
    sys::mkdir("a", 0o755).must();
    sys::mkdir("b", 0o755).must();
    for kind in Kind::ALL {
        sys::make(kind, "b/n", 0o644).must();
        sys::rename("a", "b").fails_for([Errno::NOTEMPTY, Errno::EXIST], kind);
        sys::lstat("b/n").must();
        sys::remove(kind, "b/n").must();
    }
    sys::rename("a", "b").must();
}

fn directories_do_not_replace_files(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    for kind in Kind::FILES {
        sys::make(kind, "n", 0o644).must();
        sys::rename("d", "n").fails_for(Errno::NOTDIR, kind);
        assert_eq!(sys::lstat("n").must().kind, kind);
        sys::unlink("n").must();
    }
    sys::stat("d").must();
}

fn files_do_not_replace_directories(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::symlink("d", "to d").must();
    for kind in Kind::FILES {
        sys::make(kind, "n", 0o644).must();
        sys::rename("n", "d").fails_for(Errno::ISDIR, kind);
        assert_eq!(sys::lstat("n").must().kind, kind);
        sys::unlink("n").must();
    }
    sys::stat("d").must();
}

fn to_itself_does_nothing(_: &Bench) {
    for kind in Kind::ALL {
        sys::make(kind, "n", 0o644).must();
        let (before, here) = (sys::lstat("n").must(), sys::lstat(".").must());
        tick();
        sys::rename("n", "n").must_for(kind);
        sys::rename("./n", ".//n").must_for(kind);
        assert_eq!((sys::lstat("n").must(), sys::lstat(".").must()), (before, here));
        sys::remove(kind, "n").must();
    }
}

fn between_links_of_one_file_does_nothing(_: &Bench) {
    sys::put("a", b"x").must();
    sys::link("a", "b").must();
    sys::mkdir("d", 0o755).must();
    sys::link("a", "d/c").must();
    let before = (sys::stat("a").must(), sys::stat(".").must(), sys::stat("d").must());
    tick();
    for (from, to) in [("a", "b"), ("b", "a"), ("a", "d/c"), ("d/c", "b")] {
        sys::rename(from, to).must_for((from, to));
    }
    let after = (sys::stat("a").must(), sys::stat(".").must(), sys::stat("d").must());
    assert_eq!(after, before);
    assert_eq!(before.0.nlink, 3);
    for name in ["a", "b", "d/c"] {
        assert_eq!(sys::stat(name).must().ino, before.0.ino);
    }
}

fn a_directory_into_itself_is_einval(_: &Bench) {
    for d in ["a", "a/b", "a/b/c", "a/b/c/d"] {
        sys::mkdir(d, 0o755).must();
    }
    for to in ["a/x", "a/b/x", "a/b/c/x", "a/b/c/d/x"] {
        sys::rename("a", to).fails_for(Errno::INVAL, to);
    }
    sys::rename("a/b", "a/b/c/d/x").fails(Errno::INVAL);
    // Over something that is there, deep inside.
    sys::rename("a", "a/b/c/d").fails([Errno::INVAL, Errno::NOTEMPTY]);
    assert_eq!(sys::stat("a/b/c/d").must().nlink, 2);
}

fn an_ancestor_is_not_replaced(_: &Bench) {
    sys::mkdir("a", 0o755).must();
    sys::mkdir("a/b", 0o755).must();
    sys::mkdir("a/b/c", 0o755).must();
    for (from, to) in [("a/b", "a"), ("a/b/c", "a"), ("a/b/c", "a/b")] {
        sys::rename(from, to).fails_for([Errno::NOTEMPTY, Errno::EXIST], (from, to));
    }
    sys::put("a/b/f", b"").must();
    sys::rename("a/b/f", "a").fails([Errno::ISDIR, Errno::NOTEMPTY, Errno::EXIST]);
}

fn dots_are_refused(_: &Bench) {
    let refused = [Errno::BUSY, Errno::INVAL];
    let in_the_way = [Errno::BUSY, Errno::INVAL, Errno::EXIST, Errno::NOTEMPTY];
    sys::mkdir("d", 0o755).must();
    sys::mkdir("d/e", 0o755).must();
    for dots in ["d/.", "d/e/..", ".", ".."] {
        sys::rename(dots, "x").fails_for(refused, dots);
        sys::rename("d/e", dots).fails_for(in_the_way, dots);
    }
    assert_eq!(sys::list(".").must(), [b"d"]);
}

fn moving_a_directory_moves_its_dot_dot(_: &Bench) {
    for d in ["a", "b", "a/d"] {
        sys::mkdir(d, 0o755).must();
    }
    let d = sys::open("a/d", OFlags::RDONLY | OFlags::DIRECTORY, 0).must();
    let dot_dot = || {
        rustix::fs::seek(&d, rustix::fs::SeekFrom::Start(0)).must();
        let all = sys::getdents_all(&d).must();
        all.into_iter().find(|e| e.name == b"..").map(|e| e.ino)
    };
    assert_eq!(dot_dot(), Some(sys::stat("a").must().ino));
    sys::rename("a/d", "b/d").must();
    let b = sys::stat("b").must();
    assert_eq!((dot_dot(), b.nlink, sys::stat("a").must().nlink), (Some(b.ino), 3, 2));
    assert_eq!(sys::stat("b/d/..").must().ino, b.ino);
    sys::rmdir("a").must();
}

/// Its `..` would have to change (pjdfstest's `rename/21`).
fn a_directory_that_cannot_be_written_stays_where_it_is(_: &Bench) {
    for d in ["a", "b"] {
        sys::mkdir(d, 0o777).must();
    }
    for kind in Kind::FREE {
        sys::make(kind, "a/n", 0o755).must();
        sys::lchown("a/n", Some(BOB.uid), Some(BOB.gid)).must();
        as_user(ALICE, || {
            sys::rename("a/n", "a/m").must_for(kind);
            let answer = sys::rename("a/m", "b/m");
            if kind == Kind::Directory {
                answer.fails(Errno::ACCESS);
                sys::rename("a/m", "b/m").fails(Errno::ACCESS);
            } else {
                answer.must_for(kind);
            }
        });
        let at = if kind == Kind::Directory { "a/m" } else { "b/m" };
        sys::remove(kind, at).must();
    }
}

fn an_open_file_that_is_replaced_stays_usable(_: &Bench) {
    sys::put("old", b"old").must();
    sys::put("new", b"new").must();
    let old = sys::open("old", OFlags::RDWR, 0).must();
    let new = sys::open("new", OFlags::RDWR, 0).must();
    sys::rename("new", "old").must();
    assert_eq!(sys::fstat(&old).must().nlink, 0);
    assert_eq!(sys::pread(&old, 9, 0).must(), b"old");
    sys::pwrite(&old, b"still there", 0).must();
    assert_eq!(sys::pread(&old, 99, 0).must(), b"still there");
    assert_eq!(sys::content("old").must(), b"new");
    sys::pwrite(&new, b"NEW", 0).must();
    assert_eq!(sys::content("old").must(), b"NEW");
}

fn a_whole_tree_moves(_: &Bench) {
    for d in ["a", "a/b", "a/b/c", "x", "x/y"] {
        sys::mkdir(d, 0o755).must();
    }
    sys::put("a/b/c/f", b"leaf").must();
    let inside = sys::open("a/b/c", OFlags::RDONLY | OFlags::DIRECTORY, 0).must();
    sys::rename("a/b", "x/y/b").must();
    assert_eq!(sys::content("x/y/b/c/f").must(), b"leaf");
    sys::stat("a/b").fails(Errno::NOENT);
    sys::openat(&inside, "f", OFlags::RDONLY, 0).must();
    sys::openat(&inside, "../../../y/b/c/f", OFlags::RDONLY, 0).must();
    sys::rename("x/y/b/c/f", "f").must();
    assert_eq!(sys::content("f").must(), b"leaf");
}

fn slashes_may_follow_directories(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    sys::rename("d/", "e/").must();
    sys::rename("e", "f//").must();
    sys::put("file", b"").must();
    sys::rename("file", "g/").fails([Errno::NOTDIR, Errno::ISDIR, Errno::NOENT]);
    sys::rename("file/", "g").fails(Errno::NOTDIR);
    assert_eq!(sys::list(".").must(), [&b"f"[..], b"file"]);
}

fn symbolic_links_are_not_followed(_: &Bench) {
    sys::put("f", b"f").must();
    sys::symlink("f", "s").must();
    sys::rename("s", "t").must();
    assert_eq!(sys::readlink("t").must(), b"f");
    sys::put("g", b"g").must();
    sys::rename("g", "t").must();
    assert_eq!((sys::content("t").must(), sys::content("f").must()), (b"g".into(), b"f".into()));
}

fn failing_leaves_both_alone(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    for kind in Kind::ALL {
        sys::make(kind, "d/n", 0o644).must();
        sys::lchown("d/n", Some(ALICE.uid), Some(ALICE.gid)).must();
        let before = (sys::lstat("d/n").must(), sys::lstat("d").must());
        tick();
        as_user(ALICE, || sys::rename("d/n", "d/m").fails(Errno::ACCESS));
        assert_eq!((sys::lstat("d/n").must(), sys::lstat("d").must()), before);
        sys::remove(kind, "d/n").must();
    }
}

/// Names of other lengths each time: entries move about in their directory.
fn back_and_forth_many_times(_: &Bench) {
    for n in 0..20 {
        sys::put(format!("neighbour {n}"), b"").must();
    }
    sys::put("0", b"the one").must();
    let name = |n: usize| format!("{n}{}", "x".repeat(n * 37 % 200));
    for n in 0..200 {
        let (from, to) = (name(n), name(n + 1));
        sys::rename(if n == 0 { "0" } else { &from }, &to).must();
    }
    assert_eq!(sys::content(name(200)).must(), b"the one");
    assert_eq!(sys::list(".").must().len(), 21);
}

fn noreplace_takes_only_free_names(_: &Bench) {
    let flag = RenameFlags::NOREPLACE;
    for kind in Kind::ALL {
        sys::make(kind, "a", 0o644).must();
        sys::rename_with("a", "b", flag).must_for(kind);
        for there in Kind::ALL {
            sys::make(there, "c", 0o644).must();
            sys::rename_with("b", "c", flag).fails_for(Errno::EXIST, (kind, there));
            assert_eq!(sys::lstat("c").must().kind, there);
            sys::remove(there, "c").must();
        }
        sys::rename_with("b", "b", flag).fails(Errno::EXIST);
        sys::remove(kind, "b").must();
    }
}

fn exchange_of_every_pair_of_types(_: &Bench) {
    let flag = RenameFlags::EXCHANGE;
    for one in Kind::ALL {
        for two in Kind::ALL {
            sys::make(one, "a", 0o644).must();
            sys::make(two, "b", 0o644).must();
            let (a, b) = (sys::lstat("a").must(), sys::lstat("b").must());
            sys::rename_with("a", "b", flag).must_for((one, two));
            let (a2, b2) = (sys::lstat("a").must(), sys::lstat("b").must());
            assert_eq!((a2.ino, a2.kind, a2.nlink), (b.ino, two, b.nlink));
            assert_eq!((b2.ino, b2.kind, b2.nlink), (a.ino, one, a.nlink));
            sys::remove(two, "a").must();
            sys::remove(one, "b").must();
        }
    }
}

fn exchange_across_directories_counts_links(_: &Bench) {
    for d in ["p", "q", "p/d"] {
        sys::mkdir(d, 0o755).must();
    }
    sys::put("p/d/inside", b"").must();
    sys::put("q/f", b"file").must();
    sys::rename_with("p/d", "q/f", RenameFlags::EXCHANGE).must();
    assert_eq!(sys::content("p/d").must(), b"file");
    sys::stat("q/f/inside").must();
    assert_eq!((sys::stat("p").must().nlink, sys::stat("q").must().nlink), (2, 3));
    assert_eq!(sys::stat("q/f/..").must().ino, sys::stat("q").must().ino);
    sys::mkdir("p/e", 0o755).must();
    sys::rename_with("p/e", "q/f", RenameFlags::EXCHANGE).must();
    sys::stat("p/e/inside").must();
    assert_eq!((sys::stat("p").must().nlink, sys::stat("q").must().nlink), (3, 3));
    assert_eq!(sys::stat("p/e/..").must().ino, sys::stat("p").must().ino);
    assert_eq!(sys::stat("q/f/..").must().ino, sys::stat("q").must().ino);
}

fn exchange_refuses_loops_and_missing_names(_: &Bench) {
    let flag = RenameFlags::EXCHANGE;
    for d in ["a", "a/b", "a/b/c"] {
        sys::mkdir(d, 0o755).must();
    }
    sys::rename_with("a", "a/b", flag).fails(Errno::INVAL);
    sys::rename_with("a/b/c", "a", flag).fails(Errno::INVAL);
    sys::rename_with("a", "none", flag).fails(Errno::NOENT);
    sys::rename_with("none", "a", flag).fails(Errno::NOENT);
    sys::rename_with("a", "a", flag).must();
    sys::stat("a/b/c").must();
}

fn contradictory_flags_are_einval(_: &Bench) {
    sys::put("a", b"").must();
    sys::put("b", b"").must();
    let both = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
    sys::rename_with("a", "b", both).fails(Errno::INVAL);
    sys::rename_with("a", "b", RenameFlags::from_bits_retain(1 << 20)).fails(Errno::INVAL);
}
