//! `ffs fsck`: its questions, and every option and exit code of its manual page.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ffs_admin::Volume;
use ffs_device::FileDevice;
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Cg, CgMut, CgNo, Dinode, FragNo, Ino, Superblock, cg};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Dir, fails, ffs, fsck_clean, json_lines, ok, pattern, run, text};

/// Inode number of a path like `img:/a/b`.
fn ino_of(path: &str) -> u32 {
    let json: serde_json::Value = json_lines(&ok(&["stat", "--json", path]));
    let first = json.as_array().map_or(&json, |list| &list[0]);
    first["inode"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or_else(|| panic!("{json}"))
}

/// Changes inode `ino` of an image behind everybody's back.
pub(crate) fn edit_inode(image: &str, ino: u32, change: impl FnOnce(&mut Dinode)) {
    let device = FileDevice::open(Path::new(image), true).unwrap();
    let g = Volume::open(&device).unwrap().geo;
    let at = g.frag_to_byte(g.ino_to_fsba(Ino(ino))) + g.ino_to_fsbo(Ino(ino)) as u64;
    let mut raw = vec![0; g.format.dinode_size()];
    let file = fs::File::options().read(true).write(true).open(image).unwrap();
    file.read_exact_at(&mut raw, at).unwrap();
    let mut inode = Dinode::decode(&g, &raw);
    change(&mut inode);
    inode.encode(&g, &mut raw);
    file.write_all_at(&raw, at).unwrap();
}

/// Changes the superblock.
pub(crate) fn edit_superblock(image: &str, change: impl FnOnce(&mut Superblock)) {
    let file = fs::File::options().read(true).write(true).open(image).unwrap();
    let mut raw = vec![0; 8192];
    file.read_exact_at(&mut raw, 65536).unwrap();
    let mut sb = Superblock::decode(&raw, 65536).unwrap();
    change(&mut sb);
    file.write_all_at(&sb.encode(), 65536).unwrap();
}

/// Changes the block of group 0.
fn edit_group(image: &str, change: impl FnOnce(&ffs_ondisk::Geometry, &mut [u8])) {
    let device = FileDevice::open(Path::new(image), true).unwrap();
    let g = Volume::open(&device).unwrap().geo;
    let file = fs::File::options().read(true).write(true).open(image).unwrap();
    let mut raw = vec![0; g.cgsize as usize];
    let at = g.frag_to_byte(g.cgtod(CgNo(0)));
    file.read_exact_at(&mut raw, at).unwrap();
    change(&g, &mut raw);
    cg::rehash(&g, &mut raw);
    file.write_all_at(&raw, at).unwrap();
}

/// An image with `/dir/file`, and that file's inode number.
pub(crate) fn with_file(d: &Dir, name: &str, newfs: &[&str]) -> (String, u32) {
    let image = d.image(name, "8m", newfs);
    ok(&["mkdir", &format!("{image}:/dir")]);
    let file = d.file("file", &pattern(70_000, 3));
    ok(&["cp", &file, &format!("{image}:/dir/")]);
    let ino = ino_of(&format!("{image}:/dir/file"));
    edit_inode(&image, ino, |i| {
        (i.uid, i.gid, i.mode) = (0, 4_000_000_007, 0o104_750);
        i.mtime.secs = 1_234_567_890;
    });
    fsck_clean(Path::new(&image));
    (image, ino)
}

/// `fsck ARGS... IMAGE` with these answers.
fn answered(args: &[&str], image: &str, answers: &str) -> Output {
    ffs().arg("fsck").args(args).arg(image).write_stdin(answers).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The lines of fsck about the file of [`with_file`], with this many links.
fn lines(ino: u32, links: u32) -> [String; 2] {
    [
        format!(
            "  I={ino}  OWNER=0(root) GROUP=4000000007 MODE=104750 (-rwsr-x---) LINKS={links}\n"
        ),
        "  SIZE=70000 MTIME=2009-02-13 23:31 UTC FILE=/dir/file\n".to_owned(),
    ]
}

#[test]
fn a_question_names_the_owner_of_its_file() {
    let d = Dir::new();
    for (answer, code, links) in [("y\n", 0, 1), ("n\n", 16, 5)] {
        let (image, ino) = with_file(&d, "a.img", &[]);
        edit_inode(&image, ino, |i| i.nlink = 5);
        let output = answered(&[], &image, answer);
        let [owner, size] = lines(ino, 5);
        let question = format!(
            "** Phase 4 - Check Reference Counts\n\
             LINK-HIGH: link count too high I={ino} /dir/file (5 -> 1)\n\
             {owner}{size}REPAIR? [y/n/a(ll)/q(uit)] "
        );
        assert!(stderr(&output).contains(&question), "{}", text(&output));
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        // The question is printed once, and the report does not describe the file again.
        assert_eq!(text(&output).matches("OWNER=").count(), 1, "{}", text(&output));
        edit_inode(&image, ino, |i| assert_eq!(i.nlink, links));
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn a_question_about_a_block_names_it_and_its_place() {
    let d = Dir::new();
    for (answer, code) in [("y\ny\ny\ny\ny\ny\ny\n", 0), ("n\nn\nn\nn\nn\n", 16)] {
        let (image, ino) = with_file(&d, "a.img", &[]);
        edit_inode(&image, ino, |i| i.db[1] = 1 << 40);
        let output = answered(&[], &image, answer);
        let [owner, size] = lines(ino, 1);
        let question = format!(
            "** Phase 1 - Check Blocks and Sizes\n\
             BLK-BAD: pointer outside the volume: drop such pointers I={ino} \
             block 1 at offset 32768 /dir/file (1099511627776 -> 0)\n\
             {owner}{size}REPAIR? "
        );
        assert!(stderr(&output).contains(&question), "{}", text(&output));
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn a_question_about_a_name_describes_its_file() {
    let d = Dir::new();
    let (image, ino) = with_file(&d, "a.img", &[]);
    edit_inode(&image, ino, |i| i.mode = 0o170_000);
    let output = answered(&[], &image, "y\ny\ny\ny\ny\ny\ny\n");
    let all = stderr(&output);
    let (typed, named) = all.split_once("** Phase 2").unwrap_or_else(|| panic!("{all}"));
    assert!(typed.contains("MODE=170000 (?---------)"), "{typed}");
    assert!(named.contains("DIR=/dir\n") && named.contains(&format!("  NAMES I={ino} ")), "{all}");
    assert!(named.contains("MODE=0 (unallocated)") && named.contains("FILE=/dir/file\n"), "{all}");
    assert_eq!(output.status.code(), Some(0), "{all}");
    fsck_clean(Path::new(&image));
}

#[test]
fn what_has_no_name_has_a_question_mark() {
    let d = Dir::new();
    let (image, ino) = with_file(&d, "a.img", &[]);
    let link = format!("{image}:/dir/file");
    // A second link, then the only names are removed with the count left too high: nothing names
    // it.
    edit_inode(&image, ino, |i| i.nlink = 2);
    ok(&["rm", &link]);
    let output = answered(&[], &image, "n\nn\nn\nn\nn\n");
    let all = stderr(&output);
    assert!(all.contains("INO-UNREF") && all.contains("FILE=?\n"), "{all}");
    assert!(all.contains(&format!("I={ino}  OWNER=0(root)")), "{all}");
}

#[test]
fn reports_and_json_say_it_too() {
    let d = Dir::new();
    let (image, ino) = with_file(&d, "a.img", &[]);
    edit_inode(&image, ino, |i| i.nlink = 5);
    let [owner, size] = lines(ino, 5);
    let looked = run(&["fsck", "-n", &image]);
    assert!(stdout(&looked).contains(&format!("{owner}{size}")), "{}", text(&looked));
    let json = answered(&["--json"], &image, "n\n");
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let inode = &value["findings"][0]["inode"];
    assert_eq!((&inode["size"], &inode["uid"]), (&70_000.into(), &0.into()), "{value}");
    assert_eq!(value["findings"][0]["path"], "/dir/file");
    let preened = run(&["fsck", "-p", "-f", &image]);
    let prefixed = format!("{image}: {owner}{image}: {size}");
    assert!(stdout(&preened).contains(&prefixed), "{}", text(&preened));
    assert_eq!(preened.status.code(), Some(0));
}

/// Answers: all of the following too; nothing more; none at all.
#[test]
fn one_answer_may_be_for_all() {
    let d = Dir::new();
    for (answers, code) in [("a\n", 0), ("q\n", 12), ("", 16), ("what?\nyes\nall\n", 0)] {
        let (image, ino) = with_file(&d, "a.img", &[]);
        edit_inode(&image, ino, |i| i.nlink = 5);
        edit_inode(&image, ino_of(&format!("{image}:/dir")), |i| i.nlink = 9);
        let output = answered(&[], &image, answers);
        assert_eq!(output.status.code(), Some(code), "{answers:?}: {}", text(&output));
        fs::remove_file(&image).unwrap();
    }
}

/// A pipe gets no progress bar.
#[test]
fn progress_is_for_terminals() {
    let d = Dir::new();
    let (image, _) = with_file(&d, "a.img", &[]);
    for args in [["fsck", "-n", &image], ["fsck", "-y", &image], ["fsck", "-f", &image]] {
        let output = run(&args);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_signal_asks_how_far_it_is() {
    let d = Dir::new();
    let (image, ino) = with_file(&d, "a.img", &[]);
    edit_inode(&image, ino, |i| i.nlink = 5);
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args(["fsck", &image])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = child.stderr.take().unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"REPAIR? [y/n/a(ll)/q(uit)] ") {
        let mut byte = [0];
        err.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    // It waits for the answer: the signal is there before that is.
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::USR1).unwrap();
    child.stdin.take().unwrap().write_all(b"y\n").unwrap();
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    let line = format!("{image}: Phase 4 - Check Reference Counts: ");
    assert!(rest.contains(&line) && rest.contains("%)"), "{rest}");
}

/// A used block is marked free: on a volume with soft updates `-p` stops, prints the reason and the
/// next step, and exits with 8.
#[test]
fn preen_stops_at_what_soft_updates_exclude() {
    let d = Dir::new();
    for softdep in [true, false] {
        let (image, ino) = with_file(&d, "a.img", if softdep { &["-U"] } else { &[] });
        let mut block = 0;
        edit_inode(&image, ino, |i| block = i.db[0]);
        edit_group(&image, |g, b| {
            let blk = g.dtogd(FragNo(u64::try_from(block).unwrap())) / g.frag;
            assert!(!Cg::new(g, b).block_free(blk));
            CgMut::new(g, b).set_block_free(blk, true);
        });
        let before = fs::read(&image).unwrap();
        let output = run(&["fsck", "-p", "-f", &image]);
        assert!(
            stdout(&output).contains("CG-ALLOCFREE: in use but marked free"),
            "softdep={softdep}"
        );
        if softdep {
            assert_eq!(output.status.code(), Some(8), "{}", text(&output));
            assert!(before == fs::read(&image).unwrap(), "it wrote");
            let why = stderr(&output);
            assert!(why.contains("UNEXPECTED SOFT UPDATE INCONSISTENCY"), "{why}");
            assert!(why.contains("run ffs fsck without -p"), "{why}");
            ok(&["fsck", "-y", &image]);
        } else {
            assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        }
        fsck_clean(Path::new(&image));
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn clean_volumes_are_passed_over_as_the_options_say() {
    let d = Dir::new();
    let (image, _) = with_file(&d, "a.img", &[]);
    let skipped = |args: &[&str]| {
        let output = run(&[&["fsck"][..], args, &[&image]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        stdout(&output).contains("SKIPPING CHECKS")
    };
    assert!(skipped(&["-p"]) && skipped(&["-C", "-y"]));
    assert!(!skipped(&["-y"]) && !skipped(&["-p", "-f"]) && !skipped(&["-C", "-f", "-n"]));
    let forced = stdout(&run(&["fsck", "-p", "-b", "192", &image]));
    assert!(
        !forced.contains("SKIPPING") && forced.contains("SB-BAD"),
        "-b forces a check: {forced}"
    );
    assert!(!skipped(&["-p", "-c", "3"]), "-c forces a check");
    fails(&["fsck", "-c", "2", &image], 1, "3");
}

#[test]
fn a_backup_superblock_is_used_on_request() {
    let d = Dir::new();
    let (image, _) = with_file(&d, "a.img", &[]);
    let file = fs::File::options().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 8192], 65536).unwrap();
    let output = run(&["fsck", "-y", "-b", "192", &image]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    fsck_clean(Path::new(&image));
    // Where none is.
    assert_eq!(run(&["fsck", "-n", "-b", "193", &image]).status.code(), Some(3));
}

/// A nameless file is put into a lost+found with the permissions of `-m`; `--keep-orphans` has `-p`
/// do it too.
#[test]
fn lost_files_are_kept_on_request() {
    let d = Dir::new();
    for args in [&["-y", "-m", "0750"][..], &["-p", "-m", "0750", "--keep-orphans"], &["-p"]] {
        let (image, ino) = with_file(&d, "a.img", &["-U"]);
        edit_inode(&image, ino, |i| i.nlink = 2);
        ok(&["rm", &format!("{image}:/dir/file")]);
        edit_superblock(&image, |sb| sb.f.clean = 0);
        let output = run(&[&["fsck"][..], args, &[&image]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?} {}", text(&output));
        fsck_clean(Path::new(&image));
        let listed = ok(&["ls", "-l", &image]);
        if args.len() == 1 {
            assert!(!listed.contains("lost+found") && text(&output).contains("clear"), "{listed}");
        } else {
            let line = listed.lines().find(|l| l.contains("lost+found")).unwrap();
            assert!(line.contains("drwxr-x---"), "{line}");
            let inside = ok(&["ls", &format!("{image}:/lost+found")]);
            assert!(inside.trim().ends_with(&ino.to_string()), "{inside}");
        }
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn free_space_is_erased_and_the_inode_area_shrinks() {
    let d = Dir::new();
    let (image, _) = with_file(&d, "a.img", &[]);
    let secret = d.file("secret", &b"top secret ".repeat(5000));
    ok(&["cp", &secret, &format!("{image}:/")]);
    ok(&["rm", &format!("{image}:/secret")]);
    let holds = |image: &str| fs::read(image).unwrap().windows(11).any(|w| w == b"top secret ");
    assert!(holds(&image));
    ok(&["fsck", "-y", &image]);
    assert!(holds(&image), "not without -Z");
    ok(&["fsck", "-y", "-Z", "-E", "-z", "-r", "-R", "-S", &image]);
    assert!(!holds(&image));
    fsck_clean(Path::new(&image));
    assert!(ok(&["cat", &format!("{image}:/dir/file")]).len() > 60_000);
}

#[test]
fn findings_are_counted_by_kind() {
    let d = Dir::new();
    let (image, ino) = with_file(&d, "a.img", &[]);
    edit_inode(&image, ino, |i| i.nlink = 5);
    let output = ok(&["fsck", "-y", "-d", &image]);
    let line = "LINK-HIGH: 1 (A link count above the number of names.)";
    assert!(output.contains(line), "{output}");
    fails(&["fsck", "-n", "--max-memory", "1000", &image], 8, "bytes of memory");
    ok(&["fsck", "-n", "--max-memory", "64m", &image]);
}

/// `-F` decides, and changes nothing.
#[test]
fn the_exit_code_shows_whether_a_check_can_wait() {
    let d = Dir::new();
    let (image, _) = with_file(&d, "a.img", &["-U"]);
    let code = |args: &[&str]| run(&[&["fsck"][..], args, &[&image]].concat()).status.code();
    assert_eq!(code(&["-F"]), Some(7), "clean");
    edit_superblock(&image, |sb| sb.f.clean = 0);
    let before = fs::read(&image).unwrap();
    assert_eq!(code(&["-F"]), Some(0), "it can wait");
    edit_superblock(&image, |sb| sb.set_flags(sb.flags() | FsFlags::NEEDSFSCK));
    assert_eq!(code(&["-F"]), Some(4), "in the foreground");
    edit_superblock(&image, |sb| sb.set_flags(FsFlags::empty()));
    assert_eq!(code(&["-F"]), Some(5), "no soft updates");
    edit_superblock(&image, |sb| sb.set_flags(FsFlags::DOSOFTDEP));
    assert_eq!(before.len(), fs::read(&image).unwrap().len());
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    assert_eq!(code(&["-F"]), Some(3), "no superblock");
}

/// Of several images the worst exit code counts, and each is checked; an unfinished newfs has its
/// own.
#[test]
fn several_images_end_in_the_worst_exit_code() {
    let d = Dir::new();
    let (good, _) = with_file(&d, "good.img", &[]);
    let (bad, ino) = with_file(&d, "bad.img", &[]);
    edit_inode(&bad, ino, |i| i.nlink = 5);
    let output = run(&["fsck", "-n", &bad, &good]);
    assert_eq!(output.status.code(), Some(16), "{}", text(&output));
    assert!(stdout(&output).contains("good.img (NO WRITE)"), "{}", text(&output));
    let file = fs::File::options().write(true).open(&good).unwrap();
    file.write_all_at(&0x1996_0408u32.to_le_bytes(), 65536 + 1372).unwrap();
    let output = run(&["fsck", "-n", &bad, &good]);
    assert_eq!(output.status.code(), Some(16), "{}", text(&output));
    assert_eq!(run(&["fsck", "-n", &good]).status.code(), Some(11));
}
