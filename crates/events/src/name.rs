//! The names of events: AWS's and MinIO's, with wildcards.
//!
//! Invariants: every accepted name is printed in one form; events of tags have AWS's names, which
//! `s3:ObjectCreated:*` does not cover, and MinIO's names for them are synonyms. Must not depend on the cause
//! of an event.

macro_rules! names {
    ($($id:ident $text:literal $sent:literal,)*) => {
        /// An event.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Name { $($id,)* }

        impl Name {
            /// All events.
            pub const ALL: &'static [Name] = &[$(Name::$id,)*];

            /// Its name in configurations and records.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Name::$id => $text,)* }
            }

            /// Whether it tells of a read, which changes nothing.
            #[must_use]
            pub fn is_read(self) -> bool {
                self.text().starts_with("s3:ObjectAccessed:")
            }

            /// Whether this server ever sends it. Other names are accepted so that configurations written for
            /// other servers can be stored.
            #[must_use]
            pub fn is_sent(self) -> bool {
                match self { $(Name::$id => $sent,)* }
            }
        }
    };
}

names! {
    CreatedPut "s3:ObjectCreated:Put" true,
    CreatedPost "s3:ObjectCreated:Post" true,
    CreatedCopy "s3:ObjectCreated:Copy" true,
    CreatedComplete "s3:ObjectCreated:CompleteMultipartUpload" true,
    PutRetention "s3:ObjectCreated:PutRetention" true,
    PutLegalHold "s3:ObjectCreated:PutLegalHold" true,
    RemovedDelete "s3:ObjectRemoved:Delete" true,
    RemovedMarker "s3:ObjectRemoved:DeleteMarkerCreated" true,
    RemovedAllVersions "s3:ObjectRemoved:DeleteAllVersions" false,
    RemovedNoOp "s3:ObjectRemoved:NoOP" false,
    AccessedGet "s3:ObjectAccessed:Get" true,
    AccessedHead "s3:ObjectAccessed:Head" true,
    AccessedRetention "s3:ObjectAccessed:GetRetention" true,
    AccessedLegalHold "s3:ObjectAccessed:GetLegalHold" true,
    AccessedAttributes "s3:ObjectAccessed:Attributes" true,
    TaggingPut "s3:ObjectTagging:Put" true,
    TaggingDelete "s3:ObjectTagging:Delete" true,
    AclPut "s3:ObjectAcl:Put" true,
    ExpirationDelete "s3:LifecycleExpiration:Delete" true,
    ExpirationMarker "s3:LifecycleExpiration:DeleteMarkerCreated" true,
    MarkerExpiration "s3:LifecycleDelMarkerExpiration:Delete" false,
    LifecycleTransition "s3:LifecycleTransition" false,
    TransitionComplete "s3:ObjectTransition:Complete" false,
    TransitionFailed "s3:ObjectTransition:Failed" false,
    RestorePost "s3:ObjectRestore:Post" false,
    RestoreCompleted "s3:ObjectRestore:Completed" false,
    RestoreDelete "s3:ObjectRestore:Delete" false,
    ReplicationFailed "s3:Replication:OperationFailedReplication" false,
    ReplicationCompleted "s3:Replication:OperationCompletedReplication" false,
    ReplicationMissed "s3:Replication:OperationMissedThreshold" false,
    ReplicationAfter "s3:Replication:OperationReplicatedAfterThreshold" false,
    ReplicationNotTracked "s3:Replication:OperationNotTracked" false,
    IntelligentTiering "s3:IntelligentTiering" false,
    LostObject "s3:ReducedRedundancyLostObject" false,
    ManyVersions "s3:Scanner:ManyVersions" false,
    LargeVersions "s3:Scanner:LargeVersions" false,
    BigPrefix "s3:Scanner:BigPrefix" false,
    BucketCreated "s3:BucketCreated:*" false,
    BucketRemoved "s3:BucketRemoved:*" false,
    Test "s3:TestEvent" false,
}

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.text())
    }
}

impl<'de> serde::Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Name, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        let found = Name::ALL.iter().copied().find(|n| n.text() == text);
        found.ok_or_else(|| serde::de::Error::custom("no event of that name"))
    }
}

/// A set of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Names(u64);

impl Names {
    /// Parses a name, or a prefix with `*` at its end, which stands for all events that begin with it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Names> {
        // MinIO's names for AWS's s3:ObjectTagging.
        let text = match text {
            "s3:ObjectCreated:PutTagging" => "s3:ObjectTagging:Put",
            "s3:ObjectCreated:DeleteTagging" => "s3:ObjectTagging:Delete",
            "s3:LifecycleTransition:*" => "s3:LifecycleTransition",
            "s3:IntelligentTiering:*" => "s3:IntelligentTiering",
            text => text,
        };
        if text == Name::Test.text() {
            return None;
        }
        if let Some(one) = Name::ALL.iter().find(|n| n.text() == text) {
            return Some(Names::one(*one));
        }
        let start = text.strip_suffix('*').filter(|s| s.ends_with(':') && s.matches(':').count() == 2)?;
        let covered = Name::ALL.iter().filter(|n| n.text().starts_with(start));
        let all = covered.fold(Names::default(), |all, n| all.and(Names::one(*n)));
        (!all.is_empty()).then_some(all)
    }

    /// The set of one event.
    #[must_use]
    pub fn one(name: Name) -> Names {
        Names(1 << name as u8)
    }

    /// The union of both sets.
    #[must_use]
    pub fn and(self, other: Names) -> Names {
        Names(self.0 | other.0)
    }

    /// Whether the set contains this event.
    #[must_use]
    pub fn has(self, name: Name) -> bool {
        self.0 & (1 << name as u8) != 0
    }

    /// Whether the sets have an event in common.
    #[must_use]
    pub fn meets(self, other: Names) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_and_wildcards_are_parsed() {
        assert!(Name::ALL.len() <= 64, "a set is 64 bits");
        for name in Name::ALL.iter().filter(|n| **n != Name::Test) {
            assert_eq!(Names::parse(name.text()), Some(Names::one(*name)), "{name:?}");
        }
        let created = Names::parse("s3:ObjectCreated:*").unwrap();
        assert!(created.has(Name::CreatedPut) && created.has(Name::PutLegalHold));
        assert!(!created.has(Name::TaggingPut) && !created.has(Name::RemovedDelete));
        assert_eq!(Names::parse("s3:ObjectCreated:PutTagging"), Names::parse("s3:ObjectTagging:Put"));
        assert!(Names::parse("s3:ObjectAcl:*").unwrap().has(Name::AclPut));
        for bad in [
            "",
            "*",
            "s3:*",
            "s3:TestEvent",
            "s3:Object*",
            "s3:ObjectCreated:P*",
            "s3:ObjectCreated",
            "x:ObjectCreated:*",
        ] {
            assert_eq!(Names::parse(bad), None, "{bad}");
        }
    }
}
