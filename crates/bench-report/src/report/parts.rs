//! What sections of a report share: their frame, the operations that they draw, names and prose.
//!
//! Invariant: text of results is escaped. Must not depend on: any section.

use super::html::text;
use crate::{
    result::averaged,
    result::{Histogram, Operation, Phase, Run},
};

/// Most lines in one chart; more cannot be distinguished.
pub(super) const LINES: usize = 6;

pub(super) fn section(id: &str, title: &str, about: &str, body: &str) -> String {
    let about =
        if about.is_empty() { String::new() } else { format!("<p class=\"about\">{}</p>", text(about)) };
    format!("<section id=\"{id}\"><h2>{}</h2>{about}{body}</section>", text(title))
}

/// An operation within its phase and run.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) run: &'a Run,
    pub(super) phase: &'a Phase,
    pub(super) operation: &'a Operation,
}

impl Item<'_> {
    /// The times that users wait: from the intended start where there was one.
    pub(super) fn times(&self) -> &Histogram {
        self.operation.response.as_ref().unwrap_or(&self.operation.service)
    }
}

/// Every operation of every phase that counts.
pub(super) fn items(runs: &[Run]) -> impl Iterator<Item = Item<'_>> {
    runs.iter().flat_map(|run| {
        averaged(&run.phases).flat_map(move |phase| {
            phase.operations.iter().map(move |operation| Item { run, phase, operation })
        })
    })
}

/// Operations that belong into one chart: of the same phase and operation name.
pub(super) struct Group<'a> {
    pub(super) name: String,
    pub(super) items: Vec<Item<'a>>,
    /// What was left out to keep at most [`LINES`], in words.
    pub(super) left_out: String,
}

/// Groups in order of appearance, each with at most [`LINES`] items, evenly chosen.
pub(super) fn groups<'a>(runs: &'a [Run], keep: impl Fn(&Item) -> bool) -> Vec<Group<'a>> {
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
    /// The distinguishing parts of the items: only those in which they differ, the repetition only if nothing
    /// else does.
    pub(super) fn labels(&self) -> Vec<String> {
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
    pub(super) fn heading(&self) -> String {
        let left_out = match self.left_out.as_str() {
            "" => String::new(),
            said => format!("<p class=\"about\">{said}</p>"),
        };
        format!("<h3>{}</h3>{left_out}", text(&self.name))
    }
}

/// Text in which names stand between back quotes.
pub(super) fn prose(raw: &str) -> String {
    let parts = raw.split('`').enumerate();
    parts
        .map(|(i, part)| if i % 2 == 1 { format!("<code>{}</code>", text(part)) } else { text(part) })
        .collect()
}

/// A name that may be an id.
pub(super) fn id_of(parts: &[&str]) -> String {
    let joined = parts.join("-");
    joined.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}
