//! A small SVG writer.

use std::fmt::Write;

use super::style;

/// A finished figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// Its id, unique in a page, and the name of its file.
    pub(crate) id: String,
    /// Its title, one line.
    pub(crate) title: String,
    /// A description for screen readers.
    pub(crate) desc: String,
    /// Width and height in its own units.
    pub(crate) size: (f64, f64),
    /// Its data as CSV with a header line.
    pub(crate) csv: String,
    body: String,
}

/// The anchor of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The position is that of its beginning.
    Start,
    /// The position is that of its middle.
    Middle,
    /// The position is that of its end.
    End,
}

/// A point.
pub(crate) type Position = (f64, f64);

/// The elements of a figure that is being drawn.
#[derive(Debug, Default)]
pub(crate) struct SvgWriter {
    out: String,
}

/// A number with at most two decimals, without trailing zeros.
#[must_use]
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Escapes the special characters of XML.
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML does not allow these characters.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The approximate width of a text at a font size.
#[must_use]
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

impl SvgWriter {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.out.write_fmt(text);
    }

    fn points(&mut self, points: &[Position]) {
        for (n, (x, y)) in points.iter().enumerate() {
            let space = if n == 0 { "" } else { " " };
            self.put(format_args!("{space}{},{}", number(*x), number(*y)));
        }
    }

    /// Ends an element, with a tooltip if `tip` is not empty.
    fn close(&mut self, element: &str, tip: &str) {
        if tip.is_empty() {
            self.put(format_args!("/>"));
        } else {
            self.put(format_args!("><title>{}</title></{element}>", escape(tip)));
        }
    }

    /// A line.
    pub(crate) fn line(&mut self, from: Position, to: Position, class: &str, tip: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\""
        ));
        self.close("line", tip);
    }

    /// A rectangle by its corner and size, with corners rounded by `round`.
    pub(crate) fn rect(
        &mut self,
        corner: Position,
        size: Position,
        round: f64,
        class: &str,
        tip: &str,
    ) {
        let [x, y, w, h] = [corner.0, corner.1, size.0.max(0.0), size.1.max(0.0)].map(number);
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\""
        ));
        if round > 0.0 {
            self.put(format_args!(" rx=\"{}\"", number(round)));
        }
        self.close("rect", tip);
    }

    /// A closed shape.
    pub(crate) fn polygon(&mut self, points: &[Position], class: &str, tip: &str) {
        self.put(format_args!("<polygon class=\"{class}\" points=\""));
        self.points(points);
        self.put(format_args!("\""));
        self.close("polygon", tip);
    }

    /// An open line through points.
    pub(crate) fn polyline(&mut self, points: &[Position], class: &str, tip: &str) {
        self.put(format_args!("<polyline class=\"{class}\" points=\""));
        self.points(points);
        self.put(format_args!("\""));
        self.close("polyline", tip);
    }

    /// A disc.
    pub(crate) fn circle(&mut self, at: Position, radius: f64, class: &str, tip: &str) {
        let [x, y, r] = [at.0, at.1, radius].map(number);
        self.put(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\""));
        self.close("circle", tip);
    }

    /// A text.
    pub(crate) fn text(&mut self, at: Position, anchor: Anchor, class: &str, words: &str) {
        let [x, y] = [at.0, at.1].map(number);
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.put(format_args!("<text{class} x=\"{x}\" y=\"{y}\"{anchor}>{}</text>", escape(words)));
    }

    /// A text with a link to an id in the page.
    pub(crate) fn link(
        &mut self,
        to: &str,
        at: Position,
        anchor: Anchor,
        class: &str,
        words: &str,
    ) {
        if to.is_empty() {
            return self.text(at, anchor, class, words);
        }
        self.put(format_args!("<a href=\"#{}\">", escape(to)));
        self.text(at, anchor, class, words);
        self.put(format_args!("</a>"));
    }

    /// The finished figure.
    #[must_use]
    pub(crate) fn finish(
        self,
        id: &str,
        words: (&str, &str),
        size: Position,
        csv: String,
    ) -> Figure {
        let (title, desc) = words;
        Figure {
            id: id.to_owned(),
            title: title.to_owned(),
            desc: desc.to_owned(),
            size,
            csv,
            body: self.out,
        }
    }
}

impl Figure {
    /// The element within a page, which has [`style::COLOURS`] and [`style::SHAPES`].
    #[must_use]
    pub(crate) fn inline(&self) -> String {
        self.element("", "")
    }

    /// The content of a separate file.
    #[must_use]
    pub(crate) fn file(&self) -> String {
        let style = format!("<style>{}{}</style>", style::COLOURS, style::SHAPES);
        let [w, h] = [self.size.0, self.size.1].map(number);
        let ground = format!("<rect width=\"{w}\" height=\"{h}\" fill=\"var(--card)\"/>");
        let size = format!(" xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\"");
        let links = self.element(&size, &format!("{style}{ground}"));
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{links}\n")
    }

    fn element(&self, attributes: &str, before: &str) -> String {
        let [w, h] = [self.size.0, self.size.1].map(number);
        let (id, title, desc) = (&self.id, escape(&self.title), escape(&self.desc));
        format!(
            "<svg{attributes} id=\"{id}\" class=\"v\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title>\
             <desc id=\"{id}-d\">{desc}</desc>{before}{}</svg>",
            self.body
        )
    }
}

/// The content of a file with several figures, `columns` in a row.
#[must_use]
pub(crate) fn sheet(id: &str, title: &str, figures: &[Figure], columns: usize) -> String {
    const GAP: f64 = 24.0;
    const HEAD: f64 = 22.0;
    let columns = columns.max(1);
    let (mut body, mut top, mut wide) = (String::new(), GAP, 0.0_f64);
    for row in figures.chunks(columns) {
        let (mut left, mut high) = (GAP, 0.0_f64);
        for figure in row {
            let [x, y, w, h] = [left, top + HEAD, figure.size.0, figure.size.1].map(number);
            let head = [left, top + 14.0].map(number);
            body.push_str(&format!(
                "<text class=\"bold\" x=\"{}\" y=\"{}\">{}</text>",
                head[0],
                head[1],
                escape(&figure.title)
            ));
            let place = format!(" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"");
            body.push_str(&figure.element(&place, ""));
            left += figure.size.0 + GAP;
            high = high.max(figure.size.1);
        }
        wide = wide.max(left);
        top += high + HEAD + GAP;
    }
    SvgWriter { out: body }.finish(id, (title, title), (wide, top), String::new()).file()
}

/// A field of CSV.
#[must_use]
pub(crate) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// CSV with a header line and rows.
#[must_use]
pub(crate) fn csv(heads: &str, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = format!("{heads}\n");
    for row in rows {
        let row: Vec<String> = row.iter().map(|text| field(text)).collect();
        out.push_str(&row.join(","));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_minus_nothing() {
        let shown = [1.0, 0.125, -0.001, 10.0, 1.10, -2.5].map(number);
        assert_eq!(shown, ["1", "0.12", "0", "10", "1.1", "-2.5"]);
    }

    #[test]
    fn words_cannot_break_out() {
        let mut svg = SvgWriter::default();
        svg.line((0.0, 0.0), (1.0, 1.0), "axis", "a<b & \"c\"\u{7}");
        svg.text((1.0, 2.0), Anchor::End, "soft", "<script>");
        let figure = svg.finish("x", ("t & u", "d"), (10.0, 20.0), String::new());
        let text = figure.file();
        let parsed = roxmltree::Document::parse(&text).unwrap();
        let tip =
            parsed.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "line")));
        assert_eq!(tip.count(), 1);
        assert!(text.contains("a&lt;b &amp; &quot;c&quot;\u{fffd}") && !text.contains("<script>"));
        assert_eq!(figure.file(), text, "the same to the byte");
    }

    #[test]
    fn values_with_commas_are_quoted() {
        let text = csv("a,b", [vec!["x,y".to_owned(), "a \"b\"".to_owned()]]);
        assert_eq!(text, "a,b\n\"x,y\",\"a \"\"b\"\"\"\n");
    }
}
