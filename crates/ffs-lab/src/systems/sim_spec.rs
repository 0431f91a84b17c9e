//! The settings of the simulated machine, from the words behind `sim:`.

use ffs_core::OrderingPolicy;

use super::CoreSpec;
use crate::machine::{
    COMMIT_SECONDS, DataMode, JOURNAL_SIZES, JournalSettings, KernelLimits, MEMORY, Preset,
};

/// The words of `sim` besides the options of a mount.
pub(super) const OWN: &str = "sync, async, softdep, suj, stable, noatime, relatime, atime, \
                              data=journal|ordered|writeback, commit=SECONDS, journal_size=SIZE, \
                              machine=NAME|FILE, memory=SIZE, processor=TIMES, seed=, size=MB, \
                              used=, turnover=";
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
    /// The journal in front of the volume.
    pub(crate) journal: Option<JournalSettings>,
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
        let mut spec = SimSpec { preset, core, seed: None, journal: None };
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
        // The mode of the journal comes before its other settings.
        for word in words.iter().filter(|word| word.starts_with("data=")) {
            spec.set_journal(word)?;
        }
        for word in words {
            spec.set(word)?;
        }
        Ok(spec)
    }

    /// Sets the journal's mode, `data=MODE`.
    fn set_journal(&mut self, word: &str) -> std::result::Result<(), String> {
        let mode = match word.split_once('=').map_or("", |(_, mode)| mode) {
            "journal" => DataMode::Journal,
            "ordered" => DataMode::Ordered,
            "writeback" => DataMode::Writeback,
            _ => return Err(format!("'{word}': expected journal, ordered or writeback")),
        };
        if ["softdep", "suj", "sync"].iter().any(|mode| self.core.is_set(mode)) {
            return Err(format!("'{word}': it takes the place of softdep, suj and sync"));
        }
        let before = self.journal.map_or(JournalSettings::new(mode), |journal| journal);
        self.journal = Some(JournalSettings { mode, ..before });
        let options = &mut self.core.options;
        options.ordering = OrderingPolicy::None;
        // Changed metadata joins the running transaction at once.
        (options.tunables.metadelay, options.tunables.dirdelay) = (0, 0);
        Ok(())
    }

    /// The settings of the journal, for one of them.
    fn journal(&mut self, word: &str) -> std::result::Result<&mut JournalSettings, String> {
        let journal = self.journal.as_mut();
        journal.ok_or_else(|| format!("'{word}': there is no journal without data="))
    }

    /// What is durable when a call returns, and what a crash may leave.
    pub(crate) fn durability(&self) -> String {
        let stable = self.core.options.stable;
        let stable_names = "names and attributes on return";
        if let Some(JournalSettings { mode, commit, .. }) = self.journal {
            let names = match stable {
                true => stable_names.to_owned(),
                false => format!("all changes up to a commit, every {commit} s"),
            };
            return format!(
                "{names}; a crash leaves {}",
                match mode {
                    DataMode::Journal => "names and content of the last commit",
                    DataMode::Ordered => "names of the last commit, with their content or newer",
                    DataMode::Writeback => "names of the last commit, perhaps with foreign content",
                }
            );
        }
        let (names, crash) = match self.core.options.ordering {
            OrderingPolicy::Sync => {
                ("names on return, content within 30 s", "all names, perhaps without their content")
            }
            OrderingPolicy::SoftUpdates => {
                ("all changes in order, within 30 s", "a usable volume with lost space")
            }
            OrderingPolicy::Journaled => {
                ("all changes in order, within 30 s", "a usable volume after a short recovery")
            }
            OrderingPolicy::Superblock => ("as the superblock has it", "the same"),
            OrderingPolicy::Async | OrderingPolicy::None => {
                ("nothing before sync", "anything, also in older files")
            }
        };
        format!("{}; a crash leaves {crash}", if stable { stable_names } else { names })
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
            "data" => self.set_journal(word)?,
            "commit" => {
                let seconds = value.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
                let seconds = match value {
                    // As in ext3: 0 is the default.
                    "0" => Some(COMMIT_SECONDS),
                    _ => seconds,
                };
                let seconds = seconds.ok_or_else(|| number("seconds, 0 to 3600"))?;
                self.journal(word)?.commit = seconds;
            }
            "journal_size" => {
                let bytes = ffs_core::size(value).filter(|bytes| JOURNAL_SIZES.contains(bytes));
                let bytes = bytes.ok_or_else(|| number("4m to 400m"))?;
                self.journal(word)?.bytes = bytes;
            }
            "softdep" | "suj" | "sync" if self.journal.is_some() => {
                return Err(format!("'{word}': data= takes the place of softdep, suj and sync"));
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
