//! Specifications as mtree, install and people write them.

use super::*;

fn users() -> UserNames {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("master.passwd"),
        "# c\nroot:*:0:0::0:0:\ntoor:*:0:0\nman:*:9:9",
    )
    .unwrap();
    std::fs::write(dir.path().join("passwd"), "man:*:10:10").unwrap();
    std::fs::write(dir.path().join("group"), "wheel:*:0:root\noperator:*:5:root\n+:*::").unwrap();
    UserNames::read(dir.path()).unwrap()
}

fn parse(text: &str) -> MtreeSpec {
    MtreeSpec::parse(text.as_bytes(), &users()).unwrap()
}

fn error(text: &str) -> String {
    MtreeSpec::parse(text.as_bytes(), &users()).unwrap_err().to_string()
}

#[test]
fn metalog_has_full_paths_and_the_last_line_counts() {
    let spec = parse(
        "#mtree 2.0\n. type=dir uname=root gname=wheel mode=0755\n\
         ./bin/cat type=file uname=root gname=wheel mode=0555 size=5 sha256=ab\n\
         ./bin/cat type=file uname=man gname=operator mode=4555 flags=schg,nodump time=5.9 tags=x\n\
         /usr//lib/./l type=link mode=0755 link=../x uid=7 uname=alice gid=8\n",
    );
    let cat = spec.get(b"bin/cat").unwrap();
    assert_eq!((cat.uid, cat.gid, cat.perm, cat.line), (Some(9), Some(5), Some(0o4555), 4));
    assert_eq!(cat.flags, Some(FileFlags::SF_IMMUTABLE | FileFlags::UF_NODUMP));
    assert_eq!(cat.mtime, Some(Timespec { secs: 5, nsec: 9 }));
    let link = spec.get(b"usr/lib/l").unwrap();
    assert_eq!((link.kind, link.uid), (Some(NodeKind::Symlink), Some(7)), "a number counts first");
    assert_eq!(spec.get(b"").unwrap().kind, Some(NodeKind::Directory));
    assert!(spec.leads_on(b"usr/lib") && spec.leads_on(b"") && !spec.leads_on(b"bin/cat"));
}

#[test]
fn mtree_has_a_hierarchy_and_defaults() {
    let spec = parse(
        "/set type=file uid=0 gid=0 mode=0644 flags=none\n.    type=dir mode=0755\n    motd \\\n  \
         size=3\n    # a comment\n\n    etc  type=dir mode=0755\n        rc.conf gid=5\n    /unset \
         flags mode\n  my\\040file\\s\\\\ optional\n    ..\n..\nafter type=fifo\n",
    );
    assert_eq!(spec.get(b"motd").unwrap().perm, Some(0o644));
    assert_eq!(spec.get(b"etc/rc.conf").unwrap().gid, Some(5));
    let file = spec.get(b"etc/my file \\").unwrap();
    assert_eq!((file.perm, file.flags, file.is_optional), (None, None, true));
    assert_eq!(spec.get(b"after").unwrap().kind, Some(NodeKind::Fifo));
    let found = |names: &[&[u8]]| names.iter().map(|name| name.to_vec()).collect();
    let missing = |names: &[&[u8]]| {
        let first = spec.missing(&found(names)).next();
        first.map(|(path, node)| (String::from_utf8_lossy(path).into_owned(), node.line))
    };
    assert_eq!(missing(&[b"after", b"etc", b"motd"]), Some(("etc/rc.conf".to_owned(), 8)));
    assert_eq!(missing(&[b"after", b"etc", b"motd", b"etc/rc.conf"]), None);
}

#[test]
fn names_are_decoded_as_vis_encodes_them() {
    // As mtree -c of NetBSD writes them in the C locale.
    let lines = [
        ". type=dir",
        r"\M-C\M-<b mode=1",
        r"\M^A\M^? mode=2 # a comment",
        r"\^A\^? mode=3",
        r"x\M-#y \",
        "  mode=4",
        r"z\M^\ mode=5",
        r"\\#c",
        r"w\\ mode=6",
    ];
    let spec = parse(&lines.join("\n"));
    let names: [(&[u8], u16); 6] = [
        ("\u{fc}b".as_bytes(), 1),
        (b"\x81\xff", 2),
        (b"\x01\x7f", 3),
        (b"x\xa3y", 4),
        (b"z\x9c", 5),
        (b"w\\", 6),
    ];
    for (name, mode) in names {
        let node = spec.get(name).unwrap_or_else(|| panic!("{}", name.escape_ascii()));
        assert_eq!(node.perm, Some(mode), "{}", name.escape_ascii());
    }
    for bad in ["\\M-", "\\M^", "\\^", "\\Mx", "\\^@", "\\^a"] {
        assert!(error(&format!("a{bad}")).contains("is not understood"), "{bad}");
    }
}

#[test]
fn errors_name_the_line_and_the_word() {
    for (text, wanted) in [
        ("./a uname=alice", "line 1: uname=alice: the number of this name is not known"),
        ("\n./a mode=u+x", "line 2: mode=u+x: not understood"),
        ("./a mode=99", "line 1: mode=99: not understood"),
        ("./a mdoe=1", "line 1: the keyword mdoe is not known or not supported"),
        ("./a type=dir contents=b", "line 1: contents= is for type=file"),
        ("./a type=char device=1,3", "line 1: device=1,3: not understood"),
        ("./a type=door", "line 1: type=door: not understood"),
        ("./a uid=-1", "line 1: uid=-1: not understood"),
        ("./a time=5.1000000000", "line 1: time=5.1000000000: not understood"),
        ("./a flags=odd", "line 1: flags=odd: not understood"),
        ("./a/../../b mode=1", "line 1: the path ./a/../../b contains '..'"),
        ("./a\\999 mode=1", "line 1: the name ./a\\999 has an encoding that is not understood"),
        ("./a\\000b", "line 1: the name ./a\\000b has an encoding that is not understood"),
    ] {
        assert_eq!(error(text), wanted);
    }
    let deep = "a type=dir\n".repeat(600);
    assert_eq!(error(&deep), "line 513: a path of more than 1024 bytes");
    assert_eq!(error(&"a/".repeat(600)), "line 1: a path of more than 1024 bytes");
    let long = format!("a {}", "b\\\n".repeat(80_000));
    assert_eq!(error(&long), "line 1: the line is too long");
    assert_eq!(parse("").nodes.len(), 0);
    assert_eq!(parse("..\n..\n./a\\").nodes.len(), 1, "no end of line");
}

#[test]
fn lines_replace_defaults_and_comments_end_them() {
    let spec = parse(
        "/set uid=7 gid=7 mode=0644\r\n./a uname=man \\\r\n  gname=wheel # was uid=3 mode=4755\r\n\
         ./b mode=0100755 flags=noschg,dump#optional\n./c\\#d uid=0\n/bin type=dir uname=root\n\
         ./l type=link link=a\\040b\n",
    );
    let owner = |path: &[u8]| spec.get(path).map(|node| (node.uid, node.gid, node.perm));
    assert_eq!(owner(b"a"), Some((Some(9), Some(0), Some(0o644))));
    assert_eq!(owner(b"b"), Some((Some(7), Some(7), Some(0o755))));
    assert_eq!(spec.get(b"b").unwrap().flags, Some(FileFlags::empty()));
    assert!(!spec.get(b"b").unwrap().is_optional);
    assert_eq!(owner(b"c#d").unwrap().0, Some(0));
    assert_eq!(owner(b"bin").unwrap().0, Some(0));
    assert_eq!(spec.get(b"l").unwrap().link.as_deref(), Some(&b"a b"[..]));
}

#[test]
fn a_line_that_can_create_its_file_lacks_no_keyword() {
    for (line, lacks) in [
        ("mode=0644", Some("type")),
        ("type=file mode=0644", Some("contents")),
        ("type=file contents=/etc/motd", Some("mode")),
        ("type=file mode=0644 contents=a\\040b", None),
        ("mode=0644 contents=a", None),
        ("type=dir", Some("mode")),
        ("type=fifo mode=0600", None),
        ("type=char mode=0600", Some("device")),
        ("type=block mode=0600 device=native,8,0", None),
        ("type=link mode=0755", Some("link")),
        ("type=link link=a", None),
    ] {
        let spec = parse(&format!("./f {line}\n"));
        assert_eq!(spec.get(b"f").unwrap().lacks(), lacks, "{line}");
    }
    let spec = parse("/set device=native,1,2\n./f type=file contents=a\\040b\n./d type=char\n");
    assert_eq!(spec.get(b"f").unwrap().contents.as_deref(), Some("a b".as_ref()));
    assert_eq!(spec.get(b"f").unwrap().device, None);
    assert_eq!(spec.get(b"d").unwrap().device, Some(DeviceNumber { major: 1, minor: 2 }));
}
