use super::*;
use crate::target::{Facts, Stat};
use crate::watch::Unwatched;
use std::collections::BTreeMap;

/// A target that is a list of names, with a time that goes on a microsecond an operation.
#[derive(Default)]
struct Toy {
    names: Vec<Vec<u8>>,
    time: std::cell::Cell<u64>,
    seen: BTreeMap<&'static str, Vec<Vec<u8>>>,
    cold: bool,
}

impl Toy {
    fn note(&mut self, op: &'static str, name: &[u8]) {
        self.time.set(self.time.get() + 1);
        self.seen.entry(op).or_default().push(name.to_owned());
    }
}

impl Target for Toy {
    fn label(&self) -> &str {
        "toy"
    }
    fn facts(&self) -> Facts {
        Facts { fs: "toy".into(), durability: "none".into() }
    }
    fn now(&self) -> Duration {
        Duration::from_micros(self.time.get())
    }
    fn cpu(&self) -> Duration {
        Duration::from_micros(self.time.get() / 2)
    }
    fn begin(&mut self, _: u64) -> Result<DirId> {
        Ok(DirId(0))
    }
    fn end(&mut self) -> Result<()> {
        self.names.clear();
        Ok(())
    }
    fn mkdir(&mut self, _: DirId, _: &[u8]) -> Result<DirId> {
        Ok(DirId(1))
    }
    fn create(&mut self, _: DirId, name: &[u8]) -> Result<()> {
        self.note("create", name);
        self.names.push(name.to_owned());
        Ok(())
    }
    fn stat(&mut self, _: DirId, name: &[u8]) -> Result<Option<Stat>> {
        self.note("stat", name);
        let at = self.names.iter().position(|n| n == name);
        Ok(at.map(|at| Stat { ino: at as u64, size: 0 }))
    }
    fn rename(&mut self, _: DirId, from: &[u8], to: &[u8]) -> Result<()> {
        self.note("rename", from);
        let at = self.names.iter().position(|n| n == from).unwrap();
        self.names[at] = to.to_owned();
        Ok(())
    }
    fn unlink(&mut self, _: DirId, name: &[u8]) -> Result<()> {
        self.note("unlink", name);
        let at = self.names.iter().position(|n| n == name).unwrap();
        self.names.remove(at);
        Ok(())
    }
    fn list(&mut self, _: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.time.set(self.time.get() + self.names.len() as u64);
        self.names.iter().for_each(|name| each(name));
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        self.time.set(self.time.get() + 1000);
        Ok(())
    }
    fn forget(&mut self) -> Result<Forgotten> {
        let why = || "cannot".to_owned();
        Ok(if self.cold { Forgotten::Done("did") } else { Forgotten::Impossible(why()) })
    }
}

fn run(toy: &mut Toy, plan: Plan) -> Vec<(Phase, Outcome)> {
    let mut round = Round::begin(toy, plan).unwrap();
    Phase::ALL.map(|phase| (phase, round.run(phase, &mut Unwatched).unwrap())).to_vec()
}

#[test]
fn a_round_does_every_operation_once_and_only_the_operations_count() {
    let mut toy = Toy { cold: true, ..Toy::default() };
    let plan = Plan { n: 50, seed: 3, order: Order::Shuffled };
    for (phase, outcome) in run(&mut toy, plan) {
        let Outcome::Measured(measured) = outcome else { panic!("{phase:?} was skipped") };
        assert_eq!(measured.timing.ops, 50, "{phase:?}");
        assert!((measured.timing.us_per_op() - 1.0).abs() < 1e-9, "{phase:?} {measured:?}");
        let sync = Duration::from_micros(if phase.changes() { 1000 } else { 0 });
        assert_eq!(measured.sync, sync, "{phase:?}");
    }
    assert!(toy.names.is_empty());
    let count = |op| toy.seen[op].len();
    // Warm-up, warm, cold and missing.
    assert_eq!((count("create"), count("stat"), count("rename")), (50, 200, 50));
    assert_ne!(toy.seen["create"], toy.seen["rename"], "phases have their own orders");
    assert_eq!(toy.seen["create"][0].len(), 7);
}

#[test]
fn what_cannot_be_cold_is_not_measured() {
    let mut toy = Toy::default();
    let plan = Plan { n: 5, seed: 3, order: Order::Shuffled };
    let skipped: Vec<Phase> = run(&mut toy, plan)
        .into_iter()
        .filter(|(_, outcome)| *outcome == Outcome::Skipped("cannot".into()))
        .map(|(phase, _)| phase)
        .collect();
    assert_eq!(skipped, [Phase::StatCold]);
}

#[test]
fn in_listing_order_files_go_as_the_directory_shows_them() {
    let mut toy = Toy { cold: true, ..Toy::default() };
    let plan = Plan { n: 20, seed: 9, order: Order::Listing };
    run(&mut toy, plan);
    assert_eq!(toy.seen["create"], toy.seen["rename"]);
    assert_eq!(toy.seen["create"], toy.seen["stat"][..20]);
    let removed = toy.seen["unlink"].iter().map(|n| n[1..].to_owned());
    assert!(removed.eq(toy.seen["create"].iter().map(|n| n[1..].to_owned())));
}

#[test]
fn a_watcher_can_stop_a_phase() {
    struct Stop;
    impl Watch for Stop {
        fn done(&mut self, _: u64) -> bool {
            false
        }
    }
    let mut toy = Toy::default();
    let mut round =
        Round::begin(&mut toy, Plan { n: 5, seed: 1, order: Order::default() }).unwrap();
    let error = round.run(Phase::Create, &mut Stop).unwrap_err();
    assert!(matches!(error, LabError::Interrupted));
}

#[test]
fn a_timing_holds_every_lap() {
    let mut toy = Toy::default();
    let names = Names::new("f", 6, 0..10_000);
    let timing = create_all(&mut toy, DirId(0), &names, &mut Unwatched).unwrap();
    assert_eq!((timing.ops, timing.total), (10_000, Duration::from_millis(10)));
}
