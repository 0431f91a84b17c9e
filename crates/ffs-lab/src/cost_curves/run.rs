//! The measurement of one round of curves.

use super::point::{counts, per_op};
use super::setting::{Passes, Setting};
use super::{CurveRequest, Record, SMALL, SMALL_WINDOW, WINDOW};
use crate::dirs::{DirPlan, Timing, VisitOrder};
use crate::dirs::{create_all, listed, miss_all, stat_all, unlink_all};
use crate::error::{LabError, Result};
use crate::file_names::FileNames;
use crate::shuffle::{Purpose, shuffled};
use crate::systems::{Demand, DirId, Target};
use crate::watch::Watch;

/// Digits that make a record of a small directory 20 bytes long.
const SMALL_DIGITS: usize = 10;
/// Small directories made for each curve: a single one is too short to time.
const SMALL_REPEATS: u32 = 20;

/// One round of all curves on a target.
pub(super) struct CurveRun<'a> {
    pub(super) request: &'a CurveRequest,
    pub(super) target: &'a mut dyn Target,
    pub(super) watch: &'a mut dyn Watch,
    pub(super) record: &'a mut Record<'a>,
    pub(super) seed: u64,
}

/// The names of a directory that grows, and its curve.
struct Growth<'a> {
    series: &'a str,
    names: &'a FileNames,
    window: usize,
}

impl CurveRun<'_> {
    /// Makes an empty directory for `files` files under a setting.
    fn begin(&mut self, setting: &Setting, files: u64) -> Result<DirId> {
        let dir = self.target.begin(Demand::files(files))?;
        for (name, value) in setting.options {
            if self.target.set_tunable(name, value)?.is_none() {
                let why = "has no switches: the figures are those of the library";
                return Err(LabError::unusable(self.target.label(), why));
            }
        }
        Ok(dir)
    }

    /// Measures all curves of a setting.
    pub(super) fn setting(&mut self, setting: &Setting) -> Result<()> {
        if setting.passes == Passes::Directory && self.request.wants(2) {
            self.growing(setting)?;
            self.small(setting)?;
        }
        if !setting.passes.figures().iter().any(|figure| self.request.wants(*figure)) {
            return Ok(());
        }
        for n in self.request.sizes() {
            self.watch.step(&format!("{} n={n}", setting.name));
            let plan = DirPlan { n, seed: self.seed, order: VisitOrder::Listing };
            match setting.passes {
                Passes::Directory => self.directory(setting, plan)?,
                Passes::NameCache => self.name_cache(setting, plan)?,
                Passes::Fresh => self.fresh(setting, plan)?,
            }
        }
        Ok(())
    }

    /// Figure 2.
    fn growing(&mut self, setting: &Setting) -> Result<()> {
        let order = VisitOrder::Shuffled;
        let plan = DirPlan { n: self.request.max, seed: self.seed, order };
        self.watch.step(&format!("{} create", setting.name));
        let names = plan.names("f", Purpose::Create);
        self.windows(setting, &Growth { series: setting.name, names: &names, window: WINDOW })
    }

    /// Figure 2 for small directories.
    fn small(&mut self, setting: &Setting) -> Result<()> {
        let series = format!("{} small", setting.name);
        for repeat in 0..SMALL_REPEATS {
            let seed = self.seed.wrapping_add(u64::from(repeat));
            let order = shuffled(SMALL, seed, Purpose::Create);
            let names = FileNames::new("f", SMALL_DIGITS, order);
            let growth = Growth { series: &series, names: &names, window: SMALL_WINDOW };
            self.windows(setting, &growth)?;
        }
        Ok(())
    }

    /// Creates files and measures each window of them.
    fn windows(&mut self, setting: &Setting, growth: &Growth<'_>) -> Result<()> {
        let dir = self.begin(setting, growth.names.len() as u64)?;
        let mut n = 0;
        for window in growth.names.windows(growth.window) {
            n += window.len() as u32;
            self.pass(2, growth.series, n, |t, watch| create_all(t, dir, &window, watch))?;
        }
        Ok(())
    }

    /// Makes a new directory with the plan's files.
    fn populate(&mut self, setting: &Setting, plan: &DirPlan) -> Result<DirId> {
        let dir = self.begin(setting, u64::from(plan.n))?;
        let names = plan.names("f", Purpose::Create);
        create_all(self.target, dir, &names, self.watch)?;
        Ok(dir)
    }

    fn directory(&mut self, setting: &Setting, plan: DirPlan) -> Result<()> {
        let dir = self.populate(setting, &plan)?;
        let n = plan.n;
        let in_order = listed(self.target, dir, &plan)?;
        let random = plan.names("f", Purpose::Stat);
        let missing = plan.names("m", Purpose::Miss);
        self.target.forget()?;
        self.pass(4, setting.name, n, |t, watch| stat_all(t, dir, &in_order, watch))?;
        self.target.forget()?;
        self.pass(5, setting.name, n, |t, watch| stat_all(t, dir, &random, watch))?;
        self.target.forget()?;
        self.pass(6, setting.name, n, |t, watch| miss_all(t, dir, &missing, watch))?;
        let again = format!("{} again", setting.name);
        self.pass(6, &again, n, |t, watch| miss_all(t, dir, &missing, watch))?;
        self.target.forget()?;
        self.pass(3, setting.name, n, |t, watch| unlink_all(t, dir, &in_order, watch))
    }

    fn name_cache(&mut self, setting: &Setting, plan: DirPlan) -> Result<()> {
        let dir = self.populate(setting, &plan)?;
        let n = plan.n;
        let in_order = listed(self.target, dir, &plan)?;
        let random = plan.names("f", Purpose::Stat);
        self.target.forget()?;
        stat_all(self.target, dir, &in_order, self.watch)?;
        self.pass(4, setting.name, n, |t, watch| stat_all(t, dir, &in_order, watch))?;
        stat_all(self.target, dir, &random, self.watch)?;
        self.pass(5, setting.name, n, |t, watch| stat_all(t, dir, &random, watch))
    }

    fn fresh(&mut self, setting: &Setting, plan: DirPlan) -> Result<()> {
        let n = plan.n;
        let dir = self.populate(setting, &plan)?;
        let in_order = listed(self.target, dir, &plan)?;
        self.pass(4, setting.name, n, |t, watch| stat_all(t, dir, &in_order, watch))?;
        let dir = self.populate(setting, &plan)?;
        let random = plan.names("f", Purpose::Stat);
        self.pass(5, setting.name, n, |t, watch| stat_all(t, dir, &random, watch))
    }

    /// Measures one pass over files of a directory with `n` entries.
    fn pass(
        &mut self,
        figure: u8,
        series: &str,
        n: u32,
        pass: impl FnOnce(&mut dyn Target, &mut dyn Watch) -> Result<Timing>,
    ) -> Result<()> {
        let before = counts(self.target);
        let timing = pass(self.target, self.watch)?;
        let counts = per_op(before, counts(self.target), timing.ops);
        if self.request.wants(figure) {
            (self.record)((figure, series.to_owned(), n), &timing, counts);
        }
        Ok(())
    }
}
