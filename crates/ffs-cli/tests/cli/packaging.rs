//! The scripts of `packaging/` with the command itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Dir, ok, text};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ffs"))
}

fn packaging(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(script)
}

fn call(program: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

#[test]
fn the_first_steps_work() {
    let output = Command::new("sh").arg(packaging("smoke")).arg(program()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn an_installation_has_pages_completions_and_helpers() {
    let dir = Dir::new();
    let (prefix, sbin) = (dir.path("usr"), dir.path("sbin"));
    let mut install = Command::new("sh");
    install.arg(packaging("install")).arg("--prefix").arg(&prefix).arg("--sbindir").arg(&sbin);
    let output = install.arg(program()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    for page in ["man1/ffs.1.gz", "man8/ffs-mount.8.gz", "man8/mount.ufs.8.gz"] {
        assert!(fs::metadata(prefix.join("share/man").join(page)).unwrap().len() > 0, "{page}");
    }
    let bash = fs::read_to_string(prefix.join("share/bash-completion/completions/ffs")).unwrap();
    assert!(bash.contains("newfs") && bash.contains("complete -F"), "{bash:.200}");
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/ffs@.service")).unwrap();
    assert!(unit.contains(&format!("ExecStart={}/bin/ffs mount ", prefix.display())), "{unit}");

    // As mount(8) calls it. With -f nothing is mounted, so that no rights are needed.
    let image = &dir.str("a.img")[..];
    ok(&["newfs", "-s", "16m", image]);
    for helper in ["mount.ufs", "mount.fuse.ffs", "mount.fuseblk.ffs"] {
        let helper = sbin.join(helper);
        let words = [image, "/mnt", "-n", "-v", "-s", "-f", "-o", "ro,ufstype=ufs2"];
        let output = call(&helper, &words);
        assert!(output.status.success(), "{}", text(&output));
        let output = call(&helper, &[image, "/mnt", "-f", "-o", "ro,noatme"]);
        assert_eq!(output.status.code(), Some(32), "{}", text(&output));
        assert!(text(&output).contains("did you mean 'noatime'"), "{}", text(&output));
    }
    for helper in ["umount.fuse.ffs", "umount.fuseblk.ffs"] {
        let output = call(&sbin.join(helper), &[&dir.str("usr")]);
        assert_eq!(output.status.code(), Some(32), "{}", text(&output));
        assert!(text(&output).contains("nothing is mounted there"), "{}", text(&output));
    }
}

#[test]
fn a_link_to_the_program_is_replaced_and_not_written_through() {
    let dir = Dir::new();
    let (prefix, sbin) = (dir.path("usr"), dir.path("sbin"));
    fs::create_dir(&sbin).unwrap();
    let helper = sbin.join("mount.fuse.ffs");
    std::os::unix::fs::symlink(prefix.join("bin/ffs"), &helper).unwrap();
    let mut install = Command::new("sh");
    install.arg(packaging("install")).arg("--prefix").arg(&prefix).arg("--sbindir").arg(&sbin);
    let output = install.arg(program()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(fs::read(prefix.join("bin/ffs")).unwrap() == fs::read(program()).unwrap());
    assert!(fs::symlink_metadata(&helper).unwrap().is_file());
}

/// The program as packages name it. A link would not do: the laboratory runs its own file again.
fn ffs_lab(dir: &Dir) -> PathBuf {
    let path = dir.path("ffs-lab");
    if fs::hard_link(program(), &path).is_err() {
        fs::copy(program(), &path).unwrap();
    }
    path
}

#[test]
fn ffs_lab_is_the_laboratory() {
    let dir = Dir::new();
    let lab = ffs_lab(&dir);
    let listed = call(&lab, &["list"]);
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), ok(&["lab", "list"]));
    let help = call(&lab, &["run", "--help"]);
    assert!(text(&help).contains("Usage: ffs lab run "), "{}", text(&help));
    let wrong = call(&lab, &["no-such-experiment"]);
    assert_eq!(wrong.status.code(), Some(64), "{}", text(&wrong));
    // Other commands are those of ffs, by which the laboratory mounts and checks.
    let image = dir.str("a.img");
    assert!(call(&lab, &["newfs", "-s", "8m", &image]).status.success());
    assert!(call(&lab, &["fsck", "-n", &image]).status.success());
    let pages = dir.str("man");
    assert!(call(&lab, &["man", &pages]).status.success());
    assert!(dir.path("man/man1/ffs-lab-run.1").exists() && dir.path("man/man1/ffs.1").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn ffs_lab_runs_its_own_workers() {
    let dir = Dir::new();
    fs::create_dir(dir.path("work")).unwrap();
    let work = dir.str("work");
    let args = ["stress", &work, "--kind", "tree", "-p", "2", "--operations", "20"];
    let output = call(&ffs_lab(&dir), &args);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_program_that_is_too_large_is_refused() {
    let d = Dir::new();
    let size = packaging("size");
    let check = |bytes: u64| {
        let file = d.str("ffs");
        fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        call(Path::new("sh"), &[size.to_str().unwrap(), &file])
    };
    assert!(check(11_999_999).status.success());
    let refused = check(12_000_000);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("has 12000000 bytes, expected less than 12000000"));
    let make = fs::read_to_string(packaging("make")).unwrap();
    assert!(make.contains("packaging/size \"$ffs\""));
}
