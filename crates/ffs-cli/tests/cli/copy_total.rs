//! The total of several sources on the progress bar of `ffs cp`.

use std::process::Command;

use crate::common::{Dir, ok, pattern, text};

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
while read_so_far() < 16 << 20:
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
    let image = d.image("a.img", "400m", &[]);
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
    // From the host, and from one image.
    let Some(seen) = shown(&[&first, &second, &format!("{image}:/")]) else { return };
    assert!(seen.contains("of 160.00 MiB"), "{seen}");
    assert!(!seen.contains("of 96.00 MiB") && !seen.contains("of 64.00 MiB"), "{seen}");
    std::fs::create_dir(d.path("out")).unwrap();
    let [a, b] = ["first", "second"].map(|name| format!("{image}:/{name}"));
    let seen = shown(&[&a, &b, &d.str("out")]).unwrap();
    assert!(seen.contains("of 160.00 MiB"), "{seen}");
    assert!(std::fs::read(d.path("out/second")).unwrap() == one);
    ok(&["fsck", "-n", "-f", &image]);
}
