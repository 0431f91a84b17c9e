//! The packages against what `packaging/install` installs: each file is in each package.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at surprises")]

use ffs_testkit::repository::{self, read};
use ffs_testkit::tools::have;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where `packaging/make` puts the files, as the manifests name it.
const STAGED: &str = "target/release/staged";

/// A program that writes the same files as ffs does. Its own name decides whether it has the
/// laboratory.
const STAND_IN: &str = r#"#!/bin/sh
case $1 in
man)
    mkdir -p "$2/man1" "$2/man8"
    echo page >"$2/man1/ffs.1"
    echo page >"$2/man8/ffs-mount.8"
    case $0 in */whole)
        echo page >"$2/man1/ffs-lab.1"
        echo page >"$2/man1/ffs-lab-run.1"
        ;;
    esac
    ;;
completions) echo "$2 of ${0##*/}" ;;
esac
"#;

/// A directory that is removed in the end.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Tree {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ffs-install-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Tree(path)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A directory that remains does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

/// Two stand-ins in `dir`: without and with the laboratory.
fn stand_ins(dir: &Path) -> [PathBuf; 2] {
    ["ffs", "whole"].map(|name| {
        let program = dir.join(name);
        fs::write(&program, STAND_IN).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    })
}

/// The files below `root`, as absolute paths, sorted.
fn paths(root: &Path) -> BTreeSet<String> {
    let mut found = Vec::new();
    files_below(root, &mut found);
    let path = |file: &PathBuf| format!("/{}", file.strip_prefix(root).unwrap().display());
    found.iter().map(path).collect()
}

fn install(options: &[&str], root: &Path, programs: &[PathBuf]) {
    let mut command = Command::new("sh");
    command.arg(repository::root().join("packaging/install")).args(options);
    let output = command.arg("--destdir").arg(root).args(programs).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The files that `packaging/install` makes of one program with these options.
fn installed(options: &[&str]) -> BTreeSet<String> {
    let tree = Tree::new();
    let root = tree.0.join("root");
    install(options, &root, &stand_ins(&tree.0)[..1]);
    paths(&root)
}

/// The files of the packages `bsdffs` and `bsdffs-lab`.
fn installed_apart() -> [BTreeSet<String>; 2] {
    let tree = Tree::new();
    let (root, lab) = (tree.0.join("root"), tree.0.join("lab"));
    let options = ["--prefix", "/usr", "--lab-destdir", lab.to_str().unwrap()];
    install(&options, &root, &stand_ins(&tree.0));
    let bash = root.join("usr/share/bash-completion/completions/ffs");
    assert_eq!(fs::read_to_string(bash).unwrap(), "bash of whole\n");
    [paths(&root), paths(&lab)]
}

/// The sources of the assets of a table of the manifest, without the folder, and where each goes.
fn assets(table: &str) -> Vec<(String, String)> {
    let manifest = read("crates/ffs-cli/Cargo.toml");
    let (_, rest) = manifest.split_once(&format!("[package.metadata.{table}]\n")).unwrap();
    let (_, rest) = rest.split_once("assets = [\n").unwrap();
    let (list, _) = rest.split_once("\n]").unwrap();
    let asset = |line: &str| {
        let words: Vec<&str> = line.split('"').collect();
        let source = words[1].strip_prefix(STAGED).unwrap_or_else(|| panic!("{line}"));
        let source = source.strip_prefix("-lab").unwrap_or(source);
        (source.to_owned(), words[3].trim_start_matches('/').to_owned())
    };
    list.lines().map(asset).collect()
}

/// Whether an asset contains a file: its path, or `*` for all files of a folder.
fn contains(asset: &str, file: &str) -> bool {
    match asset.strip_suffix('*') {
        Some(folder) => file.strip_prefix(folder).is_some_and(|name| !name.contains('/')),
        None => asset == file,
    }
}

/// Compares the assets of a table of the manifest with the files that are installed.
fn check_assets(table: &str, files: &BTreeSet<String>) {
    let assets = assets(table);
    for (source, _) in &assets {
        assert!(files.iter().any(|file| contains(source, file)), "{table}: no {source}");
    }
    for file in files {
        let has = assets.iter().any(|(source, _)| contains(source, file));
        // cargo-deb makes the file `copyright` of the licence.
        let is_licence = table.starts_with("deb") && file.ends_with("/LICENSE");
        assert!(has || is_licence, "{table} lacks {file}");
    }
    for (source, to) in &assets {
        let folder = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
        let moved = to.starts_with("usr/share/zsh/vendor-completions/");
        assert!(moved || folder(source) == format!("/{}", folder(to)), "{source} to {to}");
    }
}

#[test]
fn each_package_has_every_file_that_is_installed() {
    let [files, lab] = installed_apart();
    assert!(files.contains("/usr/sbin/mount.ufs") && files.contains("/usr/bin/ffs"), "{files:?}");
    for table in ["deb", "generate-rpm"] {
        check_assets(table, &files);
        check_assets(&format!("{table}.variants.lab"), &lab);
    }
}

#[test]
fn the_laboratory_is_a_package_of_its_own_with_its_pages() {
    let [files, lab] = installed_apart();
    assert!(files.iter().all(|file| !file.contains("lab")), "{files:?}");
    let expected = [
        "/usr/bin/ffs-lab",
        "/usr/share/licenses/bsdffs-lab/LICENSE",
        "/usr/share/man/man1/ffs-lab-run.1.gz",
        "/usr/share/man/man1/ffs-lab.1.gz",
    ];
    assert_eq!(lab, expected.map(str::to_owned).into());
    // Without a folder of its own it is beside ffs. A program alone has the pages that it writes.
    let tree = Tree::new();
    let (both, one) = (tree.0.join("both"), tree.0.join("one"));
    let programs = stand_ins(&tree.0);
    install(&["--prefix", "/usr"], &both, &programs);
    assert_eq!(paths(&both), &files | &lab);
    install(&["--prefix", "/usr"], &one, &programs[1..]);
    let one = paths(&one);
    assert!(one.contains("/usr/share/man/man1/ffs-lab.1.gz") && !one.contains("/usr/bin/ffs-lab"));
}

#[test]
fn without_a_system_only_program_and_documents_are_installed() {
    let files = installed(&["--prefix", "/opt/ffs", "--no-system"]);
    assert!(files.contains("/opt/ffs/bin/ffs"));
    for file in &files {
        let kept = file == "/opt/ffs/bin/ffs" || file.starts_with("/opt/ffs/share/");
        assert!(kept && !file.contains("mount.ufs") && !file.contains("examples"), "{file}");
    }
}

#[test]
fn the_guide_lists_what_is_installed() {
    let guide = read("docs/guide/installing.md");
    let (_, table) = guide.split_once("## What is installed").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    for file in installed_apart().into_iter().flatten() {
        let name = file.rsplit('/').next().unwrap();
        let by_folder = ["/share/man/", "/share/doc/", "/share/zsh", "/share/fish", "/licenses/"];
        let listed = table.contains(name) || by_folder.iter().any(|part| file.contains(part));
        assert!(listed, "docs/guide/installing.md does not list {file}");
    }
}

#[test]
fn recipes_have_the_version_of_the_workspace() {
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
    let version = version.trim_matches('"');
    assert!(read("packaging/PKGBUILD").contains(&format!("\npkgver={version}\n")));
    assert!(read("packaging/bsdffs.rb").contains(&format!("/v{version}/ffs-{version}.tar.gz\"")));
}

#[test]
fn workflow_and_recipes_name_the_same_tools() {
    let text = read("packaging/README.md");
    for tool in ["cargo-deb@", "cargo-generate-rpm@"] {
        let (_, version) = text.split_once(tool).unwrap();
        let version = version.split_whitespace().next().unwrap();
        let workflow = read(".github/workflows/release.yml");
        assert!(workflow.contains(&format!("{tool}{version}")), "{tool}{version}");
    }
}

#[test]
fn packages_are_made_without_the_laboratory_and_with_it_apart() {
    let make = read("packaging/make");
    let build = "cargo build --profile dist --locked -p bsdffs-cli";
    assert!(make.contains(&format!("{build} --target \"$target\"\n")));
    assert!(make.contains(&format!("{build} --no-default-features --target \"$target\"\n")));
    let pkgbuild = read("packaging/PKGBUILD");
    assert!(pkgbuild.contains("-p bsdffs-cli --no-default-features\n"));
    assert!(pkgbuild.contains("pkgname=(bsdffs bsdffs-lab)\n"));
    assert!(read("flake.nix").contains("buildNoDefaultFeatures = !lab;"));
    // CI only checks the program without the laboratory; the release runs it.
    let ci = read(".github/workflows/ci.yml");
    assert!(ci.contains("cargo clippy --locked -p bsdffs-cli --no-default-features\n"));
    let release = read(".github/workflows/release.yml");
    assert!(release.contains("packaging/smoke \"target/$TARGET/dist/ffs\" "));
    let manifest = read("crates/ffs-cli/Cargo.toml");
    assert!(manifest.contains("\ndefault = [\"lab\"]\n"));
    // The program passes its command line to the laboratory: both have one version.
    let workspace = read("Cargo.toml");
    let version = workspace.split("\nversion = \"").nth(1).and_then(|s| s.split('"').next());
    let version = version.unwrap();
    let deb = format!("depends = \"bsdffs (>= {version}), bsdffs (<< {version}.1~)\"\n");
    assert!(manifest.contains(&deb));
    assert!(manifest.contains(&format!("\nbsdffs = \"= {version}\"\n")));
    assert!(pkgbuild.contains("\"bsdffs=$pkgver\""));
}

#[test]
fn any_directory_can_have_an_installation() {
    let script = repository::root().join("packaging/test-install");
    let output = Command::new("sh").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_image_for_containers_is_published_after_the_release() {
    let release = read(".github/workflows/release.yml");
    assert!(!release.contains("manifest push") && !release.contains("packages: write"));
    let image = read(".github/workflows/image.yml");
    assert!(image.contains("release:\n    types: [published]\n") && !image.contains("\n  push:"));
    let (_, latest) = image.split_once("if [ \"$PRERELEASE\" = false ]").unwrap();
    assert!(latest.contains(":latest") && image.matches(":latest").count() == 1);
}

#[test]
fn scripts_pass_shellcheck() {
    if !have(&["shellcheck"]) {
        return;
    }
    let scripts = [
        "install",
        "make",
        "size",
        "smoke",
        "test-deb",
        "test-install",
        "test-wheel",
        "helper",
        "PKGBUILD",
    ];
    let mut command = Command::new("shellcheck");
    command.current_dir(repository::root().join("packaging")).args(scripts);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
