//! `ffs growfs`: the content stays, the space is usable, and images are made longer.

use crate::common::{Dir, assert_same, fails, fsck_clean, json_lines, make_tree, ok};
use std::fs;
use std::path::Path;

const VOLUMES: [&[&str]; 4] = [
    &["-b", "4096", "-f", "512"],
    &["-O", "1", "-U"],
    &["-b", "65536", "-f", "8192", "-U"],
    &["--endian", "big"],
];

fn free_bytes(image: &str) -> u64 {
    let shown: serde_json::Value = json_lines(&ok(&["df", "--json", image]));
    shown[0]["available"].as_u64().unwrap()
}

#[test]
fn files_stay_as_they_are_and_the_space_can_be_used() {
    for options in VOLUMES {
        let d = Dir::new();
        let (tree, image) = (d.path("tree"), d.str("a.img"));
        make_tree(&tree);
        ok(&[&["build"], options, &[&image, tree.to_str().unwrap()]].concat());
        let before = free_bytes(&image);
        ok(&["cp", "-a", &format!("{image}:/"), &d.str("before")]);
        ok(&["growfs", "-s", "400m", &image]);
        assert_eq!(fs::metadata(&image).unwrap().len(), 400 << 20);
        fsck_clean(Path::new(&image));
        ok(&["cp", "-a", &format!("{image}:/"), &d.str("after")]);
        assert_same(&d.path("before"), &d.path("after"), &[]);
        let more = d.file("more", &crate::common::pattern(200 << 20, 3));
        assert!(before < 200 << 20 && free_bytes(&image) > 200 << 20, "{options:?}");
        ok(&["cp", &more, &format!("{image}:/more")]);
        fsck_clean(Path::new(&image));
        ok(&["cp", &format!("{image}:/more"), &d.str("back")]);
        assert!(fs::read(d.path("more")).unwrap() == fs::read(d.path("back")).unwrap());
    }
}

/// The table of docs/guide/images.md, "Enlarge a volume": each size, and one above.
#[test]
fn a_small_volume_grows_to_the_size_in_the_guide() {
    let d = Dir::new();
    let cases = [
        ("1m", 50, 56),
        ("4m", 50, 56),
        ("8m", 230, 253),
        ("16m", 950, 1045),
        ("32m", 3800, 4200),
        ("64m", 15 << 10, 17 << 10),
        ("128m", 30 << 10, 34 << 10),
        ("1g", 30 << 10, 34 << 10),
    ];
    for (size, grows, not) in cases {
        let image = d.image("a.img", size, &[]);
        ok(&["growfs", "-N", "-s", &format!("{grows}g"), &image]);
        let words = if not < 30 << 10 { "can grow to about" } else { "must be below 2^32" };
        fails(&["growfs", "-N", "-s", &format!("{not}g"), &image], 1, words);
        fs::remove_file(&image).unwrap();
    }
    // The limit is no estimate: the volume has that size, and is sound.
    let image = d.image("a.img", "1m", &[]);
    ok(&["growfs", "-s", "6g", &image]);
    assert!(free_bytes(&image) > 4 << 30);
    fsck_clean(Path::new(&image));
}

#[test]
fn a_grown_file_and_a_grown_image_need_no_size() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let file = fs::File::options().write(true).open(&image).unwrap();
    file.set_len(64 << 20).unwrap();
    let shown = ok(&["growfs", &image]);
    assert!(shown.contains("16.0MB -> 64.0MB"), "{shown}");
    fsck_clean(Path::new(&image));
    fails(&["growfs", &image], 1, "already fills its");
}

#[test]
fn a_partition_bounds_its_file_system() {
    let d = Dir::new();
    let Some(disk) = d.fixture("part-gpt-ufs2") else { return };
    let part = format!("{disk}@2");
    let before = fs::metadata(&disk).unwrap().len();
    fails(&["growfs", "-s", "1t", &part], 1, "the device has");
    assert_eq!(fs::metadata(&disk).unwrap().len(), before);
}

#[test]
fn a_dry_run_shows_the_result_and_changes_nothing() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let before = fs::read(&image).unwrap();
    let dry = ok(&["growfs", "-N", "-s", "64m", &image]);
    assert!(dry.contains("16.0MB -> 64.0MB"), "{dry}");
    assert!(fs::read(&image).unwrap() == before);
    assert_eq!(ok(&["growfs", "-v", "-s", "64m", &image]), dry);
    let json = ok(&["growfs", "-N", "--json", "-s", "65m", &image]);
    let shown: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(shown["new_bytes"], 65 << 20);
}

#[test]
fn a_refused_growth_leaves_the_length_of_the_file() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let before = fs::read(&image).unwrap();
    // 4096 bytes more have no space for the undo log.
    fails(&["growfs", "-s", "16388k", &image], 1, "at least");
    assert!(fs::read(&image).unwrap() == before);
    fails(&["growfs", "-s", "8m", &image], 1, "not larger");
    fails(&["growfs", "-s", "many", &image], 1, "many");
    if let Some(snap) = d.fixture("nb-ufs2-snap") {
        let len = fs::metadata(&snap).unwrap().len();
        fails(&["growfs", "-s", "1g", &snap], 1, "snapshots");
        assert_eq!(fs::metadata(&snap).unwrap().len(), len);
    }
}

/// SIGINT while groups are written: the volume and the length of its file are as before, and the
/// image is locked from the first look to the end.
#[test]
fn an_interrupted_growth_leaves_volume_and_file() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-b", "4096", "-f", "512"]);
    let before = fs::read(&image).unwrap();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args(["growfs", "-s", "400g", &image])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The file is longer when the growth has begun.
    while fs::metadata(&image).unwrap().len() == 16 << 20 {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    fails(&["ls", &image], 1, "in use by");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{words}");
    assert!(words.contains("interrupted; nothing was changed"), "{words}");
    assert!(fs::read(&image).unwrap() == before);
    fsck_clean(Path::new(&image));
}

/// Volumes that other systems wrote.
#[test]
fn fixtures_grow_and_keep_their_tree() {
    for name in ["freebsd14-ufs2-le-4m", "freebsd14-ufs2-be-4m", "makefs-ufs1-le", "makefs-ufs1-be"]
    {
        let d = Dir::new();
        let Some(image) = d.fixture(name) else { return };
        let before = ok(&["ls", "-lRi", &image]);
        ok(&["growfs", "-s", "200m", &image]);
        fsck_clean(Path::new(&image));
        assert_eq!(ok(&["ls", "-lRi", &image]), before);
    }
}

#[test]
fn the_limit_of_small_groups_is_printed() {
    let d = Dir::new();
    fs::create_dir(d.path("tree")).unwrap();
    let image = d.str("small.img");
    ok(&["build", &image, &d.str("tree")]);
    let printed = fails(&["growfs", "-N", "-s", "4t", &image], 1, "groups are too small");
    let limit = printed.split("about ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let limit: u64 = limit.parse().unwrap();
    ok(&["growfs", "-N", "-s", &format!("{}m", limit * 9 / 10), &image]);
    fails(&["growfs", "-N", "-s", &format!("{}m", limit * 12 / 10), &image], 1, "too small");
}
