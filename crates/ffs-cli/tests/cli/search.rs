//! `ffs find` and `ffs du`, beside find(1) of the host; `ffs touch` and `ffs truncate`.

use crate::common::{Dir, fails, fsck_clean, json_lines, make_tree, ok, run, text};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The lines of find(1) below `root`, as paths of the image.
fn host(root: &Path, expression: &[&str]) -> Option<BTreeSet<String>> {
    let output = Command::new("find")
        .arg(".")
        .args(expression)
        .env("TZ", "UTC")
        .current_dir(root)
        .output()
        .ok()?;
    assert!(output.status.success(), "{expression:?}: {}", text(&output));
    let path = |line: &[u8]| {
        let text = String::from_utf8_lossy(line).into_owned();
        let path = text.strip_prefix('.').unwrap_or(&text).to_owned();
        if path.is_empty() { "/".to_owned() } else { path }
    };
    let lines = output.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    Some(lines.map(path).collect())
}

/// Expressions that find(1) of GNU has, too. NEWER is a file of the tree.
const EXPRESSIONS: &[&[&str]] = &[
    &[],
    &["-type", "f"],
    &["-type", "d", "-o", "-type", "l"],
    &["!", "-type", "d"],
    &["-not", "-name", "*a*"],
    &["-name", "?*[a-m]*"],
    &["-iname", "*E*"],
    &["-path", "*/*/*"],
    &["-maxdepth", "1"],
    &["-mindepth", "2", "-maxdepth", "3"],
    &["-type", "f", "-size", "+10c", "-size", "-5000c"],
    &["-type", "f", "-size", "0"],
    &["-type", "f", "-size", "-3"],
    &["-empty"],
    &["-links", "+1", "-type", "f"],
    &["-perm", "644"],
    &["-perm", "-0200", "-perm", "/011"],
    &["-uid", "0", "-a", "-gid", "0"],
    &["(", "-name", "a*", "-o", "-name", "b*", ")", "-type", "f"],
    &["-type", "d", "-depth"],
    &["-name", "*e*", "-prune", "-o", "-type", "f", "-print"],
    &["-newer", "NEWER"],
    &["-type", "f", "-false"],
    &["-mtime", "+1", "-o", "-mmin", "-100000"],
    &["-regextype", "posix-extended", "-regex", ".*/(a|l|s)[a-z]+"],
    &["-regextype", "posix-extended", "-iregex", ".*/FILE-NUMBER-0{3}[0-9]-?x*"],
    &["-samefile", "NEWER"],
    &["-lname", "*all"],
    &["-ilname", "SM*"],
    &["-newermm", "NEWER"],
    &["-newermt", "2005-06-01", "!", "-newermt", "2005-09-01 12:00:00Z"],
    &["-perm", "u=rw,go=r"],
    &["-perm", "-u+s"],
    &["-perm", "/u+x,g=w"],
    &["-type", "f", "-nouser"],
    &["-nogroup"],
    &["-xdev", "-type", "p"],
    &["-mount", "-user", "root", "-type", "l"],
    &["-regextype", "posix-basic", "-regex", r".*/\(a\|l\|s\)[a-z]\+"],
    &["-regextype", "emacs", "-regex", r".*/\(a\|l\|s\)[a-z]+"],
    &["-xtype", "l"],
    &["-xtype", "f,d", "-type", "l"],
    &["-daystart", "-mtime", "0"],
    &["-daystart", "-mtime", "+3"],
    &["-daystart", "-mmin", "-1440"],
    &["-name", "*a*", "-print", ",", "-type", "l", "-print"],
    &["(", "-false", ",", "-name", "*e*", ")", "-type", "f"],
    &["-type", "f", "-size", "-4b", "-size", "+30w"],
    &["-noleaf", "-ignore_readdir_race", "-iwholename", "*/S*"],
];

#[test]
fn the_same_files_are_found_as_by_find_of_the_host() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    // The owners without a name are those that the image's own files lack.
    std::fs::create_dir(tree.join("etc")).unwrap();
    for file in ["passwd", "group"] {
        let copied = std::fs::copy(Path::new("/etc").join(file), tree.join("etc").join(file));
        copied.unwrap();
    }
    let image = d.str("a.img");
    ok(&["build", &image, tree.to_str().unwrap()]);
    let newer = std::fs::read_dir(&tree).unwrap().next().unwrap().unwrap().file_name();
    let newer = newer.into_string().unwrap();
    let (here, inside) = (format!("./{newer}"), format!("/{newer}"));
    for expression in EXPRESSIONS {
        let with = |file: &str| -> Vec<String> {
            let word = |w: &&str| if *w == "NEWER" { file.to_owned() } else { (*w).to_owned() };
            expression.iter().map(word).collect()
        };
        let words: Vec<String> = with(&here);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(expected) = host(&tree, &words) else {
            println!("skipped: there is no find(1)");
            return;
        };
        let words = with(&inside);
        // GNU's default are the expressions of Emacs, and its paths begin with a dot.
        let start = if words.get(1).is_some_and(|word| word == "posix-extended") { 2 } else { 0 };
        let words = &words[start..];
        let args: Vec<&str> =
            ["find", &image].into_iter().chain(words.iter().map(String::as_str)).collect();
        let output = run(&args);
        assert!(output.status.success(), "{expression:?}: {}", text(&output));
        let lines = output.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let found: BTreeSet<String> =
            lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        let other: Vec<&String> =
            found.symmetric_difference(&expected).filter(|path| *path != "/.snap").collect();
        assert!(other.is_empty(), "{expression:?}: only one of both has {other:?}");
    }
}

#[test]
fn what_only_bsd_has_is_found_and_printed() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", &at("/etc"), &at("/deep")]);
    ok(&["cp", &d.file("group", b"staff:*:4244:\n"), &at("/etc/group")]);
    ok(&["cp", &d.file("f", b"content"), &at("/f")]);
    ok(&["ln", "-s", "f", &at("/link")]);
    ok(&["chflags", "schg,nodump", &at("/f")]);
    ok(&["chown", ":staff", &at("/deep")]);
    ok(&["touch", "-d", "1999-12-31T00:00:00", &at("/deep")]);
    let find = |expression: &[&str]| ok(&[&["find", &image][..], expression].concat());
    assert_eq!(find(&["-flags", "-schg"]), "/f\n");
    assert_eq!(find(&["-flags", "schg,nodump"]), "/f\n");
    assert_eq!(find(&["-flags", "schg"]), "");
    assert_eq!(find(&["-flags", "+schg,uchg", "-print0"]), "/f\0");
    assert_eq!(find(&["-group", "staff"]), "/deep\n");
    assert_eq!(find(&["-mtime", "+1000"]), "/deep\n");
    assert_eq!(find(&["!", "-newermt", "2000-01-01"]), "/deep\n");
    assert_eq!(find(&["!", "-newerat", "@946684800", "!", "-newermm", "/deep"]), "/deep\n");
    assert_eq!(find(&["!", "-newercm", "/deep"]), "");
    assert_eq!(find(&["-newerBt", "2100-01-01T00:00:00"]), "");
    assert_eq!(find(&["-type", "l", "-ls"]).trim_end().rsplit_once(' ').unwrap().1, "f");
    assert_eq!(find(&["-type", "f", "-print", "-quit"]), "/etc/group\n");
    // As in find(1), the search ends before the print that is implied.
    assert_eq!(find(&["-type", "f", "-quit", "-o", "-false"]), "");
    assert_eq!(find(&["-depth"]).lines().last(), Some("/"));
    let json = ok(&["find", "--json", &at("/f"), &at("/link")]);
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["path"]["name"], &lines[0]["size"]), (&"/f".into(), &7.into()));
    assert_eq!(lines[1]["target"]["name"], "f");
    for (expression, message) in [
        (&["-nam", "x"][..], "did you mean '-name'?"),
        (&["-name"], "its value is missing"),
        (&["-size", "x"], "a size such as"),
        (&["(", "-true"], "a closing parenthesis is missing"),
        (&["-true", ")"], "is not expected here"),
        (&["-o"], "a test or an action is missing before it"),
        (&["!"], "the expression ends too early"),
        (&["-perm", "9"], "a mode such as"),
        (&["-flags", "none"], "flags such as"),
        (&["-L"], "-L: this option belongs before the image; write: ffs find -L IMAGE"),
        (&["-follow"], "before the image; write: ffs find -L IMAGE"),
        (&["-printf", "%p %Q\\n"], "-printf %p %Q\\n: %Q: no such directive"),
        (&["-printf", "%p\\q"], "\\q: no such escape"),
        (&["-printf", "%TJ"], "%TJ: no such directive"),
        (&["-printf"], "its value is missing"),
        (&["-regextype", "perl"], "posix-extended (the default), posix-basic or emacs is expected"),
        (&["-regex", "("], "-regex (: ) is missing; the expression is read as posix-extended"),
        (&[","], ",: a test or an action is missing before it"),
        (&["-true", ","], "the expression ends too early"),
        (&["-newermt", "yesterday"], "is not a time such as"),
        (&["-newerXY", "/f"], "no such test or action"),
        (&["-exec", "rm", "{}", ";"], "ffs find --prefix ... -print0 | xargs -0 ffs COMMAND"),
        (&["-name", "etc", "-prune", "-o", "-delete"], "-delete implies -depth"),
    ] {
        fails(&[&["find", &image][..], expression].concat(), 64, message);
    }
    let hint = "a file in an expression is a path of the image: /f";
    fails(&["find", &image, "-newer", "a.img:/f"], 1, hint);
    fails(&["find", "-name", "x"], 64, "is needed before the expression");
    fails(&[&["find", &image][..], &vec!["!"; 5000], &["-true"]].concat(), 64, "too many");
    fails(&["find", &at("/missing")], 1, "/missing");
}

#[test]
fn usage_is_counted_once_and_in_every_unit() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-b", "16384", "-f", "2048"]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", &at("/d"), &at("/d/e")]);
    ok(&["cp", &d.file("f", &[1; 100_000]), &at("/d/f")]);
    ok(&["ln", &at("/d/f"), &at("/d/g")]);
    ok(&["truncate", "-s", "1g", &at("/d/e/hole")]);
    // Six blocks of 16 KiB, and a fragment of 2 KiB for the last 1,696 bytes.
    let file = 100_352;
    let dirs = 2 * 2048;
    let bytes = |options: &[&str], path: &str| -> u64 {
        let out = ok(&[&["du", "--json"][..], options, &[&at(path)]].concat());
        let line: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        line["bytes"].as_u64().unwrap()
    };
    let hole = bytes(&["-s"], "/d/e/hole");
    assert!(hole <= 3 * 16384, "a hole uses no more than what leads to its end: {hole}");
    assert_eq!(bytes(&["-s"], "/d"), file + dirs + hole, "a second name counts once");
    assert_eq!(bytes(&["-A", "-s"], "/d/e/hole"), 1 << 30);
    let kib = (file + dirs + hole).div_ceil(1024);
    assert_eq!(ok(&["du", "-sk", &at("/d")]), format!("{kib}\t/d\n"));
    assert_eq!(ok(&["du", "-s", &at("/d")]), format!("{}\t/d\n", (file + dirs + hole) / 512));
    assert!(ok(&["du", "-sh", &at("/d")]).ends_with("K\t/d\n"));
    assert_eq!(ok(&["du", "-d", "0", &at("/d")]).lines().count(), 1);
    assert_eq!(ok(&["du", &at("/d")]).lines().count(), 2);
    assert_eq!(ok(&["du", "-a", &at("/d")]).lines().count(), 5);
    assert!(ok(&["du", "-c", &at("/d"), &at("/d/e")]).ends_with("\ttotal\n"));
    // Two names in two arguments are one file, and two files on request.
    let total = |options: &[&str]| {
        let shown = ok(&[&["du", "-c"][..], options, &[&at("/d/f"), &at("/d/g")]].concat());
        shown.lines().last().unwrap().to_owned()
    };
    assert_eq!(total(&[]), format!("{}\ttotal", file / 512));
    assert_eq!(total(&["-l"]), format!("{}\ttotal", 2 * file / 512));
    // Also through another name of the image.
    let other = at("/d/g").replace("/a.img:", "/./a.img:");
    let shown = ok(&["du", "-c", &at("/d/f"), &other]);
    assert!(shown.ends_with(&format!("\n{}\ttotal\n", file / 512)), "{shown}");
    assert_eq!(total(&["--apparent-size"]), format!("{}\ttotal", 100_000_u32.div_ceil(512)));
    fails(&["du", &at("/missing")], 1, "/missing");
    fails(&["du", "-s", "-d", "1", &at("/d")], 64, "cannot be used with");
}

#[test]
fn times_and_sizes_are_set() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let stat = |path: &str| -> serde_json::Value {
        let all: serde_json::Value = json_lines(&ok(&["stat", "--json", &at(path)]));
        all[0].clone()
    };
    ok(&["touch", &at("/new"), &at("/other")]);
    assert_eq!((&stat("/new")["size"], &stat("/new")["uid"]), (&0.into(), &0.into()));
    ok(&["touch", "-d", "2002-06-10T09:00:00.25", &at("/new")]);
    let (modified, accessed) = (stat("/new")["mtime"].clone(), stat("/new")["atime"].clone());
    assert_eq!(modified["text"], "2002-06-10 09:00:00.250000000Z");
    assert_eq!(modified, accessed);
    ok(&["touch", "-a", "-t", "197001020000", &at("/new")]);
    assert_eq!(
        (&stat("/new")["atime"]["seconds"], &stat("/new")["mtime"]),
        (&86400.into(), &modified)
    );
    ok(&["ln", "-s", "new", &at("/link")]);
    ok(&["touch", "-h", "-m", "-d", "@5", &at("/link")]);
    assert_eq!(
        (&stat("/link")["mtime"]["seconds"], &stat("/new")["mtime"]),
        (&5.into(), &modified)
    );
    ok(&["touch", "-r", &at("/new"), &at("/other")]);
    assert_eq!(
        (&stat("/other")["mtime"], &stat("/other")["atime"]["seconds"]),
        (&modified, &86400.into())
    );
    ok(&["touch", "-c", &at("/none")]);
    ok(&["truncate", "-c", "-s", "9", &at("/none")]);
    fails(&["stat", &at("/none")], 1, "/none");
    ok(&["touch", "-h", &at("/none")]);
    fails(&["stat", &at("/none")], 1, "/none");
    ok(&["mkdir", &at("/dir")]);
    ok(&["ln", "-s", "dir/by-link", &at("/one")]);
    ok(&["ln", "-s", "/one", &at("/dir/two")]);
    ok(&["touch", &at("/dir/two")]);
    assert_eq!(stat("/dir/by-link")["size"], 0);
    ok(&["ln", "-s", "/missing/file", &at("/lost")]);
    fails(&["touch", &at("/lost")], 1, "a symbolic link to /missing/file");
    ok(&["ln", "-s", "/loop", &at("/loop")]);
    fails(&["touch", &at("/loop")], 1, "/loop: too many");
    fails(&["touch", "-d", "yesterday", &at("/new")], 64, "is not a time such as");

    ok(&["cp", &d.file("f", b"content"), &at("/f")]);
    for (size, expected) in [("4", 4), ("+4", 8), ("%5", 10), ("-3", 7), ("/4", 4), ("1k", 1024)] {
        ok(&["truncate", "-s", size, &at("/f")]);
        assert_eq!(stat("/f")["size"], expected, "{size}");
    }
    let cat = run(&["cat", &at("/f")]).stdout;
    assert_eq!((&cat[..4], cat[4..].iter().all(|b| *b == 0)), (&b"cont"[..], true));
    ok(&["truncate", "-r", &at("/f"), &at("/made")]);
    assert_eq!(stat("/made")["size"], 1024);
    fails(&["truncate", "-s", "0", &at("/")], 1, "is a directory");
    fails(&["truncate", &at("/f")], 64, "-s");
    fails(&["truncate", "-s", "9000p", &at("/f")], 1, "file too large");
    fails(&["truncate", "-s", "1", &at("/no/such")], 1, "/no/such");
    fsck_clean(Path::new(&image));
}

#[test]
fn files_without_an_owner_are_those_that_the_image_does_not_name() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["touch", &at("/root"), &at("/mine"), &at("/lost")]);
    ok(&["chown", "4244:4245", &at("/mine")]);
    ok(&["chown", "4246:4247", &at("/lost")]);
    let find = |words: &[&str]| ok(&[&["find", &image, "-type", "f"][..], words].concat());
    // The names of the host do not count, or -delete would remove what they do not name.
    for (word, file, hint) in [
        ("-nouser", "/etc/passwd", "every user would be unknown; test numbers, as in -uid +1000"),
        ("-nogroup", "/etc/group", "every group would be unknown; test numbers, as in -gid +1000"),
    ] {
        let words = format!("{word}: {image} has no {file}, so that {hint}");
        fails(&["find", &image, word, "-delete"], 64, &words);
    }
    for (word, name, file) in [("-user", "root", "passwd"), ("-group", "daemon", "group")] {
        let words = format!("{word} {name}: {image} has no /etc/{file} to look the name up in; ");
        fails(&["find", &image, word, name], 64, &(words + "give a number"));
    }
    assert_eq!(find(&["-user", "4244", "-group", "4245"]), "/mine\n");
    ok(&["mkdir", &at("/etc")]);
    ok(&["cp", &d.file("passwd", b"# no users\n"), &at("/etc/passwd")]);
    fails(&["find", &image, "-nouser"], 64, &format!("/etc/passwd of {image} names no user"));
    ok(&["cp", &d.file("passwd", b"me:*:4244:4245::0:0:Me:/:/bin/sh\n"), &at("/etc/passwd")]);
    ok(&["cp", &d.file("group", b"us:*:4245:\n"), &at("/etc/group")]);
    let etc = "/etc/group\n/etc/passwd\n";
    assert_eq!(find(&["-nouser"]), format!("{etc}/lost\n/root\n"));
    assert_eq!(find(&["-nogroup"]), format!("{etc}/lost\n/root\n"));
    assert_eq!(find(&["!", "-nouser", "!", "-nogroup"]), "/mine\n");
    assert_eq!(find(&["-user", "me"]), "/mine\n");
    let words = format!("-user root: no such user in /etc/passwd of {image}; print the names with");
    fails(&["find", &image, "-user", "root"], 64, &words);
    let words = format!("`ffs cat {image}:/etc/group`, or give a number");
    fails(&["find", &image, "-group", "4245x"], 64, &words);
}

#[test]
fn what_is_found_is_deleted_or_given_to_other_commands() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let image = d.str("a.img");
    ok(&["build", "--free", "1m", &image, tree.to_str().unwrap()]);
    let find = |words: &[&str]| ok(&[&["find", &image][..], words].concat());
    let count = |words: &[&str]| find(words).lines().count();
    assert_eq!(count(&["-path", "/many/*", "-type", "f"]), 300);
    let deleted = find(&["-path", "/many/*-00*", "-delete", "-print"]);
    assert_eq!(deleted.lines().count(), 100);
    assert_eq!(count(&["-path", "/many/*"]), 200);
    // A directory follows its entries; one that is not empty is reported and is not printed.
    let output =
        run(&["find", &format!("{image}:/dir"), "!", "-name", "leaf", "-delete", "-print"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/dir/hard\n");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("not empty").count(), 3, "{stderr}");
    assert_eq!(find(&["-name", "leaf"]), "/dir/sub/deep/leaf\n");
    ok(&["find", &format!("{image}:/dir"), "-delete"]);
    fails(&["stat", &format!("{image}:/dir")], 1, "/dir");
    fsck_clean(Path::new(&image));
    // Paths for xargs, also with spaces, and bytes that are not UTF-8.
    let listed = run(&["find", "--prefix", &image, "-type", "f", "-print0"]).stdout;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    assert!(names.clone().all(|name| name.starts_with(format!("{image}:/").as_bytes())));
    use std::os::unix::ffi::OsStrExt;
    let names: Vec<&std::ffi::OsStr> = names.map(std::ffi::OsStr::from_bytes).collect();
    let chmod = [["chmod", "604"].map(std::ffi::OsStr::new).to_vec(), names].concat();
    ok(&chmod);
    assert_eq!(find(&["-type", "f", "!", "-perm", "604"]), "");
    ok(&["find", &image, "-delete"]);
    assert_eq!(find(&["-mindepth", "1"]), "", "everything but the root directory");
    fsck_clean(Path::new(&image));
}

#[test]
fn nothing_is_evaluated_after_quit() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    for name in ["a", "b"] {
        ok(&["touch", &format!("{image}:/{name}")]);
    }
    for expression in [
        &["-name", "a", "-quit", "-delete"][..],
        &["(", "-name", "a", "-quit", "-o", "-delete", ")", "-delete"],
        &["!", "(", "-name", "a", "-quit", ")", "-name", "a", "-delete"],
    ] {
        let place = format!("{image}:/a");
        assert_eq!(ok(&[&["find", &place], expression].concat()), "");
        assert_eq!(ok(&["ls", &format!("{image}:/")]), "a\nb\n", "{expression:?}");
    }
    // The root stays however it is spelled.
    ok(&["find", &format!("{image}:/."), "-delete"]);
    assert_eq!(ok(&["ls", &format!("{image}:/")]), "");
}
