//! The parameters of a machine: the sections of a machine file.
//!
//! [`super::preset`] reads them and checks their bounds.
//!
//! Reference: `docs/spec/benchmarks.md` §6.

use serde::Deserialize;

/// The write cache of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WriteCache {
    /// Off: a write completes when it is on the platters.
    Off,
    /// The buffer accepts writes, and writes them in the order of arrival.
    Fifo,
    /// The buffer accepts writes, writes them in the order of sectors, and merges overlapping ones.
    Merge,
}

/// A drive.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiskPreset {
    /// Revolutions a minute.
    pub(crate) turns_per_minute: u32,
    /// Heads: the number of surfaces.
    pub(crate) heads: u32,
    /// Tracks of each surface.
    pub(crate) cylinders: u32,
    /// Zones of cylinders with the same number of sectors on a track.
    pub(crate) zones: u32,
    /// Sectors of a track in the first zone.
    pub(crate) outer_sectors: u32,
    /// Sectors of a track in the last zone.
    pub(crate) inner_sectors: u32,
    /// Mean time of a seek between random positions.
    pub(crate) average_seek_ms: f64,
    /// Time of a seek over all cylinders.
    pub(crate) full_seek_ms: f64,
    /// Additional time of a seek for a write.
    pub(crate) write_settle_ms: f64,
    /// Time to switch to another surface.
    pub(crate) head_switch_ms: f64,
    /// Time to switch to the next cylinder during a transfer.
    pub(crate) cylinder_switch_ms: f64,
    /// Overhead of a command that reads from the platters.
    pub(crate) read_overhead_ms: f64,
    /// Overhead of a command that is answered from the buffer.
    pub(crate) hit_overhead_ms: f64,
    /// Overhead of a command that writes.
    pub(crate) write_overhead_ms: f64,
    /// Size of the write cache.
    pub(crate) buffer_kb: u32,
    /// Number of segments that keep data read ahead.
    pub(crate) segments: u32,
    /// Size of a segment.
    pub(crate) segment_kb: u32,
    /// Rate of the interface.
    pub(crate) bus_mb_s: f64,
    /// The write cache.
    pub(crate) write_cache: WriteCache,
    /// The most writes in the cache.
    pub(crate) write_cache_segments: u32,
    /// The medium, if it is flash memory. The platters then only give the capacity.
    pub(crate) flash: Option<FlashPreset>,
    /// The bands, if tracks overlap.
    pub(crate) smr: Option<SmrPreset>,
}

/// Overlapping tracks that the drive manages.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SmrPreset {
    /// Size of the persistent cache at the outer edge. It is no part of the capacity.
    pub(crate) persistent_cache_mb: u32,
    /// The most extents of the persistent cache.
    pub(crate) map_entries: u32,
    /// Size of a band.
    pub(crate) band_mb: u32,
    /// Time without a command after which the drive cleans.
    pub(crate) idle_ms: f64,
}

/// The medium of a drive of flash memory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlashPreset {
    /// A read of one block, without the transfer.
    pub(crate) read_us: f64,
    /// A write of one block into the buffer, without the transfer.
    pub(crate) write_us: f64,
    /// A flush of an empty buffer.
    pub(crate) flush_us: f64,
    /// The rate at which all channels together empty the buffer.
    pub(crate) program_mb_s: f64,
    /// The most commands at a time.
    #[serde(default = "one_command")]
    pub(crate) commands: u32,
    /// The time of the controller for each command, which limits the rate of small ones.
    #[serde(default)]
    pub(crate) command_us: f64,
}

fn one_command() -> u32 {
    1
}

macro_rules! costs {
    ($($name:ident: $what:literal,)*) => {
        /// The costs of the processor's work, in microseconds.
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct CpuPreset {
            $(#[doc = $what] pub(crate) $name: f64,)*
        }

        impl CpuPreset {
            pub(super) fn each(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// The costs on a processor that is so many times as fast, with the same caches.
            pub(crate) fn faster(&self, times: f64) -> CpuPreset {
                let near_directory_kb = self.near_directory_kb;
                CpuPreset { near_directory_kb, ..CpuPreset { $($name: self.$name / times,)* } }
            }
        }
    };
}

costs! {
    stat: "The call `stat`.",
    create: "Making a file.",
    open: "Opening a file.",
    close: "Closing a file.",
    remove: "Removing a file's name.",
    rename: "Renaming.",
    mkdir: "Making a directory.",
    rmdir: "Removing a directory.",
    link: "Making a link.",
    read: "A read call.",
    write: "A write call.",
    set_attributes: "Changing mode or times.",
    list: "A call that reads a directory.",
    list_entry: "A name that it returns.",
    fsync: "A call of fsync.",
    kb_copied: "1024 bytes between the caller and the cache.",
    buffer_found: "A block found with its header.",
    buffer_from_pages: "A block found in pages only, which gets a header.",
    buffer_filled: "A block that has to be read.",
    name_found: "A name found in the name cache.",
    linear_lookup: "A name searched in the directory, without a hash.",
    chunk_scanned: "512 bytes of a directory searched, with any number of records.",
    chunk_scanned_far: "The same in a directory larger than `near_directory_kb`.",
    entry_scanned: "A record in a searched directory.",
    entry_scanned_far: "The same in a directory larger than `near_directory_kb`.",
    near_directory_kb: "Kilobytes of a directory that stay in the second-level cache.",
    hash_lookup: "A lookup in a hash.",
    hash_entry_inspected: "A record that a hash refers to.",
    hash_entry_built: "An entry added while a hash is built.",
    inode_loaded: "An inode loaded from its block into a new vnode.",
    inode_recycled: "A vnode taken from another inode.",
    dependency_undone: "A write of a block with changes rolled back.",
    disk_request: "Issue and interrupt of a disk request.",
}

/// The limits of the kernel.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostPreset {
    /// Writes in flight at which a writer has to wait.
    pub(crate) running_kb: u32,
    /// Writes in flight at which the writer continues.
    pub(crate) running_low_kb: u32,
    /// The largest request.
    pub(crate) request_kb: u32,
    /// Dirty buffers at which an operation that dirties more has to wait.
    pub(crate) dirty_buffers: u32,
    /// Seconds between runs of the syncer.
    pub(crate) syncer_seconds: u32,
    /// How many times as fast as that of the preset's costs the processor is.
    #[serde(skip, default = "one")]
    pub(crate) processor: f64,
}

fn one() -> f64 {
    1.0
}

/// The volume and its ageing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumePreset {
    /// Its offset on the disk.
    pub(crate) offset_mb: u64,
    /// Its size.
    pub(crate) size_mb: u64,
    /// Block size, bytes.
    pub(crate) block: u32,
    /// Fragment size, bytes.
    pub(crate) fragment: u32,
    /// The largest size of a cylinder group.
    pub(crate) group_mb: u32,
    /// Bytes of space for each inode.
    pub(crate) bytes_per_inode: u32,
    /// The size of a file that dirpref expects, bytes (`newfs -g`).
    pub(crate) avgfilesize: u32,
    /// The files in a directory that dirpref expects (`newfs -h`).
    pub(crate) avgfpdir: u32,
    /// Share of the space in use, percent.
    pub used_percent: u32,
    /// The bytes written during ageing, as a multiple of the capacity.
    pub(crate) turnover: f64,
}
