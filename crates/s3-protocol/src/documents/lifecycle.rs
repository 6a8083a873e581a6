//! The XML of a bucket's lifecycle rules.
//!
//! Must not depend on: the effect of rules, how they are stored.

use ashlar_lifecycle::{Config, Expiration, Filter, Invalid, Noncurrent, Rule};

use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::xml::{Doc, Xml};

/// What is wrong with rules, in the words of S3.
pub fn fault_of(invalid: Invalid) -> Fault {
    match invalid {
        Invalid::Malformed(why) => Fault::with(
            Code::MALFORMED_XML,
            format!(
                "The XML you provided was not well-formed or did not validate against our published schema: {why}."
            ),
        ),
        Invalid::Argument(why) => Fault::with(Code::INVALID_ARGUMENT, why),
        Invalid::Request(why) => Fault::with(Code::INVALID_REQUEST, why),
    }
}

fn malformed<T>() -> Outcome<T> {
    Err(Fault::new(Code::MALFORMED_XML))
}

/// Reads the document; what the rules say is not checked yet.
pub fn parse(body: &[u8]) -> Outcome<Config> {
    let mut doc = Doc::open(body, "LifecycleConfiguration")?;
    let mut config = Config::default();
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Rule" => {
                config.rules.push(rule(&mut doc)?);
                if config.rules.len() > ashlar_lifecycle::MAX_RULES {
                    return config.check(String::new).map_err(fault_of).map(|()| config);
                }
            }
            other => return doc.unexpected(other),
        }
    }
    doc.finish()?;
    Ok(config)
}

fn rule(doc: &mut Doc<'_>) -> Outcome<Rule> {
    let mut rule = Rule::default();
    let (mut status, mut filter, mut prefix) = (None, None, None);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "ID" => rule.id = doc.text()?,
            "Status" => status = Some(doc.text()?),
            "Prefix" if prefix.is_none() => prefix = Some(doc.text()?),
            "Filter" if filter.is_none() => filter = Some(self::filter(doc)?),
            "Expiration" if rule.expiration.is_none() => rule.expiration = Some(expiration(doc)?),
            "NoncurrentVersionExpiration" if rule.noncurrent.is_none() => {
                rule.noncurrent = Some(noncurrent(doc)?);
            }
            "AbortIncompleteMultipartUpload" if rule.abort_days.is_none() => {
                rule.abort_days = Some(only_days(doc, "DaysAfterInitiation")?);
            }
            "Transition" | "NoncurrentVersionTransition" => {
                return Err(Fault::not_implemented(&format!(
                    "Moving objects to another storage class ({name} in a lifecycle rule)"
                )));
            }
            "DelMarkerExpiration" | "AllVersionsExpiration" => {
                return Err(Fault::not_implemented(&format!("{name} in a lifecycle rule")));
            }
            other => return doc.unexpected(other),
        }
    }
    rule.enabled = match status.as_deref().map(str::trim) {
        Some("Enabled") => true,
        Some("Disabled") => false,
        _ => return malformed(),
    };
    match (filter, prefix) {
        (Some(filter), None) => rule.filter = filter,
        (None, Some(prefix)) => {
            rule.legacy = true;
            rule.filter.prefix = prefix;
        }
        _ => return malformed(),
    }
    Ok(rule)
}

fn filter(doc: &mut Doc<'_>) -> Outcome<Filter> {
    let mut filter = Filter::default();
    let mut predicates = 0;
    while let Some(name) = doc.child()? {
        predicates += 1;
        if name == "And" && predicates == 1 {
            let mut inner = 0;
            while let Some(name) = doc.child()? {
                inner += 1;
                predicate(doc, &name, &mut filter)?;
            }
            if inner == 0 {
                return malformed();
            }
        } else {
            predicate(doc, &name, &mut filter)?;
        }
    }
    if predicates > 1 { malformed() } else { Ok(filter) }
}

fn predicate(doc: &mut Doc<'_>, name: &str, filter: &mut Filter) -> Outcome<()> {
    match name {
        "Prefix" => filter.prefix = doc.text()?,
        "Tag" => {
            let (mut key, mut value) = (None, None);
            while let Some(name) = doc.child()? {
                match name.as_str() {
                    "Key" => key = Some(doc.text()?),
                    "Value" => value = Some(doc.text()?),
                    other => return doc.unexpected(other),
                }
            }
            let (Some(key), Some(value)) = (key, value) else { return malformed() };
            filter.tags.push((key, value));
        }
        "ObjectSizeGreaterThan" if filter.greater.is_none() => filter.greater = Some(doc.parse("a size")?),
        "ObjectSizeLessThan" if filter.less.is_none() => filter.less = Some(doc.parse("a size")?),
        other => return doc.unexpected(other),
    }
    Ok(())
}

fn expiration(doc: &mut Doc<'_>) -> Outcome<Expiration> {
    let mut found = None;
    let mut put = |e| if found.replace(e).is_some() { malformed() } else { Ok(()) };
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Days" => put(Expiration::Days(days(doc)?))?,
            "Date" => put(Expiration::Date(midnight(&doc.text()?)?))?,
            "ExpiredObjectDeleteMarker" => match doc.text()?.trim() {
                "true" => put(Expiration::Markers)?,
                "false" => {}
                _ => return malformed(),
            },
            "ExpiredObjectAllVersions" => match doc.text()?.trim() {
                "false" => {}
                _ => {
                    return Err(Fault::not_implemented(
                        "Expiring all versions at once (ExpiredObjectAllVersions in a lifecycle rule)",
                    ));
                }
            },
            other => return doc.unexpected(other),
        }
    }
    found.map_or_else(malformed, Ok)
}

fn noncurrent(doc: &mut Doc<'_>) -> Outcome<Noncurrent> {
    let (mut days, mut newer) = (None, None);
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "NoncurrentDays" if days.is_none() => days = Some(self::days(doc)?),
            "NewerNoncurrentVersions" if newer.is_none() => newer = Some(self::days(doc)?),
            other => return doc.unexpected(other),
        }
    }
    if days.is_none() && newer.is_none() {
        return malformed();
    }
    if days == Some(0) || newer == Some(0) {
        let what = if days == Some(0) { "NoncurrentDays" } else { "NewerNoncurrentVersions" };
        return Err(Fault::with(
            Code::INVALID_ARGUMENT,
            format!("'{what}' for NoncurrentVersionExpiration action must be a positive integer"),
        ));
    }
    Ok(Noncurrent { days: days.unwrap_or(0), newer: newer.unwrap_or(0) })
}

fn only_days(doc: &mut Doc<'_>, what: &str) -> Outcome<u32> {
    let mut found = None;
    while let Some(name) = doc.child()? {
        if name != what || found.is_some() {
            return doc.unexpected(&name);
        }
        found = Some(days(doc)?);
    }
    found.map_or_else(malformed, Ok)
}

/// A number of days; what is less than one, or beyond all numbers, is 0, which no rule may have.
fn days(doc: &mut Doc<'_>) -> Outcome<u32> {
    let n: i64 = doc.parse("a number of days")?;
    Ok(u32::try_from(n).unwrap_or(0))
}

/// Milliseconds since 1970 of a date with or without a time.
fn midnight(text: &str) -> Outcome<i64> {
    let text = text.trim();
    let seconds =
        if text.len() == 10 { date::parse_iso(&format!("{text}T00:00:00Z")) } else { date::parse_iso(text) };
    // A fraction of a second is no midnight either.
    let fraction = text.split_once('.').is_some_and(|(_, f)| f.bytes().any(|b| (b'1'..=b'9').contains(&b)));
    match seconds {
        Some(s) => Ok(s.saturating_mul(1000) + i64::from(fraction)),
        None => malformed(),
    }
}

/// The document of rules, in the form in which they were given.
pub fn print(config: &Config) -> Xml {
    let mut xml = Xml::with_capacity(512 + config.rules.len() * 256);
    xml.root("LifecycleConfiguration");
    for rule in &config.rules {
        xml.open("Rule").leaf("ID", &rule.id);
        match rule.legacy {
            true => {
                xml.leaf("Prefix", &rule.filter.prefix);
            }
            false => print_filter(&mut xml, &rule.filter),
        }
        xml.leaf("Status", if rule.enabled { "Enabled" } else { "Disabled" });
        if let Some(expiration) = rule.expiration {
            xml.open("Expiration");
            match expiration {
                Expiration::Days(n) => xml.plain("Days", n),
                Expiration::Date(ms) => xml.plain("Date", date::format_iso(ms)),
                Expiration::Markers => xml.plain("ExpiredObjectDeleteMarker", "true"),
            };
            xml.close();
        }
        if let Some(n) = rule.noncurrent {
            xml.open("NoncurrentVersionExpiration");
            if n.days > 0 {
                xml.plain("NoncurrentDays", n.days);
            }
            if n.newer > 0 {
                xml.plain("NewerNoncurrentVersions", n.newer);
            }
            xml.close();
        }
        if let Some(n) = rule.abort_days {
            xml.open("AbortIncompleteMultipartUpload").plain("DaysAfterInitiation", n).close();
        }
        xml.close();
    }
    xml.close();
    xml
}

fn print_filter(xml: &mut Xml, filter: &Filter) {
    let prefix = !filter.prefix.is_empty();
    let sizes = usize::from(filter.greater.is_some()) + usize::from(filter.less.is_some());
    let several = usize::from(prefix) + filter.tags.len() + sizes > 1;
    xml.open("Filter");
    if several {
        xml.open("And");
    }
    if prefix || (filter.tags.is_empty() && sizes == 0) {
        xml.leaf("Prefix", &filter.prefix);
    }
    for (key, value) in &filter.tags {
        xml.open("Tag").leaf("Key", key).leaf("Value", value).close();
    }
    if let Some(n) = filter.greater {
        xml.plain("ObjectSizeGreaterThan", n);
    }
    if let Some(n) = filter.less {
        xml.plain("ObjectSizeLessThan", n);
    }
    if several {
        xml.close();
    }
    xml.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rules: &str) -> Outcome<Config> {
        let mut c = parse(format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>").as_bytes())?;
        c.check(|| "id".into()).map_err(fault_of)?;
        Ok(c)
    }

    #[test]
    fn lifecycle_documents_round_trip() {
        for rules in [
            "<Rule><ID>a</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule>",
            "<Rule><ID>a</ID><Prefix>logs/</Prefix><Status>Disabled</Status><Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration></Rule>",
            "<Rule><ID>a</ID><Filter><Prefix/></Filter><Status>Enabled</Status><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>",
            "<Rule><ID>a</ID><Filter><And><Prefix>p</Prefix><Tag><Key>k</Key><Value>v</Value></Tag><Tag><Key>l</Key><Value/></Tag><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>50</ObjectSizeLessThan></And></Filter><Status>Enabled</Status><NoncurrentVersionExpiration><NoncurrentDays>4</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule>",
            "<Rule><ID>a</ID><Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule><Rule><ID>b</ID><Filter><Prefix/></Filter><Status>Enabled</Status><AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>",
        ] {
            let config = read(rules).unwrap();
            let printed = print(&config).finish();
            let want = format!(
                "<LifecycleConfiguration xmlns=\"{}\">{rules}</LifecycleConfiguration>",
                crate::xml::NAMESPACE
            );
            assert!(printed.ends_with(&want), "{printed}\n{want}");
            assert_eq!(Config::decode(&config.encode()), Some(config));
        }
    }

    #[test]
    fn invalid_rules_get_the_error_codes_of_aws() {
        let with = |what: &str| {
            format!(
                "<Rule><ID>a</ID><Filter><Prefix>p</Prefix></Filter><Status>Enabled</Status>{what}</Rule>"
            )
        };
        let days = "<Expiration><Days>1</Days></Expiration>";
        for (rules, code) in [
            (String::new(), "MalformedXML"),
            (with(""), "InvalidRequest"),
            (with("<Expiration><Days>0</Days></Expiration>"), "InvalidArgument"),
            (with("<Expiration><Days>-1</Days></Expiration>"), "InvalidArgument"),
            (with("<Expiration><Days>x</Days></Expiration>"), "MalformedXML"),
            (
                with("<Expiration><Days>1</Days><Date>2030-01-01T00:00:00Z</Date></Expiration>"),
                "MalformedXML",
            ),
            (with("<Expiration><Date>2030-01-01T00:00:01Z</Date></Expiration>"), "InvalidArgument"),
            (with("<Expiration><Date>20300101</Date></Expiration>"), "MalformedXML"),
            (with("<Expiration/>"), "MalformedXML"),
            (
                with("<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>"),
                "NotImplemented",
            ),
            (with("<NoncurrentVersionTransition/>"), "NotImplemented"),
            (
                with(
                    "<NoncurrentVersionExpiration><NoncurrentDays>0</NoncurrentDays></NoncurrentVersionExpiration>",
                ),
                "InvalidArgument",
            ),
            (with("<NoncurrentVersionExpiration/>"), "MalformedXML"),
            (with("<Unknown/>"), "MalformedXML"),
            (with(days) + &with(days), "InvalidArgument"),
            (with(days).replace("Enabled", "enabled"), "MalformedXML"),
            (with(days).replace("<Filter><Prefix>p</Prefix></Filter>", ""), "MalformedXML"),
            (with(days).replace("</Filter>", "</Filter><Prefix>p</Prefix>"), "MalformedXML"),
            (
                with(days).replace(
                    "<Prefix>p</Prefix>",
                    "<Prefix>p</Prefix><ObjectSizeLessThan>5</ObjectSizeLessThan>",
                ),
                "MalformedXML",
            ),
            (with(days).replace("<ID>a</ID>", &format!("<ID>{}</ID>", "x".repeat(256))), "InvalidArgument"),
            ((0..1001).map(|i| with(days).replace("<ID>a", &format!("<ID>{i}"))).collect(), "InvalidRequest"),
        ] {
            assert_eq!(read(&rules).unwrap_err().code().name, code, "{}", &rules[..rules.len().min(300)]);
        }
        let unnamed = with(days).replace("<ID>a</ID>", "");
        assert_eq!(read(&unnamed).unwrap().rules[0].id, "id");
        assert_eq!(read(&with("<Expiration><Date>2030-01-01</Date></Expiration>")).unwrap().rules.len(), 1);
    }
}
