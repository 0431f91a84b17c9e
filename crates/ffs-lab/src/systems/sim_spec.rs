//! The settings of the simulated machine, from the words behind `sim:`.

use ffs_core::OrderingPolicy;

use super::CoreSpec;
use crate::machine::{KernelLimits, MEMORY, Preset};

/// The words of `sim` besides the options of a mount.
const OWN: &str = "sync, async, softdep, noatime, relatime, atime, machine=NAME|FILE, \
                   memory=SIZE, processor=TIMES, seed=, size=MB, used=, \
                   turnover=";
/// Short names of options, as in the paper.
const ALIASES: [(&str, &str); 1] = [("vmiodir", "vmiodirenable")];

/// Mount options and machine of the target.
#[derive(Debug, Clone)]
pub struct SimSpec {
    /// The machine.
    pub(crate) preset: Preset,
    /// Mount options.
    pub core: CoreSpec,
    /// The seed; `None`: that of the context.
    pub seed: Option<u64>,
}

impl SimSpec {
    /// Parses `NAME=VALUE,...`.
    ///
    /// # Errors
    /// The reason, as half a sentence.
    pub fn parse(words: &str) -> std::result::Result<SimSpec, String> {
        let words: Vec<&str> = words.split(',').filter(|word| !word.is_empty()).collect();
        let of = |word: &&str, name: &str| word.strip_prefix(name).map(str::to_owned);
        let machine = words.iter().find_map(|word| of(word, "machine="));
        let preset = Preset::find(machine.as_deref().unwrap_or("paper"));
        let preset = preset.map_err(|error| error.to_string())?;
        let core = CoreSpec::default();
        let mut spec = SimSpec { preset, core, seed: None };
        spec.core.options.ordering = OrderingPolicy::Sync;
        for (name, value) in spec.preset.switches.clone() {
            let word = if value.is_empty() { name } else { format!("{name}={value}") };
            spec.core.set(&word)?;
        }
        // The size of the memory sets several switches, and each may be set by itself afterwards.
        let memory = words.iter().find_map(|word| of(word, "memory="));
        if let Some(memory) = memory {
            spec.set_memory(&memory)?;
        }
        for word in words {
            spec.set(word)?;
        }
        Ok(spec)
    }

    /// Sets the limits of a kernel with this memory.
    fn set_memory(&mut self, size: &str) -> std::result::Result<(), String> {
        let bytes = ffs_core::size(size).filter(|bytes| MEMORY.contains(bytes));
        let bytes = bytes.ok_or_else(|| format!("'memory={size}': expected 16m to 4g"))?;
        let limits = KernelLimits::of(bytes);
        self.preset.host.dirty_buffers = u32::try_from(limits.hidirtybuffers).unwrap_or(u32::MAX);
        limits.switches().iter().try_for_each(|word| self.core.set(word))
    }

    /// Applies one `NAME=VALUE`, or a name that needs no value.
    ///
    /// # Errors
    /// The reason, as half a sentence.
    pub fn set(&mut self, word: &str) -> std::result::Result<(), String> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = |what: &str| format!("'{word}': expected {what}");
        match name {
            "machine" | "memory" => {}
            "processor" => {
                let times = value.parse().ok().filter(|times| (0.1..=1000.0).contains(times));
                self.preset.host.processor = times.ok_or_else(|| number("0.1 to 1000"))?;
            }
            "seed" => self.seed = Some(value.parse().map_err(|_| number("a number"))?),
            "used" => {
                let percent = value.parse().ok().filter(|percent| *percent <= 85);
                self.preset.volume.used_percent = percent.ok_or_else(|| number("0 to 85"))?;
            }
            "turnover" => {
                let times = value.parse().ok().filter(|times| (0.0..=100.0).contains(times));
                self.preset.volume.turnover = times.ok_or_else(|| number("0 to 100"))?;
            }
            "size" => {
                let megabytes = value.parse().ok().filter(|mb| (64..=16384).contains(mb));
                self.preset.volume.size_mb =
                    megabytes.ok_or_else(|| number("megabytes, 64 to 16384"))?;
            }
            "suj" => {
                return Err("'suj': the volume of the machine has no journal; core:suj has".into());
            }
            "image" | "format" | "endian" | "bsize" | "fsize" => {
                return Err(format!("'{word}': the volume is the machine's; {OWN}"));
            }
            _ => {
                let known = ALIASES.iter().find(|(short, _)| *short == name);
                let word = match known {
                    Some((short, long)) => word.replacen(short, long, 1),
                    None => word.to_owned(),
                };
                self.core.set_or(&word, OWN)?;
            }
        }
        Ok(())
    }
}
