//! `ffs diff`: two images, an image and a tree of the host, and each attribute.

use crate::common::{Dir, fails, is_root, make_tree, ok, run, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The lines of `ffs diff`, which must exit with `code`.
fn diff(args: &[&str], code: i32) -> Vec<String> {
    let output = run(&[&["diff"][..], args].concat());
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn an_image_is_the_same_as_its_tree_and_its_copy() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let tree = tree.to_str().unwrap();
    let (image, copy) = (d.str("a.img"), d.image("b.img", "32m", &[]));
    ok(&["build", &image, tree]);
    assert_eq!(diff(&[&image, tree], 0), [""; 0]);
    assert_eq!(diff(&[tree, &image], 0), [""; 0]);
    ok(&["cp", "-a", &format!("{image}:/."), &format!("{copy}:/")]);
    assert_eq!(diff(&[&image, &copy, "--also", "btime"], 0), [""; 0]);
    assert_eq!(diff(&[&format!("{image}:/dir"), &format!("{tree}/dir")], 0), [""; 0]);
    assert_eq!(diff(&[&format!("{image}:/large"), &format!("{tree}/large")], 0), [""; 0]);
    assert_eq!(diff(&[&format!("{image}:/large"), &format!("{copy}:/large")], 0), [""; 0]);
    let before = fs::read(&image).unwrap();
    diff(&[&image, &image], 0);
    assert!(fs::read(&image).unwrap() == before, "the image is only read");
}

/// Two images that differ in every attribute.
fn changed(d: &Dir) -> (String, String) {
    let one = d.image("one.img", "16m", &[]);
    ok(&["tunefs", "-a", "enable", &one]);
    let at = |image: &str, path: &str| format!("{image}:{path}");
    for name in ["size", "content", "mode", "owner", "flags", "time", "nlink", "xattr", "acl"] {
        ok(&["cp", &d.file("f", &[7; 70_000]), &at(&one, &format!("/{name}"))]);
    }
    ok(&["mkdir", "-p", &at(&one, "/type/below"), &at(&one, "/only-old/below"), &at(&one, "/zz")]);
    ok(&["ln", "-s", "a", &at(&one, "/link")]);
    let two = d.str("two.img");
    fs::copy(&one, &two).unwrap();
    assert_eq!(diff(&[&one, &two], 0), [""; 0]);
    let new = |path: &str| at(&two, path);
    ok(&["truncate", "-s", "70001", &new("/size")]);
    let mut changed = vec![7; 70_000];
    changed[66_000] = 8;
    ok(&["cp", &d.file("g", &changed), &new("/content")]);
    ok(&["chmod", "4711", &new("/mode")]);
    ok(&["chown", "7:8", &new("/owner")]);
    ok(&["chflags", "uchg,nodump", &new("/flags")]);
    ok(&["ln", &new("/nlink"), &new("/zz/second")]);
    ok(&["xattr", "set", "user.k", "value", &new("/xattr")]);
    ok(&["setfacl", "-m", "u:5:r", &new("/acl")]);
    ok(&["rm", "-r", &new("/type"), &new("/only-old")]);
    ok(&["cp", &d.file("h", b"h"), &new("/type")]);
    ok(&["rm", &new("/link")]);
    ok(&["ln", "-s", "b", &new("/link")]);
    for path in ["/size", "/content", "/", "/zz"] {
        for image in [&one, &two] {
            ok(&["touch", "-d", "2001-02-03T04:05:06", &at(image, path)]);
        }
    }
    for image in [&one, &two] {
        ok(&["touch", "-h", "-d", "2001-02-03T04:05:06", &at(image, "/link")]);
    }
    ok(&["touch", "-d", "2001-02-03T04:05:06", &new("/time")]);
    (one, two)
}

#[test]
fn each_attribute_is_found_and_can_be_ignored() {
    let d = Dir::new();
    let (one, two) = changed(&d);
    let lines = diff(&[&one, &two], 1);
    let has = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    for (line, count) in [
        ("size: size 70000 -> 70001", 1),
        ("content: content differs at byte 66000", 1),
        ("mode: mode 0644 -> 4711", 1),
        ("owner: uid 0 -> 7", 1),
        ("owner: gid 0 -> 8", 1),
        ("flags: flags - -> uchg,nodump", 1),
        ("time: time ", 1),
        ("nlink: nlink 1 -> 2", 1),
        ("xattr: xattr user.k none -> \"value\"", 1),
        ("acl: acl access none -> user::rw-,user:5:r--,", 1),
        ("type: type dir -> file", 1),
        ("link: link a -> b", 1),
        ("Only in ", 2),
    ] {
        assert_eq!(has(line), count, "{line}: {lines:#?}");
    }
    assert!(lines.contains(&format!("Only in {one}:/: only-old")), "{lines:#?}");
    assert!(lines.contains(&format!("Only in {two}:/zz: second")), "{lines:#?}");
    assert_eq!(lines.len(), 14, "{lines:#?}");
    for name in ["size", "mode", "flags", "time", "nlink", "xattr", "acl", "type", "link"] {
        let found = diff(&["--only", name, &one, &two], 1);
        assert_eq!(found.iter().filter(|line| !line.starts_with("Only")).count(), 1, "{found:?}");
        let rest = diff(&["--ignore", name, &one, &two], 1);
        // Without sizes, files of different sizes differ in their content.
        let left = lines.len() - usize::from(name != "size");
        assert_eq!(rest.len(), left, "--ignore {name}: {rest:#?}");
    }
    assert_eq!(diff(&["--only", "owner", "--ignore", "uid", &one, &two], 1).len(), 3);
    let brief = diff(&["-q", "-x", "only-*", "-x", "second", &one, &two], 1);
    assert_eq!(brief.len(), 11, "{brief:#?}");
    assert!(brief.contains(&"content differs".to_owned()));
    ok(&["diff", "-x", "*", &one, &two]);
    // The patterns are those of cp.
    let left = |patterns: &[&str]| {
        let patterns = patterns.iter().flat_map(|pattern| ["-x", pattern]);
        let args: Vec<&str> = ["-q"].into_iter().chain(patterns).chain([&*one, &two]).collect();
        diff(&args, 1).len()
    };
    let all = left(&[]);
    assert_eq!(left(&["/content"]), all - 1);
    assert_eq!(left(&["content/"]), all, "a slash at the end is for directories");
    assert_eq!(left(&["c**t"]), all - 1);
    assert_eq!(left(&["none/content"]), all);
    json_has_the_same(&one, &two);
}

fn json_has_the_same(one: &str, two: &str) {
    let lines = diff(&["--json", one, two], 1);
    let files: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file = |name: &str| files.iter().find(|file| file["path"]["name"] == name).unwrap();
    assert_eq!(file("only-old")["only_in"], "old");
    assert_eq!(file("zz/second")["only_in"], "new");
    assert_eq!(file("content")["differences"][0]["offset"], 66_000);
    let mode = &file("mode")["differences"][0];
    assert_eq!((&mode["old"], &mode["new"]), (&"0644".into(), &"4711".into()));
}

#[test]
fn names_of_one_file_are_compared_as_groups() {
    let d = Dir::new();
    let (one, two) = (d.image("one.img", "8m", &["-n"]), d.str("two.img"));
    let at = |image: &str, path: &str| format!("{image}:{path}");
    for name in ["/a", "/b", "/c"] {
        ok(&["cp", &d.file("f", b"same"), &at(&one, name)]);
    }
    fs::copy(&one, &two).unwrap();
    ok(&["ln", &at(&one, "/a"), &at(&one, "/d")]);
    ok(&["ln", &at(&two, "/b"), &at(&two, "/d")]);
    let lines = diff(&["--only", "nlink,content", &one, &two], 1);
    let wanted = ["a: nlink 2 -> 1", "b: nlink 1 -> 2", "d: nlink a name of a -> a name of b"];
    assert_eq!(lines, wanted);
}

#[test]
fn snapshots_and_later_states() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["cp", &d.file("f", b"old"), &at("/f")]);
    ok(&["snapshot", "create", &at("/.snap/s1")]);
    let snapshot = at("/.snap/s1");
    ok(&["cp", &d.file("f", b"new"), &at("/f")]);
    ok(&["cp", &d.file("g", b"g"), &at("/g")]);
    let lines = diff(&["--ignore", "time", &snapshot, &image], 1);
    let only = format!("Only in {image}:/: g");
    assert_eq!(lines, ["f: content differs at byte 0", only.as_str()]);
    let output = run(&["diff", &snapshot, &image]);
    assert!(text(&output).contains("1 snapshot left out"), "{}", text(&output));
}

#[test]
fn trouble_has_its_own_exit_code() {
    let d = Dir::new();
    let tree = d.path("tree");
    fs::create_dir_all(tree.join("closed/below")).unwrap();
    fs::write(tree.join("secret"), b"secret").unwrap();
    fs::write(tree.join("shown"), b"shown").unwrap();
    let image = d.str("a.img");
    ok(&["build", "--owner", "0:0", &image, tree.to_str().unwrap()]);
    let host = tree.to_str().unwrap();
    fails(&["diff", &image, &d.str("nosuch")], 2, "nosuch");
    fails(&["diff", &format!("{image}:/nosuch"), host], 2, "/nosuch");
    fails(&["diff", host, host], 2, "diff -r");
    fails(&["diff", "--only", "modes", &image, host], 2, "type, size, content");
    fails(&["diff", &image], 2, "NEW");
    let closed = |mode| {
        for name in ["closed", "secret"] {
            fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    closed(0);
    let args = ["diff", "--ignore", "owner,mode,time", &image, host];
    let output = run(&args);
    closed(0o755);
    if is_root() {
        println!("skipped: root reads every file");
        return assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    }
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains("closed: Permission denied") && printed.contains("secret: Perm"));
    assert!(!printed.contains("Only in"), "what cannot be read is not missing: {printed}");
}
