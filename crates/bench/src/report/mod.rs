//! Results as one HTML file that needs no network and no script: readable on a desk, on a phone, on
//! paper, by light and by dark.
//!
//! Invariants: nothing is loaded from anywhere (the page's own policy forbids it); every chart has
//! its numbers in a table beside it; text of results is escaped; units are decimal and said.
//!
//! Must never know: how a number was measured. What is absent in a result has no section.

mod ceilings;
mod chart;
mod html;
mod latency;
mod lifecycle;
mod load;
mod overview;
mod throughput;

use crate::{
    result::{Histogram, Operation, Phase, Run, Severity, title},
    spec::averaged,
};

use html::text;

/// Most lines in one chart; more cannot be told apart.
const LINES: usize = 6;

/// The report of one or more results; without a title it says what was measured, never when.
pub fn html(runs: &[Run], title: Option<&str>) -> String {
    let mut runs = runs.to_vec();
    title::tell_apart(&mut runs);
    let runs = runs.as_slice();
    let measured = runs.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(" | ");
    let title = title.unwrap_or(if runs.is_empty() { "No results" } else { &measured });
    let mut body = String::new();
    let add = [
        overview::results(runs),
        overview::change(runs),
        overview::caveats(runs),
        lifecycle::section(runs),
        throughput::section(runs),
        latency::section(runs),
        load::section(runs),
        ceilings::section(runs),
        overview::environment(runs),
        overview::settings(runs),
        overview::command(runs),
    ];
    add.iter().for_each(|part| body.push_str(part));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title} – ashlar bench</title><style>{style}</style></head>\
         <body><header><p class=\"kicker\">ashlar bench</p><h1>{title}</h1><p class=\"lead\">{lead}</p>{banner}</header>\
         <main>{body}</main>\
         <footer><section><p>Rates and volumes are decimal: 1 MB is 1,000,000 bytes; sizes of objects are binary: 1 KiB is \
         1,024 bytes. ± and intervals are 95 % confidence, from batch means where there is one run and from \
         repetitions where there are several.</p></section></footer></body></html>\n",
        title = text(title),
        style = include_str!("style.css"),
        lead = overview::lead(runs).iter().map(|l| text(l)).collect::<Vec<_>>().join("<br>"),
        banner = banner(runs),
    )
}

/// What forbids the use of a result, above everything else.
fn banner(runs: &[Run]) -> String {
    let invalid: Vec<String> = runs
        .iter()
        .flat_map(|r| r.caveats.iter().filter(|c| c.severity == Severity::Invalid).map(move |c| (r, c)))
        .map(|(r, c)| {
            let whose = if runs.len() > 1 { format!(" ({})", r.name) } else { String::new() };
            format!("<p><b class=\"bad\">Must not be used{}.</b> {}</p>", text(&whose), prose(&c.text))
        })
        .collect();
    if invalid.is_empty() {
        String::new()
    } else {
        format!("<div class=\"banner\" role=\"alert\">{}</div>", invalid.concat())
    }
}

fn section(id: &str, title: &str, about: &str, body: &str) -> String {
    let about =
        if about.is_empty() { String::new() } else { format!("<p class=\"about\">{}</p>", text(about)) };
    format!("<section id=\"{id}\"><h2>{}</h2>{about}{body}</section>", text(title))
}

/// An operation within its phase and run.
#[derive(Clone, Copy)]
struct Item<'a> {
    run: &'a Run,
    phase: &'a Phase,
    operation: &'a Operation,
}

impl Item<'_> {
    /// The times that users wait: from the intended start where there was one.
    fn times(&self) -> &Histogram {
        self.operation.response.as_ref().unwrap_or(&self.operation.service)
    }
}

/// Every operation of every phase that counts.
fn items(runs: &[Run]) -> impl Iterator<Item = Item<'_>> {
    runs.iter().flat_map(|run| {
        averaged(&run.phases).flat_map(move |phase| {
            phase.operations.iter().map(move |operation| Item { run, phase, operation })
        })
    })
}

/// Operations that belong into one chart: of the same phase and operation name.
struct Group<'a> {
    name: String,
    items: Vec<Item<'a>>,
    /// What was left out to keep at most [`LINES`], in words.
    left_out: String,
}

/// Groups in order of appearance, each with at most [`LINES`] items, evenly chosen.
fn groups<'a>(runs: &'a [Run], keep: impl Fn(&Item) -> bool) -> Vec<Group<'a>> {
    let mut groups: Vec<Group> = Vec::new();
    for item in items(runs).filter(keep) {
        let name = if item.phase.name.eq_ignore_ascii_case(&item.operation.name) {
            item.operation.name.clone()
        } else {
            format!("{} of {}", item.operation.name, item.phase.name)
        };
        match groups.iter_mut().find(|g| g.name == name) {
            Some(group) => group.items.push(item),
            None => groups.push(Group { name, items: vec![item], left_out: String::new() }),
        }
    }
    for group in &mut groups {
        let mut seen: Vec<(*const Run, String)> = Vec::new();
        let before = group.items.len();
        if before > LINES {
            group.items.retain(|i| {
                let key = (std::ptr::from_ref(i.run), i.phase.key());
                let new = !seen.contains(&key);
                seen.push(key);
                new
            });
        }
        if group.items.len() < before {
            "The first repetition of each is drawn.".clone_into(&mut group.left_out);
        }
        let all = group.items.len();
        if all > LINES {
            group.items = (0..LINES).map(|i| group.items[i * (all - 1) / (LINES - 1)]).collect();
            group.left_out = format!("{LINES} of {all} are drawn.");
        }
    }
    groups
}

impl Group<'_> {
    /// What tells the items apart: only the parts in which they differ, the repetition only if
    /// nothing else does.
    fn labels(&self) -> Vec<String> {
        let differ = |of: &dyn Fn(&Item) -> String| {
            let first = self.items.first().map(of);
            self.items.iter().any(|i| Some(of(i)) != first)
        };
        let parts: [&dyn Fn(&Item) -> String; 3] =
            [&|i| i.run.name.clone(), &|i| i.phase.state.clone().unwrap_or_default(), &|i| {
                i.phase.load.text()
            }];
        let used: Vec<_> = parts.into_iter().filter(|p| differ(p)).collect();
        let label =
            |i: &Item| used.iter().map(|p| p(i)).filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ");
        let labels: Vec<String> = self.items.iter().map(label).collect();
        let twice = |l: &String| labels.iter().filter(|o| *o == l).count() > 1;
        self.items
            .iter()
            .zip(&labels)
            .map(|(item, label)| match (label.as_str(), labels.len() > 1 && twice(label)) {
                ("", true) => format!("#{}", item.phase.repetition),
                (label, true) => format!("{label}, #{}", item.phase.repetition),
                ("", false) => item.phase.load.text(),
                (label, false) => label.to_owned(),
            })
            .collect()
    }

    /// Its heading, and what was left out.
    fn heading(&self) -> String {
        let left_out = match self.left_out.as_str() {
            "" => String::new(),
            said => format!("<p class=\"about\">{said}</p>"),
        };
        format!("<h3>{}</h3>{left_out}", text(&self.name))
    }
}

/// Text in which names stand between back quotes.
fn prose(raw: &str) -> String {
    let parts = raw.split('`').enumerate();
    parts
        .map(|(i, part)| if i % 2 == 1 { format!("<code>{}</code>", text(part)) } else { text(part) })
        .collect()
}

/// A name that may be an id.
fn id_of(parts: &[&str]) -> String {
    let joined = parts.join("-");
    joined.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

#[cfg(test)]
mod tests;
