//! `ffs find`: `-printf`, `-L`, `-H` and `-delete`, beside find(1) of the host.

use crate::common::{Dir, fails, fsck_clean, json_lines, make_tree, ok, run, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// The output of find(1) of GNU in `root`; `None` without such a program.
fn gnu(root: &Path, words: &[&str]) -> Option<Output> {
    let version = Command::new("find").arg("--version").output().ok()?;
    if !String::from_utf8_lossy(&version.stdout).contains("GNU") {
        return None;
    }
    let mut find = Command::new("find");
    Some(find.args(words).env("TZ", "UTC").env("LC_ALL", "C").current_dir(root).output().unwrap())
}

/// The records of an output, sorted. The root of both is `.`; the image also has `.snap`.
fn records(output: &[u8]) -> Vec<String> {
    let records = output.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    let mut records: Vec<String> = records
        .map(|record| String::from_utf8_lossy(record).into_owned())
        .filter(|record| !record.contains(".snap"))
        .collect();
    records.sort();
    records
}

/// Formats that print the same for a file of the tree and of the image. Each begins with the path
/// below the root, so that the records have an order.
const FORMATS: &[&str] = &[
    "%P %f %d %m %M %n %y %l\\0",
    "%P %u %U %g %G\\0",
    "%P [%5d][%-5d][%05d][%+d][% d][%.3d][%5m][%05m][%#m][%-7.2m]\\0",
    "%P [%3y][%-3y][%.1M][%12.10M][%05U][%-20f][%40.3P]\\0",
    "%P %t|%T@|%T+|%TT|%TX|%TS|%Tc|%Tr|%TD|%Tx|%TF|%TR\\0",
    "%P %Ta %TA %Tb %TB %Th %Td %Te %TH %TI %Tj %Tk %Tl %TM %Tm %Tp %TP %Ts\\0",
    "%P %TU %TV %TW %Tw %Tu %TG %Tg %TC %Ty %TY %Tz %TZ\\0",
    "%P 100%% \\a\\b\\f\\r\\t\\v\\\\\\101\\60x\\n\\0",
    "%P %y end\\0\\c not printed %p",
];

#[test]
fn formats_print_what_those_of_gnu_print() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    fs::create_dir(tree.join("etc")).unwrap();
    for file in ["passwd", "group"] {
        fs::copy(Path::new("/etc").join(file), tree.join("etc").join(file)).unwrap();
    }
    let image = d.str("a.img");
    ok(&["build", &image, tree.to_str().unwrap()]);
    for format in FORMATS {
        let words = [".", "-mindepth", "1", "-printf", format];
        let Some(expected) = gnu(&tree, &words) else {
            return println!("skipped: there is no find(1) of GNU");
        };
        assert!(expected.status.success(), "{format}: {}", text(&expected));
        let output = run(&["find", &image, "-mindepth", "1", "-printf", format]);
        assert!(output.status.success(), "{format}: {}", text(&output));
        let (expected, found) = (records(&expected.stdout), records(&output.stdout));
        assert!(expected.len() > 300, "{format}: {expected:?}");
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(found, expected, "{format}");
        }
        assert_eq!(found.len(), expected.len(), "{format}");
    }
    // Sizes of directories differ between file systems.
    let words = ["-type", "f", "-printf", "%P %s\\0"];
    let expected = gnu(&tree, &[&["."], &words[..]].concat()).unwrap();
    let output = run(&[&["find", &image], &words[..]].concat());
    assert_eq!(records(&output.stdout), records(&expected.stdout));
}

#[test]
fn formats_have_the_paths_and_numbers_of_the_image() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", "-p", &at("/a/b")]);
    ok(&["cp", &d.file("f", &[1; 5000]), &at("/a/b/f")]);
    ok(&["chown", "4244:4245", &at("/a/b/f")]);
    let printed = |path: &str, words: &[&str], format: &str| {
        ok(&[&["find", &at(path)], words, &["-printf", format]].concat())
    };
    let paths = "%p|%P|%H|%f|%h|%d\\n";
    assert_eq!(
        printed("/a", &[], paths),
        "/a||/a|a||0\n/a/b|b|/a|b|/a|1\n/a/b/f|b/f|/a|f|/a/b|2\n"
    );
    assert_eq!(printed("/", &["-maxdepth", "0"], paths), "/||/|/||0\n");
    assert_eq!(printed("/", &["-name", "a"], paths), "/a|a|/|a||1\n");
    let stat: Value = json_lines(&ok(&["stat", "--json", &at("/a/b/f")]));
    let (stat, blocks) = (&stat[0], stat[0]["blocks512"].as_u64().unwrap());
    let line = format!("{} {blocks} {} 5000\n", stat["inode"], blocks.div_ceil(2));
    assert_eq!(printed("/a/b/f", &[], "%i %b %k %s\\n"), line);
    // The names are those of the image, which has none.
    assert_eq!(printed("/a/b/f", &[], "%u %U %g %G"), "4244 4244 4245 4245");
    ok(&["mkdir", &at("/etc")]);
    ok(&["cp", &d.file("passwd", b"me:*:4244:4245::0:0:Me:/:/bin/sh\n"), &at("/etc/passwd")]);
    assert_eq!(printed("/a/b/f", &[], "%u %U %g %G"), "me 4244 4245 4245");
    for (which, letter) in [("atime", "A"), ("mtime", "T"), ("ctime", "C"), ("birthtime", "B")] {
        let time = &stat[which];
        let [seconds, nanoseconds] = ["seconds", "nanoseconds"].map(|key| time[key].as_i64());
        let expected = format!("{}.{:09}0", seconds.unwrap(), nanoseconds.unwrap());
        assert_eq!(printed("/a/b/f", &[], &format!("%{letter}@")), expected, "{which}");
    }
    for (short, long) in [("%a", "%Ac"), ("%c", "%Cc"), ("%t", "%Tc")] {
        let (short, long) = (printed("/a/b/f", &[], short), printed("/a/b/f", &[], long));
        let (start, end) = short.split_once('.').unwrap();
        assert_eq!(format!("{start} {}", end.split_once(' ').unwrap().1), long);
    }
    let prefixed = ok(&["find", "--prefix", &at("/a"), "-name", "f", "-printf", "%p %P\\0"]);
    assert_eq!(prefixed, format!("{image}:/a/b/f b/f\0"));
    fails(&["find", "--json", &image, "-printf", "%p"], 64, "cannot be used with --json");
}

/// A tree whose links lead to files, to directories, nowhere, around, and to themselves.
fn linked(root: &Path) {
    for dir in ["d/e", "other/deep"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in ["f", "d/e/leaf", "other/deep/leaf"] {
        fs::write(root.join(file), file).unwrap();
    }
    for (text, name) in [
        ("f", "to-file"),
        ("other", "d/to-dir"),
        ("other/deep", "to-deep"),
        ("none", "broken"),
        ("f/none", "through-a-file"),
        ("..", "d/up"),
        (".", "other/self"),
        ("to-file", "to-link"),
    ] {
        let text = if name == "d/to-dir" { "../other" } else { text };
        symlink(text, root.join(name)).unwrap();
    }
}

#[test]
fn links_are_followed_as_by_find_of_gnu() {
    let d = Dir::new();
    let tree = d.path("tree");
    linked(&tree);
    symlink("itself", tree.join("itself")).unwrap();
    let image = d.str("a.img");
    ok(&["build", &image, tree.to_str().unwrap()]);
    for (option, path, expression) in [
        ("-L", "", &[][..]),
        ("-L", "", &["-depth"]),
        ("-L", "", &["-type", "l"]),
        ("-L", "", &["-type", "f", "-lname", "*"]),
        ("-L", "d", &["-type", "d"]),
        ("-L", "to-deep", &[]),
        ("-L", "", &["-samefile", "to-link"]),
        ("-L", "", &["-maxdepth", "2"]),
        ("-H", "", &[]),
        ("-H", "to-deep", &[]),
        ("-H", "d/to-dir", &["-type", "d"]),
        ("-H", "broken", &[]),
        ("-H", "", &["-samefile", "to-file"]),
        ("-P", "", &["-samefile", "to-file"]),
        ("-P", "to-deep", &[]),
        ("-P", "", &["-xtype", "l"]),
        ("-L", "", &["-xtype", "l"]),
        ("-H", "to-deep", &["-xtype", "l"]),
        ("-H", "d", &["-xtype", "f,l"]),
    ] {
        let words = |inside: bool| -> Vec<String> {
            let word = |word: &&str| match (*word, inside) {
                ("to-file" | "to-link", true) => format!("/{word}"),
                _ => (*word).to_owned(),
            };
            expression
                .iter()
                .map(word)
                .chain(["-printf".into(), "%p %y %Y %s %l\\0".into()])
                .collect()
        };
        let outside = words(false);
        let start = format!("./{path}");
        let mut all = vec![option, if path.is_empty() { "." } else { &start }];
        all.extend(outside.iter().map(String::as_str));
        let Some(expected) = gnu(&tree, &all) else {
            return println!("skipped: there is no find(1) of GNU");
        };
        let (inside, place) = (words(true), format!("{image}:/{path}"));
        let mut all = vec!["find", option, &place];
        all.extend(inside.iter().map(String::as_str));
        let found = run(&all);
        let failed = (expected.status.code(), text(&expected), text(&found));
        assert_eq!(found.status.code(), failed.0, "{option} {path} {expression:?}: {failed:?}");
        // The sizes of directories differ.
        let plain = |output: &[u8], root: &str| -> Vec<String> {
            let name = |record: &String| {
                let record = record.strip_prefix(root).unwrap_or(record);
                let record = record.strip_prefix('/').unwrap_or(record);
                let mut words: Vec<&str> = record.split(' ').collect();
                let is_dir = words.get(1) == Some(&"d");
                words.retain(|word| !is_dir || word.parse::<u64>().is_err());
                words.join(" ")
            };
            let mut all: Vec<String> = records(output).iter().map(name).collect();
            all.sort();
            all
        };
        let (found, expected) = (plain(&found.stdout, ""), plain(&expected.stdout, "."));
        assert_eq!(found, expected, "{option} {path} {expression:?}");
    }
}

#[test]
fn a_loop_of_links_is_reported_and_left() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", "-p", &at("/a/b")]);
    ok(&["ln", "-s", "..", &at("/a/b/up")]);
    ok(&["ln", "-s", "me", &at("/a/me")]);
    ok(&["ln", "-s", "/etc", &at("/a/none")]);
    let output = run(&["find", "-L", &at("/a")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/a\n/a/b\n/a/none\n");
    let words = format!("{image}:/a/b/up: a loop: it leads to /a, which it is in");
    assert!(text(&output).contains(&words), "{}", text(&output));
    assert!(text(&output).contains("/a/me: too many levels"), "{}", text(&output));
    // Of several options the last one counts.
    assert_eq!(ok(&["find", "-L", "-P", &at("/a"), "-name", "up"]), "/a/b/up\n");
    assert_eq!(ok(&["find", "-LPEsx", &at("/a/b")]), "/a/b\n/a/b/up\n");
    assert_eq!(ok(&["find", "-d", &at("/a/b")]), "/a/b/up\n/a/b\n");
    ok(&["find", "-d", &at("/a"), "-name", "not-there", "-prune", "-delete"]);
    assert_eq!(ok(&["find", &at("/a"), "-depth", "1", "-name", "b"]), "/a/b\n");
    assert_eq!(ok(&["find", &at("/a"), "-depth", "+1"]), "/a/b/up\n");
    let regex = ["-regextype", "posix-extended", "-regex", "/a/(b|c)"];
    assert_eq!(ok(&[&["find", "-E", &at("/a")], &regex[..]].concat()), "/a/b\n");
    let shell = ["shell", &image, "-c", "find -xdev -name up", "-c", "find -H a/b/up -maxdepth 0"];
    assert_eq!(ok(&shell), "/a/b/up\n/a/b/up\n");
}

#[test]
fn a_link_is_deleted_and_nothing_that_it_leads_to() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", "-p", &at("/top"), &at("/kept/dir")]);
    ok(&["touch", &at("/kept/file"), &at("/kept/dir/file")]);
    ok(&["ln", "-s", "/kept/file", &at("/top/to-file")]);
    ok(&["ln", "-s", "/kept/dir", &at("/top/to-dir")]);
    ok(&["ln", "-s", "/", &at("/top/to-root")]);
    let before = ok(&["find", &image]);
    for options in [&["-L"][..], &["-H"], &["-P", "-L"]] {
        for place in ["/top", "/top/to-dir", "/top/to-root"] {
            let place = at(place);
            fails(&[&["find"], options, &[&place, "-delete"]].concat(), 64, "-L or -H");
        }
    }
    assert_eq!(ok(&["find", &image]), before);
    let removed = ok(&["find", "-L", "-P", "--json", &at("/top"), "-mindepth", "1", "-delete"]);
    let lines: Vec<Value> = json_lines(&removed);
    let kinds: Vec<String> =
        lines.iter().map(|line: &Value| line["before"]["type"].to_string()).collect();
    assert_eq!(kinds, ["\"symlink\""; 3]);
    assert_eq!(
        ok(&["find", &at("/top"), &at("/kept")]),
        "/top\n/kept\n/kept/dir\n/kept/dir/file\n/kept/file\n"
    );
    fsck_clean(Path::new(&image));
}

/// A lookup by name finds the first of two equal names in a damaged directory.
#[test]
fn only_the_file_that_was_found_is_deleted() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["touch", &at("/first-of-two"), &at("/other-of-two")]);
    let inode = ok(&["find", &at("/other-of-two"), "-printf", "%i"]);
    let mut bytes = fs::read(&image).unwrap();
    let names = bytes.windows(12).enumerate().filter(|(_, name)| *name == b"other-of-two");
    let places: Vec<usize> = names.map(|(place, _)| place).collect();
    let [place] = places[..] else { panic!("{places:?}") };
    bytes[place..place + 12].copy_from_slice(b"first-of-two");
    fs::write(&image, bytes).unwrap();
    fails(&["find", &image, "-inum", &inode, "-delete"], 1, "another file has this name");
    assert_eq!(ok(&["find", &image, "-name", "*-of-two"]), "/first-of-two\n/first-of-two\n");
}

#[test]
fn each_file_that_delete_removes_is_an_object() {
    let d = Dir::new();
    let make = |name: &str| {
        let image = d.image(name, "8m", &[]);
        let at = |path: &str| format!("{image}:{path}");
        ok(&["mkdir", "-p", &at("/t/u")]);
        ok(&["touch", "-d", "@5", &at("/t/f"), &at("/t/u/g")]);
        ok(&["ln", &at("/t/f"), &at("/t/u/h")]);
        image
    };
    let (one, other) = (make("one.img"), make("other.img"));
    let lines = |printed: &str| -> Vec<Value> { json_lines(printed) };
    let found = lines(&ok(&["find", "--json", &format!("{one}:/t"), "-delete"]));
    let removed = lines(&ok(&["rm", "-r", "--json", &format!("{other}:/t")]));
    let plain = |lines: &[Value]| -> Vec<Value> {
        let plain = |line: &Value| {
            let mut line = line.clone();
            // Two images do not have the same numbers and times.
            assert_eq!(line["inode"], line["before"]["inode"]);
            line.as_object_mut().unwrap().remove("inode");
            for key in ["ctime", "atime", "mtime", "birthtime", "generation", "inode"] {
                line["before"].as_object_mut().unwrap().remove(key);
            }
            line
        };
        lines.iter().map(plain).collect()
    };
    assert_eq!(plain(&found), plain(&removed));
    assert_eq!(found.len(), 5);
    assert!(found.iter().all(|line| line["after"].is_null() && line["changed"] == true));
    // One object for each file, also if there are several actions. What cannot be removed is none.
    let image = make("third.img");
    for words in [["-print", "-delete"], ["-print", "-ls"], ["-delete", "-print"]] {
        let name = if words[0] == "-print" { "g" } else { "f" };
        let output = run(&[&["find", "--json", &image, "-name", name], &words[..]].concat());
        let all = lines(&String::from_utf8_lossy(&output.stdout));
        let expected = usize::from(words[1] != "-ls");
        assert_eq!(all.len(), expected, "{words:?} {all:?}");
        assert!(all.iter().all(|line| line["after"].is_null() && line["changed"] == true));
    }
    let all =
        lines(&ok(&["find", "--json", &image, "-name", "h", "-print", ",", "-name", "h", "-ls"]));
    assert_eq!((all.len(), &all[0]["path"]["name"]), (1, &"/t/u/h".into()), "{all:?}");
    let output = run(&["find", "--json", &image, "-name", "u", "-delete"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
}

#[test]
fn a_delete_in_front_of_its_tests_is_a_warning() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let warned = |words: &[&str]| {
        ok(&["touch", &at("/a"), &at("/b")]);
        let output = run(&[&["find", &image], words].concat());
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        text(&output).contains("warning: -delete comes before the tests")
    };
    assert!(warned(&["-delete", "-name", "a"]));
    assert_eq!(ok(&["ls", &image]), "", "as with find(1), all is removed");
    assert!(warned(&["-depth", "-mindepth", "1", "-delete", "-o", "-name", "a"]));
    assert!(warned(&["-true", "-delete", "-name", "a"]));
    assert!(warned(&["-mindepth", "1", "-print", "-delete", ",", "-type", "f"]));
    for words in [
        &["-delete"][..],
        &["-mindepth", "1", "-delete", "-print"],
        &["-name", "a", "-delete", "-type", "f"],
        &["-nowarn", "-delete", "-name", "a"],
    ] {
        assert!(!warned(words), "{words:?}");
    }
}
