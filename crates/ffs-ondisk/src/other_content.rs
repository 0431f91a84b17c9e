//! Names of content that is no UFS, and what a user can do with it.

pub(crate) const ZFS: &str = "part of a ZFS pool";
pub(crate) const SQUASHFS: &str = "a squashfs file system";
pub(crate) const ISO: &str = "an ISO 9660 file system (a CD or DVD)";
pub(crate) const LUKS: &str = "an encrypted LUKS volume";
pub(crate) const GELI: &str = "an encrypted GELI provider";
pub(crate) const TAR: &str = "a tar archive";
pub(crate) const DUMP: &str = "a dump of a file system";
pub(crate) const ZIP: &str = "a ZIP archive";
pub(crate) const SEVEN_ZIP: &str = "a 7-Zip archive";
pub(crate) const RAR: &str = "a RAR archive";
pub(crate) const LZ4: &str = "a file that is compressed with LZ4";
pub(crate) const LZMA: &str = "a file that is compressed with the old LZMA";
pub(crate) const LZIP: &str = "a file that is compressed with lzip";
pub(crate) const COMPRESS: &str = "a file that is compressed with compress";
pub(crate) const QED: &str = "a QED image";
pub(crate) const PARALLELS: &str = "a Parallels image";
pub(crate) const EWF: &str = "an EnCase image (E01)";
pub(crate) const DMG: &str = "a disk image of macOS (DMG)";
/// What only content that was decompressed can be: otherwise it is opened as such an image.
pub(crate) const QCOW2: &str = "a qcow2 image";
pub(crate) const VMDK: &str = "a VMDK image";
pub(crate) const VHD: &str = "a VHD image";
pub(crate) const VHDX: &str = "a VHDX image";
pub(crate) const VDI: &str = "a VDI image";

/// What a user can do with `image`, which is that content.
pub(crate) fn next_step(what: &str, image: &str) -> String {
    let (first, device) = device_of(image);
    match what {
        LUKS => format!(
            "{first}open it first: cryptsetup open {device} NAME; then use /dev/mapper/NAME"
        ),
        GELI => "on FreeBSD attach it first: geli attach DEVICE; then use DEVICE.eli".to_owned(),
        ZFS => "import its pool with zpool import".to_owned(),
        TAR => format!("make an image of it: ffs build NEW.img {image}"),
        DUMP => format!("list it with: ffs restore -tf {image}"),
        ZIP => format!("unpack it first: unzip {image}"),
        SEVEN_ZIP => format!("unpack it first: 7z x {image}"),
        RAR => format!("unpack it first: unrar x {image}"),
        LZ4 => {
            format!("decompress it first: lz4 -d {image} RAW; ffs reads gzip, xz, zstd and bzip2")
        }
        LZMA => format!("decompress it first: xz -dk --format=lzma {image}"),
        LZIP => format!("decompress it first: lzip -dk {image}"),
        COMPRESS => format!("decompress it first: gzip -dc {image} > RAW"),
        QED | PARALLELS => format!("convert it first: qemu-img convert -O qcow2 {image} NEW"),
        EWF => format!("export it first: ewfexport -f raw {image}; or use ewfmount {image} DIR"),
        DMG => format!("convert it first: qemu-img convert -O raw {image} RAW"),
        QCOW2 | VMDK | VHD | VHDX | VDI => {
            let program = decompressor(image);
            format!("ffs opens such an image when it is not compressed: {program} {image}")
        }
        ISO | SQUASHFS => format!("{first}mount it with: mount -o loop,ro {device} DIR"),
        _ => "use the tools of its system; ffs reads UFS only".to_owned(),
    }
}

/// What other programs take for `image`, which may be quoted, and what makes that: they know no
/// partitions of a file.
fn device_of(image: &str) -> (String, String) {
    let digits = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
    match image.trim_end_matches('\'').rsplit_once('@') {
        Some((disk, number)) if !number.is_empty() && digits(number) => {
            let disk = if disk.starts_with('\'') { format!("{disk}'") } else { disk.to_owned() };
            let first = format!("make devices of the partitions: losetup -P -f --show {disk}; ");
            (first, format!("/dev/loopXp{number}"))
        }
        _ => (String::new(), image.to_owned()),
    }
}

/// The command that decompresses the file `image`, by its name, which may be quoted.
fn decompressor(image: &str) -> &'static str {
    let ends = |end: &str| image.trim_end_matches(['\'', '"']).ends_with(end);
    match () {
        () if ends(".gz") => "gzip -dk",
        () if ends(".zst") => "zstd -d",
        () if ends(".bz2") => "bzip2 -dk",
        () => "xz -dk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_get_a_device_for_a_partition() {
        let open = "open it first: cryptsetup open";
        let then = "NAME; then use /dev/mapper/NAME";
        assert_eq!(next_step(LUKS, "a.img"), format!("{open} a.img {then}"));
        assert_eq!(next_step(LUKS, "'me@home 1'"), format!("{open} 'me@home 1' {then}"));
        for (image, disk) in [("a.img@2", "a.img"), ("'a b.img@2'", "'a b.img'")] {
            let first = format!("make devices of the partitions: losetup -P -f --show {disk}; ");
            assert_eq!(next_step(LUKS, image), format!("{first}{open} /dev/loopXp2 {then}"));
        }
    }
}
