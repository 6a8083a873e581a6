//! Notification rules of a bucket.

use futures::future::BoxFuture;
use http::{HeaderName, Method};

use crate::{
    call::{Call, Client, Target},
    error::Result,
    ops::bucket::content_md5,
    types::Notice,
    xml::{Element, Writer},
};

/// The elements of rules, and the elements of their targets.
const SHAPES: [(&str, &str); 3] = [
    ("TopicConfiguration", "Topic"),
    ("QueueConfiguration", "Queue"),
    ("CloudFunctionConfiguration", "CloudFunction"),
];

fn notice(rule: &Element, target: &str) -> Notice {
    let filter = rule.child("Filter").and_then(|f| f.child("S3Key"));
    let of = |name: &str| {
        let all = filter.into_iter().flat_map(|f| f.all("FilterRule"));
        let found = all.into_iter().find(|r| r.text_of("Name").eq_ignore_ascii_case(name));
        found.map_or(String::new(), |r| r.text_of("Value").to_owned())
    };
    Notice {
        id: rule.text_of("Id").to_owned(),
        shape: rule.name.clone(),
        arn: rule.text_of(target).to_owned(),
        events: rule.all("Event").map(|e| e.text.clone()).collect(),
        prefix: of("prefix"),
        suffix: of("suffix"),
    }
}

impl Client {
    /// The notification rules of a bucket.
    pub fn notifications<'a>(&'a self, bucket: &'a str) -> BoxFuture<'a, Result<Vec<Notice>>> {
        Box::pin(async move {
            let call = Call::new(Method::GET, Target::Bucket(bucket)).query("notification", "");
            let (root, _) = self.xml(call).await?;
            let known = |e: &Element| {
                SHAPES.iter().find(|(shape, _)| *shape == e.name).map(|(_, target)| notice(e, target))
            };
            Ok(root.children.iter().filter_map(known).collect())
        })
    }

    /// Replaces all notification rules of a bucket.
    pub fn set_notices<'a>(&'a self, bucket: &'a str, all: &'a [Notice]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut body = Writer::new("NotificationConfiguration");
            for (shape, target) in SHAPES {
                for n in all.iter().filter(|n| n.shape == shape) {
                    body.open(shape).leaf("Id", &n.id).leaf(target, &n.arn);
                    for event in &n.events {
                        body.leaf("Event", event);
                    }
                    if !n.prefix.is_empty() || !n.suffix.is_empty() {
                        body.open("Filter").open("S3Key");
                        for (name, value) in [("prefix", &n.prefix), ("suffix", &n.suffix)] {
                            if !value.is_empty() {
                                body.open("FilterRule")
                                    .leaf("Name", name)
                                    .leaf("Value", value)
                                    .close("FilterRule");
                            }
                        }
                        body.close("S3Key").close("Filter");
                    }
                    body.close(shape);
                }
            }
            let body = body.finish("NotificationConfiguration");
            let md5 = content_md5(body.as_bytes());
            let call = Call::new(Method::PUT, Target::Bucket(bucket))
                .query("notification", "")
                .header(HeaderName::from_static("content-md5"), &md5)?
                .body(body);
            self.done(call).await.map(drop)
        })
    }
}
