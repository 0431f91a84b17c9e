//! Snapshots as images: every reader of an image accepts them, and none changes them.

use crate::common::{Dir, fails, fsck_clean, is_root, json_lines, ok, run, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn a_snapshot_is_listed_copied_checked_and_dumped_as_an_image() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-snap") else { return };
    let before = fs::read(&image).unwrap();
    let snap = format!("{image}:/.snap/s1");
    let now = ok(&["ls", &image]);
    let then = ok(&["ls", &snap]);
    assert!(then.lines().any(|name| name == "change2") && then != now, "{then}\n{now}");
    assert_eq!(ok(&["ls", &format!("{snap}:/")]), then);
    assert_eq!(ok(&["ls", &format!("{snap}:")]), then);
    // The file itself, with -d and for cat, stat and cp.
    let file = ok(&["ls", "-ld", &snap]);
    assert!(file.contains("16777288") && file.trim_end().ends_with("/.snap/s1"), "{file}");
    let size = |json: String| json_lines::<Value>(&json)[0]["size"].clone();
    assert_eq!(size(ok(&["stat", "--json", &snap])), 16_777_288);
    assert_eq!(size(ok(&["stat", "--json", &format!("{snap}:/change2")])), 50_000);
    // A copy of the file is an image of its own.
    let copy = d.str("copy.img");
    ok(&["cp", &snap, &copy]);
    assert_eq!(ok(&["ls", "-lR", &copy]), ok(&["ls", "-lR", &snap]));
    ok(&["cp", "-a", &format!("{snap}:/d1"), &d.str("d1")]);
    assert!(d.path("d1/f0").exists());
    let cat = run(&["cat", &format!("{snap}:/change2")]);
    assert!(cat.status.success() && cat.stdout.len() == 50_000);
    for (reader, words) in [("fsck", "FILE SYSTEM"), ("dumpfs", "magic"), ("df", "UFS2")] {
        let mut args = vec![reader, &snap];
        args.extend(["-n"].iter().filter(|_| reader == "fsck"));
        let shown = run(&args);
        assert!(shown.status.success(), "{}", text(&shown));
        assert!(
            !text(&shown).contains("*****") && (reader == "fsck" || text(&shown).contains(words))
        );
    }
    assert!(ok(&["tree", &snap]).contains("change2"));
    assert!(ok(&["tree", &format!("{snap}:/d1")]).contains("f19"));
    ok(&["dump", "-0", "-f", &d.str("dump"), &snap]);
    assert!(ok(&["restore", "-t", "-f", &d.str("dump")]).contains("change2"));
    ok(&["restore", "-C", "-f", &d.str("dump"), &format!("{snap}:/")]);
    assert!(fs::read(&image).unwrap() == before, "reading changed the image");
}

#[test]
fn a_snapshot_cannot_be_changed() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-snap") else { return };
    let snap = format!("{image}:/.snap/s1");
    let before = ok(&["ls", "-lR", &snap]);
    let x = d.file("x", b"x");
    fails(&["fsck", "-y", &snap], 8, "ffs fsck -n");
    fails(&["tunefs", "-m", "5", &snap], 1, "a snapshot never changes");
    fails(&["growfs", &snap], 1, "a snapshot never changes");
    fails(&["newfs", &snap], 1, "a snapshot never changes");
    for words in [vec!["cp", &x, &format!("{snap}:/x")], vec!["rm", &format!("{snap}:/change")]] {
        let refused = run(&words);
        assert!(!refused.status.success() && text(&refused).contains("snapshot"), "{words:?}");
    }
    assert_eq!(ok(&["ls", "-lR", &snap]), before);
    ok(&["fsck", "-n", "-f", &image]);
}

#[test]
fn what_is_no_snapshot_is_named() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-snap") else { return };
    fails(&["fsck", "-n", &format!("{image}:/change")], 8, "not a snapshot");
    fails(&["dumpfs", &format!("{image}:/.snap/typo")], 1, "no such file");
    fails(&["ls", &format!("{image}:/.snap/typo:/etc")], 1, "ffs snapshot list");
    // The older snapshot in the image of the newer one is an empty file.
    let inner = format!("{image}:/.snap/s2:/.snap/s1");
    assert!(ok(&["ls", "-l", &inner]).contains(" 0 "));
    fails(&["dumpfs", &inner], 1, "not a snapshot");
    fails(&["snapshot", "mount", &image, &d.str("")], 64, "IMAGE:/.snap/NAME");
    // A colon in an ordinary name.
    let plain = d.image("plain.img", "8m", &[]);
    ok(&["mkdir", "-p", &format!("{plain}:/a:/b")]);
    assert_eq!(ok(&["ls", &format!("{plain}:/a:")]), "b\n");
    assert_eq!(ok(&["ls", "-d", &format!("{plain}:/a:/b")]), "/a:/b\n");
}

#[test]
fn dumps_of_snapshots_are_levels_of_their_volume() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-snap") else { return };
    let before = fs::read(&image).unwrap();
    let snap = |name: &str| format!("{image}:/.snap/{name}");
    fails(&["dump", "-f", &image, &snap("s1")], 1, "is the image that is read");
    assert!(fs::read(&image).unwrap() == before);
    let (dates, full, next) = (d.str("dates"), d.str("full"), d.str("next"));
    for (level, file, name) in [("-0u", &full, "s1"), ("-1u", &next, "s2")] {
        let args = ["dump", level, "-D", &dates, "-f", file, &snap(name)];
        let dumped = crate::common::ffs().env("TZ", "UTC").args(args).output().unwrap();
        assert!(dumped.status.success(), "{}", text(&dumped));
    }
    let recorded = fs::read_to_string(&dates).unwrap();
    let path = fs::canonicalize(&image).unwrap();
    let levels: Vec<&str> = recorded
        .lines()
        .map(|line| line.strip_prefix(path.to_str().unwrap()).unwrap().trim_start())
        .map(|rest| &rest[..1])
        .collect();
    assert_eq!(levels, ["0", "1"], "{recorded}");
    // Not the present, and not later than what the snapshot shows.
    assert!(recorded.lines().all(|line| line.contains("Nov 21 ")), "{recorded}");
    // Both together are the tree of the second snapshot.
    fs::create_dir(d.path("out")).unwrap();
    for dump in [&full, &next] {
        ok(&["restore", "-r", "-f", dump, &d.str("out")]);
    }
    ok(&["cp", "-a", &format!("{}:/.", snap("s2")), &d.str("want")]);
    for dir in ["out", "want"] {
        let _ = fs::remove_dir_all(d.path(dir).join(".snap"));
        let _ = fs::remove_file(d.path(dir).join("restoresymtable"));
    }
    let (out, want) = (d.path("out"), d.path("want"));
    let tree = |root: &Path| -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
        let all = crate::common::walk(root).into_iter();
        let mut all: Vec<_> = all
            .map(|path| (path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).ok()))
            .collect();
        all.sort();
        all
    };
    assert!(tree(&out) == tree(&want), "{:?}\n{:?}", out, want);
}

#[test]
fn snapshots_are_listed_with_their_properties() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-snap") else { return };
    let shown = ok(&["snapshot", "list", &image]);
    let names: Vec<&str> =
        shown.lines().skip(1).map(|line| line.split_whitespace().last().unwrap()).collect();
    assert_eq!(names, ["/.snap/s1", "/.snap/s2"], "{shown}");
    let json: Value = json_lines(&ok(&["snapshot", "list", "--json", &image]));
    assert_eq!(json[0]["inode"], 10);
    assert_eq!(json[1]["paths"][0]["name"], "/.snap/s2");
    assert_eq!(json[1]["size"], 16 << 20);
    assert!(
        json[0]["held"].as_u64().unwrap() > 0 && json[0]["made"]["seconds"].as_i64().unwrap() > 0
    );
    assert_eq!(ok(&["snapshot", "list", &d.image("none.img", "8m", &[])]), "");
}

#[test]
fn a_snapshot_is_mounted_read_only() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-snap") else { return };
    if !is_root() || !Path::new("/dev/fuse").exists() {
        return println!("skipped: mounting needs root and /dev/fuse");
    }
    let (dir, out) = (d.path("mnt"), d.path("outer"));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&out).unwrap();
    let (at, outer) = (dir.to_str().unwrap(), out.to_str().unwrap());
    let snap = format!("{image}:/.snap/s1");
    for command in [vec!["mount"], vec!["snapshot", "mount"]] {
        let mounted = run(&[&command[..], &[&snap, at]].concat());
        if !mounted.status.success() {
            return println!("skipped: cannot mount: {}", text(&mounted));
        }
        let content = fs::read(dir.join("change2")).map(|bytes| bytes.len());
        let refused = fs::write(dir.join("x"), b"x").map_err(|error| error.raw_os_error());
        let source = ok(&["stat", at]);
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        ok(&["umount", at]);
        assert_eq!((content.unwrap(), refused), (50_000, Err(Some(30))), "{source}");
        assert!(table.contains("a.img:/.snap/s1 ") || table.contains(".img:/.snap/s1 "), "{table}");
    }
    // A snapshot of a mounted volume is a file, which is an image by itself.
    ok(&["mount", "-r", &image, outer]);
    let file = format!("{outer}/.snap/s2");
    let listed = run(&["ls", "-lR", &file]);
    let check = run(&["fsck", "-n", &file]);
    ok(&["umount", outer]);
    assert!(check.status.success(), "{}", text(&check));
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(listed, ok(&["ls", "-lR", &format!("{image}:/.snap/s2")]));
}

#[test]
fn snapshots_are_made_and_deleted_in_an_image() {
    let d = Dir::new();
    let image = d.str("disk.img");
    ok(&["newfs", "-U", "-s", "64m", &image]);
    let file = d.file("file", &[7; 100_000]);
    ok(&["cp", &file, &format!("{image}:/file")]);
    let snap = format!("{image}:/.snap/one");
    let made = ok(&["snapshot", "create", "--json", &snap]);
    let made: Value = serde_json::from_str(&made).unwrap();
    assert!(made["suspended"].as_f64().unwrap() >= 0.0, "{made}");
    assert!(ok(&["ls", "-l", &format!("{image}:/.snap")]).contains("-r--r-----"));
    ok(&["rm", &format!("{image}:/file")]);
    ok(&["cp", &d.file("other", &[8; 200_000]), &format!("{image}:/other")]);
    let back = d.str("back");
    ok(&["cp", &format!("{snap}:/file"), &back]);
    assert!(fs::read(&back).unwrap() == [7; 100_000]);
    ok(&["fsck", "-n", &snap]);
    ok(&["fsck", "-n", "-f", &image]);
    fails(&["snapshot", "create", &snap], 1, "file exists");
    fails(&["snapshot", "create", &format!("{image}:/none/x")], 1, "ffs mkdir");
    fails(&["snapshot", "create", &d.str("plain")], 1, "another file system");
    assert!(!d.path("plain").exists());
    fails(&["snapshot", "delete", &format!("{image}:/other")], 1, "not a snapshot");
    ok(&["snapshot", "delete", &snap]);
    assert!(text(&run(&["snapshot", "list", &image])).contains("no snapshots"));
    ok(&["fsck", "-n", "-f", &image]);
    for n in 0..20 {
        ok(&["snapshot", "create", &format!("{image}:/.snap/{n}")]);
    }
    fails(&["snapshot", "create", &format!("{image}:/.snap/20")], 1, "cannot have more");
    assert_eq!(ok(&["ls", &format!("{image}:/.snap")]).lines().count(), 20);
    ok(&["fsck", "-n", "-f", &image]);
}

#[test]
fn a_snapshot_of_a_mounted_volume_is_made_while_programs_write() {
    let d = Dir::new();
    let Some(image) = crate::mount::mounted(&d, "rw") else { return };
    let (dir, at) = (d.path("mnt"), d.str("mnt"));
    fs::write(dir.join("kept"), [7; 300_000]).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (first, second) = (dir.join(".snap/first"), dir.join(".snap/second"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..u32::MAX {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                fs::write(dir.join(format!("w{}", n % 50)), vec![n as u8; 9000]).unwrap();
                fs::write(dir.join("kept"), vec![n as u8; 300_000]).unwrap();
            }
        });
        let made = ok(&["snapshot", "create", first.to_str().unwrap()]);
        assert!(made.contains("operations waited"), "{made}");
        ok(&["snapshot", "create", second.to_str().unwrap()]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // The file on the mount is an image.
    ok(&["fsck", "-n", first.to_str().unwrap()]);
    let kept = ok(&["ls", "-l", &format!("{}:/kept", first.display())]);
    // Its size depends on the moment: programs truncate a file before they write it.
    assert!(kept.contains("/kept"), "{kept}");
    let written = fs::OpenOptions::new()
        .append(true)
        .open(&first)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"x"));
    assert!(written.is_err());
    let not = run(&["snapshot", "delete", dir.join("kept").to_str().unwrap()]);
    assert!(text(&not).contains("not a snapshot"), "{}", text(&not));
    let listed = ok(&["snapshot", "list", &at]);
    let names: Vec<&str> =
        listed.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["/.snap/first", "/.snap/second"], "{listed}");
    ok(&["snapshot", "delete", second.to_str().unwrap()]);
    ok(&["umount", &at]);
    assert!(text(&run(&["snapshot", "list", &at])).contains("nothing is mounted"));
    ok(&["fsck", "-n", "-f", &image]);
    ok(&["fsck", "-n", &format!("{image}:/.snap/first")]);
    assert_eq!(ok(&["ls", &format!("{image}:/.snap")]).trim(), "first");
}

/// With write-back caching the kernel keeps its own size of a file that it has in memory.
#[test]
fn a_snapshot_has_its_size_with_write_back_caching() {
    let d = Dir::new();
    let Some(image) = crate::mount::mounted(&d, "rw,writeback") else { return };
    let dir = d.path("mnt");
    fs::write(dir.join("f"), "content").unwrap();
    let snapshot = dir.join(".snap/s");
    ok(&["snapshot", "create", snapshot.to_str().unwrap()]);
    let size = fs::metadata(&snapshot).unwrap().len();
    assert!(size > 16 << 20, "{size}");
    assert!(ok(&["ls", snapshot.to_str().unwrap()]).contains('f'));
    ok(&["dump", "-0", "-L", "-f", &d.str("a.dump"), &d.str("mnt")]);
    ok(&["umount", &d.str("mnt")]);
    assert!(ok(&["stat", &format!("{image}:/.snap/s")]).contains(&size.to_string()));
    fsck_clean(Path::new(&image));
}
