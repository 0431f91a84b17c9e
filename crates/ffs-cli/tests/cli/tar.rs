//! `ffs tar`: archives of images for tar of the host, and archives into images.

use crate::common::{
    Dir, assert_same, fails, ffs, fsck_clean, json_lines, make_tree, ok, pattern, run, set_mtime,
    text,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// An archive of these members: type, name, target of a link, data.
fn archive(members: &[(u8, &str, &str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (kind, name, link, data) in members {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::new(*kind));
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(1_000_000_000);
        // The builder refuses hostile names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        tar.append(&header, *data).unwrap();
    }
    tar.into_inner().unwrap()
}

/// Runs `ffs tar x IMAGE` on these bytes; returns the exit code and what it printed.
fn extract(bytes: &[u8], args: &[&str]) -> (Option<i32>, String) {
    let output = ffs().args(["tar", "x"]).args(args).write_stdin(bytes).output().unwrap();
    (output.status.code(), text(&output))
}

fn create(place: &str) -> Vec<u8> {
    let output = run(&["tar", "c", place]);
    assert!(output.status.success(), "{}", text(&output));
    output.stdout
}

/// An image with every kind of file, also those of BSD only.
fn every_kind(d: &Dir) -> String {
    let tree = d.path("tree");
    make_tree(&tree);
    let image = d.str("a.img");
    ok(&["build", "--acls", "--free", "8m", &image, tree.to_str().unwrap()]);
    let at = |path: &str| format!("{image}:{path}");
    let long = "n".repeat(250);
    ok(&["mkdir", "-p", &at(&format!("/{long}/{long}"))]);
    ok(&["cp", &d.file("f", b"deep"), &at(&format!("/{long}/{long}/{long}"))]);
    ok(&["ln", "-s", &"t".repeat(900), &at("/very-long-link")]);
    ok(&["chown", "4294967294:3000000", &at("/many")]);
    ok(&["touch", "-d", "1950-01-02T03:04:05.25", &at("/old")]);
    ok(&["touch", "-d", "2999-01-02T03:04:05", &at("/future")]);
    ok(&["truncate", "-s", "20g", &at("/huge")]);
    ok(&["setfacl", "-m", "u:1001:rwx,g:7:r", &at("/small")]);
    ok(&["setfacl", "-d", "-m", "u::rwx,g::rx,o::-,u:1001:rwx,m::rwx", &at("/dir")]);
    ok(&["xattr", "set", "user.odd=name%41", "value", &at("/large")]);
    ok(&["chflags", "schg,nodump", &at("/block"), &at("/small")]);
    image
}

#[test]
fn every_kind_of_file_goes_from_image_to_image() {
    let d = Dir::new();
    let image = every_kind(&d);
    let bytes = create(&image);
    assert!(bytes.len() < 12 << 20, "the holes of 20 GiB are not in it: {}", bytes.len());
    let copy = d.image("b.img", "64m", &[]);
    ok(&["tunefs", "-a", "enable", &copy]);
    let (code, text) = extract(&bytes, &[&copy]);
    assert_eq!(code, Some(0), "{text}");
    fsck_clean(Path::new(&copy));
    assert!(create(&copy) == bytes, "the copy makes another archive");
    // The same, by other commands.
    for expression in [&["-ls"][..], &["-flags", "+schg", "-print"]] {
        let list = |image: &str| {
            let lines = ok(&[&["find", image][..], expression].concat());
            let fields = |line: &str| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
            lines.lines().map(fields).collect::<Vec<_>>()
        };
        assert_eq!(list(&copy), list(&image));
    }
    for options in [&["-n", "/small"][..], &["-d", "/dir"]] {
        let acl =
            |image: &str| ok(&["getfacl", "-q", options[0], &format!("{image}:{}", options[1])]);
        assert_eq!(acl(&copy), acl(&image));
    }
    let value = ok(&["xattr", "get", "user.odd=name%41", &format!("{copy}:/large")]);
    assert_eq!(value.trim_end(), "value");
}

#[test]
fn tar_of_the_host_extracts_what_the_image_has() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let image = d.str("a.img");
    ok(&["build", "-n", &image, tree.to_str().unwrap()]);
    let archive = d.str("a.tar");
    ok(&["tar", "cf", &archive, &image]);
    let mut used = 0;
    for (program, options) in [
        ("tar", &["--xattrs", "--xattrs-include=*", "-p", "--numeric-owner"][..]),
        ("bsdtar", &["-p", "--numeric-owner"]),
    ] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: no {program}");
            continue;
        }
        let out = d.path(program);
        fs::create_dir(&out).unwrap();
        let mut command = Command::new(program);
        command.args(options).args(["-xf", &archive, "-C"]).arg(&out);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program}: {}", text(&output));
        if program == "bsdtar" {
            // It leaves the time of the directory that it extracts into.
            let of_tree = fs::metadata(&tree).unwrap();
            set_mtime(&out, of_tree.mtime(), of_tree.mtime_nsec());
        }
        assert_same(&tree, &out, &[]);
        let sparse = fs::metadata(out.join("sparse")).unwrap();
        assert!(sparse.blocks() * 512 < sparse.len() / 2, "{program}: holes are kept");
        // And back, as the host's program writes it.
        let back = Command::new(program).arg("-cf-").arg("-C").arg(&out).arg(".").output().unwrap();
        let copy = d.image(&format!("{program}.img"), "32m", &[]);
        let (code, text) = extract(&back.stdout, &[&copy]);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(ok(&["cat", &format!("{copy}:/dir/sub/deep/leaf")]), "leaf");
        used += 1;
    }
    println!("{used} programs of the host");
}

#[test]
fn a_file_or_a_directory_alone() {
    let d = Dir::new();
    let image = every_kind(&d);
    let names = |place: &str| -> Vec<String> {
        let bytes = create(place);
        let mut tar = tar::Archive::new(&bytes[..]);
        let path = |entry: tar::Entry<'_, _>| entry.path().unwrap().display().to_string();
        tar.entries().unwrap().map(|entry| path(entry.unwrap())).collect()
    };
    assert_eq!(names(&format!("{image}:/small")), ["small"]);
    assert_eq!(names(&format!("{image}:/dir/sub")), ["./", "./deep/", "./deep/leaf"]);
    let file = d.str("a.tar");
    let json = ok(&["tar", "c", "--json", "-f", &file, &format!("{image}:/dir")]);
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let member = |path: &str| lines.iter().find(|line| line["path"]["name"] == path).unwrap();
    assert_eq!((&member("hard")["type"], &member("hard")["size"]), (&"file".into(), &6.into()));
    let total = lines.last().unwrap();
    assert_eq!((&total["event"], &total["files"]), (&"total".into(), &2.into()));
    fails(&["tar", "c", "--json", &image], 64, "-f FILE");
    fails(&["tar", "c", "-f", &image, &image], 1, "is the image that is read");
    fails(&["tar", "x", "-f", &file, &format!("{image}:/nosuch")], 1, "/nosuch");
    fails(&["tar", "x", "-f", &file, &format!("{image}:/small")], 1, "not a directory");
    fails(&["tar", "t", &file], 64, "tar tf FILE");
}

#[test]
fn names_and_links_that_lead_out_change_nothing_outside() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", &at("/target"), &at("/outside")]);
    ok(&["cp", &d.file("f", b"old"), &at("/outside/file")]);
    ok(&["ln", "-s", "/outside", &at("/target/existing")]);
    let before = create(&at("/outside"));
    let bytes = archive(&[
        (b'0', "../outside/file", "", b"evil"),
        (b'0', "a/../../outside/file", "", b"evil"),
        (b'0', "/absolute", "", b"kept"),
        (b'2', "link", "../outside", b""),
        (b'0', "link/file", "", b"evil"),
        (b'0', "existing/file", "", b"evil"),
        (b'5', "existing/", "", b""),
        (b'1', "hard", "../outside/file", b""),
        (b'1', "hard2", "link/file", b""),
        (b'2', "name", "/outside/file", b""),
        (b'0', "name", "", b"replaces the link"),
        (b'0', "last", "", b"kept"),
    ]);
    let (code, text) = extract(&bytes, &[&at("/target")]);
    assert_eq!(code, Some(1), "{text}");
    assert!(create(&at("/outside")) == before, "changed outside: {text}");
    let refused = ["../outside/file: ", "a/../../outside/file: ", "link/file: ", "existing/file: "];
    for name in refused.into_iter().chain(["existing: ", "hard: ", "hard2: "]) {
        assert!(text.contains(&format!("ffs tar: {name}")), "{name} not in {text}");
    }
    assert_eq!(ok(&["cat", &at("/target/absolute"), &at("/target/last")]), "keptkept");
    assert_eq!(ok(&["cat", &at("/target/name")]), "replaces the link");
    fsck_clean(Path::new(&image));
}

#[test]
fn a_truncated_archive_names_the_member_and_keeps_the_others() {
    let d = Dir::new();
    let data = pattern(300_000, 1);
    let bytes =
        archive(&[(b'0', "one", "", &data), (b'0', "two", "", &data), (b'0', "three", "", b"3")]);
    let two = 512 + data.len().next_multiple_of(512);
    for (len, words, kept) in [
        (100, "truncated", &[][..]),
        (1000, "truncated (in the member one)", &[]),
        (two, "truncated (after the member one)", &["one"]),
        (two + 511, "truncated (after the member one)", &["one"]),
        (two + 512, "truncated (in the member two)", &["one"]),
        (2 * two - 1, "truncated (in the member two)", &["one", "two"]),
        (2 * two, "truncated (after the member two)", &["one", "two"]),
        (2 * two + 1024, "truncated (after the member three)", &["one", "three", "two"]),
        (bytes.len() - 512, "", &["one", "three", "two"]),
    ] {
        let image = d.image("a.img", "8m", &["-n"]);
        let file = d.file("a.tar", &bytes[..len]);
        for args in [&[image.as_str()][..], &["-f", &file, &image]] {
            let (code, text) = extract(&bytes[..len], args);
            assert_eq!(code, Some(i32::from(!words.is_empty())), "{len}: {text}");
            assert!(text.contains(words), "{len}: {text}");
            let list = ok(&["ls", &image]);
            let missing = kept.iter().find(|name| !list.lines().any(|line| line == **name));
            assert!(missing.is_none() && list.lines().count() <= kept.len(), "{len}: {list}");
        }
        fsck_clean(Path::new(&image));
        fs::remove_file(&image).unwrap();
    }
    let mut damaged = bytes.clone();
    damaged[two] ^= 1;
    let image = d.image("b.img", "8m", &[]);
    let (code, text) = extract(&damaged, &[&image]);
    assert!(code == Some(1) && text.contains("damaged (after the member one)"), "{text}");
    let (code, text) = extract(b"no archive at all", &[&image]);
    assert!(code == Some(1), "{text}");
}

#[test]
fn a_full_volume_keeps_what_was_extracted() {
    let d = Dir::new();
    let image = d.image("a.img", "4m", &[]);
    let data = pattern(1 << 20, 1);
    let names: Vec<String> = (0..8).map(|n| format!("file{n}")).collect();
    let members: Vec<(u8, &str, &str, &[u8])> =
        names.iter().map(|name| (b'0', name.as_str(), "", &data[..])).collect();
    let (code, text) = extract(&archive(&members), &[&image]);
    assert_eq!(code, Some(1));
    assert!(text.contains("what was extracted before stays"), "{text}");
    assert!(text.contains("file3") || text.contains("file2"), "{text}");
    fsck_clean(Path::new(&image));
    assert!(ok(&["cat", &format!("{image}:/file0")]).len() > 500_000);
}

#[test]
fn existing_files_are_replaced_or_kept() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["cp", &d.file("f", b"old"), &at("/one")]);
    ok(&["ln", &at("/one"), &at("/other-name")]);
    let bytes = archive(&[(b'0', "one", "", b"new"), (b'0', "two", "", b"new")]);
    assert_eq!(extract(&bytes, &["-k", &image]).0, Some(0));
    assert_eq!(ok(&["cat", &at("/one"), &at("/two")]), "oldnew");
    let (code, text) = extract(&bytes, &["-v", "--owner", "7:8", &image]);
    assert!(code == Some(0) && text.contains("x ./two"), "{text}");
    assert_eq!(ok(&["cat", &at("/one"), &at("/other-name")]), "newold");
    assert!(ok(&["ls", "-l", &at("/one")]).contains(" 7 8 "));
}

#[test]
fn members_are_those_that_tar_extracts() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    fs::create_dir_all(tree.join("only/deep")).unwrap();
    fs::write(tree.join("only/deep/large"), pattern(600_000, 3)).unwrap();
    fs::write(tree.join("only/first"), "1").unwrap();
    fs::hard_link(tree.join("only/first"), tree.join("only/second")).unwrap();
    fs::write(tree.join("only.not"), pattern(700_000, 4)).unwrap();
    set_mtime(&tree.join("only"), 1_500_000_000, 0);
    let archive = d.str("a.tar");
    let sh = |script: &str| {
        let done = Command::new("sh").args(["-ec", script]).current_dir(d.0.path()).status();
        assert!(done.unwrap().success(), "{script}");
    };
    sh("tar --format=posix -cf a.tar -C tree . && mkdir wanted");
    let image = d.image("t.img", "32m", &[]);
    for (n, members) in [
        &["./only/deep"][..],
        &["only"],
        &["./only/first", "only.not"],
        &["only/second", "only/first"],
    ]
    .iter()
    .enumerate()
    {
        let names: Vec<String> =
            members.iter().map(|name| format!("./{}", name.trim_start_matches("./"))).collect();
        sh(&format!("mkdir wanted/{n} && tar xpf a.tar -C wanted/{n} {}", names.join(" ")));
        let place = format!("{image}:/{n}");
        ok(&["mkdir", &place]);
        ok(&[&["tar", "xzf", &archive, &place], *members].concat());
        let listed = |root: &Path| {
            let mut all: Vec<String> = crate::common::walk(root)
                .iter()
                .map(|path| path.strip_prefix(root).unwrap().display().to_string())
                .collect();
            all.sort();
            all
        };
        let out = d.path(&format!("out{n}"));
        ok(&["cp", "-a", &place, out.to_str().unwrap()]);
        let wanted = d.path(&format!("wanted/{n}"));
        assert_eq!(listed(&out), listed(&wanted), "{members:?}");
        for path in listed(&wanted).iter().filter(|path| wanted.join(path).is_file()) {
            assert!(fs::read(out.join(path)).unwrap() == fs::read(wanted.join(path)).unwrap());
        }
    }
    fsck_clean(Path::new(&image));
    // What the archive lacks is an error after the others, as with bsdtar.
    ok(&["mkdir", &format!("{image}:/z")]);
    let place = format!("{image}:/z");
    fails(&["tar", "xf", &archive, &place, "only/first", "onl", "none"], 1, "none");
    assert_eq!(ok(&["ls", &format!("{image}:/z")]), "only\n");
    assert_eq!(ok(&["ls", &format!("{image}:/z/only")]), "first\n");
    fails(&["tar", "xf", &archive, &place, "../x"], 64, "'..'");
    fails(&["tar", "cf", &d.str("new.tar"), &place, "only"], 64, "only");
    fails(&["tar", "czf", &d.str("new.tar"), &place], 64, "ffs tar c IMAGE:/PATH | gzip");
}

#[test]
fn birth_times_are_kept_and_gnu_tar_does_not_warn() {
    let d = Dir::new();
    let (image, other) = (d.image("a.img", "8m", &[]), d.image("b.img", "8m", &[]));
    let (file, root) = (format!("{image}:/f"), format!("{image}:/"));
    ok(&["touch", &file]);
    ok(&["touch", "-d", "2035-01-01T00:00:00Z", &file]);
    let birth = |path: &str| {
        let stat: serde_json::Value = json_lines(&ok(&["stat", "--json", path]));
        let birth = stat[0]["birthtime"].clone();
        assert!(birth != stat[0]["mtime"] && !birth.is_null(), "{stat}");
        birth
    };
    for option in [None, Some("--birth-times")] {
        let output = ffs().args(["tar", "c"]).args(option).arg(&root).output().unwrap();
        let (code, shown) = extract(&output.stdout, &[&format!("{other}:/")]);
        assert_eq!(code, Some(0), "{shown}");
        assert_eq!(birth(&file), birth(&format!("{other}:/f")), "{option:?}");
        let archive = d.file("a.tar", &output.stdout);
        let Ok(list) = Command::new("tar").args(["-t", "-f", &archive]).output() else { continue };
        let warned = String::from_utf8_lossy(&list.stderr).contains("LIBARCHIVE.creationtime");
        assert_eq!(warned, option.is_some(), "{}", text(&list));
        assert!(option.is_some() || list.stderr.is_empty(), "{}", text(&list));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn pipes_that_take_data_are_enlarged() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    ok(&["cp", &d.file("f", b"text"), &format!("{image}:/f")]);
    let (file, size) = (format!("{image}:/f"), 256 << 10);
    for args in [
        &["tar", "c", &image][..],
        &["cat", &file],
        &["cp", &file, "-"],
        &["dump", "-f", "-", &image],
    ] {
        for (before, after) in [(64 << 10, size), (4 * size, 4 * size)] {
            let (read, write) = rustix::pipe::pipe().unwrap();
            rustix::pipe::fcntl_setpipe_size(&write, before).unwrap();
            let mut command = Command::new(assert_cmd::cargo::cargo_bin("ffs"));
            assert!(command.args(args).stdout(write).status().unwrap().success(), "{args:?}");
            assert_eq!(rustix::pipe::fcntl_getpipe_size(&read).unwrap(), after, "{args:?}");
        }
    }
}
