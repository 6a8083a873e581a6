//! Writes documents as JSON, in one canonical form.
//!
//! Invariants: parsing the output gives the same document; elements are in AWS's order, a list of one element
//! is a string, without white space.

use crate::document::{Document, Effect, Listed, StatementDocument, Version};

impl Document {
    /// The document as canonical JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(256);
        out.push('{');
        if self.version_given {
            let version = match self.version {
                Version::V2008 => "2008-10-17",
                Version::V2012 => "2012-10-17",
            };
            member(&mut out, "Version");
            string(&mut out, version);
        }
        if let Some(id) = &self.id {
            member(&mut out, "Id");
            string(&mut out, id);
        }
        member(&mut out, "Statement");
        out.push('[');
        for (i, statement) in self.statements.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_statement(&mut out, statement);
        }
        out.push_str("]}");
        out
    }
}

fn write_statement(out: &mut String, s: &StatementDocument) {
    out.push('{');
    if let Some(sid) = &s.sid {
        member(out, "Sid");
        string(out, sid);
    }
    member(out, "Effect");
    string(out, if s.effect == Effect::Allow { "Allow" } else { "Deny" });
    if let Some(p) = &s.principal {
        member(out, if p.not { "NotPrincipal" } else { "Principal" });
        match &p.list[..] {
            [(kind, _)] if kind == "*" => string(out, "*"),
            kinds => object(out, kinds),
        }
    }
    listed(out, "Action", &s.action);
    if let Some(r) = &s.resource {
        listed(out, "Resource", r);
    }
    if !s.conditions.is_empty() {
        member(out, "Condition");
        out.push('{');
        for (operator, keys) in &s.conditions {
            member(out, operator);
            object(out, keys);
        }
        out.push('}');
    }
    out.push('}');
}

fn listed(out: &mut String, name: &str, l: &Listed<String>) {
    if l.not {
        member(out, &format!("Not{name}"));
    } else {
        member(out, name);
    }
    strings(out, &l.list);
}

fn object(out: &mut String, members: &[(String, Vec<String>)]) {
    out.push('{');
    for (name, list) in members {
        member(out, name);
        strings(out, list);
    }
    out.push('}');
}

fn strings(out: &mut String, list: &[String]) {
    if let [one] = list {
        return string(out, one);
    }
    out.push('[');
    for (i, t) in list.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        string(out, t);
    }
    out.push(']');
}

/// A comma if one is due, the name, a colon.
fn member(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    string(out, name);
    out.push(':');
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
