//! Error messages: each names the cause in plain words and the next step, repeats nothing and shows
//! no internals.

use crate::common::{Dir, fails, ffs, fsck_clean, ok, pattern, run, text};
use std::fs;
use std::path::Path;

/// Commands that open an image, with their exit code when there is no file system.
const OPENERS: [(&[&str], i32); 6] = [
    (&["ls"], 1),
    (&["df"], 1),
    (&["tunefs", "-p"], 1),
    (&["dumpfs"], 1),
    (&["fsck", "-n"], 3),
    (&["mount"], 32),
];

fn on(command: &[&str], image: &str, dir: &str) -> Vec<String> {
    let mut args: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    args.push(image.to_owned());
    if command == ["mount"] {
        args.push(dir.to_owned());
    }
    args
}

#[test]
fn a_size_that_is_too_small_is_answered_with_one_that_is_not() {
    let d = Dir::new();
    let image = d.str("a.img");
    for options in [&["-O", "2"][..], &["-O", "1"], &["-b", "4096", "-f", "512"], &["-r", "1m"]] {
        for size in ["1k", "100k", "0x10"] {
            let mut args = vec!["newfs", "-s", size];
            args.extend(options);
            args.push(&image);
            let stderr = fails(&args, 1, "bytes are too few");
            assert!(!Path::new(&image).exists(), "half made: {stderr}");
            let given = if size == "0x10" {
                16 * 512
            } else {
                size[..size.len() - 1].parse::<u64>().unwrap() << 10
            };
            assert!(stderr.contains(&format!(": {given} bytes")), "{stderr}");
            let enough = stderr.split("(-s ").nth(1).and_then(|rest| rest.split(')').next());
            args[2] = enough.unwrap_or_else(|| panic!("no size that works: {stderr}"));
            ok(&args);
            fsck_clean(Path::new(&image));
            fs::remove_file(&image).unwrap();
        }
    }
}

#[test]
fn sizes_beyond_all_measure_name_their_option() {
    let d = Dir::new();
    let (image, new) = (d.image("a.img", "8m", &[]), d.str("new.img"));
    for (options, file, words) in [
        (&["-f", "3000"][..], &image, "-f: 3000 is not a power of two"),
        (&["-b", "3000"], &image, "-b: 3000 is not a power of two"),
        (&["-r", "8m"], &image, "-r: 8388608 bytes are all of the 8388608 there are"),
        (&["-s", "1m", "-r", "36028797018963967"], &new, "-s and -r: together more than"),
        (&["-N", "-s", "1m", "-r", "16383p"], &new, "-s and -r: together more than"),
        (&["-s", "8191p"], &new, "cannot be created: File too large; the file system"),
    ] {
        let mut args = vec!["newfs"];
        args.extend(options);
        args.push(file);
        fails(&args, 1, words);
        assert!(!Path::new(&new).exists(), "{options:?}");
    }
    fails(&["build", "-f", "3000", &new, &d.str("")], 64, "-f: 3000 is not a power of two");
}

fn newfs<'a>(options: &[&'a str], size: &'a str, image: &'a str) -> Vec<&'a str> {
    [&["newfs", "-j", "-s", size], options, &[image]].concat()
}

/// `newfs -j` of a volume without space for the journal writes nothing.
#[test]
fn a_size_that_is_too_small_for_a_journal_is_answered_with_one_that_is_not() {
    let d = Dir::new();
    for options in [&["-O", "2"][..], &["-O", "1"], &["-b", "4096", "-f", "512"], &["-b", "65536"]]
    {
        let image = d.str("a.img");
        let stderr =
            fails(&newfs(options, "4m", &image), 1, "too few for a file system with a journal");
        assert!(!Path::new(&image).exists(), "half made: {stderr}");
        let enough = stderr.split("(-s ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
        // An image that exists keeps its content.
        let kib: u64 = enough.trim_end_matches('k').parse().unwrap();
        let before = vec![0x5a; (kib - 1) as usize * 1024];
        fs::write(&image, &before).unwrap();
        fails(&newfs(options, "0", &image), 1, "too few for a file system with a journal");
        assert!(fs::read(&image).unwrap() == before, "{options:?}");
        fs::remove_file(&image).unwrap();
        ok(&newfs(options, enough, &image));
        assert!(ok(&["tunefs", "-p", &image]).contains("soft updates journaling"));
        fsck_clean(Path::new(&image));
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn a_truncated_image_is_reported_with_a_way_to_save_it() {
    let d = Dir::new();
    let dir = d.str("");
    for options in [&[][..], &["-O", "1"]] {
        let image = d.image("a.img", "16m", options);
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        file.set_len(5 << 20).unwrap();
        for (command, code) in OPENERS {
            if command == ["dumpfs"] {
                // It shows what there is.
                continue;
            }
            let args = on(command, &image, &dir);
            let stderr = fails(&args, code, "the last 11534336 are missing");
            assert!(
                stderr.contains("truncate -s +11534336") && stderr.contains("ffs fsck"),
                "{stderr}"
            );
            assert!(!stderr.contains("-b") && !stderr.contains("-y"), "useless advice: {stderr}");
        }
        file.set_len(16 << 20).unwrap();
        ok(&["fsck", "-y", &image]);
        fsck_clean(Path::new(&image));
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn other_file_systems_are_called_by_their_names() {
    let d = Dir::new();
    let dir = d.str("");
    let sign = |at: usize, bytes: &[u8]| {
        let mut image = vec![0; 1 << 20];
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    let images = [
        (sign(1080, b"\x53\xef"), "this is an ext2, ext3 or ext4 file system"),
        (sign(65600, b"_BHRfS_M"), "this is a Btrfs file system"),
        (sign(32769, b"CD001"), "this is an ISO 9660 file system"),
        (vec![0; 1 << 20], "only zeros where it would be"),
        (vec![0; 40_000], "no superblock in its 40000 bytes; it may be truncated"),
        (pattern(1 << 20, 3), "is it the right image?"),
    ];
    for (bytes, expected) in images {
        let image = d.file("x.img", &bytes);
        for (command, code) in OPENERS {
            if command == ["fsck", "-n"] && expected.ends_with('?') {
                fails(&on(command, &image, &dir), code, "name it with -b SECTOR");
                continue;
            }
            fails(&on(command, &image, &dir), code, expected);
        }
    }
}

#[test]
fn newfs_in_a_script_reports_what_it_overwrites() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let again = run(&["newfs", &image]);
    assert!(again.status.success(), "{}", text(&again));
    let stderr = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(stderr.contains("held a UFS file system, which is overwritten"), "{stderr}");
    assert!(run(&["newfs", "--yes", &image]).stderr.is_empty());
    assert!(ok(&["newfs", "--help"]).contains("on a terminal newfs asks"));
}

#[test]
fn newfs_that_refuses_overwrites_nothing_and_reports_nothing() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    ok(&["cp", &d.file("small", b"kept"), &format!("{image}:/")]);
    for (options, why) in [(["-i", "0"], "-i"), (["-s", "16m"], "bytes"), (["-b", "5000"], "-b")] {
        let stderr = fails(&["newfs", options[0], options[1], &image], 1, why);
        assert!(!stderr.contains("overwritten"), "{options:?}: {stderr}");
        assert_eq!(ok(&["cat", &format!("{image}:/small")]), "kept");
    }
}

#[test]
fn a_full_image_names_the_file_that_was_too_large() {
    let d = Dir::new();
    for options in [&[][..], &["-O", "1"]] {
        let image = d.image("a.img", "2m", options);
        let (small, big) = (d.file("small", b"fits"), d.file("big", &pattern(3 << 20, 1)));
        let root = format!("{image}:/");
        let stderr = fails(&["cp", &small, &big, &root], 1, "big (3.0 MiB): ");
        assert!(stderr.contains("no space left") && stderr.contains("are free"), "{stderr}");
        assert_eq!(
            ok(&["ls", &image]).trim(),
            "small",
            "what was copied before stays, half files go"
        );
        fsck_clean(Path::new(&image));
        fs::remove_file(&image).unwrap();
    }
}

/// What is refused at the end, when the new file is to replace the old one, does not count as
/// copied.
#[test]
fn what_is_refused_is_not_counted_as_copied() {
    let d = Dir::new();
    let image = d.image("a.img", "2m", &[]);
    let (file, inside) = (d.file("file", b"new"), format!("{image}:/log"));
    ok(&["cp", &file, &inside]);
    ok(&["chflags", "sappnd", &inside]);
    let stderr = fails(&["cp", "--atomic", &file, &inside], 1, "operation not permitted");
    assert!(stderr.contains("copied nothing\n"), "{stderr}");
}

#[test]
fn lost_attributes_are_counted_and_their_first_file_named() {
    use rustix::fs::{XattrFlags, setxattr};
    let d = Dir::new();
    fs::create_dir_all(d.path("tree/sub")).unwrap();
    for (name, keys) in
        [("a", &[][..]), ("b", &["user.x", "user.y"]), ("c", &["user.x"]), ("sub", &["user.z"])]
    {
        let path = d.path("tree").join(name);
        if name != "sub" {
            fs::write(&path, name).unwrap();
        }
        for key in keys {
            match setxattr(&path, *key, b"1", XattrFlags::empty()) {
                Ok(()) => {}
                Err(rustix::io::Errno::NOTSUP) => return println!("skipped: no attributes here"),
                Err(error) => panic!("{error}"),
            }
        }
    }
    let image = d.image("a.img", "8m", &["-O", "1"]);
    let copied = run(&["cp", "-a", &d.str("tree"), &format!("{image}:/")]);
    assert!(copied.status.success(), "{}", text(&copied));
    let stderr = String::from_utf8_lossy(&copied.stderr);
    assert!(
        stderr.contains("4 extended attributes not kept (tree/b and 2 other files)"),
        "{stderr}"
    );
    let copied = run(&["cp", "-a", &d.str("tree/c"), &format!("{image}:/")]);
    let stderr = String::from_utf8_lossy(&copied.stderr);
    assert!(stderr.contains("1 extended attribute not kept (c)"), "{stderr}");
}

#[test]
fn an_image_in_use_is_no_matter_of_rights() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let lock = fs::File::open(&image).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for args in [&["fsck", &image][..], &["fsck", "-p", &image], &["fsck", "-n", &image]] {
        let stderr = fails(args, 8, "is in use by");
        assert!(!stderr.contains("-n only") && !stderr.contains("fsck -n"), "{stderr}");
    }
}

#[test]
fn preening_reports_an_inconsistency_once() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    // The root's "." names another inode.
    let mut bytes = fs::read(&image).unwrap();
    let root = bytes.windows(12).position(|w| w == b"\x02\0\0\0\x0c\0\x04\x01.\0\0\0").unwrap();
    bytes[root] = 77;
    // Not clean any more, else preening passes it by.
    let superblock = 65536 + 209;
    bytes[superblock] = 0;
    fs::write(&image, &bytes).unwrap();
    let preened = run(&["fsck", "-p", &image]);
    assert_eq!(preened.status.code(), Some(8), "{}", text(&preened));
    let all = text(&preened).to_lowercase();
    assert_eq!(all.matches("unexpected inconsistency").count(), 1, "{all}");
}

#[test]
fn host_errors_have_no_numbers() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let (missing, dir) = (d.str("missing"), d.str(""));
    let root = format!("{image}:/");
    let lines: [&[&str]; 8] = [
        &["ls", &missing],
        &["fsck", &missing],
        &["newfs", "-s", "1m", "/proc/nowhere"],
        &["cp", &missing, &root],
        &["build", &d.str("new.img"), &missing],
        &["mount", &missing, &dir],
        &["mount", &image, &missing],
        &["demo", &missing],
    ];
    for args in lines {
        let output = run(args);
        assert!(!output.status.success());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !stderr.contains("os error") && stderr.contains("No such file"),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn a_missing_parent_is_answered_with_p() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let deep = format!("{image}:/a/b/c");
    fails(&["mkdir", &deep], 1, "make it: ffs mkdir -p");
    ok(&["mkdir", "-p", &deep]);
}

#[test]
fn wrong_words_are_answered_with_close_ones_only() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let dir = d.str("");
    fails(&["mount", "-o", "noatme", &image, &dir], 1, "did you mean 'noatime'");
    for word in ["uid=abc", "codepage=5", "xyz", "utf8"] {
        let stderr = fails(&["mount", "-o", word, &image, &dir], 1, word);
        assert!(!stderr.contains("did you mean"), "{stderr}");
    }
    let stderr = fails(&["ls", "-Z", &image], 64, "-Z");
    assert!(!stderr.contains("tip:"), "{stderr}");
    fails(&["ls", "--jsn", &image], 64, "--json");
}

#[test]
fn one_is_not_many() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &["-n"]);
    ok(&["cp", &d.file("f", b"1"), &format!("{image}:/")]);
    assert!(ok(&["tree", &image]).ends_with("\n0 directories, 1 file\n"));
    let stat = ok(&["stat", &format!("{image}:/f")]);
    assert!(stat.contains("file, 1 byte,") && stat.contains(", 1 link\n"), "{stat}");
    let copied = ffs().args(["cp", "-v", &format!("{image}:/f"), &d.str("g")]).output().unwrap();
    assert!(text(&copied).contains("copied 1 file,"), "{}", text(&copied));
}

#[test]
fn refusals_say_what_to_do() {
    let d = Dir::new();
    let image = d.image("a.img", "1m", &[]);
    let (empty, dir) = (d.file("empty", b""), d.str(""));
    for command in [&["ls"][..], &["df"], &["tunefs", "-p"], &["dumpfs"]] {
        fails(&on(command, &empty, &dir), 1, "empty: no UFS file system found: the image is empty");
        fails(&on(command, &dir, &dir), 1, "Is a directory; an image is a file or a block device");
    }
    fails(&["newfs", "-s", "2m", &image], 1, "make it larger first (truncate -s 2097152)");
    let nowhere = d.str("no/new.img");
    fails(
        &["newfs", "-s", "2m", &nowhere],
        1,
        "No such file or directory; make the directory first",
    );
    let printed = fails(&["build", &nowhere, "/proc/self/fdinfo"], 1, "; make the directory first");
    assert!(!printed.contains("ffs-build."), "the name of an internal file: {printed}");
    fails(&["rm", "-r", &format!("{image}:/")], 1, "this is the root directory");
    fails(
        &["mv", &dir, &format!("{image}:/x")],
        64,
        "is a directory of this computer; `ffs cp -a`",
    );
    let disk = d.str("disk.img");
    ok(&["disk", "create", &disk, "--swap", "1m", "--part", "root:freebsd-ufs:4m"]);
    ok(&["newfs", &format!("{disk}@2")]);
    fails(&["growfs", "-s", "1g", &format!("{disk}@2")], 1, "(a partition by ffs disk grow)");
    fails(&["mount", &image, &nowhere], 32, "No such file or directory; create it with mkdir");
    for command in ["stat", "sysctl", "umount"] {
        fails(&[command, &dir], 1, "nothing is mounted there");
    }
    fails(&["snapshot", "list", &dir], 1, &format!("ffs snapshot: {dir}: nothing is mounted"));
    fails(&["umount", &nowhere], 1, "No such file or directory");
    fails(&["sysctl", &image], 1, "not a directory that an image is mounted on");
    fails(&["stat", "-c", "many", &dir], 64, "a number of at least 1 is wanted");
}

#[test]
fn an_image_that_cannot_be_read_does_not_end_a_list() {
    let d = Dir::new();
    let (image, none) = (d.image("a.img", "8m", &[]), d.str("none.img"));
    ok(&["cp", &d.file("text", b"content"), &format!("{image}:/file")]);
    ok(&["xattr", "set", "user.colour", "red", &format!("{image}:/file")]);
    let (at, nowhere) = (format!("{image}:/file"), format!("{none}:/file"));
    for (command, part) in [
        (&["df"][..], "a.img  UFS2"),
        (&["ls"], "/file"),
        (&["du"], "/file"),
        (&["stat"], "/file"),
        (&["getfacl"], "/file"),
        (&["cat"], "content"),
        (&["xattr", "ls"], "user.colour"),
    ] {
        let pair = if command[0] == "df" { [&none, &image] } else { [&nowhere, &at] };
        let mut args = command.to_vec();
        args.extend(pair.map(String::as_str));
        let output = run(&args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains(part), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(&none), "{args:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_output_ends_a_list_with_one_message() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let big = format!("{image}:/big");
    ok(&["cp", &d.file("big", &pattern(1 << 20, 1)), &big]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(ffs().get_program());
    let output = command.args(["cat", &big, &big]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}
