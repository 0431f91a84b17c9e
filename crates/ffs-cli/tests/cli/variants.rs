//! The commands on volumes of other systems: they read, and they refuse to change or check.

#[allow(dead_code, reason = "the tests of the library use more of it")]
#[path = "../../../ffs-testkit/shared/variants.rs"]
mod convert;

use crate::common::{Dir, fails, ok, run, text};
use convert::{Image, System};
use std::fs;

/// A volume of `system` with a few files; its name, and the bytes of one of them.
fn image(d: &Dir, system: System, endian: &str) -> (String, Vec<u8>) {
    let options = ["-O", "1", "-b", "4096", "-f", "512", "-i", "8192", "--endian", endian];
    let image = d.image("a.img", "6m", &options);
    let content = crate::common::pattern(30_000, 1);
    let file = d.file("content", &content);
    ok(&["mkdir", "-p", &format!("{image}:/etc/rc.d")]);
    ok(&["cp", &file, &format!("{image}:/etc/rc.d/file")]);
    ok(&["ln", "-s", "rc.d/file", &format!("{image}:/etc/short")]);
    ok(&["chown", "1000:100", &format!("{image}:/etc/rc.d/file")]);
    let mut made = Image::new(fs::read(&image).unwrap());
    made.convert(system);
    fs::write(&image, &made.bytes).unwrap();
    (image, content)
}

#[test]
fn the_reading_commands_work() {
    for (system, endian, name) in [
        (System::FreeBsd4, "little", "UFS1 of 4.4BSD, read-only, little-endian"),
        (System::Bsd43, "big", "UFS1 of 4.3BSD, read-only, big-endian"),
        (System::Bsd42, "little", "UFS1 of 4.3BSD, read-only, little-endian"),
        (System::Solaris, "big", "UFS1 of Solaris, read-only, big-endian"),
        (System::Solaris, "little", "UFS1 of Solaris, read-only, little-endian"),
        (System::Mtb, "little", "UFS1 of Solaris (multi-terabyte), read-only"),
    ] {
        let d = Dir::new();
        let (image, content) = image(&d, system, endian);
        let at = |path: &str| format!("{image}:{path}");
        assert_eq!(run(&["cat", &at("/etc/short")]).stdout, content, "{system:?}");
        assert!(ok(&["ls", "-ln", &at("/etc/rc.d")]).contains("1000"), "{system:?}");
        assert!(ok(&["ls", "-l", &at("/etc/short")]).contains("/etc/short -> rc.d/file"));
        assert!(ok(&["find", &at("/"), "-name", "file"]).contains("/etc/rc.d/file"));
        let out = d.str("out");
        ok(&["cp", "-r", &at("/etc"), &out]);
        assert_eq!(fs::read(format!("{out}/rc.d/file")).unwrap(), content, "{system:?}");
        let tar = run(&["tar", "c", &at("/")]);
        assert!(tar.status.success() && tar.stdout.windows(4).any(|w| w == b"file"));
        let info = ok(&["info", &image]);
        assert!(info.contains(name) && info.contains("next: ffs ls"), "{system:?}: {info}");
        assert!(ok(&["dumpfs", &image]).contains("magic"), "{system:?}");
    }
}

#[test]
fn the_changing_commands_name_the_system() {
    for (system, name) in [(System::Bsd43, "4.3BSD"), (System::Solaris, "Solaris")] {
        let d = Dir::new();
        let (image, _) = image(&d, system, "big");
        let before = fs::read(&image).unwrap();
        let why = format!("it is a {name} volume: ffs reads it but does not write it");
        let target = format!("{image}:/etc/short");
        fails(&["rm", &target], 1, &why);
        fails(&["cp", &d.str("content"), &format!("{image}:/new")], 1, &why);
        fails(&["tunefs", "-L", "label", &image], 1, &why);
        for options in [&["-n"][..], &["-y"], &["-p"]] {
            let output = run(&[&["fsck"], options, &[&image]].concat());
            assert_eq!(output.status.code(), Some(3), "{}", text(&output));
            let words = format!("this is a {name} volume: ffs reads it but cannot check it");
            assert!(text(&output).contains(&words), "{}", text(&output));
        }
        assert!(fs::read(&image).unwrap() == before, "{system:?}: nothing was written");
    }
}

#[test]
fn a_log_that_is_not_replayed_is_a_warning() {
    let d = Dir::new();
    let (image, content) = image(&d, System::Solaris, "big");
    let mut made = Image::new(fs::read(&image).unwrap());
    made.set_sb(4, 2);
    made.set_sb(1324, 4096);
    fs::write(&image, &made.bytes).unwrap();
    let words = "the log of this Solaris volume has changes that are not in place";
    let output = run(&["cat", &format!("{image}:/etc/rc.d/file")]);
    assert!(output.stdout == content && text(&output).contains(words));
    assert!(ok(&["info", &image]).contains(words));
}

#[test]
fn a_mount_is_read_only() {
    let d = Dir::new();
    let (image, content) = image(&d, System::Solaris, "big");
    let dir = d.str("mnt");
    fs::create_dir(&dir).unwrap();
    for options in [&["-r"][..], &[]] {
        let mounted = run(&[&["mount"], options, &[&image, &dir]].concat());
        if !mounted.status.success() {
            return println!("skipped: cannot mount: {}", text(&mounted));
        }
        let read = fs::read(format!("{dir}/etc/short"));
        let written = fs::write(format!("{dir}/new"), "x");
        ok(&["umount", &dir]);
        assert!(read.unwrap() == content && written.is_err());
        let noted = text(&mounted).contains("it is a Solaris volume");
        assert_eq!(noted, options.is_empty(), "{}", text(&mounted));
    }
}
