//! Results as one HTML file without network access and scripts, for wide and narrow screens, print, light and
//! dark mode.
//!
//! Invariants: nothing is loaded (the page's own policy forbids it); every chart has its numbers in a table
//! beside it; text of results is escaped; units are decimal and stated.
//!
//! Must not depend on: how a number was measured. A value that a result does not have gets no section.

mod ceilings;
mod chart;
mod html;
mod latency;
mod lifecycle;
mod load;
mod overview;
mod parts;
mod throughput;

use crate::result::{Run, Severity, title};

use html::text;
use parts::prose;

/// The report of one or more results; the default title is what was measured, without the time.
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

#[cfg(test)]
mod tests;
