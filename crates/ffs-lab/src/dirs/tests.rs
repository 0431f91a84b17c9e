use super::*;
use crate::systems::model::Model;
use crate::watch::Unwatched;

fn toy(cold: bool) -> Model {
    let mut toy = Model::default();
    (toy.cold, toy.keep_names) = (cold, true);
    toy
}

fn run(toy: &mut Model, plan: DirPlan) -> Vec<(Phase, PhaseOutcome)> {
    let mut round = Round::begin(toy, plan).unwrap();
    Phase::ALL.map(|phase| (phase, round.run(phase, &mut Unwatched).unwrap())).to_vec()
}

#[test]
fn a_round_does_every_operation_once_and_only_the_operations_count() {
    let mut toy = toy(true);
    let plan = DirPlan { n: 50, seed: 3, order: VisitOrder::Shuffled };
    for (phase, outcome) in run(&mut toy, plan) {
        let PhaseOutcome::Measured(measured) = outcome else { panic!("{phase:?} was skipped") };
        assert_eq!(measured.timing.ops, 50, "{phase:?}");
        assert!((measured.timing.us_per_op() - 1.0).abs() < 1e-9, "{phase:?} {measured:?}");
        let sync = Duration::from_micros(if phase.changes() { 1000 } else { 0 });
        assert_eq!(measured.sync, sync, "{phase:?}");
    }
    assert_eq!(toy.left(), Demand::default());
    let count = |op| toy.seen[op].len();
    // Warm-up, warm, cold and missing.
    assert_eq!((count("create"), count("stat"), count("rename")), (50, 200, 50));
    assert_ne!(toy.seen["create"], toy.seen["rename"], "phases have their own orders");
    assert_eq!(toy.seen["create"][0].len(), 7);
}

#[test]
fn what_cannot_be_cold_is_not_measured() {
    let mut toy = toy(false);
    let plan = DirPlan { n: 5, seed: 3, order: VisitOrder::Shuffled };
    let skipped: Vec<Phase> = run(&mut toy, plan)
        .into_iter()
        .filter(|(_, outcome)| *outcome == PhaseOutcome::Skipped("cannot".into()))
        .map(|(phase, _)| phase)
        .collect();
    assert_eq!(skipped, [Phase::StatCold]);
}

#[test]
fn in_listing_order_files_go_as_the_directory_shows_them() {
    let mut toy = toy(true);
    let plan = DirPlan { n: 20, seed: 9, order: VisitOrder::Listing };
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
    let mut toy = toy(false);
    let mut round =
        Round::begin(&mut toy, DirPlan { n: 5, seed: 1, order: VisitOrder::default() }).unwrap();
    let error = round.run(Phase::Create, &mut Stop).unwrap_err();
    assert!(matches!(error, LabError::Interrupted));
}

#[test]
fn a_timing_holds_every_lap() {
    let mut toy = toy(false);
    let names = FileNames::new("f", 6, 0..10_000);
    let dir = toy.begin(Demand::files(10_000)).unwrap();
    let timing = create_all(&mut toy, dir, &names, &mut Unwatched).unwrap();
    assert_eq!((timing.ops, timing.total), (10_000, Duration::from_millis(10)));
}
