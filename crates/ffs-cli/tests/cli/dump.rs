//! `ffs dump` and `ffs restore`, alone and with the programs of Linux.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ffs_testkit::tools::have;

use crate::common::{
    Dir, assert_same, fails, ffs, fsck_clean, is_root, make_tree, ok, pattern, run, see, set_mtime,
    text, walk,
};

/// What a restored file system has in addition to its tree.
const SNAP: &[&str] = &[".snap", "restoresymtable"];
/// Options of `ffs build`: formats, byte orders and block sizes.
const VOLUMES: [&[&str]; 4] = [
    &[],
    &["-O", "1"],
    &["--endian", "big", "-b", "8192", "-f", "1024"],
    &["-O", "1", "--endian", "big", "-b", "65536", "-f", "8192"],
];

/// A tree, and an image of it.
fn built(d: &Dir, options: &[&str]) -> String {
    let (tree, image) = (d.path("tree"), d.str("a.img"));
    if !tree.exists() {
        make_tree(&tree);
    }
    let args = [&["build", "--force", "--size", "64m"], options, &[&image, tree.to_str().unwrap()]];
    let output = run(&args.concat());
    assert!(output.status.success(), "{}", text(&output));
    image
}

/// The directory of the host has what the dump has. Only root gives files to others.
fn compares(dump: &str, dir: &str) {
    let output = run(&["restore", "-C", "-f", dump, dir]);
    let printed = text(&output);
    let of_owners =
        |line: &str| line.ends_with(": the owner differs") || line.ends_with(" of the dump");
    let errors = String::from_utf8_lossy(&output.stderr);
    let owners = errors.contains("the owner differs") && errors.lines().all(of_owners);
    let as_user = !is_root() && output.status.code() == Some(1) && owners;
    assert!(output.status.success() || as_user, "{printed}");
}

#[test]
fn a_tree_comes_back_from_a_dump() {
    for options in VOLUMES {
        let d = Dir::new();
        let image = built(&d, options);
        let (dump, out) = (d.str("a.dump"), d.str("out"));
        ok(&["dump", "-0", "-f", &dump, &image]);
        fs::create_dir(&out).unwrap();
        ok(&["restore", "-x", "-f", &dump, "-D", &out]);
        compares(&dump, &out);
        ok(&["restore", "-C", "-f", &dump, &format!("{image}:/")]);
        ok(&["cp", "-a", &format!("{image}:/."), &d.str("copy")]);
        assert_same(&d.path("copy"), &d.path("out"), SNAP);
        let other = d.image("b.img", "64m", &[]);
        ok(&["restore", "-x", "-f", &dump, "-D", &format!("{other}:/")]);
        fsck_clean(Path::new(&other));
        ok(&["restore", "-C", "-f", &dump, &format!("{other}:/")]);
        fs::write(d.path("out/small"), "another").unwrap();
        fails(&["restore", "-C", "-f", &dump, &out], 1, "the kind or the size differs");
    }
}

#[test]
fn a_chain_of_dumps_rebuilds_an_image_and_a_directory() {
    let d = Dir::new();
    let image = built(&d, &[]);
    let (dates, out) = (d.str("dumpdates"), d.str("out"));
    let target = format!("{}:/", d.image("b.img", "64m", &["-O", "1"]));
    fs::create_dir(&out).unwrap();
    let inside = |path: &str| format!("{image}:/{path}");
    for level in 0..3u8 {
        // Dates have whole seconds: what changes in the second of a dump is in the next one, too.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        match level {
            0 => {}
            1 => {
                ok(&["mv", &inside("dir"), &inside("moved")]);
                ok(&["rm", "-r", &inside("many")]);
                ok(&["cp", &d.file("new", &pattern(100_000, 9)), &inside("moved/new")]);
            }
            _ => {
                ok(&["mv", &inside("moved/sub"), &inside("many")]);
                ok(&["rm", &inside("small")]);
                ok(&["mkdir", &inside("small")]);
            }
        }
        let dump = d.str(&format!("{level}.dump"));
        ok(&["dump", &format!("-{level}u"), "-D", &dates, "-f", &dump, &image]);
        ok(&["restore", "-r", "-f", &dump, &target]);
        ok(&["restore", "-r", "-f", &dump, &out]);
    }
    let size = |level| fs::metadata(d.path(&format!("{level}.dump"))).unwrap().len();
    assert!(size(1) < size(0) / 2 && size(2) < size(0) / 2);
    ok(&["cp", "-a", &format!("{image}:/."), &d.str("copy")]);
    // The file restoresymtable has changed the root.
    for root in ["copy", "out"] {
        set_mtime(&d.path(root), 0, 0);
    }
    assert_same(&d.path("copy"), &d.path("out"), SNAP);
    ok(&["cp", "-a", &format!("{target}."), &d.str("second copy")]);
    let names = |name: &str| see(&d.path(name), SNAP).len();
    assert_eq!(names("second copy"), names("copy"));
    fails(&["restore", "-r", "-f", &d.str("1.dump"), &target], 1, "too low");
    let dates = fs::read_to_string(dates).unwrap();
    let levels: Vec<&str> = dates.lines().map(|l| l.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(levels, ["0", "1", "2"], "{dates}");
}

#[test]
fn a_dump_goes_through_a_pipe() {
    let d = Dir::new();
    let image = built(&d, &[]);
    let target = format!("{}:/", d.image("b.img", "64m", &[]));
    let dump = ffs().args(["dump", "-f", "-", &image]).output().unwrap();
    assert!(dump.status.success(), "{}", text(&dump));
    assert_eq!(dump.stdout.len() % 10240, 0);
    let mut restore = ffs();
    let restored = restore.args(["restore", "-r", "-f", "-", &target]).write_stdin(dump.stdout);
    let restored = restored.output().unwrap();
    assert!(restored.status.success(), "{}", text(&restored));
    ok(&["dump", "-f", &d.str("a.dump"), &image]);
    ok(&["restore", "-C", "-f", &d.str("a.dump"), &target]);
}

#[test]
fn names_are_listed_and_selected() {
    let d = Dir::new();
    let image = built(&d, &[]);
    let dump = d.str("a.dump");
    // The old form of the options, in the order of their values.
    ok(&["dump", "0ahf", "1", &dump, &image]);
    let listed = ok(&["restore", "-t", "-f", &dump]);
    assert_eq!(ok(&["restore", "tf", &dump]), listed);
    assert!(listed.contains("Level 0 dump of") && listed.contains("\t./dir/sub/deep/leaf\n"));
    let some = ok(&["restore", "-t", "-v", "-f", &dump, "dir/sub"]);
    assert!(
        some.contains("dir  ") && some.contains("leaf ") && !some.contains("./small"),
        "{some}"
    );
    let json = ok(&["restore", "-t", "--json", "-f", &dump]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["level"], 0);
    assert!(json["files"].as_array().unwrap().len() > 300);
    fs::create_dir(d.path("out")).unwrap();
    let out = d.str("out");
    fails(&["restore", "-x", "-f", &dump, "-D", &out, "dir/hard", "nope"], 1, "nope: not in");
    assert_eq!(fs::read(d.path("out/dir/hard")).unwrap(), b"small\n");
    assert_eq!(see(&d.path("out"), &[]).len(), 3);
    // -N reads everything and writes nothing.
    ok(&["restore", "-x", "-N", "-f", &dump, "-D", &out]);
    ok(&["restore", "-r", "-N", "-f", &dump, &out]);
    assert_eq!(see(&d.path("out"), &[]).len(), 3);
    // A file with two dumps.
    let twice = [fs::read(&dump).unwrap(), fs::read(&dump).unwrap()].concat();
    let twice = d.file("twice", &twice);
    assert_eq!(ok(&["restore", "-t", "-s", "2", "-f", &twice]), listed);
    fails(&["restore", "-t", "-s", "3", "-f", &twice], 1, "no dump number 3");
}

#[test]
fn a_mounted_file_system_is_dumped_from_a_snapshot() {
    let d = Dir::new();
    let Some(image) = crate::mount::mounted(&d, "rw") else { return };
    let (at, dates) = (d.str("mnt"), d.str("dates"));
    let dir = d.path("mnt");
    fs::write(dir.join("kept"), pattern(200_000, 5)).unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("sub/file"), b"then").unwrap();
    let (full, next) = (d.str("full"), d.str("next"));
    let dump = |level: &str, file: &str| run(&["dump", level, "-L", "-D", &dates, "-f", file, &at]);
    // A program writes while the dump is made.
    let stop = std::sync::atomic::AtomicBool::new(false);
    let first = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..u32::MAX {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                fs::write(dir.join("busy"), vec![n as u8; 20_000]).unwrap();
            }
        });
        let first = dump("-0u", &full);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        first
    });
    std::thread::sleep(std::time::Duration::from_millis(1100));
    fs::write(dir.join("sub/file"), b"now").unwrap();
    let second = dump("-1u", &next);
    let left = fs::read_dir(dir.join(".snap")).unwrap().count();
    fs::remove_dir(dir.join(".snap")).unwrap();
    let without = run(&["dump", "-L", "-f", &full, &at]);
    ok(&["umount", &at]);
    assert!(first.status.success(), "{}", text(&first));
    assert!(second.status.success(), "{}", text(&second));
    assert!(text(&without).contains("mkdir -m 770"), "{}", text(&without));
    assert_eq!(left, 0, "the snapshot has no name");
    fsck_clean(Path::new(&image));
    assert!(ok(&["snapshot", "list", &image]).lines().count() <= 1);
    let recorded = fs::read_to_string(&dates).unwrap();
    let path = fs::canonicalize(&image).unwrap();
    assert!(recorded.lines().count() == 2, "{recorded}");
    assert!(recorded.lines().all(|l| l.starts_with(path.to_str().unwrap())), "{recorded}");
    fs::create_dir(d.path("out")).unwrap();
    for file in [&full, &next] {
        ok(&["restore", "-r", "-f", file, &d.str("out")]);
    }
    assert!(fs::read(d.path("out/kept")).unwrap() == pattern(200_000, 5));
    assert_eq!(fs::read(d.path("out/sub/file")).unwrap(), b"now");
    // Of a file system that is not mounted, -L changes nothing.
    let unmounted = run(&["dump", "-L", "-f", &full, &image]);
    assert!(unmounted.status.success(), "{}", text(&unmounted));
    assert!(text(&unmounted).contains("no effect"), "{}", text(&unmounted));
}

#[test]
fn a_killed_dump_does_not_prevent_the_next_one() {
    let d = Dir::new();
    let Some(image) = crate::mount::mounted(&d, "rw") else { return };
    let (at, dump) = (d.str("mnt"), d.str("a.dump"));
    let snap = d.path("mnt/.snap/dump_snapshot");
    // A dump that is killed after it made its snapshot leaves this.
    let left = run(&["snapshot", "create", snap.to_str().unwrap()]);
    let after_killed = run(&["dump", "-0", "-L", "-f", &dump, &at]);
    let remains = snap.exists();
    fs::write(&snap, "mine").unwrap();
    let plain = run(&["dump", "-0", "-L", "-f", &dump, &at]);
    let kept = fs::read(&snap).unwrap();
    fs::remove_file(&snap).unwrap();
    fs::create_dir(&snap).unwrap();
    let directory = run(&["dump", "-0", "-L", "-f", &dump, &at]);
    let advice = "remove or rename it: mv ";
    // The command of the message works.
    let printed = text(&directory);
    let command = printed.split_once("rename it: ").map(|(_, command)| command.trim().to_owned());
    let renamed = command.map(|c| Command::new("sh").args(["-c", &c]).status().unwrap().success());
    let last = run(&["dump", "-0", "-L", "-f", &dump, &at]);
    ok(&["umount", &at]);
    assert!(left.status.success(), "{}", text(&left));
    assert!(after_killed.status.success() && !remains, "{}", text(&after_killed));
    assert!(text(&after_killed).contains("was killed"), "{}", text(&after_killed));
    for refused in [&plain, &directory] {
        assert_eq!(refused.status.code(), Some(1), "{}", text(refused));
        assert!(text(refused).contains(advice), "{}", text(refused));
    }
    assert_eq!(kept, b"mine");
    assert_eq!(renamed, Some(true), "{printed}");
    assert!(last.status.success(), "{}", text(&last));
    fsck_clean(Path::new(&image));
}

#[test]
fn a_mount_that_cannot_be_dumped_is_refused_with_what_to_do() {
    let d = Dir::new();
    let Some(image) = crate::mount::mounted(&d, "rw") else { return };
    let (at, dump, snap) = (d.str("mnt"), d.str("a.dump"), d.path("mnt/.snap"));
    let without = run(&["dump", "-f", &dump, &at]);
    fs::remove_dir(&snap).unwrap();
    fs::write(&snap, "a file").unwrap();
    let file = run(&["dump", "-L", "-f", &dump, &at]);
    let remounted = run(&["mount", "-u", "-o", "ro", &at]);
    let read_only = run(&["dump", "-L", "-f", &dump, &at]);
    let without_either = run(&["dump", "-f", &dump, &at]);
    ok(&["umount", &at]);
    let unmounted = run(&["dump", "-f", &dump, &image]);
    ok(&["mount", "-r", &image, &at]);
    let of_image = run(&["dump", "-f", &dump, &image]);
    ok(&["umount", &at]);
    assert!(unmounted.status.success(), "{}", text(&unmounted));
    assert!(text(&without).contains("is mounted there; add -L"), "{}", text(&without));
    assert!(text(&file).contains("not a directory; rename it"), "{}", text(&file));
    assert!(remounted.status.success(), "{}", text(&remounted));
    let printed = text(&without_either);
    assert!(printed.contains("name the image: ffs dump /") && !printed.contains("-L"), "{printed}");
    let printed = text(&read_only);
    assert!(printed.contains("mounted read-only") && printed.contains("without -L: "), "{printed}");
    assert!(!printed.contains("mkdir"), "{printed}");
    assert!(of_image.status.success(), "{}", text(&of_image));
}

#[test]
fn snapshots_are_not_in_a_dump_and_are_not_compared() {
    let d = Dir::new();
    let image = built(&d, &[]);
    let (dump, out) = (d.str("a.dump"), d.str("out"));
    ok(&["mkdir", "-p", &format!("{image}:/.snap")]);
    ok(&["snapshot", "create", &format!("{image}:/.snap/s1")]);
    ok(&["dump", "-0", "-f", &dump, &image]);
    ok(&["restore", "-C", "-f", &dump, &format!("{image}:/")]);
    fs::create_dir(&out).unwrap();
    ok(&["restore", "-x", "-f", &dump, "-D", &out]);
    assert_eq!(fs::metadata(d.path("out/.snap/s1")).unwrap().len(), 0);
    compares(&dump, &out);
    if crate::mount::fuse() {
        fs::create_dir(d.path("mnt")).unwrap();
        let mounted = run(&["mount", "-o", "ro", &image, &d.str("mnt")]);
        if mounted.status.success() {
            let compared = run(&["restore", "-C", "-f", &dump, &d.str("mnt")]);
            ok(&["umount", &d.str("mnt")]);
            assert!(compared.status.success(), "{}", text(&compared));
        }
    }
}

#[test]
fn options_that_cannot_be_honoured_are_refused_with_a_reason() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let dump = d.str("a.dump");
    fails(&["dump", "-L", "-f", &dump, &d.str("")], 1, "nothing is mounted");
    fails(&["dump", "-B", "100", "-f", &dump, &image], 1, "one volume");
    fails(&["dump", "-P", "cat", "-f", &dump, &image], 1, "-f - and a pipe");
    fails(&["dump", &image], 1, "give -f FILE");
    fails(&["dump", "-f", &image, &image], 1, "is the image that is read");
    let place = d.str("no/dir");
    let words = "cannot be created: No such file or directory; make the directory first";
    fails(&["dump", "-f", &place, &image], 1, &format!("{place}: {words}"));
    fails(&["dump", "-u", "-T", "0", "-f", &dump, &image], 1, "cannot be used with");
    assert!(!Path::new(&dump).exists());
    ok(&["dump", "-a", "-n", "-C", "8", "-h", "0", "-b", "64", "-f", &dump, &image]);
    assert_eq!(fs::metadata(&dump).unwrap().len() % 65536, 0);
    let estimate: u64 = ok(&["dump", "-S", &image]).trim().parse().unwrap();
    assert!(estimate > 0 && estimate <= fs::metadata(&dump).unwrap().len());
    fails(&["restore", "-i", "-f", &dump], 1, "no interactive mode");
    fails(&["restore", "-t"], 1, "give -f FILE");
    fails(&["restore", "-f", &dump], 1, "required");
    fails(&["restore", "-t", "-f", &image], 1, "not a dump");
    fails(&["restore", "-x", "-f", &dump, "-D", &image], 1, "for an image write");
    let whole = fs::read(&dump).unwrap();
    let damaged = d.file("damaged", &whole[..5000]);
    fails(&["restore", "-t", "-f", &damaged], 1, "truncated");
}

#[test]
fn a_full_output_device_is_an_abnormal_end() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    if Path::new("/dev/full").exists() {
        fails(&["dump", "-f", "/dev/full", &image], 3, "cannot write the dump");
    }
}

/// The names after the tabs of a list. Ours escapes bytes that are not UTF-8: leave these out.
fn listed_names(list: &str) -> Vec<String> {
    let tabs = list.lines().filter_map(|line| line.split_once('\t'));
    let mut names: Vec<_> = tabs.map(|(_, name)| name.to_owned()).collect();
    names.retain(|name| !name.contains("bad"));
    names.sort();
    names
}

/// The judge from another project: the restore of Linux reads our dumps.
#[test]
fn linux_restores_our_dumps() {
    if !have(&["restore"]) {
        return;
    }
    for options in VOLUMES {
        let d = Dir::new();
        let image = built(&d, options);
        let dump = d.str("a.dump");
        ok(&["dump", "-f", &dump, &image]);
        fs::create_dir(d.path("out")).unwrap();
        let restore = |args: &[&str]| {
            let mut command = Command::new("restore");
            command.args(args).args(["-f", &dump]).current_dir(d.path("out"));
            command.stdin(Stdio::null()).output().unwrap()
        };
        let theirs = restore(&["-t"]);
        let theirs = listed_names(&String::from_utf8_lossy(&theirs.stdout));
        let ours = listed_names(&ok(&["restore", "-t", "-f", &dump]));
        assert_eq!(theirs, ours, "{options:?}");
        // It reports nanoseconds of symbolic links as errors.
        restore(&["-x", "-a", "-y", "-o"]);
        for path in walk(&d.path("tree")) {
            let name = path.strip_prefix(d.path("tree")).unwrap();
            let restored = d.path("out").join(name);
            let (a, b) = (fs::symlink_metadata(&path).unwrap(), fs::symlink_metadata(&restored));
            let b = b.unwrap_or_else(|error| panic!("{options:?}: {}: {error}", name.display()));
            assert_eq!(a.file_type(), b.file_type(), "{}", name.display());
            if a.is_file() {
                assert!(fs::read(&path).unwrap() == fs::read(&restored).unwrap(), "{name:?}");
            }
            if a.is_symlink() {
                assert_eq!(fs::read_link(&path).unwrap(), fs::read_link(&restored).unwrap());
            }
        }
    }
}

/// Linux's dump stores no nanoseconds.
fn whole_seconds(root: &Path) {
    use std::os::unix::fs::MetadataExt;
    for path in walk(root).into_iter().rev() {
        set_mtime(&path, fs::symlink_metadata(&path).unwrap().mtime(), 0);
    }
}

/// An ext2 image in a loop device, which the dump of Linux reads.
#[test]
fn our_restore_reads_dumps_of_linux() {
    if !is_root() || !have(&["dump", "mke2fs", "losetup"]) {
        return println!("skipped: needs root, dump, mke2fs and losetup");
    }
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let image = d.file("ext2.img", &[]);
    fs::File::options().write(true).open(&image).unwrap().set_len(64 << 20).unwrap();
    let shell = |line: &str| {
        let output = Command::new("sh").args(["-ec", line]).current_dir(d.path("")).output();
        output.unwrap()
    };
    let made = shell(&format!("mke2fs -q -t ext2 -d tree {image} && losetup -f --show {image}"));
    if !made.status.success() {
        return println!("skipped: {}", text(&made));
    }
    let device = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let dumped = shell(&format!("dump -0 -f linux.dump {device}"));
    shell(&format!("losetup -d {device}"));
    assert!(dumped.status.success(), "{}", text(&dumped));
    let dump = d.str("linux.dump");
    whole_seconds(&tree);
    for target in ["host", "image"] {
        let out = d.path(target);
        if target == "host" {
            fs::create_dir(&out).unwrap();
            ok(&["restore", "-x", "-f", &dump, "-D", out.to_str().unwrap()]);
        } else {
            let inside = format!("{}:/", d.image("u.img", "64m", &[]));
            ok(&["restore", "-r", "-f", &dump, &inside]);
            ok(&["cp", "-a", &format!("{inside}."), out.to_str().unwrap()]);
        }
        whole_seconds(&out);
        let without = ["lost+found", ".snap", "restoresymtable"];
        let (a, b) = (see(&tree, &without), see(&out, &without));
        assert_eq!(a.len(), b.len());
        // The root of ext2 has attributes of its own.
        for (left, right) in a.iter().zip(&b).skip(1) {
            assert!(left == right, "{target}: {}", left.path.display());
        }
    }
}

/// A stream can give one file thousands of long paths with few bytes. They are not all in memory.
#[test]
fn many_long_names_of_a_file_need_little_memory() {
    let d = Dir::new();
    let image = d.image("a.img", "64m", &["-U"]);
    let volume = bsdffs::Volume::options().write(true).open(&image).unwrap();
    let mut dir = String::new();
    for _ in 0..250 {
        dir = format!("{dir}/{}", "d".repeat(250));
        volume.create_dir(&dir).unwrap();
    }
    drop(volume.create_file("/file").unwrap());
    for n in 0..5000 {
        volume.hard_link("/file", format!("{dir}/{n}")).unwrap();
    }
    volume.close().unwrap();
    let dump = d.str("dump");
    ok(&["dump", "-f", &dump, &image]);
    assert!(fs::metadata(&dump).unwrap().len() < 4 << 20);
    // All paths together have 300 MiB.
    let ffs = assert_cmd::cargo::cargo_bin!("ffs");
    let script = format!("ulimit -d 200000; exec {} restore -N -r -f {dump} .", ffs.display());
    let limited =
        Command::new("sh").args(["-c", &script]).current_dir(d.path("")).output().unwrap();
    assert!(limited.status.success(), "{}", text(&limited));
}

#[test]
fn a_journal_stays_with_its_volume() {
    let d = Dir::new();
    let image = built(&d, &[]);
    let bsd = d.str("bsd.dump");
    // Before it is a journal, the file is dumped as BSD dumps the journal: with the others.
    ok(&["cp", &d.file("j", b"not a journal"), &format!("{image}:/.sujournal")]);
    ok(&["dump", "-0", "-f", &bsd, &image]);
    ok(&["rm", &format!("{image}:/.sujournal")]);
    ok(&["tunefs", "-j", "enable", &image]);
    let own = d.str("own.dump");
    ok(&["dump", "-0", "-f", &own, &image]);
    assert!(!ok(&["restore", "-t", "-f", &own]).contains(".sujournal"));
    for (n, dump) in [&bsd, &own].into_iter().enumerate() {
        let target = d.image(&format!("{n}.img"), "64m", &["-j"]);
        let journal = || ok(&["stat", &format!("{target}:/.sujournal")]);
        let before = journal();
        ok(&["restore", "-r", "-f", dump, "-D", &format!("{target}:/")]);
        assert_eq!(journal(), before, "{dump}");
        fsck_clean(Path::new(&target));
    }
    ok(&["restore", "-C", "-f", &own, &format!("{}:/", d.str("1.img"))]);
}
