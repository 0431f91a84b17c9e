//! `ffs chmod`, `chown` and `chflags`: what coreutils has no word on.

use crate::common::{Dir, fails, fsck_clean, ok, run, text};
use std::path::Path;

/// `ls -lo` of one file.
fn listed(path: &str) -> String {
    ok(&["ls", "-ldo", path])
}

#[test]
fn flags_are_set_cleared_and_in_force() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let file = d.file("f", b"content");
    ok(&["mkdir", &at("/dir")]);
    ok(&["cp", &file, &at("/dir/f")]);
    ok(&["chflags", "schg,nodump", &at("/dir/f")]);
    assert!(listed(&at("/dir/f")).contains(" schg,nodump "), "{}", listed(&at("/dir/f")));
    for args in [
        vec!["chmod", "600", &at("/dir/f")],
        vec!["chown", "3", &at("/dir/f")],
        vec!["rm", &at("/dir/f")],
        vec!["cp", &file, &at("/dir/f")],
        vec!["cp", "--atomic", &file, &at("/dir/f")],
        vec!["cp", "-f", &file, &at("/dir/f")],
    ] {
        let stderr = fails(&args, 1, "a file flag such as schg forbids it");
        assert!(stderr.contains("ffs ls -lo"), "{stderr}");
    }
    assert_eq!(ok(&["cat", &at("/dir/f")]), "content");
    ok(&["chflags", "noschg,uappnd", &at("/dir/f")]);
    fails(&["cp", &file, &at("/dir/f")], 1, "a file flag such as schg forbids it");
    // Changed with -v: what it had and has; unchanged: no word.
    let output = run(&["chflags", "-R", "-v", "0", &at("/dir")]);
    assert_eq!(text(&output), "exit status: 0\n/dir/f: uappnd,nodump -> -\n");
    ok(&["cp", &file, &at("/dir/f")]);
    // cp(1) leaves the flags of what it writes over.
    ok(&["chflags", "nodump", &at("/dir/f")]);
    ok(&["cp", &file, &at("/dir/f")]);
    assert!(listed(&at("/dir/f")).contains(" nodump "));
    ok(&["chflags", "dump", &at("/dir/f")]);
    assert!(listed(&at("/dir/f")).contains(" - "));
    fails(&["chflags", "nonsense", &at("/dir/f")], 64, "is not a flag such as uchg");
    fails(&["chflags", "nodump", &at("/missing")], 1, "/missing");
    fsck_clean(Path::new(&image));
}

#[test]
fn links_are_followed_or_changed_themselves() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", &at("/dir")]);
    ok(&["cp", &d.file("f", b""), &at("/f")]);
    ok(&["ln", "-s", "../f", &at("/dir/link")]);
    let state = |path: &str| listed(&at(path)).split(' ').next().unwrap().to_owned();
    for (args, file, link) in [
        (&["chmod", "711"][..], "-rwx--x--x", "lrwxr-xr-x"),
        (&["chmod", "-h", "700"], "-rwx--x--x", "lrwx------"),
        (&["chmod", "-R", "-h", "750"], "-rwx--x--x", "lrwxr-x---"),
    ] {
        let link_before = state("/dir/link");
        ok(&[args, &[at("/dir/link").as_str()]].concat());
        assert_eq!(state("/f"), file, "{args:?}");
        if args.contains(&"-h") {
            assert_eq!(state("/dir/link"), link, "{args:?}");
        } else {
            assert_eq!(state("/dir/link"), link_before, "{args:?}");
        }
    }
    ok(&["chflags", "-R", "nodump", &at("/dir")]);
    assert!(listed(&at("/dir")).contains("nodump") && listed(&at("/dir/link")).contains(" - "));
    ok(&["chflags", "-h", "nodump", &at("/dir/link")]);
    assert!(listed(&at("/dir/link")).contains("nodump") && listed(&at("/f")).contains(" - "));
    fsck_clean(Path::new(&image));
}

#[test]
fn names_are_those_of_the_image() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["cp", &d.file("f", b""), &at("/f")]);
    ok(&["mkdir", &at("/etc")]);
    // A name that this host has for another number, and one that it does not have.
    let users = d.file("passwd", b"root:*:0:0::/:\nroo:*:77:78::/:\ndaemon:*:4242:4243::/:\n");
    ok(&["cp", &users, &at("/etc/passwd")]);
    ok(&["cp", &d.file("group", b"wheel:*:0:\nstaff:*:4244:a,b\n"), &at("/etc/group")]);
    for (owner, shown) in [
        ("daemon", " 4242 0 "),
        ("roo:staff", " 77 4244 "),
        ("daemon:", " 4242 4243 "),
        (":wheel", " 4242 0 "),
        ("77:", " 77 78 "),
        ("+9:+10", " 9 10 "),
    ] {
        ok(&["chown", owner, &at("/f")]);
        assert!(listed(&at("/f")).contains(shown), "{owner}: {}", listed(&at("/f")));
    }
    fails(&["chown", "bin", &at("/f")], 1, "no such user in /etc/passwd of ");
    fails(&["chown", ":daemon", &at("/f")], 1, "no such group in /etc/group of ");
    fails(&["chown", "5:", &at("/f")], 1, "write OWNER:GROUP");
    assert!(listed(&at("/f")).contains(" 9 10 "));
    // The change of a tree is named file by file.
    let output = run(&["chown", "-v", "-R", "9:9", &at("/etc")]);
    let printed = text(&output);
    for name in ["/etc", "/etc/group", "/etc/passwd"] {
        assert!(printed.contains(&format!("\n{name}: 0:0 -> 9:9\n")), "{printed}");
    }
    let other = d.image("b.img", "8m", &[]);
    fails(&["chmod", "700", &at("/f"), &format!("{other}:/")], 64, "different images");
    fsck_clean(Path::new(&image));
}

#[test]
fn a_link_over_a_name_of_the_same_file_changes_nothing() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |name: &str| format!("{image}:/{name}");
    ok(&["touch", &at("f"), &at("g")]);
    for link in ["f", "h"] {
        if link == "h" {
            ok(&["ln", &at("f"), &at("h")]);
        }
        fails(&["ln", "-f", &at("f"), &at(link)], 1, "is the same file");
        assert!(ok(&["ls", &at("")]).contains("f\n"));
    }
    // Another file is replaced, and stays if the link cannot be made.
    ok(&["ln", "-f", &at("f"), &at("g")]);
    let stat: serde_json::Value = serde_json::from_str(&ok(&["stat", "--json", &at("g")])).unwrap();
    assert_eq!(stat["nlink"], 3, "{stat}");
    let long = "x".repeat(5000);
    ok(&["touch", &at("kept")]);
    assert_ne!(run(&["ln", "-s", "-f", &long, &at("kept")]).status.code(), Some(0));
    ok(&["ln", "-s", "-f", "text", &at("g")]);
    assert_eq!(ok(&["ls", &at("")]), "f\ng\nh\nkept\n");
}
