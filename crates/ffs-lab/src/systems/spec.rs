//! A target as it is given on a command line: `core`, `sim`, either with `:name=value,...`, or a
//! directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_core::{nearest, suggestion};

use super::core::CoreTarget;
use super::core_spec::{self, Context, CoreSpec};
use super::dir::DirTarget;
use super::sim::SimTarget;
use super::sim_spec::{self, SimSpec};
use super::{Demand, Shared, Target};
use crate::error::{LabError, Result};

/// A parsed target that is not open yet.
#[derive(Debug, Clone)]
pub struct TargetSpec {
    /// As it was given.
    pub label: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Core(Box<CoreSpec>),
    Sim(Box<SimSpec>),
    Dir(PathBuf),
}

/// The settings of the targets in process, besides the options of a mount: `NAME=` or `NAME=VALUES`
/// for one with a value, otherwise a word alone.
pub(crate) fn own_words() -> impl Iterator<Item = &'static str> {
    [core_spec::OWN, sim_spec::OWN].into_iter().flat_map(|words| words.split(", "))
}

impl TargetSpec {
    /// Parses `core`, `sim`, either with `:NAME=VALUE,...`, or a directory.
    ///
    /// # Errors
    /// [`LabError::Spec`] with the valid forms.
    pub fn parse(label: &str) -> Result<TargetSpec> {
        let (word, rest) = label.split_once(':').unwrap_or((label, ""));
        let kind = match word {
            "core" => Kind::Core(Box::new(CoreSpec::parse(label, rest)?)),
            "sim" => {
                let spec = SimSpec::parse(rest).map_err(|why| LabError::spec(label, why))?;
                Kind::Sim(Box::new(spec))
            }
            _ if Path::new(label).is_dir() => Kind::Dir(PathBuf::from(label)),
            _ => {
                let why = "is neither 'core', 'sim', one of them with ':NAME=VALUE,...', \
                           nor a directory";
                let hint = suggestion(nearest(word, ["core", "sim"].into_iter()));
                return Err(LabError::spec(label, format!("{why}{hint}")));
            }
        };
        Ok(TargetSpec { label: label.to_owned(), kind })
    }

    /// The library with these settings, with this label.
    #[must_use]
    pub fn core(label: &str, spec: CoreSpec) -> TargetSpec {
        TargetSpec { label: label.to_owned(), kind: Kind::Core(Box::new(spec)) }
    }

    /// The settings, if the target is the library.
    #[must_use]
    pub fn as_core(&self) -> Option<&CoreSpec> {
        match &self.kind {
            Kind::Core(spec) => Some(spec),
            Kind::Sim(_) | Kind::Dir(_) => None,
        }
    }

    /// The simulated machine with these settings, with this label.
    #[must_use]
    pub fn sim(label: &str, spec: SimSpec) -> TargetSpec {
        TargetSpec { label: label.to_owned(), kind: Kind::Sim(Box::new(spec)) }
    }

    /// The settings, if the target is the library on a simulated machine.
    #[must_use]
    pub fn as_sim(&self) -> Option<&SimSpec> {
        match &self.kind {
            Kind::Sim(spec) => Some(spec),
            Kind::Core(_) | Kind::Dir(_) => None,
        }
    }

    /// Opens the target for several threads, and makes an empty directory to work in.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if it cannot be used, [`LabError::Spec`] for a simulated machine.
    pub(crate) fn open_shared(&self, context: &Context, demand: Demand) -> Result<Shared> {
        match &self.kind {
            Kind::Core(spec) => {
                let mut target = CoreTarget::new(&self.label, (**spec).clone(), context.clone());
                target.begin(demand)?;
                Ok(Shared::Library(Box::new(target)))
            }
            Kind::Dir(path) => {
                let mut target = DirTarget::open(&self.label, path, Arc::clone(&context.timer))?;
                target.begin(demand)?;
                Ok(Shared::System(Box::new(target)))
            }
            Kind::Sim(_) => {
                Err(LabError::spec(&self.label, "a simulated machine runs one thread; use core"))
            }
        }
    }

    /// Opens the target.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if it cannot be used.
    pub fn open(&self, context: &Context) -> Result<Box<dyn Target>> {
        Ok(match &self.kind {
            Kind::Core(spec) => {
                Box::new(CoreTarget::new(&self.label, (**spec).clone(), context.clone()))
            }
            Kind::Sim(spec) => {
                Box::new(SimTarget::new(&self.label, (**spec).clone(), context.seed))
            }
            Kind::Dir(path) => {
                Box::new(DirTarget::open(&self.label, path, Arc::clone(&context.timer))?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use ffs_core::OrderingPolicy;
    use ffs_ondisk::Format;

    use super::*;

    fn refused(label: &str) -> String {
        TargetSpec::parse(label).unwrap_err().to_string()
    }

    #[test]
    fn targets_are_understood() {
        let spec = TargetSpec::parse("core:sync,format=ufs1,bsize=16k,maxvnodes=77").unwrap();
        let core = spec.as_core().unwrap();
        assert_eq!(core.options.ordering, OrderingPolicy::Sync);
        assert_eq!((core.format, core.bsize), (Format::Ufs1, Some(16384)));
        assert_eq!(core.options.tunables.maxvnodes, 77);
        assert!(core.is_set("maxvnodes") && !core.is_set("cache"));
        let long = TargetSpec::parse("core:kern.maxvnodes=78").unwrap();
        assert!(long.as_core().unwrap().is_set("maxvnodes"), "BSD's name is as good");
        assert!(TargetSpec::parse("core").unwrap().as_core().is_some());
        assert!(TargetSpec::parse("/").unwrap().as_core().is_none());
        let flag = TargetSpec::parse("core:doreallocblks=off").unwrap();
        assert!(!flag.as_core().unwrap().options.tunables.doreallocblks);
    }

    #[test]
    fn targets_that_are_none_are_refused_with_a_hint() {
        assert!(refused("/no/such/dir").contains("directory"));
        assert!(
            refused("core:xyz").contains("or one of: sync, ") && refused("cor").contains("'core'")
        );
        assert!(refused("core:maxvnods=3").contains("maxvnodes"));
        assert!(refused("core:format=ufs3").contains("ufs1 or ufs2"));
        let many = refused("core:maxvnodes=many");
        assert!(many.contains("a number") && !many.contains("endian"), "{many}");
        assert!(refused("core:endin=big").contains("did you mean 'endian'?"));
        assert!(refused("core:bsize=").contains("size"));
        assert!(refused("core:image=").contains("file"));
    }
}
