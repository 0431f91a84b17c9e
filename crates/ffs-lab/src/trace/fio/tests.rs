//! Job files: what they do, and what is refused.

use super::*;
use crate::trace::resolve::Program;
use crate::trace::{Have, Op};

fn calls(text: &str) -> Vec<String> {
    let trace = parse(text.as_bytes(), 1).unwrap();
    Program::of(&trace).unwrap();
    trace.calls.iter().map(|call| format!("{:?}", call.op)).collect()
}

#[test]
fn a_sequential_write_is_open_write_fsync_close() {
    let text = "; a comment\n[global]\nbs=4k\nioengine=psync\ngroup_reporting\n\n\
                [job]\nrw=write\nsize=16k\nfsync=2\nend_fsync=1\n";
    let expected = [
        r#"Open { path: "job.0.0", file: 1, how: Create }"#,
        "Write { file: 1, offset: 0, len: 4096 }",
        "Write { file: 1, offset: 4096, len: 4096 }",
        "Fsync(1)",
        "Write { file: 1, offset: 8192, len: 4096 }",
        "Write { file: 1, offset: 12288, len: 4096 }",
        "Fsync(1)",
        "Fsync(1)",
        "Close(1)",
    ];
    assert_eq!(calls(text), expected);
}

#[test]
fn random_reads_come_once_each_and_their_files_exist_before() {
    let text = "[r]\nrw=randread\nbs=1k\nsize=64k\nnrfiles=2\ndirectory=/data/x\nnumjobs=2\n";
    let trace = parse(text.as_bytes(), 9).unwrap();
    let sizes: Vec<u64> = trace
        .have
        .iter()
        .filter_map(|have| match have {
            Have::File(_, size) => Some(*size),
            _ => None,
        })
        .collect();
    assert_eq!((trace.have.len(), sizes), (6, vec![32 << 10; 4]), "and two directories");
    let mut offsets: Vec<(u64, u64)> = trace
        .calls
        .iter()
        .filter_map(|call| match call.op {
            Op::Read { file, offset, .. } => Some((file, offset)),
            _ => None,
        })
        .collect();
    let drawn = offsets.clone();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), 4 * 32, "each block once");
    assert_ne!(offsets, drawn);
    assert_eq!(parse(text.as_bytes(), 9).unwrap(), trace, "they follow from the seed");
    assert_ne!(parse(text.as_bytes(), 10).unwrap(), trace);
}

#[test]
fn jobs_take_turns_unless_there_is_a_stonewall() {
    let two = |more: &str| format!("[a]\nrw=write\nsize=8k\n[b]\n{more}rw=read\nsize=8k\n");
    let together = calls(&two(""));
    assert!(together[0].contains("a.0.0") && together[1].contains("b.0.0"), "{together:?}");
    let apart = calls(&two("stonewall\n"));
    assert!(apart[3].starts_with("Close(1)") && apart[4].contains("b.0.0"), "{apart:?}");
    let mixed = parse(b"[m]\nrw=randrw\nrwmixread=100\nsize=8k\nthinktime=5\n", 1).unwrap();
    assert!(!mixed.calls.iter().any(|call| matches!(call.op, Op::Write { .. })));
    assert_eq!(mixed.calls[2].at - mixed.calls[1].at, 5000, "nanoseconds");
}

#[test]
fn what_a_replay_cannot_do_is_refused_by_name_and_line() {
    for (text, why) in [
        ("rw=write\n", "line 1: expected a section"),
        ("[a\n", "line 1: expected '[NAME]'"),
        ("[a/b]\n", "line 1: 'a/b'"),
        ("[global]\nbs=4k\n", "no job"),
        ("[a]\nrw=trim\n", "line 2: option 'rw=trim'"),
        ("[a]\nioengine=libaio\n", "line 2: option 'ioengine=libaio': expected sync"),
        ("[a]\ndirect=1\n", "line 2: option 'direct=1': expected 0"),
        ("[a]\niodepth=32\n", "line 2: option 'iodepth=32'"),
        ("[a]\nruntime=60\n", "line 2: option 'runtime' has no meaning"),
        ("[a]\ntime_based\n", "line 2: option 'time_based'"),
        ("[a]\nzipf=1\n", "line 2: option 'zipf'"),
        ("[a]\nbs=4q\n", "line 2: option 'bs=4q': expected bytes"),
        ("[a]\nbs=9999999999t\n", "at most 1t"),
        ("[a]\nrwmixread=101\nsize=1m\n", "from 0 to 100"),
        ("[a]\nfilename=../x\nsize=1m\n", "line 2: '../x'"),
        ("[a]\ndirectory=../x\nsize=1m\n", "line 2: "),
        ("[a]\nrw=read\n", "line 1: job 'a': has no size"),
        ("[a]\nsize=1k\nbs=4k\n", "no block"),
        ("[a]\nsize=1t\nbs=1\n", "makes more than"),
    ] {
        let error = parse(text.as_bytes(), 1).unwrap_err();
        assert!(error.contains(why), "{text:?}: {error}");
    }
}
