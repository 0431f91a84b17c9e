//! `--log`, `RUST_LOG` and `mount -o debug`.

use crate::common::{Dir, fails, ffs, is_root, ok, run, text};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn stderr(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn nothing_is_logged_without_a_filter() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    assert_eq!(stderr(&run(&["ls", "-l", &image])), "");
    assert_eq!(stderr(&run(&["fsck", "-n", &image])), "");
}

#[test]
fn a_filter_selects_levels_and_targets() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let mounting = "INFO ffs::mount: mounting format=Ufs2";
    for args in [["--log", "info", "ls", &image], ["ls", "--log", "ffs::mount=info", &image]] {
        let log = stderr(&run(&args));
        assert!(log.contains(mounting), "{args:?}: {log}");
        assert!(!log.contains("TRACE"), "{log}");
    }
    let log = stderr(&run(&["--log", "ffs::buf=trace", "ls", &image]));
    assert!(log.contains("TRACE ffs::buf: read key=") && !log.contains("ffs::mount"), "{log}");
    let log = stderr(&run(&["--log=ffs::fsck=debug", "fsck", "-n", &image]));
    assert!(log.contains("DEBUG ffs::fsck: phase phase="), "{log}");
}

#[test]
fn the_environment_is_the_default() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let with = |filter: &str, args: &[&str]| {
        stderr(&ffs().env("RUST_LOG", filter).args(args).output().unwrap())
    };
    assert!(with("ffs::mount=info", &["ls", &image]).contains("INFO ffs::mount"));
    assert_eq!(with("ffs::mount=info", &["--log", "off", "ls", &image]), "");
    assert_eq!(with("", &["ls", &image]), "");
    let log = with("ffs::mount=loud", &["ls", &image]);
    assert!(log.starts_with("ffs ls: warning: RUST_LOG: ") && log.lines().count() == 1, "{log}");
}

#[test]
fn a_wrong_filter_is_a_wrong_command_line() {
    fails(&["--log", "ffs::mount=loud", "ls", "a.img"], 64, "--log: ");
    fails(&["rm", "--log", "ffs::mount=loud", "a.img:/b"], 64, "--log: ");
}

/// A mount in the foreground; `None` where nothing can be mounted.
struct Server {
    process: Option<Child>,
    dir: String,
    log: String,
}

impl Server {
    fn start(d: &Dir, image: &str, options: &[&str]) -> Option<Server> {
        if !is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let (dir, log) = (d.str("mnt"), d.str("log"));
        fs::create_dir(&dir).unwrap();
        let before = fs::metadata(&dir).map(|m| device(&m)).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_ffs"))
            .env_remove("RUST_LOG")
            .arg("mount")
            .args(options)
            .args([image, &dir])
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while fs::metadata(&dir).map(|m| device(&m)).unwrap_or(before) == before {
            if process.try_wait().unwrap().is_some() || start.elapsed() > Duration::from_secs(30) {
                println!("skipped: cannot mount: {}", fs::read_to_string(&log).unwrap());
                let _ = process.kill();
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Server { process: Some(process), dir, log })
    }

    /// Unmounts; what the server has logged.
    fn end(mut self) -> String {
        ok(&["umount", &self.dir]);
        assert!(self.process.take().unwrap().wait().unwrap().success());
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = run(&["umount", "-l", &self.dir]);
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn device(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::dev(meta)
}

#[test]
fn requests_are_traced_with_debug() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    // Without -f: the option implies it.
    let Some(server) = Server::start(&d, &image, &["-o", "debug"]) else { return };
    let at = |name: &str| format!("{}/{name}", server.dir);
    fs::write(at("a file"), b"contents").unwrap();
    assert!(fs::metadata(at("none")).is_err());
    fs::rename(at("a file"), at("b")).unwrap();
    let log = server.end();
    let line = |words: &[&str]| {
        let all = log.lines().filter(|l| words.iter().all(|word| l.contains(word)));
        assert!(all.count() > 0, "no line with {words:?}:\n{log}");
    };
    line(&["DEBUG ffs::fuse: CREATE ino=2 name=\"a file\"", "errno=0", "us="]);
    line(&["WRITE ino=", "offset=0 size=8", "errno=0"]);
    line(&["LOOKUP ino=2 name=\"none\""]);
    line(&["RENAME", "name=\"a file\"", "other_ino=2", "to_name=\"b\"", "errno=0"]);
    assert!(!log.contains("contents"), "{log}");
}

#[test]
fn a_server_logs_errors_without_a_filter() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let file = d.file("f", b"x");
    ok(&["cp", &file, &format!("{image}:/a-name-to-be-found")]);
    // The record's length, in the two bytes before its type and the length of its name.
    let bytes = fs::read(&image).unwrap();
    let name = b"a-name-to-be-found";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap();
    let raw = fs::File::options().write(true).open(&image).unwrap();
    raw.write_all_at(&[0xff, 0xff], at as u64 - 4).unwrap();
    let Some(server) = Server::start(&d, &image, &["-f"]) else { return };
    let failed = fs::metadata(format!("{}/something", server.dir)).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(5));
    let log = server.end();
    assert!(log.contains("ERROR ffs::buf: the volume is damaged error="), "{log}");
    assert!(log.contains("ERROR ffs::fuse: LOOKUP ino=2 name=\"something\" errno=5"), "{log}");
    assert!(!log.contains("DEBUG"), "{log}");
}
