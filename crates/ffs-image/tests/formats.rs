//! Containers against QEMU: what it makes is read, what is written it reads, and it finds no fault.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test panics on failure")]

mod common;

use common::{Dir, compare, content, disk, have, how, read_file, refusal, run, write_randomly};
use ffs_device::BlockDevice;

const LEN: usize = 20 << 20;

/// QEMU's name of each format, its options, and whether `qemu-img check` judges it.
const FORMATS: [(&str, &str, bool); 9] = [
    ("qcow2", "", true),
    ("qcow2", "cluster_size=4096,compat=0.10", true),
    ("vpc", "subformat=dynamic,force_size=on", false),
    ("vpc", "subformat=fixed,force_size=on", false),
    ("vdi", "", true),
    ("vdi", "static=on", true),
    ("vmdk", "", true),
    ("vmdk", "subformat=monolithicFlat", false),
    ("vhdx", "", true),
];

fn options(options: &str) -> Vec<&str> {
    if options.is_empty() { Vec::new() } else { vec!["-o", options] }
}

#[test]
fn what_qemu_makes_is_read() {
    if !have(&["qemu-img", "qemu-nbd"]) {
        return;
    }
    let dir = Dir::new();
    let (raw, image) = (dir.str("raw"), dir.str("image"));
    let bytes = content(LEN, 1);
    std::fs::write(&raw, &bytes).unwrap();
    for (format, how, _) in FORMATS {
        run("qemu-img", &[&["convert", "-O", format], &*options(how), &[&raw, &image]].concat());
        let opened = disk(&image, false);
        assert_eq!(opened.device.len_bytes(), LEN as u64, "{format} {how}");
        assert!(opened.device.is_read_only());
        compare(&*opened.device, &bytes, 2);
    }
    let packed: [&[&str]; 2] =
        [&["-c", "-O", "qcow2"], &["-O", "vmdk", "-o", "subformat=streamOptimized"]];
    for how in packed {
        run("qemu-img", &[&["convert"], how, &[&raw, &image]].concat());
        compare(&*disk(&image, false).device, &bytes, 3);
    }
}

#[test]
fn what_is_written_qemu_reads_without_fault() {
    if !have(&["qemu-img", "qemu-nbd"]) {
        return;
    }
    for (number, (format, how, checks)) in (0u64..).zip(FORMATS) {
        let dir = Dir::new();
        let (image, raw) = (dir.str("image"), dir.str("raw"));
        let size = LEN.to_string();
        run("qemu-img", &[&["create", "-f", format], &*options(how), &[&image, &size]].concat());
        let mut model = vec![0; LEN];
        // Two sessions: the second finds the blocks of the first.
        for session in 0..2 {
            let opened = disk(&image, true);
            write_randomly(&*opened.device, &mut model, 10 * number + session);
        }
        if checks {
            run("qemu-img", &["check", "-f", format, &image]);
        }
        run("qemu-img", &["convert", "-f", format, "-O", "raw", &image, &raw]);
        assert!(read_file(&raw) == model, "{format} {how}");
        compare(&*disk(&image, false).device, &model, 4);
    }
}

#[test]
fn unflushed_blocks_leave_a_valid_image() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new();
    for format in ["vdi", "vpc"] {
        let image = dir.str(format);
        run("qemu-img", &["create", "-f", format, &image, "20M"]);
        let opened = disk(&image, true);
        opened.device.write_at(5 << 20, &[7; 9000]).unwrap();
        opened.device.flush().unwrap();
        opened.device.write_at(9 << 20, &[8; 9000]).unwrap();
        // The file as a kill at this moment leaves it.
        let copy = dir.str("copy");
        std::fs::copy(&image, &copy).unwrap();
        let again = disk(&copy, true);
        let mut bytes = [0; 9000];
        again.device.read_at(5 << 20, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 9000], "{format}: what was flushed");
        // The block that was in no table is used again, and begins with zeros.
        again.device.write_at((9 << 20) + 4096, &[9; 10]).unwrap();
        drop(again);
        disk(&copy, false).device.read_at(9 << 20, &mut bytes).unwrap();
        assert!(bytes[..4096] == [0; 4096] && bytes[4096..4106] == [9; 10], "{format}");
        if format == "vdi" {
            run("qemu-img", &["check", "-f", format, &copy]);
        }
    }
}

#[test]
fn backing_files_are_followed_and_left_alone() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new();
    let mut bytes = content(LEN, 5);
    std::fs::write(dir.path("base.raw"), &bytes).unwrap();
    std::fs::create_dir(dir.path("sub")).unwrap();
    let (middle, top) = (dir.str("sub/middle.qcow2"), dir.str("top.qcow2"));
    run("qemu-img", &["create", "-f", "qcow2", "-b", "../base.raw", "-F", "raw", &middle]);
    run("qemu-img", &["create", "-f", "qcow2", "-b", "sub/middle.qcow2", "-F", "qcow2", &top]);
    compare(&*disk(&top, false).device, &bytes, 6);
    let before = (read_file(dir.path("base.raw")), read_file(&middle));
    let opened = disk(&top, true);
    assert_eq!(opened.remarks().len(), 2);
    write_randomly(&*opened.device, &mut bytes, 7);
    // The backing files are locked for readers only.
    assert!(refusal(&middle, true).contains("is in use by"));
    drop(disk(&middle, false));
    drop(opened);
    run("qemu-img", &["check", &top]);
    compare(&*disk(&top, false).device, &bytes, 8);
    assert!(before == (read_file(dir.path("base.raw")), read_file(&middle)));
}

#[test]
fn wrong_backing_files_are_named() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new();
    let (a, b) = (dir.str("a.qcow2"), dir.str("b.qcow2"));
    run("qemu-img", &["create", "-f", "qcow2", &a, "1M"]);
    run("qemu-img", &["create", "-f", "qcow2", "-b", &a, "-F", "qcow2", &b]);
    run("qemu-img", &["rebase", "-u", "-b", &b, "-F", "qcow2", &a]);
    assert!(refusal(&a, false).contains("circle"), "{}", refusal(&a, false));
    std::fs::remove_file(&a).unwrap();
    let missing = refusal(&b, false);
    assert!(missing.contains("a.qcow2 cannot be opened: No such file"), "{missing}");
}

#[test]
fn a_pipe_deep_in_a_chain_is_refused_without_waiting() {
    if !have(&["qemu-img", "qemu-nbd", "mkfifo"]) {
        return;
    }
    let dir = Dir::new();
    let pipe = dir.str("pipe");
    run("mkfifo", &[&pipe]);
    let make = |name: &str, format: &str, base: &str, base_format: &str| {
        let image = dir.str(name);
        let words = ["create", "-u", "-f", format, "-b", base, "-F", base_format, &image, "1M"];
        run("qemu-img", &words);
        image
    };
    let json = format!(r#"json:{{"driver":"raw","file":{{"driver":"file","filename":"{pipe}"}}}}"#);
    let low = make("low.qcow2", "qcow2", &pipe, "raw");
    let by_json = make("json.qcow2", "qcow2", &json, "raw");
    // Other spellings of QEMU, a format between that ffs does not read, and a connection.
    let quotes = format!("json:{{'driver':'file','filename':'{pipe}'}}");
    let escapes =
        format!(r#"json:{{"driver":"file","filename":"{}"}}"#, pipe.replace('p', r"\u0070"));
    let qed = make("low.qed", "qed", &pipe, "raw");
    let mut images = vec![
        low.clone(),
        by_json,
        make("quotes.qcow2", "qcow2", &quotes, "raw"),
        make("escapes.qcow2", "qcow2", &escapes, "raw"),
        make("above.qcow2", "qcow2", &qed, "qed"),
        make("net.qcow2", "qcow2", "http://127.0.0.1:9/pipe", "raw"),
    ];
    let flat = dir.str("flat.vmdk");
    let text = format!(
        "# Disk DescriptorFile\nversion=1\ncreateType=\"x\" parentFileNameHint=\"{pipe}\"\n"
    );
    std::fs::write(&flat, text).unwrap();
    images.push(flat);
    // A parent of VMware's format needs qemu-nbd, which would open the whole chain.
    let vmdk = dir.str("low.vmdk");
    run("qemu-img", &["create", "-f", "vmdk", &vmdk, "1M"]);
    let mut bytes = read_file(&vmdk);
    let line = format!("parentCID=00000001\nparentFileNameHint=\"{pipe}\"\n");
    let at = bytes.windows(9).position(|nine| nine == b"parentCID").unwrap();
    let end = at + bytes[at..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let rest: Vec<u8> = bytes[end..].iter().copied().take_while(|&byte| byte != 0).collect();
    bytes[at..at + line.len()].copy_from_slice(line.as_bytes());
    bytes[at + line.len()..at + line.len() + rest.len()].copy_from_slice(&rest);
    std::fs::write(&vmdk, &bytes).unwrap();
    images.push(vmdk.clone());
    for (name, base, format) in [("two", &vmdk, "vmdk"), ("three", &low, "qcow2")] {
        let middle = make(&format!("{name}.middle"), "qcow2", base, format);
        images.push(make(&format!("{name}.top"), "qcow2", &middle, "qcow2"));
    }
    for image in images {
        let error = refusal(&image, false);
        let examined = ["pipe", "not examined", "no path"];
        assert!(examined.iter().any(|word| error.contains(word)), "{image}: {error}");
        let error = refusal(&image, true);
        assert!(examined.iter().any(|word| error.contains(word)), "{image}: {error}");
    }
}

#[test]
fn version_1_of_qcow_has_its_own_name() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new();
    let image = dir.str("image");
    run("qemu-img", &["create", "-f", "qcow", &image, "4M"]);
    let words = "qcow (v1) image: an old version of qcow2; convert it: qemu-img convert -f qcow";
    let none = ffs_image::OpenOptions { no_helper: true, ..how(false) };
    let error = ffs_image::open(&image, &none).err().unwrap().to_string();
    assert!(error.contains(words), "{error}");
    assert!(refusal(&image, true).contains(words), "{}", refusal(&image, true));
    let new = dir.str("new.qcow2");
    run("qemu-img", &["convert", "-f", "qcow", "-O", "qcow2", &image, &new]);
    assert_eq!(disk(&new, true).device.len_bytes(), 4 << 20);
}

#[test]
fn a_container_is_locked_and_resized_as_a_raw_image() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new();
    let image = dir.str("image");
    run("qemu-img", &["create", "-f", "qcow2", &image, "1M"]);
    let opened = disk(&image, true);
    assert!(refusal(&image, false).contains("is in use by"));
    assert!(opened.can_resize());
    opened.set_len(3 << 20).unwrap();
    assert_eq!(opened.device.len_bytes(), 3 << 20);
    opened.device.write_at((3 << 20) - 5, b"hello").unwrap();
    opened.device.flush().unwrap();
    drop(opened);
    run("qemu-img", &["check", &image]);
    assert_eq!(disk(&image, false).device.len_bytes(), 3 << 20);
}

#[test]
fn foreign_variants_are_named_without_a_helper() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new();
    let image = dir.str("image");
    let cases: [(&str, &[&str]); 3] = [
        ("vhdx", &[]),
        ("vmdk", &["-o", "subformat=twoGbMaxExtentSparse"]),
        ("qcow2", &["-o", "extended_l2=on"]),
    ];
    for (format, how_made) in cases {
        run("qemu-img", &[&["create", "-f", format], how_made, &[&image, "4M"]].concat());
        let none = ffs_image::OpenOptions { no_helper: true, ..how(false) };
        let error = ffs_image::open(&image, &none).err().unwrap().to_string();
        assert!(error.to_lowercase().contains(format), "{error}");
        // With the helper they are disks.
        if have(&["qemu-nbd"]) {
            assert_eq!(disk(&image, true).device.len_bytes(), 4 << 20, "{format}");
        }
    }
}

#[test]
fn a_qcow2_image_whose_tables_count_as_free_is_not_written() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new();
    let (image, damaged) = (dir.str("image"), dir.str("damaged"));
    for options in ["cluster_size=512", "refcount_bits=1", "refcount_bits=64", "compat=0.10"] {
        run("qemu-img", &["create", "-f", "qcow2", "-o", options, &image, "8M"]);
        disk(&image, true).device.write_at(0, &[7; 4096]).unwrap();
        drop(disk(&image, true));
        let sound = read_file(&image);
        let table = u64::from_be_bytes(sound[48..56].try_into().unwrap()) as usize;
        let block = u64::from_be_bytes(sound[table..table + 8].try_into().unwrap()) as usize;
        // The count of the header; the block of counts; everything behind the header.
        for (at, end) in [(block, block + 1), (table, table + 8), (512, sound.len())] {
            let mut bytes = sound.clone();
            bytes[at..end].fill(0);
            if end == block + 1 {
                bytes[block..block + 8].fill(0);
            }
            std::fs::write(&damaged, &bytes).unwrap();
            let error = refusal(&damaged, true);
            assert!(error.contains("qemu-img check -r all"), "{options} {at}: {error}");
            assert!(read_file(&damaged) == bytes);
        }
        std::fs::write(&damaged, &sound[..128]).unwrap();
        assert!(refusal(&damaged, true).contains("qemu-img check -r all"), "{options}");
    }
}

#[test]
fn a_truncated_qcow2_image_is_refused_and_a_leaked_cluster_is_not() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new();
    let (raw, image, damaged) = (dir.str("raw"), dir.str("image"), dir.str("damaged"));
    let bytes = content(LEN, 9);
    std::fs::write(&raw, &bytes).unwrap();
    let cases: [&[&str]; 6] = [
        &[],
        &["-c"],
        &["-o", "compat=0.10"],
        &["-o", "cluster_size=512"],
        &["-o", "refcount_bits=1"],
        &["-o", "refcount_bits=64,cluster_size=2M"],
    ];
    for options in cases {
        run("qemu-img", &[&["convert", "-O", "qcow2"], options, &[&raw, &image]].concat());
        let whole = read_file(&image);
        let cluster = 1 << u32::from_be_bytes(whole[20..24].try_into().unwrap());
        let least = if options == ["-c"] { 200_000 } else { 2 * cluster };
        for end in [whole.len() - least, whole.len() / 2, 4 * cluster] {
            std::fs::write(&damaged, &whole[..end]).unwrap();
            for write in [false, true] {
                let error = refusal(&damaged, write);
                // The tables are checked before they are written.
                let by_tables = write && error.contains("check -r all");
                assert!(
                    by_tables || error.contains("it is truncated"),
                    "{options:?} {end}: {error}"
                );
            }
        }
        // The counts of an image that a killed program left "dirty" may be too low.
        let table = u64::from_be_bytes(whole[48..56].try_into().unwrap()) as usize;
        let mut dirty = whole[..whole.len() / 2].to_vec();
        dirty[table..table + 8].fill(0);
        dirty[79] |= 1;
        if options != ["-o", "compat=0.10"] {
            std::fs::write(&damaged, &dirty).unwrap();
            assert!(refusal(&damaged, false).contains("it is truncated"), "{options:?}");
        }
        // A killed program has counted a cluster that it did not write.
        let block = u64::from_be_bytes(whole[table..table + 8].try_into().unwrap()) as usize;
        let mut leaky = whole.clone();
        leaky[block + cluster - 1] |= 0x80;
        std::fs::write(&damaged, &leaky).unwrap();
        compare(&*disk(&damaged, false).device, &bytes, 10);
    }
}
