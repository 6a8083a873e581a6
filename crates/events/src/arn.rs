//! Names of notification targets: `arn:minio:sqs:REGION:ID:TYPE`, or `arn:ashlar:...`.

use std::fmt;

macro_rules! kinds {
    ($($id:ident $text:literal $subsystem:literal,)*) => {
        /// A kind of target.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum Kind { $($id,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Kind] = &[$(Kind::$id,)*];

            /// The name of the kind in an ARN.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Kind::$id => $text,)* }
            }

            /// The subsystem of its settings.
            #[must_use]
            pub fn subsystem(self) -> &'static str {
                match self { $(Kind::$id => $subsystem,)* }
            }
        }
    };
}

kinds! {
    Webhook "webhook" "notify_webhook",
    Kafka "kafka" "notify_kafka",
    Nats "nats" "notify_nats",
    Amqp "amqp" "notify_amqp",
    Mqtt "mqtt" "notify_mqtt",
    Redis "redis" "notify_redis",
    Postgres "postgresql" "notify_postgres",
    Mysql "mysql" "notify_mysql",
    Elasticsearch "elasticsearch" "notify_elasticsearch",
    Nsq "nsq" "notify_nsq",
}

impl Kind {
    /// The kind whose settings a subsystem holds.
    #[must_use]
    pub fn of_subsystem(subsystem: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| k.subsystem() == subsystem)
    }
}

/// The name of a target.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TargetId {
    /// Its name among those of its kind.
    pub id: String,
    /// Its kind: the protocol.
    pub kind: Kind,
}

impl TargetId {
    /// The target of that name.
    #[must_use]
    pub fn new(id: &str, kind: Kind) -> TargetId {
        TargetId { id: id.to_owned(), kind }
    }

    /// Reads `ID:TYPE`.
    #[must_use]
    pub fn parse(text: &str) -> Option<TargetId> {
        let (id, kind) = text.rsplit_once(':')?;
        let kind = Kind::ALL.iter().copied().find(|k| k.text() == kind)?;
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        (!id.is_empty() && id.len() <= 128 && id.chars().all(legal)).then(|| TargetId::new(id, kind))
    }

    /// Parses an ARN. Its region must be this server's or empty.
    #[must_use]
    pub fn of_arn(arn: &str, region: &str) -> Option<TargetId> {
        let rest = arn.strip_prefix("arn:minio:").or_else(|| arn.strip_prefix("arn:ashlar:"))?;
        let (service, rest) = rest.split_once(':')?;
        let (at, rest) = rest.split_once(':')?;
        let fits = matches!(service, "sqs" | "sns" | "lambda") && (at.is_empty() || at == region);
        if fits { TargetId::parse(rest) } else { None }
    }

    /// The ARN, as MinIO writes it.
    #[must_use]
    pub fn arn(&self, region: &str) -> String {
        format!("arn:minio:sqs:{region}:{self}")
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.id, self.kind.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns() {
        let id = TargetId::new("1", Kind::Webhook);
        for good in ["arn:minio:sqs::1:webhook", "arn:ashlar:sqs:r:1:webhook", "arn:minio:sns:r:1:webhook"] {
            assert_eq!(TargetId::of_arn(good, "r").as_ref(), Some(&id), "{good}");
        }
        assert_eq!(TargetId::of_arn(&id.arn("r"), "r"), Some(id));
        for bad in [
            "",
            "arn:aws:sqs:r:1:webhook",
            "arn:minio:sqs:other:1:webhook",
            "arn:minio:sqs::1:smtp",
            "arn:minio:sqs:::webhook",
            "arn:minio:s3:::1:webhook",
            "arn:minio:sqs::a b:webhook",
        ] {
            assert_eq!(TargetId::of_arn(bad, "r"), None, "{bad}");
        }
    }
}
