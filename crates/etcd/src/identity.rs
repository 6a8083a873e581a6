//! Which store the keys in etcd are, and which stores it was restored from.
//!
//! A store that is made anew gets an identity of its own. One that was restored from a snapshot also names the store of
//! that snapshot, with its last change, and the ones from which that one was restored. So a node tells an etcd that
//! holds what it knows, in another place and with other revisions, from one that lacks something.
//!
//! Invariants: an identity never changes once its store is complete. The oldest of more than [`MAX_ANCESTORS`] ancestors
//! are forgotten: a node that knows nothing later refuses the store.
//!
//! Must not depend on: how etcd is spoken to, drives.

use ashlar_format::DeploymentId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::memory::Content;
use crate::{Error, Result};

/// Format of a store that was made with a new deployment.
const MADE: u32 = 1;
/// Format of a store that was restored.
const RESTORED: u32 = 2;
/// Most ancestors that an identity names.
const MAX_ANCESTORS: usize = 32;

/// Which deployment and which store the keys belong to, as etcd holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    format: u32,
    /// 32 hexadecimal digits.
    deployment: String,
    /// Made anew with each store: a store that was made again is another one.
    pub store: String,
    /// Whether the store is complete.
    pub complete: bool,
    /// The stores that it continues, the nearest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<Ancestor>,
}

/// A store as of the change from which another one was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ancestor {
    /// As [`Identity::store`].
    pub store: String,
    /// The revision of the last change.
    pub revision: u64,
    /// The mark of that change.
    pub mark: String,
}

impl Identity {
    /// A new store of a deployment.
    ///
    /// # Errors
    /// `Settings` if the system has no random bytes.
    pub fn new(deployment: DeploymentId) -> Result<Identity> {
        let random = || ashlar_environment::random::u64().map_err(|e| Error::Settings(e.to_string()));
        let store = format!("{:016x}{:016x}", random()?, random()?);
        Ok(Identity {
            format: MADE,
            deployment: deployment.to_hex(),
            store,
            complete: false,
            restored: Vec::new(),
        })
    }

    /// A new store that continues this content.
    ///
    /// # Errors
    /// As [`Identity::new`]; `Corrupt` if the content does not say what it is.
    pub fn continuing(content: &Content) -> Result<Identity> {
        let from = Identity::decode(&content.identity)?;
        let mut restored = from.restored.clone();
        restored.push(Ancestor::of(content, from.store));
        restored.drain(..restored.len().saturating_sub(MAX_ANCESTORS));
        Ok(Identity { format: RESTORED, restored, ..Identity::new(content.deployment)? })
    }

    /// # Errors
    /// `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Identity> {
        #[derive(Deserialize)]
        struct Numbered {
            format: u32,
        }
        let bad = |why: String| Error::Corrupt(format!("the identity of the cluster: {why}"));
        let read = |e: serde_json::Error| bad(e.to_string());
        let Numbered { format } = serde_json::from_slice(bytes).map_err(read)?;
        if format != MADE && format != RESTORED {
            return Err(bad(format!("format {format} is of another release")));
        }
        let identity: Identity = serde_json::from_slice(bytes).map_err(read)?;
        if identity.restored.is_empty() != (format == MADE) {
            return Err(bad(format!("format {format} with {} ancestors", identity.restored.len())));
        }
        Ok(identity)
    }

    /// The value in etcd while the store is being made, or afterwards.
    pub fn encode(&self, complete: bool) -> Bytes {
        // Serialising this type cannot fail.
        Bytes::from(serde_json::to_vec(&Identity { complete, ..self.clone() }).unwrap_or_default())
    }

    /// # Errors
    /// `Corrupt`.
    pub fn deployment(&self) -> Result<DeploymentId> {
        DeploymentId::from_hex(&self.deployment)
            .ok_or_else(|| Error::Corrupt("the deployment in the identity of the cluster".to_owned()))
    }

    /// The state of `store` that this one was restored from.
    pub fn ancestor(&self, store: &str) -> Option<&Ancestor> {
        self.restored.iter().rev().find(|a| a.store == store)
    }

    /// The state that it was restored from.
    pub fn source(&self) -> Option<&Ancestor> {
        self.restored.last()
    }

    /// Whether this store was restored from the one that `known` is of. `None`: it was not.
    ///
    /// # Errors
    /// It was, but from an older state than `known`: `RestoredFromOlder`; or `Replaced`.
    pub fn continues(&self, known: &Content) -> Option<Result<()>> {
        let theirs = Identity::decode(&known.identity).ok()?;
        let from = self.ancestor(&theirs.store).filter(|_| self.deployment == theirs.deployment)?;
        let (known, mark) = (known.head.0, String::from_utf8_lossy(&known.head.1));
        Some(match from.revision {
            revision if revision < known => Err(Error::RestoredFromOlder { restored: revision, known }),
            revision if revision == known && from.mark != mark => Err(Error::Replaced(format!(
                "it was restored from a state in which revision {revision} was another change"
            ))),
            _ => Ok(()),
        })
    }

    /// Whether the making of this store may begin anew where that of `found` was not completed.
    ///
    /// # Errors
    /// `Incomplete`: a restore must be repeated. `Refused`: something else is being made, or `found` was to be restored
    /// from a state that is newer than, or no part of, what this store is restored from.
    pub fn may_take_over(&self, found: &Identity, name: &str) -> Result<()> {
        match (self.source(), found.source()) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(Error::Incomplete(name.to_owned())),
            (Some(_), None) => Err(Error::Refused(format!(
                "a new cluster named {name} is being made in it: remove its keys first"
            ))),
            (Some(ours), Some(theirs)) => match self.ancestor(&theirs.store) {
                Some(from) if self.deployment == found.deployment && from.revision >= theirs.revision => {
                    Ok(())
                }
                _ => Err(Error::Refused(format!(
                    "a restore from revision {} of store {} was begun and not completed; this one is from revision {} of \
                     store {}. Repeat that one, with the folders that it was given, or remove its keys first",
                    theirs.revision, theirs.store, ours.revision, ours.store
                ))),
            },
        }
    }
}

impl Ancestor {
    fn of(content: &Content, store: String) -> Ancestor {
        let mark = String::from_utf8_lossy(&content.head.1).into_owned();
        Ancestor { store, revision: content.head.0, mark }
    }

    /// Whether it is this state of `store`.
    pub fn is(&self, content: &Content, store: &str) -> bool {
        *self == Ancestor::of(content, store.to_owned())
    }
}

/// Whether a snapshot of `a` is to be used rather than one of `b`: it is a later state of the same store, or its store
/// was restored from that of `b`, whatever more `b` may know. Of stores that have nothing to do with each other, the
/// one at the higher revision.
pub fn is_later(a: &Content, b: &Content) -> bool {
    match a.identity == b.identity {
        true => a.known > b.known,
        false => match (descends(a, b), descends(b, a)) {
            (true, _) => true,
            (_, true) => false,
            _ => a.known > b.known,
        },
    }
}

/// Why a drive keeps its snapshot of `held` when it is given one of `given`; `None`: it does not.
pub fn keeps(held: &Content, given: &Content) -> Option<&'static str> {
    if held.identity == given.identity {
        return (held.known > given.known).then_some("its snapshot is newer");
    }
    let continues = |later: &Content, earlier| Identity::decode(&later.identity).ok()?.continues(earlier);
    match (continues(given, held), continues(held, given)) {
        (Some(Err(_)), _) => {
            Some("its snapshot has changes that the control store, which was restored, lacks")
        }
        (_, Some(_)) => Some("its snapshot is of a control store that was restored later"),
        _ => None,
    }
}

fn descends(a: &Content, b: &Content) -> bool {
    Identity::decode(&a.identity).is_ok_and(|identity| identity.continues(b).is_some())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A content of a store that was made, without entries.
    pub fn made(store: &str, head: u64) -> Content {
        let identity = Identity { store: store.to_owned(), ..Identity::new(DeploymentId([9; 16])).unwrap() }
            .encode(true);
        Content {
            deployment: DeploymentId([9; 16]),
            identity,
            etcd: 5,
            known: head + 3,
            revision: head,
            head: (head, Bytes::from(format!("mark-{head}"))),
            entries: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// A content of a store that was restored from another one.
    pub fn restored(from: &Content, store: &str, head: u64) -> Content {
        let identity = Identity { store: store.to_owned(), ..Identity::continuing(from).unwrap() };
        Content { identity: identity.encode(true), ..made(store, head) }
    }

    fn identity(content: &Content) -> Identity {
        Identity::decode(&content.identity).unwrap()
    }

    #[test]
    fn golden() {
        let text = |content: &Content| String::from_utf8(content.identity.to_vec()).unwrap();
        let a = made("aa", 7);
        assert_eq!(
            text(&a),
            r#"{"format":1,"deployment":"09090909090909090909090909090909","store":"aa","complete":true}"#
        );
        let b = restored(&a, "bb", 2);
        assert_eq!(
            text(&b),
            r#"{"format":2,"deployment":"09090909090909090909090909090909","store":"bb","complete":true,"restored":[{"store":"aa","revision":7,"mark":"mark-7"}]}"#
        );
        for bad in [
            text(&b).replace("\"format\":2", "\"format\":3"),
            text(&b).replace("\"format\":2", "\"format\":1"),
            text(&a).replace("\"format\":1", "\"format\":2"),
            text(&a).replace("\"store\"", "\"shop\""),
        ] {
            assert!(matches!(Identity::decode(bad.as_bytes()), Err(Error::Corrupt(_))), "{bad}");
        }
    }

    #[test]
    fn a_store_continues_what_it_was_restored_from_and_nothing_newer() {
        let a = made("a", 7);
        let c = restored(&restored(&a, "b", 20), "c", 5);
        let continues = |known: &Content| identity(&c).continues(known);
        for known in [made("a", 6), a.clone(), restored(&a, "b", 19), restored(&a, "b", 20)] {
            assert_eq!(continues(&known), Some(Ok(())));
        }
        assert!(matches!(
            continues(&made("a", 8)),
            Some(Err(Error::RestoredFromOlder { restored: 7, known: 8 }))
        ));
        assert!(matches!(continues(&restored(&a, "b", 21)), Some(Err(Error::RestoredFromOlder { .. }))));
        let other = Content { head: (7, Bytes::from_static(b"another change")), ..a.clone() };
        assert!(matches!(continues(&other), Some(Err(Error::Replaced(_)))));
        assert_eq!(continues(&made("z", 7)), None);
        assert_eq!(continues(&c), None, "it is the same store");
        assert_eq!(identity(&a).continues(&c), None);
    }

    #[test]
    fn a_restored_store_is_later_although_its_revisions_are_lower() {
        let a = made("a", 1000);
        let b = restored(&a, "b", 5);
        let more = made("a", 1001);
        for (later, earlier) in [(&b, &a), (&b, &more), (&more, &a), (&restored(&b, "c", 2), &a)] {
            assert!(is_later(later, earlier) && !is_later(earlier, later));
        }
        assert!(is_later(&made("x", 9), &made("y", 8)) && !is_later(&a, &a));
    }

    #[test]
    fn only_the_oldest_ancestors_are_forgotten() {
        let mut content = made("0", 1);
        for n in 1..=MAX_ANCESTORS {
            content = restored(&content, &n.to_string(), 1);
        }
        assert_eq!(identity(&content).continues(&made("0", 1)), Some(Ok(())));
        content = restored(&content, "last", 1);
        assert_eq!(identity(&content).restored.len(), MAX_ANCESTORS);
        assert_eq!(identity(&content).continues(&made("0", 1)), None);
        assert_eq!(identity(&content).continues(&made("1", 1)), Some(Ok(())));
        assert_eq!(identity(&content).source().map(|s| s.store.as_str()), Some("32"));
    }

    #[test]
    fn what_was_not_completed_is_taken_over_by_what_knows_as_much() {
        let may = |a: &Content, b: &Content| identity(a).may_take_over(&identity(b), "prod");
        let (new, a, newer) = (made("new", 1), made("a", 7), made("a", 8));
        let (from_a, from_newer) = (restored(&a, "b", 1), restored(&newer, "b2", 1));
        assert_eq!(may(&new, &made("other", 1)), Ok(()));
        assert!(matches!(may(&new, &from_a), Err(Error::Incomplete(_))));
        assert!(matches!(may(&from_a, &new), Err(Error::Refused(_))));
        assert_eq!(may(&from_a, &restored(&a, "again", 1)), Ok(()));
        assert_eq!(may(&from_newer, &from_a), Ok(()));
        assert!(may(&from_a, &from_newer).unwrap_err().to_string().contains("revision 8"));
        assert_eq!(may(&restored(&from_newer, "c", 1), &from_a), Ok(()));
        assert!(matches!(may(&from_a, &restored(&made("z", 1), "y", 1)), Err(Error::Refused(_))));
    }
}
