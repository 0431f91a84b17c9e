//! `ffs build` makes the image large enough, or reports the reason.

use crate::common::{Dir, fails, ffs, fsck_clean, json_lines, ok, text};
use std::fs;
use std::path::Path;
use std::process::Command;

const VOLUMES: [&[&str]; 4] =
    [&[], &["-b", "4096", "-f", "512"], &["-O", "1"], &["-b", "65536", "-f", "8192", "-m", "0"]];

/// Builds an image of `source` for each kind of volume; `check` looks at it.
fn each_volume(d: &Dir, source: &str, check: impl Fn(&str)) {
    for options in VOLUMES {
        let image = d.str("a.img");
        ok(&[&["build", "--force"], options, &[&image, source]].concat());
        fsck_clean(Path::new(&image));
        check(&image);
    }
}

#[test]
fn files_that_end_in_a_hole_fit() {
    let d = Dir::new();
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    // A last block each: direct; below one, two and (of 4096 bytes a block) three pointer blocks.
    let sizes: [u64; 4] = [300_000, 1 << 20, 5 << 30, 20 << 30];
    for (n, size) in sizes.into_iter().cycle().take(40).enumerate() {
        let path = tree.join(format!("{n}"));
        fs::write(&path, &b"x"[..n % 2]).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
    }
    let check = |image: &str| {
        let shown: serde_json::Value = json_lines(&ok(&["stat", "--json", &format!("{image}:/2")]));
        assert_eq!(shown[0]["size"], 5_u64 << 30);
        assert_eq!(ok(&["ls", image]).lines().count(), 40);
    };
    each_volume(&d, tree.to_str().unwrap(), check);
    let archive = d.str("sparse.tar");
    let mut tar = Command::new("tar");
    if !tar
        .args(["-S", "-C"])
        .arg(&tree)
        .args(["-cf", &archive, "."])
        .status()
        .is_ok_and(|status| status.success())
    {
        return println!("skipped: no tar that keeps holes");
    }
    each_volume(&d, &archive, check);
}

/// Files of pseudo-random sizes in directories, many small ones or few large ones.
fn random_tree(d: &Dir, name: &str, seed: u64, files: u64, most: u64) -> String {
    let mut state = seed;
    let mut next = |below: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % below
    };
    let mut bytes = vec![0; most as usize];
    for number in 0..files {
        let dir = d.path(&format!("{name}/d{}/e{}", next(7), next(9)));
        fs::create_dir_all(&dir).unwrap();
        let size = next(most) as usize;
        bytes[..size].iter_mut().for_each(|byte| *byte = number as u8 | 1);
        fs::write(dir.join(format!("file{number}")), &bytes[..size]).unwrap();
    }
    d.str(name)
}

#[test]
fn the_size_that_is_named_is_enough() {
    let d = Dir::new();
    // Space decides, both, or inodes.
    let shapes: [(u64, u64); 3] = [(40, 400_000), (900, 9000), (3000, 3)];
    for (seed, (files, most)) in (1..).zip(shapes) {
        let tree = random_tree(&d, &format!("tree{seed}"), seed, files, most);
        for options in VOLUMES {
            let image = d.str("a.img");
            for small in ["2m", "5m", "9m"] {
                let build = |size: &str| {
                    let words = [&["build", "--force", "--size", size], options, &[&image, &tree]];
                    ffs().args(words.concat()).output().unwrap()
                };
                let output = build(small);
                if output.status.success() {
                    continue;
                }
                let words = text(&output);
                let (_, size) = words.split_once("a size of ").unwrap_or_else(|| panic!("{words}"));
                let (size, _) = size.split_once(" is enough").unwrap();
                let output = build(size);
                assert!(output.status.success(), "{options:?} {size}: {}", text(&output));
                fsck_clean(Path::new(&image));
                // The size with the usual density of inodes; that which fits may have more inodes.
                ok(&[&["build", "--force"], options, &[&image, &tree]].concat());
                let fits = fs::metadata(&image).unwrap().len();
                let named: u64 = size.trim_end_matches('m').parse().unwrap();
                let inodes_decide = most < 100;
                assert!(inodes_decide || named << 20 <= 3 * fits + (2 << 20), "{fits}: {words}");
            }
        }
    }
}

/// An archive of one member for each header.
fn archive(
    d: &Dir,
    name: &str,
    members: impl IntoIterator<Item = (tar::Header, String)>,
) -> String {
    let path = d.str(name);
    let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
    for (mut header, name) in members {
        header.set_path(&name).unwrap();
        header.set_cksum();
        archive.append(&header, &b""[..]).unwrap();
    }
    archive.into_inner().unwrap();
    path
}

fn member(kind: tar::EntryType) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o644);
    header.set_mtime(1_000_000_000);
    header.set_entry_type(kind);
    header
}

#[test]
fn directories_that_only_paths_name_fit() {
    let d = Dir::new();
    let files = (0..400).map(|n| {
        let long = "e".repeat(50);
        (member(tar::EntryType::Regular), format!("a{n}/b/c/{long}/f"))
    });
    let source = archive(&d, "files.tar", files);
    each_volume(&d, &source, |image| {
        let shown: serde_json::Value = json_lines(&ok(&["ls", "-R", "--json", image]));
        assert_eq!(shown.as_array().unwrap().len(), 400 * 5);
    });
    // Directories that come after what is in them count once.
    let late = (0..2000).rev().map(|n| match n % 2 {
        0 => (member(tar::EntryType::Directory), format!("d{}/", n / 2)),
        _ => (member(tar::EntryType::Regular), format!("d{}/f", n / 2)),
    });
    let (late, early) = (archive(&d, "late.tar", late), d.str("early.img"));
    ok(&["build", &early, &late]);
    let shown: serde_json::Value = json_lines(&ok(&["df", "--json", &early]));
    let [all, free] = ["inodes", "inodes_free"].map(|name| shown[0][name].as_u64().unwrap());
    let used = all - free;
    assert!((2000..2010).contains(&used), "{shown}");
}

#[test]
fn a_stream_that_does_not_fit_leaves_nothing_and_is_reported() {
    let d = Dir::new();
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = member(tar::EntryType::Regular);
    header.set_size(20 << 20);
    archive.append_data(&mut header, "large", &vec![7; 20 << 20][..]).unwrap();
    let bytes = archive.into_inner().unwrap();
    let image = d.str("a.img");
    let args = ["build", "--size", "8m", &image, "-"];
    let output = ffs().args(args).write_stdin(bytes).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(stderr.contains("no space left") && stderr.contains("no image was made"), "{stderr}");
    assert!(stderr.contains("--size") && !stderr.contains("stays"), "{stderr}");
    assert!(!d.path("a.img").exists());
}

#[test]
fn members_that_no_volume_can_hold_are_named() {
    let d = Dir::new();
    let mut link = member(tar::EntryType::Link);
    link.set_link_name("dir").unwrap();
    let members =
        [(member(tar::EntryType::Directory), "dir".to_owned()), (link, "other".to_owned())];
    let source = archive(&d, "link.tar", members);
    let image = d.str("a.img");
    let stderr = fails(&["build", &image, &source], 1, "other: ");
    assert!(stderr.contains("hard link to the directory dir"), "{stderr}");
    assert!(!stderr.contains("schg"), "{stderr}");

    let mut far = member(tar::EntryType::Regular);
    far.set_uid(1 << 40);
    let source = archive(&d, "far.tar", [(far, "theirs".to_owned())]);
    let stderr = fails(&["build", &image, &source], 1, "theirs: ");
    assert!(stderr.contains("owner 1099511627776"), "{stderr}");
    assert!(!stderr.contains("not a tar archive"), "{stderr}");
    assert!(!d.path("a.img").exists());
}

#[test]
fn a_size_that_is_too_large_is_not_too_small() {
    let d = Dir::new();
    let tree = random_tree(&d, "tree", 1, 3, 1000);
    let image = d.str("a.img");
    for (options, size, words) in [
        (&["-O", "1"][..], "5000t", "are more than UFS1 can address"),
        (&[], "8000p", "too large: even with the largest blocks"),
    ] {
        let args = [&["build", "--size", size], options, &[&image, &tree]].concat();
        let shown = fails(&args, 1, words);
        assert!(!shown.contains("is enough") && !shown.contains("the tree needs"), "{shown}");
        assert!(!Path::new(&image).exists());
    }
    fails(&["build", "--size", "64k", &image, &tree], 1, "is enough");
}
