//! Mounting by the command; skipped where FUSE is not allowed.

use crate::common::{
    Dir, assert_same, fails, fsck_clean, is_root, json_lines, make_tree, ok, run, text,
};
use std::fs;
use std::path::Path;

pub(crate) fn fuse() -> bool {
    let possible = is_root() && Path::new("/dev/fuse").exists();
    if !possible {
        println!("skipped: mounting needs root and /dev/fuse");
    }
    possible
}

#[test]
fn mount_copy_unmount_check() {
    if !fuse() {
        return;
    }
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let image = d.image("a.img", "64m", &[]);
    let dir = d.path("mnt");
    fs::create_dir(&dir).unwrap();
    let at = dir.to_str().unwrap();
    let mounted = run(&["mount", &image, at]);
    if !mounted.status.success() {
        return println!("skipped: cannot mount: {}", text(&mounted));
    }
    let how = format!("{image} is mounted on {at}, read-write; to unmount it: ffs umount {at}");
    assert!(String::from_utf8_lossy(&mounted.stderr).contains(&how), "{}", text(&mounted));
    let copied = std::process::Command::new("cp").arg("-a").arg(&tree).arg(&dir).status().unwrap();
    let held = run(&["ls", &image]);
    let unmounted = run(&["umount", at]);
    assert!(copied.success());
    assert!(String::from_utf8_lossy(&held.stderr).contains("in use by"), "{}", text(&held));
    assert!(unmounted.status.success(), "{}", text(&unmounted));
    // The moment umount returns the image is complete and free.
    fsck_clean(Path::new(&image));
    let out = d.path("out");
    ok(&["cp", "-a", &format!("{image}:/tree"), out.to_str().unwrap()]);
    assert_same(&tree, &out, &[]);

    ok(&["mount", "-r", &image, at]);
    let refused = fs::write(dir.join("x"), b"x");
    let same = std::panic::catch_unwind(|| assert_same(&tree, &dir.join("tree"), &[]));
    ok(&["umount", at]);
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(30));
    assert!(same.is_ok(), "the mount differs from the tree");
}

#[test]
fn what_cannot_be_mounted_is_explained() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let dir = d.str("");
    assert!(ok(&["mount", "-o", "help"]).contains("dirpref="));
    fails(&["mount", "-o", "dirprf=old", &image, &dir], 1, "dirpref");
    fails(&["mount", &image], 1, "directory");
    fails(&["umount", &dir], 1, "nothing is mounted");
    let output = run(&["mount", &d.str("missing.img"), &dir]);
    assert_eq!(output.status.code(), Some(32), "{}", text(&output));
    let zeros = d.file("zeros.img", &vec![0; 1 << 20]);
    assert_eq!(run(&["mount", &zeros, &dir]).status.code(), Some(32));
    fails(&["mount", &image, &d.str("no-such-dir")], 32, "no-such-dir");
}

#[test]
fn switches_and_counters_of_a_mount() {
    let d = Dir::new();
    let dir = d.path("mnt");
    fs::create_dir(&dir).unwrap();
    let at = dir.to_str().unwrap();
    fails(&["sysctl", at], 1, "nothing is mounted");
    fails(&["stat", at], 1, "nothing is mounted");
    if !fuse() {
        return;
    }
    let image = d.image("a.img", "32m", &[]);
    let mounted = run(&["mount", "-o", "nbuf=500", &image, at]);
    if !mounted.status.success() {
        return println!("skipped: cannot mount: {}", text(&mounted));
    }
    let looked = std::panic::catch_unwind(|| {
        switches(at);
        looks(at);
    });
    ok(&["umount", at]);
    looked.unwrap();
    // For files in an image it still prints their inodes.
    assert!(ok(&["stat", &format!("{image}:/")]).contains("directory"));
}

fn switches(at: &str) {
    assert_eq!(ok(&["sysctl", at, "kern.nbuf"]), "kern.nbuf: 500\n");
    assert_eq!(ok(&["sysctl", "-n", at, "kern.nbuf"]), "500\n");
    assert_eq!(ok(&["sysctl", "-N", at, "kern.nbuf"]), "kern.nbuf\n");
    assert_eq!(ok(&["sysctl", "-e", at, "kern.nbuf"]), "kern.nbuf=500\n");
    assert_eq!(ok(&["sysctl", at, "kern.nbuf=600"]), "kern.nbuf: 500 -> 600\n");
    assert_eq!(ok(&["sysctl", "-n", at, "kern.nbuf=auto"]), "600 -> auto\n");
    assert_eq!(ok(&["sysctl", "-i", at, "vfs.none"]), "");
    assert!(ok(&["sysctl", "-d", at, "vfs.vmiodirenable"]).contains("0 or 1"));
    let all = ok(&["sysctl", at]);
    assert_eq!(ok(&["sysctl", "-a", at]).lines().count(), all.lines().count());
    for name in [
        "vfs.ufs.dirhash_minsize",
        "vfs.vmiodirenable",
        "vfs.ffs.doreallocblks",
        "vfs.cache.numneg",
    ] {
        assert!(all.contains(&format!("\n{name}: ")), "{name}");
    }
    let below = ok(&["sysctl", at, "vfs.ffs.buf"]);
    assert!(
        below.lines().all(|l| l.starts_with("vfs.ffs.buf.")) && below.lines().count() > 9,
        "{below}"
    );
    let json: serde_json::Value = json_lines(&ok(&["sysctl", "--json", at]));
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), all.lines().count());
    let switch = rows.iter().find(|r| r["name"] == "vfs.vmiodirenable").unwrap();
    assert_eq!((switch["value"].as_u64(), switch["writable"].as_bool()), (Some(1), Some(true)));

    let shown = ok(&["sysctl", at, "vfs.vmiodirenable", "vfs.vmiodirenable=0"]);
    assert_eq!(shown, "vfs.vmiodirenable: 1 -> 0\nvfs.vmiodirenable: 0\n");
    let set = ok(&["sysctl", "--json", at, "vmiodirenable=1"]);
    let set: serde_json::Value = json_lines(&set);
    assert_eq!((&set[0]["name"], &set[0]["value"]), (&"vfs.vmiodirenable".into(), &1.into()));
    fails(&["stat", at, at], 64, "the only argument");

    let several =
        run(&["sysctl", at, "kern.nbuf=1", "vfs.ffs.reads=0", "kern.nbof", "vfs.vmiodirenable"]);
    assert_eq!(several.status.code(), Some(3), "as many as failed: {}", text(&several));
    let stderr = String::from_utf8_lossy(&several.stderr);
    for words in ["16 to 4294967296", "read-only", "did you mean 'kern.nbuf'"] {
        assert!(stderr.contains(words), "{stderr}");
    }
    assert_eq!(String::from_utf8_lossy(&several.stdout), "vfs.vmiodirenable: 1\n");
}

fn looks(at: &str) {
    fs::create_dir(format!("{at}/d")).unwrap();
    let once = ok(&["stat", at]);
    assert!(once.contains("DEVICE") && once.contains("vfs.ffs.writes_sync"), "{once}");
    assert!(!once.contains("vfs.ffs.frag_moves"), "what is 0 is left out: {once}");
    assert!(ok(&["stat", "-a", at]).contains("vfs.ffs.frag_moves"));
    let lines = ok(&["stat", "--json", "-w", "0.1", "-c", "3", at]);
    let looks: Vec<serde_json::Value> =
        lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(looks.len(), 3);
    assert!(looks[0].get("rates").is_none() && looks[2]["seconds"].as_f64().unwrap() >= 0.1);
    assert!(looks[2]["rates"]["vfs.ffs.reads"].is_number());
    assert!(looks[2]["gauges"]["vfs.numbufs"].as_u64().unwrap() > 0);
    fails(&["stat", "-w", "0", at], 64, "0.1");
    fails(&["stat", "-c", "2", "nothing.img:/"], 64, "for one mount");
}

/// A new image with soft updates, mounted with `options` on `mnt`; `None` where that is not
/// possible.
pub(crate) fn mounted(d: &Dir, options: &str) -> Option<String> {
    if !fuse() {
        return None;
    }
    fs::create_dir(d.path("mnt")).unwrap();
    let image = d.image("a.img", "16m", &["-U"]);
    let mounted = run(&["mount", "-o", options, &image, &d.str("mnt")]);
    if !mounted.status.success() {
        println!("skipped: cannot mount: {}", text(&mounted));
        return None;
    }
    Some(image)
}

/// The fields after the name of the mount at `at` in the kernel's table.
fn entry(at: &str) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table
        .lines()
        .find_map(|line| line.split_once(&format!(" {at} ")).map(|(_, rest)| rest.to_owned()))
}

#[test]
fn options_hold_until_they_are_changed_or_the_mount_ends() {
    let d = Dir::new();
    let Some(image) = mounted(&d, "nosuid,nodev,noexec,fsname=some") else { return };
    let (dir, at) = (d.path("mnt"), &d.str("mnt"));
    let first = entry(at).unwrap();
    let turned = ok(&["sysctl", at, "kern.nbuf=500"]);
    ok(&["mount", "-u", "-o", "ro", at]);
    let refused = fs::write(dir.join("x"), b"x").unwrap_err();
    ok(&["mount", "-u", "-o", "rw", at]);
    let written = fs::write(dir.join("x"), b"x");
    let kept = ok(&["sysctl", "-n", at, "kern.nbuf"]);
    ok(&["umount", at]);
    ok(&["mount", "-o", "suid,dev", &image, at]);
    let second = entry(at).unwrap();
    let anew = ok(&["sysctl", "-n", at, "kern.nbuf"]);
    ok(&["umount", at]);
    assert!(first.starts_with("rw,nosuid,nodev,noexec,") && first.contains(" some rw"), "{first}");
    assert!(!["nosuid", "nodev", "noexec"].iter().any(|word| second.contains(word)), "{second}");
    assert_eq!(turned, "kern.nbuf: auto -> 500\n");
    assert_eq!((kept.as_str(), anew.as_str()), ("500\n", "auto\n"));
    assert_eq!(refused.raw_os_error(), Some(30));
    written.unwrap();
    fsck_clean(Path::new(&image));
}

/// A mount in use is out of sight at once; who uses it goes on, and `umount` waits for that.
#[test]
fn a_lazy_unmount_waits_for_those_who_use_the_mount() {
    let d = Dir::new();
    let Some(image) = mounted(&d, "rw") else { return };
    let at = &d.str("mnt");
    let mut user = std::process::Command::new("sh")
        .args(["-c", "exec 3>\"$0\"/f; echo open; read line; echo more >&3", at])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(user.stdout.as_mut().unwrap(), &mut line).unwrap();
    fails(&["umount", at], 1, "is in use");
    let mut unmount = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args(["umount", "-l", at])
        .spawn()
        .unwrap();
    while entry(at).is_some() {
        assert_eq!(unmount.try_wait().unwrap(), None, "it ended, and the mount is there");
        std::thread::yield_now();
    }
    assert_eq!(unmount.try_wait().unwrap(), None, "a file is still open");
    drop(user.stdin.take());
    assert!(user.wait().unwrap().success());
    assert!(unmount.wait().unwrap().success());
    assert_eq!(ok(&["cat", &format!("{image}:/f")]), "more\n");
    fsck_clean(Path::new(&image));
}

/// The process that holds `image`, from the error message of a second command.
fn holder_of(image: &str) -> u32 {
    let stderr = fails(&["ls", image], 1, "in use by process ");
    let after = stderr.split("in use by process ").nth(1).unwrap();
    after.split(' ').next().unwrap().parse().unwrap()
}

/// A stopped process, which goes on when this is dropped.
struct Stopped(rustix::process::Pid);

impl Stopped {
    fn stop(pid: u32) -> Stopped {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        rustix::process::kill_process(self.0, rustix::process::Signal::CONT).unwrap();
    }
}

/// Naming the holder of a busy image must not ask other file systems anything: one that does not
/// answer would stop the command for ever.
#[test]
fn a_busy_image_is_reported_beside_a_server_that_does_not_answer() {
    if !fuse() {
        return;
    }
    let d = Dir::new();
    let (mute, busy) = (d.image("mute.img", "16m", &[]), d.image("busy.img", "16m", &[]));
    let dir = d.path("mnt");
    fs::create_dir(&dir).unwrap();
    let at = dir.to_str().unwrap();
    let mounted = run(&["mount", "-o", "attr_timeout=0", &mute, at]);
    if !mounted.status.success() {
        return println!("skipped: cannot mount: {}", text(&mounted));
    }
    let server = holder_of(&mute);
    // In a process of its own: what this one has open would be closed, with a word to the server,
    // by every process that it starts.
    let open = dir.join("open").into_os_string().into_string().unwrap();
    let mut keeper = std::process::Command::new("sh")
        .args(["-c", "exec 3>\"$0\"; echo open; read line", &open])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(keeper.stdout.as_mut().unwrap(), &mut line).unwrap();
    let held = fs::OpenOptions::new().read(true).write(true).open(&busy).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let stopped = Stopped::stop(server);
    let mut answered = Vec::new();
    let here = d.str("");
    for args in [vec!["ls", &busy], vec!["fsck", "-n", &busy], vec!["mount", &busy, &here]] {
        answered.push((args[0], in_time(&args)));
    }
    drop(stopped);
    drop(keeper.stdin.take());
    keeper.wait().unwrap();
    ok(&["umount", at]);
    for (command, stderr) in answered {
        let stderr = stderr.unwrap_or_else(|| panic!("ffs {command} did not answer"));
        let me = format!("in use by process {}", std::process::id());
        assert!(stderr.contains(&me), "ffs {command}: {stderr}");
    }
}

/// The standard error of `ffs ARGS`. `None` if it had to be killed.
fn in_time(args: &[&str]) -> Option<String> {
    const BOUND: std::time::Duration = std::time::Duration::from_secs(60);
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args(args)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stderr.take().unwrap();
    let (send, ended) = std::sync::mpsc::channel();
    // It is not joined: of a process that cannot be killed the pipe stays open.
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::Read::read_to_string(&mut pipe, &mut text);
        let _ = send.send(read.map(|_| text));
    });
    match ended.recv_timeout(BOUND) {
        Ok(text) => {
            child.wait().unwrap();
            Some(text.unwrap())
        }
        Err(_) => {
            child.kill().unwrap();
            None
        }
    }
}

/// mount(8) compares the source with the line of fstab before it mounts. The file of dates needs
/// the partition, or a dump would be the base for those of another one.
#[test]
fn the_mount_table_and_the_dates_of_dumps_name_the_partition() {
    if !fuse() {
        return;
    }
    let d = Dir::new();
    let (disk, at, dates) = (d.str("disk.img"), d.str("mnt"), d.str("dates"));
    fs::create_dir(&at).unwrap();
    let volumes = ["one", "two"].map(|name| format!("{name}:16m={at}"));
    ok(&["disk", "create", &disk, "--ufs", &volumes[0], "--ufs", &volumes[1]]);
    let partition = format!("{disk}@2");
    let made = run(&["mount", &partition, &at]);
    if !made.status.success() {
        return println!("skipped: cannot mount: {}", text(&made));
    }
    let found = entry(&at).unwrap();
    let dumped = run(&["dump", "-0", "-u", "-L", "-D", &dates, "-f", &d.str("dump"), &at]);
    ok(&["umount", &at]);
    assert!(found.contains(&format!(" - fuse.ffs {partition} ")), "{found}");
    assert!(dumped.status.success(), "{}", text(&dumped));
    let dates = fs::read_to_string(&dates).unwrap();
    assert!(dates.starts_with(&format!("{partition} ")), "{dates}");
}

#[test]
fn all_mounts_of_a_user_are_unmounted_and_no_others() {
    let d = Dir::new();
    if mounted(&d, "ro").is_none() {
        return;
    }
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    let program = d.path("ffs");
    fs::copy(crate::common::ffs().get_program(), &program).unwrap();
    let as_user = |args: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", "54399", "--regid", "54399", "--clear-groups"]);
        command.arg(&program).args(args).output()
    };
    let points = ["one", "two", "one/in it"].map(|name| d.str(name));
    let images = ["1.img", "2.img", "3.img"].map(|name| d.image(name, "8m", &[]));
    ok(&["mkdir", "-m", "777", &format!("{}:/in it", images[0])]);
    fs::set_permissions(d.path(""), open.clone()).unwrap();
    for (image, point) in images.iter().zip(&points) {
        if !point.ends_with("in it") {
            fs::create_dir(point).unwrap();
            fs::set_permissions(point, open.clone()).unwrap();
        }
        fs::set_permissions(image, open.clone()).unwrap();
        let made = as_user(&["mount", image, point]);
        if !made.as_ref().is_ok_and(|made| made.status.success()) {
            println!("skipped: a user cannot mount: {}", made.map_or("".into(), |m| text(&m)));
            as_user(&["umount", "--all"]).unwrap();
            ok(&["umount", &d.str("mnt")]);
            return;
        }
        // The root directories belong to root.
        let made = made.unwrap();
        let words = "this user may not write to the root directory of the volume; -o fakeroot";
        assert!(text(&made).contains(words), "{}", text(&made));
    }
    let unmounted = as_user(&["umount", "--all"]).unwrap();
    let [one, two, inner] = &points;
    let lines = [inner, two, one].map(|point| format!("ffs umount: {point} is unmounted\n"));
    let stderr = String::from_utf8_lossy(&unmounted.stderr);
    assert_eq!(stderr, lines.concat(), "{}", text(&unmounted));
    assert!(unmounted.status.success());
    assert!(entry(&d.str("mnt")).is_some(), "the mount of another user stays");
    ok(&["umount", &d.str("mnt")]);
    fails(&["umount", "--all", one], 1, "cannot be used with");
    let nothing = as_user(&["umount", "--all"]).unwrap();
    assert_eq!(text(&nothing), "exit status: 0\n");
}
