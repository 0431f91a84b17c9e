//! `ffs newfs` and `ffs build`: soft updates by default and by option, and sectors of other sizes.

use std::fs;

use crate::common::{Dir, fails, fsck_clean, json_lines, ok, run, text};

/// The flags of the superblock, and whether `newfs --json` reported soft updates and a journal.
fn made(d: &Dir, options: &[&str]) -> (String, bool, bool) {
    let image = d.str("a.img");
    let args = [&["newfs", "--yes", "--json", "-s", "32m"], options, &[&image]].concat();
    let json: serde_json::Value = serde_json::from_str(&ok(&args)).unwrap();
    fsck_clean(image.as_ref());
    let flag = |name: &str| json[name].as_bool().unwrap();
    (ok(&["tunefs", "-p", &image]), flag("soft_updates"), flag("journal"))
}

/// As the newfs of FreeBSD 14: soft updates for UFS2, unless `-u` is given; none for UFS1 and for
/// an older release, unless `-U` is given.
#[test]
fn soft_updates_are_the_default_of_ufs2() {
    let d = Dir::new();
    for (options, soft_updates, journal) in [
        (&[][..], true, false),
        (&["-U"], true, false),
        (&["-j"], true, true),
        (&["-R"], true, false),
        (&["--endian", "big"], true, false),
        (&["-O", "2"], true, false),
        (&["-u"], false, false),
        (&["-u", "-R", "-O", "2"], false, false),
        (&["-O", "1"], false, false),
        (&["-O", "1", "-U"], true, false),
        (&["-O", "1", "-u"], false, false),
        (&["--generation", "freebsd10"], false, false),
        (&["--generation", "freebsd10", "-U"], true, false),
        (&["--generation", "freebsd4"], false, false),
    ] {
        let (settings, with, with_journal) = made(&d, options);
        assert_eq!((with, with_journal), (soft_updates, journal), "{options:?}");
        let line = settings.lines().find(|line| line.contains("soft updates: (-n)")).unwrap();
        let enabled = line.ends_with("enabled");
        assert_eq!(enabled, soft_updates, "{options:?}: {settings}");
        // The command that dumpfs prints makes such a volume again.
        let again = ok(&["dumpfs", "-m", &d.str("a.img")]);
        assert_eq!(again.contains(" -U "), soft_updates, "{again}");
        let ufs2 = again.contains("-O 2");
        assert_eq!(again.contains(" -u "), ufs2 && !soft_updates, "{again}");
    }
    let image = d.str("b.img");
    for other in ["-U", "-j"] {
        fails(&["newfs", "-u", other, "-s", "32m", &image], 1, "cannot be used with");
    }
    assert!(!d.path("b.img").exists());
    let printed = ok(&["newfs", "-s", "32m", &image]);
    assert!(printed.contains("with soft updates"), "{printed}");
    let help = ok(&["newfs", "--help"]);
    assert!(help.contains("a UFS2 file system has soft updates"), "{help}");
}

/// `-S` is the unit of `-s` and `-r`, and a fragment has at least one sector.
#[test]
fn sectors_have_the_size_that_is_given() {
    let d = Dir::new();
    let image = d.str("a.img");
    for (options, bytes, fsize) in [
        (&["-S", "512", "-s", "32768"][..], 16 << 20, 4096),
        (&["-S", "4096", "-s", "4096"], 16 << 20, 4096),
        (&["-S", "4k", "-s", "16m"], 16 << 20, 4096),
        (&["-S", "8192", "-s", "2048"], 16 << 20, 8192),
        (&["-S", "65536", "-s", "512"], 32 << 20, 65536),
        (&["-S", "4096", "-s", "4096", "-f", "1024", "-b", "8192"], 16 << 20, 4096),
    ] {
        let args = [&["newfs", "--json"], options, &[&image]].concat();
        let json: serde_json::Value = serde_json::from_str(&ok(&args)).unwrap();
        assert_eq!(json["fragment_size"], fsize, "{options:?}");
        assert_eq!(fs::metadata(&image).unwrap().len(), bytes, "{options:?}");
        assert!(json["bytes"].as_u64().unwrap() <= bytes, "{options:?}");
        fsck_clean(image.as_ref());
        fs::remove_file(&image).unwrap();
    }
    // The reserve counts sectors, too.
    ok(&["newfs", "-S", "4096", "-s", "4096", "-r", "1024", &image]);
    assert_eq!(fs::metadata(&image).unwrap().len(), 20 << 20);
    fs::remove_file(&image).unwrap();
    for bad in ["0", "256", "1000", "4097", "128k", "x"] {
        let why = "is not a power of two from 512 to 65536";
        fails(&["newfs", "-S", bad, "-s", "16m", &image], 1, why);
    }
    fails(&["newfs", "-S", "4096", "-s", "0xffffffffffffffff", &image], 1, "-s: too large");
    assert!(!d.path("a.img").exists());
}

/// A new image has the format that its name ends with.
#[test]
fn the_name_of_a_new_image_is_its_format() {
    let d = Dir::new();
    let tree = d.file("f", b"content");
    let image = d.str("a.qcow2");
    ok(&["newfs", "-s", "1g", &image]);
    assert!(ok(&["info", &image]).contains("qcow2 image, 1.0 GiB"));
    assert!(fs::metadata(&image).unwrap().len() < 64 << 20);
    ok(&["cp", &tree, &format!("{image}:/")]);
    fsck_clean(image.as_ref());
    // Nothing is left where no volume was made.
    let none = d.str("none.qcow2");
    fails(&["newfs", "-s", "8191p", &none], 1, "cannot be created");
    fails(&["newfs", "-s", "16k", &none], 1, "too few");
    fails(&["newfs", "-N", "-s", "16m", &d.str("none.vdi")], 1, "not VDI");
    assert!(!d.path("none.qcow2").exists());
    fails(&["build", "--force", &d.file("old.img.xz", b"old"), &tree], 1, "not xz");
    for (name, next) in [
        ("a.vmdk", "qemu-img convert -f raw -O vmdk"),
        ("a.VHD", "qemu-img convert -f raw -O vpc -o force_size=on"),
        ("a.img.xz", "a.img, then xz -c "),
    ] {
        let image = d.str(name);
        let printed = fails(&["newfs", "-s", "16m", &image], 1, "new images are raw or qcow2, not");
        assert!(printed.contains(next), "{printed}");
        fails(&["build", &image, &tree], 1, next);
        fails(&["disk", "create", "--swap", "1m", &image], 1, next);
        assert!(!d.path(name).exists());
        // A file that exists is what its content is.
        fs::write(&image, vec![0; 16 << 20]).unwrap();
        ok(&["newfs", &image]);
        ok(&["ls", &image]);
    }
}

/// A label that cannot be used is reported where it may be missed.
#[test]
fn a_damaged_label_of_a_disk_is_reported() {
    let d = Dir::new();
    let mut disk = vec![0; 16 << 20];
    disk[508..512].copy_from_slice(&[0xda, 0xbe, 1, 2]);
    let image = d.file("sun.img", &disk);
    let why =
        "warning: ".to_owned() + &image + ": Sun label in sector 0: checksum 0x0102, expected";
    fails(&["mount", "--all", &image, &d.str("mnt")], 32, &why);
    assert!(ok(&["info", &image]).contains("note: Sun label in sector 0"));
    let made = run(&["newfs", &image]);
    assert!(made.status.success() && text(&made).contains(&why), "{}", text(&made));
}

/// A built image has no soft updates, as one of makefs, unless an option asks for them.
#[test]
fn a_built_image_has_the_soft_updates_journal_and_sectors_that_are_given() {
    let d = Dir::new();
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), vec![7; 3 << 20]).unwrap();
    let (tree, image) = (tree.to_str().unwrap(), d.str("a.img"));
    for (options, soft_updates, journal) in
        [(&[][..], false, false), (&["-U"], true, false), (&["-j"], true, true)]
    {
        let build = |name: &str| {
            let args = [&["build", "--force", "--free", "1m"], options, &[name, tree]].concat();
            ok(&args);
        };
        build(&image);
        let settings = ok(&["tunefs", "-p", &image]);
        let enabled = |what: &str| {
            let line = settings.lines().find(|line| line.contains(what)).unwrap();
            line.ends_with("enabled")
        };
        assert_eq!(enabled("soft updates: (-n)"), soft_updates, "{settings}");
        assert_eq!(enabled("soft updates journaling: (-j)"), journal, "{settings}");
        fsck_clean(image.as_ref());
        let df: serde_json::Value = json_lines(&ok(&["df", "--json", &image]));
        assert!(df[0]["available"].as_u64().unwrap() >= 1 << 20, "{df}");
        let other = d.str("b.img");
        build(&other);
        assert!(fs::read(&image).unwrap() == fs::read(&other).unwrap(), "{options:?}");
        // The journal is of use: a change is made, and the volume is clean.
        ok(&["mkdir", &format!("{image}:/new")]);
        fsck_clean(image.as_ref());
    }
    ok(&["build", "--force", "-S", "8192", "--size", "2048", &image, tree]);
    assert_eq!(fs::metadata(&image).unwrap().len(), 16 << 20);
    assert!(ok(&["dumpfs", "-m", &image]).contains("-f 8192"));
    fails(&["build", "--force", "--sector-size", "100", &image, tree], 64, "power of two");
    let help = ok(&["build", "--help"]);
    assert!(help.contains("no soft updates unless -U or -j is given"), "{help}");
}
