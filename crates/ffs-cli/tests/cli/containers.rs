//! Images that are not raw: in every command they are what a raw image is.

use crate::common::*;
use crate::disk::tool;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ffs_testkit::tools::have;
use rustix::process::{Pid, Signal, kill_process};

/// Makes a file system in `image`, fills it, changes it, and checks it.
fn use_image(d: &Dir, image: &str) {
    let content = pattern(300_000, 5);
    let file = d.file("file", &content);
    ok(&["newfs", "-U", "-L", "disk", image]);
    ok(&["mkdir", &format!("{image}:/dir")]);
    ok(&["cp", &file, &format!("{image}:/dir/a")]);
    ok(&["mv", &format!("{image}:/dir/a"), &format!("{image}:/dir/b")]);
    let back = run(&["cat", &format!("{image}:/dir/b")]).stdout;
    assert!(back == content, "{image}");
    fails(&["cat", &format!("{image}:/dir/a")], 1, "no such file");
    ok(&["fsck", "-n", "-f", image]);
    let info = ok(&["info", image]);
    assert!(info.contains("UFS2") && info.contains("label \"disk\""), "{info}");
    assert!(info.contains("clean") && info.contains("next: ffs ls"), "{info}");
    ok(&["tunefs", "-L", "other", image]);
    let json: serde_json::Value = json_lines(&ok(&["info", "--json", image]));
    assert_eq!(json[0]["content"]["label"], "other");
}

#[test]
fn info_shows_the_images_after_one_that_fails() {
    let d = Dir::new();
    let good = d.image("good.img", "16m", &[]);
    let output = run(&["info", &d.path("none.img").to_string_lossy(), &good]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("UFS2"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("none.img"), "{output:?}");
}

#[test]
fn containers_are_images_in_every_command() {
    if !have(&["qemu-img", "qemu-nbd"]) {
        return;
    }
    for format in ["qcow2", "vdi", "vpc", "vhdx", "vmdk"] {
        let d = Dir::new();
        let image = d.str("image");
        tool("qemu-img", &["create", "-q", "-f", format, &image, "24M"]);
        use_image(&d, &image);
        if format != "vpc" {
            tool("qemu-img", &["check", "-q", "-f", format, &image]);
        }
        // The bytes inside are those that a raw image would have.
        let raw = d.str("raw");
        tool("qemu-img", &["convert", "-f", format, "-O", "raw", &image, &raw]);
        fsck_clean(Path::new(&raw));
        assert!(ok(&["ls", &format!("{raw}:/dir")]).contains('b'));
    }
}

#[test]
fn a_qcow2_image_grows_with_its_file_system() {
    if !have(&["qemu-img"]) {
        return;
    }
    let d = Dir::new();
    let image = d.str("image");
    tool("qemu-img", &["create", "-q", "-f", "qcow2", &image, "24M"]);
    use_image(&d, &image);
    ok(&["growfs", "-s", "40m", &image]);
    assert!(ok(&["info", &image]).contains("qcow2 image, 40.0 MiB"));
    ok(&["fsck", "-n", "-f", &image]);
    tool("qemu-img", &["check", "-q", &image]);
}

/// A child that is ended with the value.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `ffs serve nbd`, and returns it with its URI.
fn serve(args: &[&str]) -> (Child, String) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args(["serve", "nbd"])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let uri = line.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(uri.starts_with("nbd"), "{line}");
    (Child(child), uri)
}

#[test]
fn an_export_is_an_image_in_every_command() {
    let d = Dir::new();
    let disk = d.file("disk", &vec![0; 24 << 20]);
    let socket = d.str("socket");
    let (mut server, uri) = serve(&["--write", "--unix", &socket, &format!("{disk}@0")]);
    use_image(&d, &uri);
    // The server has the lock of the image.
    fails(&["ls", &disk], 1, "is in use by");
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&server.0),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert!(server.0.wait().unwrap().success());
    assert!(!Path::new(&socket).exists());
    fsck_clean(Path::new(&disk));
    assert!(ok(&["ls", &format!("{disk}:/dir")]).contains('b'));
}

#[test]
fn a_snapshot_is_exported_to_be_read() {
    let d = Dir::new();
    let disk = d.file("disk", &vec![0; 24 << 20]);
    use_image(&d, &disk);
    ok(&["snapshot", "create", &format!("{disk}:/.snap/one")]);
    ok(&["rm", &format!("{disk}:/dir/b")]);
    let (_server, uri) = serve(&["--port", "0", &format!("{disk}:/.snap/one")]);
    assert!(ok(&["ls", &format!("{uri}:/dir")]).contains('b'));
    assert!(ok(&["ls", &format!("{uri}:#2")]).contains("dir"));
    assert!(ok(&["ls", &format!("{uri}:#2/dir")]).contains('b'));
    fails(&["rm", &format!("{uri}:/dir/b")], 1, "read-only");
    if have(&["qemu-img"]) {
        let copy = d.str("copy.qcow2");
        tool("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &copy]);
        assert!(ok(&["ls", &format!("{copy}:/dir")]).contains('b'));
    }
}

/// As the guide does it: a server that has the key.
#[test]
fn an_encrypted_image_is_read_from_a_server_that_has_the_key() {
    if !have(&["qemu-img", "qemu-nbd"]) {
        return;
    }
    let d = Dir::new();
    let (image, socket) = (d.str("disk.qcow2"), d.str("socket"));
    let key = format!("secret,id=key,file={}", d.file("key", b"a key"));
    let format = "encrypt.format=luks,encrypt.key-secret=key";
    let create = ["create", "-q", "--object", &key, "-f", "qcow2", "-o", format, &image, "24M"];
    tool("qemu-img", &create);
    fails(&["info", &image], 1, "it is encrypted: start `qemu-nbd -k SOCKET --object");
    let options = format!("driver=qcow2,encrypt.key-secret=key,file.filename={image}");
    // It serves one command after the other until it is killed. With `--fork` it listens when the
    // first process has ended.
    let pid = d.str("pid");
    let mut serve = Command::new("qemu-nbd");
    serve.args(["--fork", "--persistent", "--pid-file", &pid, "-k", &socket, "--object", &key]);
    serve.args(["--image-opts", &options]).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(serve.stderr(Stdio::null()).status().unwrap().success(), "{serve:?}");
    let uri = format!("nbd+unix:///?socket={socket}");
    let (made, shown) = (run(&["newfs", &uri]), run(&["info", &uri]));
    let server = fs::read_to_string(&pid).unwrap().trim().parse().ok().and_then(Pid::from_raw);
    kill_process(server.unwrap(), Signal::TERM).unwrap();
    assert!(made.status.success(), "{}", text(&made));
    assert!(text(&shown).contains("UFS2"), "{}", text(&shown));
}

#[test]
fn a_relative_socket_has_an_absolute_address() {
    let d = Dir::new();
    let disk = d.file("disk", &vec![0; 24 << 20]);
    use_image(&d, &disk);
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args(["serve", "nbd", &disk, "--unix", "a socket"])
        .current_dir(&d.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _server = Child(child);
    let uri = line.trim().rsplit(' ').next().unwrap();
    let dir = d.0.path().canonicalize().unwrap();
    assert_eq!(uri, format!("nbd+unix:///?socket={}/a%20socket", dir.display()));
    assert!(ok(&["ls", &format!("{uri}:/dir")]).contains('b'));
}

#[test]
fn addresses_that_cannot_be_served_have_a_hint() {
    let d = Dir::new();
    let disk = d.file("disk", &vec![0; 24 << 20]);
    use_image(&d, &disk);
    let bind = |address: &str, code, words: &str| {
        fails(&["serve", "nbd", &disk, "--bind", address], code, words)
    };
    bind("127.0.0.1:10810", 64, "--bind 127.0.0.1 --port 10810");
    bind("[::1]:99", 64, "--bind ::1 --port 99");
    bind("192.0.2.1", 1, "--bind is an address of this host");
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = used.local_addr().unwrap().port().to_string();
    fails(&["serve", "nbd", &disk, "--port", &port], 1, "choose another --port");
    let socket = d.str("none/socket");
    fails(&["serve", "nbd", &disk, "--unix", &socket], 1, "make the directory");
    let socket = d.file("socket", b"");
    fails(&["serve", "nbd", &disk, "--unix", &socket], 1, "remove an old socket");
    let two = d.str("two.img");
    ok(&["disk", "create", "--size", "64m", &two]);
    let text = fails(&["serve", "nbd", &two, "--port", "0"], 1, "");
    assert!(text.contains(&format!("{two}@0")), "{text}");
}

#[test]
fn a_temporary_folder_that_cannot_be_used_is_named() {
    if !have(&["gzip"]) {
        return;
    }
    let d = Dir::new();
    let disk = d.file("disk", &vec![0; 24 << 20]);
    use_image(&d, &disk);
    tool("gzip", &["-1", &disk]);
    let none = d.str("none");
    let output = ffs().args(["ls", &format!("{disk}.gz")]).env("TMPDIR", &none).output().unwrap();
    let words = text(&output);
    assert!(!output.status.success() && words.contains(&none), "{words}");
    assert!(words.contains("set TMPDIR to a directory with space"), "{words}");
}

#[test]
fn compressed_images_are_read_and_not_written() {
    if !have(&["xz"]) {
        return;
    }
    let d = Dir::new();
    let disk = d.file("disk", &vec![0; 24 << 20]);
    use_image(&d, &disk);
    tool("xz", &["-0", "--block-size=1MiB", &disk]);
    let packed = format!("{disk}.xz");
    assert!(ok(&["ls", &format!("{packed}:/dir")]).contains('b'));
    ok(&["fsck", "-n", "-f", &packed]);
    fails(&["rm", &format!("{packed}:/dir/b")], 1, "xz -dc");
    assert!(ok(&["info", &packed]).contains("xz image, 24.0 MiB"));
}

/// Processes that have the text in their command line.
fn processes_with(text: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).ok();
    let has = |line: &Vec<u8>| line.windows(text.len()).any(|part| part == text.as_bytes());
    all.filter_map(line).filter(has).count()
}

#[test]
fn qemu_nbd_ends_with_the_command_that_started_it() {
    if !have(&["qemu-img", "qemu-nbd"]) {
        return;
    }
    let d = Dir::new();
    let image = d.str("served.vhdx");
    tool("qemu-img", &["create", "-q", "-f", "vhdx", &image, "24M"]);
    ok(&["newfs", &image]);
    assert_eq!(processes_with("served.vhdx"), 0, "after a command");
    // Killed as soon as there are two processes: at some moment between start and first request.
    for _ in 0..8 {
        let mut child = Child(
            Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
                .args(["fsck", "-n", "-f", &image])
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        );
        while processes_with("served.vhdx") < 2 {
            assert!(child.0.try_wait().unwrap().is_none(), "it ended too early");
        }
        drop(child);
        let start = Instant::now();
        while processes_with("served.vhdx") > 0 {
            assert!(start.elapsed() < HANGS, "a process has not ended");
            std::thread::yield_now();
        }
    }
}

#[test]
fn without_qemu_nbd_the_message_names_the_package() {
    if !have(&["qemu-img"]) {
        return;
    }
    let d = Dir::new();
    let image = d.str("image");
    tool("qemu-img", &["create", "-q", "-f", "vhdx", &image, "24M"]);
    let output = ffs().args(["ls", &image]).env("PATH", "").output().unwrap();
    let words = text(&output);
    assert!(words.contains("qemu-nbd reads it, and is not installed"), "{words}");
    assert!(words.contains("qemu-utils") && words.contains("qemu-img convert"), "{words}");
}

#[test]
fn info_names_what_is_no_ufs_with_the_next_step() {
    let d = Dir::new();
    let signs: [(&str, usize, &[u8], &str); 9] = [
        ("luks", 0, b"LUKS\xba\xbe", "cryptsetup open"),
        ("geli", (1 << 20) - 512, b"GEOM::ELI", "geli attach"),
        ("tar", 257, b"ustar", "ffs build NEW.img"),
        ("ext", 1080, b"\x53\xef", "tools of its system"),
        ("lzma", 0, b"\x5d\0\0\0\x80\xff\xff\xff\xff\xff\xff\xff\xff", "xz -dk --format=lzma"),
        ("lz", 0, b"LZIP\x01", "lzip -dk"),
        ("Z", 0, b"\x1f\x9d\x90", "gzip -dc"),
        ("qed", 0, b"QED\0", "qemu-img convert -O qcow2"),
        ("parallels", 0, b"WithouFreSpacExt", "qemu-img convert -O qcow2"),
    ];
    for (name, at, sign, words) in signs {
        let mut bytes = vec![0; 1 << 20];
        bytes[at..at + sign.len()].copy_from_slice(sign);
        let image = d.file(name, &bytes);
        let info = ok(&["info", &image]);
        assert!(info.contains(words), "{info}");
        fails(&["ls", &image], 1, words);
    }
}
