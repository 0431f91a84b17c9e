//! EFI system partitions of `ffs disk create`.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use ffs_testkit::tools::have;

use crate::common::{Dir, fails, ok, set_mtime, text, walk};
use crate::disk::tool;

#[test]
fn an_efi_program_becomes_the_one_that_firmware_starts() {
    let d = Dir::new();
    fs::create_dir(d.path("root")).unwrap();
    for (machine, name) in [([0x64, 0x86], "BOOTX64.EFI"), ([0x64, 0xaa], "BOOTAA64.EFI")] {
        let mut program = b"MZ".to_vec();
        program.resize(0x3c, 0);
        program.extend(128u32.to_le_bytes());
        program.resize(128, 0);
        program.extend(b"PE\0\0");
        program.extend(machine);
        program.resize(5000, 9);
        let loader = d.file("loader.efi", &program);
        let image = d.str("disk.img");
        ok(&["disk", "create", "--force", "--efi", &loader, &image]);
        if have(&["mcopy"]) {
            let back = d.str("back");
            let at = format!("{image}@@1M");
            tool("mcopy", &["-n", "-i", &at, &format!("::EFI/BOOT/{name}"), &back]);
            assert!(fs::read(&back).unwrap() == program);
        }
    }
    let text = d.file("text", b"not a program");
    let image = d.str("none.img");
    fails(&["disk", "create", "--efi", &text, &image], 1, "nor an EFI program");
}

#[test]
fn what_fat_cannot_hold_is_refused_by_name() {
    let d = Dir::new();
    let image = d.str("disk.img");
    let esp = d.path("esp");
    let args = |image: &str| -> Vec<String> {
        ["disk", "create", "--efi", &d.str("esp"), image].map(str::to_owned).to_vec()
    };
    let refused = |prepare: &dyn Fn(&Path), words: &str| {
        let _ = fs::remove_dir_all(&esp);
        fs::create_dir(&esp).unwrap();
        prepare(&esp);
        let args = args(&image);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        fails(&args, 1, words);
        assert!(!Path::new(&image).exists());
    };
    refused(&|esp| symlink("target", esp.join("link")).unwrap(), "link: FAT has only files");
    refused(&|esp| fs::write(esp.join("a:b"), "").unwrap(), "a:b: FAT does not allow the name");
    let same_but_case = |esp: &Path| {
        fs::write(esp.join("loader"), "").unwrap();
        fs::write(esp.join("LOADER"), "").unwrap();
    };
    refused(&same_but_case, "differs only in case");
    let long = |esp: &Path| {
        fs::File::create(esp.join("long")).unwrap().set_len(1 << 32).unwrap();
    };
    refused(&long, "long: FAT has no file of 4 GiB");
    let dot = |esp: &Path| fs::write(esp.join("loader."), "").unwrap();
    refused(&dot, "loader.: FAT has no name that ends in a dot");
    // Letters that are two in upper case are no reason.
    fs::remove_dir_all(&esp).unwrap();
    fs::create_dir(&esp).unwrap();
    for name in ["straße", "strasse"] {
        fs::write(esp.join(name), name).unwrap();
    }
    ok(&["disk", "create", "--efi", &d.str("esp"), &image]);
    fs::remove_file(&image).unwrap();
    // A pipe is not opened: nothing would ever write to it.
    let fifo = d.str("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fails(&["disk", "create", "--efi", &fifo, &image], 1, "nor an EFI program");
    fs::remove_file(&fifo).unwrap();
    // Nothing else is left, either.
    assert_eq!(fs::read_dir(d.path(".")).unwrap().count(), 1);
}

#[test]
fn files_of_an_efi_partition_keep_their_times() {
    let d = Dir::new();
    let (esp, image, back) = (d.path("esp"), d.str("disk.img"), d.str("back"));
    fs::create_dir_all(esp.join("EFI/Many")).unwrap();
    let names = ["UPPER.TXT", "lower.txt", "half.TXT", "A long name.conf", "größe", "x"];
    let names = names.into_iter().map(str::to_owned);
    let names: Vec<String> = names.chain((0..300).map(|n| format!("loader-{n}.efi"))).collect();
    for name in &names {
        fs::write(esp.join("EFI/Many").join(name), name).unwrap();
    }
    let mut time = 1_000_000_000;
    for path in walk(&esp) {
        time += 86_402;
        set_mtime(&path, time, 0);
    }
    ok(&["disk", "create", "--efi", &d.str("esp"), &image]);
    if !have(&["mcopy"]) {
        return;
    }
    fs::create_dir(&back).unwrap();
    let copy = ["-s", "-m", "-n", "-i", &format!("{image}@@1M"), "::EFI", &back];
    let mut mcopy = Command::new("mcopy");
    let output = mcopy.args(copy).env("TZ", "UTC").env("LC_ALL", "C.UTF-8").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    for name in &names {
        let modified = |root: &Path| fs::metadata(root.join("Many").join(name)).unwrap().mtime();
        assert_eq!(modified(&d.path("back/EFI")), modified(&esp.join("EFI")), "{name}");
    }
}
