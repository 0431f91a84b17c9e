//! The manual pages: values in the synopsis, mount options, and pages of subcommands.

use std::fs;

use crate::common::{Dir, ok};

/// The page without roff's marks.
fn page(d: &Dir, name: &str) -> String {
    let text = fs::read_to_string(d.path(name)).unwrap();
    text.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
}

/// The line below `.SH SYNOPSIS`.
fn synopsis(page: &str) -> &str {
    let rest = page.split_once(".SH SYNOPSIS\n").unwrap().1;
    rest.lines().next().unwrap()
}

#[test]
fn a_synopsis_has_the_values_of_the_options() {
    let d = Dir::new();
    ok(&["man", &d.str("")]);
    for (name, words) in [
        ("man8/ffs-mount.8", &["ffs mount ", "[-o OPTIONS]", "[-f]"][..]),
        ("man8/ffs-newfs.8", &["[-s SIZE]", "[-S BYTES]", "[-u]", "[-L LABEL]", " IMAGE"]),
        ("man8/ffs-fsck.8", &["[-b SECTOR]", "[--explain [CODE]]", "[--json]"]),
        ("man1/ffs-build.1", &["[-S|--sector-size BYTES]", "[-j|--journal]", " IMAGE "]),
        ("man1/ffs-lab.1", &["ffs lab", "COMMAND"]),
    ] {
        let page = page(&d, name);
        let line = synopsis(&page);
        for word in words {
            assert!(line.contains(word), "{name}: {word} not in {line}");
        }
    }
    // No option of any page lacks the value that its list of options has.
    for section in ["man1", "man8"] {
        for file in fs::read_dir(d.path(section)).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let words: Vec<&str> = synopsis(&text).split(" [").collect();
            for (n, word) in words.iter().enumerate() {
                assert!(!words[..n].contains(word), "{}: {word} twice", path.display());
            }
            assert!(!synopsis(&text).contains(" \\fR]"), "{}: {}", path.display(), synopsis(&text));
        }
    }
}

#[test]
fn the_page_of_mount_has_every_mount_option() {
    let d = Dir::new();
    ok(&["man", &d.str("")]);
    let page = page(&d, "man8/ffs-mount.8");
    let section = page.split_once(".SH \"MOUNT OPTIONS\"\n").unwrap().1;
    let mut count = 0;
    let listed = ok(&["mount", "-o", "help"]);
    let mut lines = listed.lines();
    while let (Some(word), Some(help)) = (lines.next(), lines.next()) {
        let item = format!(".TP\n{word}\n{}\n", help.trim());
        assert!(section.contains(&item), "{item}");
        count += 1;
    }
    assert!(count > 50, "{count} options");
}

#[test]
fn subcommands_have_pages_of_their_own() {
    let d = Dir::new();
    ok(&["man", &d.str("")]);
    let lab = page(&d, "man1/ffs-lab.1");
    for name in ["run", "compare", "crash", "record", "report", "list"] {
        let page = page(&d, &format!("man1/ffs-lab-{name}.1"));
        assert!(page.contains(&format!("ffs-lab-{name} - ")), "{page}");
        assert!(synopsis(&page).starts_with(&format!("ffs lab {name}")), "{page}");
        assert!(page.contains(".SH \"SEE ALSO\"\nffs-lab(1)"), "{page}");
        assert!(lab.contains(&format!("\nffs-lab-{name}(1)\n")), "{lab}");
    }
    let run = page(&d, "man1/ffs-lab-run.1");
    assert!(run.contains("--out DIR") && run.contains(".SH EXAMPLES"), "{run}");
    assert!(!d.path("man1/ffs-lab-help.1").exists());
    assert!(page(&d, "man8/ffs-snapshot-create.8").contains("SNAPSHOT-CREATE"));
}
