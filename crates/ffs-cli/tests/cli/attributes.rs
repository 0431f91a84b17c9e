//! `ffs xattr`, `ffs getfacl` and `ffs setfacl`.

use crate::common::{Dir, fails, ffs, fsck_clean, ok, run, text};
use std::path::Path;

#[test]
fn a_name_that_is_too_long_is_counted() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let file = format!("{image}:/f");
    ok(&["touch", &file]);
    let name = |len: usize| format!("user.{}", "n".repeat(len));
    ok(&["xattr", "set", &name(255), "v", &file]);
    let words = "the name of the attribute has 256 bytes, and at most 255 are possible";
    fails(&["xattr", "set", &name(256), "v", &file], 1, words);
    fails(&["xattr", "rm", &name(300), &file], 1, "has 300 bytes");
}

#[test]
fn attributes_are_set_listed_shown_and_removed() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["touch", &at("/f"), &at("/g")]);
    ok(&["xattr", "set", "user.comment", "from 4.4BSD", &at("/f"), &at("/g")]);
    ok(&["xattr", "set", "-i", &d.file("v", b"\0\xff\n"), "system.blob", &at("/f")]);
    let listed = ok(&["xattr", "ls", &at("/f")]);
    assert!(listed.contains("      11  user.comment\n"), "{listed}");
    assert!(listed.contains("       3  system.blob\n"), "{listed}");
    assert_eq!(ok(&["xattr", "get", "user.comment", &at("/g")]), "from 4.4BSD");
    assert_eq!(run(&["xattr", "get", "system.blob", &at("/f")]).stdout, b"\0\xff\n");
    assert_eq!(ok(&["xattr", "get", "-x", "system.blob", &at("/f")]), "00ff0a\n");
    let json = ok(&["xattr", "ls", "--json", &at("/f"), &at("/g")]);
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[2]["namespace"], &lines[2]["bytes"]), (&"user".into(), &11.into()));
    ok(&["xattr", "rm", "user.comment", &at("/f")]);
    fails(&["xattr", "rm", "user.comment", &at("/f")], 1, "no such attribute");
    ok(&["xattr", "rm", "-f", "user.comment", &at("/f")]);
    fails(&["xattr", "get", "user.comment", &at("/f")], 1, "no such attribute");
    fails(&["xattr", "get", "comment", &at("/f")], 64, "user.comment or system.NAME");
    fails(&["xattr", "set", "user.a", &at("/f")], 64, "a value and a file");
    // Links themselves.
    ok(&["ln", "-s", "f", &at("/link")]);
    ok(&["xattr", "set", "-P", "user.own", "1", &at("/link")]);
    assert_eq!(ok(&["xattr", "ls", "-P", &at("/link")]), "       1  user.own\n");
    assert!(!ok(&["xattr", "ls", &at("/link")]).contains("user.own"));
    let large = d.file("large", &vec![1; (1 << 20) + 1]);
    fails(&["xattr", "set", "-i", &large, "user.a", &at("/f")], 1, "larger than any attribute");
    fsck_clean(Path::new(&image));
    let old = d.image("old.img", "8m", &["-O", "1"]);
    ok(&["touch", &format!("{old}:/f")]);
    fails(&["xattr", "set", "user.a", "1", &format!("{old}:/f")], 1, "not supported");
}

#[test]
fn access_lists_are_shown_and_changed_as_on_bsd() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["touch", &at("/f")]);
    fails(&["setfacl", "-m", "u:7:rw", &at("/f")], 1, "tunefs -a enables them");
    ok(&["tunefs", "-a", "enable", &image]);
    ok(&["mkdir", &at("/etc"), &at("/d")]);
    let users = d.file("passwd", b"root:*:0:0::/:\njoe:*:77:78::/:\n");
    ok(&["cp", &users, &at("/etc/passwd")]);
    ok(&["cp", &d.file("group", b"wheel:*:0:\nstaff:*:4244:\n"), &at("/etc/group")]);
    ok(&["chmod", "640", &at("/f")]);
    let shown = |path: &str| ok(&["getfacl", "-q", &at(path)]);
    assert_eq!(
        ok(&["getfacl", &at("/f")]),
        "# file: /f\n# owner: root\n# group: wheel\nuser::rw-\ngroup::r--\nother::---\n"
    );
    ok(&["setfacl", "-m", "u:joe:rwx,g:staff:4", &at("/f")]);
    assert_eq!(
        shown("/f"),
        "user::rw-\nuser:joe:rwx\ngroup::r--\ngroup:staff:r--\nmask::rwx\nother::---\n"
    );
    // The group bits of the mode are the mask.
    assert!(ok(&["ls", "-l", &at("/f")]).starts_with("-rw-rwx---"));
    assert!(ok(&["getfacl", "-n", &at("/f")]).contains("user:77:rwx\n"));
    ok(&["setfacl", "-n", "-m", "u:5:w", &at("/f")]);
    ok(&["setfacl", "-m", "m::r", &at("/f")]);
    assert!(shown("/f").contains("mask::r--\n"));
    ok(&["setfacl", "-x", "u:joe,u:5", &at("/f")]);
    assert_eq!(shown("/f"), "user::rw-\ngroup::r--\ngroup:staff:r--\nmask::r--\nother::---\n");
    // One list for another file, by a pipe.
    ok(&["touch", &at("/g")]);
    let list = d.file("list", format!("# a comment\n{}", shown("/f")).as_bytes());
    let output =
        ffs().args(["setfacl", "-M", "-", &at("/g")]).pipe_stdin(&list).unwrap().output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(shown("/g"), shown("/f"));
    ok(&["setfacl", "-b", &at("/g")]);
    assert_eq!(shown("/g"), "user::rw-\ngroup::r--\nother::---\n");

    // Default lists, which new files inherit.
    ok(&["setfacl", "-d", "-m", "u::rwx,g::rx,o::,u:joe:rwx", &at("/d")]);
    assert!(ok(&["getfacl", "-q", "-d", &at("/d")]).contains("user:joe:rwx\n"));
    ok(&["mkdir", &at("/d/e")]);
    assert!(shown("/d/e").contains("user:joe:rwx\n"));
    let json = ok(&["getfacl", "--json", "-d", &at("/d/e")]);
    let line: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(line["entries"].as_array().unwrap().len(), 5);
    ok(&["setfacl", "-R", "-b", "-k", &at("/d")]);
    assert_eq!(ok(&["getfacl", "-q", "-d", &at("/d/e")]), "");
    assert_eq!(shown("/d/e").lines().count(), 3);
    fails(&["getfacl", "-d", &at("/f")], 1, "not a directory");
    fails(&["setfacl", "-m", "u:joe", &at("/f")], 64, "can only be removed");
    fails(&["setfacl", "-m", "u:joe:rq", &at("/f")], 64, "is not an entry such as");
    fails(&["setfacl", "-m", "u:nobodyhere:r", &at("/f")], 1, "no such user in /etc/passwd of ");
    fails(&["setfacl", "-x", "u:", &at("/f")], 1, "needs exactly one owner");
    fails(&["setfacl", &at("/f")], 64, "nothing to change");
    fsck_clean(Path::new(&image));
}

#[test]
fn a_restore_gives_no_rights_that_a_later_chmod_took() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    ok(&["tunefs", "-a", "enable", &image]);
    let file = format!("{image}:/f");
    ok(&["cp", &d.file("f", b"private"), &file]);
    ok(&["chmod", "644", &file]);
    ok(&["setfacl", "-m", "u:3:r", &file]);
    // As a system does it, the mode changes and the stored list does not.
    ok(&["chmod", "600", &file]);
    let dump = d.str("a.dump");
    ok(&["dump", "-0", "-f", &dump, &image]);
    let target = d.image("b.img", "16m", &[]);
    ok(&["tunefs", "-a", "enable", &target]);
    ok(&["restore", "-r", "-f", &dump, "-D", &format!("{target}:/")]);
    ok(&["restore", "-C", "-f", &dump, &format!("{target}:/")]);
    let list = |image: &str| {
        let shown = ok(&["getfacl", &format!("{image}:/f")]);
        shown.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(list(&target), list(&image));
    assert!(list(&target).contains("other::---"), "{}", list(&target));
}

#[test]
fn an_attribute_that_is_too_large_for_the_target_does_not_stop_a_copy() {
    let d = Dir::new();
    let large = d.image("large.img", "40m", &["-b", "65536", "-f", "8192"]);
    let small = d.image("small.img", "40m", &["-b", "4096", "-f", "512"]);
    let at = |path: &str| format!("{large}:{path}");
    ok(&["mkdir", &at("/s")]);
    for name in ["a", "b", "c"] {
        ok(&["cp", &d.file(name, name.as_bytes()), &at(&format!("/s/{name}"))]);
    }
    let value = d.file("value", &[b'v'; 9000]);
    ok(&["xattr", "set", "-i", &value, "user.large", &at("/s/b")]);
    ok(&["xattr", "set", "user.small", "kept", &at("/s/b")]);
    let archive = d.str("s.tar");
    ok(&["tar", "cf", &archive, &at("/s")]);
    for args in [
        vec!["cp", "-a", &at("/s"), &format!("{small}:/")],
        vec!["tar", "xf", &archive, &format!("{small}:/s")],
    ] {
        let done = run(&args);
        let text = text(&done);
        assert!(done.status.success(), "{args:?}: {text}");
        assert!(text.contains("1 extended attribute not kept"), "{args:?}: {text}");
        assert!(text.contains("too large for the target"), "{args:?}: {text}");
        for name in ["a", "b", "c"] {
            assert_eq!(ok(&["cat", &format!("{small}:/s/{name}")]), name, "{args:?}");
        }
        assert_eq!(
            ok(&["xattr", "ls", &format!("{small}:/s/b")]),
            "       4  user.small\n",
            "{args:?}"
        );
        ok(&["rm", "-r", &format!("{small}:/s")]);
        ok(&["mkdir", &format!("{small}:/s")]);
    }
    let full = ["xattr", "set", "-i", &value, "user.large", &format!("{small}:/s")];
    fails(&full, 1, "the attributes of a file have at most 8192 bytes on this volume");
}
