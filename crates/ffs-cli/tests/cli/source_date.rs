//! `SOURCE_DATE_EPOCH` in the commands that use it: the same bytes, and errors that name it.

use std::fs;
use std::path::Path;
use std::process::Output;

use ffs_testkit::repository;

use crate::common::{Dir, ffs, pattern, set_mtime, text, walk};

/// Values that are no number of seconds since 1970.
const BAD: [&str; 7] = ["", "-1", "+1", "abc", "1.5", "9223372036854775808", "1700000000\n"];

/// The commands that depend on the variable. Each makes the file `new`.
fn commands(d: &Dir, new: &str) -> [Vec<String>; 3] {
    let (tree, image, ufs) = (d.str("tree"), d.str("a.img"), format!("root={}", d.str("tree")));
    let (dates, esp) = (d.str("dumpdates"), d.str("esp"));
    [
        &["build", "--owner", "0:0", new, &tree][..],
        &["disk", "create", "--owner", "0:0", "--efi", &esp, "--ufs", &ufs, new],
        &["dump", "-0", "-D", &dates, "-f", new, &image],
    ]
    .map(|args| args.iter().map(|&arg| arg.to_owned()).collect())
}

fn made() -> Dir {
    let d = Dir::new();
    for folder in ["tree/sub", "esp"] {
        fs::create_dir_all(d.path(folder)).unwrap();
    }
    fs::write(d.path("tree/sub/file"), pattern(100_000, 1)).unwrap();
    fs::write(d.path("esp/loader"), pattern(5000, 2)).unwrap();
    run(&["build".into(), d.str("a.img"), d.str("tree")], "1000000000");
    d
}

fn output(args: &[String], value: &str) -> Output {
    ffs().env("SOURCE_DATE_EPOCH", value).args(args).output().unwrap()
}

fn run(args: &[String], value: &str) {
    let output = output(args, value);
    assert!(output.status.success(), "{args:?}: {}", text(&output));
}

#[test]
fn a_wrong_value_is_named_and_makes_nothing() {
    let d = made();
    let new = d.str("new");
    for (args, code) in commands(&d, &new).iter().zip([64, 64, 1]) {
        for bad in BAD {
            let output = output(args, bad);
            let shown = text(&output);
            assert_eq!(output.status.code(), Some(code), "{args:?} with {bad:?}: {shown}");
            let wanted =
                "expected seconds since 1970, a decimal number from 0 to 9223372036854775807";
            assert!(shown.contains("SOURCE_DATE_EPOCH='"), "{args:?} with {bad:?}: {shown}");
            assert!(shown.contains(wanted), "{args:?} with {bad:?}: {shown}");
            assert!(!Path::new(&new).exists(), "{args:?} with {bad:?}");
        }
    }
}

#[test]
fn the_same_value_gives_the_same_bytes() {
    let d = made();
    let names = ["one", "two", "other"].map(|name| d.str(name));
    let values = ["1000000000", "1000000000", "999999999"];
    let all = names.each_ref().map(|name| commands(&d, name));
    let [one, two, other] = all;
    for ((one, two), other) in one.into_iter().zip(two).zip(other) {
        let commands = [one, two, other];
        for (n, value) in values.iter().enumerate() {
            // Neither the clock nor a later time of a source may have an effect.
            let paths = [walk(&d.path("tree")), walk(&d.path("esp"))].concat();
            paths.iter().rev().for_each(|path| set_mtime(path, 1_500_000_000 + n as i64 * 10, 0));
            std::thread::sleep(std::time::Duration::from_millis(1100));
            run(&commands[n], value);
        }
        let bytes = names.each_ref().map(|path| fs::read(path).unwrap());
        let shown = &commands[0];
        assert!(bytes[0] == bytes[1], "{shown:?}");
        assert!(bytes[0] != bytes[2], "{shown:?}: the value has no effect");
        names.iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

/// A second place could have other rules.
#[test]
fn the_variable_is_read_at_one_place() {
    let root = repository::root();
    let files = [walk(&root.join("crates")), walk(&root.join("bindings"))].concat();
    let reads = |path: &&std::path::PathBuf| {
        let shown = path.to_string_lossy();
        // Without quotes the name is in a comment or an example.
        shown.contains("/src/")
            && shown.ends_with(".rs")
            && fs::read_to_string(path).unwrap_or_default().contains("\"SOURCE_DATE_EPOCH\"")
    };
    let readers: Vec<_> = files.iter().filter(reads).collect();
    let [one] = &readers[..] else { panic!("{readers:?}") };
    assert!(one.ends_with("crates/ffs-cli/src/source_date.rs"), "{one:?}");
}
