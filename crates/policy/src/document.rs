//! The policy document as written: parsed, checked for form, in order.
//!
//! Invariants: an element that is unknown, repeated, of the wrong type or empty is refused with its position
//! in the document; nothing is guessed. A parsed document can be written ([`Document::to_json`]) and reads
//! the same. Must not depend on: requests.

use crate::json::Node;
use crate::{Error, Result};

/// What a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Allows, unless a statement denies.
    Allow,
    /// Denies, even if others allow.
    Deny,
}

/// Version of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `2008-10-17`, also when none is given: no variables.
    V2008,
    /// `2012-10-17`.
    V2012,
}

/// A list of names that are included, or (`not`) excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    /// `NotAction`, `NotResource`, `NotPrincipal`.
    pub not: bool,
    /// The members, as written.
    pub list: Vec<T>,
}

/// The conditions under one operator: key and values, as written.
pub type Block = (String, Vec<(String, Vec<String>)>);

/// One statement, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementDocument {
    /// `Sid`.
    pub sid: Option<String>,
    /// `Effect`.
    pub effect: Effect,
    /// `Principal` or `NotPrincipal`: kind (`AWS`, ...) and members; `"*"` alone is kind `*`.
    pub principal: Option<Listed<(String, Vec<String>)>>,
    /// `Action` or `NotAction`.
    pub action: Listed<String>,
    /// `Resource` or `NotResource`.
    pub resource: Option<Listed<String>>,
    /// `Condition`.
    pub conditions: Vec<Block>,
}

/// A policy, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// `Version`.
    pub version: Version,
    /// Whether `Version` was written.
    pub version_given: bool,
    /// `Id`.
    pub id: Option<String>,
    /// `Statement`.
    pub statements: Vec<StatementDocument>,
}

/// An error at a position of the document.
pub(crate) fn invalid(path: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Invalid { path: path.into(), problem: problem.into() }
}

/// Refuses a member that is not among the known ones.
fn unknown(path: &str, name: &str, known: &[&str]) -> Error {
    let near = known.iter().find(|k| k.eq_ignore_ascii_case(name) || crate::action::distance(k, name) <= 2);
    let hint = match near {
        Some(k) => format!("; did you mean {k}?"),
        None => format!("; known are {}", known.join(", ")),
    };
    invalid(path, format!("unknown element \"{name}\"{hint}"))
}

fn text(node: Node, path: &str) -> Result<String> {
    match node {
        Node::Text(t) => Ok(t),
        other => Err(invalid(path, format!("must be a string, not {}", other.kind()))),
    }
}

/// A string or an array of strings, at least one.
fn texts(node: Node, path: &str) -> Result<Vec<String>> {
    match node {
        Node::List(items) if items.is_empty() => Err(invalid(path, "must not be empty")),
        Node::List(items) => {
            items.into_iter().enumerate().map(|(i, n)| text(n, &format!("{path}[{i}]"))).collect()
        }
        one => {
            Ok(vec![text(one, path).map_err(|_| invalid(path, "must be a string or an array of strings"))?])
        }
    }
}

/// Values of a condition: as [`texts`], and numbers, true and false as their text.
fn values(node: Node, path: &str) -> Result<Vec<String>> {
    let one = |node: Node, path: &str| match node {
        Node::Text(t) | Node::Number(t) => Ok(t),
        Node::Bool(b) => Ok(b.to_string()),
        other => Err(invalid(path, format!("must be a string, not {}", other.kind()))),
    };
    match node {
        Node::List(items) if items.is_empty() => Err(invalid(path, "must name at least one value")),
        Node::List(items) => {
            items.into_iter().enumerate().map(|(i, n)| one(n, &format!("{path}[{i}]"))).collect()
        }
        single => Ok(vec![one(single, path)?]),
    }
}

fn object(node: Node, path: &str) -> Result<Vec<(String, Node)>> {
    match node {
        Node::Object(members) => Ok(members),
        other => Err(invalid(path, format!("must be an object, not {}", other.kind()))),
    }
}

impl Document {
    /// Refuses two statements with one `Sid`: in policies of identities, as IAM. S3 takes them in a bucket's.
    pub(crate) fn check_sids(&self) -> Result<()> {
        for (i, s) in self.statements.iter().enumerate() {
            let same = |o: &StatementDocument| o.sid.is_some() && o.sid == s.sid;
            if s.sid.as_deref() != Some("") && self.statements[..i].iter().any(same) {
                return Err(invalid(
                    format!("Statement[{i}].Sid"),
                    "occurs twice; give each statement its own",
                ));
            }
        }
        Ok(())
    }

    /// Reads the form of a document.
    ///
    /// # Errors
    /// [`Error::Syntax`] and [`Error::Invalid`].
    pub(crate) fn parse(json: &str) -> Result<Document> {
        let (mut version, mut id, mut statement) = (None, None, None);
        for (name, node) in object(crate::json::parse(json)?, "the policy")? {
            match name.as_str() {
                "Version" => {
                    version = Some(match text(node, "Version")?.as_str() {
                        "2012-10-17" => Version::V2012,
                        "2008-10-17" => Version::V2008,
                        other => {
                            let why = format!(
                                "\"{other}\" is not a version of the policy language; write \"2012-10-17\""
                            );
                            return Err(invalid("Version", why));
                        }
                    });
                }
                "Id" | "ID" => {
                    if id.replace(text(node, "Id")?).is_some() {
                        return Err(invalid("Id", "occurs twice"));
                    }
                }
                "Statement" => statement = Some(node),
                other => return Err(unknown("the policy", other, &["Version", "Id", "Statement"])),
            }
        }
        let statements = match statement {
            None => return Err(invalid("the policy", "has no Statement")),
            Some(Node::List(items)) if items.is_empty() => {
                return Err(invalid("Statement", "must hold at least one statement"));
            }
            Some(Node::List(items)) => items
                .into_iter()
                .enumerate()
                .map(|(i, n)| StatementDocument::parse(n, &format!("Statement[{i}]")))
                .collect::<Result<Vec<_>>>()?,
            Some(one) => vec![StatementDocument::parse(one, "Statement[0]")?],
        };
        let given = version.is_some();
        Ok(Document { version: version.unwrap_or(Version::V2008), version_given: given, id, statements })
    }
}

const ELEMENTS: [&str; 9] = [
    "Sid",
    "Effect",
    "Principal",
    "NotPrincipal",
    "Action",
    "NotAction",
    "Resource",
    "NotResource",
    "Condition",
];

impl StatementDocument {
    fn parse(node: Node, path: &str) -> Result<StatementDocument> {
        let (mut sid, mut effect, mut principal) = (None, None, None);
        let (mut action, mut resource, mut conditions) = (None, None, Vec::new());
        for (name, node) in object(node, path)? {
            let here = format!("{path}.{name}");
            let not = name.starts_with("Not");
            match name.as_str() {
                "Sid" => sid = Some(text(node, &here)?),
                "Effect" => {
                    effect = Some(match text(node, &here)?.as_str() {
                        "Allow" => Effect::Allow,
                        "Deny" => Effect::Deny,
                        other => return Err(invalid(here, format!("\"{other}\" must be Allow or Deny"))),
                    });
                }
                "Principal" | "NotPrincipal" => {
                    let listed = Listed { not, list: principals(node, &here)? };
                    once(&mut principal, listed, path, "Principal")?;
                }
                "Action" | "NotAction" => {
                    once(&mut action, Listed { not, list: texts(node, &here)? }, path, "Action")?;
                }
                "Resource" | "NotResource" => {
                    // MinIO writes an empty list for statements about no resource.
                    if matches!(&node, Node::List(l) if l.is_empty()) && !not {
                        continue;
                    }
                    once(&mut resource, Listed { not, list: texts(node, &here)? }, path, "Resource")?;
                }
                "Condition" => conditions = blocks(node, &here)?,
                other => return Err(unknown(path, other, &ELEMENTS)),
            }
        }
        let effect = effect.ok_or_else(|| invalid(path, "has no Effect; write Allow or Deny"))?;
        let action = action.ok_or_else(|| invalid(path, "has neither Action nor NotAction"))?;
        Ok(StatementDocument { sid, effect, principal, action, resource, conditions })
    }
}

fn once<T>(slot: &mut Option<T>, value: T, path: &str, name: &str) -> Result<()> {
    if slot.replace(value).is_some() {
        return Err(invalid(path, format!("has both {name} and Not{name}; write one")));
    }
    Ok(())
}

fn principals(node: Node, path: &str) -> Result<Vec<(String, Vec<String>)>> {
    match node {
        Node::Text(t) if t == "*" => Ok(vec![("*".into(), vec!["*".into()])]),
        Node::Text(t) => {
            Err(invalid(path, format!("\"{t}\" must be \"*\" or an object such as {{\"AWS\": \"{t}\"}}")))
        }
        Node::Object(members) if members.is_empty() => Err(invalid(path, "must name a principal")),
        Node::Object(members) => members
            .into_iter()
            .map(|(kind, n)| {
                let list = texts(n, &format!("{path}.{kind}"))?;
                Ok((kind, list))
            })
            .collect(),
        other => Err(invalid(path, format!("must be \"*\" or an object, not {}", other.kind()))),
    }
}

fn blocks(node: Node, path: &str) -> Result<Vec<Block>> {
    let mut out = Vec::new();
    for (operator, keys) in object(node, path)? {
        let here = format!("{path}.{operator}");
        let mut list = Vec::new();
        for (key, node) in object(keys, &here)? {
            let found = values(node, &format!("{here}.{key}"))?;
            list.push((key, found));
        }
        if list.is_empty() {
            return Err(invalid(here, "must name at least one condition key"));
        }
        out.push((operator, list));
    }
    Ok(out)
}
