//! `ffs debug`, `ffs undelete`, and files that are named by their inode number.

use crate::common::{Dir, fails, json_lines, ok, run, text};
use std::fs;
use std::process::Command;

/// The objects of `--json` lines.
fn lines(args: &[&str]) -> Vec<serde_json::Value> {
    let text = ok(args);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &serde_json::Value, field: &str) -> usize {
    let number = value[field].as_u64().unwrap_or_else(|| panic!("{field} of {value}"));
    usize::try_from(number).unwrap()
}

/// An image with a large file and some small ones in `/t`; the bytes of the large one.
fn image(d: &Dir, options: &[&str]) -> (String, Vec<u8>) {
    let image = d.image("a.img", "24m", options);
    fs::create_dir(d.path("t")).unwrap();
    let bytes: Vec<u8> = (0..1_500_000_u32).map(|n| (n / 512 * 7 + n % 251) as u8).collect();
    d.file("t/big", &bytes);
    for name in ["one", "two", "three", "four"] {
        d.file(&format!("t/{name}"), name.repeat(400).as_bytes());
    }
    ok(&["cp", "-a", &d.str("t"), &format!("{image}:/")]);
    (image, bytes)
}

fn fragment_size(image: &str) -> usize {
    let dump: serde_json::Value =
        serde_json::from_str(&ok(&["dumpfs", "-s", "--json", image])).unwrap();
    number(&dump["superblock"]["fields"], "fsize")
}

#[test]
fn the_blocks_that_are_shown_hold_the_content_and_belong_to_the_file() {
    for options in [&["-O", "1", "-b", "8192", "-f", "1024"][..], &["-O", "2"]] {
        let d = Dir::new();
        let (image, bytes) = image(&d, options);
        let (path, raw) = (format!("{image}:/t/big"), fs::read(&image).unwrap());
        let (fsize, inode) = (fragment_size(&image), lines(&["debug", "inode", "--json", &path]));
        let ino = number(&inode[0], "inode");
        assert_eq!(number(&inode[0], "size"), bytes.len());
        let dump: serde_json::Value =
            serde_json::from_str(&ok(&["dumpfs", "-s", "--json", &image])).unwrap();
        let bsize = number(&dump["superblock"]["fields"], "bsize");
        let (mut owners, mut seen, mut indirect) = (vec!["debug", "owner", "--json"], 0, 0);
        let runs = lines(&["debug", "blocks", "--json", &path]);
        owners.push(&image);
        let mut words = Vec::new();
        for run in &runs {
            let (at, frags) = (number(run, "fragment"), number(run, "fragments"));
            words.push((at + frags - 1).to_string());
            if run["kind"] == "indirect" {
                indirect += 1;
                continue;
            }
            let start = number(run, "first_block") * bsize;
            let end = (start + frags * fsize).min(bytes.len());
            let on_disk = &raw[at * fsize..at * fsize + (end - start)];
            assert!(on_disk == &bytes[start..end], "block {start}");
            seen += end - start;
        }
        assert_eq!((seen, indirect), (bytes.len(), 1));
        owners.extend(words.iter().map(String::as_str));
        for found in lines(&owners) {
            assert_eq!(found["free"], false, "{found}");
            assert_eq!(number(&found["owners"][0], "inode"), ino, "{found}");
        }
        // The same file by its number, for each command that reads.
        let by_number = format!("{image}:#{ino}");
        let cat = run(&["cat", &by_number]);
        assert!(cat.stdout == bytes, "cat by number");
        ok(&["cp", &by_number, &d.str("copy")]);
        assert!(fs::read(d.path("copy")).unwrap() == bytes);
        let stat: serde_json::Value = json_lines(&ok(&["stat", "--json", &by_number]));
        assert_eq!(number(&stat[0], "inode"), ino);
        let dir = lines(&["debug", "inode", "--json", &format!("{image}:/t")]);
        let dir = number(&dir[0], "inode");
        let below = format!("{image}:#{dir}/two");
        assert_eq!(ok(&["cat", &below]), "two".repeat(400));
        assert!(ok(&["ls", &format!("{image}:#{dir}")]).contains("three"));
    }
}

#[test]
fn a_number_names_a_file_and_no_name() {
    let d = Dir::new();
    let (image, _) = image(&d, &[]);
    let ino = number(&lines(&["debug", "inode", "--json", &format!("{image}:/t/one")])[0], "inode");
    fails(&["rm", &format!("{image}:#{ino}")], 1, "a number names a file");
    fails(&["cat", &format!("{image}:#9")], 1, "no such file");
    fails(&["cat", &format!("{image}:#x")], 1, "inode number is expected");
    fails(&["debug", "inode", &format!("{image}:#99999999")], 1, "inode number");
    fails(&["debug", "dir", &format!("{image}:/t/one")], 1, "is not a directory");
    fails(&["debug", "owner", &image, "99999999"], 1, "fragments");
    fails(&["undelete", &image, "9"], 64, "-d");
    assert_eq!(ok(&["cat", &format!("{image}:/t/one")]), "one".repeat(400), "it is still there");
}

/// Removes a name of `/t` as BSD does: the record before takes its bytes.
fn remove_as_bsd(image: &str, name: &str) {
    let fsize = fragment_size(image);
    let records = lines(&["debug", "dir", "--json", &format!("{image}:/t")]);
    let at = records.iter().position(|record| record["name"] == name).unwrap();
    let (before, removed) = (&records[at - 1], &records[at]);
    let merged = number(before, "reclen") + number(removed, "reclen");
    let byte = number(before, "fragment") * fsize + number(before, "offset") + 4;
    let mut bytes = fs::read(image).unwrap();
    bytes[byte..byte + 2].copy_from_slice(&u16::try_from(merged).unwrap().to_le_bytes());
    fs::write(image, bytes).unwrap();
}

#[test]
fn a_removed_name_is_listed_and_a_file_without_a_name_is_recovered() {
    let d = Dir::new();
    let (image, bytes) = image(&d, &["-O", "1"]);
    let of = |name: &str| {
        let found = lines(&["debug", "inode", "--json", &format!("{image}:/t/{name}")]);
        (number(&found[0], "inode"), number(&found[0], "byte"))
    };
    let ((big, byte), (two, two_byte)) = (of("big"), of("two"));
    assert!(ok(&["undelete", &image]).contains("no removed file can be recovered; 0 removed"));
    remove_as_bsd(&image, "two");
    remove_as_bsd(&image, "big");
    let mut raw = fs::read(&image).unwrap();
    // Removed while it was open: no link. And removed as usual: cleared, here only by the map.
    raw[byte + 2..byte + 4].fill(0);
    raw[two_byte..two_byte + 128].fill(0);
    fs::write(&image, raw).unwrap();

    let list = lines(&["undelete", "--json", &image]);
    let names: Vec<_> = list.iter().filter(|line| line["event"] == "name").collect();
    let states: Vec<_> = names.iter().map(|n| (n["name"].as_str().unwrap(), &n["state"])).collect();
    assert_eq!(states, [("big", &"unlinked".into()), ("two", &"in-use".into())]);
    let inodes: Vec<_> = list.iter().filter(|line| line["event"] == "inode").collect();
    assert_eq!((inodes.len(), number(inodes[0], "inode")), (1, big));
    assert!(ok(&["debug", "dir", &format!("{image}:/t")]).contains("removed"));

    let (before, found) = (fs::read(&image).unwrap(), d.str("found"));
    assert!(
        ok(&["undelete", "-d", &found, &image]).contains(&format!("1500000 bytes of inode {big}"))
    );
    let recovered = d.path(&format!("found/inode-{big}"));
    assert!(fs::read(&recovered).unwrap() == bytes);
    fails(&["undelete", "-d", &found, &image], 1, "exists");
    let why = "the inode is cleared";
    fails(&["undelete", "-d", &found, &image, &two.to_string()], 1, why);
    fails(&["undelete", "-d", &found, &image, "2"], 1, "is not removed");
    assert!(fs::read(&image).unwrap() == before, "nothing on the image changes");
    let body = ok(&["debug", "body", "-m", "disk", &image]);
    assert!(body.contains(&format!("|disk/t/big (deleted)|{big}|r/rrw-r--r--|")), "{body}");
}

/// Inode numbers and names, sorted.
type Names = Vec<(usize, String)>;

/// The removed names that The Sleuth Kit finds, if it is installed.
fn names_of_fls(image: &str) -> Option<Names> {
    let fls = Command::new("fls").args(["-f", "ufs", "-r", "-d", image]).output().ok()?;
    let text = String::from_utf8_lossy(&fls.stdout).into_owned();
    let name = |line: &str| {
        let (number, path) = line.split_once("* ")?.1.split_once(":\t")?;
        let number = number.split('(').next()?.parse().ok()?;
        Some((number, path.rsplit('/').next()?.to_owned()))
    };
    let mut names: Names = text.lines().filter_map(name).collect();
    names.retain(|(_, name)| !name.starts_with("OrphanFile"));
    names.sort();
    Some(names)
}

#[test]
fn the_names_that_a_bsd_system_removed_are_found() {
    let d = Dir::new();
    for (fixture, count) in [("nb-ufs1-8k1k-be", 236), ("nb-ufs2-snap", 3), ("nb-ufs2-crash", 1)] {
        let Some(image) = d.fixture(fixture) else { return eprintln!("skipped: no {fixture}") };
        let list = lines(&["undelete", "--json", &image]);
        let names = list.iter().filter(|line| line["event"] == "name");
        let name = |line: &serde_json::Value| {
            (number(line, "inode"), line["name"].as_str().unwrap().to_owned())
        };
        let mut names: Names = names.map(name).collect();
        names.sort();
        assert_eq!(names.len(), count, "{fixture}");
        match names_of_fls(&image) {
            Some(theirs) => assert_eq!(names, theirs, "{fixture}"),
            None => eprintln!("not compared: The Sleuth Kit is not installed"),
        }
    }
}

#[test]
fn the_sleuth_kit_lists_the_same_files_and_blocks() {
    let d = Dir::new();
    let (image, _) = image(&d, &["-O", "2"]);
    let Ok(fls) = Command::new("fls").args(["-f", "ufs2", "-r", "-m", "/", &image]).output() else {
        eprintln!("skipped: The Sleuth Kit is not installed");
        return;
    };
    assert!(fls.status.success(), "{}", text(&fls));
    // Without the time of birth, which it does not read, and its own directory of orphans.
    let without_birth = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| !line.contains("$OrphanFiles") && !line.starts_with("0|/|"))
            .map(|line| line.rsplit_once('|').map_or(line, |(rest, _)| rest).to_owned())
            .collect();
        lines.sort();
        lines
    };
    let ours = ok(&["debug", "body", &image]);
    assert_eq!(without_birth(&ours), without_birth(&String::from_utf8_lossy(&fls.stdout)));
    let path = format!("{image}:/t/big");
    let ino = number(&lines(&["debug", "inode", "--json", &path])[0], "inode").to_string();
    let istat = Command::new("istat").args(["-f", "ufs2", &image, &ino]).output().unwrap();
    let istat = String::from_utf8_lossy(&istat.stdout).into_owned();
    let listed = istat.split("Direct Blocks:").nth(1).unwrap();
    let listed = listed.split("Indirect Blocks:").next().unwrap();
    let theirs: Vec<usize> = listed.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let runs = lines(&["debug", "blocks", "--json", &path]);
    let data = runs.iter().filter(|run| run["kind"] == "data");
    let range = |run| number(run, "fragment")..number(run, "fragment") + number(run, "fragments");
    // It stops at the size; the last block of a file with an indirect one is whole.
    let ours: Vec<usize> = data.flat_map(range).take(theirs.len()).collect();
    assert_eq!(theirs, ours);
}

#[test]
fn damage_is_shown_and_does_not_end_the_inspection() {
    let d = Dir::new();
    let (image, _) = image(&d, &["-O", "1"]);
    let path = format!("{image}:/t/big");
    let inode = lines(&["debug", "inode", "--json", &path]);
    let (byte, mut raw) = (number(&inode[0], "byte"), fs::read(&image).unwrap());
    // The second and the third direct pointer of UFS1.
    raw[byte + 44..byte + 52].fill(0xff);
    let fsize = fragment_size(&image);
    let dump: serde_json::Value =
        serde_json::from_str(&ok(&["dumpfs", "-s", "--json", &image])).unwrap();
    let (fields, group) = (&dump["superblock"]["fields"], number(&inode[0], "inode"));
    let group = group / number(fields, "ipg");
    let maps = group * number(fields, "fpg") + number(fields, "cblkno");
    // The magic number of the group with the file.
    raw[maps * fsize + 4..maps * fsize + 8].fill(0);
    fs::write(&image, raw).unwrap();
    let shown = run(&["debug", "blocks", &path]);
    assert!(shown.status.success(), "{}", text(&shown));
    assert!(text(&shown).contains("outside the volume"), "{}", text(&shown));
    for args in [&["undelete", &image][..], &["debug", "body", &image], &["debug", "inode", &path]]
    {
        let done = run(args);
        assert!(done.status.success(), "{args:?}: {}", text(&done));
        assert!(text(&done).contains("cylinder group"), "{args:?}: {}", text(&done));
    }
}

#[test]
fn a_long_link_and_a_snapshot_are_shown_as_they_are() {
    let d = Dir::new();
    let (image, _) = image(&d, &["-O", "1"]);
    let target = "directory/".repeat(20);
    ok(&["ln", "-s", &target, &format!("{image}:/link")]);
    assert!(ok(&["debug", "body", &image]).contains(&format!("/link -> {target}|")));
    let Some(image) = d.fixture("nb-ufs2-snap") else { return eprintln!("skipped: no fixture") };
    let snapshot = format!("{image}:/.snap/s1");
    assert_ne!(ok(&["debug", "body", &snapshot]), ok(&["debug", "body", &image]));
    let by_number = ok(&["debug", "inode", &format!("{snapshot}:#2")]);
    assert!(by_number.contains("directory"), "{by_number}");
    assert_eq!(ok(&["debug", "inode", &format!("{snapshot}:/")]), by_number);
    assert!(ok(&["debug", "dir", &format!("{snapshot}:/")]).contains(".."));
    fails(&["debug", "body", &format!("{image}:/no")], 1, "no such file");
    // The marks in the pointers of snapshots are not fragments.
    let owners = ok(&["debug", "owner", &image, "1", "2"]);
    assert!(owners.lines().all(|line| !line.contains("inode")), "{owners}");
}
