//! Archives of sources that cannot deliver everything, read back.

use ffs_core::Timespec;

use super::super::{Input, TarSource};
use super::TarSink;
use crate::copy::{
    CopyEnded, CopyReport, Emitter, Entry, EntryKind, EntryMeta, Event, Observer, PartialFile,
    Sink, SinkResult, SkippedFile, Source, transfer,
};

struct Watch(Vec<String>);

impl Observer for Watch {
    fn skipped(&mut self, file: &SkippedFile) {
        self.0.push(file.to_string());
    }
}

/// A source that sends what a function sends.
struct From<F>(F);

impl<F: FnOnce(&mut Emitter) -> Result<(), CopyEnded> + Send> Source for From<F> {
    fn send(self, emitter: &mut Emitter) -> Result<(), CopyEnded> {
        (self.0)(emitter)
    }
}

/// Collects paths and contents.
#[derive(Default)]
struct Files(Vec<(Vec<u8>, Vec<u8>)>);

impl Sink for Files {
    fn entry(&mut self, entry: &Entry, _: &mut CopyReport) -> SinkResult {
        let size = if let EntryKind::File(size) = entry.kind { size } else { 0 };
        self.0.push((entry.path.clone(), vec![0; size as usize]));
        Ok(())
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        if let Some((_, content)) = self.0.last_mut() {
            content[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        Ok(())
    }

    fn abort(&mut self) -> Option<PartialFile> {
        None
    }
}

fn entry(path: &[u8], kind: EntryKind, identity: Option<u64>) -> Entry {
    let mtime = Timespec { secs: 1_000_000_000, nsec: 5 };
    let meta = EntryMeta { mtime, atime: mtime, birthtime: mtime, ..EntryMeta::default() };
    Entry { path: path.to_vec(), kind, meta, identity }
}

/// The archive of a source, and what was skipped.
fn archive(
    send: impl FnOnce(&mut Emitter) -> Result<(), CopyEnded> + Send,
) -> (Vec<u8>, Vec<String>) {
    let (mut bytes, mut watch) = (Vec::new(), Watch(Vec::new()));
    transfer(From(send), &mut TarSink::new(&mut bytes, "a.tar", "./"), &mut watch).unwrap();
    (bytes, watch.0)
}

fn read(bytes: Vec<u8>) -> Files {
    let input = Input::from_stream(std::io::Cursor::new(bytes)).unwrap();
    let (mut files, mut watch) = (Files::default(), Watch(Vec::new()));
    transfer(TarSource::new(input, "a.tar").require_end(), &mut files, &mut watch).unwrap();
    assert_eq!(watch.0, [""; 0]);
    files
}

#[test]
fn what_a_source_cannot_deliver_is_zeros() {
    let (bytes, skipped) = archive(|emitter| {
        emitter.entry(entry(b"half", EntryKind::File(1000), Some(0)))?;
        emitter.buffer(300).fill(7);
        emitter.data(0, 300)?;
        emitter.failed(b"half", "read error")?;
        emitter.send(Event::Abort)?;
        emitter.entry(entry(b"never", EntryKind::File(9), Some(1)))?;
        emitter.failed(b"never", "read error")?;
        emitter.send(Event::Abort)?;
        emitter.entry(entry(b"link-half", EntryKind::Link(b"half".to_vec()), Some(0)))?;
        emitter.entry(entry(b"link-never", EntryKind::Link(b"never".to_vec()), Some(1)))?;
        emitter.buffer(3).copy_from_slice(b"end");
        emitter.small_file(entry(b"whole", EntryKind::File(3), None), 3)
    });
    assert_eq!(bytes.len() % 10240, 0);
    let why = "link-never: a hard link to never, which could not be read";
    assert_eq!(skipped, ["half: read error", "never: read error", why]);
    let half = [vec![7; 300], vec![0; 700]].concat();
    let wanted = [(&b"half"[..], half), (b"link-half", Vec::new()), (b"whole", b"end".to_vec())];
    assert_eq!(read(bytes).0, wanted.map(|(path, content)| (path.to_vec(), content)));
}

#[test]
fn a_sparse_file_has_its_data_only() {
    let (bytes, skipped) = archive(|emitter| {
        emitter.entry(entry(b"dir/sparse", EntryKind::File(9_000_000), None))?;
        for (start, end) in [(4096, 4100), (8_000_000, 8_000_010), (9_000_000, 9_000_000)] {
            emitter.send(Event::Extent(start, end))?;
        }
        emitter.buffer(4).copy_from_slice(b"abcd");
        emitter.data(4096, 4)?;
        // The second extent is announced with ten bytes.
        emitter.buffer(3).copy_from_slice(b"xyz");
        emitter.data(8_000_002, 3)?;
        emitter.send(Event::End)?;
        emitter.entry(entry(b"empty", EntryKind::File(1 << 33), None))?;
        emitter.send(Event::Extent(1 << 33, 1 << 33))?;
        emitter.send(Event::End)
    });
    assert_eq!((bytes.len(), skipped.len()), (10240, 0));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("GNU.sparse.realsize=8589934592\n") && text.contains("1\n8589934592\n0"));
    let end = text.find("GNU.sparse.realsize=8589934592").unwrap();
    let first = bytes[..end / 512 * 512 - 512].iter().copied().chain([0; 1024]).collect();
    let files = read(first);
    let content = &files.0[0].1;
    assert_eq!(content.len(), 9_000_000);
    assert_eq!(&content[4090..4104], b"\0\0\0\0\0\0abcd\0\0\0\0");
    assert_eq!(&content[8_000_000..8_000_010], b"\0\0xyz\0\0\0\0\0");
}
