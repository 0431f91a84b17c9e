//! `ffs cp` onto what is there: what stays, what is replaced, and targets that are no files.

use crate::common::{Dir, fails, ffs, fsck_clean, is_root, json_lines, ok, pattern, text};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// `ffs stat --json`, the first file.
fn stat(path: &str) -> serde_json::Value {
    let shown: serde_json::Value = json_lines(&ok(&["stat", "--json", path]));
    shown[0].clone()
}

/// A shell command in which `$ffs` is the program.
fn shell(script: &str) -> std::process::Output {
    let mut sh = Command::new("sh");
    sh.args(["-c", script]).env("ffs", assert_cmd::cargo::cargo_bin!("ffs"));
    sh.output().unwrap()
}

#[test]
fn a_secret_file_stays_secret() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let secret = d.file("secret", b"secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    ok(&["cp", "-p", "--owner", "5:6", &secret, &at("/p")]);
    ok(&["ln", &at("/p"), &at("/second")]);
    let changed = d.file("changed", b"changed, and longer");
    let before = stat(&at("/p"));
    ok(&["cp", &changed, &at("/p")]);
    let after = stat(&at("/p"));
    for field in ["inode", "mode", "uid", "gid", "nlink", "birthtime"] {
        assert_eq!(before[field], after[field], "{field}");
        assert!(!after[field].is_null(), "{field} in {after}");
    }
    assert_eq!(ok(&["cat", &at("/second")]), "changed, and longer");
    ok(&["cp", d.file("short", b"s").as_str(), &at("/p")]);
    assert_eq!(ok(&["cat", &at("/second")]), "s");
    ok(&["cp", "--owner", "7:8", &changed, &at("/p")]);
    assert_eq!(
        (stat(&at("/p"))["uid"].clone(), stat(&at("/p"))["mode"].clone()),
        (7.into(), after["mode"].clone())
    );
    fsck_clean(Path::new(&image));
}

#[test]
fn atomic_replaces_and_keeps_what_the_old_file_had() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let old = d.file("old", b"old");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
    let attributes =
        rustix::fs::setxattr(&old, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok()
            && rustix::fs::setxattr(
                &old,
                "user.bsd.flags",
                b"nodump",
                rustix::fs::XattrFlags::empty(),
            )
            .is_ok();
    ok(&["cp", "-p", "--owner", "5:6", &old, &at("/f")]);
    ok(&["ln", &at("/f"), &at("/second")]);
    let new = d.file("new", b"the new one");
    let before = stat(&at("/f"));
    ok(&["cp", "--atomic", &new, &at("/f")]);
    let after = stat(&at("/f"));
    for field in ["mode", "uid", "gid", "flags", "xattrs"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert!(!attributes || after["flags"] == "nodump", "{after}");
    assert_ne!(before["inode"], after["inode"]);
    assert_eq!(ok(&["cat", &at("/f"), &at("/second")]), "the new oneold");
    // With -p the attributes are those of the source.
    fs::set_permissions(&new, fs::Permissions::from_mode(0o604)).unwrap();
    ok(&["cp", "--atomic", "-p", &new, &at("/f")]);
    let mine = stat(&at("/f"));
    assert_eq!(
        (&mine["uid"], &mine["flags"]),
        (&rustix::process::geteuid().as_raw().into(), &"-".into())
    );
    assert!(mine["mode"].as_str().unwrap().ends_with("604"), "{mine}");
    // A symbolic link is replaced, not followed.
    ok(&["ln", "-s", "second", &at("/link")]);
    ok(&["cp", "--atomic", &new, &at("/link")]);
    assert_eq!(ok(&["cat", &at("/link"), &at("/second")]), "the new oneold");
    assert_eq!(stat(&at("/link"))["nlink"], 1);
    assert_eq!(ok(&["ls", "-A", &image]), ".snap\nf\nlink\nsecond\n", "nothing temporary is left");
    fsck_clean(Path::new(&image));
}

#[test]
fn atomic_on_the_host_too() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["cp", d.file("new", b"new content").as_str(), &at("/f")]);
    let (old, second, link) = (d.file("old", b"old"), d.path("second"), d.path("link"));
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&old, &second).unwrap();
    symlink("second", &link).unwrap();
    let attributes =
        rustix::fs::setxattr(&old, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    if is_root() {
        std::os::unix::fs::chown(&old, Some(5), Some(6)).unwrap();
    }
    let before = fs::metadata(&old).unwrap();
    ok(&["cp", "--atomic", &at("/f"), &old]);
    let after = fs::metadata(&old).unwrap();
    assert_ne!(before.ino(), after.ino());
    let kept = |m: &fs::Metadata| (m.mode(), m.uid(), m.gid());
    assert_eq!(kept(&before), kept(&after));
    assert_eq!(crate::common::xattrs(Path::new(&old)).len(), usize::from(attributes));
    assert_eq!(fs::read(&second).unwrap(), b"old");
    ok(&["cp", "--atomic", &at("/f"), link.to_str().unwrap()]);
    assert!(!link.is_symlink() && fs::read(&second).unwrap() == b"old");
    let left: Vec<_> = fs::read_dir(d.0.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 5, "something temporary is left: {left:?}");
}

#[test]
fn descriptors_pipes_and_devices_are_written_to() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let bytes = pattern(3_000_000, 5);
    let big = d.file("big", &bytes);
    ok(&["cp", &big, &format!("{image}:/f")]);
    let from = format!("{image}:/f");
    assert_eq!(ffs().args(["cp", &from, "/dev/stdout"]).output().unwrap().stdout, bytes);
    let out = d.str("out");
    // What is in the file already stays: the descriptor is written to, not the name.
    let script = format!(
        "echo first >{out}; $ffs cp '{from}' /dev/stdout >>{out} && \
         $ffs cp '{from}' /dev/fd/3 3>>{out} \
         && $ffs cp -p '{from}' /dev/stderr 2>>{out}"
    );
    let output = shell(&script);
    assert!(output.status.success(), "{}", text(&output));
    assert!(fs::read(&out).unwrap() == [b"first\n", &bytes[..], &bytes[..], &bytes[..]].concat());
    // A pipe by name, and its mode stays.
    let script = format!(
        "mkfifo -m 600 {out}.fifo; cat {out}.fifo >{out} & $ffs cp -a '{from}' {out}.fifo && wait"
    );
    let output = shell(&script);
    assert!(output.status.success(), "{}", text(&output));
    assert!(fs::read(&out).unwrap() == bytes);
    assert_eq!(fs::symlink_metadata(d.path("out.fifo")).unwrap().mode() & 0o7777, 0o600);
    let before = fs::metadata("/dev/null").unwrap();
    ok(&["cp", "-p", &from, "/dev/null"]);
    let after = fs::metadata("/dev/null").unwrap();
    assert_eq!(
        (before.ino(), before.mode(), before.rdev()),
        (after.ino(), after.mode(), after.rdev())
    );
    fails(&["cp", &from, "/dev/full"], 1, "/dev/full: No space left");
    fails(&["cp", &from, "/dev/fd/77"], 1, "/dev/fd/77");
    fails(
        &["cp", "-R", &format!("{image}:/"), "/dev/stdout"],
        1,
        "only the content of a regular file",
    );
    // The reader has ended: no message.
    let output = shell(&format!("$ffs cp '{from}' /dev/stdout | head -c 1 >/dev/null"));
    assert!(output.stderr.is_empty(), "{}", text(&output));
}

#[test]
fn holes_come_out_as_zeros_and_streams_go_in() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let sparse = d.path("sparse");
    let file = fs::File::create(&sparse).unwrap();
    file.set_len(1_000_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"middle", 500_000).unwrap();
    let from = format!("{image}:/sparse");
    ok(&["cp", sparse.to_str().unwrap(), &from]);
    let out = ffs().args(["cp", &from, "/dev/stdout"]).output().unwrap().stdout;
    assert!(out == fs::read(&sparse).unwrap());
    let bytes = pattern(2_000_000, 6);
    let into = format!("{image}:/in");
    let script = format!("cat {} | $ffs cp /dev/stdin '{into}'", d.file("bytes", &bytes));
    let output = shell(&script);
    assert!(output.status.success(), "{}", text(&output));
    assert!(ffs().args(["cat", &into]).output().unwrap().stdout == bytes);
    fsck_clean(Path::new(&image));
}

#[test]
fn an_image_is_not_written_over_while_it_is_read() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    ok(&["cp", d.file("f", b"content").as_str(), &format!("{image}:/a.img")]);
    symlink("a.img", d.path("link")).unwrap();
    fs::hard_link(&image, d.path("hard")).unwrap();
    let from = format!("{image}:/a.img");
    let before = fs::read(&image).unwrap();
    for target in [image.as_str(), &d.str("link"), &d.str("hard"), &d.str("")] {
        fails(&["cp", &from, target], 1, "is the image that is read");
    }
    fails(&["cp", "-R", "-T", &format!("{image}:/"), &d.str("")], 1, "is the image that is read");
    assert!(fs::read(&image).unwrap() == before);
}

#[test]
fn a_running_program_is_replaced_with_force_only() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    ok(&["cp", d.file("f", b"new").as_str(), &format!("{image}:/f")]);
    let program = d.path("sleep");
    // By another process: a test that forks at this moment would keep the new program open.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap();
    assert!(copied.success());
    let mut running = Command::new(&program).arg("600").stdin(Stdio::null()).spawn().unwrap();
    let (from, to) = (format!("{image}:/f"), program.to_str().unwrap());
    let stderr = fails(&["cp", &from, to], 1, "busy");
    let forced = crate::common::run(&["cp", "-f", &from, to]);
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(stderr.contains("-f replaces it"), "{stderr}");
    assert!(forced.status.success(), "{}", text(&forced));
    assert_eq!(fs::read(&program).unwrap(), b"new");
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o777, 0o755, "as what it replaces");
}

#[test]
fn a_full_host_is_reported_with_what_is_left() {
    let d = Dir::new();
    let small = d.path("small");
    fs::create_dir(&small).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&small).status();
    if !is_root() || !mounted.is_ok_and(|status| status.success()) {
        return println!("skipped: cannot mount a small file system");
    }
    let image = d.image("a.img", "16m", &[]);
    let bytes = pattern(4 << 20, 7);
    ok(&["cp", d.file("big", &bytes).as_str(), &format!("{image}:/big")]);
    let old = small.join("old");
    fs::write(&old, b"old").unwrap();
    let from = format!("{image}:/big");
    let atomic = crate::common::run(&["cp", "--atomic", &from, old.to_str().unwrap()]);
    let after_atomic = fs::read(&old).unwrap();
    let over = crate::common::run(&["cp", &from, old.to_str().unwrap()]);
    let (left, names) = (fs::read(&old).unwrap(), fs::read_dir(&small).unwrap().count());
    // The image itself is on the full file system.
    let inside = small.join("a.img");
    fs::remove_file(&old).unwrap();
    ok(&["newfs", "-s", "64m", "-b", "4096", "-f", "512", inside.to_str().unwrap()]);
    let many = d.str("many");
    fs::create_dir(&many).unwrap();
    for number in 0..40 {
        fs::write(format!("{many}/{number}"), &bytes[..100_000]).unwrap();
    }
    let copied = crate::common::run(&["cp", "-a", &many, &format!("{}:/", inside.display())]);
    fs::remove_file(&inside).unwrap();
    ok(&["newfs", "-s", "64m", "-b", "4096", "-f", "512", inside.to_str().unwrap()]);
    let put = format!("put -a {many}");
    let put = crate::common::run(&["shell", "-w", inside.to_str().unwrap(), "-c", &put]);
    let unmounted = Command::new("umount").arg(&small).status().unwrap();
    assert!(unmounted.success());
    for failed in [&copied, &put].map(text) {
        assert!(failed.contains("not everything could be written"), "{failed}");
        assert!(failed.contains("free space on the file system of the image"), "{failed}");
        assert!(!failed.contains("copied before stay"), "{failed}");
    }
    assert_eq!((atomic.status.code(), after_atomic), (Some(1), b"old".to_vec()));
    assert_eq!(over.status.code(), Some(1));
    assert!(text(&over).contains("the file now has the first "), "{}", text(&over));
    assert!(!left.is_empty() && bytes.starts_with(&left), "{}", left.len());
    assert_eq!(names, 1, "nothing temporary is left");
}

#[test]
fn links_that_a_copy_makes_are_not_followed_by_it() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let (one, two) = (d.path("one"), d.path("two"));
    let victim = d.file("victim", b"untouched");
    for dir in [&one, &two] {
        fs::create_dir(dir).unwrap();
    }
    symlink(&victim, one.join("x")).unwrap();
    fs::write(two.join("x"), b"through the link").unwrap();
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    ok(&["cp", "-a", one, two, &at("/")]);
    let out = d.path("out");
    fs::create_dir(&out).unwrap();
    let out = out.to_str().unwrap();
    fails(&["cp", "-a", &at("/one/x"), &at("/two/x"), out], 1, "this copy created it");
    assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    ok(&["mkdir", &at("/three")]);
    fails(
        &["cp", "-a", &format!("{one}/x"), &format!("{two}/x"), &at("/three")],
        1,
        "this copy created it",
    );
}
