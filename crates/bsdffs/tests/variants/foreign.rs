//! The Sleuth Kit reads the converted volumes: a judge of the builder that shares no code with it.

use super::convert::{Image, System};
use super::{ALL, volume};
use ffs_ondisk::Endian;
use std::collections::BTreeSet;
use std::process::Command;

fn output(program: &str, args: &[&str]) -> Vec<u8> {
    let out = Command::new(program).args(args).output().unwrap();
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{program} {args:?}: {errors}");
    out.stdout
}

#[test]
fn sleuthkit_reads_what_we_read() {
    if Command::new("fls").arg("-V").output().is_err() {
        eprintln!("skipped: fls is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("image");
    let path = file.to_str().unwrap();
    for endian in [Endian::Little, Endian::Big] {
        let (made, want) = volume(endian);
        for system in ALL {
            // Its reader has neither the other magic number nor the groups of 4.2BSD.
            if matches!(system, System::Mtb | System::Bsd42) {
                continue;
            }
            let mut image = Image::new(made.clone());
            image.rotate(16, 0xffff_fffc);
            image.convert(system);
            std::fs::write(&file, &image.bytes).unwrap();
            let listed = String::from_utf8(output("fls", &["-f", "ufs1", "-rpu", path])).unwrap();
            let names: BTreeSet<String> = listed
                .lines()
                .filter_map(|line| line.split_once(":\t"))
                .filter(|(_, name)| !name.contains("$OrphanFiles"))
                .map(|(_, name)| format!("/{name}"))
                .collect();
            let ours: BTreeSet<String> =
                want.keys().map(|name| name.to_str().unwrap().to_owned()).collect();
            // It takes byte 6 for a type and byte 7 for the length. With a length of 16 bits this
            // is right on big-endian volumes only.
            if endian == Endian::Big || system == System::FreeBsd4 {
                assert_eq!(names, ours, "{system:?} {endian:?}");
            }
            for name in ["/file4", "/file9", "/sparse", "/many/below/deep/link"] {
                let seen = &want[std::path::Path::new(name)];
                let content = output("icat", &["-f", "ufs1", path, &seen.ino.to_string()]);
                assert!(content == seen.content, "{system:?} {endian:?} {name}");
            }
        }
    }
}
