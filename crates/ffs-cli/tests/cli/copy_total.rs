//! The total of several sources on the progress bar of `ffs cp`.

use std::process::Command;

use serde_json::Value;

use crate::common::{Dir, fails, fsck_clean, ok, pattern, run, text};

/// Stops the copy, after some megabytes, for longer than the time after which a bar is shown, and
/// prints what the terminal shows.
const DRIVER: &str = r#"
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
def read_so_far():
    fields = dict(line.split(": ") for line in open("/proc/%d/io" % pid).read().splitlines())
    return int(fields["rchar"])
def has_ended():
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
while read_so_far() < 16 << 20 and not has_ended():
    time.sleep(0.001)
os.kill(pid, signal.SIGSTOP)
time.sleep(1.5)
os.kill(pid, signal.SIGCONT)
seen = b""
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:
        break
    if not more:
        break
    seen += more
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn a_bar_has_the_total_of_all_sources() {
    let d = Dir::new();
    let driver = d.file("driver.py", DRIVER.as_bytes());
    let mut one = pattern(1 << 20, 1).repeat(96);
    let first = d.file("first", &one);
    one.truncate(64 << 20);
    let second = d.file("second", &one);
    let (image, other) = (d.image("a.img", "400m", &[]), d.image("b.img", "400m", &[]));
    let shown = |args: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(&driver).arg(assert_cmd::cargo::cargo_bin!("ffs")).arg("cp").args(args);
        match command.env("TERM", "xterm").env("COLUMNS", "120").output() {
            Ok(output) => {
                assert!(output.status.success(), "{}", text(&output));
                Some(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Err(error) => {
                println!("skipped: needs python3: {error}");
                None
            }
        }
    };
    // From the host, from one image, and from two.
    let Some(seen) = shown(&[&first, &second, &format!("{image}:/")]) else { return };
    assert!(seen.contains("of 160.00 MiB"), "{seen}");
    assert!(!seen.contains("of 96.00 MiB") && !seen.contains("of 64.00 MiB"), "{seen}");
    std::fs::create_dir(d.path("out")).unwrap();
    ok(&["mkdir", &format!("{image}:/new")]);
    let [a, b] = ["first", "second"].map(|name| format!("{image}:/{name}"));
    let seen = shown(&[&a, &b, &d.str("out")]).unwrap();
    assert!(seen.contains("of 160.00 MiB"), "{seen}");
    assert!(std::fs::read(d.path("out/second")).unwrap() == one);
    ok(&["cp", &second, &format!("{other}:/third")]);
    let third = format!("{other}:/third");
    let seen = shown(&[&a, &third, &d.str("out")]).unwrap();
    assert!(seen.contains("of 160.00 MiB"), "{seen}");
    assert!(!seen.contains("of 96.00 MiB") && !seen.contains("of 64.00 MiB"), "{seen}");
    // Into an image: from the host, from another image, and within it.
    let seen = shown(&[&first, &third, &b, &format!("{image}:/new/")]);
    assert!(seen.unwrap().contains("of 224.00 MiB"));
    ok(&["fsck", "-n", "-f", &other]);
    ok(&["fsck", "-n", "-f", &image]);
}

/// Each image is opened once, and an image that cannot be opened stops no other.
#[test]
fn sources_in_several_images_have_one_total() {
    let d = Dir::new();
    let [a, b] = ["a.img", "b.img"].map(|name| d.image(name, "8m", &[]));
    for (image, name, len) in [(&a, "one", 1000), (&b, "two", 20_000), (&a, "three", 300_000)] {
        let file = d.file(name, &pattern(len, 3));
        ok(&["cp", &file, &format!("{image}:/")]);
    }
    let [one, two, three] =
        [(&a, "one"), (&b, "two"), (&a, "three")].map(|(image, name)| format!("{image}:/{name}"));
    let missing = format!("{}:/x", d.str("missing.img"));
    std::fs::create_dir(d.path("out")).unwrap();
    let target = d.image("c.img", "8m", &[]);
    for to in [format!("{}/", d.str("out")), format!("{target}:/")] {
        let printed = ok(&["cp", "--json", &one, &two, &three, &to]);
        let totals: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|event: &Value| event["event"] == "total")
            .collect();
        let [total] = &totals[..] else { panic!("{printed}") };
        assert_eq!((&total["files"], &total["bytes"]), (&3.into(), &321_000.into()), "{total}");
        let errors = fails(&["cp", &missing, &two, &missing, &three, &to], 1, "missing.img");
        assert_eq!(errors.matches("missing.img:").count(), 1, "{errors}");
    }
    for (name, len) in [("one", 1000), ("two", 20_000), ("three", 300_000)] {
        assert!(std::fs::read(d.path("out").join(name)).unwrap() == pattern(len, 3), "{name}");
        let copy = run(&["cat", &format!("{target}:/{name}")]).stdout;
        assert!(copy == pattern(len, 3), "{name}");
    }
    fsck_clean(std::path::Path::new(&target));
}

#[test]
fn wrong_words_have_messages_of_their_own() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let hint = format!("a path inside an image begins with '/'; write {image}:/x");
    fails(&["cp", &format!("{image}:x"), &d.str("out")], 64, &hint);
    fails(&["cp", &image, &d.str("out")], 64, "no argument is in an image");
    for words in [&[")"][..], &["-o"], &["-name", "x", "-o", "-o"], &["(", ")"], &["-a"]] {
        let args = [&["find", &image][..], words].concat();
        fails(&args, 64, "a test or an action is missing before it");
    }
}
