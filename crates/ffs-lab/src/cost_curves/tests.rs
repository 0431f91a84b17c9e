//! The curves have the points they announce, and the shapes of the paper.

use std::sync::Arc;

use super::*;
use crate::timer::StepTimer;
use crate::watch::Unwatched;

fn request(figures: &[u8]) -> CurveRequest {
    CurveRequest {
        figures: figures.to_vec(),
        max: 400,
        step: 200,
        seed: 1,
        rounds: 1,
        base: TargetSpec::parse("core").unwrap(),
    }
}

fn draw(figures: &[u8]) -> Vec<Point> {
    let context = Context { timer: Arc::new(StepTimer::new(1000)), seed: 1 };
    request(figures).run(&context, &mut Unwatched).unwrap()
}

fn at<'a>(points: &'a [Point], figure: u8, series: &str, n: u32) -> &'a Point {
    let found = points.iter().find(|p| (p.figure, p.n) == (figure, n) && p.series == series);
    found.unwrap()
}

#[test]
fn every_figure_has_its_curves() {
    let (points, keys) = (draw(&FIGURES), request(&FIGURES).keys());
    let drawn = points.iter().map(|p| (p.figure, p.series.clone(), p.n));
    assert!(drawn.eq(keys), "points that were not announced, or the other way round");
    for figure in FIGURES {
        for series in ["linear", "dirhash"] {
            let last = points.iter().filter(|p| p.figure == figure && p.series == series);
            assert_eq!(last.map(|p| p.n).max(), Some(400), "{figure} {series}");
        }
    }
    for series in ["name cache minvnodes=1000", "name cache", "primed", "not primed"] {
        assert!(at(&points, 4, series, 200).us_per_op > 0.0);
        assert!(at(&points, 5, series, 400).us_per_op > 0.0);
    }
    let small = points.iter().filter(|p| p.series == "dirhash small").map(|p| p.n);
    assert_eq!(small.max(), Some(SMALL));
    let columns = Point::CSV_HEAD.split(',').count();
    assert!(points.iter().all(|p| p.csv().split(',').count() == columns));
}

/// The shapes of the paper, in work done and not in time.
#[test]
fn without_a_hash_work_grows_with_the_directory_and_with_one_it_does_not() {
    let points = draw(&[2, 5, 6]);
    let bytes = |figure, series, n| at(&points, figure, series, n).dir_bytes_per_op;
    let growth = |figure| bytes(figure, "linear", 400) / bytes(figure, "linear", 200);
    assert!(growth(2) > 1.5, "making a name searches all there are: {}", growth(2));
    assert!(growth(5) > 1.7, "random order searches half the directory: {}", growth(5));
    assert!(growth(6) > 1.7, "a miss searches all of it: {}", growth(6));
    for n in [200, 400] {
        let (hit, miss) = (at(&points, 5, "dirhash", n), at(&points, 6, "dirhash", n));
        assert_eq!((hit.dir_bytes_per_op, miss.dir_bytes_per_op), (0.0, 0.0));
        assert!((0.9..=1.1).contains(&hit.hash_blocks_per_op), "{hit:?}");
        assert_eq!(miss.hash_blocks_per_op, 0.0);
        for series in ["name cache", "primed"] {
            let known = at(&points, 5, series, n);
            assert_eq!((known.hash_probes_per_op, known.hash_blocks_per_op), (0.0, 0.0));
        }
        assert!(at(&points, 5, "not primed", n).hash_blocks_per_op > 0.9);
    }
}

#[test]
fn figures_that_are_not_there_are_refused() {
    assert!(request(&[7]).check().unwrap_err().to_string().contains('7'));
}
