//! `ffs build`: everything kept, the same bytes each time, from trees and archives alike.

use crate::common::{
    Dir, assert_same, fails, ffs, fsck_clean, is_root, json_lines, make_tree, ok, pattern, run,
    text,
};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Copies an image's tree out and compares it.
pub(crate) fn assert_holds(d: &Dir, image: &str, tree: &Path) {
    fsck_clean(Path::new(image));
    let out = d.path("out");
    fs::create_dir(&out).unwrap();
    ok(&["cp", "-a", &format!("{image}:/."), out.to_str().unwrap()]);
    assert_same(tree, &out, &[".snap"]);
    fs::remove_dir_all(&out).unwrap();
}

pub(crate) fn gnu_tar() -> bool {
    let version = Command::new("tar").arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("GNU tar"))
}

/// An archive of `tree` made by GNU tar with these options.
fn archive(d: &Dir, tree: &Path, name: &str, options: &[&str]) -> String {
    let path = d.str(name);
    let made = Command::new("tar")
        .args(["--sort=name", "--numeric-owner", "-cf", &path])
        .args(options)
        .arg("-C")
        .arg(tree)
        .arg(".")
        .status()
        .unwrap();
    assert!(made.success());
    path
}

#[test]
fn a_tree_becomes_the_same_image_each_time() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    for options in [
        &[][..],
        &["-O", "1", "--endian", "big"],
        &["-b", "4096", "-f", "512"],
        &["-b", "65536", "-f", "8192", "-m", "0"],
    ] {
        let (one, two) = (d.str("one.img"), d.str("two.img"));
        for image in [&one, &two] {
            let mut args = vec!["build", "--force"];
            args.extend(options);
            args.extend([image.as_str(), tree.to_str().unwrap()]);
            ok(&args);
        }
        assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap(), "{options:?}: bytes differ");
        if options.contains(&"1") {
            fsck_clean(Path::new(&one));
        } else {
            assert_holds(&d, &one, &tree);
        }
        let left = fs::read_dir(d.0.path()).unwrap().count();
        assert_eq!(left, 3, "something temporary is left");
    }
}

#[test]
fn archives_make_the_image_their_tree_makes() {
    if !gnu_tar() {
        return println!("skipped: no GNU tar");
    }
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let from_tree = d.str("tree.img");
    ok(&["build", &from_tree, tree.to_str().unwrap()]);
    let from_tree = fs::read(&from_tree).unwrap();
    let pax = ["--format=posix", "--xattrs", "--xattrs-include=user.*", "--sparse"];
    for (name, options) in [
        ("pax-1.0.tar", [&pax[..], &["--sparse-version=1.0"]].concat()),
        ("pax-0.1.tar", [&pax[..], &["--sparse-version=0.1"]].concat()),
        ("pax-0.0.tar", [&pax[..], &["--sparse-version=0.0"]].concat()),
        ("pax.tar.gz", [&pax[..], &["-z"]].concat()),
    ] {
        let archive = archive(&d, &tree, name, &options);
        let image = d.str(&format!("{name}.img"));
        ok(&["build", &image, &archive]);
        assert_holds(&d, &image, &tree);
        assert!(
            fs::read(&image).unwrap() == from_tree,
            "{name}: not the bytes of the tree's image"
        );
        // The same through a pipe: kept in a temporary file, or read as it comes.
        let bytes = fs::read(&archive).unwrap();
        let piped = d.str("piped.img");
        let build = ["build", "--force", &piped, "-"];
        let output = ffs().args(build).write_stdin(bytes.clone()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert!(fs::read(&piped).unwrap() == from_tree, "{name}: piped");
        let build = ["build", "--force", "--size", "64m", &piped, "-"];
        let output = ffs().args(build).write_stdin(bytes).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert_holds(&d, &piped, &tree);
        assert_eq!(fs::metadata(&piped).unwrap().len(), 64 << 20);
    }
}

#[test]
fn old_formats_of_archives_are_read() {
    if !gnu_tar() {
        return println!("skipped: no GNU tar");
    }
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    for name in ["small", "dir"] {
        for key in ["user.note", "user.empty", "user.on-a-directory"] {
            let _ = rustix::fs::removexattr(tree.join(name), key);
        }
    }
    for path in crate::common::walk(&tree).into_iter().rev() {
        crate::common::set_mtime(&path, 1_200_000_000, 0);
    }
    for (name, options) in
        [("gnu.tar", &["--format=gnu"][..]), ("gnu-sparse.tar", &["--format=gnu", "--sparse"])]
    {
        let archive = archive(&d, &tree, name, options);
        let image = d.str(&format!("{name}.img"));
        ok(&["build", &image, &archive]);
        assert_holds(&d, &image, &tree);
    }
    let plain = d.path("plain");
    fs::create_dir_all(plain.join("a/b")).unwrap();
    fs::write(plain.join("a/b/c"), b"abc").unwrap();
    for (name, options) in [("v7.tar", &["--format=v7"][..]), ("ustar.tar", &["--format=ustar"])] {
        let archive = archive(&d, &plain, name, options);
        let image = d.str(&format!("{name}.img"));
        ok(&["build", &image, &archive]);
        assert_eq!(ok(&["cat", &format!("{image}:/a/b/c")]), "abc");
    }
}

#[test]
fn archives_of_another_writer_with_attributes_flags_and_missing_parents() {
    let d = Dir::new();
    let path = d.path("a.tar");
    let mut tar = tar::Builder::new(fs::File::create(&path).unwrap());
    let mut add = |name: &str, pax: &[(&str, &[u8])], data: &[u8]| {
        tar.append_pax_extensions(pax.iter().copied()).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(data.len() as u64);
        header.set_mode(0o640);
        header.set_mtime(1_000_000_000);
        tar.append_data(&mut header, name, data).unwrap();
    };
    add(
        "no/such/parents/file",
        &[
            ("mtime", b"1234567890.123456789"),
            ("uid", b"3000000000"),
            ("SCHILY.xattr.user.key", b"value"),
            ("SCHILY.xattr.security.capability", b"bits"),
            ("SCHILY.fflags", b"uchg,nodump"),
            ("LIBARCHIVE.creationtime", b"1000000000"),
        ],
        b"data",
    );
    add("twice", &[], b"first");
    add("twice", &[], b"second");
    tar.into_inner().unwrap();
    let image = d.str("a.img");
    ok(&["build", &image, path.to_str().unwrap()]);
    fsck_clean(Path::new(&image));
    let shown = ok(&["stat", "--json", &format!("{image}:/no/such/parents/file")]);
    let shown: serde_json::Value = json_lines(&shown);
    let file = &shown[0];
    assert_eq!(file["uid"], 3_000_000_000_u32);
    assert_eq!(file["mtime"]["nanoseconds"], 123_456_789);
    assert_eq!(file["birthtime"]["seconds"], 1_000_000_000);
    assert_eq!(file["flags"], "uchg,nodump");
    let names: Vec<_> = file["xattrs"].as_array().unwrap().iter().map(|x| &x["name"]).collect();
    assert_eq!(names, ["key", "security.capability"]);
    assert_eq!(ok(&["cat", &format!("{image}:/twice")]), "second");
}

#[test]
fn damaged_and_hostile_archives_leave_no_image() {
    let d = Dir::new();
    let image = d.str("a.img");
    let mut good = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(2000);
    good.append_data(&mut header, "file", &pattern(2000, 1)[..]).unwrap();
    let good = good.into_inner().unwrap();
    let mut evil = good.clone();
    evil[..8].copy_from_slice(b"../evil\0");
    let sum: u32 =
        (0..512).map(|at| if (148..156).contains(&at) { 32 } else { evil[at].into() }).sum();
    evil[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut flipped = good.clone();
    flipped[3] ^= 1;
    for (name, bytes, why) in [
        ("empty", Vec::new(), "empty"),
        ("text", b"this is no archive".repeat(100), "not a tar archive"),
        ("short", good[..1500].to_vec(), "is truncated"),
        ("evil", evil, ".."),
        ("flipped", flipped, "not a tar archive"),
        ("xz", b"\xfd7zXZ\0 and so on".to_vec(), "damaged or truncated"),
    ] {
        let archive = d.file(name, &bytes);
        fails(&["build", &image, &archive], 1, why);
        let args = ["build", "--size", "8m", &image, "-"];
        let output = ffs().args(args).write_stdin(bytes).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {}", text(&output));
        assert!(!d.path("a.img").exists(), "{name}");
    }
    let left: Vec<_> = fs::read_dir(d.0.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 6, "{left:?}");
}

#[test]
fn source_date_limits_every_time_and_the_owner_is_the_given_one() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let build = |image: &str, date: &str| {
        let tree = tree.to_str().unwrap();
        let output = ffs()
            .env("SOURCE_DATE_EPOCH", date)
            .args(["build", "--owner", "0:0", image, tree])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
    };
    let (one, two) = (d.str("one.img"), d.str("two.img"));
    build(&one, "1000000000");
    // Then neither the times of the checkout nor its path have an effect.
    for path in crate::common::walk(&tree).into_iter().rev() {
        crate::common::set_mtime(&path, 1_500_000_000, 0);
    }
    build(&two, "1000000000");
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
    let listing: serde_json::Value = json_lines(&ok(&["ls", "-R", "--json", &one]));
    for file in listing.as_array().unwrap() {
        for time in ["mtime", "ctime", "birthtime", "atime"] {
            let seconds = file[time]["seconds"].as_i64().unwrap();
            assert!(seconds <= 1_000_000_000, "{file}");
        }
        assert_eq!((&file["uid"], &file["gid"]), (&0.into(), &0.into()));
    }
    let output = ffs().env("SOURCE_DATE_EPOCH", "soon").args(["build", "x", "."]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{}", text(&output));
}

#[test]
fn sizes_fit_and_free_space_is_left() {
    let d = Dir::new();
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    for n in 0..3000 {
        fs::write(tree.join(format!("{n}")), b"").unwrap();
    }
    fs::write(tree.join("large"), pattern(40 << 20, 6)).unwrap();
    let tree = tree.to_str().unwrap();
    for options in
        [&[][..], &["-b", "4096", "-f", "512"], &["-i", "65536"], &["-m", "0", "-O", "1"]]
    {
        let image = d.str("a.img");
        ok(&[&["build", "--force"], options, &["--free", "20m", &image, tree]].concat());
        let shown: serde_json::Value = json_lines(&ok(&["df", "--json", &image]));
        let free = shown[0]["available"].as_i64().unwrap();
        assert!(free >= 20 << 20, "{options:?}: {free} bytes are free");
        let size = fs::metadata(&image).unwrap().len();
        let most = if options.contains(&"65536") { 400 } else { 100 };
        assert!(size < most << 20, "{options:?}: {size} bytes");
        fsck_clean(Path::new(&image));
    }
    let small = d.str("small.img");
    let stderr = fails(&["build", "--size", "20m", &small, tree], 1, "holds");
    assert!(stderr.contains("--size"), "{stderr}");
    fails(&["build", &d.str("a.img"), tree], 1, "--force");
    fails(&["build", &small, &d.str("missing")], 1, "missing");
    assert!(!d.path("small.img").exists());
}

#[test]
fn an_image_inside_its_tree_is_left_out() {
    let d = Dir::new();
    fs::write(d.path("file"), b"x").unwrap();
    let image = d.str("a.img");
    for _ in 0..2 {
        ok(&["build", "--force", &image, d.0.path().to_str().unwrap()]);
        assert_eq!(ok(&["ls", &image]), "file\n");
    }
}

#[test]
fn the_demo_runs_without_rights() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let args = ["demo", "--no-study", tree.to_str().unwrap()];
    let output = ffs().env("TMPDIR", d.0.path()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = [
        "fsck finds nothing wrong",
        "Mount:",
        "every file read back",
        "the power fails",
        "No file has bytes that are not its own",
        "look up what is not there",
        "What to try next",
    ];
    for words in all {
        assert!(printed.contains(words), "{words} not in\n{printed}");
    }
    if is_root() && !Path::new("/dev/fuse").exists() {
        assert!(printed.contains("not possible here"), "{printed}");
    }
    assert_eq!(run(&["demo", &d.str("missing")]).status.code(), Some(1));
}

#[test]
fn many_attributes_fit_too() {
    let d = Dir::new();
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    for n in 0..1500 {
        let file = tree.join(format!("{n}"));
        fs::write(&file, b"").unwrap();
        let value = pattern(1000, n);
        let none = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&file, "user.large", &value, none).is_err() {
            return println!("skipped: the host has no attributes");
        }
    }
    let (one, two) = (d.str("one.img"), d.str("two.img"));
    for image in [&one, &two] {
        ok(&["build", "-m", "0", "--free", "1m", image, tree.to_str().unwrap()]);
    }
    let shown: serde_json::Value = json_lines(&ok(&["df", "--json", &one]));
    assert!(shown[0]["available"].as_i64().unwrap() >= 1 << 20, "{shown}");
    let stat = ok(&["stat", "--json", &format!("{one}:/777")]);
    assert!(stat.contains("\"size\":1000"), "{stat}");
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
    fsck_clean(Path::new(&one));
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::Write;
    for options in [&["--size", "64m"][..], &[]] {
        let d = Dir::new();
        let image = d.str("a.img");
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
            .arg("build")
            .args(options)
            .args([&image, "-"])
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_size(100_000);
        tar.append_data(&mut header, "file", &pattern(100_000, 1)[..]).unwrap();
        // More than any buffer between us: the write ends when the program is reading.
        let mut stdin = child.stdin.take().unwrap();
        for _ in 0..20 {
            stdin.write_all(tar.get_ref()).unwrap();
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output));
        let left = fs::read_dir(d.0.path()).unwrap().count();
        assert_eq!(left, 0, "something is left: {}", text(&output));
    }
}

#[test]
fn maps_replace_users_and_groups_one_by_one() {
    if !gnu_tar() {
        return println!("skipped: no GNU tar");
    }
    let d = Dir::new();
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(tree.join(name), name).unwrap();
    }

    let users = d.file("users", b"# builders\n+1000 root:0\n+1001 +7\n");
    let groups = d.file("groups", b"+1000 wheel:5\n");
    let plain = d.str("plain.tar");
    for (name, uid, gid) in [("a", 1000, 1000), ("b", 1001, 1001), ("c", 1002, 1000)] {
        let made = Command::new("tar")
            .args(["-rf", &plain, "-C", tree.to_str().unwrap()])
            .args([&format!("--owner=u:{uid}"), &format!("--group=g:{gid}"), name])
            .status();
        assert!(made.unwrap().success());
    }
    let image = d.str("disk.img");
    ok(&["build", "--owner-map", &users, "--group-map", &groups, &image, &plain]);
    let listed = |image: &str| -> Vec<(String, u64, u64)> {
        let files: serde_json::Value = json_lines(&ok(&["ls", "--json", image]));
        let id = |file: &serde_json::Value, of: &str| file[of].as_u64().unwrap();
        let all = files.as_array().unwrap().iter();
        all.map(|f| (f["path"]["name"].as_str().unwrap().to_owned(), id(f, "uid"), id(f, "gid")))
            .collect()
    };
    let of = |name: &str, uid, gid| (name.to_owned(), uid, gid);
    assert_eq!(listed(&image), [of("/a", 0, 5), of("/b", 7, 1001), of("/c", 1002, 5)]);
    let bad = d.file("bad", b"+1000\n");
    fails(&["build", "--owner-map", &bad, &d.str("no.img"), &plain], 1, "line 1: ");
    let both = ["build", "--owner", "0:0", "--owner-map", &users, "no.img", &plain];
    fails(&both, 64, "cannot be used with");
}
