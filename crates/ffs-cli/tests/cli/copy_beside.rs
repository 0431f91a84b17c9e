//! Options of `ffs cp` beside those of cp(1) of GNU and of rsync, on the same tree.

use crate::common::{
    Dir, fsck_clean, is_root, json_lines, ok, pattern, run, set_mtime, text, walk,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The times of the source's files, and of newer and older targets, seconds.
const SOURCE: i64 = 1_000_000_000;
const NEWER: i64 = SOURCE + 5000;
const OLDER: i64 = SOURCE - 5000;

/// Whether the program is installed, and the user may give files away.
fn comparable(program: &str, words: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    let found = version.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(words));
    if !found || !is_root() {
        println!("skipped: needs {program} ({words}) and root");
    }
    found && is_root()
}

/// The sources `src` and the targets `dst` in `root`.
fn plant(root: &Path) {
    let file = |name: &str, mode: u32, owner: u32, content: &[u8], time: i64| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        set_mtime(&path, time, 0);
    };
    for (name, mode, owner) in [("plain", 0o640, 7), ("new", 0o604, 7), ("suid", 0o4755, 7)] {
        file(&format!("src/{name}"), mode, owner, name.as_bytes(), SOURCE);
    }
    for name in ["older", "newer", "same"] {
        file(&format!("src/{name}"), 0o644, 1, b"from the source", SOURCE);
    }
    file("src/sub/deep/leaf.o", 0o644, 1, b"leaf", SOURCE);
    file("src/sub/leaf.c", 0o644, 1, b"leaf", SOURCE);
    file("src/skip.o", 0o644, 1, b"skip", SOURCE);
    let odd = std::ffi::OsStr::from_bytes(b"src/odd \n\xff'name");
    file("src/x", 0o644, 1, b"x", SOURCE);
    fs::rename(root.join("src/x"), root.join(odd)).unwrap();
    fs::hard_link(root.join("src/new"), root.join("src/zhard")).unwrap();
    symlink("plain", root.join("src/link")).unwrap();
    symlink("sub", root.join("src/dirlink")).unwrap();
    symlink("src", root.join("top")).unwrap();
    symlink("none", root.join("dangle")).unwrap();
    for path in walk(&root.join("src")).into_iter().rev() {
        set_mtime(&path, SOURCE, 0);
    }
    fs::create_dir(root.join("dst")).unwrap();
    for (name, time) in [("older", OLDER), ("newer", NEWER), ("same", SOURCE), ("plain", OLDER)] {
        file(&format!("dst/src/{name}"), 0o600, 5, b"from the target, longer", time);
    }
}

/// Mode, owner, time (0: the present), content and first name of each file.
type States = BTreeMap<PathBuf, (u32, u32, i64, Vec<u8>, PathBuf)>;

fn states(root: &Path) -> States {
    let mut firsts = BTreeMap::new();
    let mut paths = walk(root);
    paths.sort();
    let state = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap().to_owned();
        let found = fs::symlink_metadata(&path).unwrap();
        let first: &mut PathBuf = firsts.entry(found.ino()).or_insert_with(|| name.clone());
        let content = if found.is_file() {
            fs::read(&path).unwrap()
        } else if found.is_symlink() {
            fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
        } else {
            Vec::new()
        };
        // The time of a link, and of a directory that is filled, is not what an option is for.
        let time = match found.is_file() && found.mtime() < SOURCE + 100_000 {
            true => found.mtime(),
            false => 0,
        };
        (name, (found.mode(), found.uid(), time, content, first.clone()))
    };
    paths.into_iter().map(state).collect()
}

/// Runs `program`, then `ffs cp` into an image and out of one, and compares the targets.
struct Beside {
    d: Dir,
    image: String,
}

impl Beside {
    fn new() -> Beside {
        let d = Dir::new();
        fs::create_dir(d.path("start")).unwrap();
        plant(&d.path("start"));
        let image = d.image("start.img", "4m", &[]);
        ok(&["cp", "-a", &format!("{}/.", d.str("start")), &format!("{image}:/")]);
        Beside { d, image }
    }

    fn fresh(&self, name: &str) -> PathBuf {
        let tree = self.d.path(name);
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir(&tree).unwrap();
        plant(&tree);
        tree
    }

    /// `cp OPTIONS SOURCE dst` beside `PROGRAM OTHER SOURCE dst`; what differs.
    fn differs(
        &self,
        program: (&str, &[&str]),
        options: &[&str],
        from: &str,
        input: &str,
    ) -> String {
        let tree = self.fresh("wanted");
        let feed = |mut command: Command| {
            let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).ok();
            child.wait().unwrap().success()
        };
        let mut other = Command::new(program.0);
        other.args(program.1).args([from, "dst"]).current_dir(&tree);
        let success = feed(other);
        let wanted = states(&tree.join("dst"));
        let mut text = String::new();
        for into in [true, false] {
            let tree = self.fresh("host");
            let image = self.d.str("case.img");
            fs::copy(&self.image, &image).unwrap();
            let mut ffs = Command::new(assert_cmd::cargo::cargo_bin!("ffs"));
            ffs.arg("cp").args(options).current_dir(&tree);
            let source = if into { from.to_owned() } else { format!("{image}:/{from}") };
            let target = if into { format!("{image}:/dst") } else { "dst".to_owned() };
            let succeeded = feed({
                ffs.args([&source, &target]);
                ffs
            });
            let tree = if into {
                fsck_clean(Path::new(&image));
                let out = self.d.path("out");
                let _ = fs::remove_dir_all(&out);
                ok(&["cp", "-a", &format!("{image}:/dst"), out.to_str().unwrap()]);
                out
            } else {
                tree.join("dst")
            };
            let got = states(&tree);
            let names: std::collections::BTreeSet<_> = wanted.keys().chain(got.keys()).collect();
            for name in names.into_iter().filter(|name| wanted.get(*name) != got.get(*name)) {
                let (a, b) = (wanted.get(name), got.get(name));
                text += &format!("{options:?} into={into} {}:\n  {a:?}\n  {b:?}\n", name.display());
            }
            if success != succeeded {
                text += &format!("{options:?} {from} into={into}: {success} {succeeded}\n");
            }
        }
        text
    }
}

#[test]
fn options_of_gnu_cp_have_its_effect() {
    if !comparable("cp", "coreutils") {
        return;
    }
    let beside = Beside::new();
    let mut bad = String::new();
    for options in [
        &["-R"][..],
        &["-a"],
        &["--archive"],
        &["--recursive"],
        &["-R", "--preserve=mode,ownership"],
        &["-R", "--preserve=ownership"],
        &["-R", "--preserve=timestamps"],
        &["-R", "--preserve=links"],
        &["-R", "--preserve=all"],
        &["-R", "--preserve=xattr"],
        &["-a", "--no-preserve=ownership,mode"],
        &["-a", "--no-preserve=timestamps"],
        &["-a", "--no-preserve=links"],
        &["-R", "-p"],
        &["-pR"],
        &["-dR"],
        &["-RL"],
        &["-R", "--dereference"],
        &["-RP"],
        &["-RH"],
        &["-aL"],
        &["-Ru"],
        &["-au"],
        &["-R", "--update"],
        &["-Rn"],
        &["-R", "--no-clobber"],
        &["-Rf", "--no-target-directory"],
        &["-R", "--sparse=always"],
        &["-R", "--sparse=never"],
        &["-R", "--reflink=never"],
        &["-R", "--reflink=auto"],
        &["-L"],
        &["-P"],
        &["-d"],
        &["-H"],
    ] {
        for from in ["src", "top", "src/plain", "src/link", "src/dirlink", "dangle"] {
            bad += &beside.differs(("cp", options), options, from, "");
        }
    }
    // Each program has an order of its own: all answers are the same.
    for answers in ["", "y\n", "n\n", "yes\n", "\n"].map(|answer| answer.repeat(20)) {
        let options = &["-Ri"];
        bad += &beside.differs(("cp", options), options, "src", &answers);
    }
    assert!(bad.is_empty(), "{bad}");
}

#[test]
fn options_of_rsync_have_its_effect() {
    if !comparable("rsync", "rsync") {
        return;
    }
    let beside = Beside::new();
    let mut bad = String::new();
    for (other, options) in [
        (&["-aH"][..], &["-a"][..]),
        (&["-aH", "--exclude=*.o"], &["-a", "--exclude", "*.o"]),
        (&["-aH", "--exclude=sub", "--exclude=*.o"], &["-a", "--exclude=sub", "--exclude=*.o"]),
        // The paths of rsync begin with the name of the source.
        (&["-aH", "--exclude=/src/sub"], &["-a", "--exclude=/sub"]),
        (&["-aH", "--exclude=/src/plain"], &["-a", "--exclude=/plain"]),
        (&["-aH", "--exclude=/plain", "--exclude=/sub"], &["-a", "--exclude=/src"]),
        (&["-aH", "--exclude=/src/*.o"], &["-a", "--exclude=/*.o"]),
        (&["-aH", "--exclude=sub/"], &["-a", "--exclude=sub/"]),
        (&["-aH", "--exclude=plain/", "--exclude=*.o/"], &["-a", "--exclude=plain/"]),
        (&["-aH", "--exclude=sub/*"], &["-a", "--exclude=sub/*"]),
        (&["-aH", "--exclude=sub/**"], &["-a", "--exclude=sub/**"]),
        (&["-aH", "--exclude=sub/***"], &["-a", "--exclude=sub/***"]),
        (&["-aH", "--exclude=/src/**/*.o"], &["-a", "--exclude=/**/*.o"]),
        (&["-aH", "--exclude=**/*.o"], &["-a", "--exclude=**/*.o"]),
        (&["-aH", "--exclude=sub**.o"], &["-a", "--exclude=sub**.o"]),
        (&["-aH", "--exclude=s**f.[co]"], &["-a", "--exclude=s**f.[co]"]),
        (&["-aH", "--exclude=sub/**/leaf.*"], &["-a", "--exclude=sub/**/leaf.*"]),
        (&["-aH", "--exclude=/src/s**o"], &["-a", "--exclude=/s**o"]),
        (
            &["-aH", "--exclude=s?b", "--exclude=[p]l*n"],
            &["-a", "--exclude=s?b", "--exclude=[p]l*n"],
        ),
        // Of two files with the same time rsync copies one of another size, as cp(1) does not.
        (&["-aHu", "--exclude=same"], &["-au", "--exclude=same"]),
        (&["-aH", "--ignore-existing"], &["-a", "--update=none"]),
        (&["-aH", "--dry-run"], &["-a", "--dry-run"]),
        (&["-aH", "--checksum"], &["-a", "--checksum"]),
        (&["-aHS"], &["-a", "--sparse=always"]),
        (&["-aH", "--partial", "--append-verify"], &["-a", "--continue", "--checksum"]),
    ] {
        // rsync takes a file of the target that is longer for complete with --append-verify.
        let from = if other.contains(&"--append-verify") { "src/sub" } else { "src" };
        bad += &beside.differs(("rsync", other), options, from, "");
    }
    assert!(bad.is_empty(), "{bad}");
}

#[test]
fn names_are_printed_as_gnu_cp_does() {
    if !comparable("cp", "coreutils") {
        return;
    }
    let d = Dir::new();
    let tree = d.path("tree");
    for name in ["a", "dir/b", "dir/c"] {
        fs::create_dir_all(tree.join("dir")).unwrap();
        fs::write(tree.join(name), name).unwrap();
    }
    symlink("a", tree.join("link")).unwrap();
    let lines = |printed: &[u8]| {
        let text = String::from_utf8_lossy(printed).into_owned();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (source, host) = (tree.to_str().unwrap(), d.str("copy"));
    let wanted = Command::new("cp").args(["-Rv", source, &host]).output().unwrap();
    let image = d.image("a.img", "4m", &[]);
    let got = run(&["cp", "-Rv", source, &format!("{image}:/copy")]);
    let renamed: Vec<String> =
        lines(&wanted.stdout).iter().map(|l| l.replace(&host, &format!("{image}:/copy"))).collect();
    assert_eq!(lines(&got.stdout), renamed);
    assert!(String::from_utf8_lossy(&got.stderr).contains("copied 3 files, 2 directories"));
    // Out of the image, and into a directory that exists.
    fs::create_dir(d.path("into")).unwrap();
    let into = d.str("into");
    let wanted = Command::new("cp").args(["-Rv", source, &into]).output().unwrap();
    let out = d.str("out");
    fs::create_dir(&out).unwrap();
    let got = run(&["cp", "-Rv", &format!("{image}:/copy"), &out]);
    let renamed: Vec<String> = lines(&wanted.stdout)
        .iter()
        .map(|line| line.replace(&format!("{into}/tree"), &format!("{out}/copy")))
        .map(|line| line.replace(source, &format!("{image}:/copy")))
        .collect();
    assert_eq!(lines(&got.stdout), renamed, "{}", text(&got));
}

/// Holes, beside cp(1): the allocated space.
#[test]
fn holes_are_made_and_filled() {
    if !comparable("cp", "coreutils") {
        return;
    }
    let d = Dir::new();
    let mut content = vec![0; 4 << 20];
    content[..5000].copy_from_slice(&pattern(5000, 1));
    content[3 << 20..(3 << 20) + 70_000].copy_from_slice(&pattern(70_000, 2));
    let full = d.file("full", &content);
    let image = d.image("a.img", "32m", &[]);
    let at = |name: &str| format!("{image}:/{name}");
    let blocks = |name: &str| {
        let shown: serde_json::Value = json_lines(&ok(&["stat", "--json", &at(name)]));
        shown[0]["blocks512"].as_u64().unwrap() * 512
    };
    ok(&["cp", "--sparse=always", &full, &at("holes")]);
    ok(&["cp", "--sparse=auto", &full, &at("same")]);
    assert!(blocks("holes") < 300_000, "{}", blocks("holes"));
    assert!(blocks("same") >= 4 << 20);
    let host = |when: &str, from: &str| {
        let to = d.str("out");
        ok(&["cp", when, &at(from), &to]);
        assert!(fs::read(&to).unwrap() == content, "{when} {from}");
        let found = fs::metadata(&to).unwrap();
        fs::remove_file(&to).unwrap();
        found.blocks() * 512
    };
    assert!(host("--sparse=auto", "holes") < 300_000);
    assert!(host("--sparse=never", "holes") >= 4 << 20);
    assert!(host("--sparse=always", "same") < 300_000);
    // A pipe: the size is not known before its end.
    let mut ffs = Command::new(assert_cmd::cargo::cargo_bin!("ffs"));
    ffs.args(["cp", "--sparse=always", "-", &at("piped")]).stdin(Stdio::piped());
    let mut child = ffs.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &content).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(blocks("piped") < 400_000);
    assert!(run(&["cat", &at("piped")]).stdout == content);
    fsck_clean(Path::new(&image));
}
