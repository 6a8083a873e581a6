//! The hardware's ceilings and how near a run came: `Run::ceilings` as `ashlar bench plan` writes it,
//! `{"get": {"binding": "drives", "ceilings": [{"resource", "bytes_per_s"}]}, "put": ...}`.

use serde_json::Value;

use crate::{result::Run, units};

use super::{html::text, parts::section as framed};

/// The section; nothing without ceilings.
pub fn section(runs: &[Run]) -> String {
    let mut body = String::new();
    for run in runs {
        let Some(plan) = &run.ceilings else { continue };
        for (side, names) in [("get", ["get", "read"]), ("put", ["put", "write"])] {
            if let Some(direction) = plan.get(side) {
                let whose = if runs.len() > 1 { format!("{}: ", run.name) } else { String::new() };
                body.push_str(&one(
                    &format!("{whose}{}", side.to_uppercase()),
                    direction,
                    measured(run, direction, names),
                ));
            }
        }
        let assumed = plan.get("assumptions").and_then(Value::as_array).into_iter().flatten();
        let assumed: Vec<&str> = assumed.filter_map(Value::as_str).collect();
        if !assumed.is_empty() {
            body.push_str(&format!("<p class=\"about\">Assumed: {}.</p>", text(&assumed.join("; "))));
        }
    }
    if body.is_empty() {
        return String::new();
    }
    let about = "What each resource would allow if it were the only limit, in payload bytes. The lowest value is the limit.";
    framed("ceilings", "Efficiency against ceilings", about, &body)
}

/// The best phase of that direction, or what the plan itself carries.
fn measured(run: &Run, direction: &Value, names: [&str; 2]) -> Option<f64> {
    let best = run
        .phases
        .iter()
        .flat_map(|p| &p.operations)
        .filter(|o| names.iter().any(|n| o.name.eq_ignore_ascii_case(n)) && o.bytes > 0)
        .map(|o| o.bytes_per_s.mean)
        .fold(0.0, f64::max);
    if best > 0.0 { Some(best) } else { direction.get("measured_bytes_per_s").and_then(Value::as_f64) }
}

fn one(name: &str, direction: &Value, measured: Option<f64>) -> String {
    let list = direction.get("ceilings").and_then(Value::as_array).into_iter().flatten();
    let mut ceilings: Vec<(&str, f64, &str)> = list
        .filter_map(|c| {
            let how = c.get("how").and_then(Value::as_str).unwrap_or_default();
            Some((c.get("resource")?.as_str()?, c.get("bytes_per_s")?.as_f64()?, how))
        })
        .collect();
    ceilings.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some(&(lowest, limit, _)) = ceilings.first() else { return String::new() };
    let binding =
        direction.get("binding").and_then(Value::as_str).filter(|b| !b.is_empty()).unwrap_or(lowest);
    let most = ceilings.iter().map(|c| c.1).chain(measured).fold(0.0, f64::max);
    let bar = |value: f64, class: &str| {
        format!(
            "<td class=\"bars\"><span class=\"bar {class}\" style=\"width:{:.1}%\"></span></td>",
            value / most * 100.0
        )
    };
    let mut rows = String::new();
    if let Some(value) = measured {
        rows.push_str(&format!(
            "<tr><th scope=\"row\">Measured</th><td class=\"n\">{}</td><td class=\"n\"></td>{}</tr>",
            units::bytes_per_s(value),
            bar(value, "measured")
        ));
    }
    for (resource, value, how) in &ceilings {
        let class = if *resource == binding { "binding" } else { "" };
        let small = [if *resource == binding { "binds" } else { "" }, how]
            .iter()
            .filter(|s| !s.is_empty())
            .copied()
            .collect::<Vec<_>>();
        rows.push_str(&format!(
            "<tr><th scope=\"row\" class=\"any\">{}<small>{}</small></th><td class=\"n\">{}</td><td class=\"n\">{}</td>{}</tr>",
            text(resource),
            text(&small.join(": ")),
            units::bytes_per_s(*value),
            measured.map(|m| units::percent(m / value)).unwrap_or_default(),
            bar(*value, class)
        ));
    }
    let verdict = match measured {
        Some(m) => format!(
            "{} of the ceiling of {binding}: {} of {}.",
            units::percent(m / limit),
            units::bytes_per_s(m),
            units::bytes_per_s(limit)
        ),
        None => format!(
            "The lowest ceiling is that of {binding}, {}; nothing was measured in this direction.",
            units::bytes_per_s(limit)
        ),
    };
    format!(
        "<h3>{}</h3><p>{}</p><table><thead><tr><th scope=\"col\">Resource</th><th scope=\"col\" class=\"n\">Ceiling</th>\
         <th scope=\"col\" class=\"n\">Used</th><td class=\"bars\"></td></tr></thead><tbody>{rows}</tbody></table>",
        text(name),
        text(&verdict)
    )
}
