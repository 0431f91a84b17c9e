//! `ffs build --mtree`: owners, modes and flags from a specification, as an installation without
//! root writes it.

use crate::common::{Dir, fails, fsck_clean, json_lines, ok, run, text};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A tree as a user has installed it, and the METALOG that goes with it.
fn installed(d: &Dir) -> String {
    let script = "
        umask 077; mkdir -p dest/etc dest/bin dest/usr/lib dest/tmp dest/var/empty dest/obj/x
        printf 'root:*:0:0::0:0:\\nman:*:9:9::0:0:\\n' > dest/etc/master.passwd
        printf 'wheel:*:0:root\\noperator:*:5:root\\n' > dest/etc/group
        echo cat > dest/bin/cat; ln dest/bin/cat dest/bin/dog; echo lib > dest/usr/lib/libc.so.7
        ln -s libc.so.7 dest/usr/lib/libc.so; echo o > dest/obj/x/o; echo s > dest/stray
        echo 'a b' > 'dest/etc/a b'; [ $(id -u) != 0 ] || chown -R 1234:1234 dest
        chmod 4700 dest/bin/dog; touch -hd @1500000000 dest/*/* dest/* dest";
    let mut shell = Command::new("sh");
    assert!(shell.args(["-ec", script]).current_dir(d.0.path()).status().unwrap().success());
    let metalog = "#mtree 2.0
. type=dir uname=root gname=wheel mode=0755
./etc type=dir uname=root gname=wheel mode=0755
./etc/master.passwd type=file uname=root gname=wheel mode=0600 size=1 sha256=00
./etc/group type=file uname=root gname=wheel mode=0644
./etc/a\\040b type=file uname=man gname=operator mode=0640 time=1000000000.500000000
./bin type=dir uname=root gname=wheel mode=0755
./bin/cat type=file uname=root gname=wheel mode=0444
./bin/cat type=file uname=root gname=operator mode=4555 flags=schg
./bin/dog type=file mode=0555
./tmp type=dir mode=1777 uname=root gname=wheel tags=package=runtime
./usr/lib/libc.so.7 type=file uid=7 gid=8 mode=0444
./usr/lib/libc.so type=link uname=root gname=wheel mode=0755 link=libc.so.7
./var/empty type=dir mode=0555 uname=root gname=wheel flags=schg
./var/absent type=file optional
";
    d.file("METALOG", metalog.as_bytes())
}

fn build(d: &Dir, image: &str, metalog: &str, options: &[&str]) -> String {
    let dest = d.str("dest");
    let output = run(&[&["build", "--force", "--mtree", metalog, image, &dest], options].concat());
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn owners_and_modes_are_those_of_the_specification() {
    let d = Dir::new();
    let metalog = installed(&d);
    for format in ["1", "2"] {
        let image = d.str("root.img");
        let words = build(&d, &image, &metalog, &["-O", format]);
        assert!(words.contains("2 files are not in the specification"), "{words}");
        fsck_clean(Path::new(&image));
        let stat = |path: &str| {
            let shown = ok(&["stat", "--json", &format!("{image}:{path}")]);
            let value: serde_json::Value = json_lines(&shown);
            let get = |key: &str| value[0][key].to_string().replace('"', "");
            format!("{}:{} {} {}", get("uid"), get("gid"), get("mode"), get("flags"))
        };
        for (path, wanted) in [
            ("/", "0:0 0755 -"),
            ("/etc/master.passwd", "0:0 0600 -"),
            ("/etc/a b", "9:5 0640 -"),
            ("/bin/cat", "0:5 4555 schg"),
            ("/bin/dog", "0:5 4555 schg"),
            ("/tmp", "0:0 1777 -"),
            // It only leads to files that are listed.
            ("/usr", "0:0 0755 -"),
            ("/usr/lib/libc.so.7", "7:8 0444 -"),
            ("/var/empty", "0:0 0555 schg"),
        ] {
            assert_eq!(stat(path), wanted, "{path}");
        }
        let listed = ok(&["find", &format!("{image}:/")]);
        assert!(!listed.contains("stray") && !listed.contains("obj"), "{listed}");
        assert_eq!(ok(&["cat", &format!("{image}:/usr/lib/libc.so.7")]), "lib\n");
        let long = ok(&["ls", "-l", &format!("{image}:/usr/lib")]);
        assert!(long.contains("libc.so -> libc.so.7"), "{long}");
        // The builder's own owner and times leave no trace.
        let first = fs::read(&image).unwrap();
        let mut shell = Command::new("sh");
        let change = "[ $(id -u) != 0 ] || chown -R 77:77 dest; chmod -R u+w dest";
        shell.args(["-ec", change]).current_dir(d.0.path());
        assert!(shell.status().unwrap().success());
        build(&d, &image, &metalog, &["-O", format]);
        assert!(fs::read(&image).unwrap() == first, "the same bytes for another builder");
    }
}

#[test]
fn what_does_not_fit_leaves_no_image() {
    let d = Dir::new();
    let metalog = installed(&d);
    let whole = fs::read_to_string(&metalog).unwrap();
    let (image, dest, pipe) = (d.str("new.img"), d.str("dest"), d.str("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (line, words) in [
        ("./missing type=file mode=0644", "the tree has no missing, which line 16"),
        ("./missing type=char mode=0644", "without device="),
        ("./missing type=dir", "without mode="),
        ("./missing type=link", "without link="),
        ("./missing mode=0644", "without type="),
        ("./missing type=file contents=none mode=0644", "contents=none"),
        ("./missing type=file contents=PIPE mode=0644", "is not a regular file"),
        ("./bin/cat/below type=dir mode=0755", "bin/cat"),
        ("./bin/cat type=dir", "another type than line 16"),
        ("./usr/lib/libc.so type=link link=other", "another target than line 16"),
        ("./bin/dog uid=0 mode=0555", "lines 9 and 16 give names of one file different attributes"),
        ("./bin/cat uname=alice", "uname=alice: the number of this name is not known"),
        ("./../cat uid=1", "contains '..'"),
    ] {
        let line = line.replace("PIPE", &pipe);
        fs::write(&metalog, format!("{whole}{line}\n")).unwrap();
        fails(&["build", "--mtree", &metalog, &image, &dest], 1, words);
        fails(&["build", "--size", "16m", "--mtree", &metalog, &image, &dest], 1, words);
        assert!(!Path::new(&image).exists(), "{line}");
    }
    fs::write(&metalog, &whole).unwrap();
    fails(&["build", "--mtree", &d.str("none"), &image, &dest], 1, "none");
    fails(&["build", "--mtree", &metalog, "--owner", "0:0", &image, &dest], 64, "--owner");
    fs::create_dir(d.path("db")).unwrap();
    let users = d.str("db");
    fails(&["build", "--mtree", &metalog, "--users", &users, &image, &dest], 1, "uname=root");
}

#[test]
fn a_file_is_there_under_its_listed_names_alone() {
    let d = Dir::new();
    installed(&d);
    let image = d.str("root.img");
    let script = "ln dest/bin/dog dest/bin/eel; ln dest/bin/dog dest/bin/ant";
    let mut shell = Command::new("sh");
    assert!(shell.args(["-ec", script]).current_dir(d.0.path()).status().unwrap().success());
    let metalog = d.file("part", b"./bin/dog uid=5 mode=4711\n./bin/eel mode=0555\n");
    build(&d, &image, &metalog, &[]);
    fsck_clean(Path::new(&image));
    let names = ok(&["ls", &format!("{image}:/bin")]);
    assert_eq!(names.split_whitespace().collect::<Vec<&str>>(), ["dog", "eel"]);
    assert_eq!(ok(&["cat", &format!("{image}:/bin/eel")]), "cat\n");
    let shown = ok(&["stat", "--json", &format!("{image}:/bin/eel")]);
    let value: serde_json::Value = json_lines(&shown);
    assert_eq!(
        (&value[0]["mode"], &value[0]["uid"], &value[0]["nlink"]),
        (&"4711".into(), &5.into(), &2.into())
    );
}

/// What mtree(8) makes of a specification that has files which the tree lacks.
#[test]
fn what_the_tree_lacks_is_created_from_its_line() {
    let d = Dir::new();
    fs::create_dir_all(d.path("dest/etc")).unwrap();
    d.file("dest/etc/motd", b"welcome\n");
    let content =
        d.file("content", &[b"x".repeat(70_000), vec![0; 200_000], b"y".to_vec()].concat());
    let spec = format!(
        "#mtree\n/set uid=0 gid=0 mode=0755 time=1500000000.0\n. type=dir\n./etc type=dir\n\
         ./etc/motd type=file mode=0644 contents={content}\n\
         ./etc/new type=file mode=4711 uid=7 gid=8 flags=uchg contents={content}\n\
         ./dev type=dir mode=0555\n./dev/null type=char mode=0666 device=native,1,3\n\
         ./dev/zero type=char mode=0666 device=freebsd,0x1,05\n\
         ./dev/da0 type=block mode=0640 gid=5 device=0xfe01\n\
         ./var/run/log type=fifo mode=0600\n./var/run/s\\040k type=socket mode=0600\n\
         ./bin type=link link=usr/bin\n./opt type=dir optional\n./opt/x type=fifo optional\n"
    );
    let metalog = d.file("METALOG", spec.as_bytes());
    for (format, options) in [("1", &[][..]), ("2", &["--size", "16m"])] {
        let image = d.str("root.img");
        build(&d, &image, &metalog, &[&["-O", format], options].concat());
        fsck_clean(Path::new(&image));
        let shown = ok(&["find", "--json", &format!("{image}:/")]);
        let mut found: Vec<String> = Vec::new();
        for line in shown.lines() {
            let file: serde_json::Value = serde_json::from_str(line).unwrap();
            let get = |key: &str| file[key].to_string().replace('"', "");
            let (path, kind, mode) = (&file["path"]["name"], get("type"), get("mode"));
            let owner = format!("{}:{}", get("uid"), get("gid"));
            let (device, target) = (&file["device"], &file["target"]["name"]);
            let rest = if device.is_null() { target } else { device };
            found.push(format!("{path} {kind} {mode} {owner} {rest}").replace('"', ""));
        }
        found.sort();
        let wanted = [
            "/ directory 0755 0:0 null",
            "/bin symlink 0755 0:0 usr/bin",
            "/dev directory 0555 0:0 null",
            "/dev/da0 block 0640 0:5 [254,1]",
            "/dev/null char 0666 0:0 [1,3]",
            "/dev/zero char 0666 0:0 [1,5]",
            "/etc directory 0755 0:0 null",
            "/etc/motd regular 0644 0:0 null",
            "/etc/new regular 4711 7:8 null",
            "/var directory 0755 0:0 null",
            "/var/run directory 0755 0:0 null",
            "/var/run/log fifo 0600 0:0 null",
            "/var/run/s k socket 0600 0:0 null",
        ];
        let kinds =
            |text: &str| text.replace(" dir ", " directory ").replace(" file ", " regular ");
        let found: Vec<String> = found.iter().map(|line| kinds(line)).collect();
        let found: Vec<&String> = found.iter().filter(|line| !line.contains(".snap")).collect();
        assert_eq!(found, wanted);
        for file in ["motd", "new"] {
            let read = run(&["cat", &format!("{image}:/etc/{file}")]).stdout;
            assert!(read == fs::read(&content).unwrap(), "{file}");
        }
        let time = ok(&["stat", "--json", &format!("{image}:/dev/null")]);
        let time: serde_json::Value = json_lines(&time);
        assert_eq!(time[0]["mtime"]["seconds"], 1_500_000_000);
    }
}

/// mtree(8) of NetBSD examines a copy of the image with the specification that made it.
#[test]
fn mtree_finds_what_its_specification_has() {
    let installed = Command::new("mtree").arg("-h").output().is_ok();
    if !installed || !crate::common::is_root() {
        return println!("skipped: needs mtree(8) and root, who makes devices");
    }
    let d = Dir::new();
    fs::create_dir_all(d.path("dest")).unwrap();
    let spec = "#mtree\n/set uid=0 gid=0 mode=0755\n. type=dir\n    a type=dir mode=0711\n        \
                null type=char mode=0666 device=0x103\n        disk type=block mode=0640 gid=5 \
                device=0x801\n        pipe type=fifo mode=0600 uid=3\n        l type=link \
                mode=0777 link=pipe\n    ..\n..\n";
    let metalog = d.file("METALOG", spec.as_bytes());
    let (image, copy) = (d.str("root.img"), d.str("copy"));
    build(&d, &image, &metalog, &[]);
    ok(&["cp", "-a", "--exclude", ".snap", &format!("{image}:/."), &copy]);
    let judged = Command::new("mtree").args(["-f", &metalog, "-p", &copy]).output().unwrap();
    assert!(judged.status.success() && judged.stdout.is_empty(), "{}", text(&judged));
}
