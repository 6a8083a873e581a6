//! Requests to members: to etcd's HTTP gateway about its own members, and to the greeting of a member that is blank.
//!
//! Sources: etcd's API reference, version 3 (`Cluster`, `Maintenance`, `KV`), whose gateway takes the same messages as
//! JSON with numbers of 64 bits as text.
//!
//! Invariant: a list of members is used only after a read that needed a quorum succeeded at the same member, so it has
//! every change that was decided before.
//!
//! Must not depend on: what is decided from the answers.

use std::time::Duration;

use ashlar_outbound::{Outbound, Rules, tls::Identity};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::state::Plan;
use crate::{Address, Certificates, Error, Result};

/// How long one request may take.
const CALL: Duration = Duration::from_secs(3);
/// Longest answer.
const LONGEST: usize = 1 << 20;
/// The path of the greeting.
pub const GREETING: &str = "/ashlar/etcd-member";

/// What a member says that has no etcd yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// The name of the cluster.
    pub cluster: String,
    /// See [`crate::state`].
    pub incarnation: String,
    /// What it wants to found.
    pub plan: Option<Plan>,
}

/// What is at the port for members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A member without etcd.
    Blank(Greeting),
    /// An etcd.
    Etcd,
    /// Nothing that answers: the reason.
    Silent(String),
}

/// A member of an etcd cluster, as etcd lists it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Listed {
    /// Its number, in decimal digits.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its name; empty until it was started.
    #[serde(default)]
    pub name: String,
    /// Where other members reach it.
    #[serde(default, rename = "peerURLs")]
    pub peer_urls: Vec<String>,
    /// Where clients reach it; none until it was started.
    #[serde(default, rename = "clientURLs")]
    pub client_urls: Vec<String>,
    /// Whether it does not vote yet.
    #[serde(default, rename = "isLearner")]
    pub is_learner: bool,
}

impl Listed {
    /// Where it is, as far as its URLs say so.
    pub fn address(&self) -> Option<Address> {
        let of = |urls: &[String]| {
            let (_, rest) = urls.first()?.split_once("://")?;
            let (host, port) = rest.rsplit_once(':')?;
            Some((host.to_owned(), port.trim_end_matches('/').parse().ok()?))
        };
        let ((host, peer), (_, client)) = (of(&self.peer_urls)?, of(&self.client_urls)?);
        Some(Address { host, client, peer })
    }
}

/// What a member says about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub struct Status {
    /// Its number, in decimal digits.
    #[serde(default)]
    pub id: String,
    /// The number of the leader, 0: none.
    #[serde(default)]
    pub leader: String,
    /// Its release.
    #[serde(default)]
    pub version: String,
    /// Size of its file, in bytes.
    #[serde(default)]
    pub size: u64,
    /// What of it is in use, in bytes.
    #[serde(default)]
    pub in_use: u64,
    /// Whether it does not vote yet.
    #[serde(default)]
    pub is_learner: bool,
}

impl Status {
    /// Whether it knows a leader.
    #[must_use]
    pub fn has_leader(&self) -> bool {
        !matches!(self.leader.as_str(), "" | "0")
    }
}

/// How members are asked.
pub struct Access {
    http: Outbound,
    /// `http` or `https`.
    pub scheme: &'static str,
}

impl Access {
    /// With the certificates of this node; `None`: without TLS.
    ///
    /// # Errors
    /// `Certificate`.
    pub fn new(certificates: Option<&Certificates>) -> Result<Access> {
        let identity = certificates.map(|all| Identity {
            certificates: all.own.clone().into_bytes(),
            key: all.key.as_bytes().to_vec(),
        });
        let rules = Rules {
            allow_loopback: true,
            allow_private: true,
            allow_link_local: true,
            authorities: certificates.map(|all| all.authority.clone().into_bytes()).into_iter().collect(),
            identity,
            timeout: CALL,
            max_body: LONGEST,
        };
        let http = Outbound::new(rules).map_err(|e| Error::Certificate(e.to_string()))?;
        Ok(Access { http, scheme: if certificates.is_some() { "https" } else { "http" } })
    }

    /// What is at the port for members.
    pub async fn peer(&self, member: &Address) -> Peer {
        let url = format!("{}{GREETING}", member.peer_url(self.scheme));
        match self.http.get(&url, &[]).await {
            Err(e) => Peer::Silent(e.to_string()),
            Ok(answer) if answer.status.is_success() => match serde_json::from_slice(&answer.body) {
                Ok(greeting) => Peer::Blank(greeting),
                Err(e) => Peer::Silent(format!("{url}: {e}")),
            },
            Ok(_) => Peer::Etcd,
        }
    }

    /// The members of the cluster that a member belongs to. It has a quorum.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn members(&self, at: &Address) -> Result<Vec<Listed>> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            members: Vec<Listed>,
        }
        // A read of one key, which waits until this member has applied what was decided before.
        let _: Value = self.ask(at, "/v3/kv/range", &json!({ "key": "YQ==", "count_only": true })).await?;
        let answer: Answer = self.ask(at, "/v3/cluster/member/list", &json!({})).await?;
        Ok(answer.members)
    }

    /// What a member says about itself. It may have no quorum.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn status(&self, at: &Address) -> Result<Status> {
        #[derive(Deserialize)]
        struct Header {
            #[serde(default)]
            member_id: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            header: Header,
            #[serde(default)]
            version: String,
            #[serde(default)]
            db_size: String,
            #[serde(default)]
            db_size_in_use: String,
            #[serde(default)]
            leader: String,
            #[serde(default)]
            is_learner: bool,
        }
        let answer: Answer = self.ask(at, "/v3/maintenance/status", &json!({})).await?;
        Ok(Status {
            id: answer.header.member_id,
            leader: answer.leader,
            version: answer.version,
            size: answer.db_size.parse().unwrap_or(0),
            in_use: answer.db_size_in_use.parse().unwrap_or(0),
            is_learner: answer.is_learner,
        })
    }

    /// Adds a member that does not vote; returns its number and the list with it.
    ///
    /// # Errors
    /// `Refused`, `Unavailable`: it may have been added.
    pub async fn add(&self, at: &Address, peer_url: &str) -> Result<(String, Vec<Listed>)> {
        #[derive(Deserialize)]
        struct Answer {
            member: Listed,
            members: Vec<Listed>,
        }
        let body = json!({ "peerURLs": [peer_url], "isLearner": true });
        let answer: Answer = self.ask(at, "/v3/cluster/member/add", &body).await?;
        Ok((answer.member.id, answer.members))
    }

    /// Removes a member. One that is not there is no error.
    ///
    /// # Errors
    /// `Refused`, `Unavailable`: it may have been removed.
    pub async fn remove(&self, at: &Address, id: &str) -> Result<()> {
        match self.ask::<Value>(at, "/v3/cluster/member/remove", &json!({ "ID": id })).await {
            Err(Error::Refused(why)) if !why.contains("member not found") => Err(Error::Refused(why)),
            Err(error @ Error::Unavailable(_)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes a learner a voter, if it is in sync.
    ///
    /// # Errors
    /// `Refused`: not yet. `Unavailable`.
    pub async fn promote(&self, at: &Address, id: &str) -> Result<()> {
        self.ask::<Value>(at, "/v3/cluster/member/promote", &json!({ "ID": id })).await.map(drop)
    }

    /// Gives unused space of a member's file back to the file system. The member answers nothing meanwhile.
    ///
    /// # Errors
    /// `Refused`, `Unavailable`.
    pub async fn defragment(&self, at: &Address) -> Result<()> {
        self.ask::<Value>(at, "/v3/maintenance/defragment", &json!({})).await.map(drop)
    }

    async fn ask<T: DeserializeOwned>(&self, at: &Address, path: &str, body: &Value) -> Result<T> {
        let url = format!("{}{path}", at.client_url(self.scheme));
        let body = Bytes::from(body.to_string());
        let answer = self.http.post(&url, &[], body).await;
        let answer = answer.map_err(|e| Error::Unavailable(format!("{at}: {e}")))?;
        if !answer.status.is_success() {
            return Err(refusal(at, &answer.body));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|e| Error::Unavailable(format!("{at}: the answer is not understood: {e}")))
    }
}

/// What a refusal means: whether asking again can help.
fn refusal(at: &Address, body: &[u8]) -> Error {
    #[derive(Deserialize, Default)]
    struct Said {
        #[serde(default)]
        code: i64,
        #[serde(default)]
        message: String,
    }
    let said: Said = serde_json::from_slice(body).unwrap_or_default();
    let text = format!("{at}: {}", said.message.trim_start_matches("etcdserver: "));
    match said.code {
        // NotFound, AlreadyExists, FailedPrecondition, InvalidArgument, PermissionDenied, Unauthenticated.
        3 | 5 | 6 | 7 | 9 | 16 => Error::Refused(text),
        _ => Error::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_from_what_may_pass() {
        let at = Address::parse("a").unwrap();
        let of = |body: &str| refusal(&at, body.as_bytes());
        // As etcd 3.4 answers: the text is there twice.
        let gone =
            r#"{"error":"etcdserver: member not found","message":"etcdserver: member not found","code":5}"#;
        assert_eq!(of(gone), Error::Refused("a: member not found".to_owned()));
        let passes = r#"{"error":"x","message":"etcdserver: unhealthy cluster","code":14}"#;
        assert_eq!(of(passes), Error::Unavailable("a: unhealthy cluster".to_owned()));
        assert!(matches!(of("<html>"), Error::Unavailable(_)));
    }

    #[test]
    fn members_are_read_as_etcd_lists_them() {
        let text = r#"{"ID":"7","peerURLs":["https://10.0.0.5:2380"],"isLearner":true}"#;
        let listed: Listed = serde_json::from_str(text).unwrap();
        assert!(listed.is_learner && listed.name.is_empty() && listed.address().is_none());
        let text = r#"{"ID":"7","name":"n","peerURLs":["https://[::1]:1"],"clientURLs":["https://[::1]:2"]}"#;
        let listed: Listed = serde_json::from_str(text).unwrap();
        assert_eq!(listed.address().unwrap().to_string(), "[::1]:2:1");
    }
}
