//! The settings of a volume in process, from the words behind `core:` or `sim:`.

use std::path::PathBuf;
use std::sync::Arc;

use ffs_core::{Atime, MountOptions, OrderingPolicy, TunableError, nearest, suggestion};
use ffs_ondisk::{Endian, Format};

use crate::error::{LabError, Result};
use crate::timer::Timer;

/// The environment of a target.
#[derive(Clone)]
pub struct Context {
    /// The clock.
    pub timer: Arc<dyn Timer>,
    /// The seed of the random numbers of a file system.
    pub seed: u64,
}

/// The settings of a volume in process.
#[derive(Debug, Clone)]
pub struct CoreSpec {
    /// Mount options; those that the user did not set follow the number of files.
    pub options: MountOptions,
    /// An image file that is made for the run and removed; without it, memory.
    pub image: Option<PathBuf>,
    /// Format of the volume.
    pub format: Format,
    /// Its byte order.
    pub endian: Endian,
    /// Block size, bytes.
    pub bsize: Option<u32>,
    /// Fragment size, bytes.
    pub fsize: Option<u32>,
    /// Bytes of the volume; `None`: enough for the files.
    pub size: Option<u64>,
    /// The options that the user set.
    pub set: Vec<String>,
}

impl Default for CoreSpec {
    fn default() -> Self {
        // As the file systems of the kernel: no call waits for the disk before a sync.
        let options = MountOptions {
            ordering: OrderingPolicy::None,
            atime: Atime::Relative,
            ..MountOptions::default()
        };
        CoreSpec {
            options,
            image: None,
            format: Format::Ufs2,
            endian: Endian::Little,
            bsize: None,
            fsize: None,
            size: None,
            set: Vec::new(),
        }
    }
}

impl CoreSpec {
    pub(super) fn parse(label: &str, words: &str) -> Result<CoreSpec> {
        let mut spec = CoreSpec::default();
        for word in words.split(',').filter(|word| !word.is_empty()) {
            spec.set(word).map_err(|why| LabError::spec(label, why))?;
        }
        Ok(spec)
    }

    /// Applies one `NAME=VALUE`, or a name that needs no value.
    ///
    /// # Errors
    /// The reason, as half a sentence.
    pub fn set(&mut self, word: &str) -> std::result::Result<(), String> {
        self.set_or(word, OWN)
    }

    /// The same for a target whose words besides the mount options are `own`.
    pub(super) fn set_or(
        &mut self,
        word: &str,
        own: &'static str,
    ) -> std::result::Result<(), String> {
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        if !self.set_own(name, value)? {
            // `on` and `off` mean 1 and 0 also for a numeric option.
            let value = value.map(|v| match (v, self.takes_words(name)) {
                ("on", false) => "1",
                ("off", false) => "0",
                (v, _) => v,
            });
            self.options.tunables.set(name, value).map_err(|error| match error {
                TunableError::Unknown { nearest: None, .. } => {
                    let names = own.split(", ").filter_map(|word| word.split('=').next());
                    let hint = nearest(name, names).map_or_else(
                        || format!("; a switch of a mount, or one of: {own}"),
                        |near| suggestion(Some(near)),
                    );
                    format!("{error}{hint}")
                }
                _ => error.to_string(),
            })?;
        }
        // Always the short name: see `is_set`.
        let known = self.options.tunables.list();
        let option = known.iter().find(|t| t.name == name).map_or(name, |t| t.option);
        self.set.push(option.to_owned());
        Ok(())
    }

    /// Whether the option has `off` among its words.
    fn takes_words(&self, name: &str) -> bool {
        let known = self.options.tunables.list();
        let found = known.iter().find(|t| t.name == name || t.option == name);
        found.is_some_and(|t| t.kind.takes().contains("off"))
    }

    /// Sets a word that is no mount option; false if `name` is not such a word.
    fn set_own(&mut self, name: &str, value: Option<&str>) -> std::result::Result<bool, String> {
        let expected = |what: &str| {
            let given = value.unwrap_or_default();
            format!("'{name}={given}': expected {what}")
        };
        match (name, value) {
            ("softdep", None) => self.options.ordering = OrderingPolicy::SoftUpdates,
            ("suj", None) => self.options.ordering = OrderingPolicy::Journaled,
            ("sync", None) => self.options.ordering = OrderingPolicy::Sync,
            ("async", None) => self.options.ordering = OrderingPolicy::None,
            ("stable", None) => self.options.stable = true,
            ("noatime", None) => self.options.atime = Atime::Never,
            ("relatime", None) => self.options.atime = Atime::Relative,
            ("atime", None) => self.options.atime = Atime::Always,
            ("format", Some("ufs1")) => self.format = Format::Ufs1,
            ("format", Some("ufs2")) => self.format = Format::Ufs2,
            ("format", _) => return Err(expected("ufs1 or ufs2")),
            ("endian", Some("little")) => self.endian = Endian::Little,
            ("endian", Some("big")) => self.endian = Endian::Big,
            ("endian", _) => return Err(expected("little or big")),
            ("bsize" | "fsize" | "size", _) => {
                let bytes =
                    value.and_then(ffs_core::size).ok_or_else(|| expected("a size such as 32k"))?;
                let block = || u32::try_from(bytes).map_err(|_| expected("a size such as 32k"));
                match name {
                    "bsize" => self.bsize = Some(block()?),
                    "fsize" => self.fsize = Some(block()?),
                    _ => self.size = Some(bytes),
                }
            }
            ("image", Some(path)) if !path.is_empty() => self.image = Some(PathBuf::from(path)),
            ("image", _) => return Err(expected("a file that does not exist yet")),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the user set `name`, a mount option.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.set.iter().any(|set| set == name)
    }
}

/// The words of a core target besides the mount options.
pub(super) const OWN: &str = "sync, async, softdep, suj, stable, noatime, relatime, atime, \
                              format=ufs1|ufs2, endian=little|big, bsize=, fsize=, size=, \
                              image=FILE";
