//! Programs in C that use the library: `examples/ls.c`; `tests/api.c`, which calls everything; and
//! `tests/closing.c`, in which volumes end. All are linked with the shared and with the static
//! library. Skipped without a C compiler.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the static library needs of the system.
const STATIC_NEEDS: [&str; 3] = ["-lpthread", "-lm", "-ldl"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with `libffs.so` and `libffs.a`: that of this build.
fn libraries() -> PathBuf {
    let test = env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let places = [deps.parent().unwrap(), deps];
    let found = places.into_iter().find(|dir| dir.join("libffs.so").exists());
    found.unwrap_or_else(|| panic!("no libffs.so; cargo build -p ffs-c makes it")).to_owned()
}

fn compiler() -> Option<String> {
    let name = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let found = Command::new(&name).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: no C compiler ({name})");
    }
    found.then_some(name)
}

/// Compiles a program with warnings as errors.
fn compile(cc: &str, source: &Path, program: &Path, link_static: bool) {
    let libraries = libraries();
    let mut command = Command::new(cc);
    command.args(["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    command.arg("-I").arg(root().join("include")).arg(source).arg("-o").arg(program);
    if link_static {
        command.arg(libraries.join("libffs.a")).args(STATIC_NEEDS);
    } else {
        command.arg("-L").arg(&libraries).arg("-lffs").arg("-lpthread");
        command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        // The loader looks for the name of the interface, which an installation provides.
        // Another test may have made it.
        let _ = std::os::unix::fs::symlink("libffs.so", libraries.join("libffs.so.0"));
    }
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn run(program: &Path, args: &[&OsStr]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn programs_in_c_use_the_library() {
    let Some(cc) = compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    bsdffs::format(&image, 16 << 20).unwrap();
    let volume = bsdffs::Volume::options().write(true).open(&image).unwrap();
    volume.create_dir("/etc").unwrap();
    volume.write("/etc/motd", "Welcome\n").unwrap();
    volume.symlink("motd", "/etc/link").unwrap();
    volume.close().unwrap();
    for link_static in [false, true] {
        let ls = dir.path().join(format!("ls-{link_static}"));
        compile(&cc, &root().join("examples/ls.c"), &ls, link_static);
        let listed = run(&ls, &[image.as_os_str(), OsStr::new("/etc")]);
        assert!(listed.status.success(), "{}", text(&listed.stderr));
        let expected = "100644          8 /etc/motd\n120777          4 /etc/link\n";
        assert_eq!(text(&listed.stdout).replace("120755", "120777"), expected);
        let all = text(&run(&ls, &[image.as_os_str()]).stdout);
        assert!(all.contains("040755") && all.contains(" /etc/motd\n"), "{all}");
        let missing = run(&ls, &[image.as_os_str(), OsStr::new("/none")]);
        assert_eq!(missing.status.code(), Some(1));
        assert_eq!(text(&missing.stderr), "ls: /none: no such file or directory\n");
    }
}

/// Compiles and runs a program of `tests/`, with both libraries.
fn passes(name: &str) {
    let Some(cc) = compiler() else { return };
    for link_static in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(name);
        compile(&cc, &root().join(format!("tests/{name}.c")), &program, link_static);
        let done = run(&program, &[dir.path().as_os_str()]);
        assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
        assert_eq!(text(&done.stdout), "ok\n");
    }
}

#[test]
fn every_function_succeeds_and_refuses_wrong_arguments() {
    passes("api");
}

#[test]
fn volumes_end_as_the_header_describes() {
    passes("closing");
}

#[test]
fn the_example_of_the_guide_prints_a_file() {
    let Some(cc) = compiler() else { return };
    let guide = std::fs::read_to_string(root().join("../../docs/guide/c.md")).unwrap();
    let (_, rest) = guide.split_once("```c\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("cat.c"), dir.path().join("cat"));
    std::fs::write(&source, example).unwrap();
    compile(&cc, &source, &program, false);
    let cat = |expected: &str| {
        let done = Command::new(&program).current_dir(dir.path()).output().unwrap();
        let (out, err) = (text(&done.stdout), text(&done.stderr));
        assert!(format!("{out}{err}").contains(expected), "{out}{err}");
    };
    cat("o such file");
    bsdffs::format(dir.path().join("disk.img"), 16 << 20).unwrap();
    cat("disk.img: no such file or directory");
    let volume = bsdffs::Volume::options().write(true).open(dir.path().join("disk.img")).unwrap();
    volume.create_dir("/etc").unwrap();
    volume.write("/etc/motd", "Welcome\n").unwrap();
    volume.close().unwrap();
    cat("Welcome\n");
}

/// A folder whose name has what sed, shells and pkg-config treat specially.
#[test]
fn an_installation_is_found_by_pkg_config() {
    let Some(cc) = compiler() else { return };
    if Command::new("pkg-config").arg("--version").output().is_err() {
        eprintln!("skipped: no pkg-config");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // In place of a build: the libraries of this one, and a cargo that does nothing.
    let (bin, target) = (dir.path().join("bin"), dir.path().join("target"));
    std::fs::create_dir_all(target.join("debug")).unwrap();
    std::fs::create_dir(&bin).unwrap();
    for library in ["libffs.so", "libffs.a"] {
        std::fs::hard_link(libraries().join(library), target.join("debug").join(library))
            .or_else(|_| {
                let to = target.join("debug").join(library);
                std::fs::copy(libraries().join(library), to).map(|_| ())
            })
            .unwrap();
    }
    std::os::unix::fs::symlink("/bin/true", bin.join("cargo")).unwrap();
    let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap());
    for name in ["plain", "a b&c|d", r"back\1slash"] {
        let prefix = dir.path().join(name);
        let mut install = Command::new(root().join("install"));
        install.arg(&prefix).env("PATH", &path).env("FFS_PROFILE", "dev");
        let done = install.env("CARGO_TARGET_DIR", &target).output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        let program = prefix.join("ls");
        // A shell reads what pkg-config prints, as a Makefile does.
        let line = r#"eval "$CC" '"$SOURCE"' -o '"$PROGRAM"' "$(pkg-config --cflags --libs ffs)""#;
        let mut build = Command::new("sh");
        build.args(["-c", line]).env("CC", &cc).env("PROGRAM", &program);
        build.env("SOURCE", root().join("examples/ls.c"));
        build.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let done = build.output().unwrap();
        assert!(done.status.success(), "{name}: {}", text(&done.stderr));
        assert!(program.is_file());
    }
}
