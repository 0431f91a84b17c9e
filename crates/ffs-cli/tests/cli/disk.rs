//! `ffs disk`: tables, FAT and qcow2 are judged by the tools that others use for them.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use ffs_testkit::tools::have;
use serde_json::Value;

use crate::common::{
    Dir, fails, ffs, fsck_clean, json_lines, ok, pattern, run, set_mtime, text, walk,
};

pub(crate) fn tool(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a disk is made of: boot code, files for the EFI system partition, and a tree.
pub(crate) fn sources(d: &Dir) {
    d.file("pmbr", &pattern(512, 1));
    d.file("gptboot", &pattern(100_000, 2));
    fs::create_dir_all(d.path("esp/EFI/BOOT")).unwrap();
    d.file("esp/EFI/BOOT/BOOTX64.EFI", &pattern(150_001, 3));
    d.file("esp/A name that needs long records.txt", b"long\n");
    fs::create_dir_all(d.path("root/boot")).unwrap();
    d.file("root/boot/kernel", &pattern(3_000_000, 4));
}

/// Runs `ffs disk create` with the sources and `more`, and returns what it prints as JSON.
fn create(d: &Dir, image: &str, more: &[&str]) -> Value {
    let (pmbr, gptboot, esp) = (d.str("pmbr"), d.str("gptboot"), d.str("esp"));
    let root = format!("rootfs={}", d.str("root"));
    let mut args = vec!["disk", "create", "--json", "--force", "--pmbr", &pmbr];
    args.extend(["--gptboot", &gptboot, "--efi", &esp, "--swap", "8m", "--ufs", &root]);
    args.extend(more);
    args.push(image);
    serde_json::from_str(&ok(&args)).unwrap()
}

#[test]
fn boot_gives_both_programs() {
    let d = Dir::new();
    sources(&d);
    let (one, image) = (d.str("one.img"), d.str("image.img"));
    let (pmbr, gptboot) = (d.str("pmbr"), d.str("gptboot"));
    ok(&["disk", "create", "--pmbr", &pmbr, "--gptboot", &gptboot, "--swap", "1m", &one]);
    let dir = d.0.path().to_str().unwrap().to_owned();
    for boot in [dir, format!("{pmbr},{gptboot}")] {
        ok(&["disk", "create", "--force", "--boot", &boot, "--swap", "1m", &image]);
        assert!(fs::read(&one).unwrap() == fs::read(&image).unwrap(), "{boot}");
    }
    let alone = ["disk", "create", "--force", "--boot", &pmbr, &image];
    fails(&alone, 64, "a directory with the files pmbr and gptboot");
    let root = d.str("root");
    fails(&["disk", "create", "--force", "--boot", &root, &image], 1, "root/pmbr");
    fails(&["disk", "create", "--boot", &root, "--pmbr", &pmbr, &image], 64, "cannot be used");
}

/// Copies a partition to a file of its own.
pub(crate) fn part(d: &Dir, image: &str, disk: &Value, number: usize) -> String {
    let part = &disk["partitions"][number - 1];
    let (start, len) = (part["start"].as_u64().unwrap(), part["bytes"].as_u64().unwrap());
    let mut bytes = vec![0; len as usize];
    fs::File::open(image).unwrap().read_exact_at(&mut bytes, start).unwrap();
    d.file("part", &bytes)
}

#[test]
fn a_disk_has_what_it_was_given_and_others_read_it() {
    for sector in ["512", "4096"] {
        let d = Dir::new();
        sources(&d);
        let image = d.str("disk.img");
        let disk = create(&d, &image, &["--sector", sector]);
        let kinds: Vec<_> =
            disk["partitions"].as_array().unwrap().iter().map(|p| &p["kind"]).collect();
        assert_eq!(kinds, ["freebsd-boot", "efi", "freebsd-swap", "freebsd-ufs"]);
        // Boot code is where a BIOS and its first stage look for it.
        let bytes = fs::read(&image).unwrap();
        assert!(bytes[..446] == pattern(512, 1)[..446] && bytes[510..512] == [0x55, 0xaa]);
        let boot = fs::read(part(&d, &image, &disk, 1)).unwrap();
        assert!(boot.starts_with(&pattern(100_000, 2)));
        assert_eq!(disk["partitions"][3]["copied"]["files"], 1);
        // The volume.
        assert!(run(&["cat", &format!("{image}@4:/boot/kernel")]).stdout == pattern(3_000_000, 4));
        fsck_clean(Path::new(&format!("{image}@4")));
        // Our own reader finds the same partitions as the writer reports.
        let info: Value = json_lines(&ok(&["info", "--json", &image]));
        for (ours, read) in disk["partitions"]
            .as_array()
            .unwrap()
            .iter()
            .zip(info[0]["partitions"].as_array().unwrap())
        {
            for field in ["number", "label", "start", "bytes"] {
                assert_eq!(ours[field], read[field], "{field}");
            }
        }
        assert_eq!(info[0]["partitions"][3]["content"]["label"], "rootfs");
        if have(&["fsck.fat", "mcopy"]) {
            let efi = part(&d, &image, &disk, 2);
            tool("fsck.fat", &["-n", &efi]);
            let back = d.str("back");
            for file in ["EFI/BOOT/BOOTX64.EFI", "A name that needs long records.txt"] {
                tool("mcopy", &["-n", "-i", &efi, &format!("::{file}"), &back]);
                assert!(fs::read(&back).unwrap() == fs::read(d.path("esp").join(file)).unwrap());
            }
        }
        if sector == "512" && have(&["sgdisk", "sfdisk"]) {
            assert!(tool("sgdisk", &["-v", &image]).contains("No problems found"));
            // The types are FreeBSD's, by the names that sfdisk has for them.
            let table: Value = serde_json::from_str(&tool("sfdisk", &["-J", &image])).unwrap();
            let types: Vec<&str> = table["partitiontable"]["partitions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|part| part["type"].as_str().unwrap())
                .collect();
            assert_eq!(
                types,
                [
                    "83BD6B9D-7F41-11DC-BE0B-001560B84F0F",
                    "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
                    "516E7CB5-6ECF-11D6-8FF8-00022D09712B",
                    "516E7CB6-6ECF-11D6-8FF8-00022D09712B",
                ]
            );
        }
    }
}

#[test]
fn the_same_sources_give_the_same_disk() {
    let d = Dir::new();
    sources(&d);
    let (one, two) = (d.str("one.img"), d.str("two.img"));
    create(&d, &one, &[]);
    create(&d, &two, &[]);
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
    // With a date, the times of a later checkout have no effect, on FAT either.
    let dated = |image: &str| {
        let (esp, root) = (d.str("esp"), format!("rootfs={}", d.str("root")));
        let args = ["disk", "create", "--force", "--efi", &esp, "--ufs", &root, image];
        let output = ffs().env("SOURCE_DATE_EPOCH", "1000000000").args(args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    };
    dated(&one);
    for path in walk(&d.path("esp")).into_iter().chain(walk(&d.path("root"))) {
        set_mtime(&path, 1_600_000_000, 0);
    }
    dated(&two);
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
    // Another disk has other GUIDs.
    create(&d, &two, &["--free", "4m"]);
    let guid = |image: &str| fs::read(image).unwrap()[512 + 56..512 + 72].to_vec();
    assert_ne!(guid(&one), guid(&two));
}

#[test]
fn the_last_volume_fills_a_disk_of_a_given_size() {
    let d = Dir::new();
    sources(&d);
    let image = d.str("disk.img");
    let more = format!("more:16m={}", d.str("root"));
    let rest = format!("rest={}", d.str("root"));
    let disk = create(&d, &image, &["--size", "200m", "--ufs", &more, "--ufs", &rest]);
    assert_eq!(fs::metadata(&image).unwrap().len(), 200 << 20);
    let parts = &disk["partitions"];
    assert_eq!(parts[4]["bytes"], 16 << 20);
    let end = parts[5]["start"].as_u64().unwrap() + parts[5]["bytes"].as_u64().unwrap();
    // 33 sectors are the backup of the table.
    assert_eq!(end, (200 << 20) - 33 * 512);
    fsck_clean(Path::new(&format!("{image}@6")));
}

#[test]
fn mistakes_are_named_and_leave_no_image() {
    let d = Dir::new();
    sources(&d);
    let image = d.str("disk.img");
    let root = d.str("root");
    let ufs = |label: &str| format!("{label}={root}");
    let two = [ufs("a:16m"), ufs("a:17m")];
    fails(&["disk", "create", "--ufs", &two[0], "--ufs", &two[1], &image], 64, "two sizes");
    fails(&["disk", "create", "--ufs", "rootfs", &image], 64, "no source");
    fails(&["disk", "create", "--ufs", &ufs(""), &image], 64, "no label");
    let label = ufs(&"l".repeat(37));
    fails(&["disk", "create", "--ufs", &label, &image], 64, "1 to 36 characters");
    fails(
        &["disk", "create", "--swap", "8m", "--ufs", &ufs("swapfs"), &image],
        64,
        "two partitions",
    );
    let why = "not one or more sectors of 512 bytes; such as 1, in blocks of 512 bytes";
    fails(&["disk", "create", "--swap", "0", &image], 64, why);
    let large = ["disk", "create", "--sector", "4096", "--size", "81921", "--swap", "1m", &image];
    fails(&large, 64, "such as 81928, in blocks of 512 bytes");
    fails(&["disk", "create", "--size", "9000p", &image], 1, "larger than a file can be");
    fails(&["disk", "create", "--free", "9000p", "--ufs", &ufs("r"), &image], 1, "no size");
    let both = ["disk", "create", "--ufs", "a=-", "--ufs", "b=-", &image];
    fails(&both, 64, "can be read only once");
    fails(&["disk", "create", "--swap", "8m", &format!("{image}@1")], 64, "a file of its own");
    let efi = d.str("esp");
    fails(&["disk", "create", "--efi", &efi, "--efi-size", "3t", &image], 1, "too large");
    let empty = d.file("empty", b"");
    fails(&["disk", "create", "--pmbr", &empty, &image], 1, "the boot code is empty");
    fails(&["disk", "create", "--gptboot", "/dev/zero", &image], 1, "too long for boot code");
    fails(&["disk", "create", "--swap", "7000000000g", &image], 1, "File too large");
    fails(&["disk", "create", "--size", "3m", "--ufs", &ufs("r"), &image], 1, "partition r: ");
    fails(&["disk", "create", "--size", "20k", &image], 1, "partition table alone");
    fails(&["disk", "create", "--size", "9m", "--swap", "8m", &image], 1, "the disk has");
    let dir = d.str("none/disk.img");
    fails(&["disk", "create", "--swap", "8m", &dir], 1, "none");
    let long = d.file("long", &pattern(513, 1));
    fails(&["disk", "create", "--pmbr", &long, &image], 1, "513 bytes, expected at most 512");
    let long = d.file("long", &pattern(560_000, 1));
    fails(&["disk", "create", "--gptboot", &long, &image], 1, "too long for boot code");
    fails(&["disk", "create", "--efi", &d.str("esp"), "--efi-size", "9m", &image], 1, "--efi-size");
    fails(&["disk", "create", "--ufs", &ufs("r"), &d.file("old", b"x")], 1, "exists");
    assert!(!Path::new(&image).exists());
    let left =
        fs::read_dir(d.path(".")).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("ffs-build")), "{left:?}");
}

#[test]
fn names_that_end_in_qcow2_give_qcow2() {
    if !have(&["qemu-img"]) {
        return;
    }
    let d = Dir::new();
    sources(&d);
    let (raw, qcow2, back) = (d.str("disk.img"), d.str("disk.qcow2"), d.str("back.img"));
    create(&d, &raw, &[]);
    create(&d, &qcow2, &[]);
    let (root, one, two) = (d.str("root"), d.str("root.img"), d.str("root.qcow2"));
    for image in [&one, &two] {
        ok(&["build", image, &root]);
    }
    for (raw, qcow2) in [(&raw, &qcow2), (&one, &two)] {
        tool("qemu-img", &["check", "-q", qcow2]);
        tool("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", qcow2, &back]);
        assert!(fs::read(&back).unwrap() == fs::read(raw).unwrap(), "{qcow2}");
    }
    assert!(fs::metadata(&qcow2).unwrap().len() < 8 << 20);
    // The same sources give the same bytes.
    let again = d.str("again.qcow2");
    create(&d, &again, &[]);
    assert!(fs::read(&again).unwrap() == fs::read(&qcow2).unwrap());
}

#[test]
fn a_disk_grows_with_its_last_partition() {
    let d = Dir::new();
    sources(&d);
    for sector in ["512", "4096"] {
        let image = d.str("disk.img");
        let before = create(&d, &image, &["--sector", sector]);
        fails(&["disk", "grow", "-s", "1m", &image], 1, "not made smaller");
        fails(&["disk", "grow", "-s", "400m", &format!("{image}@4")], 64, "grows with its disk");
        if sector == "4096" {
            let why = "more sectors of 4096 bytes; such as -s 819208";
            fails(&["disk", "grow", "-s", "819201", &image], 64, why);
        }
        let info: Value = serde_json::from_str(&ok(&["info", "--json", &image])).unwrap();
        assert_eq!(info["sector_size"].to_string(), sector);
        let whole = ok(&["info", &format!("{image}@0")]);
        assert!(whole.contains(&format!("next: ffs ls {image}@4")), "{whole}");
        let grown: Value =
            serde_json::from_str(&ok(&["disk", "grow", "--json", "-s", "400m", &image])).unwrap();
        let part = &before["partitions"][3];
        assert_eq!((&grown["number"], &grown["start"]), (&part["number"], &part["start"]));
        assert_eq!(grown["before"], part["bytes"]);
        let end = grown["start"].as_u64().unwrap() + grown["bytes"].as_u64().unwrap();
        assert!(((400 << 20) - 36 * 1024..400 << 20).contains(&end), "{end}");
        ok(&["growfs", "-y", &format!("{image}@4")]);
        fsck_clean(Path::new(&format!("{image}@4")));
        assert!(run(&["cat", &format!("{image}@4:/boot/kernel")]).stdout == pattern(3_000_000, 4));
        if sector == "512" && have(&["sgdisk"]) {
            assert!(tool("sgdisk", &["-v", &image]).contains("No problems found"));
        }
        // The second copy of the table is at the new end.
        let sector: u64 = sector.parse().unwrap();
        let file = fs::File::options().write(true).open(&image).unwrap();
        file.write_all_at(&vec![0; sector as usize], sector).unwrap();
        let info = run(&["info", &image]);
        assert!(text(&info).contains("used its backup copy"), "{}", text(&info));
        // A damaged table is not changed.
        fails(&["disk", "grow", "-s", "500m", &image], 1, "used its backup copy");
        assert_eq!(fs::metadata(&image).unwrap().len(), 400 << 20);
        fs::remove_file(&image).unwrap();
    }
    let plain = d.image("plain.img", "16m", &[]);
    fails(&["disk", "grow", "-s", "20m", &plain], 1, "no GUID partition table");
    assert_eq!(fs::metadata(&plain).unwrap().len(), 16 << 20);
}

#[test]
fn an_image_among_its_sources_is_not_copied() {
    let d = Dir::new();
    sources(&d);
    let image = d.str("root/disk.img");
    let (root, efi) = (format!("rootfs={}", d.str("root")), d.str("root"));
    let mut first = Vec::new();
    for _ in 0..2 {
        // The new file changes the time of its directory.
        let output = ffs()
            .env("SOURCE_DATE_EPOCH", "1000000000")
            .args(["disk", "create", "--force", "--efi", &efi, "--ufs", &root, &image])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let bytes = fs::read(&image).unwrap();
        assert!(first.is_empty() || first == bytes);
        first = bytes;
        assert_eq!(ok(&["find", &format!("{image}@2:/"), "-name", "*disk.img*"]), "");
    }
}

#[test]
fn a_table_that_is_refused_leaves_the_disk_as_it_is() {
    if !have(&["sgdisk"]) {
        return;
    }
    let d = Dir::new();
    let image = d.str("disk.img");
    let unchanged = |prepare: &dyn Fn(), words: &str| {
        let _ = fs::remove_file(&image);
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        prepare();
        let before = fs::read(&image).unwrap();
        fails(&["disk", "grow", "-s", "64m", &image], 1, words);
        assert!(fs::read(&image).unwrap() == before, "{words}");
    };
    unchanged(
        &|| {
            tool("sgdisk", &["-o", &image]);
        },
        "no partition",
    );
    let hybrid = || {
        tool("sgdisk", &["-n", "1:2048:+4M", "-t", "1:a503", &image]);
        tool("sgdisk", &["-h", "1", &image]);
    };
    unchanged(&hybrid, "hybrid MBR");
    let small = || {
        tool("sgdisk", &["-S", "256", "-n", "1:2048:+4M", &image]);
    };
    unchanged(&small, "usual 128 entries");
    // A label from the disk cannot change the terminal.
    let _ = fs::remove_file(&image);
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    tool("sgdisk", &["-n", "1:2048:+4M", "-c", "1:\x1b[31mred", &image]);
    let output = run(&["disk", "grow", &image]);
    assert!(output.status.success() && !output.stderr.contains(&0x1b), "{}", text(&output));
}

/// The commands of a page of the guide, in its order.
fn commands(page: &str) -> String {
    let mut script = String::new();
    for block in page.split("```sh\n").skip(1) {
        script.push_str(block.split("```").next().unwrap());
    }
    script
}

#[test]
fn the_commands_of_the_page_about_disks_work() {
    if !have(&["sgdisk", "qemu-img", "nbdcopy", "xz"]) {
        return;
    }
    let d = Dir::new();
    sources(&d);
    fs::create_dir_all(d.path("root/etc")).unwrap();
    d.file("root/etc/rc.conf", b"hostname=\"disk\"\n");
    fs::create_dir(d.path("kernel")).unwrap();
    d.file("kernel/kernel.bin", &pattern(100_000, 6));
    for (archive, tree) in [("base.txz", "root"), ("kernel.txz", "kernel")] {
        tool("tar", &["-cJf", &d.str(archive), "-C", &d.str(tree), "."]);
    }
    fs::create_dir(d.path("boot")).unwrap();
    for name in ["pmbr", "gptboot"] {
        fs::rename(d.path(name), d.path("boot").join(name)).unwrap();
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/disks.md");
    let script = commands(&fs::read_to_string(page).unwrap());
    assert!(script.lines().count() > 15, "{script}");
    let ffs = crate::common::ffs();
    let bin = Path::new(ffs.get_program()).parent().unwrap().to_owned();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", &script])
        .env("PATH", path)
        .current_dir(d.path("."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    // What the page promises of its result.
    let copy = d.str("copy.img");
    assert_eq!(run(&["cat", &format!("{copy}@4:/etc/rc.conf")]).stdout, b"hostname=\"vm\"\n");
    assert!(run(&["cat", &format!("{copy}@4:/kernel.bin")]).stdout == pattern(100_000, 6));
    assert!(tool("sgdisk", &["-v", &copy]).contains("No problems found"));
    fsck_clean(Path::new(&format!("{copy}@4")));
}
