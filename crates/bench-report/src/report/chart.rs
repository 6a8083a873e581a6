//! Line charts as inline SVG, in two sizes for wide and narrow screens, because text that shrinks with the
//! chart becomes unreadable; the style sheet shows one of them.
//!
//! Invariants: every chart has a title and a description; series differ by dash as well as by
//! colour; coordinates carry one decimal.

use super::html::text;

/// How an axis maps values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By decades.
    Log,
    /// A share q of values at log10(1 / (1 - q)): each further nine has the same width.
    Nines,
}

/// One axis.
pub struct Axis {
    /// What it shows, with the unit of its labels.
    pub label: String,
    /// How.
    pub scale: Scale,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// How a value is written at its tick.
    pub show: Box<dyn Fn(f64) -> String>,
}

impl Axis {
    /// The position of a value, 0 to 1.
    fn at(&self, value: f64) -> f64 {
        let map = |v: f64| match self.scale {
            Scale::Linear => v,
            Scale::Log => v.max(1e-12).log10(),
            Scale::Nines => nines(v),
        };
        let (low, high) = (map(self.min), map(self.max));
        if high > low { ((map(value) - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// At most about `most` round values.
    fn ticks(&self, most: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => linear(self.min, self.max, most),
            Scale::Log => decades(self.min, self.max, most),
            Scale::Nines => [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
                .into_iter()
                .filter(|q| *q <= self.max + 1e-12)
                .collect(),
        }
    }
}

/// log10(1 / (1 - q)).
pub fn nines(q: f64) -> f64 {
    -(1.0 - q.min(1.0 - 1e-9)).log10()
}

fn linear(min: f64, max: f64, most: usize) -> Vec<f64> {
    let raw = (max - min) / most.max(1) as f64;
    if raw.is_nan() || raw <= 0.0 {
        return vec![min];
    }
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|f| f * unit)
        .find(|s| *s >= raw * 0.999)
        .unwrap_or(10.0 * unit);
    let first = (min / step).ceil() as i64;
    (first..).map(|i| i as f64 * step).take_while(|v| *v <= max * 1.0001).collect()
}

fn decades(min: f64, max: f64, most: usize) -> Vec<f64> {
    let (low, high) = (min.log10().floor() as i32, max.log10().ceil() as i32);
    let within = |v: &f64| *v >= min * 0.999 && *v <= max * 1.001;
    let of = |steps: &[f64]| -> Vec<f64> {
        (low..=high).flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d))).filter(within).collect()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    if fine.len() <= most + 2 { fine } else { of(&[1.0]) }
}

/// Ends of a log axis around values: a 1, 2 or 5 of a decade below and above.
pub fn log_ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.filter(|v| *v > 0.0).fold((f64::MAX, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    if high <= 0.0 {
        return (1.0, 10.0);
    }
    let steps = |v: f64| [1.0, 2.0, 5.0, 10.0].map(|s| s * 10f64.powf(v.log10().floor()));
    let below = steps(low).into_iter().rev().find(|s| *s <= low * 1.0001).unwrap_or(low);
    let above = steps(high).into_iter().find(|s| *s >= high * 0.9999).unwrap_or(high);
    if above > below * 1.5 { (below, above) } else { (below / 2.0, above * 2.0) }
}

/// One line.
pub struct Series {
    /// Its name in the key.
    pub name: String,
    /// (x, y), ascending x.
    pub points: Vec<(f64, f64)>,
    /// Colour, from 0.
    pub color: usize,
    /// Dash, from 0.
    pub dash: usize,
    /// Whether points are marked.
    pub dots: bool,
}

/// A chart.
pub struct Chart {
    /// Unique on the page.
    pub id: String,
    /// The title.
    pub title: String,
    /// What is to be seen, in words.
    pub about: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// Lines.
    pub series: Vec<Series>,
    /// The x up to which the ground is shaded, and why.
    pub shade: Option<(f64, String)>,
    /// A horizontal limit and its name.
    pub limit: Option<(f64, String)>,
    /// Where something failed (x).
    pub faults: Vec<f64>,
}

/// Different colours of the style sheet.
pub const COLORS: usize = 6;
const DASHES: usize = 4;

impl Chart {
    /// Key and both drawings.
    pub fn html(&self) -> String {
        let mut html = String::from("<figure>");
        if self.series.len() > 1 || !self.faults.is_empty() {
            html.push_str(&self.key());
        }
        html.push_str(&self.svg("wide", 700.0, 300.0));
        html.push_str(&self.svg("small", 350.0, 250.0));
        html.push_str("</figure>");
        html
    }

    fn key(&self) -> String {
        let mut html = String::from("<ul class=\"key\">");
        for s in &self.series {
            html.push_str(&format!(
                "<li><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"{}\" d=\"M1 5H27\"/></svg>{}</li>",
                classes(s),
                text(&s.name)
            ));
        }
        if !self.faults.is_empty() {
            html.push_str(
                "<li><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"fault\" d=\"M14 1l5 8h-10z\"/></svg>errors</li>",
            );
        }
        html.push_str("</ul>");
        html
    }

    fn svg(&self, class: &str, width: f64, height: f64) -> String {
        let narrow = class == "small";
        let id = format!("{}-{class}", self.id);
        let y_ticks = self.y.ticks(if narrow { 5 } else { 6 });
        let longest = y_ticks.iter().map(|v| (self.y.show)(*v).chars().count()).max().unwrap_or(1);
        let (left, right, top, bottom) = (longest as f64 * 6.6 + 12.0, 14.0, 26.0, 42.0);
        let (w, h) = (width - left - right, height - top - bottom);
        let x = |v: f64| left + w * self.x.at(v);
        let y = |v: f64| top + h * (1.0 - self.y.at(v));
        let mut svg = format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            text(&self.title),
            text(&self.about)
        );
        if let Some((until, why)) = self.shade.as_ref().filter(|s| x(s.0) > left + 1.0) {
            svg.push_str(&format!(
                "<rect class=\"wash\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{h:.1}\"/>",
                x(*until) - left
            ));
            if x(*until) - left > why.chars().count() as f64 * 6.6 + 8.0 {
                svg.push_str(&format!(
                    "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    left + 6.0,
                    top + 16.0,
                    text(why)
                ));
            }
        }
        for &v in &y_ticks {
            let at = y(v);
            let line = if v == self.y.min { "axis" } else { "grid" };
            svg.push_str(&format!("<path class=\"{line}\" d=\"M{left:.1} {at:.1}h{w:.1}\"/>"));
            svg.push_str(&format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                at + 4.0,
                text(&(self.y.show)(v))
            ));
        }
        if y_ticks.first() != Some(&self.y.min) {
            svg.push_str(&format!("<path class=\"axis\" d=\"M{left:.1} {:.1}h{w:.1}\"/>", top + h));
        }
        let mut last_end = f64::MIN;
        for v in self.x.ticks(if narrow { 4 } else { 8 }) {
            let shown = (self.x.show)(v);
            let at = x(v);
            let half = shown.chars().count() as f64 * 3.3;
            // A label that would touch its neighbour or leave the picture is left out.
            let anchor = if at + half > width { "end" } else { "middle" };
            let from = if anchor == "end" { at - 2.0 * half } else { at - half };
            svg.push_str(&format!("<path class=\"axis\" d=\"M{at:.1} {:.1}v5\"/>", top + h));
            if from > last_end + 6.0 {
                svg.push_str(&format!(
                    "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                    top + h + 19.0,
                    text(&shown)
                ));
                last_end = from + 2.0 * half;
            }
        }
        svg.push_str(&format!("<text x=\"0\" y=\"12\">{}</text>", text(&self.y.label)));
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left + w,
            height - 4.0,
            text(&self.x.label)
        ));
        for s in &self.series {
            svg.push_str(&line(s, &x, &y));
        }
        if let Some((at, name)) = &self.limit {
            let at = y(*at);
            svg.push_str(&format!("<path class=\"limit\" d=\"M{left:.1} {at:.1}h{w:.1}\"/>"));
            svg.push_str(&format!(
                "<text class=\"limit\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left + 6.0,
                at - 6.0,
                text(name)
            ));
        }
        for &at in &self.faults {
            svg.push_str(&format!(
                "<path class=\"fault\" d=\"M{:.1} {:.1}l4 7h-8z\"/>",
                x(at),
                top + h - 7.0
            ));
        }
        svg.push_str("</svg>");
        svg
    }
}

fn classes(s: &Series) -> String {
    format!("line s{} d{}", s.color % COLORS + 1, s.dash % DASHES + 1)
}

fn line(s: &Series, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
    let mut path = String::new();
    for (i, &(px, py)) in s.points.iter().enumerate() {
        path.push_str(&format!("{}{:.1} {:.1}", if i == 0 { "M" } else { "L" }, x(px), y(py)));
    }
    let thin = if s.points.len() > 120 { " thin" } else { "" };
    let mut svg = format!("<path class=\"{}{thin}\" d=\"{path}\"/>", classes(s));
    if s.dots || s.points.len() == 1 {
        for &(px, py) in &s.points {
            svg.push_str(&format!(
                "<circle class=\"dot s{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                s.color % COLORS + 1,
                x(px),
                y(py)
            ));
        }
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear(0.0, 97.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(linear(0.0, 0.0, 5), [0.0]);
        assert_eq!(decades(100.0, 1e6, 6), [100.0, 1000.0, 10_000.0, 100_000.0, 1_000_000.0]);
        assert_eq!(decades(10.0, 1000.0, 5).len(), 7);
        assert_eq!(decades(20.0, 200.0, 6), [20.0, 50.0, 100.0, 200.0]);
        assert_eq!(log_ends([230.0, 41_000.0].into_iter()), (200.0, 50_000.0));
        assert_eq!(log_ends([100.0].into_iter()), (50.0, 200.0));
        assert_eq!(log_ends([0.0].into_iter()), (1.0, 10.0));
    }

    #[test]
    fn each_nine_has_the_same_width() {
        assert!((nines(0.99) - 2.0).abs() < 1e-9 && (nines(0.999) - 3.0).abs() < 1e-9 && nines(0.0) == 0.0);
        assert!(nines(1.0).is_finite());
    }
}
