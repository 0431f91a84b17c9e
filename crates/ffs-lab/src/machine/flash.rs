//! A drive of flash memory.
//!
//! A read takes the latency of the medium and the transfer. A write completes in the drive's
//! buffer, which the channels of the medium empty at their common rate. If the buffer is full, the
//! write waits. A flush waits until the buffer is empty, and takes a fixed time.
//!
//! A drive that takes several commands at a time has a channel for each: their latencies overlap.
//! The controller and the interface serve one after the other.
//!
//! # Invariants
//! 1. Times depend on the sizes of the requests and on what is in the buffer, never on places.
//! 2. A command that comes when no other is in progress takes the same time on every such drive.
//!
//! Not modelled: garbage collection, wear, and commands that need the same channel.

use super::geometry::SECTOR;
use super::parameters::FlashPreset;

/// The state of the drive.
#[derive(Debug)]
pub(super) struct Flash {
    read: u64,
    write: u64,
    flush: u64,
    /// Nanoseconds for each sector on the interface.
    bus: u64,
    /// Nanoseconds for each sector that the channels write.
    program: u64,
    /// Sectors of the buffer.
    buffer: u64,
    /// When the buffer is empty, if nothing else is written.
    empty: u64,
    /// Nanoseconds of the controller for each command.
    command: u64,
    /// When the interface and the controller are free.
    free: u64,
}

impl Flash {
    /// A drive with an empty buffer of `buffer_kb`, at an interface of `bus_mb_s`.
    pub(super) fn new(f: &FlashPreset, buffer_kb: u32, bus_mb_s: f64) -> Flash {
        let us = |us: f64| (us * 1e3) as u64;
        let sector = |mb_s: f64| (SECTOR as f64 * 1e3 / mb_s) as u64;
        Flash {
            read: us(f.read_us),
            write: us(f.write_us),
            flush: us(f.flush_us),
            bus: sector(bus_mb_s),
            program: sector(f.program_mb_s),
            buffer: u64::from(buffer_kb) * 1024 / SECTOR,
            empty: 0,
            command: us(f.command_us),
            free: 0,
        }
    }

    /// A read that is requested at time `at`. Returns the time of completion.
    pub(super) fn read(&mut self, at: u64, sectors: u64) -> u64 {
        self.transfer(at + self.read, sectors)
    }

    /// A write that is requested at time `at`. Returns the time at which the buffer has it.
    pub(super) fn write(&mut self, at: u64, sectors: u64) -> u64 {
        // The buffer has space when all but `buffer` sectors, this write included, are written.
        let space = self.empty + sectors * self.program;
        let space = space.saturating_sub(self.buffer * self.program);
        let done = self.transfer(at.max(space) + self.write, sectors);
        self.empty = self.empty.max(at) + sectors * self.program;
        done
    }

    /// A transfer that is ready at time `at`. Returns the time at which it ends.
    fn transfer(&mut self, at: u64, sectors: u64) -> u64 {
        let (begin, time) = (at.max(self.free), sectors * self.bus);
        self.free = begin + time.max(self.command);
        begin + time
    }

    /// A flush that is requested at time `at`. Returns the time of completion.
    pub(super) fn flush(&self, at: u64) -> u64 {
        at.max(self.empty) + self.flush
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(commands: u32) -> FlashPreset {
        FlashPreset {
            read_us: 50.0,
            write_us: 20.0,
            flush_us: 500.0,
            program_mb_s: 512.0,
            commands,
            command_us: 2.0,
        }
    }

    /// 4 KiB take 4 us on the interface, more than the 2 us of the controller.
    #[test]
    fn latencies_overlap_and_transfers_do_not() {
        let mut drive = Flash::new(&preset(32), 1 << 20, 1024.0);
        let ends: Vec<u64> = (0..4).map(|_| drive.read(0, 8)).collect();
        assert_eq!(ends, [54_000, 58_000, 62_000, 66_000]);
        // Of one sector, the controller is the limit.
        let mut drive = Flash::new(&preset(32), 1 << 20, 1024.0);
        let ends: Vec<u64> = (0..3).map(|_| drive.write(0, 1)).collect();
        assert_eq!(ends, [20_500, 22_500, 24_500]);
        // One after the other, nothing waits for the controller.
        assert_eq!(drive.read(ends[2], 1), ends[2] + 50_500);
    }

    #[test]
    fn a_full_buffer_writes_at_the_rate_of_the_channels() {
        let mut drive = Flash::new(&preset(1), 1024, 1024.0);
        // 64 KiB: 64 us on the interface, 128 us in the channels.
        assert_eq!(drive.read(0, 128), 50_000 + 128 * 500);
        let mut drive = Flash::new(&preset(1), 1024, 1024.0);
        let mut now = 0;
        let mut times = Vec::new();
        for _ in 0..64 {
            let done = drive.write(now, 128);
            times.push(done - now);
            now = done;
        }
        assert_eq!(times[0], 20_000 + 128 * 500);
        let rate = 128.0 * SECTOR as f64 / times[63] as f64 * 1e3;
        assert!(rate < 513.0, "{rate} MB/s with a full buffer");
        assert!(drive.flush(now) > now + 500_000, "the buffer has something left");
    }
}
