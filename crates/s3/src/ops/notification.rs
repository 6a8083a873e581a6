//! Notification rules of a bucket, as S3's documents; streams of events.
//!
//! Invariants: `ashlar_events` checks rules before they are stored, and a target that is new in them has
//! accepted a test event, unless the request skips that; a slow listener learns how many events it missed,
//! and delays no other request.

use std::collections::BTreeSet;

use ashlar_events::rules::DOCUMENT;
use ashlar_events::{Error, Names, Rule, Rules, Shape, TargetId};
use ashlar_policy::Action;
use bytes::Bytes;
use http::header::{self, HeaderValue};

use super::{Answer, Call, Context, document, limit};
use crate::body::Body;
use crate::fault::{Code, Fault, Outcome};
use crate::headers;
use crate::notifications::{Filter, Stream};
use crate::while_permitted::WhilePermitted;
use crate::xml::{Doc, Xml};

/// The document's element, that of its target, and how the rule is kept.
const SHAPES: [(&str, &str, Shape); 3] = [
    ("TopicConfiguration", "Topic", Shape::Topic),
    ("QueueConfiguration", "Queue", Shape::Queue),
    ("CloudFunctionConfiguration", "CloudFunction", Shape::Function),
];

fn fault(error: Error) -> Fault {
    match error {
        Error::Unavailable(why) => Fault::new(Code::SLOW_DOWN).because(why),
        other => Fault::with(Code::INVALID_ARGUMENT, other.to_string()),
    }
}

/// What a bucket is set to.
fn stored(cx: &Context, call: &Call) -> Outcome<Rules> {
    let text = document::stored(cx, call, DOCUMENT)?;
    text.map_or(Ok(Rules::default()), |t| Rules::parse(&t, &cx.region).map_err(Fault::internal))
}

/// `GetBucketNotificationConfiguration`.
pub fn get(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let all = stored(cx, call)?;
    let mut xml = Xml::new();
    xml.root("NotificationConfiguration");
    for (element, target, shape) in SHAPES {
        for rule in all.rules.iter().filter(|r| r.shape == shape) {
            xml.open(element).leaf("Id", &rule.id).leaf(target, &rule.arn);
            for event in &rule.events {
                xml.leaf("Event", event);
            }
            if rule.prefix.is_some() || rule.suffix.is_some() {
                xml.open("Filter").open("S3Key");
                for (name, value) in [("prefix", &rule.prefix), ("suffix", &rule.suffix)] {
                    if let Some(value) = value {
                        xml.open("FilterRule").leaf("Name", name).leaf("Value", value).close();
                    }
                }
                xml.close().close();
            }
            xml.close();
        }
    }
    xml.close();
    Ok(Answer::document(xml))
}

/// `PutBucketNotificationConfiguration`.
pub async fn put(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    let before = stored(cx, call)?;
    let body = call.document(limit::CONFIGURATION).await?;
    let rules = read(&body)?;
    let target_manager = cx.notifications.target_manager();
    let knows = |id: &TargetId| target_manager.is_some_and(|h| h.knows(id));
    let all = Rules::new(rules, &cx.region, knows, fresh_id).map_err(fault)?;
    let skip = headers::ascii(&call.headers, "x-amz-skip-destination-validation");
    if let Some(target_manager) =
        target_manager.filter(|_| !skip.is_some_and(|v| v.eq_ignore_ascii_case("true")))
    {
        let of = |rules: &Rules| rules.rules.iter().filter_map(|r| r.target.clone()).collect::<BTreeSet<_>>();
        // Only those that are new: rules for others can be changed while a target is away.
        for id in of(&all).difference(&of(&before)) {
            target_manager.test(id, &call.bucket, &call.id).await.map_err(fault)?;
        }
    }
    let text = (!all.rules.is_empty()).then(|| all.text());
    document::set(cx, call, DOCUMENT, text.as_deref()).await?;
    Ok(Answer::ok())
}

/// A name for a rule without one.
fn fresh_id() -> String {
    let mut random = [0u8; 16];
    ashlar_environment::random::fill(&mut random).expect("the operating system gives random bytes");
    hex::encode(random)
}

fn read(body: &[u8]) -> Outcome<Vec<Rule>> {
    let mut doc = Doc::open(body, "NotificationConfiguration")?;
    let mut rules = Vec::new();
    while let Some(name) = doc.child()? {
        match SHAPES.iter().find(|(element, ..)| *element == name) {
            Some((_, target, shape)) => rules.push(rule(&mut doc, target, *shape)?),
            None if name == "EventBridgeConfiguration" => {
                return Err(Fault::not_implemented(
                    "Sending events to EventBridge (EventBridgeConfiguration)",
                ));
            }
            None => return doc.unexpected(&name),
        }
    }
    doc.finish()?;
    Ok(rules)
}

fn rule(doc: &mut Doc<'_>, target: &str, shape: Shape) -> Outcome<Rule> {
    let mut rule = Rule {
        id: String::new(),
        shape,
        arn: String::new(),
        events: Vec::new(),
        prefix: None,
        suffix: None,
        names: Names::default(),
        target: None,
    };
    while let Some(name) = doc.child()? {
        match name.as_str() {
            "Id" => rule.id = doc.text()?.trim().to_owned(),
            "Event" => rule.events.push(doc.text()?.trim().to_owned()),
            "Filter" => filter(doc, &mut rule)?,
            name if name == target => rule.arn = doc.text()?.trim().to_owned(),
            name => return doc.unexpected(name),
        }
    }
    Ok(rule)
}

fn filter(doc: &mut Doc<'_>, rule: &mut Rule) -> Outcome<()> {
    while let Some(name) = doc.child()? {
        if name != "S3Key" {
            return doc.unexpected(&name);
        }
        while let Some(name) = doc.child()? {
            if name != "FilterRule" {
                return doc.unexpected(&name);
            }
            let (mut which, mut value) = (String::new(), None);
            while let Some(name) = doc.child()? {
                match name.as_str() {
                    "Name" => which = doc.text()?.trim().to_ascii_lowercase(),
                    "Value" => value = Some(doc.text()?),
                    name => return doc.unexpected(name),
                }
            }
            let slot = match which.as_str() {
                "prefix" => &mut rule.prefix,
                "suffix" => &mut rule.suffix,
                _ => {
                    return Err(Fault::with(
                        Code::INVALID_ARGUMENT,
                        "filter rule name must be either prefix or suffix",
                    ));
                }
            };
            if slot.is_some() {
                let why = format!("Cannot specify more than one {which} rule in a filter.");
                return Err(Fault::with(Code::INVALID_ARGUMENT, why));
            }
            // An empty one means every key, and is not shown.
            *slot = Some(value.unwrap_or_default());
        }
        for slot in [&mut rule.prefix, &mut rule.suffix] {
            if slot.as_deref() == Some("") {
                *slot = None;
            }
        }
    }
    Ok(())
}

/// `ListenNotification`, `ListenBucketNotification`: MinIO's streams of events, one line of JSON each.
pub async fn listen(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    if !call.bucket.is_empty() {
        call.open()?;
    }
    let values = call.query.iter().filter(|(name, _)| *name == "events").flat_map(|(_, v)| v.split(','));
    let events: Vec<String> = values.filter(|e| !e.is_empty()).map(str::to_owned).collect();
    if events.is_empty() {
        return Err(Fault::argument("events", "", "At least one event must be specified."));
    }
    let one = |name: &str| call.query.filled(name).unwrap_or_default().to_owned();
    let ping = match call.query.filled("ping") {
        None => None,
        Some(text) => match text.parse::<u64>() {
            Ok(seconds @ 1..=3600) => Some(seconds),
            _ => return Err(Fault::argument("ping", text, "ping is a number of seconds, at most 3600")),
        },
    };
    let filter = Filter::new(call.bucket.clone(), one("prefix"), one("suffix"), events);
    let filter = filter.map_err(|event| {
        let why = format!("A specified event is not supported for notifications: {event}");
        Fault::argument("events", &event, why)
    })?;
    // All anonymous listeners count as one user.
    let stream = Stream::open(cx, filter, ping, call.verified.identity().principal().name).await?;
    // It ends with the credential, and with the permission.
    let action = match call.bucket.is_empty() {
        true => Action::ListenNotification,
        false => Action::ListenBucketNotification,
    };
    let stream = WhilePermitted::new(stream, call.standing(cx, action));
    let mut answer = Answer::ok();
    answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer.body = Body::endless(Bytes::new(), stream);
    Ok(answer)
}
