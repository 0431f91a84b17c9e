//! Texts that users write: specifications of mtree, also those that create files, owner maps,
//! patterns, types of partitions, and what the command reads (`words`).
//!
//! A text is made of bytes below 128, and of words: each byte from 128 on selects one, so that the
//! fuzzer need not find them.

use crate::base;
use crate::parse::pattern::{Pattern, excludes, excludes_directory, excludes_top};
use crate::streams::Quiet;
use crate::words;
use bsdffs::build::{BuildObserver, IdMap, ImageBuilder, MtreeSpec, Tree, UserNames};
use bsdffs::disk::{PartitionType, VolumeLabel};
use bsdffs::flags::FlagsChange;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_device::{BlockDevice, MemDevice};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The size of an image that a specification creates, bytes.
const SIZE: u64 = 2 << 20;

impl BuildObserver for Quiet {}

const WORDS: [&str; 52] = [
    "/set ",
    "/unset ",
    "..\n",
    "./",
    "../",
    "\\\n",
    "\n",
    "type=",
    "file ",
    "dir ",
    "link ",
    "fifo ",
    "socket ",
    "char ",
    "block ",
    "mode=",
    "0755 ",
    "04644 ",
    "uid=",
    "gid=",
    "uname=",
    "gname=",
    "root ",
    "flags=",
    "schg,nodump ",
    "none ",
    "time=",
    "1000000000.5 ",
    "9223372036854775807 ",
    "-1 ",
    "link=",
    "device=",
    "native,1,3 ",
    "freebsd,0x12,4 ",
    "contents=",
    "DIR/content ",
    "DIR/pipe ",
    "DIR/sparse ",
    "DIR ",
    "optional ",
    "sha256=",
    "size=",
    "tags=",
    "DIR/tree/",
    "a/file ",
    "a ",
    "a/second ",
    "link ",
    "\\040",
    "\\134",
    "b/c/d ",
    "\u{e9}",
];

/// A directory of the host: a tree, and the content of files that it lacks.
struct Host {
    dir: PathBuf,
}

impl Host {
    fn get() -> &'static Host {
        static HOST: OnceLock<Host> = OnceLock::new();
        HOST.get_or_init(|| {
            let dir = tempfile::tempdir_in("/dev/shm").unwrap().keep();
            fs::create_dir_all(dir.join("tree/a")).unwrap();
            fs::write(dir.join("tree/a/file"), b"one file, two names").unwrap();
            fs::hard_link(dir.join("tree/a/file"), dir.join("tree/a/second")).unwrap();
            std::os::unix::fs::symlink("a/file", dir.join("tree/link")).unwrap();
            fs::write(dir.join("content"), [7; 5000]).unwrap();
            let sparse = fs::File::create(dir.join("sparse")).unwrap();
            sparse.set_len(200_000).unwrap();
            let pipe = std::process::Command::new("mkfifo").arg(dir.join("pipe")).status();
            assert!(pipe.unwrap().success());
            Host { dir }
        })
    }

    fn text(&self, data: &[u8]) -> Vec<u8> {
        let dir = self.dir.as_os_str().as_encoded_bytes();
        let mut out = Vec::new();
        for &byte in data {
            let Some(word) = byte.checked_sub(128) else {
                out.push(byte);
                continue;
            };
            let word = WORDS[usize::from(word) % WORDS.len()];
            match word.strip_prefix("DIR") {
                Some(rest) => out.extend([dir, rest.as_bytes()].concat()),
                None => out.extend(word.as_bytes()),
            }
        }
        out
    }
}

/// Reads the text that `data` describes in the way that `how` selects.
///
/// # Panics
/// On a failure.
pub(crate) fn read(how: u8, data: &[u8]) {
    let bytes = Host::get().text(data);
    let text = String::from_utf8_lossy(&bytes);
    if how & 8 != 0 {
        return words::read(&bytes);
    }
    match how % 4 {
        0 => {
            let _ = MtreeSpec::parse(data, &UserNames::default());
            drop(IdMap::parse(&text, |name| (name == "root").then_some(0)));
            names(&text);
        }
        1 => pattern(&text),
        _ => {
            let Ok(spec) = MtreeSpec::parse(&bytes, &UserNames::default()) else { return };
            let first = built(&spec);
            if how & 4 != 0 {
                assert!(first == built(&spec), "two images of one specification differ");
            }
        }
    }
}

/// The image of the tree and a specification; `None` if it cannot be built.
fn built(spec: &MtreeSpec) -> Option<Vec<u8>> {
    let device = Arc::new(MemDevice::new(SIZE));
    let dev: Arc<dyn BlockDevice> = device.clone();
    let tree = Tree::Directory { path: Host::get().dir.join("tree"), skip: Vec::new() };
    let builder = ImageBuilder::new().size(Some(SIZE)).mtree(Some(spec.clone()));
    let builder = builder.source_date_epoch(Some(base::NOW));
    builder.build_on(tree, Path::new("image"), &dev, &mut Quiet).ok()?;
    let report = Fsck::new(dev, FsckOptions::no().at(base::NOW)).run();
    assert!(report.is_silent(), "the image is damaged: {report:#?}");
    Some(device.to_vec())
}

/// A pattern: the first line, and names: the others.
fn pattern(text: &str) {
    let mut lines = text.lines();
    let Ok(pattern) = Pattern::parse(lines.next().unwrap_or_default()) else { return };
    for line in lines {
        let _ = excludes(std::slice::from_ref(&pattern), line.as_bytes());
        let _ = excludes_directory(std::slice::from_ref(&pattern), line.as_bytes());
        let _ = excludes_top(std::slice::from_ref(&pattern), line.as_bytes(), true);
    }
}

fn names(text: &str) {
    for word in text.split_whitespace().take(20) {
        let _ = FlagsChange::parse(word);
        if let Ok(kind) = word.parse::<PartitionType>() {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let _ = word.parse::<VolumeLabel>();
        let path = bsdffs::tar::member_path(word.as_bytes()).unwrap_or_default();
        assert!(path.is_empty() || path.split(|&b| b == b'/').all(|n| !matches!(n, b"" | b"..")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are sufficient for a specification that creates a file of each kind.
    #[test]
    fn a_specification_of_words_is_built() {
        let word = |text: &str| 128 + WORDS.iter().position(|w| *w == text).unwrap() as u8;
        let line = |name: &str, words: &[&str]| -> Vec<u8> {
            let words = words.iter().map(|text| word(text));
            name.bytes().chain([b' ']).chain(words).chain([b'\n']).collect()
        };
        let mode = ["mode=", "0755 "];
        let spec = [
            line("./x", &[&["type=", "file ", "contents=", "DIR/content "][..], &mode].concat()),
            line("./s", &[&["type=", "file ", "contents=", "DIR/sparse "][..], &mode].concat()),
            line("./d", &[&["type=", "dir "][..], &mode].concat()),
            line("./l", &["type=", "link ", "link=", "a "]),
            line("./c", &[&["type=", "char ", "device=", "native,1,3 "][..], &mode].concat()),
            line("./p", &[&["type=", "fifo "][..], &mode].concat()),
        ]
        .concat();
        let text = Host::get().text(&spec);
        let spec = MtreeSpec::parse(&text, &UserNames::default()).unwrap();
        assert!(built(&spec).is_some());
        read(6, &text);
        // A pipe has no content that could be read to its end.
        let pipe = line("./x", &[&["contents=", "DIR/pipe "][..], &mode].concat());
        let spec = MtreeSpec::parse(&Host::get().text(&pipe), &UserNames::default()).unwrap();
        assert!(built(&spec).is_none());
    }
}
