//! The ratios of measured to published numbers, on one logarithmic axis around 1.

use super::scale::{self, Scale};
use super::svg::{Anchor, Figure, SvgWriter, csv};
use super::times;

const WIDTH: f64 = 384.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 372.0;
const ROW: f64 = 34.0;
/// Ratios beyond this are drawn at the edge.
const FARTHEST: f64 = 100.0;

/// The ratios of a section.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RatioRow {
    /// The title of the section.
    pub(crate) label: String,
    /// The name and ratio of each number.
    pub(crate) dots: Vec<(String, f64)>,
}

/// Draws the figure; `None` without a ratio.
#[must_use]
pub(crate) fn draw(id: &str, title: &str, rows: &[RatioRow]) -> Option<Figure> {
    let ratios = || rows.iter().flat_map(|row| row.dots.iter().map(|dot| dot.1));
    let away = |ratio: f64| ratio.max(1.0 / ratio).min(FARTHEST);
    ratios().next()?;
    let far = ratios().map(away).fold(2.0, f64::max) * 1.1;
    let x = Scale::log((1.0 / far, far), (LEFT, RIGHT));
    let height = 26.0 + ROW * rows.len() as f64 + 6.0;
    let mut svg = SvgWriter::default();
    let (a, b) = (x.at(1.0 / 1.3), x.at(1.3));
    svg.rect((a, 20.0), (b - a, height - 24.0), 2.0, "band", "within a factor of 1.3");
    let marks = x.marks(44.0);
    for mark in &marks {
        let class = if (*mark - 1.0).abs() < 1e-9 { "one" } else { "grid" };
        svg.line((x.at(*mark), 20.0), (x.at(*mark), height - 4.0), class, "");
        let label = format!("×{}", scale::label(&marks, *mark));
        svg.text((x.at(*mark), 13.0), Anchor::Middle, "soft small", &label);
    }
    for (n, row) in rows.iter().enumerate() {
        let top = 22.0 + n as f64 * ROW;
        svg.text((LEFT, top + 11.0), Anchor::Start, "small halo", &row.label);
        for (what, ratio) in &row.dots {
            let class = if away(*ratio) <= 1.3 { "f2 dot" } else { "f1 dot" };
            let tip = format!("{what}: {}", times(*ratio));
            svg.circle((x.at(*ratio), top + 22.0), 3.6, class, &tip);
        }
    }
    let near = ratios().filter(|ratio| away(*ratio) <= 1.3).count();
    let desc = format!(
        "{near} of {} numbers are within a factor of 1.3 of the published ones.",
        ratios().count()
    );
    let lines = rows.iter().flat_map(|row| {
        row.dots.iter().map(|(what, r)| vec![row.label.clone(), what.clone(), format!("{r:.5}")])
    });
    Some(svg.finish(id, (title, &desc), (WIDTH, height), csv("section,number,ratio", lines)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_is_a_dot() {
        let dots = vec![("a".to_owned(), 1.1), ("b".to_owned(), 0.2), ("c".to_owned(), 1e9)];
        let rows = [RatioRow { label: "numbers".to_owned(), dots }];
        let figure = draw("r", "t", &rows).unwrap();
        let text = figure.file();
        roxmltree::Document::parse(&text).unwrap();
        assert_eq!(text.matches("<circle").count(), 3);
        assert!(figure.desc.starts_with("1 of 3"));
        assert_eq!(draw("r", "t", &[]), None);
    }
}
