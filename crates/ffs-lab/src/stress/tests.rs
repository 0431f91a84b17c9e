use super::*;

fn task(kind: Kind, dir: &Path, number: u32, operations: u64) -> Task {
    let limit = Limit { operations: Some(operations), time: None };
    Task { kind, dir: dir.to_owned(), number, seed: 1, limit, without: Vec::new() }
}

/// On the host's file system, which is assumed to be sound.
#[test]
fn every_kind_runs_on_the_host_and_is_repeated_by_its_seed() {
    for (name, kind) in KINDS {
        let run = || {
            let dir = tempfile::tempdir().unwrap();
            let report = work(&task(*kind, dir.path(), 0, 1500)).unwrap();
            assert_eq!(report.violation, None, "{name}");
            report
        };
        let report = run();
        assert_eq!(report.total(), 1501, "{name}");
        assert_eq!(report, run(), "{name}");
        for operation in kind.operations() {
            assert!(report.operations.contains_key(operation), "{name}: no {operation}");
        }
    }
}

#[test]
fn what_is_left_out_is_not_done() {
    let dir = tempfile::tempdir().unwrap();
    let mut task = task(Kind::Tree, dir.path(), 0, 300);
    task.without = vec!["exchange".to_owned()];
    assert!(!work(&task).unwrap().operations.contains_key("exchange"));
    assert!(Kind::find("fsy").unwrap_err().to_string().contains("fsx"));
}

/// The worker and its manifest find a content that another process changed.
#[test]
fn a_changed_file_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let task = task(Kind::Owned, dir.path(), 0, 300);
    assert_eq!(work(&task).unwrap().violation, None);
    assert!(owned::verify(dir.path()).unwrap() > 0);
    let dirs = (0..6).map(|number| dir.path().join(format!("owned.d{number}")));
    let mut files = dirs.flat_map(|dir| std::fs::read_dir(dir).unwrap());
    let is_file = |path: &PathBuf| path.is_file();
    let file = files.find_map(|entry| Some(entry.unwrap().path()).filter(is_file)).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.push(1);
    std::fs::write(&file, bytes).unwrap();
    let found = owned::verify(dir.path()).unwrap_err().to_string();
    assert!(found.contains("not what was written"), "{found}");
}

/// A file system that returns another byte is found by fsx.
#[test]
fn a_wrong_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut fsx = fsx::Fsx::new(&task(Kind::Fsx, dir.path(), 0, 0)).unwrap();
    let rng = SplitMix64::new(1);
    let step = |fsx: &mut fsx::Fsx| fsx.step(&rng).1;
    for _ in 0..300 {
        step(&mut fsx).unwrap();
    }
    let path = dir.path().join("fsx.0");
    let len = std::fs::metadata(&path).unwrap().len();
    std::fs::write(&path, vec![0xee; len as usize + 3]).unwrap();
    let wrong = (0..200).any(|_| matches!(step(&mut fsx), Err(Failed::Wrong(_))));
    assert!(wrong);
}
