//! Locks between openers and between processes.

use super::*;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

const CHILD: &str = "FFS_TEST_LOCK_CHILD";

fn image() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    std::fs::write(&path, [0; 4096]).unwrap();
    (dir, path)
}

fn take(path: &Path, mode: LockMode, wait: LockWait) -> Result<File, LockError> {
    let file = File::options().read(true).write(true).open(path).unwrap();
    lock(&file, path, mode, wait).map(|()| file)
}

/// For a lock that no opener should hold: the child process of another test may have a copy of a
/// descriptor between fork and exec.
fn take_free(path: &Path, mode: LockMode) -> File {
    take(path, mode, LockWait::UpTo(Duration::from_secs(60))).unwrap()
}

/// Not a test of its own: the second process of the tests below. It holds the lock until its input
/// ends.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let held = take(path.as_ref(), LockMode::Exclusive, LockWait::No).unwrap();
    println!("\nlocked");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(held);
}

fn holding_process(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lock::tests::child", "--nocapture"])
        .env(CHILD, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "locked"), "the child did not lock");
    // Keeps the pipe open: the test harness in the child still prints its summary.
    child.stdout = Some(lines_into_pipe(lines));
    child
}

fn lines_into_pipe(
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
) -> std::process::ChildStdout {
    let (reader, writer) = std::io::pipe().unwrap();
    std::thread::spawn(move || {
        lines.for_each(drop);
        drop(writer);
    });
    std::process::ChildStdout::from(std::os::fd::OwnedFd::from(reader))
}

#[test]
fn readers_share_and_writers_do_not() {
    let (_dir, path) = image();
    let first = take_free(&path, LockMode::Shared);
    let second = take_free(&path, LockMode::Shared);
    let error = take(&path, LockMode::Exclusive, LockWait::No).unwrap_err();
    assert_eq!(error.errno(), Errno::BUSY.raw_os_error());
    drop((first, second));
    let writer = take_free(&path, LockMode::Exclusive);
    assert!(take(&path, LockMode::Shared, LockWait::No).is_err());
    let copy = writer.try_clone().unwrap();
    drop(writer);
    assert!(
        take(&path, LockMode::Shared, LockWait::No).is_err(),
        "a copy of the descriptor holds the lock"
    );
    drop(copy);
    take_free(&path, LockMode::Shared);
}

#[test]
fn the_error_of_the_second_process_names_the_first() {
    let (_dir, path) = image();
    let mut child = holding_process(&path);
    let error = take(&path, LockMode::Shared, LockWait::No).unwrap_err();
    if Path::new("/proc/self/fdinfo").exists() {
        let LockError::Held { holders, .. } = &error else { panic!("{error}") };
        assert_eq!(holders.len(), 1, "{error}");
        assert_eq!(holders[0].pid, child.id());
        assert!(error.to_string().contains("lock::tests::child"), "{error}");
    }
    let patience = Duration::from_millis(60);
    let before = Instant::now();
    assert!(take(&path, LockMode::Exclusive, LockWait::UpTo(patience)).is_err());
    assert!(before.elapsed() >= patience);
    drop(child.stdin.take());
    take_free(&path, LockMode::Exclusive);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_killed_holder_leaves_nothing_behind() {
    let (dir, path) = image();
    let mut child = holding_process(&path);
    child.kill().unwrap();
    child.wait().unwrap();
    take_free(&path, LockMode::Exclusive);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn the_error_names_the_process_itself() {
    let (_dir, path) = image();
    let held = take_free(&path, LockMode::Exclusive);
    let error = take(&path, LockMode::Shared, LockWait::No).unwrap_err().to_string();
    assert!(error.contains("in use by"), "{error}");
    if Path::new("/proc/self/fdinfo").exists() {
        assert!(error.contains("(this process)"), "{error}");
    }
    assert!(
        open_exclusive(&held, &path).unwrap().is_none(),
        "only block devices are opened exclusively"
    );
}
