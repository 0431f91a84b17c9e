//! `ffs disk create --part` and `--esp-label`: sgdisk and mtools read what was made.

use std::fs;
use std::path::Path;

use ffs_testkit::tools::have;
use serde_json::Value;

use crate::common::{Dir, fails, fsck_clean, json_lines, ok, pattern};
use crate::disk::{part, sources, tool};

#[test]
fn partitions_of_other_types_have_the_content_of_a_file() {
    if !have(&["sgdisk"]) {
        return;
    }
    let d = Dir::new();
    sources(&d);
    let data = d.file("data", &pattern(1_300_000, 9));
    let (esp, root) = (d.str("esp"), format!("rootfs={}", d.str("root")));
    let own = "01234567-89ab-cdef-0123-456789abcdef";
    let made = |image: &str| {
        let parts = [
            format!("data:linux-data={data}"),
            "pool:freebsd-zfs:4m".to_owned(),
            format!("win:ms-basic-data:2m={data}"),
            format!("own:{own}:512k"),
        ];
        let mut args =
            vec!["disk", "create", "--efi", &esp, "--esp-label", "BOOT 1", "--ufs", &root];
        args.extend(parts.iter().flat_map(|part| ["--part", part.as_str()]));
        let shown = ok(&[&args[..], &["--json", image]].concat());
        serde_json::from_str::<Value>(&shown).unwrap()
    };
    let image = d.str("disk.img");
    let disk = made(&image);
    assert!(tool("sgdisk", &["-v", &image]).contains("No problems found"));
    for (number, kind, label) in [
        ("2", "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "data"),
        ("3", "516E7CBA-6ECF-11D6-8FF8-00022D09712B", "pool"),
        ("4", "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7", "win"),
        ("5", &own.to_uppercase(), "own"),
        ("6", "516E7CB6-6ECF-11D6-8FF8-00022D09712B", "rootfs"),
    ] {
        let shown = tool("sgdisk", &["-i", number, &image]);
        assert!(shown.contains(&format!("GUID code: {kind}")), "{number}: {shown}");
        assert!(shown.contains(&format!("name: '{label}'")), "{number}: {shown}");
    }
    for (number, len) in [(2, 1_300_480), (3, 4 << 20), (4, 2 << 20), (5, 512 << 10)] {
        let bytes = fs::read(part(&d, &image, &disk, number)).unwrap();
        assert_eq!(bytes.len(), len, "{number}");
        let wanted = if matches!(number, 2 | 4) { pattern(1_300_000, 9) } else { Vec::new() };
        assert!(bytes.starts_with(&wanted), "{number}");
        assert!(bytes[wanted.len()..].iter().all(|byte| *byte == 0), "{number}");
    }
    // ffs info has the same names as --part, and the GUID of a type without one.
    let info: Value = json_lines(&ok(&["info", "--json", &image]));
    let kinds: Vec<&str> = info[0]["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["kind"].as_str().unwrap())
        .collect();
    let unknown = format!("type {}", own.to_uppercase());
    let wanted = ["EFI system", "linux-data", "FreeBSD ZFS", "ms-basic-data", &unknown, "UFS"];
    assert_eq!(kinds, wanted);
    fsck_clean(Path::new(&format!("{image}@6")));
    let efi = part(&d, &image, &disk, 1);
    if have(&["fsck.fat", "mlabel", "mdir"]) {
        tool("fsck.fat", &["-n", &efi]);
        assert!(tool("mlabel", &["-s", "-i", &efi, "::"]).contains("is BOOT 1 "));
    }
    // The record of the label has no time of a clock.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let again = d.str("again.img");
    made(&again);
    assert!(fs::read(&image).unwrap() == fs::read(&again).unwrap());
}

#[test]
fn every_named_type_is_made_and_shown() {
    let d = Dir::new();
    sources(&d);
    let (root, image) = (format!("rootfs={}", d.str("root")), d.str("disk.img"));
    // The message about an unknown type lists the names.
    let listed = fails(
        &["disk", "create", "--ufs", &root, "--part", "x:nothing:1m", &image],
        64,
        "expected a GUID, or one of",
    );
    let names: Vec<&str> =
        listed.split("or one of ").nth(1).unwrap().lines().next().unwrap().split(", ").collect();
    let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
    assert_eq!(names.len(), 32, "{listed}");
    let parts: Vec<String> =
        (0..).zip(&names).map(|(n, name)| format!("part{n}:{name}:4k")).collect();
    let mut args = vec!["disk", "create", "--json", "--ufs", &root];
    args.extend(parts.iter().flat_map(|part| ["--part", part.as_str()]));
    args.push(&image);
    let made: Value = serde_json::from_str(&ok(&args)).unwrap();
    let info: Value = json_lines(&ok(&["info", "--json", &image]));
    for (n, name) in names.iter().enumerate() {
        assert_eq!(made["partitions"][n]["kind"], *name);
        let shown = match *name {
            "freebsd-boot" => "FreeBSD boot",
            "efi" => "EFI system",
            "freebsd-swap" => "FreeBSD swap",
            "freebsd-zfs" => "FreeBSD ZFS",
            "freebsd-vinum" => "FreeBSD vinum",
            "netbsd-swap" => "NetBSD swap",
            "freebsd-ufs" | "netbsd-ffs" | "apple-ufs" => "UFS",
            "freebsd" | "openbsd-data" => "BSD slice",
            other => other,
        };
        assert_eq!(info[0]["partitions"][n]["kind"], shown, "{name}");
    }
}

#[test]
fn wrong_parts_and_labels_leave_no_image() {
    let d = Dir::new();
    sources(&d);
    let data = d.file("data", &pattern(1_300_000, 9));
    let (esp, root) = (d.str("esp"), format!("rootfs={}", d.str("root")));
    let new = d.str("new.img");
    for (option, value, code) in [
        ("--part", "x:linux-data", 64),
        ("--part", "x:nothing:1m", 64),
        ("--part", ":efi:1m", 64),
        ("--part", "x:efi:0", 64),
        ("--part", &*format!("x:efi:64k={data}"), 1),
        ("--part", "x:efi=/none", 1),
        ("--part", "rootfs:efi:1m", 64),
        ("--esp-label", "lower", 64),
        ("--esp-label", "TWELVE CHARS", 64),
        ("--esp-label", "A.B", 64),
    ] {
        let args = ["disk", "create", "--efi", &esp, "--ufs", &root, option, value, &new];
        fails(&args, code, "");
        assert!(!Path::new(&new).exists(), "{option} {value}");
    }
}
