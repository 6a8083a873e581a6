#![forbid(unsafe_code)]
//! Metrics in the Prometheus text format; the only crate that formats them.
//!
//! A module that counts something adds it to a [`Page`]; the server selects [`Group`]s and prints them.
//!
//! ```
//! use ashlar_metrics::{Group, Kind, Page};
//! let mut page = Page::new("127.0.0.1:9000");
//! page.counter(Group::Node, "x_total", "Things.").add(&[("kind", "a\"b")], 3);
//! assert_eq!(
//!     page.text(&[Group::Node]),
//!     "# HELP x_total Things.\n# TYPE x_total counter\nx_total{server=\"127.0.0.1:9000\",kind=\"a\\\"b\"} 3\n"
//! );
//! ```
//!
//! Invariants: every family has one `HELP` and one `TYPE`, even if several modules add samples; every sample
//! has the label `server`; label values are escaped.
//!
//! Must not depend on: what is counted.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, except at a restart.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// `_bucket`, `_sum` and `_count`.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// The subject of a family; groups can be requested separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// The whole deployment.
    Cluster,
    /// This process and its drives.
    Node,
    /// Single buckets.
    Bucket,
    /// The machine.
    Resource,
    /// Version 3 of MinIO's metrics, at this path below its base.
    V3(&'static str),
}

struct Family {
    group: Group,
    kind: Kind,
    name: String,
    help: &'static str,
    lines: String,
}

/// The metrics at one time.
pub struct Page {
    server: String,
    families: Vec<Family>,
    by_name: HashMap<String, usize>,
}

/// A family to which samples are added.
pub struct Samples<'a> {
    server: &'a str,
    family: &'a mut Family,
}

/// Escapes a label value.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

impl Samples<'_> {
    /// Adds a sample.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.line("", labels, value)
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        let Family { name, lines, .. } = &mut *self.family;
        let _ = write!(lines, "{name}{suffix}{{server=\"");
        escape(lines, self.server);
        lines.push('"');
        for (label, value) in labels {
            let _ = write!(lines, ",{label}=\"");
            escape(lines, value);
            lines.push('"');
        }
        let _ = writeln!(lines, "}} {value}");
        self
    }

    /// Adds a histogram: upper bounds with the number of observations in each class, not cumulative; the last
    /// count is of observations above all bounds. `sum`: of all observations.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) -> &mut Self {
        let mut seen = 0;
        for (i, count) in counts.iter().enumerate() {
            seen += count;
            let le = bounds.get(i).map_or("+Inf".to_owned(), f64::to_string);
            let all: Vec<(&str, &str)> = labels.iter().copied().chain([("le", le.as_str())]).collect();
            self.line("_bucket", &all, seen);
        }
        self.line("_sum", labels, sum);
        self.line("_count", labels, seen)
    }
}

impl Page {
    /// An empty page. `server`: the value of the label `server`.
    #[must_use]
    pub fn new(server: &str) -> Page {
        Page { server: server.to_owned(), families: Vec::new(), by_name: HashMap::new() }
    }

    /// The family with this name, which is created if necessary.
    pub fn family(&mut self, group: Group, kind: Kind, name: &str, help: &'static str) -> Samples<'_> {
        let families = &mut self.families;
        let at = *self.by_name.entry(name.to_owned()).or_insert_with(|| {
            families.push(Family { group, kind, name: name.to_owned(), help, lines: String::new() });
            families.len() - 1
        });
        let family = &mut self.families[at];
        assert!(family.kind == kind && family.group == group, "{name} is two things");
        Samples { server: &self.server, family }
    }

    /// A counter family.
    pub fn counter(&mut self, group: Group, name: &str, help: &'static str) -> Samples<'_> {
        self.family(group, Kind::Counter, name, help)
    }

    /// A gauge family.
    pub fn gauge(&mut self, group: Group, name: &str, help: &'static str) -> Samples<'_> {
        self.family(group, Kind::Gauge, name, help)
    }

    /// Adds a gauge with one sample without further labels.
    pub fn value(&mut self, group: Group, name: &str, help: &'static str, value: impl Display) {
        self.gauge(group, name, help).add(&[], value);
    }

    /// Adds a counter with one sample without further labels.
    pub fn count(&mut self, group: Group, name: &str, help: &'static str, value: impl Display) {
        self.counter(group, name, help).add(&[], value);
    }

    /// The families of these groups that have samples, as text.
    #[must_use]
    pub fn text(&self, groups: &[Group]) -> String {
        self.print(|g| groups.contains(&g))
    }

    /// The families of version 3 at a path or below it (`cluster` includes `cluster/health`; empty: all), as
    /// text.
    #[must_use]
    pub fn text_v3(&self, path: &str) -> String {
        let path = path.trim_matches('/');
        let below = |p: &str| {
            path.is_empty()
                || p.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.print(|g| matches!(g, Group::V3(p) if below(p)))
    }

    fn print(&self, wanted: impl Fn(Group) -> bool) -> String {
        let mut out = String::with_capacity(16 * 1024);
        for f in self.families.iter().filter(|f| wanted(f.group) && !f.lines.is_empty()) {
            let (name, help, kind) = (&f.name, f.help, f.kind.name());
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", f.lines);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_with_several_writers_is_printed_once() {
        let mut page = Page::new("s");
        page.gauge(Group::Node, "a", "A.").add(&[("x", "1")], 1);
        page.value(Group::Cluster, "b", "B.", 2.5);
        page.gauge(Group::Node, "a", "A.").add(&[("x", "2\n")], 3);
        page.gauge(Group::Node, "empty", "No sample.");
        let want = "# HELP a A.\n# TYPE a gauge\na{server=\"s\",x=\"1\"} 1\na{server=\"s\",x=\"2\\n\"} 3\n";
        assert_eq!(page.text(&[Group::Node]), want);
        assert_eq!(page.text(&[Group::Cluster]), "# HELP b B.\n# TYPE b gauge\nb{server=\"s\"} 2.5\n");
    }

    #[test]
    fn histograms_are_cumulative() {
        let mut page = Page::new("s");
        page.family(Group::Node, Kind::Histogram, "h", "H.").histogram(&[], &[0.5, 1.0], &[2, 0, 3], 7.5);
        let text = page.text(&[Group::Node]);
        for line in [
            "h_bucket{server=\"s\",le=\"0.5\"} 2",
            "h_bucket{server=\"s\",le=\"1\"} 2",
            "h_bucket{server=\"s\",le=\"+Inf\"} 5",
            "h_sum{server=\"s\"} 7.5",
            "h_count{server=\"s\"} 5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }

    #[test]
    fn version_3_is_selected_by_path() {
        let mut page = Page::new("s");
        page.value(Group::V3("cluster/health"), "a", "A.", 1);
        page.value(Group::V3("cluster/usage/buckets"), "b", "B.", 1);
        page.value(Group::V3("clusters"), "c", "C.", 1);
        let names = |path| page.text_v3(path).lines().filter(|l| !l.starts_with('#')).count();
        assert_eq!(
            [names(""), names("cluster"), names("/cluster/usage/"), names("cluster/us")],
            [3, 2, 1, 0]
        );
    }
}
