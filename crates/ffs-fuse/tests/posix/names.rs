//! Names: any bytes but NUL and `/`, up to 255 of them.

use crate::bench::{Bench, Expect, cases};
use crate::sys::{self, Errno};

cases! {
    "names" {
        every_byte_alone;
        every_byte_inside;
        every_length;
        names_that_differ_little;
        dots_that_are_not_special;
        one_name_has_one_file;
    }
}

fn bytes() -> impl Iterator<Item = u8> {
    (1..=255).filter(|b| *b != b'/')
}

fn sorted(mut names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    names.sort();
    names
}

fn all_work(names: &[Vec<u8>]) {
    for name in names {
        sys::put(name, name).must_for(String::from_utf8_lossy(name));
    }
    assert_eq!(sys::list(".").must(), sorted(names.to_vec()));
    for name in names {
        assert_eq!(&sys::content(name).must(), name);
    }
    for name in names {
        sys::unlink(name).must();
        sys::lstat(name).fails(Errno::NOENT);
    }
    assert!(sys::list(".").must().is_empty());
}

fn every_byte_alone(_: &Bench) {
    all_work(&bytes().filter(|b| *b != b'.').map(|b| vec![b]).collect::<Vec<_>>());
}

fn every_byte_inside(_: &Bench) {
    let mut names: Vec<_> = bytes().map(|b| vec![b'<', b, b'>']).collect();
    names.push(bytes().collect());
    all_work(&names);
}

fn every_length(_: &Bench) {
    all_work(&(1..=255).map(|n| vec![b'x'; n]).collect::<Vec<_>>());
}

fn names_that_differ_little(_: &Bench) {
    let words = [
        "a",
        "A",
        "a ",
        " a",
        "a.",
        ".a",
        "ab",
        "a\u{308}",
        "\u{e4}",
        "\u{e4}\u{200d}",
        "-a",
        "~a",
        "a\n",
        "a\t",
        "a\\",
        "a\"",
        "con",
        "NUL",
        "a:b",
        "a*",
        "a?",
        "#a#",
        "\u{1f426}",
    ];
    let mut names: Vec<_> = words.iter().map(|w| w.as_bytes().to_vec()).collect();
    names.push(b"\xff\xfe not utf-8 \x80".to_vec());
    all_work(&names);
}

fn dots_that_are_not_special(_: &Bench) {
    let names = ["...", "....", ".. ", " ..", "..a", ".\u{1}", "a..", ". ."];
    all_work(&names.map(|n| n.as_bytes().to_vec()));
}

fn one_name_has_one_file(_: &Bench) {
    for round in 0..3 {
        sys::put("n", &[round]).must();
        sys::rename("n", "m").must();
        sys::put("n", &[round + 100]).must();
        assert_eq!(sys::list(".").must(), [b"m", b"n"]);
        assert_eq!(sys::content("m").must(), [round]);
        sys::unlink("n").must();
    }
}
