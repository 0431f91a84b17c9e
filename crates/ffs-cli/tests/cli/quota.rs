//! The quota commands: on images, and on a mount where FUSE is allowed.

use crate::common::{Dir, fails, ffs, fsck_clean, is_root, json_lines, ok, run, text};
use std::fs;
use std::path::Path;

/// An image with quota files and a file of user 1001 and group 2001.
fn image(d: &Dir, options: &[&str]) -> String {
    let image = d.image("a.img", "32m", options);
    ok(&["quotacheck", "-ug", &image]);
    let file = d.file("content", &[7; 100_000]);
    ok(&["cp", &file, &format!("{image}:/f")]);
    ok(&["chown", "1001:2001", &format!("{image}:/f")]);
    image
}

fn json(args: &[&str]) -> serde_json::Value {
    json_lines(&ok(args))
}

#[test]
fn quotacheck_creates_and_corrects_the_quota_files() {
    for options in [&[][..], &["-O", "1"]] {
        let d = Dir::new();
        let image = image(&d, options);
        assert!(ok(&["ls", "-l", &image]).contains("-rw-r-----"));
        let out = ok(&["quotacheck", "-v", &image]);
        let want = ["1001     fixed (user):\tinodes 0 -> 1", "2001     fixed (group):"];
        assert!(want.iter().all(|w| out.contains(w)), "{out}");
        assert_eq!(ok(&["quotacheck", "-v", &image]), "");
        ok(&["rm", &format!("{image}:/f")]);
        let found = json(&["quotacheck", "--json", "-u", &image]);
        let found = found.as_array().unwrap();
        let row = found.iter().find(|row| row["id"] == 1001).unwrap();
        assert_eq!((&row["before"]["inodes"], &row["after"]["inodes"]), (&1.into(), &0.into()));
        assert!(found.iter().all(|row| row["type"] == "user"));
        // The groups are still as they were, and fsck sees that.
        let look = text(&run(&["fsck", "-n", &image]));
        assert!(look.contains("Phase 4b - Check Quotas") && look.contains("quota.group"), "{look}");
        ok(&["quotacheck", &image]);
        fsck_clean(Path::new(&image));
    }
}

#[test]
fn limits_are_set_shown_and_copied() {
    let d = Dir::new();
    let image = image(&d, &["-U"]);
    ok(&["edquota", "-e", &format!("{image}:50:2m:3:4k"), "1001", "1002"]);
    let out = ok(&["repquota", "-n", &image]);
    let line = out.lines().find(|l| l.starts_with("1001")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..5], ["+-", "100", "50", "2048"], "{out}");
    assert_eq!(words[5], "7days", "{out}");
    assert_eq!(words[6..], ["1", "3", "4000"], "{out}");
    ok(&["edquota", "-f", &image, "-p", "1001", "1003"]);
    ok(&["edquota", "-g", "-f", &image, "-t", "2d:1h"]);
    let all = json(&["repquota", "-ug", "--json", &image]);
    let of = |kind: &str, id: u32| {
        let mut rows = all.as_array().unwrap().iter();
        rows.find(|q| q["type"] == kind && q["id"] == id).unwrap().clone()
    };
    assert_eq!(of("user", 1003)["blocks512"]["hard"], 4096);
    assert_eq!(of("user", 1003)["inodes"]["used"], 0);
    assert_eq!(of("user", 1001)["blocks512"]["over"], true);
    assert_eq!(of("group", 2001)["inodes"]["used"], 1);
    assert!(ok(&["repquota", "-gv", &image]).contains("grace period of blocks: 2days"));
    let over = run(&["quota", &image, "1001"]);
    assert_eq!(over.status.code(), Some(1), "{}", text(&over));
    assert!(text(&over).contains("100*") && text(&over).contains("(uid 1001)"), "{}", text(&over));
    let quiet = run(&["quota", "-q", &image, "1001", "1002"]);
    assert_eq!(text(&quiet).matches("is over a quota").count(), 1, "{}", text(&quiet));
    assert!(ok(&["quota", &image, "4242"]).contains("none"));
    fsck_clean(Path::new(&image));
}

#[test]
fn errors_of_the_quota_commands_say_what_to_do() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    fails(&["quotacheck", &image], 1, "neither quota.user nor quota.group");
    fails(&["quotacheck", &image], 1, "create them with -u or -g");
    fails(&["repquota", &image], 1, "`ffs quotacheck -u` or `-g` creates one");
    fails(&["edquota", "1001"], 1, "nothing to set");
    fails(&["edquota", "-e", &image], 1, "give the users");
    fails(&["edquota", "-e", &format!("{image}:1z"), "1001"], 1, "is not a size");
    fails(&["edquota", "-p", "1", "2"], 1, "-f");
    ok(&["quotacheck", "-u", &image]);
    fails(&["edquota", "-e", &format!("{image}:1"), "no-such-user"], 1, "no such user");
    fails(&["edquota", "-e", &format!("{image}:1"), "4000000000"], 1, "have no quota");
    fails(&["quotaon", &d.str("")], 1, "nothing is mounted");
    let bad = d.file("bad", &[0; 100]);
    ok(&["cp", &bad, &format!("{image}:/quota.user")]);
    fails(&["repquota", &image], 1, "size is 100, without the header");
    fails(&["quotacheck", &image], 1, "size is 100, without the header");
    fsck_clean(Path::new(&image));
}

#[test]
fn old_quota_files_are_converted() {
    for (format, endian) in [("1", "little"), ("2", "little"), ("1", "big"), ("2", "big")] {
        let d = Dir::new();
        let image = d.image("a.img", "8m", &["-O", format, "--endian", endian]);
        let mut old = vec![0u8; 32 * 1002];
        let limits: [u32; 8] = [2000, 1000, 9, 40, 30, 9, 0, 0];
        for (n, v) in limits.iter().enumerate() {
            let at = 32 * 1001 + 4 * n;
            let bytes = if endian == "little" { v.to_le_bytes() } else { v.to_be_bytes() };
            old[at..at + 4].copy_from_slice(&bytes);
        }
        ok(&["cp", &d.file("old", &old), &format!("{image}:/quota.user")]);
        fails(&["repquota", &image], 1, "`ffs quotacheck -c 64` converts them");
        let orig = format!("{image}:/quota.user_32.orig");
        ok(&["cp", &d.file("mine", b"mine"), &orig]);
        fails(&["quotacheck", "-c", "64", &image], 1, "rename or remove that file");
        ok(&["rm", &orig]);
        ok(&["quotacheck", "-c", "64", &image]);
        let all = json(&["repquota", "--json", &image]);
        let row = all.as_array().unwrap().iter().find(|q| q["id"] == 1001).unwrap();
        assert_eq!((&row["blocks512"]["soft"], &row["inodes"]["hard"]), (&1000.into(), &40.into()));
        assert_eq!(row["inodes"]["used"], 0);
        let kept = d.str("kept");
        ok(&["cp", &orig, &kept]);
        assert_eq!(fs::read(kept).unwrap(), old);
        fsck_clean(Path::new(&image));
    }
}

#[test]
fn a_truncated_quota_file_is_repaired() {
    let d = Dir::new();
    let image = image(&d, &[]);
    ok(&["edquota", "-e", &format!("{image}:50"), "1001", "1002"]);
    let (file, saved) = (format!("{image}:/quota.user"), d.path("saved"));
    ok(&["cp", &file, saved.to_str().unwrap()]);
    let whole = fs::read(&saved).unwrap();
    let shortened = |len: usize| ok(&["cp", &d.file("short", &whole[..len]), &file]);
    let soft = |id: u32| {
        let all = json(&["repquota", "--json", &image]);
        let row = all.as_array().unwrap().iter().find(|q| q["id"] == id).cloned();
        row.map_or(0, |row| row["blocks512"]["soft"].as_u64().unwrap())
    };
    // A part of the record of 1002 is left.
    shortened(64 + 64 * 1002 + 5);
    for command in ["repquota", "fsck -n"] {
        let words: Vec<&str> = command.split(' ').chain([&image[..]]).collect();
        if command == "repquota" {
            fails(&words, 1, "`ffs quotacheck` removes the last one");
        } else {
            ok(&words);
        }
    }
    let output = run(&["quotacheck", &image]);
    let words = text(&output);
    assert!(output.status.success() && words.contains("part of the record of 1002"), "{words}");
    assert_eq!((soft(1001), soft(1002)), (100, 0));
    for len in [0, 10] {
        shortened(len);
        fails(&["repquota", &image], 1, "`ffs quotacheck` repairs it, without limits");
        let words = text(&run(&["quotacheck", &image]));
        assert!(words.contains("all limits are to be set again"), "{words}");
        assert_eq!(soft(1001), 0);
        assert_eq!(ok(&["quotacheck", "-v", &image]), "");
    }
    fsck_clean(Path::new(&image));
}

#[test]
fn a_quota_file_that_users_may_change_is_refused() {
    let d = Dir::new();
    let image = image(&d, &[]);
    let file = format!("{image}:/quota.user");
    let all = |expected: &str| {
        fails(&["repquota", &image], 1, expected);
        fails(&["edquota", "-e", &format!("{image}:1"), "1001"], 1, expected);
        fails(&["quotacheck", &image], 1, expected);
    };
    ok(&["chown", "1001", &file]);
    all("user 1001 owns it; check its content, then `chown 0:5 quota.user`");
    ok(&["chown", "0:5", &file]);
    ok(&["chmod", "662", &file]);
    all("then `chmod 640 quota.user`");
    ok(&["chmod", "640", &file]);
    ok(&["ln", &file, &format!("{image}:/f2")]);
    all("it has 2 names");
    ok(&["rm", &format!("{image}:/f2")]);
    ok(&["repquota", &image]);
}

/// The volume is full: the old limits stay, and the command fails.
#[test]
fn a_limit_that_cannot_be_stored_is_an_error() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &["-m", "0"]);
    ok(&["quotacheck", "-u", &image]);
    ok(&["edquota", "-e", &format!("{image}:7"), "5"]);
    let free = json(&["df", "--json", &image])[0]["available"].as_u64().unwrap();
    let large = d.file("large", &vec![7; free as usize - (256 << 10)]);
    ok(&["cp", &large, &format!("{image}:/large")]);
    for kib in [128, 64, 32, 16, 8, 4, 4] {
        // Those that have no space are not copied.
        run(&["cp", &d.file("rest", &vec![7; kib << 10]), &format!("{image}:/rest{kib}")]);
    }
    let set = |id: &str| run(&["edquota", "-e", &format!("{image}:9"), id]);
    let failed = set("1000000");
    let words = text(&failed);
    assert_eq!(failed.status.code(), Some(1), "{words}");
    assert!(words.contains("no space left") && words.contains("as they were"), "{words}");
    assert!(set("5").status.success());
    let all = json(&["repquota", "--json", &image]);
    let soft = |id| all.as_array().unwrap().iter().find(|q| q["id"] == id).cloned();
    assert_eq!(soft(5).unwrap()["blocks512"]["soft"], 18);
    assert!(soft(1_000_000).is_none());
    fsck_clean(Path::new(&image));
}

#[test]
fn names_are_those_of_the_image() {
    let d = Dir::new();
    let image = image(&d, &[]);
    ok(&["mkdir", &format!("{image}:/etc")]);
    let users = d.file("passwd", b"root:*:0:0::/:\nfritz:*:1001:20::/:\n");
    ok(&["cp", &users, &format!("{image}:/etc/passwd")]);
    ok(&["edquota", "-e", &format!("{image}:1g"), "fritz"]);
    assert!(ok(&["repquota", &image]).lines().any(|l| l.starts_with("fritz ")));
    assert!(ok(&["quota", &image, "1001"]).contains("Disk quotas for user fritz (uid 1001)"));
}

#[test]
fn quotas_of_a_mount() {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        return println!("skipped: mounting needs root and /dev/fuse");
    }
    let d = Dir::new();
    let image = image(&d, &[]);
    let dir = d.path("mnt");
    fs::create_dir(&dir).unwrap();
    let at = dir.to_str().unwrap();
    let mounted = run(&["mount", "-o", "quota", &image, at]);
    if !mounted.status.success() {
        return println!("skipped: cannot mount: {}", text(&mounted));
    }
    let results = std::panic::catch_unwind(|| {
        ok(&["edquota", "-e", &format!("{at}:1m:2m"), "1001"]);
        assert!(ok(&["repquota", "-n", at]).lines().any(|l| l.starts_with("1001 ")));
        assert!(ok(&["quota", at, "1001"]).contains("2048"));
        ok(&["quotaoff", at]);
        fails(&["repquota", at], 1, "quotas are off");
        assert!(ok(&["quotaon", "-v", at]).contains("quotas turned on"));
        assert!(ok(&["quota", "-g", "-v", at, "2001"]).contains("100"));
    });
    ok(&["umount", at]);
    assert!(results.is_ok());
    // The user who mounts is another one on the volume.
    ok(&["mount", "-o", "quota,idmap=u:1001:0:1 g:2001:0:1", &image, at]);
    let own = [run(&["quota", "-v", at]), run(&["quota", "-g", "-v", "--json", at])];
    ok(&["umount", at]);
    assert!(text(&own[0]).contains("(uid 1001)") && text(&own[0]).contains("2048"));
    let group: serde_json::Value = json_lines(&String::from_utf8_lossy(&own[1].stdout));
    assert_eq!(group[0]["id"], 2001, "{}", text(&own[1]));
    let all = json(&["repquota", "--json", &image]);
    assert!(all.as_array().unwrap().iter().any(|q| q["blocks512"]["hard"] == 4096));
    fsck_clean(Path::new(&image));
}

#[test]
fn a_program_called_by_bsds_name_is_that_command() {
    let d = Dir::new();
    let program = ffs().get_program().to_owned();
    let link = d.path("repquota");
    std::os::unix::fs::symlink(program, &link).unwrap();
    let image = image(&d, &[]);
    let out = std::process::Command::new(link).arg(&image).output().unwrap();
    assert!(out.status.success(), "{}", text(&out));
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("User"));
}
