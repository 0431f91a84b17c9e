//! Images that real systems wrote, listed and copied out by the command: exactly what is expected.

use crate::common::{Dir, inside, json_lines, ok, run, text};
use ffs_testkit::fixtures::{self, ExpectedKind, ExpectedRow};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Larger files are mostly holes, and hashing them would take minutes.
const LARGEST_HASHED: u64 = 64 << 20;

/// Image, what follows its name to name the volume, and whose expected rows the volume has.
fn images() -> Vec<(String, &'static str, String)> {
    let mut all: Vec<(String, &str, String)> = fixtures::image_names()
        .into_iter()
        .filter(|name| {
            let dir = fixtures::dir().unwrap();
            dir.join(format!("{name}.expected.tsv")).exists()
        })
        .map(|name| (name.clone(), "", name))
        .collect();
    if !all.is_empty() {
        all.push(("part-gpt-ufs2".into(), "", "freebsd14-ufs2-le-4m".into()));
        for (inside, view) in [(":/.snap/s1", "view-s1"), (":/.snap/s2", "view-s2")] {
            all.push(("nb-ufs2-snap".into(), inside, format!("nb-ufs2-snap.{view}")));
        }
    }
    all
}

fn name(value: &Value) -> Vec<u8> {
    match value["name_hex"].as_str() {
        Some(hex) => (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect(),
        None => value["name"].as_str().unwrap().as_bytes().to_vec(),
    }
}

fn row(value: &Value) -> ExpectedRow {
    let number = |key: &str| value[key].as_u64().unwrap();
    ExpectedRow {
        path: name(&value["path"]),
        kind: match value["type"].as_str().unwrap() {
            "file" => ExpectedKind::File,
            "directory" => ExpectedKind::Dir,
            "symlink" => ExpectedKind::Symlink,
            "fifo" => ExpectedKind::Fifo,
            "char" => ExpectedKind::Chr,
            "block" => ExpectedKind::Blk,
            "socket" => ExpectedKind::Socket,
            other => panic!("type {other}"),
        },
        size: number("size"),
        sha256: None,
        mode: u32::from_str_radix(value["mode"].as_str().unwrap(), 8).unwrap(),
        uid: number("uid") as u32,
        gid: number("gid") as u32,
        nlink: number("nlink") as u32,
        mtime: value["mtime"]["seconds"].as_i64().unwrap(),
        mtime_nsec: value["mtime"]["nanoseconds"].as_u64().unwrap() as u32,
        inode: number("inode"),
        flags: u32::from_str_radix(value["flags_hex"].as_str().unwrap(), 16).unwrap(),
        target: value.get("target").map(name).unwrap_or_default(),
        reader: String::new(),
    }
}

#[test]
fn every_fixture_lists_as_expected() {
    let images = images();
    if images.is_empty() {
        return println!("skipped: no fixtures");
    }
    for (image, inside, expected) in images {
        let d = Dir::new();
        let path = d.fixture(&image).unwrap() + inside;
        let mut got: Vec<Value> = json_lines(&ok(&["stat", "--json", &format!("{path}:/")]));
        let below: Vec<Value> = json_lines(&ok(&["ls", "-AR", "--json", &path]));
        got.extend(below);
        let mut got: Vec<ExpectedRow> = got.iter().map(row).collect();
        let mut want: Vec<ExpectedRow> = fixtures::expected(&expected).unwrap();
        for row in &mut want {
            (row.sha256, row.reader) = (None, String::new());
            if row.kind != ExpectedKind::Symlink {
                row.target.clear();
            }
        }
        got.sort_by(|a, b| a.path.cmp(&b.path));
        want.sort_by(|a, b| a.path.cmp(&b.path));
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got, want, "{image}");
        }
        assert_eq!(got.len(), want.len(), "{image}");
        println!("{image}: {} files as expected", got.len());
    }
}

#[test]
fn every_fixture_copies_out_as_expected() {
    let images = images();
    if images.is_empty() {
        return println!("skipped: no fixtures");
    }
    for (image, suffix, expected) in images {
        let d = Dir::new();
        let file = d.fixture(&image).unwrap();
        let before = std::fs::read(&file).unwrap();
        let path = file.clone() + suffix;
        let out = d.path("out");
        std::fs::create_dir(&out).unwrap();
        let output = run(&["cp", "-a", &format!("{path}:/."), out.to_str().unwrap()]);
        assert!(output.status.success(), "{image}: {}", text(&output));
        let rows = fixtures::expected(&expected).unwrap();
        let mut cats = 0;
        for row in &rows {
            let relative = OsStr::from_bytes(row.path.strip_prefix(b"/").unwrap_or(&row.path));
            let copy = out.join(relative);
            if row.path == b"/.sujournal" {
                // The journal is no part of the tree; by its name it is a file.
                assert!(!copy.exists(), "{image}");
                let journal = inside(&path, &row.path);
                let copied = run(&[OsStr::new("cp"), OsStr::new("-a"), &journal, copy.as_ref()]);
                assert!(copied.status.success(), "{image}: {}", text(&copied));
            }
            let Ok(meta) = std::fs::symlink_metadata(&copy) else {
                let device = matches!(row.kind, ExpectedKind::Chr | ExpectedKind::Blk);
                assert!(device && !crate::common::is_root(), "{image}: {} missing", copy.display());
                continue;
            };
            use std::os::unix::fs::MetadataExt;
            let what = format!("{image}: {}", copy.display());
            let mtime = (meta.mtime(), meta.mtime_nsec() as u32);
            if !row.path.starts_with(b"/.") && row.path != b"/" {
                assert_eq!(mtime, (row.mtime, row.mtime_nsec), "{what}");
            }
            if crate::common::is_root() {
                assert_eq!((meta.uid(), meta.gid()), (row.uid, row.gid), "{what}");
                if row.kind != ExpectedKind::Symlink {
                    assert_eq!(meta.mode() & 0o7777, row.mode, "{what}");
                }
            }
            if row.kind == ExpectedKind::Symlink {
                let target = std::fs::read_link(&copy).unwrap();
                assert_eq!(target.as_os_str().as_bytes(), row.target, "{what}");
            }
            if row.kind != ExpectedKind::File {
                continue;
            }
            assert_eq!(meta.len(), row.size, "{what}");
            if meta.len() > LARGEST_HASHED {
                assert!(meta.blocks() * 512 < LARGEST_HASHED, "{what}: holes were filled");
                continue;
            }
            let Some(want) = row.sha256 else { continue };
            let data = std::fs::read(&copy).unwrap();
            assert_eq!(<[u8; 32]>::from(Sha256::digest(&data)), want, "{what}");
            cats += 1;
            if cats % 40 == 1 {
                let cat = run(&[OsStr::new("cat"), &inside(&path, &row.path)]);
                assert!(cat.status.success() && cat.stdout == data, "{what}: cat: {}", cat.status);
            }
        }
        assert!(std::fs::read(&file).unwrap() == before, "{image}: reading changed the image");
        println!("{image}: {cats} contents as expected");
    }
}

#[test]
fn extended_attributes_are_shown_and_copied() {
    for image in ["freebsd14-ufs2-le-4m", "freebsd14-ufs2-be-4m"] {
        let Some(rows) = fixtures::xattrs(image) else { return };
        let d = Dir::new();
        let path = d.fixture(image).unwrap();
        let mut shown = std::collections::BTreeMap::new();
        for row in &rows {
            let shown: &Value = shown.entry(row.path.clone()).or_insert_with(|| {
                let arg = inside(&path, &row.path);
                let output = run(&[OsStr::new("stat"), OsStr::new("--json"), &arg]);
                json_lines(&String::from_utf8_lossy(&output.stdout))
            });
            let space = if row.namespace == 1 { "user" } else { "system" };
            let found = shown[0]["xattrs"].as_array().unwrap().iter().any(|x| {
                x["namespace"] == space
                    && name(x) == row.name
                    && x["size"].as_u64() == Some(row.length)
            });
            assert!(found, "{image}: {shown}");
        }
    }
}
