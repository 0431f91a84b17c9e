//! Listing directories, also while they change.

use crate::bench::{Bench, Expect, cases};
use crate::sys::{self, Entry, Errno, Kind};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, SeekFrom, seek};
use std::collections::BTreeSet;

cases! {
    "readdir" {
        shows_types_and_inode_numbers [Root];
        shows_each_of_many_once;
        the_end_stays_the_end;
        of_an_empty_directory_shows_dots;
        continues_at_a_given_position;
        starts_again_and_sees_what_is_new;
        two_readers_do_not_disturb_each_other;
        removing_what_was_shown;
        removing_what_was_not_shown;
        creating_while_reading;
        renaming_while_reading;
        many_threads_in_one_directory;
        of_files_is_enotdir;
        through_the_c_library;
    }
}

fn dir(p: &str) -> OwnedFd {
    sys::open(p, OFlags::RDONLY | OFlags::DIRECTORY, 0).must()
}

fn is_dots(e: &Entry) -> bool {
    e.name == b"." || e.name == b".."
}

fn name(n: usize) -> String {
    format!("entry number {n} {}", "x".repeat(n % 40))
}

fn fill(d: &str, n: usize) {
    sys::mkdir(d, 0o755).must();
    for i in 0..n {
        sys::create(format!("{d}/{}", name(i)), 0o644).must();
    }
}

/// Goes on reading, a little at a time.
fn rest(d: &OwnedFd) -> Vec<Entry> {
    let mut all = Vec::new();
    loop {
        let some = sys::getdents(d, 512).must();
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

fn rewind(d: &OwnedFd) {
    seek(d, SeekFrom::Start(0)).must();
}

/// Fails unless each of the first `n` names is there exactly once.
#[track_caller]
fn each_once(entries: &[Entry], n: usize) {
    let mut names: Vec<_> = entries.iter().map(|e| e.name.clone()).collect();
    names.sort();
    for i in 0..n {
        let name = name(i).into_bytes();
        let times = names.iter().filter(|x| **x == name).count();
        assert_eq!(times, 1, "{} of {n} was shown {times} times", String::from_utf8_lossy(&name));
    }
}

fn shows_types_and_inode_numbers(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    for kind in Kind::ALL {
        sys::make(kind, format!("d/{kind:?}"), 0o644).must();
    }
    let all = rest(&dir("d"));
    assert_eq!(all.len(), 2 + Kind::ALL.len());
    for e in &all {
        let path = [b"d/", &e.name[..]].concat();
        let s = sys::lstat(&path).must();
        assert_eq!(s.ino, e.ino);
        assert!([s.kind.file_type(), FileType::Unknown].contains(&e.kind), "{e:?}");
    }
}

fn shows_each_of_many_once(_: &Bench) {
    fill("d", 2000);
    let all = rest(&dir("d"));
    assert_eq!(all.len(), 2002);
    each_once(&all, 2000);
    let mut places: Vec<_> = all.iter().map(|e| e.next).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 2002, "places are different");
}

fn the_end_stays_the_end(_: &Bench) {
    fill("d", 10);
    let d = dir("d");
    assert_eq!(rest(&d).len(), 12);
    assert!(rest(&d).is_empty() && rest(&d).is_empty());
}

fn of_an_empty_directory_shows_dots(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    let all = rest(&dir("d"));
    assert!(all.len() == 2 && all.iter().all(is_dots), "{all:?}");
}

fn continues_at_a_given_position(_: &Bench) {
    fill("d", 100);
    let d = dir("d");
    let all = rest(&d);
    // Back and forth.
    for i in (0..all.len()).rev().chain([3, 50, 7]) {
        seek(&d, SeekFrom::Start(all[i].next)).must();
        let next = sys::getdents(&d, 512).must();
        assert_eq!(next.first(), all.get(i + 1), "after entry {i}");
    }
}

fn starts_again_and_sees_what_is_new(_: &Bench) {
    fill("d", 20);
    let d = dir("d");
    assert_eq!(rest(&d).len(), 22);
    sys::create("d/new", 0o644).must();
    sys::unlink(format!("d/{}", name(5))).must();
    rewind(&d);
    let again = rest(&d);
    assert_eq!(again.len(), 22);
    assert!(again.iter().any(|e| e.name == b"new"));
    assert!(again.iter().all(|e| e.name != name(5).as_bytes()));
}

fn two_readers_do_not_disturb_each_other(_: &Bench) {
    fill("d", 200);
    let (a, b) = (dir("d"), dir("d"));
    let mut seen = sys::getdents(&a, 512).must();
    assert_eq!(rest(&b).len(), 202);
    seen.extend(rest(&a));
    each_once(&seen, 200);
}

/// What `rm -r` does.
fn removing_what_was_shown(_: &Bench) {
    fill("d", 1000);
    let d = dir("d");
    let mut seen = Vec::new();
    loop {
        let some = sys::getdents(&d, 512).must();
        if some.is_empty() {
            break;
        }
        for e in some.iter().filter(|e| !is_dots(e)) {
            sys::unlink([b"d/", &e.name[..]].concat()).must();
        }
        seen.extend(some);
    }
    each_once(&seen, 1000);
    sys::rmdir("d").must();
}

fn removing_what_was_not_shown(_: &Bench) {
    fill("d", 300);
    let d = dir("d");
    let first = sys::getdents(&d, 512).must();
    let shown: BTreeSet<_> = first.iter().map(|e| e.name.clone()).collect();
    let later: Vec<_> = (0..300).filter(|i| !shown.contains(name(*i).as_bytes())).collect();
    let (removed, kept) = later.split_at(later.len() / 2);
    for i in removed {
        sys::unlink(format!("d/{}", name(*i))).must();
    }
    let seen = rest(&d);
    for i in kept {
        let times = seen.iter().filter(|e| e.name == name(*i).as_bytes()).count();
        assert_eq!(times, 1, "{} was shown {times} times", name(*i));
    }
    rewind(&d);
    assert_eq!(rest(&d).len(), 2 + 300 - removed.len());
}

fn creating_while_reading(_: &Bench) {
    fill("d", 300);
    // Space in the middle, for new entries to take.
    for i in (0..300).filter(|i| i % 3 == 0) {
        sys::unlink(format!("d/{}", name(i))).must();
    }
    let d = dir("d");
    let mut seen = Vec::new();
    for n in 0.. {
        let some = sys::getdents(&d, 512).must();
        if some.is_empty() {
            break;
        }
        seen.extend(some);
        if n < 40 {
            for i in 0..5 {
                sys::create(format!("d/new {n} {i} {}", "y".repeat(n * 7 % 50)), 0o644).must();
            }
        }
    }
    for i in (0..300).filter(|i| i % 3 != 0) {
        let times = seen.iter().filter(|e| e.name == name(i).as_bytes()).count();
        assert_eq!(times, 1, "{} was shown {times} times", name(i));
    }
}

fn renaming_while_reading(_: &Bench) {
    fill("d", 200);
    sys::create("d/moving 0", 0o644).must();
    let d = dir("d");
    let mut seen = Vec::new();
    for n in 0.. {
        let some = sys::getdents(&d, 512).must();
        if some.is_empty() {
            break;
        }
        seen.extend(some);
        sys::rename(format!("d/moving {n}"), format!("d/moving {}", n + 1)).must();
    }
    each_once(&seen, 200);
}

fn many_threads_in_one_directory(_: &Bench) {
    sys::mkdir("d", 0o755).must();
    let path = |t: usize, n: usize| format!("d/thread {t} file {n}");
    std::thread::scope(|s| {
        for t in 0..4 {
            s.spawn(move || {
                for n in 0..150 {
                    sys::put(path(t, n), path(t, n).as_bytes()).must();
                    if n % 3 == 1 {
                        sys::unlink(path(t, n - 1)).must();
                    } else if n % 3 == 2 {
                        sys::rename(path(t, n), path(t, n + 1000)).must();
                    }
                }
            });
        }
        s.spawn(|| {
            for _ in 0..50 {
                let names = sys::list("d").must();
                let different: BTreeSet<_> = names.iter().collect();
                assert!(different.len() == names.len() && names.len() <= 4 * 150);
            }
        });
    });
    let names = sys::list("d").must();
    assert_eq!(names.len(), 4 * 100);
    for t in 0..4 {
        for n in (0..150).filter(|n| n % 3 == 1) {
            assert_eq!(sys::content(path(t, n)).must(), path(t, n).as_bytes());
            assert_eq!(sys::content(path(t, n + 1001)).must(), path(t, n + 1).as_bytes());
            sys::stat(path(t, n - 1)).fails(Errno::NOENT);
        }
    }
}

fn of_files_is_enotdir(_: &Bench) {
    let f = sys::create("f", 0o644).must();
    sys::getdents(&f, 512).fails(Errno::NOTDIR);
}

/// `telldir` and `seekdir` are what the calls above are for.
fn through_the_c_library(_: &Bench) {
    fill("d", 50);
    let read = |d: *mut libc::DIR| {
        // SAFETY: an open stream; the entry is used before the next call.
        unsafe {
            let e = libc::readdir(d);
            (!e.is_null()).then(|| std::ffi::CStr::from_ptr((*e).d_name.as_ptr()).to_owned())
        }
    };
    // SAFETY: the stream is open until the end, on one thread.
    unsafe {
        let d = libc::opendir(c"d".as_ptr());
        assert!(!d.is_null());
        let mut places = vec![libc::telldir(d)];
        let mut names = Vec::new();
        while let Some(n) = read(d) {
            names.push(n);
            places.push(libc::telldir(d));
        }
        assert_eq!(names.len(), 52);
        for i in [0, 51, 25, 1, 50] {
            libc::seekdir(d, places[i]);
            assert_eq!(read(d).as_ref(), names.get(i));
        }
        libc::seekdir(d, places[52]);
        assert_eq!(read(d), None);
        libc::rewinddir(d);
        assert_eq!(read(d).as_ref(), names.first());
        libc::closedir(d);
    }
}
