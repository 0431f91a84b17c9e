//! NBD: the client against nbdkit and qemu-nbd, the server against QEMU's and libnbd's clients,
//! and both against each other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test panics on failure")]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Dir, compare, content, disk, have, refusal, run, shell, write_randomly};
use ffs_device::{BlockDevice, MemDevice};
use ffs_image::nbd::Server;

const LEN: usize = 8 << 20;

/// A server of another project, ended with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts nbdkit at `socket`, and returns when it accepts clients.
fn nbdkit(socket: &str, args: &[&str]) -> Process {
    let pid = format!("{socket}.pid");
    let child = Command::new("nbdkit")
        .args(["-f", "-U", socket, "-P", &pid])
        .args(args)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut process = Process(child);
    // nbdkit writes the file when it listens.
    while !Path::new(&pid).exists() {
        assert!(process.0.try_wait().unwrap().is_none(), "nbdkit {args:?} ended");
        std::thread::yield_now();
    }
    process
}

fn uri(socket: &str) -> String {
    format!("nbd+unix:///?socket={socket}")
}

/// Our server in a thread.
struct Ours {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    socket: String,
}

impl Ours {
    fn start(socket: &str, device: Arc<dyn BlockDevice>) -> Ours {
        let server = Server::at_socket(Path::new(socket), device).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread =
            std::thread::spawn(
                move || {
                    while server.accept().is_ok() && !ended.load(Ordering::Acquire) {}
                },
            );
        Ours { stop, thread: Some(thread), socket: socket.to_owned() }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread.
        let _ = std::os::unix::net::UnixStream::connect(&self.socket);
        let _ = self.thread.take().unwrap().join();
    }
}

#[test]
fn servers_of_others_are_disks() {
    if !have(&["nbdkit"]) {
        return;
    }
    // One that takes every request, and one that has blocks of 4096 bytes.
    let kinds: [&[&str]; 3] = [
        &["memory", "8M"],
        &[
            "--filter=blocksize-policy",
            "memory",
            "8M",
            "blocksize-minimum=4096",
            "blocksize-maximum=65536",
            "blocksize-error-policy=error",
        ],
        &["--no-sr", "--mask-handshake=0", "memory", "8M"],
    ];
    for (number, args) in (0u64..).zip(kinds) {
        let dir = Dir::new();
        let socket = dir.str("socket");
        let _server = nbdkit(&socket, args);
        let opened = match ffs_image::open(uri(&socket), &common::how(true)) {
            Ok(opened) => opened,
            // A server that is older than the fixed newstyle negotiation is refused.
            Err(error) => {
                assert!(args.contains(&"--mask-handshake=0"), "{error}");
                assert!(error.to_string().contains("old version"), "{error}");
                continue;
            }
        };
        assert_eq!(opened.device.len_bytes(), LEN as u64);
        let mut model = vec![0; LEN];
        write_randomly(&*opened.device, &mut model, number);
        opened.device.discard(1 << 20, 4096).unwrap();
        model[1 << 20..(1 << 20) + 4096].fill(0);
        // Several buffers are one request, also where they are no multiples of blocks.
        let parts = [vec![1; 700], vec![2; 5000], vec![3; 1]];
        let slices: Vec<_> = parts.iter().map(|part| std::io::IoSlice::new(part)).collect();
        opened.device.write_vectored_at(3333, &slices).unwrap();
        model[3333..3333 + 5701].copy_from_slice(&parts.concat());
        let (mut a, mut b) = (vec![0; 1000], vec![0; 4701]);
        let mut slices = [&mut a, &mut b].map(|part| std::io::IoSliceMut::new(part));
        opened.device.read_vectored_at(3333, &mut slices).unwrap();
        assert!([a, b].concat() == parts.concat());
        drop(opened);
        compare(&*disk(&uri(&socket), false).device, &model, 9);
    }
}

#[test]
fn files_and_compressed_files_come_through_nbdkit() {
    if !have(&["nbdkit", "xz"]) {
        return;
    }
    let dir = Dir::new();
    let bytes = content(LEN, 11);
    std::fs::write(dir.path("raw"), &bytes).unwrap();
    shell(&format!("cd {} && xz -0 -k --block-size=1MiB raw", dir.0.path().display()));
    let (file, packed) = (dir.str("raw"), dir.str("raw.xz"));
    let kinds: [&[&str]; 2] = [&["-r", "file", &file], &["--filter=xz", "-r", "file", &packed]];
    for (number, args) in kinds.into_iter().enumerate() {
        let socket = dir.str(&format!("socket{number}"));
        let _server = nbdkit(&socket, args);
        let opened = disk(&uri(&socket), false);
        compare(&*opened.device, &bytes, 12);
        let error = refusal(&uri(&socket), true);
        assert!(error.ends_with("exports it read-only, so it cannot be changed"), "{error}");
    }
}

#[test]
fn a_compressed_export_is_read_in_place() {
    if !have(&["nbdkit", "xz", "zstd", "bzip2"]) {
        return;
    }
    let dir = Dir::new();
    let bytes = content(LEN, 21);
    std::fs::write(dir.path("raw"), &bytes).unwrap();
    let commands = [
        ("gzip -dc", "gzip -1 -c raw"),
        ("bzip2 -dc", "bzip2 -1 -c raw"),
        ("xz -dc", "xz -0 --block-size=1MiB -c raw"),
        ("zstd -dc", "zstd -q -c raw"),
        ("zstd -dc", "zstd -q -c < raw"),
    ];
    for (number, (undo, command)) in commands.into_iter().enumerate() {
        shell(&format!("cd {} && {command} > packed", dir.0.path().display()));
        // As the file is, and with zeros up to the end of a sector, as a block device has them.
        let kinds: [&[&str]; 2] = [
            &["file", &dir.str("packed")],
            &["--filter=truncate", "file", &dir.str("packed"), "round-up=4096"],
        ];
        for (kind, args) in kinds.into_iter().enumerate() {
            let socket = dir.str(&format!("socket{number}{kind}"));
            let _server = nbdkit(&socket, args);
            let opened = disk(&uri(&socket), false);
            assert_eq!(opened.device.len_bytes(), LEN as u64, "{command}");
            compare(&*opened.device, &bytes, 22);
            let error = refusal(&uri(&socket), true);
            assert!(error.contains("can only be read") && error.contains(undo), "{error}");
        }
    }
}

#[test]
fn a_container_behind_a_server_is_read_by_qemu_nbd() {
    if !have(&["nbdkit", "qemu-img", "qemu-nbd"]) {
        return;
    }
    let dir = Dir::new();
    let (bytes, raw) = (content(LEN, 23), dir.str("raw"));
    std::fs::write(&raw, &bytes).unwrap();
    for (number, format) in ["qcow2", "vdi", "vhdx", "vmdk"].into_iter().enumerate() {
        let (image, socket) = (dir.str("image"), dir.str(&format!("socket{number}")));
        run("qemu-img", &["convert", "-O", format, &raw, &image]);
        let _server = nbdkit(&socket, &["file", &image]);
        let opened = disk(&uri(&socket), false);
        assert_eq!(opened.format().name().to_lowercase(), format);
        compare(&*opened.device, &bytes, 24);
        drop(opened);
        let error = refusal(&uri(&socket), true);
        assert!(error.contains("behind an NBD server it can only be read"), "{error}");
        assert!(error.contains("qemu-img convert"), "{error}");
    }
}

#[test]
fn wrong_exports_and_servers_are_named() {
    let dir = Dir::new();
    let socket = dir.str("socket");
    let error = refusal(&uri(&socket), false);
    assert!(error.contains("cannot connect: No such file or directory"), "{error}");
    let error = refusal("nbds://localhost/", false);
    assert!(error.contains("only nbd and nbd+unix are supported"), "{error}");
    // A server that speaks something else.
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let thread = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        std::io::Write::write_all(&mut stream, b"220 mail.example ESMTP ready\r\n").unwrap();
    });
    let error = refusal(&uri(&socket), false);
    assert!(error.ends_with("the server does not speak NBD"), "{error}");
    thread.join().unwrap();
    let ours = dir.str("ours");
    let _server = Ours::start(&ours, Arc::new(MemDevice::new(1 << 20)));
    let error = refusal(&format!("nbd+unix:///absent?socket={ours}"), false);
    assert!(error.contains("has no export \"absent\"; it has \"\""), "{error}");
}

#[test]
fn a_lost_connection_is_an_error_and_stays_one() {
    if !have(&["nbdkit"]) {
        return;
    }
    let dir = Dir::new();
    let socket = dir.str("socket");
    let server = nbdkit(&socket, &["memory", "8M"]);
    let device = disk(&uri(&socket), true).device;
    device.write_at(0, b"before").unwrap();
    drop(server);
    let error = device.read_at(0, &mut [0; 512]).unwrap_err();
    assert_eq!(error.errno(), 5);
    assert!(error.to_string().contains("the connection to the server was lost"), "{error}");
    // Also when a server is there again: what the first one had is lost.
    std::fs::remove_file(&socket).unwrap();
    std::fs::remove_file(format!("{socket}.pid")).unwrap();
    let _again = nbdkit(&socket, &["memory", "8M"]);
    assert_eq!(device.write_at(0, b"after").unwrap_err().errno(), 5);
    assert_eq!(device.flush().unwrap_err().errno(), 5);
}

#[test]
fn our_server_is_a_disk_for_our_client() {
    let dir = Dir::new();
    let memory = Arc::new(MemDevice::new(LEN as u64));
    let socket = dir.str("socket");
    let _server = Ours::start(&socket, Arc::clone(&memory) as Arc<dyn BlockDevice>);
    let mut model = vec![0; LEN];
    {
        let opened = disk(&uri(&socket), true);
        // Several clients at a time.
        let second = disk(&uri(&socket), false);
        write_randomly(&*opened.device, &mut model, 21);
        compare(&*second.device, &model, 22);
        assert_eq!(opened.device.write_at(LEN as u64 - 1, b"ab").unwrap_err().errno(), 22);
    }
    assert!(memory.to_vec() == model);
}

#[test]
fn a_read_only_export_stays_as_it_is() {
    let dir = Dir::new();
    let bytes = content(LEN, 31);
    let memory = MemDevice::from_bytes(&bytes).into_read_only();
    let socket = dir.str("socket");
    let _server = Ours::start(&socket, Arc::new(memory));
    let error = refusal(&uri(&socket), true);
    assert!(error.contains("read-only"), "{error}");
    if have(&["qemu-io"]) {
        let output = Command::new("qemu-io")
            .args(["-f", "raw", "-c", "write -P 7 0 4k", &uri(&socket)])
            .output()
            .unwrap();
        assert!(!output.status.success());
    }
    compare(&*disk(&uri(&socket), false).device, &bytes, 32);
}

#[test]
fn other_clients_read_and_write_our_export() {
    if !have(&["qemu-img", "qemu-io", "nbdinfo"]) {
        return;
    }
    let dir = Dir::new();
    let bytes = content(LEN, 41);
    let memory = Arc::new(MemDevice::from_bytes(&bytes));
    let socket = dir.str("socket");
    let _server = Ours::start(&socket, Arc::clone(&memory) as Arc<dyn BlockDevice>);
    let uri = uri(&socket);
    let info = String::from_utf8(run("nbdinfo", &["--json", &uri]).stdout).unwrap();
    assert!(info.contains("\"export-size\": 8388608"), "{info}");
    assert!(info.contains("\"can_flush\": true") && info.contains("\"can_trim\": true"), "{info}");
    let copy = dir.str("copy");
    run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, &copy]);
    assert!(common::read_file(&copy) == bytes);
    let commands = [
        "-c",
        "write -P 7 4096 8k",
        "-c",
        "write -z 1M 64k",
        "-c",
        "flush",
        "-c",
        "discard 2M 64k",
        "-c",
        "read -P 7 4096 8k",
    ];
    run("qemu-io", &[&["-f", "raw"], &commands[..], &[&uri]].concat());
    let after = memory.to_vec();
    assert!(after[4096..12288] == [7; 8192] && after[1 << 20..(1 << 20) + 65536] == [0; 65536]);
}

#[test]
fn hostile_peers_are_refused() {
    // A server that announces blocks and sizes that cannot be.
    let mut rng = ffs_testkit::rng::SplitMix64::new(51);
    for _ in 0..2000 {
        let mut script = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
        for _ in 0..rng.between(1, 4) {
            script.extend(0x0003_e889_0455_65a9u64.to_be_bytes());
            script.extend(7u32.to_be_bytes());
            script.extend((*rng.pick(&[1u32, 3, 0x8000_0001, 9]).unwrap()).to_be_bytes());
            let data = rng.bytes(14);
            script.extend((*rng.pick(&[14u32, 12, 2, u32::MAX]).unwrap()).to_be_bytes());
            script.extend([0, *rng.pick(&[0u8, 3]).unwrap()]);
            script.extend(&data[2..]);
        }
        let mut stream = Script { read: std::io::Cursor::new(script) };
        if let Ok(export) = ffs_image::nbd::negotiate(&mut stream, "") {
            assert!(export.min_block.is_power_of_two() && export.max_block >= export.min_block);
        }
    }
    // A client that sends anything.
    for _ in 0..2000 {
        let mut script = vec![0, 0, 0, 3];
        script.extend(b"IHAVEOPT");
        script.extend((*rng.pick(&[1u32, 2, 3, 6, 7, 99]).unwrap()).to_be_bytes());
        script.extend((*rng.pick(&[0u32, 6, 8, 70_000]).unwrap()).to_be_bytes());
        let count = rng.below(80) as usize;
        script.extend(rng.bytes(count));
        script.extend(0x2560_9513u32.to_be_bytes());
        script.extend([0, 0, 0, rng.below(8) as u8]);
        script.extend(rng.bytes(20));
        let device = MemDevice::new(1 << 20);
        let mut written = Vec::new();
        let mut reader = std::io::Cursor::new(script);
        let _ = ffs_image::nbd::serve_connection(&mut reader, &mut written, &device);
    }
}

/// A peer that sends a script.
struct Script {
    read: std::io::Cursor<Vec<u8>>,
}

impl std::io::Read for Script {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.read.read(buf)
    }
}

impl std::io::Write for Script {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
