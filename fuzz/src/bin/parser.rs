//! Every structure of a damaged image through its parser.
#![no_main]

use ffs_admin::dumpfs;
use ffs_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: Input| {
    let image = input.image();
    let _ = dumpfs::dump(&image, &dumpfs::DumpOptions::default());
    let bytes = image.to_vec();
    let _ = ffs_device::partition::scan(&image);
    for chunk in bytes.chunks_exact(512).take(2048) {
        for format in [ffs_ondisk::Endian::Little, ffs_ondisk::Endian::Big] {
            let f = ffs_ondisk::dir::DirFormat { endian: format, old: false };
            assert!(ffs_ondisk::dir::records(f, chunk).count() <= 128);
        }
    }
});
